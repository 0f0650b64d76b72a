// Goal: who calls is who pays, whatever the request claims; an issued key opens callgate and nothing else, and is
// seen by nobody. Method: the real binary between raw clients and a provider that records all that it gets.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/house.h"

namespace tenants_test {

using Json = nlohmann::json;
using support::Callgate;
using support::chat_saying;
using support::FakeProvider;
using support::http;
using support::kUnary;
using support::metric;
using support::Response;
using HeaderList = std::vector<std::pair<std::string, std::string>>;

/// An issued key, and what the configuration has of it: printf %s "$key" | sha256sum
struct Issued {
  std::string key;
  std::string sha256;
};
const Issued kOfA{"cg_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                  "ad1a16ad7662a245bf92d1bcfe375ab4cfad96b7bdfb138dd5c9eb0d63dc4cb9"};
const Issued kOfB{"cg_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
                  "9a6523356bf7be7f8b61d3a5b1dbd78b40826a0dda638aebb45d392a26af0dc8"};
const Issued kOfNobody{"cg_CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCC",
                       "3b454fc986f438108c73da2d79d4af33d1f3ffd353fde559130a5700e1ace718"};
const std::string kKeyOfA = kOfA.key;
const std::string kKeyOfB = kOfB.key;
const std::string kNobodys = kOfNobody.key;

/// Upstreams openai, anthropic and gemini with keys of ours, and "through" without; tenants a, b (with keys), small.
struct Tenanted {
  explicit Tenanted(const std::string& more = "tenancy: {unknown: default}\n", const std::string& host = "127.0.0.1")
      : callgate(yaml(more, host), {.env = {{"PROVIDERS_KEY", "sk-ours"}}}) {}

  [[nodiscard]] std::string yaml(const std::string& more, const std::string& host = "127.0.0.1") const {
    std::string text =
        "listen: {data: " + host + ":0, health: 127.0.0.1:0, hosts: [localhost, 127.0.0.1]}\nupstreams:\n";
    for (const char* name : {"openai", "anthropic", "gemini"}) {
      text.append("  ").append(name).append(": {url: ").append(provider.url());
      text.append(", credentials: [{name: main, key: {env: PROVIDERS_KEY}}]}\n");
    }
    text += "  through: {dialect: openai, url: " + provider.url() + "}\n";
    text += "routes: {mixed: {try: [openai, through]}}\n";
    text += "tenants:\n  a: {lane: interactive, keys: [{sha256: \"" + kOfA.sha256 + "\"}]}\n";
    text += "  b: {keys: [{sha256: \"" + kOfB.sha256 + "\"}]}\n";
    text += "  small: {models: {allow: [\"gpt-5*\", \"gemini-*\"]}}\n";
    return text + more;
  }
  Response ask(const HeaderList& headers, const std::string& path = "/openai/v1/chat/completions",
               const std::string& body = kUnary, const char* method = "POST") {
    return http(method, "http://127.0.0.1:" + std::to_string(callgate.data_port()) + path, body, headers);
  }
  /// The tenant to whom it was counted, or the error's code.
  std::string whose(const HeaderList& headers, const std::string& path = "/openai/v1/chat/completions",
                    const std::string& body = kUnary) {
    const Response answer = ask(headers, path, body);
    if (answer.status == 200) return callgate.process().json_line("call").at("tenant");
    EXPECT_EQ(answer.header("x-should-retry"), "false");
    EXPECT_EQ(answer.header("Callgate-Class"), "local_request");
    const std::string code = callgate.process().json_line("request_refused").at("code");
    EXPECT_NE(answer.body.find(code), std::string::npos) << answer.body;
    return std::to_string(answer.status) + " " + code;
  }
  [[nodiscard]] std::string scrape() const { return support::http_get(callgate.health_url() + "/metrics").body; }
  [[nodiscard]] double awaited(double expected, std::string_view name, std::string_view labels = {}) const {
    return support::awaited(expected, [&] { return support::metric(scrape(), name, labels); });
  }

  FakeProvider provider{};
  Callgate callgate;
};

HeaderList bearer(const std::string& key) { return {{"Authorization", "Bearer " + key}}; }

TEST(TenantsE2e, an_issued_key_in_any_slot_is_its_tenant_and_never_reaches_a_provider) {
  Tenanted house;
  EXPECT_EQ(house.whose(bearer(kKeyOfA)), "a");
  EXPECT_EQ(house.whose({{"api-key", kKeyOfB}}), "b");
  const std::string message =
      R"({"model":"claude-sonnet-4-5","max_tokens":9,"messages":[{"role":"user","content":"x"}]})";
  EXPECT_EQ(
      house.whose({{"x-api-key", kKeyOfA}, {"anthropic-version", "2023-06-01"}}, "/anthropic/v1/messages", message),
      "a");
  const std::string parts = R"({"contents":[{"parts":[{"text":"x"}]}]})";
  const std::string gemini = "/gemini/v1beta/models/gemini-2.5-flash:generateContent";
  EXPECT_EQ(house.whose({{"x-goog-api-key", kKeyOfB}}, gemini, parts), "b");
  EXPECT_EQ(house.whose({}, gemini + "?alt=json&key=" + kKeyOfA, parts), "a");
  EXPECT_EQ(house.whose({}, gemini + "?%6Bey=%63g_" + kKeyOfB.substr(3), parts), "b");
  EXPECT_EQ(house.whose({{"Authorization", "Bearer " + kKeyOfA}, {"Callgate-Tenant", "a"}}), "a");

  EXPECT_EQ(house.whose({{"Authorization", "Bearer " + kKeyOfA}, {"Callgate-Tenant", "b"}}),
            "403 callgate_other_tenant");
  EXPECT_EQ(house.whose({{"Authorization", "Bearer " + kKeyOfA}, {"x-api-key", kKeyOfB}}),
            "403 callgate_other_tenant");
  EXPECT_EQ(house.whose(bearer(kNobodys)), "401 callgate_unknown_key");
  EXPECT_EQ(
      house.whose({{"x-api-key", kNobodys}, {"anthropic-version", "2023-06-01"}}, "/anthropic/v1/messages", message),
      "401 callgate_unknown_key");
  EXPECT_EQ(house.whose({}, gemini + "?key=" + kNobodys, parts), "401 callgate_unknown_key");
  // Where the caller's own key goes on, one of ours must not.
  EXPECT_EQ(house.whose(bearer(kKeyOfA), "/through/v1/chat/completions"), "400 callgate_key_not_here");
  EXPECT_EQ(house.whose(bearer(kKeyOfA), "/mixed/v1/chat/completions"), "400 callgate_key_not_here");
  EXPECT_EQ(house.whose(bearer("sk-mine"), "/through/v1/chat/completions"), "default");

  const std::string seen = house.provider.seen().dump();
  EXPECT_EQ(house.provider.stats().at("requests"), 8);
  const std::string scrape = house.scrape();
  std::string log;
  for (const std::string& line : house.callgate.process().lines()) log += line;
  for (const Issued& issued : {kOfA, kOfB, kOfNobody}) {
    for (const std::string& piece : {issued.key, issued.key.substr(3, 12), issued.sha256}) {
      EXPECT_EQ(seen.find(piece), std::string::npos);
      EXPECT_EQ(scrape.find(piece), std::string::npos);
      EXPECT_EQ(log.find(piece), std::string::npos);
      EXPECT_EQ(house.callgate.process().err().find(piece), std::string::npos);
    }
  }
  EXPECT_EQ(house.awaited(4, "callgate_calls_total", "tenant=\"a\""), 4);
  EXPECT_EQ(house.awaited(3, "callgate_requests_refused_total", "code=\"callgate_unknown_key\""), 3);
}

TEST(TenantsE2e, an_error_is_in_the_dialect_s_words_and_holds_no_key) {
  Tenanted house;
  const Response openai = house.ask(bearer(kNobodys));
  EXPECT_EQ(openai.status, 401);
  EXPECT_EQ(Json::parse(openai.body).at("error").at("code"), "callgate_unknown_key");
  const Response anthropic = house.ask({{"x-api-key", kNobodys}}, "/anthropic/v1/messages", "{}");
  EXPECT_EQ(anthropic.status, 401);
  EXPECT_EQ(Json::parse(anthropic.body).at("type"), "error");
  const Response gemini =
      house.ask({}, "/gemini/v1beta/models/gemini-2.5-flash:generateContent?key=" + kNobodys, "{}");
  EXPECT_EQ(gemini.status, 401);
  EXPECT_EQ(Json::parse(gemini.body).at("error").at("code"), 401);
  for (const Response* one : {&openai, &anthropic, &gemini}) {
    EXPECT_EQ(one->body.find("CCCC"), std::string::npos);
    EXPECT_EQ(one->header("Callgate-Source"), "callgate");
  }
}

TEST(TenantsE2e, a_name_is_believed_on_this_machine_and_unknown_ones_are_the_default_tenant) {
  Tenanted house;
  EXPECT_EQ(house.whose({}), "default");
  EXPECT_EQ(house.whose({{"callgate-tenant", "a"}}), "a");
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "nobody"}}), "default");
  for (const std::string& hostile : {std::string(65, 'a'),
                                     std::string{"a b"},
                                     std::string{"a\"b"},
                                     std::string{"ä"},
                                     std::string{},
                                     std::string(4096, 'x'),
                                     std::string{"a,b"},
                                     std::string{"../a"}}) {
    SCOPED_TRACE(hostile);
    EXPECT_EQ(house.whose({{"Callgate-Tenant", hostile}}), "400 callgate_bad_header");
  }
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "a"}, {"Callgate-Tenant", "b"}}), "400 callgate_bad_header");
  const Json seen = house.provider.seen();
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen.dump().find("allgate-"), std::string::npos) << "ours stay here";
  EXPECT_EQ(house.awaited(0, "callgate_calls_total", "tenant=\"nobody\""), 0);
}

