// Queue contracts, runs and webhooks: what the configuration says of them, and how it would be right.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gateway/config.h"
#include "gateway/config_files.h"
#include "gateway/config_keys.h"
#include "gateway/config_values.h"

namespace gateway {
namespace config_queues_test {

using namespace std::chrono_literals;

const std::string kSchema = std::string{PROJECT_ROOT} + "/tests/fixtures/invoice.schema.json";

std::string problems_of(const Loaded& loaded) {
  std::string text;
  for (const Problem& problem : loaded.problems) text += text_of(problem) + "\n";
  return text;
}

Loaded parse(const std::string& text, const Overrides& overrides = {}) {
  return parse_config(text, "callgate.yaml", overrides);
}

/// What nobody misses.
const std::string kWhole = "owner: {team: t}, slo: {oldest_wait: 1m}, dead_letter: {retention: 1d}";

TEST(ConfigQueues, are_read_with_all_that_is_agreed) {
  const Loaded loaded = parse(R"(
queues:
  other:
  invoice-Extract.1:
    owner: {team: billing-ml, contact: "#billing-oncall", runbook: "https://wiki/x#now?"}
    slo: {oldest_wait: 5m, success_ratio: 0.995, complete_within: 30m}
    payload_schema: )" + kSchema +
                              R"(
    version_from: $.metadata.prompt_version
    idempotency_key: {from: /metadata/invoice_id, ttl: 7d, on_conflict: return_existing}
    ordering_key: $['metadata']['customer id']
    concurrency: {max: 8, per_ordering_key: 1}
    retry: {max_attempts: 7, max_elapsed: 2h, backoff: {base: 2s, cap: 5m, jitter: full}, never: [auth, content_policy]}
    dead_letter: {retention: 40d, max_items: 50000, on_full: block_enqueue, payload: left_out}
    alerts: {arrivals_floor: 0, step_factor: 2.5}
    replay: {requires_approval: true, approvers: [billing-leads, admin], max_rate: 30/m, max_cost_usd: "50.00", canary: 0}
runs: {enabled: false, lease: 9s, max_attempts: 3, max_elapsed: 5m, concurrent: 5}
retry: {base: 700ms}
dead_letters: {max_bytes: 1GiB}
store: {retention: {dead_letters: 7d, runs: 8d}}
)");
  EXPECT_EQ(
      problems_of(loaded),
      "callgate.yaml:3:3: warning: queues.other: leaves out owner: {team: …}, slo: {oldest_wait: …}, dead_letter: "
      "{retention: …}\n");
  const Config& config = loaded.config;
  ASSERT_EQ(config.queues.size(), 2U);
  EXPECT_EQ(config.queues[0].name, "invoice-Extract.1");
  const QueueContract& queue = contract_of(config, "invoice-Extract.1");
  EXPECT_EQ(queue.owner, (QueueContract::Owner{"billing-ml", "#billing-oncall", "https://wiki/x#now?"}));
  EXPECT_EQ(queue.slo, (QueueContract::Slo{5min, 0.995, 30min}));
  ASSERT_TRUE(queue.payload_schema.schema);
  EXPECT_EQ(queue.payload_schema.schema->check(R"({"model": "m", "metadata": {}})"),
            (std::vector<PayloadFault>{{"/metadata", "needs invoice_id"}}));
  ASSERT_TRUE(queue.version_from && queue.idempotency_key_from && queue.ordering_key);
  EXPECT_EQ(queue.idempotency_key_from->value_in(R"({"metadata": {"invoice_id": 7}})"), "7");
  EXPECT_EQ(queue.ordering_key->text(), "$['metadata']['customer id']");
  EXPECT_EQ(queue.concurrency, (QueueContract::Concurrency{8, 1}));
  EXPECT_EQ(queue.retry,
            (QueueContract::Retry{7, 2h, 2s, 5min, {classifier::Class::Auth, classifier::Class::ContentPolicy}}));
  EXPECT_EQ(queue.dead_letter, (QueueContract::DeadLetter{40 * 24h, 50'000, ledger::LetterForm::LeftOut}));
  EXPECT_EQ(queue.alerts, (QueueContract::Alerts{0, 2.5}));
  EXPECT_EQ(queue.idempotency_key_ttl, 7 * 24h);
  EXPECT_EQ(queue.replay,
            (QueueContract::Replay{true, {"billing-leads", "admin"}, 0.5, budget::NanoUsd{50'000'000'000}, 0}));

  // What is not said is as runs and retry have it, of a queue with a contract and of one without.
  QueueContract plain{.name = "other"};
  plain.retry = {.max_attempts = 3, .max_elapsed = 5min, .base = 700ms, .cap = 30s};
  EXPECT_EQ(contract_of(config, "other"), plain);
  plain.name.clear();
  EXPECT_EQ(contract_of(config, "nobody"), plain);
  EXPECT_EQ(contract_of(config, ""), plain);

  EXPECT_EQ(config.runs, (Config::Runs{false, 9s, 3, 5min, 5}));
  EXPECT_EQ(config.dead_letters_bytes, 1ULL << 30);
  EXPECT_EQ(config.store.keep_dead_letters, 7 * 24h);
  EXPECT_EQ(config.store.keep_runs, 8 * 24h);
}

/// As operators are shown it, without the backfill that is still to come.
TEST(ConfigQueues, a_contract_with_all_that_can_be_agreed_is_accepted) {
  const Loaded loaded = parse(R"(
store: {payload_key: {env: QUEUES_TEST_KEY}}
queues:
  invoice-extract:
    owner: {team: billing-ml, contact: "#billing-oncall", runbook: https://…}
    slo: {oldest_wait: 5m, success_ratio: 0.995, complete_within: 30m}
    payload_schema: )" + kSchema + R"(   # checked at enqueue and on edit
    version_from: $.metadata.prompt_version
    idempotency_key: {from: $.metadata.invoice_id, ttl: 7d, on_conflict: return_existing}
    ordering_key: $.metadata.customer_id              # serial per key; omit for none
    concurrency: {max: 8, per_ordering_key: 1}
    retry: {max_attempts: 6, max_elapsed: 2h, backoff: {base: 2s, cap: 5m, jitter: full}, never: [auth, invalid_request, content_filter]}
    dead_letter: {retention: 30d, max_items: 50000, on_full: block_enqueue, payload: encrypted}
    replay: {requires_approval: true, approvers: [billing-leads], max_rate: 5/s, max_cost_usd: "50.00", canary: 5}
    alerts: {arrivals_floor: 5, step_factor: 4}
)",
                              {.environment = {{"QUEUES_TEST_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}});
  EXPECT_EQ(problems_of(loaded), "");
  const QueueContract& queue = contract_of(loaded.config, "invoice-extract");
  EXPECT_EQ(queue.retry.never,
            (std::vector<classifier::Class>{
                classifier::Class::Auth, classifier::Class::InvalidRequest, classifier::Class::ContentPolicy}));
  EXPECT_EQ(queue.dead_letter.payload, ledger::LetterForm::Encrypted);
  EXPECT_EQ(queue.alerts, QueueContract::Alerts{});
}

TEST(ConfigQueues, letters_are_encrypted_only_where_there_is_a_key) {
  const auto said = [](const std::string& store) {
    return problems_of(
        parse(store + "queues: {q: {owner: {team: t}, slo: {oldest_wait: 1m}, dead_letter: {retention: 1d, "
                      "payload: encrypted}}}\n",
              {.environment = {{"QUEUES_TEST_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}));
  };
  EXPECT_EQ(said("store: {payload_key: {env: QUEUES_TEST_KEY}}\n"), "");
  EXPECT_NE(said("").find("queues.q.dead_letter.payload: encrypted needs a key: set store.payload_key"),
            std::string::npos)
      << said("");
  EXPECT_NE(said("store: {payloads: plain}\n").find("encrypted needs"), std::string::npos);
}

TEST(ConfigQueues, that_are_wrong_are_told_where_and_how_they_would_be_right) {
  const struct {
    std::string text;
    std::string said;
  } kCases[] = {
      {"ownr: {}", "1:75: error: queues.q.ownr: unknown key; did you mean owner?"},
      {"owners: {team: t}", "1:75: error: queues.q.owners: unknown key; did you mean owner?"},
      {"retry: {base: 1s}",
       "1:83: error: queues.q.retry.base: unknown key; it belongs in retry, queues.*.retry.backoff (check the "
       "indentation)"},
      {"retry: {max_attempts: 0}", "1:97: error: queues.q.retry.max_attempts: must be between 1 and 100 (is 0)"},
      {"retry: {backoff: {base: 10m}, never: []}", ""},
      {"retry: {backoff: {base: 10m, cap: 5m}}",
       "1:109: error: queues.q.retry.backoff.cap: backoff.base (10m) must not be above backoff.cap (5m)"},
      {"retry: {backoff: {jitter: none}}", "1:101: error: queues.q.retry.backoff.jitter: must be full (is none)"},
      {"retry: {never: [auht]}",
       "1:83: error: queues.q.retry.never: must be classes of a verdict (has auht; did you mean auth?)"},
      {"retry: {never: [crash]}",
       "1:83: error: queues.q.retry.never: must be classes of a verdict (has crash; there are: rate_limited, "
       "overloaded, "
       "server_error, timeout, network, auth, permission, quota_exhausted, invalid_request, context_length, "
       "content_policy, not_found, too_large, conflict, cancelled, malformed_response, unknown)"},
      {"slo2: 1", "1:75: error: queues.q.slo2: unknown key; did you mean slo?"},
      {"idempotency_key: {from: metadata.id}",
       "1:99: error: queues.q.idempotency_key.from: must be a path such as $.metadata.invoice_id or "
       "/metadata/invoice_id (is metadata.id)"},
      {"idempotency_key: {on_conflict: replace}",
       "1:106: error: queues.q.idempotency_key.on_conflict: must be return_existing (is replace)"},
      {"idempotency_key: {ttl: 23h}",
       "1:98: error: queues.q.idempotency_key.ttl: must be from idempotency.ttl (1d), for which answers are kept by "
       "their keys, to store.retention.runs (30d), after which nobody knows the run (is 23h)"},
      {"idempotency_key: {ttl: 31d}",
       "1:98: error: queues.q.idempotency_key.ttl: must be from idempotency.ttl (1d), for which answers are kept by "
       "their keys, to store.retention.runs (30d), after which nobody knows the run (is 31d)"},
      {"ordering_key: $..id",
       "1:89: error: queues.q.ordering_key: must mean one value; wildcards, filters and .. are not for that (is "
       "\"$..id\")"},
      {"version_from: [a]", "1:75: error: queues.q.version_from: must be text (is a list)"},
      {"concurrency: {per_ordering_key: 0}",
       "1:107: error: queues.q.concurrency.per_ordering_key: must be between 1 and 1000 (is 0)"},
      {"replay: {max_rate: 5}", "1:94: error: queues.q.replay.max_rate: must be text (is 5; write \"5\" in quotes)"},
      {"replay: {max_rate: 0/s}",
       "1:94: error: queues.q.replay.max_rate: must be a rate such as 5/s, 30/m or 100/h (is 0/s)"},
      {"replay: {max_rate: 5/d}",
       "1:94: error: queues.q.replay.max_rate: must be a rate such as 5/s, 30/m or 100/h (is 5/d)"},
      {"replay: {max_cost_usd: 50.00}",
       "1:98: error: queues.q.replay.max_cost_usd: must be an amount in US dollars such as \"12.50\" (is 50.00; "
       "write it "
       "in quotes: \"50.00\")"},
      {"replay: {approvers: [\"a b\"]}",
       "1:84: error: queues.q.replay.approvers: must be names of letters, digits, -, _ and . (has \"a b\")"},
      {"concurrency: {per_ordering_key: 2}",
       "1:107: error: queues.q.concurrency.per_ordering_key: must be 1 (is 2): runs with the same ordering key are "
       "made "
       "one at a time, in their order; without an order, leave ordering_key out"},
      {"alerts: {step_factor: 0.5}", "1:97: error: queues.q.alerts.step_factor: must be between 1 and 1000 (is 0.5)"},
      {"alerts: {arrivals_floor: -1}",
       "1:100: error: queues.q.alerts.arrivals_floor: must be between 0 and 1000000 (is -1)"},
      {"backfill: {requires_approval: true}",
       "1:105: error: queues.q.backfill.requires_approval: not in this version: backfills; remove it"},
      {"payload_schema: /nowhere/s.json",
       "1:91: error: queues.q.payload_schema: cannot read /nowhere/s.json: there is no such file"},
      {"payload_schema: \"\"", "1:91: error: queues.q.payload_schema: must be the path of a file (is \"\")"},
  };
  for (const auto& c : kCases) {
    std::string text = "queues: {q: {owner: {team: t}, slo: {oldest_wait: 1m},";
    text.resize(74, ' ');  // So that all of them begin in column 75.
    const Loaded loaded = parse(text + c.text + ", dead_letter: {retention: 1d}}}\n");
    EXPECT_EQ(problems_of(loaded), c.said.empty() ? "" : "callgate.yaml:" + c.said + "\n");
  }
}

TEST(ConfigQueues, that_leave_out_what_will_be_asked_for_are_warned_of) {
  const Loaded loaded = parse("queues:\n  a: {owner: {contact: x}, slo: {}}\n  b: {" + kWhole + "}\n  a b: {" +
                              kWhole + "}\n  c: {slo: {oldest_wait: 1}}\n");
  EXPECT_EQ(problems_of(loaded),
            "callgate.yaml:2:3: warning: queues.a: leaves out owner: {team: …}, slo: {oldest_wait: …}, dead_letter: "
            "{retention: …}\n"
            "callgate.yaml:4:3: error: queues.a b: must be a name of at most 64 letters, digits, -, _ and .\n"
            "callgate.yaml:5:3: warning: queues.c: leaves out owner: {team: …}, dead_letter: {retention: …}\n"
            "callgate.yaml:5:26: error: queues.c.slo.oldest_wait: must be a duration such as 250ms, 30s or 5m (is 1; "
            "write 1s or another unit)\n");
  for (const Problem& problem : loaded.problems) {
    const bool warning = problem.severity == Problem::Severity::Warning;
    EXPECT_EQ(problem.kind == Problem::Kind::Contract, warning) << text_of(problem);
  }
}

TEST(ConfigQueues, can_be_set_by_variables) {
  const Loaded loaded = parse("queues: {Web-Search: {" + kWhole + "}}\n",
                              {.environment = {{"CALLGATE_QUEUES__WEB_SEARCH__CONCURRENCY__MAX", "3"}}});
  EXPECT_EQ(problems_of(loaded), "");
  EXPECT_EQ(contract_of(loaded.config, "Web-Search").concurrency.max, 3);
}

/// The chapter about contracts in docs/queues.md.
std::string chapter() {
  std::ifstream file{std::string{PROJECT_ROOT} + "/docs/queues.md"};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  const std::size_t begin = text.find("## Queue contracts");
  EXPECT_NE(begin, std::string::npos);
  return text.substr(begin, text.find("\n## ", begin) - begin);
}

TEST(QueuesPage, shows_a_contract_that_is_accepted) {
  const std::string page = chapter();
  const std::size_t begin = page.find("```yaml\n") + 8;
  std::string sample = page.substr(begin, page.find("```", begin) - begin);
  const std::string file = "schemas/invoice-extract.v3.json";
  sample.replace(sample.find(file), file.size(), kSchema);
  const Loaded loaded = parse(sample + "store: {payload_key: {env: QUEUES_TEST_KEY}}\n",
                              {.environment = {{"QUEUES_TEST_KEY", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}});
  EXPECT_EQ(problems_of(loaded), "");
  EXPECT_EQ(contract_of(loaded.config, "invoice-extract").replay.max_rate, 5);
}

TEST(QueuesPage, names_every_keyword_of_the_schemas_and_every_key_of_a_contract) {
  const std::string page = chapter();
  const auto schema = JsonSchema::read(R"({"pattern": "x"})");
  ASSERT_FALSE(schema);
  const std::string message = schema.error()[0].message;
  const std::string begin = "known are: ";
  std::size_t count = 0;
  for (std::size_t at = message.find(begin) + begin.size(); at < message.size(); ++count) {
    const std::size_t end = std::min(message.find(", ", at), message.size());
    const std::string word = message.substr(at, end - at);
    EXPECT_NE(page.find("`" + word + "`"), std::string::npos) << word;
    at = end + 2;
  }
  EXPECT_EQ(count, 26U);
  for (const Key& key : config_keys()) {
    if (!key.path.starts_with("queues.*.")) continue;
    const std::string_view last = key.path.substr(key.path.rfind('.') + 1);
    EXPECT_NE(page.find(last), std::string::npos) << key.path;
  }
}

TEST(Rates, are_per_second_whatever_their_unit) {
  EXPECT_EQ(read_rate("5/s"), 5);
  EXPECT_EQ(read_rate("30/m"), 0.5);
  EXPECT_EQ(read_rate("0.5/s"), 0.5);
  EXPECT_EQ(read_rate("3600/h"), 1);
  for (const std::string_view bad :
       {"", "/s", "5", "5/", "5s", "-1/s", "0/s", "1e9/s", "nan/s", "inf/s", "5/d", " 5/s"})
    EXPECT_EQ(read_rate(bad), std::nullopt) << bad;
}

class ConfigQueueFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "callgate_queues_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text, mode_t mode = 0600) const {
    const std::string file = folder_ / name;
    std::ofstream{file} << text;
    EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    return file;
  }
  std::filesystem::path folder_;
};

TEST_F(ConfigQueueFiles, with_schemas_are_looked_for_beside_the_configuration) {
  std::filesystem::create_directory(folder_ / "schemas");
  const std::string schema =
      write("schemas/a.json", "{\n  \"type\": \"object\",\n  \"pattern\": \"x\", \"required\": 1\n}");
  const std::string file = write("callgate.yaml", "queues: {q: {" + kWhole + ", payload_schema: schemas/a.json}}\n");
  const Loaded bad = load_config(file, {});
  EXPECT_FALSE(bad.usable());
  EXPECT_EQ(problems_of(bad),
            schema +
                ":3:14: error: queues.q.payload_schema: /pattern is not supported; known are: type, enum, const, "
                "properties, required, additionalProperties, minProperties, maxProperties, items, prefixItems, "
                "minItems, maxItems, uniqueItems, minimum, maximum, exclusiveMinimum, exclusiveMaximum, multipleOf, "
                "minLength, maxLength, allOf, anyOf, oneOf, not, $ref, $defs\n" +
                schema + ":3:31: error: queues.q.payload_schema: /required must be an array (is a number)\n");
  write("schemas/a.json", R"({"type": "object"})");
  const Loaded good = load_config(file, {});
  EXPECT_EQ(problems_of(good), "");
  // Another schema in the same file is another configuration.
  write("schemas/a.json", R"({"type": "array"})");
  EXPECT_NE(load_config(file, {}).config, good.config);
  write("schemas/a.json", R"({"type": "object"})");
  EXPECT_EQ(load_config(file, {}).config, good.config);
}

TEST_F(ConfigQueueFiles, with_a_webhook_secret_are_looked_into_and_never_repeated) {
  const auto said = [&](const std::string& text, mode_t mode = 0600) {
    const std::string file = write("secret", text, mode);
    return problems_of(parse("webhooks:\n  secret: {file: " + file + "}\n  allow_hosts: [Hooks.Example.com]\n"));
  };
  const std::string file = folder_ / "secret";
  const std::string begin = "callgate.yaml:2:3: error: webhooks.secret: needs the file " + file;
  const std::string form =
      begin +
      ", which must hold base64 on each line, with whsec_ before it or not (make one with: printf 'whsec_%s\\n' "
      "\"$(openssl rand -base64 32)\")\n";
  EXPECT_EQ(said("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"), "");
  EXPECT_EQ(said("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "");
  EXPECT_EQ(said("whsec_SECRET\n"), form);
  EXPECT_EQ(said("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw SECRET\n"), form);
  EXPECT_EQ(
      said("\n"),
      begin + ", which must hold a secret (make one with: printf 'whsec_%s\\n' \"$(openssl rand -base64 32)\")\n");
  EXPECT_EQ(said("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", 0644),
            "callgate.yaml:2:3: warning: webhooks.secret: is in a file that anybody can read; chmod 0640 it\n");
  EXPECT_EQ(problems_of(parse("webhooks: {secret: whsec_SECRET}\n")),
            "callgate.yaml:1:20: error: webhooks.secret: must not stand in the configuration itself; write {file: "
            "/path/to/it} or {env: NAME_OF_A_VARIABLE}\n");

  const SecretSource source{SecretSource::From::Environment, "S"};
  const auto two = read_webhook_secrets(
      source, {{"S", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n\nAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEB\r\n"}});
  ASSERT_TRUE(two);
  EXPECT_EQ(*two, (std::vector<std::string>{std::string(24, '\0'), std::string(24, '\1')}));
}

TEST(ConfigWebhooks, go_to_plain_hosts_only_and_signed) {
  const Overrides overrides{.environment = {{"S", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}};
  const Loaded good = parse("webhooks: {allow_hosts: [Hooks.Example.com, 10.0.0.1], secret: {env: S}}\n", overrides);
  EXPECT_EQ(problems_of(good), "");
  EXPECT_EQ(good.config.webhooks.allow_hosts, (std::vector<std::string>{"hooks.example.com", "10.0.0.1"}));
  EXPECT_EQ(
      problems_of(parse("webhooks: {allow_hosts: [a]}\n")),
      "callgate.yaml:1:12: error: webhooks.allow_hosts: needs webhooks.secret, since what is sent is signed; write "
      "secret: {file: /path/to/it}\n");
  for (const std::string bad : {"https://a.b", "a:443", "\"*.a.b\"", ".a", "a/b", "\"\"", "\"a b\""}) {
    const Loaded loaded = parse("webhooks: {secret: {env: S}, allow_hosts: [" + bad + "]}\n", overrides);
    ASSERT_EQ(loaded.problems.size(), 1U) << bad;
    EXPECT_TRUE(loaded.problems[0].message.starts_with("must be host names without scheme, port or *")) << bad;
  }
  const Loaded inside = parse("webhooks: {allow_private_hosts: [Hooks.Jobs.svc], secret: {env: S}}\n", overrides);
  EXPECT_EQ(problems_of(inside), "");
  EXPECT_EQ(inside.config.webhooks.allow_private_hosts, std::vector<std::string>{"hooks.jobs.svc"});
  EXPECT_NE(problems_of(parse("webhooks: {allow_private_hosts: [a]}\n")).find("needs webhooks.secret"),
            std::string::npos);
  // What is looked at is what a name resolves to.
  for (const std::string bad : {"10.0.0.1", "localhost", "169.254.169.254", "\"*.svc\"", "\"http://a\""}) {
    const Loaded loaded = parse("webhooks: {secret: {env: S}, allow_private_hosts: [" + bad + "]}\n", overrides);
    ASSERT_EQ(loaded.problems.size(), 1U) << bad;
    EXPECT_TRUE(loaded.problems[0].message.starts_with("must be host names, no address")) << bad;
  }
}

}  // namespace config_queues_test
}  // namespace gateway
