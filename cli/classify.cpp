#include "cli/classify.h"

#include <charconv>
#include <expected>
#include <fstream>
#include <functional>
#include <istream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <utility>

#include "classifier/cases.h"
#include "cli/config.h"
#include "gateway/config.h"
#include "gateway/config_values.h"
#include "gateway/verdict_rules.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using classifier::Case;

constexpr std::size_t kMostBytes = std::size_t{64} << 20U;

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

int wrong(Terminal& terminal, std::string_view command, const std::string& what, int code) {
  terminal.err << "callgate " << command << ": " << what << '\n';
  return code;
}

/// All of a file ("-": standard input); the error says what is wrong.
std::expected<std::string, std::string> read_all(const std::string& name, Terminal& terminal) {
  std::ifstream file;
  if (name != "-") {
    file.open(name, std::ios::binary);
    if (!file) return std::unexpected(name + ": cannot be opened");
  }
  std::istream& in = name == "-" ? terminal.in : file;
  std::string text;
  char piece[65536];
  while (in.read(piece, sizeof piece) || in.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMostBytes) return std::unexpected(name + ": is larger than 64 MiB");
  }
  if (in.bad() || (!in.eof() && in.fail())) return std::unexpected(name + ": cannot be read");
  return text;
}

Json json_of(const classifier::ExpectedVerdict& verdict) {
  Json json{{"class", verdict.cls}, {"retryable", verdict.retryable}, {"retry_after_ms", nullptr}};
  if (verdict.retry_after_ms) json["retry_after_ms"] = *verdict.retry_after_ms;
  return json;
}

Json json_of(const classifier::ExpectedUsage& usage) {
  Json json{{"model", usage.model}};
  const classifier::TokenCounts none;
  const classifier::TokenCounts& tokens = usage.tokens ? *usage.tokens : none;
  const std::pair<const char*, std::int64_t> counts[] = {
      {"input_tokens", tokens.input},
      {"cached_input_tokens", tokens.cached_input},
      {"cache_write_5m_tokens", tokens.cache_write_5m},
      {"cache_write_1h_tokens", tokens.cache_write_1h},
      {"output_tokens", tokens.output},
      {"reasoning_tokens", tokens.reasoning},
  };
  for (const auto& [name, count] : counts) json[name] = usage.tokens ? Json(count) : Json(nullptr);
  json["finish"] = usage.finish ? Json(*usage.finish) : Json(nullptr);
  return json;
}

/// The same and what the answer reports beside it, under the names that corpora have for that.
Json json_of(const classifier::Usage& usage) {
  using classifier::Billed;
  constexpr std::pair<const char*, std::int64_t Billed::*> kNames[] = {
      {"audio_input_tokens", &Billed::audio_input},
      {"cached_audio_input_tokens", &Billed::cached_audio_input},
      {"image_input_tokens", &Billed::image_input},
      {"cached_image_input_tokens", &Billed::cached_image_input},
      {"image_input_tokens_apart", &Billed::image_input_apart},
      {"audio_output_tokens", &Billed::audio_output},
      {"image_output_tokens", &Billed::image_output},
      {"input_ms", &Billed::input_ms},
      {"input_images", &Billed::input_images},
      {"images", &Billed::output_images},
      {"search_units", &Billed::queries},
      {"pages", &Billed::pages},
      {"web_search_requests", &Billed::web_searches},
  };
  Json json = json_of(classifier::ExpectedUsage{usage.model, usage.tokens, usage.finish});
  for (const auto& [name, member] : kNames) {
    if (usage.billed.*member != 0) json[name] = usage.billed.*member;
  }
  const std::pair<const char*, const std::string&> words[] = {
      {"provider_cost_usd", usage.stated_usd},
      {"provider_cost_beside_usd", usage.stated_beside_usd},
      {"service_tier", usage.service_tier},
      {"speed", usage.speed},
      {"inference_geo", usage.inference_geo},
  };
  for (const auto& [name, word] : words) {
    if (!word.empty()) json[name] = word;
  }
  return json;
}

/// What a file of cases came to.
struct Tally {
  std::size_t cases = 0;
  std::size_t expected = 0;
  std::size_t right = 0;
  std::size_t unreadable = 0;
  std::map<std::string, std::map<std::pair<std::string, std::string>, int>> confusion{};  // By provider.
};