TEST(TenantsE2e, the_lane_is_the_call_s_or_the_tenant_s) {
  Tenanted house;
  const auto lane = [&](const HeaderList& headers) {
    EXPECT_EQ(house.ask(headers).status, 200);
    return house.callgate.process().json_line("call").at("lane").get<std::string>();
  };
  EXPECT_EQ(lane(bearer(kKeyOfA)), "interactive");
  EXPECT_EQ(lane({{"Callgate-Tenant", "a"}, {"Callgate-Lane", "backfill"}}), "backfill");
  EXPECT_EQ(lane({{"Callgate-Tenant", "b"}}), "bulk");
}

TEST(TenantsE2e, who_is_unknown_is_refused_where_that_is_asked_for) {
  Tenanted house{"tenancy: {unknown: refuse}\n"};
  EXPECT_EQ(house.whose({}), "403 callgate_unknown_tenant");
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "nobody"}}), "403 callgate_unknown_tenant");
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "a"}}), "401 callgate_key_required");
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "small"}}), "small");
  EXPECT_EQ(house.whose(bearer(kKeyOfA)), "a");
  EXPECT_EQ(house.whose({}, "/no-such-upstream/v1/chat"), "403 callgate_unknown_tenant")
      << "who may not be here is not told what there is";
  EXPECT_EQ(house.provider.stats().at("requests"), 2);

  // A reload decides anew, and withdraws keys.
  std::string other = house.yaml("tenancy: {unknown: default}\n");
  other.replace(other.find(kOfA.sha256), 64, kOfNobody.sha256);
  house.callgate.write_config(other);
  EXPECT_EQ(http("POST", house.callgate.admin_url() + "/v1/reload").status, 200);
  EXPECT_EQ(house.whose({}), "default");
  EXPECT_EQ(house.whose(bearer(kKeyOfA)), "401 callgate_unknown_key");
  EXPECT_EQ(house.whose(bearer(kNobodys)), "a");
}

