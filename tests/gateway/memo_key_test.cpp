#include "gateway/memo_key.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace gateway {
namespace memo_key_test {

TEST(KeyDigest, tells_keys_apart_and_shows_none) {
  struct Case {
    const char* name;
    classifier::Headers headers;
    const char* query;
  };
  const classifier::Headers bearer = {{"Authorization", "Bearer a"}};
  const std::string mine = key_digest(bearer, "");
  EXPECT_EQ(mine.size(), 32u);
  EXPECT_EQ(mine.find_first_not_of("0123456789abcdef"), std::string::npos);
  for (const Case& c :
       {Case{"spelled otherwise", {{"AUTHORIZATION", "Bearer a"}}, ""},
        {"beside what says nothing of it", {{"Accept", "x"}, {"Authorization", "Bearer a"}}, "a=1"},
        {"an idempotency key is no key", {{"Authorization", "Bearer a"}, {"Idempotency-Key", "1"}}, ""}}) {
    EXPECT_EQ(key_digest(c.headers, c.query), mine) << c.name;
  }
  for (const Case& c : {Case{"another key", {{"Authorization", "Bearer b"}}, ""},
                        {"another beside it", {{"Authorization", "Bearer a"}, {"Cookie", "c"}}, ""},
                        {"one in the query beside it", bearer, "key=b"},
                        {"two that look like one", {{"Authorization", "Bearer "}, {"x-api-key", "a"}}, ""}}) {
    const std::string other = key_digest(c.headers, c.query);
    EXPECT_EQ(other.size(), 32u) << c.name;
    EXPECT_NE(other, mine) << c.name;
  }
  for (const Case& c : {Case{"nothing", {}, ""}, {"no key", {{"Accept", "x"}}, "a=1&monkey=2"}}) {
    EXPECT_EQ(key_digest(c.headers, c.query), "") << c.name;
  }
  EXPECT_EQ(key_digest({}, "a=1&key=b;c=2"), key_digest({}, "key=b"));
  EXPECT_NE(key_digest({}, "key=a"), key_digest({}, "key=b"));
}

TEST(KeyParameter, is_known_by_every_spelling) {
  for (const char* yes :
       {"key=a", "KEY=a", "k%65y=a", "$key=a", "api-key=a", "api_key", "access_token=a", "%24key=a"})
    EXPECT_TRUE(is_key_parameter(yes)) << yes;
  for (const char* no : {"", "=key", "keys=a", "monkey=a", "k%6=a", "%", "model=key"})
    EXPECT_FALSE(is_key_parameter(no)) << no;
}

Call plain() {
  auto route = std::make_shared<Route>();
  route->name = "r";
  Call call;
  call.id = "1";
  call.route = route;
  call.tenant = "t";
  call.run_id = "run";
  call.request.method = "POST";
  call.target = "/v1/x?a=1";
  call.request.headers = {{"Authorization", "Bearer a"}, {"User-Agent", "u"}};
  call.request.body = std::make_shared<std::string>("{}");
  return call;
}

TEST(MemoKey, is_of_all_that_makes_two_calls_the_same) {
  struct Case {
    const char* name;
    bool same;
    std::function<void(Call&)> change;
  };
  const auto header = [](const char* name, const char* value) {
    return [=](Call& call) { call.request.headers.push_back({name, value}); };
  };
  const Case cases[] = {
      {"nothing", true, [](Call&) {}},
      {"id", true, [](Call& call) { call.id = "2"; }},
      {"SDK's retry", true, [](Call& call) { call.sdk_retry = true; }},
      {"user agent", true, [](Call& call) { call.request.headers[1].value = "v"; }},
      {"another header", true, header("x-stainless-retry-count", "1")},
      {"spelling of a header", true, [](Call& call) { call.request.headers[0].name = "authorization"; }},
      {"tenant", false, [](Call& call) { call.tenant = "u"; }},
      {"run", false, [](Call& call) { call.run_id = "other"; }},
      {"tenant and run in other parts", false, [](Call& call) { call.tenant = "tr", call.run_id = "un"; }},
      {"idempotency key", false, [](Call& call) { call.idempotency_key = "1"; }},
      {"route",
       false,
       [](Call& call) {
         auto to = std::make_shared<Route>();
         to->name = "s";
         call.route = to;
       }},
      {"method", false, [](Call& call) { call.request.method = "PUT"; }},
      {"query", false, [](Call& call) { call.target = "/v1/x?a=2"; }},
      {"body", false, [](Call& call) { call.request.body = std::make_shared<std::string>("{ }"); }},
      {"no body", false, [](Call& call) { call.request.body = nullptr; }},
      {"key", false, [](Call& call) { call.request.headers[0].value = "Bearer b"; }},
      {"version", false, header("Anthropic-Version", "2")},
      {"organisation", false, header("OpenAI-Organization", "o")},
  };
  for (const Case& c : cases) {
    Call call = plain();
    c.change(call);
    EXPECT_EQ(memo_key(call) == memo_key(plain()), c.same) << c.name;
  }
}

}  // namespace memo_key_test
}  // namespace gateway
