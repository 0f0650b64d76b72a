#include "gateway/endpoint.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <string>

#include "tests/support/pace.h"
#include "tests/support/raw_client.h"

namespace gateway {
namespace {

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

}  // namespace
}  // namespace gateway
