// Goal: whatever stands in a file, the reader neither crashes nor hangs, and every problem can be found and acted on.
// Method: two good files, changed at random a thousand times and more each, by seed.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/config.h"

namespace config_mutation_test {

using gateway::Loaded;
using gateway::Overrides;
using gateway::Problem;
using namespace std::chrono_literals;

const std::string kFile = "callgate.yaml";

std::string example() {
  std::ifstream file{std::filesystem::path{PROJECT_ROOT} / "docs/callgate.example.yaml"};
  EXPECT_TRUE(file);
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// Every form that a file may have.
const std::string kRich = R"(# A comment, with an umlaut: ä
listen:
  data: "[::1]:4600"
  health: 0.0.0.0:4601
  admin: unix:/run/callgate/admin.sock
  hosts:
    - localhost
    - "127.0.0.1"
    - '[::1]'
    - callgate.default.svc
upstreams:
  eu: &eu
    dialect: openai
    url: https://eu.api.openai.com
    http: 2
    timeouts: &slow {connect: 3s, first_byte: 300s, idle: "60s", total: 1h}
    limits: {concurrent: 64}
    replay_safe: [/v1/rerank, "/v1/score"]
  other: *eu
  openai:
    timeouts: *slow
    limits:
      concurrent: ${env:CONCURRENT:-32}
  gpu-1.local: {dialect: openai, url: "http://127.0.0.1:8000"}
default_upstream: {openai: eu}
retry:
  base: 250ms
  cap: 20s
  on_timeout: false
  interactive: {attempts: 2}
  bulk: {attempts: "${ATTEMPTS:-6}", max_elapsed: 90s}
  backfill:
queue: {total: 500, max_wait: {interactive: 5s, bulk: 1m, backfill: 1h}}
stream: {hold_head: 10s, hold_bytes: 64KiB, ask_for_usage: false, heartbeat: 0s}
answers:
  hold_unary: 1MiB
limits:
  {header_bytes: 32KiB, body_bytes: 8MiB,
   buffered_bytes: 256MiB, connections: 1000, half_close: allow}
shutdown: {drain: 5s}
log:
  level: warn
  format: >-
    text
)";

class Chance {
 public:
  explicit Chance(unsigned seed) : random_(seed) {}
  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random_); }
  template <typename List>
  const auto& one_of(const List& list) {
    return list[below(std::size(list))];
  }

 private:
  std::mt19937 random_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

template <typename Change>
std::string with_lines(const std::string& text, const Change& change) {
  std::vector<std::string> lines = lines_of(text);
  if (lines.empty()) return text;
  change(lines);
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

std::string repeated(const std::string& piece, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += piece;
  return text;
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

const std::string kPieces[] = {"{",
                               "}",
                               "[",
                               "]",
                               ":",
                               ": ",
                               "- ",
                               "\n",
                               "\t",
                               "  ",
                               "\"",
                               "'",
                               "*a",
                               "&a ",
                               "!!x ",
                               "#",
                               "|",
                               ">",
                               "? ",
                               "${",
                               "${A}",
                               "$$",
                               "~",
                               "-1",
                               "<<: ",
                               "---\n",
                               "...\n",
                               "%",
                               "@",
                               ",",
                               "\xFF",
                               "\xC3",
                               "\xED\xA0\x80",
                               "\u00a0",
                               "\u2028",
                               "\xEF\xBB\xBF",
                               "999999999999999999999999999",
                               "1e999",
                               "-0",
                               "0x1F",
                               "NaN",
                               "\r",
                               "\x1b[31m",
                               "\x7f",
                               "..",
                               "/"};

std::string mutated(std::string text, Chance& chance) {
  for (std::size_t changes = 1 + chance.below(3); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = chance.below(text.size());
    switch (chance.below(18)) {
      case 0:  // A bit.
        text[at] = static_cast<char>(static_cast<unsigned char>(text[at]) ^ (1U << chance.below(8)));
        break;
      case 1:  // A byte; any, NUL too.
        text[at] = static_cast<char>(chance.below(256));
        break;
      case 2:
        text.erase(at, 1 + chance.below(20));
        break;
      case 3:
        text.insert(at, text.substr(chance.below(text.size()), chance.below(200)));
        break;
      case 4:
        text.insert(at, chance.one_of(kPieces));
        break;
      case 5:
        text.insert(at, std::string(1 + chance.below(3), '\0'));
        break;
      case 6:
        text.resize(at);
        break;
      case 7:  // Lines change places, …
        text = with_lines(text, [&](auto& lines) {
          std::swap(lines[chance.below(lines.size())], lines[chance.below(lines.size())]);
        });
        break;
      case 8:  // … are there twice, …
        text = with_lines(text, [&](auto& lines) {
          const std::string line = lines[chance.below(lines.size())];
          lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(chance.below(lines.size())), line);
        });
        break;
      case 9:  // … or not at all, …
        text = with_lines(text, [&](auto& lines) {
          lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(chance.below(lines.size())));
        });
        break;
      case 10:  // … or begin elsewhere, …
        text = with_lines(text, [&](auto& lines) {
          std::string& line = lines[chance.below(lines.size())];
          if (chance.below(2) == 0) {
            line.insert(0, std::string(1 + chance.below(4), ' '));
          } else {
            line.erase(0, std::min<std::size_t>(line.find_first_not_of(' '), 1 + chance.below(4)));
          }
        });
        break;
      case 11:  // … or with a tab.
        text = with_lines(text, [&](auto& lines) {
          std::string& line = lines[chance.below(lines.size())];
          line = replace_all(line, "  ", "\t");
        });
        break;
      case 12:
        text.insert(at, std::string(chance.one_of(std::to_array<std::size_t>({300, 5'000, 100'000})), 'x'));
        break;
      case 13:
        text.insert(
            at,
            repeated(chance.one_of(std::to_array<std::string>({"[", "{a: ", "- ", "? "})), 1 + chance.below(400)));
        break;
      case 14:  // Ten times ten times ten …
        text += "\nbomb: [&x0 [a, a, a, a, a, a, a, a, a, a]";
        for (int i = 1; i < 9; ++i) {
          const std::string before = "*x" + std::to_string(i - 1);
          text += ", &x" + std::to_string(i) + " [" + before + repeated(", " + before, 9) + "]";
        }
        text += "]\n";
        break;
      case 15:
        text = replace_all(text, "\n", "\r\n");
        break;
      case 16:
        text.insert(0, "\xEF\xBB\xBF");
        break;
      default:  // A number becomes a huge one.
        if (const std::size_t digit = text.find_first_of("0123456789", at); digit != std::string::npos) {
          text.insert(digit, std::string(1 + chance.below(40), '9'));
        }
    }
  }
  return text;
}

