#include "gateway/config.h"

#include <gtest/gtest.h>
#include <regex.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "classifier/dialect.h"
#include "gateway/config_keys.h"
#include "gateway/config_print.h"
#include "gateway/config_values.h"
#include "gateway/verdict_rules.h"

namespace config_test {

using namespace std::chrono_literals;
using gateway::Config;
using gateway::Loaded;
using gateway::Overrides;
using gateway::Problem;
using nlohmann::json;

const std::string kFile = "callgate.yaml";

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file{path};
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::string example_text() {
  return text_of_file(std::filesystem::path{PROJECT_ROOT} / "docs/callgate.example.yaml");
}

/// With what is marked "# later:" as if it were live.
std::string example_with_later() {
  std::string text = example_text();
  constexpr std::string_view kLater = "# later: ";
  for (std::size_t at = 0; (at = text.find(kLater, at)) != std::string::npos;) text.erase(at, kLater.size());
  return text;
}

const std::string kAuthority = std::string{PROJECT_ROOT} + "/tests/fixtures/authority.pem";

std::vector<std::string> lines_of(const Loaded& loaded) {
  std::vector<std::string> lines;
  for (const Problem& problem : loaded.problems) lines.push_back(text_of(problem));
  return lines;
}

/// POSIX's, since g++ 12 warns of std::regex under a sanitizer.
class Pattern {
 public:
  explicit Pattern(const std::string& text) {
    EXPECT_EQ(::regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB), 0) << text;
  }
  ~Pattern() { ::regfree(&compiled_); }
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;
  [[nodiscard]] bool fits(const std::string& text) const {
    return ::regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
  }

 private:
  regex_t compiled_{};
};