TEST(TenantsE2e, models_that_a_tenant_may_not_use_are_refused_in_the_dialect) {
  Tenanted house;
  const HeaderList small = {{"Callgate-Tenant", "small"}};
  const auto body = [](const std::string& model) {
    return R"({"model":)" + model + R"(,"messages":[{"role":"user","content":"x"}]})";
  };
  const std::string chat = "/openai/v1/chat/completions";
  EXPECT_EQ(house.whose(small, chat, body("\"gpt-5-mini\"")), "small");
  const std::string no = "403 callgate_model_not_allowed";
  EXPECT_EQ(house.whose(small, chat, body("\"o3-pro\"")), no);
  EXPECT_EQ(house.whose(small, chat, body("\"gpt-5\",\"model\":\"o3-pro\"")), no) << "the last one counts";
  EXPECT_EQ(house.whose(small, chat, body("7")), no);
  EXPECT_EQ(house.whose(small, "/openai/v1/batches", R"({"input_file_id":"f"})"), no) << "a way around";
  const std::string parts = R"({"contents":[{"parts":[{"text":"x"}]}]})";
  EXPECT_EQ(house.whose(small, "/gemini/v1beta/models/gemini-2.5-flash:generateContent", parts), "small");
  EXPECT_EQ(house.whose(small, "/gemini/v1beta/models/%67emma-3:generateContent", parts), no);
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "b"}}, chat, body("\"o3-pro\"")), "b");

  const Response refused = house.ask(small, chat, body("\"o3-pro\""));
  const std::string message = Json::parse(refused.body).at("error").at("message");
  EXPECT_NE(message.find("tenant small may not use model o3-pro"), std::string::npos) << message;
  EXPECT_EQ(house.callgate.process().json_line("request_refused").at("tenant"), "small");
  EXPECT_EQ(house.ask(small, "/openai/v1/models", "", "GET").status, 200);
}

