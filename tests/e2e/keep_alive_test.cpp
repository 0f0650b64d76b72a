// Goal: a provider that closes idle connections at the worst moments costs no call and repeats none.
// Method: sequential calls over one kept connection of the caller; after each answer the provider draws whether it
// closes at once, a little later, or as soon as the next request arrives, by FIN or by RST.

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/house.h"

namespace keep_alive_test {

using Json = nlohmann::json;
using support::chat_saying;
using support::House;
using support::RawClient;
using support::request_text;
using support::Response;

TEST(KeepAlive, two_hundred_calls_are_answered_and_executed_once_whatever_the_provider_closes) {
  constexpr int kCalls = 200;
  House house{{}, "retry: {base: 1ms}\n"};
  house.provider.script(R"([{"answers": [
      "default", {"close_idle_ms": 0}, {"close_idle_ms": 0, "close_idle_by": "rst"}, {"close_idle_ms": 1},
      {"close_idle_ms": 1, "close_idle_by": "rst"}, {"close_idle_ms": 2, "close_idle_by": "rst"},
      {"close_when_next_request_arrives": "fin"}, {"close_when_next_request_arrives": "rst"}],
      "weights": [2, 1, 1, 1, 1, 1, 1, 1], "seed": 20261129}])");
  RawClient client{house.callgate.data_port()};
  for (int i = 0; i < kCalls; ++i) {
    client.send(request_text("POST", "/openai/v1/chat/completions", chat_saying("call<" + std::to_string(i) + ">")));
    const Response answer = client.read_response();
    ASSERT_EQ(answer.status, 200) << "call " << i << ": " << answer.body;
    ASSERT_EQ(answer.end, Response::End::Complete);
  }
  std::map<std::string, int> executed;
  int refused = 0;  // Closed as it arrived, without a look at it.
  const Json seen = house.provider.seen();
  for (const Json& request : seen) {
    request.at("status") == 200 ? ++executed[request.at("body").get<std::string>()] : ++refused;
  }
  EXPECT_EQ(executed.size(), static_cast<std::size_t>(kCalls));
  for (const auto& [body, times] : executed) EXPECT_EQ(times, 1) << body;
  EXPECT_GT(refused, 0) << "the worst moment came at least once";
  EXPECT_GT(house.provider.stats().at("connections_total").get<int>(), kCalls / 4);
  // The caller's own connection never noticed, and each repetition is on record.
  int repeated = 0;
  for (int i = 0; i < kCalls; ++i) {
    const Json line = house.call_line();
    EXPECT_EQ(line.at("outcome"), "answered");
    for (std::size_t at = 0; at + 1 < line.at("attempts").size(); ++at, ++repeated) {
      EXPECT_EQ(line.at("attempts").at(at).at("class"), "network");
    }
  }
  EXPECT_GE(repeated, refused / 2) << "but for what libcurl knows was never sent";
}

}  // namespace keep_alive_test