/// Reads each line and tells what came of it; `play` fills in what was expected.
int over_cases(const Arguments& arguments, Terminal& terminal, std::string_view command,
               const std::function<std::expected<std::string, std::string>(std::string_view line, Json& said,
                                                                           Json& wanted, Tally& tally)>& play) {
  Tally tally;
  for (const std::string& name : arguments.all("--cases")) {
    const auto text = read_all(name, terminal);
    if (!text) return wrong(terminal, command, text.error(), kNotFound);
    std::string_view rest = *text;
    for (int number = 1; !rest.empty(); ++number) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      Json said;
      Json wanted;
      const auto id = play(line, said, wanted, tally);
      if (!id) {
        ++tally.unreadable;
        terminal.err << name << ':' << number << ": error: this case " << id.error() << '\n';
        continue;
      }
      ++tally.cases;
      Json whole{{"id", *id}};
      whole.update(said);
      terminal.out << dumped(whole) << '\n';
      if (wanted.is_null()) continue;
      ++tally.expected;
      if (said == wanted) {
        ++tally.right;
      } else if (arguments.has("--json")) {
        terminal.err << dumped({{"id", *id}, {"expected", wanted}, {"got", said}}) << '\n';
      } else {
        terminal.err << name << ':' << number << ": " << *id << "\n  - expected " << dumped(wanted)
                     << "\n  + got      " << dumped(said) << '\n';
      }
    }
  }
  if (!arguments.has("--json")) {
    for (const auto& [provider, counts] : tally.confusion) {
      for (const auto& [pair, count] : counts) {
        if (pair.first != pair.second) {
          terminal.err << provider << ": " << pair.first << " read as " << pair.second << ": " << count << '\n';
        }
      }
    }
    terminal.err << tally.cases << " cases";
    if (tally.expected > 0) terminal.err << ", " << tally.right << " of " << tally.expected << " as expected";
    if (tally.unreadable > 0) terminal.err << ", " << tally.unreadable << " lines unreadable";
    terminal.err << '\n';
  }
  if (tally.unreadable > 0) return kInvalid;
  return tally.right == tally.expected ? kDone : kPartly;
}

/// "name: value"; false if it is none.
bool add_header(const std::string& text, classifier::Headers& into) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon == 0) return false;
  const std::size_t value = text.find_first_not_of(" \t", colon + 1);
  into.push_back({text.substr(0, colon), value == std::string::npos ? std::string{} : text.substr(value)});
  return true;
}

/// Dialect and rules of an upstream of a configuration; the error says what is wrong.
std::expected<void, std::string> take_upstream(const Arguments& arguments, Case& into) {
  const std::string file = config_file(arguments);
  const std::string name = arguments.get("--upstream");
  const gateway::Loaded loaded = gateway::load_config(file);
  if (!loaded.usable()) return std::unexpected("the configuration has errors; callgate validate lists them");
  std::vector<std::string> names;
  for (const gateway::UpstreamConfig& upstream : loaded.config.upstreams) {
    names.push_back(upstream.name);
    if (upstream.name != name) continue;
    if (!arguments.has("--dialect")) into.dialect = classifier::find_dialect(upstream.dialect);
    into.rules = gateway::classifier_rules(upstream);
    return {};
  }
  const std::string meant = gateway::nearest(name, names);
  return std::unexpected("no upstream is called " + gateway::say(name) +
                         (meant.empty() ? "" : "; did you mean " + meant + "?"));
}

bool looks_like_events(std::string_view body) { return body.starts_with("data:") || body.starts_with("event:"); }