bool matches(const std::string& text, const std::string& pattern) {
  static std::map<std::string, Pattern> compiled;
  return compiled.try_emplace(pattern, pattern).first->second.fits(text);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

Loaded parse(std::string_view text, const Overrides& overrides = {}) {
  return gateway::parse_config(text, kFile, overrides);
}

const gateway::UpstreamConfig* upstream(const Config& config, std::string_view name) {
  const auto found = std::ranges::find(config.upstreams, name, &gateway::UpstreamConfig::name);
  return found == config.upstreams.end() ? nullptr : &*found;
}

// --- What a file that is wrong is told ----------------------------------------------------------------------------

struct Mistake {
  std::string_view name;
  std::string_view text;
  std::vector<std::string_view> said;  // After "callgate.yaml:".
  /// The schema, too, must refuse it; where only the validator can see it, false.
  bool schema_sees = true;
};

const Mistake kMistakes[] = {
    {"a word misspelt", "retry:\n  bse: 1s\n", {"2:3: error: retry.bse: unknown key; did you mean base?"}},
    {"two letters exchanged and a dash for an underscore",
     "retry: {longset-wait: 1s}\n",
     {"1:9: error: retry.longset-wait: unknown key; did you mean longest_wait?"}},
    {"a key at the wrong indentation",
     "upstreams:\n  openai:\n    timeouts:\n    connect: 5s\n",
     {"4:5: error: upstreams.openai.connect: unknown key; it belongs in upstreams.*.timeouts (check the "
      "indentation)"}},
    {"a key as other programs call it",
     "upstreams: {openai: {base_url: https://h}}\n",
     {"1:22: error: upstreams.openai.base_url: unknown key; here it is called url"}},
    {"a key like no other", "log: {colour: 1}\n", {"1:7: error: log.colour: unknown key; there are: level, format"}},
    {"everything at once, by place",
     "log: {level: loud}\nretry:\n  base: 0ms\n  cap: 5\n  bulk: {attempts: 0}\n",
     {"1:14: error: log.level: must be debug, info, warn or error (is loud)",
      "3:9: error: retry.base: must be between 1ms and 1h (is 0ms)",
      "4:8: error: retry.cap: must be a duration such as 250ms, 30s or 5m (is 5; write 5s or another unit)",
      "5:20: error: retry.bulk.attempts: must be between 1 and 100 (is 0)"}},
    {"a duration in words",
     "retry: {cap: 5 minutes}\n",
     {"1:14: error: retry.cap: must be a duration such as 250ms, 30s or 5m (is \"5 minutes\"; write 5m)"}},
    {"a duration of two units",
     "retry: {cap: 1m30s}\n",
     {"1:14: error: retry.cap: must be a duration such as 250ms, 30s or 5m (is 1m30s; one whole number and one "
      "unit)"}},
    {"a fraction of a second",
     "retry: {cap: 1.5s}\n",
     {"1:14: error: retry.cap: must be a duration such as 250ms, 30s or 5m (is 1.5s; one whole number and one "
      "unit)"}},
    {"a negative duration", "retry: {cap: -5s}\n", {"1:14: error: retry.cap: must be between 1ms and 1d (is -5s)"}},
    {"a duration beyond all clocks",
     "retry: {cap: 99999999999999999999d}\n",
     {"1:14: error: retry.cap: must be between 1ms and 1d (is 99999999999999999999d)"},
     false},
    {"a duration that overflows only with its unit",
     "retry: {cap: 999999999999999d}\n",
     {"1:14: error: retry.cap: must be between 1ms and 1d (is 999999999999999d)"},
     false},
    {"kilobytes",
     "stream: {hold_bytes: 64KB}\n",
     {"1:22: error: stream.hold_bytes: must be a size such as 65536, 64KiB or 1GiB (is 64KB; write 64KiB)"}},
    {"a size too small",
     "limits: {header_bytes: 10}\n",
     {"1:24: error: limits.header_bytes: must be between 1KiB and 1MiB (is 10)"}},
    {"a word beside a size",
     "limits: {buffered_bytes: automatic}\n",
     {"1:26: error: limits.buffered_bytes: must be auto or a size such as 65536, 64KiB or 1GiB (is automatic)"}},
    {"a number in quotes",
     "retry: {bulk: {attempts: \"4\"}}\n",
     {"1:26: error: retry.bulk.attempts: must be a whole number (is 4; write it without quotes)"}},
    {"a number with a fraction",
     "queue: {total: 1e4}\n",
     {"1:16: error: queue.total: must be a whole number (is 1e4)"},
     false},
    {"a number of thousands",
     "queue: {total: 10_000}\n",
     {"1:16: error: queue.total: must be a whole number (is 10_000)"}},
    {"a number that no integer can hold",
     "queue: {total: 99999999999999999999999}\n",
     {"1:16: error: queue.total: must be between 1 and 1000000 (is 99999999999999999999999)"}},
    {"yes",
     "retry: {on_timeout: yes}\n",
     {"1:21: error: retry.on_timeout: must be true or false (is yes; write true)"}},
    {"a flag in quotes",
     "retry: {on_timeout: \"true\"}\n",
     {"1:21: error: retry.on_timeout: must be true or false (is true; write it without quotes)"}},
    {"one value for a list",
     "listen: {hosts: localhost}\n",
     {"1:17: error: listen.hosts: must be a list such as [a, b] (is a single value; write it in [ ])"}},
    {"a list of nothing", "listen: {hosts: []}\n", {"1:17: error: listen.hosts: must have at least 1 items (has 0)"}},
    {"a host with its port",
     "listen: {hosts: [localhost:4600]}\n",
     {"1:10: error: listen.hosts: must be host names without scheme, port or * (has localhost:4600); IPv6 addresses "
      "stand in [ ]"},
     false},
    {"one value for a map",
     "upstreams: {openai: https://api.openai.com}\n",
     {"1:21: error: upstreams.openai: must be a map of keys: dialect, url, http, ca_file, credentials, limits, "
      "timeouts, replay_safe, propagate_trace, classifier (is a single value)"}},
    {"no space after the colon",
     "retry:\n  base:500ms\n",
     {"2:3: error: retry: must be a map of keys: base, cap, longest_wait, on_timeout, interactive, bulk, backfill, "
      "budget (is a single value; a space is missing after base:)"}},
    {"no space after the colon, and another line below",
     "log:\n  level:info\n  format: json\n",
     {"2:8: error: a space is missing after level:"},
     false},
    {"a key where the names stand",
     "upstreams:\n  openai:\n  limits: {concurrent: 5}\n",
     {"3:3: error: upstreams.limits: is a key of an upstream, but stands where the upstreams' names do; indent it "
      "below "
      "the name of one"}},
    {"a list for a map",
     "retry:\n- base: 1s\n",
     {"1:1: error: retry: must be a map of keys: base, cap, longest_wait, on_timeout, interactive, bulk, backfill, "
      "budget (is a list)"}},
    {"a name without its list",
     "upstreams: {openai: {limits: {groups: {a: }}}}\n",
     {"1:40: error: upstreams.openai.limits.groups.a: has no value; write one, or remove the line"}},
    {"a key without a value",
     "retry: {base: }\n",
     {"1:9: error: retry.base: has no value; write one, or remove the line"}},
    {"a port alone",
     "listen: {data: 4600}\n",
     {"1:16: error: listen.data: must be an address such as 127.0.0.1:4600, [::1]:4600 or unix:/run/callgate.sock "
      "(is "
      "4600; write 127.0.0.1:4600)"}},
    {"a port that does not exist",
     "listen: {data: \"127.0.0.1:70000\"}\n",
     {"1:16: error: listen.data: must be an address such as 127.0.0.1:4600, [::1]:4600 or unix:/run/callgate.sock "
      "(is "
      "127.0.0.1:70000; a port is at most 65535)"},
     false},
    {"a data listener for everybody",
     "listen: {data: 0.0.0.0:4600}\n",
     {"1:16: error: listen.data: needs tenancy: {unknown: refuse} and a tenant with issued keys (callgate keys "
      "issue), since others can reach this address; or use 127.0.0.1:4600, [::1]:4600 or unix:/path"},
     false},
    {"a data listener for everybody who names himself",
     "listen: {data: 0.0.0.0:4600}\ntenancy: {unknown: refuse}\n",
     {"1:16: error: listen.data: needs a tenant with issued keys (callgate keys issue), since others can reach this "
      "address; or use 127.0.0.1:4600, [::1]:4600 or unix:/path"},
     false},
    {"a data listener for everybody, beside keys",
     "listen: {data: 0.0.0.0:4600}\ntenants: {a: {keys: [{sha256: "
     "\"1111111111111111111111111111111111111111111111111111111111111111\"}]}}\n",
     {"1:16: error: listen.data: needs tenancy: {unknown: refuse}, since others can reach this address; or use "
      "127.0.0.1:4600, [::1]:4600 or unix:/path"},
     false},
    {"tenants that cannot be",
     "tenants: {A b: {weight: 0}, search: {lane: fast, limits: {requests_per_minute: -1, concurrent: 1.5}}}\n"
     "tenancy: {unknown: deny}\n",
     {"1:11: error: tenants.A b: must be a name of at most 64 small letters, digits, -, _ and ., since it is a label "
      "in metrics",
      "1:25: error: tenants.A b.weight: must be between 0.001 and 1000000 (is 0)",
      "1:44: error: tenants.search.lane: must be interactive, bulk or backfill (is fast)",
      "1:80: error: tenants.search.limits.requests_per_minute: must be between 0 and 1000000000 (is -1)",
      "1:96: error: tenants.search.limits.concurrent: must be a whole number (is 1.5)",
      "2:20: error: tenancy.unknown: must be default or refuse (is deny)"}},
    {"a key of a tenant where names stand",
     "tenants: {weight: 2}\n",
     {"1:11: error: tenants.weight: is a key of a tenant, but stands where the tenants' names do; indent it below "
      "the "
      "name of one"}},
    {"digests that are none, and keys in their place",
     "tenants:\n  a:\n    keys:\n    - {sha256: abc}\n    - {}\n    - {sha256: cg_0123456789012345678901234567}\n",
     {"4:16: error: tenants.a.keys[0]: sha256 must be 64 hexadecimal digits, as `callgate keys issue` prints them",
      "5:7: error: tenants.a.keys[1]: needs sha256: the digest that `callgate keys issue` printed",
      "6:16: error: tenants.a.keys[2].sha256: must be the digest of an issued key, not the key; `callgate keys "
      "issue` "
      "prints both"},
     false},
    {"one key of two tenants, in other letters",
     "tenants:\n"
     "  a: {keys: [{sha256: \"aa11111111111111111111111111111111111111111111111111111111111111\"}]}\n"
     "  b: {keys: [{sha256: \"AA11111111111111111111111111111111111111111111111111111111111111\"}]}\n",
     {"3:23: error: tenants.b.keys[0].sha256: is a key of a, too; a key is one tenant's"},
     false},
    {"patterns that would never fit",
     "tenants: {a: {models: {allow: [\"gpt-5*\", \"o[13]\", \"\", \"a b\"]}}}\n",
     {"1:24: error: tenants.a.models.allow: has o[13]; only * has a meaning in patterns, and no model's name has "
      "such a character",
      "1:24: error: tenants.a.models.allow: must be names of models or patterns with * (has \"\")",
      "1:24: error: tenants.a.models.allow: must be names of models or patterns with * (has \"a b\")"},
     false},
    {"budgets that are no money, and a time zone that is none",
     "tenants: {a: {budget: {daily_usd: 5.00, monthly_usd: \"-1\", per_run_usd: \"1.0000000001\", warn_at: 2}}}\n"
     "budget: {time_zone: \"../etc/passwd\", status: 403}\n",
     {"1:35: error: tenants.a.budget.daily_usd: must be an amount in US dollars such as \"12.50\" (is 5.00; write it "
      "in quotes: \"5.00\")",
      "1:54: error: tenants.a.budget.monthly_usd: must be an amount in US dollars such as \"12.50\" (is -1)",
      "1:73: error: tenants.a.budget.per_run_usd: must be an amount in US dollars such as \"12.50\" (is "
      "1.0000000001)",
      "1:98: error: tenants.a.budget.warn_at: must be between 0 and 1 (is 2)",
      "2:21: error: budget.time_zone: must be a name of the time-zone database of this machine, such as UTC or "
      "Europe/Berlin (is ../etc/passwd)",
      "2:46: error: budget.status: must be 402 or 429 (is 403; did you mean 402?)"}},
    {"turns that cannot be shared so",
     "queue: {per_tenant: 0, weights: {bulk: 0}, reserve: 1}\nupstreams: {openai: {limits: {tokens_per_minute: 1e6, "
     "adaptive: yes}}}\n",
     {"1:21: error: queue.per_tenant: must be between 1 and 1000000 (is 0)",
      "1:40: error: queue.weights.bulk: must be between 0.001 and 1000000 (is 0)",
      "1:53: error: queue.reserve: must be between 0 and 0.9 (is 1)",
      "2:50: error: upstreams.openai.limits.tokens_per_minute: must be a whole number (is 1e6)",
      "2:65: error: upstreams.openai.limits.adaptive: must be true or false (is yes; write true)"}},
    {"two listeners at one place",
     "listen: {health: 127.0.0.1:4600}\n",
     {"1:18: error: listen.health: listen.data and listen.health must not be the same address"},
     false},
    {"a URL without its scheme",
     "upstreams: {openai: {url: api.openai.com}}\n",
     {"1:27: error: upstreams.openai.url: must be a URL such as https://api.example.com (begin it with https:// or "
      "http://)"}},
    {"a URL with a password, which is not repeated",
     "upstreams: {openai: {url: \"https://me:hunter2@h\"}}\n",
     {"1:27: error: upstreams.openai.url: must be a URL such as https://api.example.com (it must not carry a user "
      "name "
      "or password)"}},
    {"a URL with a query",
     "upstreams: {openai: {url: \"https://h/?a=b\"}}\n",
     {"1:27: error: upstreams.openai.url: must be a URL such as https://api.example.com (without ? and #)"}},
    {"an upstream that says too little",
     "upstreams:\n  mine:\n    url: https://h\n",
     {"2:3: error: upstreams.mine: needs dialect, since it is not built in"}},
    {"a dialect that nobody speaks",
     "upstreams: {mine: {dialect: openia, url: https://h}}\n",
     {"1:29: error: upstreams.mine.dialect: must be a dialect of this version: openai, anthropic, gemini, mistral, "
      "cohere, ollama, bedrock, azure, vertex, groq, deepseek, xai, together, fireworks, openrouter, vllm, llamacpp "
      "(is openia; "
      "did you mean openai?)"},
     false},
    {"a name that cannot stand in a URL",
     "upstreams: {My GPU: {dialect: openai, url: https://h}}\n",
     {"1:13: error: upstreams.My GPU: must be a name of at most 64 small letters, digits, -, _ and ., since it "
      "stands "
      "in URLs"}},
    {"a reserved name",
     "upstreams: {v1: {dialect: openai, url: https://h}}\n",
     {"1:13: error: upstreams.v1: is a reserved name; choose another one"}},
    {"a name with which paths begin",
     "upstreams: {responses: {dialect: openai, url: https://h}}\n",
     {"1:13: error: upstreams.responses: is a reserved name; choose another one"}},
    {"a default upstream that does not exist",
     "default_upstream: {openai: opnai}\n",
     {"1:28: error: default_upstream.openai: names no upstream (is opnai; did you mean openai?)"},
     false},
    {"a default upstream of another dialect",
     "default_upstream: {gemini: openai}\n",
     {"1:28: error: default_upstream.gemini: must name an upstream that speaks gemini (openai speaks openai)"},
     false},
    {"a key in the file",
     "upstreams: {openai: {credentials: [{name: a, key: sk-live-123}]}}\n",
     {"1:51: error: upstreams.openai.credentials[0].key: must not stand in the configuration itself; write {file: "
      "/path/to/it} or {env: NAME_OF_A_VARIABLE}"}},
    {"what is not in this version",
     "listen: {tls: {data: {cert: {file: /c}}}}\nqueues:\n  a: {owner: {team: t}, slo: {success_ratio: 1}, "
     "dead_letter: {retention: 1d}, backfill: {max_items: 3}}\n",
     {"1:16: error: listen.tls.data: not in this version: TLS for callers; remove it",
      "3:102: error: queues.a.backfill.max_items: not in this version: backfills; remove it"}},
    {"a route of two dialects",
     "routes: {r: {try: [openai, anthropic, nobody]}}\n",
     {"1:28: error: routes.r.try[1]: must speak the dialect of the route's first upstream, openai (anthropic speaks "
      "anthropic)",
      "1:39: error: routes.r.try[2]: names no upstream (is nobody; there are: anthropic, cohere, deepseek, "
      "fireworks, "
      "gemini, groq, mistral, ollama, openai, openrouter, together, xai)"},
     false},
    {"a route without upstreams, of one twice, and with the name of one",
     "routes: {r: {try: []}, s: {try: [openai, {upstream: openai}]}, groq: {try: [opnai]}}\n",
     {"1:10: error: routes.r: needs try: a list of upstreams, such as try: [openai]",
      "1:53: error: routes.s.try[1].upstream: stands in this route twice (openai)",
      "1:64: error: routes.groq: is the name of an upstream, too; choose another one",
      "1:77: error: routes.groq.try[0]: names no upstream (is opnai; did you mean openai?)"},
     false},
    {"keys of ours without a name, of one name, and without a file",
     "upstreams: {openai: {credentials: [{key: {file: /nowhere/k}}, {name: A}, {name: b}, {name: c, key: {file: "
     "/nowhere/k}}, {name: c, key: {env: CALLGATE_TEST_NO_SUCH_KEY}}]}}\n",
     {"1:36: error: upstreams.openai.credentials[0]: needs name: how metrics and log call it",
      "1:63: error: upstreams.openai.credentials[1]: needs key: {file: /path/to/it} or {env: NAME_OF_A_VARIABLE}",
      "1:70: error: upstreams.openai.credentials[1].name: must be a name of at most 64 small letters, digits, -, _ "
      "and "
      "., since it is a label in metrics",
      "1:74: error: upstreams.openai.credentials[2]: needs key: {file: /path/to/it} or {env: NAME_OF_A_VARIABLE}",
      "1:95: error: upstreams.openai.credentials[3].key: needs the file /nowhere/k: there is no such file",
      "1:128: error: upstreams.openai.credentials[4].name: is the name of another credential of this upstream, too "
      "(c)",
      "1:131: error: upstreams.openai.credentials[4].key: needs the environment variable CALLGATE_TEST_NO_SUCH_KEY, "
      "which is not set"},
     false},
    {"a model in two limit groups",
     "upstreams: {openai: {limits: {groups: {a: [m, n], b: [n, n]}}}}\n",
     {"1:51: error: upstreams.openai.limits.groups.b: has n, which is in a, too",
      "1:51: error: upstreams.openai.limits.groups.b: has n, which is in a, too"},
     false},
    {"limits that contradict each other",
     "retry: {base: 1m}\nlimits: {buffered_bytes: 1MiB}\n",
     {"1:15: error: retry.base: retry.base (1m) must not be above retry.cap (30s)",
      "2:26: error: limits.buffered_bytes: limits.buffered_bytes (1MiB) must not be below limits.body_bytes (64MiB), "
      "or "
      "the largest body never fits"},
     false},
    {"more lingering than there is time to end",
     "shutdown: {drain: 5s, linger: 6s}\n",
     {"1:31: error: shutdown.linger: shutdown.linger (6s) must not be above shutdown.drain (5s), of which it is a "
      "part"},
     false},
    {"a last scrape that keeps a process for ever",
     "shutdown: {final_scrape: 2h}\n",
     {"1:26: error: shutdown.final_scrape: must be between 0s and 1h (is 2h)"},
     false},
    {"money as a number",
     "prices: {fallback: {input_usd_per_mtok: 5.00}}\n",
     {"1:41: error: prices.fallback.input_usd_per_mtok: must be an amount in US dollars such as \"12.50\" (is 5.00; "
      "write it in quotes: \"5.00\")"}},
    {"one key twice",
     "retry:\n  base: 1s\n  cap: 2s\n  base: 3s\n",
     {"4:3: error: retry.base: stands here a second time (first in line 2); keep one of the two"},
     false},
    {"a tab", "retry:\n\tbase: 1s\n", {"2:1: error: there is a tab in the indentation; use spaces"}, false},
    {"a no-break space",
     "retry:\n \u00a0base: 1s\n",
     {"2:2: error: there is a no-break space in the indentation; use spaces"},
     false},
    {"indentation that goes astray",
     "retry:\n    base: 1s\n  cap: 2s\n",
     {"3:3: error: cannot be read as YAML: the indentation does not fit the lines above; keys of one map begin in "
      "one "
      "column"},
     false},
    {"a brace that is never closed",
     "retry: {base: 1s\nlog: {level: info}\n",
     {"2:4: error: cannot be read as YAML: a { above is not closed by }, a comma is missing, or text with a colon, a "
      "quote or ${…} in it needs quotes"},
     false},
    {"two documents",
     "log: {level: info}\n---\nlog: {level: warn}\n",
     {"2:1: error: a second document or stray text begins here; a configuration is one document"},
     false},
    {"a list as the whole",
     "- retry\n",
     {"1:1: error: must be a map of keys such as listen: and upstreams: (is a list)"}},
    {"a merge key",
     "retry: {<<: {base: 1s}}\n",
     {"1:9: error: retry.<<: merge keys (<<) are not supported; use an alias for the whole map, or "
      "write "
      "the keys out"}},
    {"a tag", "log: !!map {level: info}\n", {"1:6: error: tags such as !!str are not used here; remove it"}, false},
    {"an alias inside its own anchor",
     "retry: &r {bulk: *r}\n",
     {"1:18: error: this alias stands inside its own anchor"},
     false},
    {"a substitution that needs what is not there",
     "retry: {base: \"${env:NOBODY_SET_THIS}\"}\n",
     {"1:15: error: retry.base: needs the environment variable NOBODY_SET_THIS, which is not set "
      "(${env:NOBODY_SET_THIS:-default} would do without it)"},
     false},
    {"a substitution in a key",
     "${env:HOME}: 1\n",
     {"1:1: error: ${env:HOME}: a key cannot have a substitution; only values can"}},
    {"a substitution that is none",
     "log: {level: \"${file:/etc/x}\"}\n",
     {"1:14: error: log.level: has a substitution that is neither ${env:NAME}, ${env:NAME:-default} nor ${NAME}"},
     false},
};

TEST(Config, says_of_every_mistake_where_it_is_and_how_it_would_be_right) {
  for (const Mistake& mistake : kMistakes) {
    SCOPED_TRACE(mistake.name);
    std::vector<std::string> said;
    for (const std::string_view line : mistake.said) said.push_back(kFile + ":" + std::string{line});
    EXPECT_EQ(joined(lines_of(parse(mistake.text))), joined(said));
  }
}

TEST(Config, warns_of_what_works_but_exposes) {
  const Loaded loaded = parse(
      "upstreams:\n"
      "  gpu:\n"
      "    dialect: openai\n"
      "    url: http://gpu.local:8000/v1\n"
      "  here: {dialect: openai, url: \"http://[::1]:8000/\"}\n");
  EXPECT_TRUE(loaded.usable());
  EXPECT_EQ(
      joined(lines_of(loaded)),
      "callgate.yaml:4:10: warning: upstreams.gpu.url: sends keys and prompts unencrypted to another machine; use "
      "https:// if it is there\n");
  ASSERT_TRUE(upstream(loaded.config, "here"));
  EXPECT_EQ(upstream(loaded.config, "here")->url, "http://[::1]:8000") << "without a slash at the end";
}

TEST(Config, never_repeats_a_secret_that_stands_in_the_wrong_place) {
  const std::string_view kWrong[] = {
      "upstreams: {openai: {credentials: SECRET}}",
      "upstreams: {openai: {credentials: [SECRET]}}",
      "upstreams: {openai: {credentials: [{key: SECRET}]}}",
      "upstreams: {openai: {credentials: [{key: [SECRET]}]}}",
      "upstreams: {openai: {credentials: [{key: {env: sk-SECRET}}]}}",
      "upstreams: {openai: {credentials: [{key: {SECRET: 1}}]}}",
      "upstreams: {openai: {credentials: {main: SECRET}}}",
      "upstreams: {openai: {api_key: SECRET}}",
      "upstreams: {openai: {url: \"https://u:SECRET@h\"}}",
      "upstreams: {openai: {url: \"https://h/?key=SECRET\"}}",
      "upstreams: {openai: SECRET}",
      "upstreams: SECRET",
      "listen: {admin_token: SECRET}",
      "listen: {admin_token: }",
      "log: {level: \"${env:KEY}\"}",
      "listen: {hosts: [\"a ${env:KEY}\", {}]}",
      "SECRET",
  };
  const Overrides overrides{.environment = {{"KEY", "SECRET"}}};
  for (const std::string_view wrong : kWrong) {
    SCOPED_TRACE(wrong);
    const Loaded loaded = parse(wrong, overrides);
    EXPECT_FALSE(loaded.usable());
    if (wrong.find("{SECRET: 1}") == std::string_view::npos) {
      EXPECT_EQ(joined(lines_of(loaded)).find("SECRET"), std::string::npos) << joined(lines_of(loaded));
    }
  }
}

// --- What is read -------------------------------------------------------------------------------------------------

TEST(Config, has_the_struct_s_own_defaults_and_the_built_in_upstreams) {
  Config config = gateway::default_config();
  const std::map<std::string, std::pair<std::string, std::string>> built_in{
      {"openai", {"openai", "https://api.openai.com"}},
      {"anthropic", {"anthropic", "https://api.anthropic.com"}},
      {"gemini", {"gemini", "https://generativelanguage.googleapis.com"}},
      {"mistral", {"mistral", "https://api.mistral.ai"}},
      {"cohere", {"cohere", "https://api.cohere.com"}},
      {"ollama", {"ollama", "http://127.0.0.1:11434"}},
      {"groq", {"groq", "https://api.groq.com/openai"}},
      {"deepseek", {"deepseek", "https://api.deepseek.com"}},
      {"xai", {"xai", "https://api.x.ai"}},
      {"together", {"together", "https://api.together.xyz"}},
      {"fireworks", {"fireworks", "https://api.fireworks.ai/inference"}},
      {"openrouter", {"openrouter", "https://openrouter.ai/api"}},
  };
  ASSERT_EQ(config.upstreams.size(), built_in.size());
  for (const auto& [name, what] : built_in) {
    gateway::UpstreamConfig expected{.name = name, .dialect = what.first, .url = what.second};
    ASSERT_TRUE(upstream(config, name)) << name;
    EXPECT_EQ(*upstream(config, name), expected) << name;
  }
  EXPECT_EQ(config.default_upstream,
            (std::map<std::string, std::string, std::less<>>{{"openai", "openai"},
                                                             {"anthropic", "anthropic"},
                                                             {"gemini", "gemini"},
                                                             {"cohere", "cohere"},
                                                             {"ollama", "ollama"}}));
  ASSERT_EQ(config.tenants.size(), 1U);
  EXPECT_EQ(config.tenants[0], gateway::TenantConfig{.name = "default"});
  config.tenants.clear();
  config.upstreams.clear();
  config.default_upstream.clear();
  EXPECT_EQ(config, Config{}) << "the table's defaults are those of config.h";
}

TEST(Config, takes_an_empty_file_for_the_defaults) {
  const std::string_view kEmpty[] = {
      "", "\n", "# nothing\n", "---\n", "~\n", "{}", "retry:\n", "\xEF\xBB\xBF", "\r\n"};
  for (const std::string_view text : kEmpty) {
    const Loaded loaded = parse(text);
    EXPECT_EQ(joined(lines_of(loaded)), "") << text;
    EXPECT_EQ(loaded.config, gateway::default_config()) << text;
  }
}

TEST(Config, changes_of_a_built_in_upstream_only_what_is_set) {
  const Loaded loaded = parse(
      "upstreams:\n"
      "  openai: {limits: {concurrent: 0}, timeouts: {total: 30m}, replay_safe: [/v1/rerank]}\n"
      "  my.gpu_1: {dialect: openai, url: \"http://127.0.0.1:8000/base/\", http: 2, ca_file: " +
      kAuthority +
      "}\n"
      "default_upstream: {openai: my.gpu_1}\n");
  EXPECT_EQ(joined(lines_of(loaded)), "");
  Config expected = gateway::default_config();
  auto openai = std::ranges::find(expected.upstreams, "openai", &gateway::UpstreamConfig::name);
  openai->concurrent = 0;
  openai->timeouts.total = 30min;
  openai->replay_safe = {"/v1/rerank"};
  const auto place = std::ranges::find_if(expected.upstreams, [](const auto& u) { return u.name > "my.gpu_1"; });
  expected.upstreams.insert(place,
                            {.name = "my.gpu_1",
                             .dialect = "openai",
                             .url = "http://127.0.0.1:8000/base",
                             .http = 2,
                             .ca_file = kAuthority});
  expected.default_upstream["openai"] = "my.gpu_1";
  EXPECT_EQ(loaded.config, expected);
}

TEST(Config, reads_values_in_all_their_forms) {
  const Loaded loaded = parse(
      "listen: {data: unix:/run/callgate/data.sock, health: \"[::]:0\", hosts: [\"[::1]\", a.b]}\n"
      "retry: {base: 7ms, cap: 2h, longest_wait: 1d, on_timeout: False}\n"
      "stream: {hold_bytes: 65536, heartbeat: 0s}\n"
      "answers: {hold_unary: 1GiB}\n"
      "limits: {half_close: allow, buffered_bytes: 2GiB}\n"
      "log: {level: error, format: text}\n");
  EXPECT_EQ(joined(lines_of(loaded)), "");
  const Config& config = loaded.config;
  EXPECT_EQ(config.listen.data, "unix:/run/callgate/data.sock");
  EXPECT_EQ(config.listen.health, "[::]:0");
  EXPECT_EQ(config.listen.hosts, (std::vector<std::string>{"[::1]", "a.b"}));
  EXPECT_EQ(config.retry.base, 7ms);
  EXPECT_EQ(config.retry.cap, 2h);
  EXPECT_EQ(config.retry.longest_wait, 24h);
  EXPECT_FALSE(config.retry.on_timeout);
  EXPECT_EQ(config.stream.hold_bytes, 65536U);
  EXPECT_EQ(config.stream.heartbeat, 0s);
  EXPECT_EQ(config.hold_unary, 1U << 30);
  EXPECT_FALSE(config.limits.half_close_is_gone);
  EXPECT_EQ(config.limits.buffered_bytes, 2ULL << 30);
  EXPECT_EQ(config.log.level, Config::Log::Level::Error);
  EXPECT_EQ(config.log.format, Config::Log::Format::Text);
}

TEST(Config, reads_what_is_to_become_of_jobs_that_come_again) {
  using Idempotency = Config::Idempotency;
  const auto read = [](const std::string& text, const Overrides& overrides = {}) {
    const Loaded loaded = parse("idempotency: {" + text + "}\n", overrides);
    EXPECT_EQ(joined(lines_of(loaded)), "") << text;
    return loaded.config.idempotency;
  };
  const Idempotency all =
      read("ttl: 1h, max_bytes: 1GiB, max_entry: 1MiB, lease: 5s, derive: run_id, on_unknown: fail");
  EXPECT_EQ(all.ttl, 1h);
  EXPECT_EQ(all.max_bytes, 1ULL << 30);
  EXPECT_EQ(all.max_entry, 1ULL << 20);
  EXPECT_EQ(all.lease, 5s);
  EXPECT_EQ(all.derive, Idempotency::Derive::RunId);
  EXPECT_EQ(all.on_unknown, Idempotency::OnUnknown::Fail);
  EXPECT_EQ(all.on_caller_gone, Idempotency::CallerGone::Linger);
  EXPECT_EQ(all.linger, 15s);
  EXPECT_EQ(read("derive: \"off\"").derive, Idempotency::Derive::Off);
  EXPECT_EQ(read("derive: body").derive, Idempotency::Derive::Body);
  EXPECT_EQ(read("on_caller_gone: {linger: 3s}").linger, 3s);
  EXPECT_EQ(read("on_caller_gone: cancel").on_caller_gone, Idempotency::CallerGone::Cancel);
  EXPECT_EQ(read("on_caller_gone: finish").on_caller_gone, Idempotency::CallerGone::Finish);
  const Overrides finish{.environment = {{"CALLGATE_IDEMPOTENCY__ON_CALLER_GONE", "finish"}}};
  EXPECT_EQ(read("ttl: 1h", finish).on_caller_gone, Idempotency::CallerGone::Finish);
  EXPECT_EQ(joined(lines_of(parse("idempotency: {on_caller_gone: stay}\n"))).find("cancel") != std::string::npos,
            true);
}

TEST(Config, puts_in_variables_and_types_the_result_afterwards) {
  const Overrides overrides{.environment = {{"N", "3"}, {"UNIT", "ms"}, {"EMPTY", ""}, {"HOST", "a: b"}}};
  const Loaded loaded = parse(
      "retry:\n"
      "  base: 2${N}0${env:UNIT}\n"
      "  cap: ${MISSING:-40s}\n"
      "  longest_wait: \"${EMPTY:-50s}\"\n"
      "  bulk: {attempts: \"${env:N}\"}\n"
      "listen: {hosts: [\"$$${env:N}$\", \"${env:N}\"]}\n"
      "upstreams: {openai: {replay_safe: [\"/${HOST}\"]}}\n",
      overrides);
  EXPECT_EQ(joined(lines_of(loaded)), "");
  EXPECT_EQ(loaded.config.retry.base, 230ms);
  EXPECT_EQ(loaded.config.retry.cap, 40s);
  EXPECT_EQ(loaded.config.retry.longest_wait, 50s);
  EXPECT_EQ(loaded.config.retry.bulk.attempts, 3);
  EXPECT_EQ(loaded.config.listen.hosts, (std::vector<std::string>{"$3$", "3"}));
  EXPECT_EQ(upstream(loaded.config, "openai")->replay_safe, std::vector<std::string>{"/a: b"})
      << "what is put in is a value, never YAML";
}

TEST(Config, takes_aliases_but_no_bombs) {
  const Loaded shared = parse(
      "upstreams:\n"
      "  a: &base {dialect: openai, url: https://h}\n"
      "  b: *base\n");
  EXPECT_EQ(joined(lines_of(shared)), "");
  EXPECT_EQ(upstream(shared.config, "b")->url, "https://h");

  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int j = 1; j < 10; ++j) bomb += ", " + last;
    bomb += "]\n";
  }
  const Loaded loaded = parse(bomb);
  ASSERT_EQ(loaded.problems.size(), 1U);
  EXPECT_EQ(loaded.problems[0].message, "aliases repeat their content to more than 50000 values");
}

