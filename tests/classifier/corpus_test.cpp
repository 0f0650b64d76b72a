// Goal: every recorded failure and every recorded answer of the dialects that this version speaks is read as the
// corpora say, however its bytes come: whole, at random splits, compressed. Method: each case goes through
// classifier/cases.h, as `callgate classify --cases` and `callgate usage --cases` put it there. Prints a confusion
// matrix per provider. Providers whose own dialect is not in this version are read by the nearest one, and only the
// share that came out right is printed: they cannot fail here.

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "classifier/cases.h"
#include "classifier/frames.h"
#include "tests/classifier/help.h"

namespace corpus_test {

using classifier::Case;
using classifier::ExpectedUsage;
using classifier::ExpectedVerdict;
using classifier::UsageCase;
using classifier::VerdictCase;

template <class Read>
auto cases_of(const std::string& name, Read read) {
  std::ifstream file{std::string{PROJECT_ROOT} + "/tests/fixtures/" + name};
  std::vector<typename decltype(read(std::string_view{}))::value_type> cases;
  for (std::string line; std::getline(file, line);) {
    if (line.empty()) continue;
    auto one = read(std::string_view{line});
    if (!one) {
      ADD_FAILURE() << name << ": " << one.error() << '\n' << line;
      continue;
    }
    cases.push_back(std::move(*one));
  }
  return cases;
}

/// Of how many cases the corpora have at least, for each dialect that is spoken.
struct Least {
  int failures;
  int usages;
};
const std::map<std::string, Least, std::less<>> kLeast = {{"openai", {21, 8}},
                                                          {"anthropic", {21, 8}},
                                                          {"gemini", {21, 8}},
                                                          {"mistral", {7, 3}},
                                                          {"cohere", {8, 3}},
                                                          {"ollama", {6, 2}},
                                                          {"groq", {7, 1}},
                                                          {"deepseek", {7, 1}},
                                                          {"xai", {6, 2}},
                                                          {"together", {4, 1}},
                                                          {"fireworks", {4, 1}},
                                                          {"openrouter", {11, 1}},
                                                          {"vllm", {5, 1}},
                                                          {"llamacpp", {3, 1}},
                                                          {"bedrock", {25, 11}},
                                                          {"azure", {10, 1}},
                                                          {"vertex", {5, 2}}};

bool spoken(const Case& recorded) { return recorded.dialect->name() == recorded.provider; }

/// The counts that are printed for a provider, and its confusion matrix.
struct Tally {
  int cases = 0;
  int right = 0;
  bool own = false;
  std::map<std::pair<std::string, std::string>, int> confusion{};
};

void print(const std::map<std::string, Tally>& tallies) {
  for (const auto& [provider, tally] : tallies) {
    std::cout << provider << (tally.own ? "" : " (nearest dialect)") << ": " << tally.right << " of " << tally.cases
              << " right\n";
    for (const auto& [pair, count] : tally.confusion) {
      std::cout << "    " << pair.first << " read as " << pair.second << ": " << count
                << (pair.first == pair.second ? "" : "   <--") << '\n';
    }
  }
}

std::string text_of(const ExpectedVerdict& verdict) {
  return verdict.cls + (verdict.retryable ? " retryable" : " final") +
         (verdict.retry_after_ms ? " " + std::to_string(*verdict.retry_after_ms) + " ms" : "");
}

std::string text_of(const ExpectedUsage& usage) {
  return classifier_tests::spelled({.tokens = usage.tokens, .model = usage.model, .finish = usage.finish});
}

constexpr unsigned kSplits = 20;

/// Byte by byte for seed 0, else at places that the seed gives.
void feed_split(classifier::StreamReader& reader, std::string_view bytes, unsigned seed) {
  std::mt19937 chance{seed};
  std::uniform_int_distribution<std::size_t> length{1, seed == 0 ? 1U : 64U};
  while (!bytes.empty()) {
    const std::size_t taken = std::min(length(chance), bytes.size());
    reader.feed(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
}

/// The reader of a stream that came in pieces; null if it is none.
std::unique_ptr<classifier::StreamReader> read_split(const Case& recorded, unsigned seed) {
  const classifier::Endpoint endpoint = recorded.dialect->endpoint("POST", recorded.path);
  const classifier::RequestFacts facts{.stream = recorded.stream};
  if (!recorded.stream || !recorded.dialect->is_stream(endpoint, facts, recorded.headers)) return nullptr;
  auto reader = recorded.dialect->stream_reader(endpoint, facts, recorded.headers, false);
  feed_split(*reader, recorded.body, seed);
  return reader;
}

/// The same answer, compressed on its way.
template <class Recorded>
Recorded compressed(const Recorded& recorded, const char* encoding) {
  Recorded packed = recorded;
  packed.body = classifier_tests::deflated(
      recorded.body, std::string_view{encoding} == "gzip" ? classifier_tests::kGzip : classifier_tests::kZlib);
  packed.headers.push_back({"Content-Encoding", encoding});
  return packed;
}

bool unary(const Case& recorded) {
  return !recorded.stream && recorded.status != 0 && !recorded.transport && !recorded.body.empty() &&
         !classifier::find(recorded.headers, "content-encoding");
}

/// `rest` is the beginning of a frame.
bool cut_inside_frame(const Case& recorded, std::string_view rest) {
  if (classifier::find(recorded.headers, "content-type") != "application/vnd.amazon.eventstream") return false;
  return !rest.empty() &&
         (rest.size() < classifier::kFramePrelude ||
          classifier::frame_length(rest.substr(0, classifier::kFramePrelude)).value_or(0) > rest.size());
}

void judge_all(const std::string& file, std::map<std::string, Tally>& tallies) {
  for (const VerdictCase& c : cases_of(file, classifier::read_verdict_case)) {
    ASSERT_TRUE(c.expect) << c.id;
    const classifier::Verdict verdict = classifier::judge(c);
    const std::string want = text_of(*c.expect);
    const std::string got = text_of(classifier::told(verdict));
    Tally& tally = tallies[c.provider];
    tally.own = spoken(c);
    tally.cases += 1;
    tally.right += got == want ? 1 : 0;
    tally.confusion[{c.expect->cls, std::string{name_of(verdict.cls)}}] += 1;
    if (!spoken(c)) {
      if (got != want) {
        std::cout << "not yet: " << c.id << " is " << want << ", read as " << got << " by '" << verdict.rule << "'\n";
      }
      continue;
    }
    EXPECT_EQ(got, want) << c.id << " by rule '" << verdict.rule << "'\n" << c.body;
    for (unsigned seed = 0; seed < kSplits; ++seed) {
      const auto reader = read_split(c, seed);
      if (!reader) break;
      EXPECT_EQ(text_of(classifier::told(reader->finish(c.transport))), want) << c.id << " seed " << seed;
      // Of a frame that was cut nothing is passed on.
      const std::string passed = reader->forward() + reader->tail();
      const std::string_view kept = std::string_view{c.body}.substr(std::min(passed.size(), c.body.size()));
      const bool cut_frame = cut_inside_frame(c, kept);
      EXPECT_EQ(passed + (cut_frame ? std::string{kept} : ""), c.body) << c.id << " seed " << seed;
    }
    if (!unary(c)) continue;
    for (const char* encoding : {"gzip", "deflate"}) {
      EXPECT_EQ(text_of(classifier::told(classifier::judge(compressed(c, encoding)))), want)
          << c.id << ' ' << encoding;
    }
  }
}

TEST(Corpus, every_recorded_failure_of_a_spoken_dialect_is_judged_right) {
  std::map<std::string, Tally> tallies;
  judge_all("errors.jsonl", tallies);
  print(tallies);
  for (const auto& [provider, least] : kLeast) EXPECT_GE(tallies[provider].cases, least.failures) << provider;
}

/// Written from the providers' documents and from reports of their users before anybody looked at what comes of them.
TEST(Corpus, cases_that_the_rules_were_not_made_for_are_judged_right) {
  std::map<std::string, Tally> tallies;
  judge_all("fresh.jsonl", tallies);
  print(tallies);
  EXPECT_EQ(tallies.size(), kLeast.size()) << "of all dialects";
  for (const auto& [provider, tally] : tallies) EXPECT_GE(tally.cases, 10) << provider;
}

void count_all(const std::string& file, std::map<std::string, Tally>& tallies) {
  for (const UsageCase& c : cases_of(file, classifier::read_usage_case)) {
    ASSERT_TRUE(c.expect) << c.id;
    const std::string want = text_of(*c.expect);
    const std::string got = text_of(classifier::usage_of(c));
    Tally& tally = tallies[c.provider];
    tally.own = spoken(c);
    tally.cases += 1;
    tally.right += got == want ? 1 : 0;
    if (!spoken(c)) {
      if (got != want) std::cout << "not yet: " << c.id << " is " << want << ", read as " << got << '\n';
      continue;
    }
    EXPECT_EQ(got, want) << c.id << '\n' << c.body;
    for (unsigned seed = 0; seed < kSplits; ++seed) {
      const auto reader = read_split(c, seed);
      if (!reader) break;
      (void)reader->finish(std::nullopt);
      const classifier::Usage& usage = reader->usage();
      const std::string model = usage.model.empty() ? c.expect->model : usage.model;
      EXPECT_EQ(text_of({model, usage.tokens, usage.finish}), want) << c.id << " seed " << seed;
    }
    if (!unary(c)) continue;
    for (const char* encoding : {"gzip", "deflate"}) {
      EXPECT_EQ(text_of(classifier::usage_of(compressed(c, encoding))), want) << c.id << ' ' << encoding;
    }
  }
}

TEST(Corpus, every_recorded_usage_of_a_spoken_dialect_is_read_right) {
  std::map<std::string, Tally> tallies;
  count_all("usage.jsonl", tallies);
  print(tallies);
  for (const auto& [provider, least] : kLeast) EXPECT_GE(tallies[provider].cases, least.usages) << provider;
}

TEST(Corpus, usage_that_the_readers_were_not_made_for_is_read_right) {
  std::map<std::string, Tally> tallies;
  count_all("fresh_usage.jsonl", tallies);
  print(tallies);
  for (const char* provider : {"bedrock", "azure", "vertex"}) EXPECT_GE(tallies[provider].cases, 3) << provider;
}

}  // namespace corpus_test
