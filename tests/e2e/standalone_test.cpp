// Goal: workers with more than one replica that share one standalone callgate pay for a job once, whichever of them
// gets it and however often. Method: the real binary, open to other machines as a Service's instance is, two workers
// on connections of their own, and a queue that gives the job out again.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/house.h"

namespace standalone_test {

using nlohmann::json;
using support::Callgate;
using support::FakeProvider;
using support::kStream;
using support::kUnary;
using support::metric;
using support::RawClient;
using support::request_text;
using support::Response;

/// Issued keys, and what the configuration has of them: printf %s "$key" | sha256sum
const std::string kWorkers = "cg_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const std::string kOthers = "cg_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB";
constexpr const char* kPriced = R"({"json": {"id": "r", "object": "chat.completion", "model": "gpt-5",
  "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "ok"}}],
  "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}}})";

struct Standalone {
  [[nodiscard]] std::string yaml() const {
    return "listen: {data: 0.0.0.0:0, health: 127.0.0.1:0, hosts: [callgate.jobs.svc]}\n"
           "tenancy: {unknown: refuse}\n"
           "tenants:\n"
           "  invoices: {keys: [{sha256: ad1a16ad7662a245bf92d1bcfe375ab4cfad96b7bdfb138dd5c9eb0d63dc4cb9}]}\n"
           "  others: {keys: [{sha256: 9a6523356bf7be7f8b61d3a5b1dbd78b40826a0dda638aebb45d392a26af0dc8}]}\n"
           "upstreams: {openai: {url: " +
           provider.url() + ", credentials: [{name: main, key: {env: PROVIDERS_KEY}}]}}\n";
  }
  /// A worker that has taken the job and makes its call.
  [[nodiscard]] RawClient works_on(const std::string& job, const std::string& key = kWorkers,
                                   const std::string& body = kUnary) const {
    RawClient worker{callgate.data_port()};
    std::string request = request_text(
        "POST", "/openai/v1/chat/completions", body, {{"Authorization", "Bearer " + key}, {"Idempotency-Key", job}});
    const std::size_t host = request.find("Host: ") + 6;
    request.replace(host, request.find("\r\n", host) - host, "callgate.jobs.svc:4600");
    worker.send(request);
    return worker;
  }
  [[nodiscard]] double awaited(double expected, std::string_view name, std::string_view labels = {}) const {
    return support::awaited(
        expected, [&] { return metric(support::http_get(callgate.health_url() + "/metrics").body, name, labels); });
  }
  [[nodiscard]] int requests() const { return provider.stats().at("requests").get<int>(); }

  FakeProvider provider{};
  Callgate callgate{yaml(), {.env = {{"PROVIDERS_KEY", "sk-ours"}}}};
};

TEST(Standalone, a_job_that_is_given_to_the_other_worker_is_replayed_and_paid_once) {
  Standalone house;
  house.provider.script(std::string{R"([{"answer": )"} + kPriced + "}]");
  Response first;
  {
    RawClient worker = house.works_on("invoice-4711:summary");
    first = worker.read_response();
    // It has its answer, and dies before it acknowledges the job.
    worker.rst();
  }
  ASSERT_EQ(first.status, 200) << first.body;
  const double cost = std::stod(house.callgate.process().json_line("call").at("cost_usd").get<std::string>());
  ASSERT_GT(cost, 0);

  RawClient other = house.works_on("invoice-4711:summary");
  const Response again = other.read_response();
  EXPECT_EQ(again.status, 200);
  EXPECT_EQ(again.body, first.body);
  EXPECT_EQ(again.header("Callgate-Idempotency"), "replayed");
  const json line = house.callgate.process().json_line("call");
  EXPECT_EQ(line.at("once"), "replayed");
  EXPECT_TRUE(line.at("attempts").empty()) << "nobody was asked";

  EXPECT_EQ(house.requests(), 1);
  EXPECT_EQ(house.awaited(1, "callgate_idempotency_total", R"(result="replayed")"), 1);
  EXPECT_NEAR(house.awaited(cost, "callgate_cost_usd_total"), cost, 1e-12) << "counted once";
  EXPECT_NEAR(house.awaited(cost, "callgate_saved_usd_total"), cost, 1e-12);
  EXPECT_EQ(house.awaited(1, "callgate_attempts_total"), 1);

  // Another tenant's job of the same name is another job.
  RawClient stranger = house.works_on("invoice-4711:summary", kOthers);
  const Response theirs = stranger.read_response();
  EXPECT_EQ(theirs.status, 200);
  EXPECT_EQ(theirs.header("Callgate-Idempotency"), "stored");
  EXPECT_EQ(house.requests(), 2);
}

TEST(Standalone, a_worker_that_dies_in_the_middle_leaves_its_call_to_the_other_one) {
  Standalone house;
  house.provider.script(R"([{"answer": {"stream": [{"say": "one"}, {"hold": "later"}, {"say": "two"}]}}])");
  RawClient worker = house.works_on("invoice-4712:summary", kWorkers, kStream);
  Response half = worker.read_head();
  ASSERT_TRUE(worker.read_until(half, "one"));
  worker.rst();

  RawClient other = house.works_on("invoice-4712:summary", kWorkers, kStream);
  Response whole = other.read_head();
  EXPECT_TRUE(other.read_until(whole, "one")) << "from the beginning";
  house.provider.release("later");
  other.read_rest(whole);
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.end, Response::End::Complete);
  EXPECT_NE(whole.body.find("two"), std::string::npos);
  EXPECT_EQ(house.requests(), 1);
}

}  // namespace standalone_test