TEST(Config, lists_at_most_two_hundred_problems_and_counts_the_rest) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x" + std::to_string(i) + ": 1\n";
  const Loaded loaded = parse(text);
  ASSERT_EQ(loaded.problems.size(), 201U);
  EXPECT_EQ(text_of(loaded.problems.back()),
            "callgate.yaml:201:1: error: and 800 more problems, of which this is one");

  // Where only warnings are seen, an error among those that are not must still stop us.
  text = "upstreams:\n";
  for (int i = 0; i < 250; ++i) {
    text += "  u" + std::to_string(i) + ": {dialect: openai, url: \"http://h\"}\n";
  }
  EXPECT_TRUE(parse(text).usable());
  EXPECT_FALSE(parse(text + "log: {level: loud}\n").usable());
}

// --- Who decides --------------------------------------------------------------------------------------------------

std::string origin_of(const Loaded& loaded, std::string_view path) {
  for (const gateway::Setting& setting : loaded.settings) {
    if (gateway::text_of(setting.path) == path) return setting.value + " by " + setting.origin;
  }
  return "absent";
}

TEST(Config, lets_the_command_line_win_over_the_environment_over_the_file_over_the_defaults) {
  const Overrides overrides{
      .environment = {{"CALLGATE_RETRY__BASE", "2s"},
                      {"CALLGATE_RETRY__CAP", "20s"},
                      {"CALLGATE_RETRY__LONGEST_WAIT", ""},
                      {"CALLGATE_LISTEN__HOSTS", "localhost, [::1],a"},
                      {"CALLGATE_UPSTREAMS__OPENAI_EU__URL", "https://other"},
                      {"CALLGATE_UPSTREAMS__VLLM__URL", "http://127.0.0.1:8000"},
                      {"CALLGATE_UPSTREAMS__VLLM__DIALECT", "openai"},
                      {"CALLGATE_PORT_4600_TCP_ADDR", "10.0.0.1"},
                      {"CALLGATE_CONFIG", "callgate.yaml"}},
      .sets = {"retry.base=3s", "upstreams.\"my.gpu\".http=2", "retry.base=4s"},
  };
  const Loaded loaded = parse(
      "retry: {base: 1s, cap: 10s, longest_wait: 30s}\n"
      "upstreams:\n"
      "  openai-eu: {dialect: openai, url: https://eu}\n"
      "  my.gpu: {dialect: openai, url: https://h}\n",
      overrides);
  EXPECT_EQ(joined(lines_of(loaded)), "");
  EXPECT_EQ(origin_of(loaded, "retry.base"), "4s by --set");
  EXPECT_EQ(origin_of(loaded, "retry.cap"), "20s by CALLGATE_RETRY__CAP");
  EXPECT_EQ(origin_of(loaded, "retry.longest_wait"), "30s by callgate.yaml:1");
  EXPECT_EQ(origin_of(loaded, "retry.on_timeout"), "true by default");
  EXPECT_EQ(origin_of(loaded, "upstreams.openai.url"), "https://api.openai.com by built in");
  EXPECT_EQ(origin_of(loaded, "upstreams.openai-eu.url"), "https://other by CALLGATE_UPSTREAMS__OPENAI_EU__URL");
  EXPECT_EQ(origin_of(loaded, "upstreams.vllm.dialect"), "openai by CALLGATE_UPSTREAMS__VLLM__DIALECT");
  EXPECT_EQ(origin_of(loaded, "upstreams.\"my.gpu\".http"), "2 by --set");
  EXPECT_EQ(origin_of(loaded, "listen.hosts"), "[localhost, \"[::1]\", a] by CALLGATE_LISTEN__HOSTS");
  EXPECT_EQ(origin_of(loaded, "listen.tls"), "absent") << "not in this version";
  EXPECT_EQ(loaded.config.retry.base, 4s);
  EXPECT_EQ(loaded.config.listen.hosts, (std::vector<std::string>{"localhost", "[::1]", "a"}));
}