bool same(const Problem& a, const Problem& b) { return text_of(a) == text_of(b) && a.kind == b.kind; }

/// Whether it is usable.
bool look_at(const std::string& text, const Overrides& overrides) {
  const auto begin = std::chrono::steady_clock::now();
  const Loaded loaded = gateway::parse_config(text, kFile, overrides);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << "hangs";
  bool error = false;
  for (const Problem& problem : loaded.problems) {
    EXPECT_EQ(problem.file, kFile);
    EXPECT_FALSE(problem.message.empty());
    EXPECT_LT(text_of(problem).size(), 1'500U) << text_of(problem);
    EXPECT_EQ(text_of(problem).find('\n'), std::string::npos) << text_of(problem);
    const bool whole_file = problem.kind == Problem::Kind::Unreadable && problem.path.empty();
    if (!whole_file) {
      EXPECT_GT(problem.line, 0) << text_of(problem);
      EXPECT_GT(problem.column, 0) << text_of(problem);
    }
    error = error || problem.severity == Problem::Severity::Error;
  }
  EXPECT_EQ(loaded.usable(), !error);
  const Loaded again = gateway::parse_config(text, kFile, overrides);
  EXPECT_TRUE(loaded.config == again.config);
  EXPECT_TRUE(std::ranges::equal(loaded.problems, again.problems, same));
  return loaded.usable();
}

TEST(ConfigMutation, of_a_good_file_never_crashes_hangs_or_goes_without_a_place) {
  const Overrides overrides{.environment = {{"A", "1"}}};
  const std::string sources[] = {example(), kRich};
  for (const std::string& source : sources) {
    EXPECT_TRUE(gateway::parse_config(source, kFile, overrides).usable());
  }
  std::size_t usable = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr unsigned kSeeds = 150;  // Each costs many times what it does without.
#else
  constexpr unsigned kSeeds = 600;
#endif
  for (unsigned seed = 1; seed <= 2 * kSeeds; ++seed) {
    SCOPED_TRACE(seed);
    Chance chance{seed};
    const std::string text = mutated(sources[seed % 2], chance);
    if (look_at(text, overrides)) ++usable;
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(usable, kSeeds / 10) << "else the mutations are too wild";
  EXPECT_LT(usable, kSeeds * 2 * 9 / 10) << "else the mutations are too tame";
}

TEST(ConfigMutation, of_the_worst_kind_is_refused_in_time) {
  const std::string kWorst[] = {
      repeated("[", 500'000),
      repeated("{", 500'000),
      repeated("- ", 300'000),
      repeated("a:\n ", 200'000),
      repeated("? ", 300'000),
      "a: " + std::string(900'000, 'x'),
      std::string(900'000, 'x') + ": a",
      "\"" + std::string(900'000, '\\') + "\": 1",
      repeated("&a ", 300'000),
      repeated("k: &a [*a]\n", 80'000),
      std::string(1'000'000, '\0'),
      std::string(1'000'000, '\n'),
      repeated("x: 1\n", 200'000),
      repeated("\"", 999'999),
      repeated("#", 999'999),
      repeated("${", 499'999),
      "log: {level: \"" + repeated("${", 400'000) + "\"}",
      "retry: {base: " + std::string(500'000, '9') + "s}",
      repeated("--- ", 249'999),
      repeated("!", 999'999),
      repeated("*a ", 333'333),
      std::string(1'100'000, '#'),
  };
  for (const std::string& text : kWorst) {
    SCOPED_TRACE(text.substr(0, 30));
    EXPECT_FALSE(look_at(text, {}) && text.find_first_not_of("#\n") != std::string::npos);
  }
}

TEST(ConfigMutation, of_line_ends_and_a_byte_order_mark_mean_nothing) {
  for (const std::string& source : {example(), kRich}) {
    const Loaded plain = gateway::parse_config(source, kFile);
    for (const std::string& text : {replace_all(source, "\n", "\r\n"),
                                    "\xEF\xBB\xBF" + source,
                                    source + "\n\n",
                                    source.substr(0, source.size() - 1)}) {
      const Loaded other = gateway::parse_config(text, kFile);
      EXPECT_TRUE(other.usable()) << (other.problems.empty() ? "" : text_of(other.problems[0]));
      EXPECT_TRUE(other.config == plain.config);
    }
  }
}

}  // namespace config_mutation_test