/// One answer, from the options; the error says what is wrong with them.
std::expected<Case, std::string> case_of(const Arguments& arguments, Terminal& terminal) {
  Case one;
  const std::string dialect = arguments.get("--dialect", "openai");
  one.dialect = classifier::find_dialect(dialect);
  if (!one.dialect) {
    std::vector<std::string> names;
    for (const classifier::Dialect* known : classifier::dialects()) names.emplace_back(known->name());
    const std::string meant = gateway::nearest(dialect, names);
    return std::unexpected("unknown dialect " + gateway::say(dialect) +
                           (meant.empty() ? "; see callgate dialects" : "; did you mean " + meant + "?"));
  }
  if (arguments.has("--upstream")) {
    if (auto taken = take_upstream(arguments, one); !taken) return std::unexpected(taken.error());
  }
  one.path = arguments.get("--path", classifier::usual_path(one.dialect->name()));
  if (!one.path.starts_with('/')) return std::unexpected("--path must begin with a slash");
  for (const std::string& header : arguments.all("-H")) {
    if (!add_header(header, one.headers)) {
      return std::unexpected("-H must be 'Name: value' (is " + gateway::say(header) + ")");
    }
  }
  one.status = 200;
  if (arguments.has("--transport")) {
    one.status = 0;
    one.transport = classifier::transport_named(arguments.get("--transport"));
    if (!one.transport) return std::unexpected("--transport must be timeout, connect_refused, reset, tls or dns");
  }
  if (arguments.has("--status")) {
    const std::string text = arguments.get("--status");
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), one.status);
    if (error != std::errc{} || end != text.data() + text.size() || one.status < 100 || one.status > 999) {
      return std::unexpected("--status must be a status code such as 429 (is " + gateway::say(text) + ")");
    }
  }
  if (!arguments.words.empty()) {
    auto body = read_all(arguments.words[0], terminal);
    if (!body) return std::unexpected(body.error());
    one.body = std::move(*body);
  }
  // Without a Content-Type a stream has its endpoint's usual framing; but this body says what it is.
  const bool events = looks_like_events(one.body);
  one.stream = arguments.has("--stream") || events;
  if (events && !classifier::find(one.headers, "content-type")) {
    one.headers.push_back({"Content-Type", "text/event-stream"});
  }
  return one;
}

}  // namespace

int classify(const Arguments& arguments, Terminal& terminal) {
  if (arguments.has("--cases")) {
    return over_cases(
        arguments, terminal, "classify", [](std::string_view line, Json& said, Json& wanted, Tally& tally) {
          auto read = classifier::read_verdict_case(line);
          if (!read) return std::expected<std::string, std::string>{std::unexpected(read.error())};
          said = json_of(classifier::told(classifier::judge(*read)));
          if (read->expect) {
            wanted = json_of(*read->expect);
            ++tally.confusion[read->provider][{read->expect->cls, said["class"].get<std::string>()}];
          }
          return std::expected<std::string, std::string>{read->id};
        });
  }
  const auto one = case_of(arguments, terminal);
  if (!one) return wrong(terminal, "classify", one.error(), kUsage);
  const classifier::Verdict verdict = classifier::judge(*one);
  Json json = json_of(classifier::told(verdict));
  json["code"] = verdict.code.empty() ? Json(nullptr) : Json(verdict.code);
  if (arguments.has("--explain")) json["rule"] = verdict.rule;
  if (arguments.has("--json")) {
    terminal.out << dumped(json) << '\n';
    return kDone;
  }
  terminal.out << "class        " << json["class"].get<std::string>() << '\n'
               << "retryable    " << (verdict.retryable ? "yes" : "no") << '\n';
  if (verdict.retry_after) terminal.out << "retry after  " << verdict.retry_after->count() << " ms\n";
  if (!verdict.code.empty()) terminal.out << "code         " << verdict.code << '\n';
  if (arguments.has("--explain")) terminal.out << "rule         " << verdict.rule << '\n';
  return kDone;
}

int usage(const Arguments& arguments, Terminal& terminal) {
  if (arguments.has("--cases")) {
    return over_cases(arguments, terminal, "usage", [](std::string_view line, Json& said, Json& wanted, Tally&) {
      auto read = classifier::read_usage_case(line);
      if (!read) return std::expected<std::string, std::string>{std::unexpected(read.error())};
      said = json_of(classifier::usage_of(*read));
      if (read->expect) wanted = json_of(*read->expect);
      return std::expected<std::string, std::string>{read->id};
    });
  }
  const auto one = case_of(arguments, terminal);
  if (!one) return wrong(terminal, "usage", one.error(), kUsage);
  const Json json = json_of(classifier::whole_usage_of(*one));
  if (arguments.has("--json")) {
    terminal.out << dumped(json) << '\n';
    return kDone;
  }
  for (const auto& [name, value] : json.items()) {
    terminal.out << name << std::string(name.size() < 24 ? 24 - name.size() : 1, ' ')
                 << (value.is_null()     ? "unknown"
                     : value.is_string() ? value.get<std::string>()
                                         : value.dump())
                 << '\n';
  }
  return kDone;
}

}  // namespace cli