TEST(Config, warns_of_variables_that_look_like_ours_but_are_not_used) {
  const Overrides overrides{.environment = {{"CALLGATE_CONFIG", "x.yaml"},
                                            {"CALLGATE_LOG_LEVEL", "info"},
                                            {"CALLGATE_RETYR__BASE", ""},
                                            {"CALLGATE_TOKEN", "0123456789abcdef"},
                                            {"CALLGATE_LEVEL", "info"},
                                            {"CALLGATE_SOMETHING", "1"},
                                            {"CALLGATE_SERVICE_HOST", "10.0.0.1"},
                                            {"CALLGATE_PORT", "tcp://10.0.0.1:4600"},
                                            {"CALLGATE_PORT_4600_TCP_ADDR", "10.0.0.1"},
                                            {"CALLGATE_EU_SERVICE_PORT_DATA", "4600"},
                                            {"CALLGATES", "1"}}};
  const Loaded loaded =
      parse("listen: {admin_token: {env: CALLGATE_TOKEN}}\nlog: {level: \"${CALLGATE_LEVEL}\"}\n", overrides);
  EXPECT_TRUE(loaded.usable());
  EXPECT_EQ(joined(lines_of(loaded)),
            "CALLGATE_LOG_LEVEL: warning: is not used; did you mean CALLGATE_LOG__LEVEL?\n"
            "CALLGATE_SOMETHING: warning: is not used; two underscores part the levels of a key, as in "
            "CALLGATE_LOG__LEVEL\n");
}