// F-39: equal requests of two tenants share nothing, a remembered failure neither.
TEST(TenantsE2e, F39_what_is_remembered_is_one_tenant_s_alone) {
  Tenanted house{
      "retry: {base: 1ms, interactive: {attempts: 1}, bulk: {attempts: 1}, backfill: {attempts: 1}}\nbreaker: "
      "{min_calls: 1000000, "
      "consecutive: 1000000}\n"};
  house.provider.script(R"([{"answer": 503}])");
  const auto source = [&](const HeaderList& headers) { return house.ask(headers).header("Callgate-Source"); };
  const HeaderList a = {{"Callgate-Tenant", "a"}, {"Callgate-Run-Id", "r"}, {"Idempotency-Key", "k"}};
  HeaderList b = a;
  b[0].second = "b";
  HeaderList key = a;
  key[0] = {"Authorization", "Bearer " + kKeyOfA};
  EXPECT_EQ(source(a), "provider");
  EXPECT_EQ(source(a), "memo");
  EXPECT_EQ(source(key), "memo") << "the same tenant, however it is known";
  EXPECT_EQ(source(b), "provider");
  EXPECT_EQ(source(b), "memo");
  HeaderList beta = a;
  beta.emplace_back("OpenAI-Beta", "assistants=v2");
  EXPECT_EQ(source(beta), "provider") << "another answer might come";
  HeaderList lane = a;
  lane.emplace_back("Callgate-Lane", "backfill");
  EXPECT_EQ(source(lane), "provider") << "another lane has another patience";
  EXPECT_EQ(house.provider.stats().at("requests"), 4);
  EXPECT_EQ(house.awaited(2, "callgate_caller_retries_total", "seen_by=\"memo\",tenant=\"a\""), 2);
  EXPECT_EQ(house.awaited(1, "callgate_caller_retries_total", "seen_by=\"memo\",tenant=\"b\""), 1);
}

TEST(TenantsE2e, metrics_may_leave_tenants_out_and_a_reload_changes_that) {
  Tenanted house{"metrics: {tenant_label: false}\n"};
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "a"}}), "a") << "the log tells still";
  EXPECT_EQ(house.awaited(1, "callgate_calls_total", "tenant=\"_other\""), 1);
  EXPECT_EQ(house.awaited(0, "callgate_calls_total", "tenant=\"a\""), 0);
  house.callgate.write_config(house.yaml("  late: {}\nmetrics: {tenant_label: true}\n"));
  EXPECT_EQ(http("POST", house.callgate.admin_url() + "/v1/reload").status, 200);
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "late"}}), "late");
  EXPECT_EQ(house.awaited(1, "callgate_calls_total", "tenant=\"late\""), 1);
}

TEST(TenantsE2e, others_reach_callgate_only_with_keys) {
  Tenanted house{"tenancy: {unknown: refuse}\n", "0.0.0.0"};
  EXPECT_EQ(house.whose({}), "401 callgate_key_required");
  EXPECT_EQ(house.whose({{"Callgate-Tenant", "small"}}), "401 callgate_key_required")
      << "a name alone proves nothing";
  EXPECT_EQ(house.whose({}, "/no-such-upstream/x"), "401 callgate_key_required");
  EXPECT_EQ(house.whose(bearer(kKeyOfB)), "b");
  EXPECT_EQ(house.whose(bearer("sk-mine"), "/through/v1/chat/completions"), "401 callgate_key_required");

  const auto refused = [&](const std::string& more) {
    support::TempDir folder;
    support::Process process{{CALLGATE_EXE, "serve", "--config", folder.file("c.yaml", house.yaml(more, "0.0.0.0"))},
                             {.env = {{"PROVIDERS_KEY", "sk-ours"}}}};
    EXPECT_EQ(process.wait(), 3);
    return process.err();
  };
  EXPECT_NE(refused("tenancy: {unknown: default}\n").find("listen.data: needs tenancy: {unknown: refuse}"),
            std::string::npos);
}

}  // namespace tenants_test
