#include "gateway/run_order.h"

#include <gtest/gtest.h>

#include "classifier/headers.h"

namespace gateway {
namespace run_order_test {

TEST(RunOrder, becomes_the_call_that_it_stands_for) {
  const auto order = read_run_order(R"({
    "path": "/openai/v1/chat/completions?x=1",
    "headers": {"OpenAI-Beta": "v2"},
    "body": { "a" : [1.0, 1e2, "}\"]"],  "b": 12345678901234567890123 },
    "queue": "q", "key": "k", "lane": "backfill", "run_id": "r", "deadline": "90s", "labels": {"team": "x", "v": "7"},
    "ordering_key": "c-1", "not_before": "2026-12-01T06:00:00Z", "webhook": "https://h.example.com/x"})");
  ASSERT_TRUE(order) << order.error();
  EXPECT_EQ(order->request.method, "POST");
  EXPECT_EQ(order->request.target, "/openai/v1/chat/completions?x=1");
  EXPECT_EQ(*order->request.body, R"({ "a" : [1.0, 1e2, "}\"]"],  "b": 12345678901234567890123 })")
      << "byte for byte";
  const auto header = [&](std::string_view name) {
    return std::string{classifier::find(order->request.headers, name).value_or(std::string_view{"none"})};
  };
  EXPECT_EQ(header("openai-beta"), "v2");
  EXPECT_EQ(header("content-type"), "application/json");
  EXPECT_EQ(header("callgate-queue"), "q");
  EXPECT_EQ(header("idempotency-key"), "k");
  EXPECT_EQ(header("callgate-lane"), "backfill");
  EXPECT_EQ(header("callgate-run-id"), "r");
  EXPECT_EQ(header("callgate-deadline"), "90s");
  EXPECT_EQ(header("callgate-labels"), "team=x,v=7");
  EXPECT_EQ(order->ordering_key, "c-1");
  EXPECT_EQ(order->not_before_ms, 1'796'104'800'000);
  EXPECT_EQ(order->webhook, "https://h.example.com/x");

  const auto text = read_run_order(
      R"({"path":"/a/b","method":"PUT","headers":{"content-type":"text/csv"},"body_text":"a,\"b\"\n"})");
  ASSERT_TRUE(text) << text.error();
  EXPECT_EQ(*text->request.body, "a,\"b\"\n");
  EXPECT_EQ(text->request.method, "PUT");
  EXPECT_EQ(classifier::find(text->request.headers, "content-type"), "text/csv");
  EXPECT_FALSE(read_run_order(R"({"path":"/a/b"})")->request.body);
}

TEST(RunOrder, says_what_is_wrong_and_what_would_be_right) {
  struct {
    const char* body;
    const char* said;
  } const kWrong[] = {
      {"", "the body"},
      {"[]", "must be a JSON object"},
      {R"({"body":{}})", "path is missing"},
      {R"({"path":"/a","boddy":{}})", "did you mean \"body\"?"},
      {R"({"path":"/a","path":"/b"})", "path"},
      {R"({"path":"http://evil.example.com/"})", "path must be a path"},
      {R"({"path":"//evil.example.com/"})", "path must be a path"},
      {R"({"path":"/callgate/v1/runs"})", "not of callgate's own API"},
      {R"({"path":"/a b"})", "path must be a path"},
      {R"({"path":"/a","method":"GET /x"})", "method must be"},
      {R"({"path":5})", "path must be a text"},
      {R"({"path":"/a","key":""})", "key is empty"},
      {R"({"path":"/a","key":"a\r\nX: y"})", "key must be printable"},
      {R"({"path":"/a","headers":{"X":"a\r\nb"}})", "cannot stand in a header"},
      {R"({"path":"/a","headers":{"callgate-tenant":"b"}})", "members of their own"},
      {R"({"path":"/a","headers":{"Content-Length":"5"}})", "\"Content-Length\" is of one connection alone"},
      {R"({"path":"/a","headers":{"trailer":"x"}})", "\"trailer\" is of one connection alone"},
      {R"({"path":"/a","headers":{"Proxy-Connection":"close"}})", "\"Proxy-Connection\" is of one connection alone"},
      {R"({"path":"/a","headers":{"TE":"trailers"}})", "\"TE\" is of one connection alone"},
      {R"({"path":"/a","headers":{"Upgrade":"h2c"}})", "\"Upgrade\" is of one connection alone"},
      {R"({"path":"/a","headers":{"Proxy-Authorization":"Basic x"}})", "is of one connection alone"},
      {R"({"path":"/a","headers":{"Prefer":"respond-async"}})", "is not the provider's"},
      {R"({"path":"/a","method":"CONNECT"})", "method must not be \"CONNECT\""},
      {R"({"path":"/a","method":"trace"})", "method must not be \"trace\""},
      {R"({"path":"/a","labels":{"a":1}})", "labels must be"},
      {R"({"path":"/a","labels":{"a":"x,b=y"}})", "labels must be"},
      {R"({"path":"/a","body":{},"body_text":"x"})", "one body"},
      {R"({"path":"/a","body":"x"})", "body_text"},
      {R"({"path":"/a","not_before":"tomorrow"})", "RFC 3339"},
  };
  for (const auto& one : kWrong) {
    const auto order = read_run_order(one.body);
    ASSERT_FALSE(order) << one.body;
    EXPECT_NE(order.error().find(one.said), std::string::npos) << one.body << " → " << order.error();
  }
}

}  // namespace run_order_test
}  // namespace gateway