TEST(Config, says_what_is_wrong_with_overrides_and_names_them) {
  const Overrides overrides{
      .environment = {{"CALLGATE_LOG__LEVEL", "loud"},
                      {"CALLGATE_LOG__LEVL", "info"},
                      {"CALLGATE_XYZ__ABC", "1"},
                      {"CALLGATE_LOG_FORMAT", "text"},
                      {"CALLGATE_RETRY__BULK__", "1"}},
      .sets = {"retry.bse=1s", "retry=1", "nonsense", "listen.admin_token=abc", "queue.total=0"},
  };
  EXPECT_EQ(
      joined(lines_of(parse("", overrides))),
      "CALLGATE_LOG_FORMAT: warning: is not used; did you mean CALLGATE_LOG__FORMAT?\n"
      "CALLGATE_LOG__LEVEL: error: log.level: must be debug, info, warn or error (is loud)\n"
      "CALLGATE_LOG__LEVL: error: names no key; did you mean CALLGATE_LOG__LEVEL?\n"
      "CALLGATE_RETRY__BULK__: error: names no key; two underscores part the levels, as in CALLGATE_LOG__LEVEL\n"
      "CALLGATE_XYZ__ABC: error: names no key; two underscores part the levels, as in CALLGATE_LOG__LEVEL\n"
      "--set: error: retry.bse: unknown key; did you mean base?\n"
      "--set: error: retry: cannot be set here; only single values and lists of texts can\n"
      "--set: error: nonsense: unknown key; there are: listen, upstreams, routes, default_upstream, tenants, "
      "tenancy, "
      "budget, retry, memo, breaker, queue, idempotency, stream, answers, limits, prices, store, dead_letters, runs, "
      "queues, webhooks, shutdown, log, metrics, tracing\n"
      "--set: error: must be KEY=VALUE, such as retry.base=1s (is nonsense)\n"
      "--set: error: listen.admin_token: cannot be set here; only single values and lists of texts can\n"
      "--set: error: queue.total: must be between 1 and 1000000 (is 0)\n");
}

/// A file of prices that is there.
const std::string kPrices = std::string{PROJECT_ROOT} + "/budget/prices.json";

/// A payload's schema that is there.
const std::string kSchema = std::string{PROJECT_ROOT} + "/tests/fixtures/invoice.schema.json";

/// Another value for a key than its default, within its range.
std::string other_value(const gateway::Key& key) {
  if (key.path == "upstreams.*.url") return "https://other.example.com";
  if (key.path == "upstreams.*.dialect") return "gemini";
  if (key.path == "upstreams.*.ca_file" || key.path == "tracing.ca_file") return kAuthority;
  if (key.path == "tracing.otlp_url" || key.path == "tracing.otlp_traces_url") return "https://other.example.com";
  if (key.path == "tracing.resource") return "a=b";
  if (key.path == "upstreams.*.replay_safe") return "/v1/other";
  if (key.path == "upstreams.*.http") return "2";
  if (key.path == "default_upstream.*") return "groq";
  if (key.path == "limits.buffered_bytes") return "100MiB";
  if (key.path == "prices.files") return kPrices;
  if (key.path == "budget.time_zone") return "Europe/Berlin";
  if (key.path == "queues.*.payload_schema") return kSchema;
  if (key.path == "queues.*.version_from" || key.path == "queues.*.idempotency_key.from" ||
      key.path == "queues.*.ordering_key")
    return "$.other";
  if (key.path == "queues.*.owner.runbook") return "https://other.example.com/#a";
  if (key.path == "queues.*.retry.never") return "auth,timeout";
  if (key.path == "queues.*.retry.backoff.cap") return "7m";
  if (key.path == "queues.*.replay.max_rate") return "7/m";
  if (key.path == "queues.*.idempotency_key.ttl") return "7d";
  if (key.path == "queues.*.alerts.step_factor") return "7";
  switch (key.type) {
    case gateway::Type::Flag:
      return key.standard == "true" ? "false" : "true";
    case gateway::Type::Duration:
      return key.range.low > 7'000 ? "7h" : "7s";
    case gateway::Type::Size:
      return key.range.low > 900.0 * 1024 ? "9MiB" : "900KiB";
    case gateway::Type::Integer:
      return "3";
    case gateway::Type::Number:
      return "0.25";
    case gateway::Type::Money:
      return "3.5";
    case gateway::Type::Address:
      return "127.0.0.1:7777";
    case gateway::Type::Word:
      return gateway::words_of(key.words).back();
    default:
      return "other";
  }
}

TEST(Config, brings_every_key_of_this_version_into_the_struct_and_only_there) {
  std::vector<Config> seen{gateway::default_config()};
  for (const gateway::Key& key : gateway::config_keys()) {
    if (!key.apply || key.type == gateway::Type::Secret) continue;  // A secret can only be named in a file.
    if (key.type == gateway::Type::Word && gateway::words_of(key.words).size() == 1) continue;  // Nothing to choose.
    if (key.path == "queues.*.concurrency.per_ordering_key") continue;                          // Nor here.
    std::string path{key.path};
    if (const std::size_t star = path.find('*'); star != std::string::npos) path.replace(star, 1, "openai");
    SCOPED_TRACE(path);
    Loaded loaded = parse("", {.sets = {path + "=" + other_value(key)}});
    std::erase_if(loaded.problems, [](const Problem& p) { return p.kind == Problem::Kind::Contract; });
    // Then the default upstream of its old dialect does not fit, and what is sent to a host must be signed.
    if (key.path != "upstreams.*.dialect" && key.path != "webhooks.allow_hosts" &&
        key.path != "webhooks.allow_private_hosts") {
      EXPECT_EQ(joined(lines_of(loaded)), "");
    }
    EXPECT_EQ(std::ranges::find(seen, loaded.config), seen.end()) << "no two keys have the same place";
    seen.push_back(loaded.config);
  }
  EXPECT_GT(seen.size(), 40U);
}

// --- Files --------------------------------------------------------------------------------------------------------

class ConfigFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "callgate_config_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& text, mode_t mode) {
    const std::string file = folder_ / "callgate.yaml";
    std::ofstream{file} << text;
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return file;
  }
  static std::string problem(const std::string& file) {
    const Loaded loaded = gateway::load_config(file, {});
    return loaded.problems.size() == 1 ? text_of(loaded.problems[0]) : joined(lines_of(loaded));
  }
  std::filesystem::path folder_;
};

TEST_F(ConfigFile, that_is_good_is_read_without_a_word) {
  for (const mode_t mode : {0644U, 0640U, 0600U, 0400U}) {
    const Loaded loaded = gateway::load_config(write("retry: {base: 9ms}\n", mode), {});
    EXPECT_EQ(joined(lines_of(loaded)), "");
    EXPECT_EQ(loaded.config.retry.base, 9ms);
  }
}

TEST_F(ConfigFile, that_anybody_can_write_is_a_warning) {
  for (const mode_t mode : {0666U, 0646U}) {
    const std::string file = write("retry: {base: 9ms}\n", mode);
    const Loaded loaded = gateway::load_config(file, {});
    EXPECT_TRUE(loaded.usable());
    EXPECT_EQ(loaded.config.retry.base, 9ms);
    EXPECT_EQ(joined(lines_of(loaded)),
              file + ": warning: anybody may write to it, and so decide where calls and keys go; chmod o-w it\n");
  }
}

TEST_F(ConfigFile, that_cannot_be_one_is_named) {
  const std::string missing = folder_ / "missing.yaml";
  EXPECT_EQ(problem(missing), missing + ": error: there is no such file");
  EXPECT_EQ(problem(folder_), folder_.string() + ": error: it is a directory; name the file in it");
  const std::string pipe = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(problem(pipe), pipe + ": error: it is not a regular file");
  const std::string large = write("# " + std::string(1 << 20, 'x'), 0600);
  EXPECT_EQ(problem(large), large + ": error: it is larger than 1MiB; this cannot be a configuration");
  EXPECT_FALSE(gateway::load_config(large, {}).usable());
  EXPECT_TRUE(gateway::load_config("", {}).usable()) << "no file at all is no mistake";
}

