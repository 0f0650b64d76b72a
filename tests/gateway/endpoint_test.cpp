#include "gateway/endpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <list>
#include <string>

#include "tests/support/pace.h"
#include "tests/support/raw_client.h"

namespace gateway {
namespace endpoint_test {

using namespace std::chrono_literals;
using support::RawClient;

constexpr std::size_t kLarge = 16 * 1024 * 1024;  // More than two sockets hold.

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

// A reload may take 5 s, as long as a peer has for taking its answer.
TEST(Endpoint, who_waited_behind_a_slow_answer_has_all_its_time_for_its_own) {
  std::promise<void> entered;
  std::promise<void> opened;
  EndpointOptions options;
  options.address = "127.0.0.1:0";
  options.answer = [&](const EndpointRequest& request) {
    EndpointAnswer answer;
    if (request.path == "/door") {
      entered.set_value();
      opened.get_future().wait_for(10s);
    }
    if (request.path == "/slow") support::dawdle(5'100ms);
    if (request.path == "/large") answer.body.assign(kLarge, 'x');
    return answer;
  };
  const Endpoint endpoint{options};
  RawClient first{endpoint.address()};
  first.send(get("/door"));
  ASSERT_EQ(entered.get_future().wait_for(10s), std::future_status::ready);
  RawClient slow{endpoint.address()};  // This one and the next are found together.
  slow.send(get("/slow"));
  RawClient large{endpoint.address()};
  large.send(get("/large"));
  opened.set_value();
  ASSERT_TRUE(slow.response().has_value());
  support::dawdle(200ms);
  const auto answer = large.response();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body.size(), kLarge);
}

/// Whoever asks for it holds the endpoint's thread until it is opened.
struct Door {
  [[nodiscard]] bool is_held() { return entered.get_future().wait_for(10s) == std::future_status::ready; }
  void hold() {
    entered.set_value();
    opened.get_future().wait_for(10s);
  }
  std::promise<void> entered{};
  std::promise<void> opened{};
};

// 128 may be there at a time.
TEST(Endpoint, who_is_done_goes_before_who_may_still_ask) {
  Door door;
  EndpointOptions options;
  options.address = "127.0.0.1:0";
  options.answer = [&](const EndpointRequest& request) {
    if (request.path == "/door") door.hold();
    return EndpointAnswer{};
  };
  const Endpoint endpoint{options};
  std::list<RawClient> silent;
  for (int i = 0; i < 5; ++i) silent.emplace_back(endpoint.address());
  RawClient slow{endpoint.address()};
  slow.send(get("/door"));
  ASSERT_TRUE(door.is_held());
  std::list<RawClient> asking;  // Found together.
  for (int i = 0; i < 125; ++i) asking.emplace_back(endpoint.address()).send(get("/"));
  door.opened.set_value();
  for (RawClient& client : asking) EXPECT_TRUE(client.response().has_value());
  for (RawClient& client : silent) {
    client.send(get("/"));
    EXPECT_TRUE(client.response().has_value());
  }
}

TEST(Endpoint, who_has_asked_does_not_make_room_for_who_has_not) {
  Door first;
  Door second;
  EndpointOptions options;
  options.address = "127.0.0.1:0";
  options.answer = [&](const EndpointRequest& request) {
    if (request.path == "/first") first.hold();
    if (request.path == "/second") second.hold();
    return EndpointAnswer{};
  };
  const Endpoint endpoint{options};
  std::list<RawClient> asking;
  for (int i = 0; i < 100; ++i) asking.emplace_back(endpoint.address());
  RawClient slow{endpoint.address()};
  slow.send(get("/first"));
  ASSERT_TRUE(first.is_held()) << "and so all before it are there";
  RawClient slower{endpoint.address()};  // Found with its request, in the midst of those that come.
  slower.send(get("/second"));
  first.opened.set_value();
  ASSERT_TRUE(second.is_held());
  for (RawClient& client : asking) client.send(get("/"));
  std::list<RawClient> silent;
  for (int i = 0; i < 60; ++i) silent.emplace_back(endpoint.address());
  second.opened.set_value();
  for (RawClient& client : asking) EXPECT_TRUE(client.response().has_value());
}

}  // namespace endpoint_test
}  // namespace gateway