TEST_F(ConfigFile, that_names_a_token_looks_whether_it_is_one_and_never_repeats_it) {
  const auto token = [&](const std::string& text, mode_t mode) {
    const std::string file = folder_ / "token";
    std::ofstream{file} << text;
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return joined(lines_of(parse("listen:\n  admin_token: {file: " + file + "}\n")));
  };
  const std::string begin = "callgate.yaml:2:3: error: listen.admin_token: ";
  const std::string file = (folder_ / "token").string();
  EXPECT_EQ(token("0123456789abcdef\n", 0600), "");
  EXPECT_EQ(token("SECRET\n", 0600),
            begin + "must have at least 16 characters (has 6); `openssl rand -hex 32` makes a good one\n");
  EXPECT_EQ(token("", 0600), begin + "needs the file " + file + ", which is empty\n");
  EXPECT_EQ(token("SECRET SECRET SECRET\n", 0600),
            begin + "needs the file " + file + " to hold one line of ASCII without blanks\n");
  EXPECT_EQ(token("0123456789abcdef\n", 0644),
            "callgate.yaml:2:3: warning: listen.admin_token: is in a file that anybody can read; chmod 0640 it\n");
  std::filesystem::create_directory_symlink("..2026_11_30", folder_ / "..data");
  EXPECT_EQ(token("0123456789abcdef\n", 0644), "") << "a volume that the kubelet fills";
  EXPECT_EQ(joined(lines_of(parse("listen:\n  admin_token: {file: /nowhere/token}\n"))),
            begin + "needs the file /nowhere/token: there is no such file\n");
  EXPECT_EQ(joined(lines_of(parse("listen:\n  admin_token: {env: NOBODY_SET_THIS}\n"))),
            begin + "needs the environment variable NOBODY_SET_THIS, which is not set\n");
}

TEST_F(ConfigFile, that_opens_the_admin_listener_to_others_needs_a_token) {
  const std::string warning =
      "callgate.yaml:1:17: warning: listen.admin: lets the token cross the network unencrypted; use 127.0.0.1 or "
      "unix:/path if that will do\n";
  EXPECT_EQ(joined(lines_of(parse("listen: {admin: 0.0.0.0:4602}\n"))),
            "callgate.yaml:1:17: error: listen.admin: needs listen.admin_token, since others can reach this address; "
            "write admin_token: {file: /path/to/it}, or use 127.0.0.1:4602 or unix:/path\n");
  const Overrides overrides{.environment = {{"TOKEN", "0123456789abcdef"}}};
  const Loaded good = parse("listen: {admin: 0.0.0.0:4602, admin_token: {env: TOKEN}}\n", overrides);
  EXPECT_EQ(joined(lines_of(good)), warning);
  EXPECT_EQ(good.config.listen.admin_token,
            (gateway::SecretSource{gateway::SecretSource::From::Environment, "TOKEN"}));
  const auto setting = std::ranges::find_if(
      good.settings, [](const auto& one) { return gateway::text_of(one.path) == "listen.admin_token"; });
  ASSERT_NE(setting, good.settings.end());
  EXPECT_EQ(setting->value, "{env: TOKEN}") << "where it is, never what it is";
}

TEST_F(ConfigFile, that_names_a_credential_means_a_file_in_the_folder_of_the_unit) {
  const std::string file = write("0123456789abcdef", 0600);
  const std::filesystem::path path{file};
  const Overrides unit{.environment = {{"CREDENTIALS_DIRECTORY", path.parent_path().string()}}};
  const std::string name = path.filename().string();
  const Loaded good = parse("listen: {admin_token: {credential: " + name + "}}\n", unit);
  EXPECT_EQ(joined(lines_of(good)), "");
  EXPECT_EQ(good.config.listen.admin_token, (gateway::SecretSource{gateway::SecretSource::From::File, file}));
  const auto setting = std::ranges::find_if(
      good.settings, [](const auto& one) { return gateway::text_of(one.path) == "listen.admin_token"; });
  ASSERT_NE(setting, good.settings.end());
  EXPECT_EQ(setting->value, "{credential: " + name + "}");

  const auto said = [](const std::string& credential, const Overrides& overrides) {
    return joined(lines_of(parse("listen: {admin_token: {credential: " + credential + "}}\n", overrides)));
  };
  const std::string begin = "callgate.yaml:1:36: error: listen.admin_token.credential: ";
  const std::string no_name =
      begin + "must be the name of a credential of the systemd unit, such as in LoadCredential=NAME:FILE\n";
  for (const std::string bad : {"../token", "a/b", "..", "\"\"", "\"a b\""})
    EXPECT_EQ(said(bad, unit), no_name) << bad;
  EXPECT_EQ(said("token", {}),
            begin +
                "is in the folder that CREDENTIALS_DIRECTORY names, which is not set; systemd does that for a unit "
                "with LoadCredential=NAME:FILE\n");
  EXPECT_EQ(said("other", unit),
            "callgate.yaml:1:10: error: listen.admin_token: needs the file " + path.parent_path().string() +
                "/other: there is no such file\n");
}

TEST_F(ConfigFile, that_names_authorities_looks_whether_they_are_there) {
  const auto said = [](const std::string& file) {
    return joined(lines_of(parse("upstreams: {openai: {ca_file: " + file + "}}\n")));
  };
  const std::string begin = "callgate.yaml:1:31: error: upstreams.openai.ca_file: names the file ";
  EXPECT_EQ(said(kAuthority), "");
  EXPECT_EQ(said("/nowhere/ca.pem"), begin + "/nowhere/ca.pem: there is no such file\n");
  EXPECT_EQ(said(folder_), begin + folder_.string() + ": it is a directory; name the file in it\n");
  const std::string text = write("no certificate", 0600);
  EXPECT_EQ(said(text), begin + text + ", in which there is no PEM certificate\n");
}

TEST(Config, reads_text_only) {
  struct Row {
    std::string text;
    std::string_view said;
  };
  const Row kRows[] = {
      {std::string{"log: {level: \0info}", 19},
       ":1:14: error: there is a byte here that is no text (0x00); save the file as UTF-8"},
      {"\xFF\xFEl\x01", ":1:1: error: there is a byte here that is no text (0xff); save the file as UTF-8"},
      {"log:\n  level: \xC3(\n", ":2:10: error: there is a byte here that is no text (0xc3); save the file as UTF-8"},
      {"log:\n  level: \xED\xA0\x80\n",
       ":2:10: error: there is a byte here that is no text (0xed); save the file as UTF-8"},
      {"log: \x1b[31m\n", ":1:6: error: there is a byte here that is no text (0x1b); save the file as UTF-8"},
      {"\"\\x1b[31m\": 1\n", ":1:1: error: a key must be short and without control characters"},
  };
  for (const Row& row : kRows) {
    EXPECT_EQ(joined(lines_of(parse(row.text))), kFile + std::string{row.said} + "\n");
  }
}

// --- The example, the table, the documentation --------------------------------------------------------------------

void collect(const YAML::Node& node, const gateway::Path& path, std::map<std::string, std::string>& values) {
  if (node.IsMap() && node.size() > 0) {
    for (const auto& entry : node) {
      gateway::Path child = path;
      child.push_back(entry.first.Scalar());
      collect(entry.second, child, values);
    }
  } else if (node.IsSequence()) {
    std::string text = "[";
    for (const auto& item : node)
      text += (text.size() > 1 ? ", " : "") + (item.IsScalar() ? gateway::yaml_text(item.Scalar()) : "…");
    values[gateway::text_of(path)] = text + "]";
  } else {
    values[gateway::text_of(path)] = node.IsScalar() ? node.Scalar() : "{}";
  }
}

TEST(ConfigExample, is_accepted_as_it_stands_and_means_the_defaults) {
  const Loaded loaded = parse(example_text());
  EXPECT_EQ(joined(lines_of(loaded)), "");
  EXPECT_EQ(loaded.config, gateway::default_config());
}

TEST(ConfigExample, has_nothing_later_that_is_there_and_nothing_live_that_is_later) {
  const Loaded loaded = parse(example_with_later());
  for (const Problem& problem : loaded.problems) {
    EXPECT_EQ(problem.kind, Problem::Kind::NotInThisVersion) << text_of(problem);
    EXPECT_TRUE(problem.path.starts_with("listen.tls.")) << text_of(problem);
  }
  std::map<std::string, const gateway::Key*> by_name;
  for (const gateway::Key& key : gateway::config_keys()) by_name.emplace(key.path, &key);
  std::map<std::string, std::string> live;
  collect(YAML::Load(example_text()), {}, live);
  for (const auto& [path, value] : live) {
    std::string pattern = path;
    for (const std::string_view group : {"upstreams.openai", "default_upstream.", "tenants.default"}) {
      if (path.starts_with(group))
        pattern = group == "tenants.default"    ? "tenants.*" + path.substr(15)
                  : group == "upstreams.openai" ? "upstreams.*" + path.substr(16)
                                                : "default_upstream.*";
    }
    ASSERT_TRUE(by_name.contains(pattern)) << path;
    EXPECT_EQ(by_name[pattern]->later, "") << path;
  }
}

TEST(ConfigExample, has_every_key_of_the_table_with_its_default_as_the_documentation_does) {
  const std::string text = example_with_later();
  const std::string docs = text_of_file(std::filesystem::path{PROJECT_ROOT} / "docs/configuration.md");
  std::map<std::string, std::string> values;
  collect(YAML::Load(text), {}, values);
  std::string whole = example_text();
  for (const gateway::Key& key : gateway::config_keys()) {
    SCOPED_TRACE(key.path);
    std::string path{key.path};
    if (path.starts_with("upstreams.*")) path.replace(10, 1, "openai");
    if (path.starts_with("tenants.*")) path.replace(8, 1, "default");
    const bool plain = path.find_first_of("*[") == std::string::npos;
    const auto value = values.find(path);
    if (key.path.find('.') != std::string_view::npos) {
      std::string row = "| `";
      for (const char c : key.path) row += c == '*' ? std::string{"NAME"} : std::string(1, c);
      const std::size_t at = docs.find(row + "` |");
      EXPECT_NE(at, std::string::npos) << "is not in docs/configuration.md";
      const std::string line = docs.substr(at, docs.find('\n', at) - at);
      if (!key.standard.empty()) {
        EXPECT_NE(line.find("| `" + std::string{key.standard} + "` |"), std::string::npos) << line;
      }
    }
    if (plain && value != values.end() && !key.standard.empty()) {
      const bool money = key.type == gateway::Type::Money;
      EXPECT_EQ(value->second,
                money                    ? key.standard.substr(1, key.standard.size() - 2)
                : key.standard == "\"\"" ? ""
                                         : key.standard);
    }
    // Everything else at least has its name there, in an example entry or a comment.
    const std::size_t dot = path.find_last_of(".*]");
    const std::string last = path.substr(dot == std::string::npos ? 0 : dot + 1);
    if (last.empty()) continue;
    EXPECT_TRUE(matches(whole, "[^a-z_]" + last + "[^a-z_]")) << last;
    const bool in_example_entry = key.path.starts_with("tenants.*.") || key.path == "upstreams.*.classifier.rules";
    if (plain && !key.standard.empty() && !in_example_entry && key.type != gateway::Type::Map) {
      EXPECT_TRUE(value != values.end()) << "is not in the example";
    }
  }
}

TEST(ConfigTable, says_of_every_key_what_it_means_with_a_default_or_an_example_that_it_takes_itself) {
  for (const gateway::Key& key : gateway::config_keys()) {
    SCOPED_TRACE(key.path);
    EXPECT_FALSE(key.meaning.empty());
    const bool value =
        key.type != gateway::Type::Map && key.type != gateway::Type::List && key.type != gateway::Type::Anything;
    // A list of maps and a map of lists are taken whole.
    const bool item = key.path.find("[]") != std::string_view::npos || key.path.ends_with(".groups.*");
    EXPECT_EQ(key.apply != nullptr, value && !item && key.later.empty())
        << "in this version means: it goes somewhere";
    if (!value || key.type == gateway::Type::Secret) continue;
    EXPECT_FALSE(key.standard.empty() && key.example.empty());
    for (const std::string_view text : {key.standard, key.example}) {
      if (text.empty()) continue;
      EXPECT_NO_THROW(static_cast<void>(gateway::read_standard(key, text))) << text;
    }
  }
}

TEST(ConfigDocs, are_what_the_table_says) {
  EXPECT_EQ(text_of_file(std::filesystem::path{PROJECT_ROOT} / "docs/configuration.md"), gateway::config_docs())
      << "callgate config docs > docs/configuration.md";
}

TEST(ConfigDocs, show_a_file_that_is_accepted) {
  const std::string docs = gateway::config_docs();
  const std::size_t begin = docs.find("```yaml\n") + 8;
  const std::string sample = docs.substr(begin, docs.find("```", begin) - begin);
  const Loaded loaded = parse(sample);
  EXPECT_EQ(joined(lines_of(loaded)), "");
  EXPECT_EQ(loaded.config.retry.bulk.attempts, 6);
}

/// With what paths begin that a dialect knows although no upstream is named in them: of all words in the dialects'
/// sources, those that are such paths, or fronts of them.
std::set<std::string> beginnings_of_paths() {
  // Of the dialects that have a default upstream: others' paths need a name anyway.
  const auto defaults = gateway::default_config().default_upstream;
  const auto is_known = [&](const std::string& path) {
    return std::ranges::any_of(classifier::dialects(), [&](const classifier::Dialect* dialect) {
      if (!defaults.contains(dialect->name())) return false;
      const classifier::ApiPath read = dialect->read_path(path);
      return read.known != classifier::ApiPath::Known::No || !read.version.empty();
    });
  };
  std::set<std::string> found;
  const std::regex word{"\"([A-Za-z0-9_./*:-]+)\""};
  for (const auto& file : std::filesystem::directory_iterator{PROJECT_ROOT "/classifier/dialects"}) {
    const std::string text = text_of_file(file.path());
    for (auto at = std::sregex_iterator{text.begin(), text.end(), word}; at != std::sregex_iterator{}; ++at) {
      const std::string path = "/" + (*at)[1].str();
      const std::string first = path.substr(1, path.find('/', 1) - 1);
      const bool could_be_a_name = first.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == first.npos;
      if (could_be_a_name && (is_known(path) || is_known(path + "/x"))) found.insert(first);
    }
  }
  return found;
}

TEST(ReservedNames, are_ours_and_all_with_which_paths_begin_that_name_no_upstream) {
  std::set<std::string> needed = beginnings_of_paths();
  EXPECT_GT(needed.size(), 20U);
  std::erase_if(needed, [](const std::string& name) { return gateway::is_built_in({"upstreams", name}); });
  needed.insert("callgate");
  const auto reserved = gateway::reserved_names();
  EXPECT_EQ((std::set<std::string>{reserved.begin(), reserved.end()}), needed);
}

// --- The schema ---------------------------------------------------------------------------------------------------

/// Enough of JSON Schema draft-07 for our own; a word that it does not know is a failed test.
class SchemaCheck {
 public:
  explicit SchemaCheck(const json& root) : root_(root) {}

  bool accepts(const json& value) const { return accepts(root_, value); }

 private:
  bool accepts(const json& schema, const json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    return std::ranges::all_of(schema.items(),
                               [&](const auto& rule) { return holds(rule.key(), rule.value(), schema, value); });
  }

  bool any(const json& schemas, const json& value) const {
    return std::ranges::any_of(schemas, [&](const json& schema) { return accepts(schema, value); });
  }

  static bool is_type(const std::string& type, const json& value) {
    if (type == "integer") return value.is_number_integer();
    return type == (value.is_number() ? "number" : value.type_name());
  }

  bool holds(const std::string& word, const json& rule, const json& schema, const json& value) const {
    if (word == "$ref") return accepts(root_.at(json::json_pointer{rule.get<std::string>().substr(1)}), value);
    if (word == "anyOf") return any(rule, value);
    if (word == "oneOf") return std::ranges::count_if(rule, [&](const json& s) { return accepts(s, value); }) == 1;
    if (word == "allOf") return std::ranges::all_of(rule, [&](const json& s) { return accepts(s, value); });
    if (word == "not") return !accepts(rule, value);
    if (word == "const") return value == rule;
    if (word == "enum") return std::ranges::find(rule, value) != rule.end();
    if (word == "type") {
      if (rule.is_string()) return is_type(rule, value);
      return std::ranges::any_of(rule, [&](const json& type) { return is_type(type, value); });
    }
    if (word == "pattern") return !value.is_string() || matches(value.get<std::string>(), rule.get<std::string>());
    if (word == "minimum") return !value.is_number() || value.get<double>() >= rule.get<double>();
    if (word == "maximum") return !value.is_number() || value.get<double>() <= rule.get<double>();
    if (word == "minItems") return !value.is_array() || value.size() >= rule.get<std::size_t>();
    if (word == "maxItems") return !value.is_array() || value.size() <= rule.get<std::size_t>();
    if (word == "maxProperties") return !value.is_object() || value.size() <= rule.get<std::size_t>();
    if (word == "items")
      return !value.is_array() || std::ranges::all_of(value, [&](const json& v) { return accepts(rule, v); });
    if (word == "required") {
      return !value.is_object() ||
             std::ranges::all_of(rule, [&](const json& name) { return value.contains(name.get<std::string>()); });
    }
    if (word == "propertyNames") {
      return !value.is_object() ||
             std::ranges::all_of(value.items(), [&](const auto& v) { return accepts(rule, v.key()); });
    }
    if (word == "properties" || word == "additionalProperties") {
      if (!value.is_object()) return true;
      const json& named = schema.contains("properties") ? schema["properties"] : json::object();
      for (const auto& [key, child] : value.items()) {
        if (word == "properties" && named.contains(key) && !accepts(named[key], child)) return false;
        if (word == "additionalProperties" && !named.contains(key) && !accepts(rule, child)) return false;
      }
      return true;
    }
    const std::set<std::string> kTalk{"$schema", "title", "description", "default", "examples", "definitions"};
    EXPECT_TRUE(kTalk.contains(word)) << "the check does not know " << word;
    return true;
  }

  const json& root_;
};

/// By YAML's core schema.
json json_of(const YAML::Node& node) {
  if (node.IsMap()) {
    json out = json::object();
    for (const auto& entry : node) out[entry.first.Scalar()] = json_of(entry.second);
    return out;
  }
  if (node.IsSequence()) {
    json out = json::array();
    for (const auto& item : node) out.push_back(json_of(item));
    return out;
  }
  if (!node.IsScalar()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;
  if (matches(text, "^(true|True|TRUE)$")) return true;
  if (matches(text, "^(false|False|FALSE)$")) return false;
  if (matches(text, "^([-+]?[0-9]{1,18})$")) return std::stoll(text);
  if (matches(text, "^([-+]?(\\.[0-9]+|[0-9]+(\\.[0-9]*)?)([eE][-+]?[0-9]+)?)$")) return std::stod(text);
  return text;
}

json schema() { return json::parse(gateway::config_schema()); }

TEST(ConfigSchema, refuses_what_it_can_see_to_be_wrong) {
  const json root = schema();
  const SchemaCheck check{root};
  for (const Mistake& mistake : kMistakes) {
    if (!mistake.schema_sees) continue;
    EXPECT_FALSE(check.accepts(json_of(YAML::Load(std::string{mistake.text})))) << mistake.name;
  }
  EXPECT_FALSE(check.accepts(json_of(YAML::Load(example_with_later())))) << "listen.tls has no default";
}

TEST(ConfigSchema, takes_what_the_validator_takes) {
  const json root = schema();
  const SchemaCheck check{root};
  const std::string kGood[] = {
      example_text(),
      "{}",
      "retry:\n",
      "retry: {base: \"${env:X:-5s}\", on_timeout: True, bulk: {attempts: \"${X:-5}\"}}",
      "upstreams: {openai: , mine: {dialect: openai, url: https://h, http: 2}}",
      "upstreams: {openai: {limits: {concurrent: 0, adaptive: true}, credentials: [], replay_safe: [/a]}}",
      "listen: {data: \"[::1]:0\", health: 0.0.0.0:80, hosts: [a]}",
      "limits: {buffered_bytes: 134217728, body_bytes: 1MiB}",
      "retry: {budget: {share: 0.5}}\nmemo: {final_failure: 15000ms}\nprices: {fallback: {input_usd_per_mtok: "
      "\"5\"}}",
      "budget: {status: 402}\nidempotency: {on_caller_gone: {linger: 15s}}\nqueues: {}\nprices: {files: }",
  };
  for (const std::string& text : kGood) {
    EXPECT_TRUE(parse(text).usable()) << text << joined(lines_of(parse(text)));
    EXPECT_TRUE(check.accepts(json_of(YAML::Load(text)))) << text;
  }
}

constexpr std::string_view kTenants = R"(
upstreams:
  openai:
    limits: {requests_per_minute: 500, tokens_per_minute: 4000, input_tokens_per_minute: 3000, output_tokens_per_minute: 1000, adaptive: false}
tenants:
  search:
    weight: 2.5
    lane: interactive
    keys:
      - {sha256: "00000000000000000000000000000000000000000000000000000000000000AA"}
      - sha256: bb00000000000000000000000000000000000000000000000000000000000000
    limits: {requests_per_minute: 600, tokens_per_minute: 400000, concurrent: 20}
    models: {allow: ["gpt-5*", "claude-*"]}
    budget: {daily_usd: "50.00", monthly_usd: "1000", per_run_usd: "0.000000001", warn_at: 0.5}
  crawler:
tenancy: {unknown: refuse}
budget: {time_zone: America/Argentina/Buenos_Aires, status: 429}
queue: {per_tenant: 7, weights: {interactive: 4, bulk: 0.5}, reserve: 0.25}
metrics: {tenant_label: false}
)";

TEST(ConfigTenants, are_read_with_all_that_holds_for_them) {
  const Loaded loaded = parse(kTenants);
  ASSERT_EQ(joined(lines_of(loaded)), "");
  const Config& config = loaded.config;
  ASSERT_EQ(config.tenants.size(), 3U);
  EXPECT_EQ(config.tenants[0], gateway::TenantConfig{.name = "crawler"}) << "one that says nothing is there, too";
  EXPECT_EQ(config.tenants[1], gateway::TenantConfig{.name = "default"});
  const gateway::TenantConfig search{.name = "search",
                                     .weight = 2.5,
                                     .lane = budget::Lane::Interactive,
                                     .limits = {.requests = 600, .tokens = 400'000},
                                     .concurrent = 20,
                                     .keys = {"00000000000000000000000000000000000000000000000000000000000000aa",
                                              "bb00000000000000000000000000000000000000000000000000000000000000"},
                                     .models = {"gpt-5*", "claude-*"},
                                     .budget = {.daily = budget::NanoUsd{50'000'000'000},
                                                .monthly = budget::NanoUsd{1'000'000'000'000},
                                                .per_run = budget::NanoUsd{1},
                                                .warn_at = 0.5}};
  EXPECT_EQ(config.tenants[2], search);
  EXPECT_TRUE(config.refuse_unknown);
  EXPECT_EQ(config.time_zone, "America/Argentina/Buenos_Aires");
  EXPECT_EQ(config.budget_status, 429);
  EXPECT_EQ(config.queue.per_tenant, 7U);
  EXPECT_EQ(config.queue.weights, (Config::Queue::Weights{4, 0.5, 1}));
  EXPECT_EQ(config.queue.reserve, 0.25);
  EXPECT_FALSE(config.tenant_label);
  const auto openai = std::ranges::find(config.upstreams, "openai", &gateway::UpstreamConfig::name);
  EXPECT_EQ(openai->rates, (budget::RateLimits{500, 4000, 3000, 1000}));
  EXPECT_FALSE(openai->adaptive);
  EXPECT_EQ(origin_of(loaded, "tenants.search.keys").substr(0, 12), "[{sha256: 00");
  EXPECT_EQ(origin_of(loaded, "tenants.crawler.weight"), "1 by default");
  const json root = schema();
  EXPECT_TRUE(SchemaCheck{root}.accepts(json_of(YAML::Load(std::string{kTenants}))));
}

TEST(ConfigTenants, can_be_set_by_variables) {
  const Loaded loaded = parse("tenants: {web-search: {weight: 2}}\n",
                              {.environment = {{"CALLGATE_TENANTS__WEB_SEARCH__WEIGHT", "3"},
                                               {"CALLGATE_TENANTS__DEFAULT__MODELS__ALLOW", "gpt-5*,o3"},
                                               {"CALLGATE_TENANTS__DEFAULT__BUDGET__DAILY_USD", "1.50"}}});
  EXPECT_EQ(joined(lines_of(loaded)), "");
  ASSERT_EQ(loaded.config.tenants.size(), 2U);
  EXPECT_EQ(loaded.config.tenants[0].models, (std::vector<std::string>{"gpt-5*", "o3"}));
  EXPECT_EQ(loaded.config.tenants[0].budget.daily, budget::NanoUsd{1'500'000'000});
  EXPECT_EQ(loaded.config.tenants[1].weight, 3);
}

// Off loopback only with keys, and then with a word of warning.
TEST(ConfigTenants, with_keys_that_are_demanded_let_the_data_listener_be_reached_by_others) {
  const Loaded loaded = parse(std::string{kTenants} + "listen: {data: 0.0.0.0:4600}\n");
  EXPECT_TRUE(loaded.usable());
  EXPECT_EQ(joined(lines_of(loaded)),
            "callgate.yaml:20:16: warning: listen.data: lets keys and prompts cross the network unencrypted; use "
            "127.0.0.1 or "
            "unix:/path if that will do\n");
}

// --- Mutations ----------------------------------------------------------------------------------------------------

std::string mutate(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>{0, bound - 1}(random);
  };
  static const std::string kPieces[] = {
      "{",    "}",    "[",    "]",     ":",   ": ", "- ", "\n",   "\t", "  ", "\"", "'", "*a",
      "&a ",  "!!x ", "#",    "|",     ">",   "? ", "${", "${A}", "$$", "~",  "-1", "0", "9999999999999999999",
      "\xFF", "\0",   "<<: ", "---\n", "...", "%",  "@",  ","};
  for (std::size_t changes = 1 + below(3); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = below(text.size());
    switch (below(6)) {
      case 0:
        text.erase(at, 1 + below(20));
        break;
      case 1:
        text.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 2:
        text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size()), below(200)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        std::swap(text[at], text[below(text.size())]);
        break;
    }
  }
  return text;
}

// Goal: nothing that stands in a file makes the reader crash, and every problem can be found and acted on. Method: a
// thousand changed examples; those that are still accepted must satisfy the schema as well.
TEST(ConfigMutations, never_crash_and_every_problem_has_a_place) {
  const json root = schema();
  const SchemaCheck check{root};
  const std::string sources[] = {example_text(), example_with_later()};
  std::size_t accepted = 0;
  for (unsigned seed = 1; seed <= 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const std::string text = mutate(sources[seed % 2], random);
    const Loaded loaded = parse(text);
    for (const Problem& problem : loaded.problems) {
      EXPECT_EQ(problem.file, kFile);
      EXPECT_GT(problem.line, 0) << text_of(problem);
      EXPECT_GT(problem.column, 0) << text_of(problem);
      EXPECT_FALSE(problem.message.empty());
      EXPECT_LT(text_of(problem).size(), 1000U) << text_of(problem);
      EXPECT_EQ(text_of(problem).find('\n'), std::string::npos) << text_of(problem);
    }
    if (loaded.usable()) {
      ++accepted;
      EXPECT_TRUE(check.accepts(json_of(YAML::Load(text)))) << text;
    }
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(accepted, 50U) << "else the schema was hardly asked";
  EXPECT_LT(accepted, 500U) << "else the mutations are too tame";
}

/// An upstream with these rules, a row a line.
Loaded with_rules(std::string_view rows) {
  return parse(
      "upstreams:\n  lab:\n    dialect: vllm\n    url: http://127.0.0.1:8000\n    classifier:\n      rules:\n" +
      std::string{rows});
}

TEST(VerdictRules, are_read_with_the_place_where_they_stand) {
  const Loaded loaded = with_rules(
      "        - {status: 520, class: overloaded}\n"
      "        - code: \"warm_*\"\n"
      "          text: not Ready\n"
      "          class: permission\n"
      "          retryable: true\n");
  ASSERT_TRUE(loaded.usable());
  Config config = loaded.config;
  const auto& rules = upstream(config, "lab")->rules;
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0], (gateway::RuleConfig{.status = 520, .cls = "overloaded", .file = rules[0].file, .line = 7}));
  EXPECT_EQ(rules[1],
            (gateway::RuleConfig{.code = "warm_*",
                                 .text = "not Ready",
                                 .cls = "permission",
                                 .retryable = true,
                                 .file = rules[0].file,
                                 .line = 8}));
  const auto read = gateway::classifier_rules(*upstream(config, "lab"));
  EXPECT_EQ(read[1].name, rules[0].file + ":8: upstreams.lab.classifier.rules[1]");
  EXPECT_EQ(read[1].text, "not ready");
  EXPECT_EQ(read[1].word, "warm");
  EXPECT_TRUE(read[1].open_back);
  const auto shown = std::ranges::find_if(
      loaded.settings, [](const auto& s) { return gateway::text_of(s.path) == "upstreams.lab.classifier.rules"; });
  ASSERT_NE(shown, loaded.settings.end());
  EXPECT_TRUE(shown->value.starts_with("[{status: 520, class: overloaded}, {code: ")) << shown->value;
}

TEST(VerdictRules, that_cannot_work_are_errors) {
  const struct {
    std::string_view rows;
    std::string_view path;
    std::string_view said;
  } kCases[] = {
      {"        - {status: 520, class: overload}\n", "[0].class", "overloaded"},
      {"        - {class: overloaded}\n", "[0]", "at least one of status, code and text"},
      {"        - {status: 520}\n", "[0]", "needs class"},
      {"        - {}\n", "[0]", "needs class"},
      {"        - {status: 99, class: overloaded}\n", "[0].status", "between"},
      {"        - {status: 204, class: overloaded}\n", "[0].status", "can never fit"},
      {"        - {code: \"*\", class: overloaded}\n", "[0].code", "can never fit"},
      {"        - {text: \" \", class: overloaded}\n", "[0].text", "can never fit"},
      {"        - {status: 520, class: overloaded}\n        - {status: 520, code: x, class: timeout}\n",
       "[1]",
       "line 7"},
      {"        - {status: 520, class: overloaded, colour: red}\n", "[0].colour", "unknown key"},
      {"        - 520\n", "[0]", "must be a map"},
  };
  for (const auto& c : kCases) {
    const Loaded loaded = with_rules(c.rows);
    EXPECT_FALSE(loaded.usable()) << c.rows;
    ASSERT_FALSE(loaded.problems.empty()) << c.rows;
    const std::string path = loaded.problems[0].path;
    EXPECT_TRUE(path.starts_with("upstreams.lab.classifier.rules") && path.ends_with(c.path)) << path << '\n'
                                                                                              << c.rows;
    EXPECT_NE(loaded.problems[0].message.find(c.said), std::string::npos) << loaded.problems[0].message;
  }
}

}  // namespace config_test
