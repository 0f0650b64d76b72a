#pragma once
// What all tests of CurlUpstream need: an io_context to turn, and whole exchanges as values.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "gateway/upstream_curl.h"
#include "tests/support/raw_peer.h"

namespace gateway {

using namespace std::chrono_literals;
using classifier::Headers;
using classifier::Transport;
using Got = Exchange::Got;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience = 20s;

inline std::ostream& operator<<(std::ostream& out, Got got) {
  constexpr const char* kNames[] = {"Head", "Data", "End", "Failed", "TimedOut", "Stopped"};
  return out << kNames[static_cast<std::size_t>(got)];
}

/// How an exchange ended, and all that it said.
struct Answer {
  Got head = Got::Failed;
  int status = 0;
  Headers headers{};
  std::string body{};
  Got end = Got::Failed;
  Transport transport{};
  std::string failure{};
  bool sent = false;
};

inline std::ostream& operator<<(std::ostream& out, const Answer& answer) {
  return out << "head " << answer.head << ", status " << answer.status << ", end " << answer.end << ", "
             << answer.body.size() << " bytes, transport " << static_cast<int>(answer.transport) << ", sent "
             << answer.sent << ", \"" << answer.failure << "\"";
}

inline task<void> read_all(Exchange& exchange, Answer& answer, TimePoint until) {
  answer.head = co_await exchange.head(until);
  answer.end = answer.head;
  if (answer.head == Got::Head) {
    answer.status = exchange.status();
    answer.headers = exchange.headers();
    std::string part;
    for (;;) {
      part.clear();
      answer.end = co_await exchange.read(part, until);
      if (answer.end != Got::Data) break;
      answer.body += part;
    }
  }
  answer.sent = exchange.request_sent();
  if (answer.end != Got::Failed) co_return;
  answer.transport = exchange.transport();
  answer.failure = exchange.failure();
}

inline task<void> read_head(Exchange& exchange, Got& got, TimePoint until) { got = co_await exchange.head(until); }

inline task<void> read_once(Exchange& exchange, Got& got, std::string& into, TimePoint until) {
  got = co_await exchange.read(into, until);
}

class CurlUpstreamTest : public testing::Test {
 protected:
  /// Turns the io_context until `done`, at most for `limit`.
  template <typename Done>
  bool turn_until(const Done& done, std::chrono::milliseconds limit = kPatience) {
    const auto end = Clock::now() + limit;
    while (!done() && Clock::now() < end) {
      io.restart();
      io.run_one_for(2ms);
    }
    return done();
  }
  void turn_for(std::chrono::milliseconds time) {
    turn_until([] { return false; }, time);
  }

  void spawn(task<void> work, bool& ended) {
    asio::co_spawn(io.get_executor(), std::move(work), [&ended](const std::exception_ptr& thrown) {
      ended = true;
      if (thrown) std::rethrow_exception(thrown);
    });
  }
  /// Runs a coroutine to its end.
  void run(task<void> work) {
    bool ended = false;
    spawn(std::move(work), ended);
    ASSERT_TRUE(turn_until([&] { return ended; }, kPatience * 2));
  }

  Got head(Exchange& exchange, std::chrono::milliseconds limit = kPatience) {
    Got got = Got::TimedOut;
    run(read_head(exchange, got, Clock::now() + limit));
    return got;
  }
  Got read(Exchange& exchange, std::string& into, std::chrono::milliseconds limit = kPatience) {
    Got got = Got::TimedOut;
    run(read_once(exchange, got, into, Clock::now() + limit));
    return got;
  }
  Answer finish(Exchange& exchange, std::chrono::milliseconds limit = kPatience) {
    Answer answer;
    run(read_all(exchange, answer, Clock::now() + limit));
    return answer;
  }
  Answer ask(Outbound request, std::chrono::milliseconds limit = kPatience) {
    const auto exchange = upstream->start(std::move(request), signal);
    return finish(*exchange, limit);
  }

  static std::shared_ptr<WireOptions> wire_to(std::string url, std::string ca_file = {}) {
    auto wire = std::make_shared<WireOptions>();
    wire->base_url = std::move(url);
    wire->ca_file = std::move(ca_file);
    wire->connect_timeout = kPatience;  // The machine may be busy.
    return wire;
  }
  static Outbound get(std::shared_ptr<const WireOptions> wire, std::string target = "/") {
    Outbound request;
    request.method = "GET";
    request.target = std::move(target);
    request.wire = std::move(wire);
    return request;
  }
  static Outbound post(std::shared_ptr<const WireOptions> wire, std::string body, std::string target = "/") {
    Outbound request = get(std::move(wire), std::move(target));
    request.method = "POST";
    request.body = std::make_shared<const std::string>(std::move(body));
    return request;
  }

  /// CPU time of this thread.
  static std::chrono::microseconds cpu() {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return std::chrono::seconds{usage.ru_utime.tv_sec + usage.ru_stime.tv_sec} +
           std::chrono::microseconds{usage.ru_utime.tv_usec + usage.ru_stime.tv_usec};
  }

  asio::io_context io{1};
  std::unique_ptr<CurlUpstream> upstream = std::make_unique<CurlUpstream>(io, CurlOptions{});
  Signal signal{io};
};

/// Answers every request with the same bytes, on and on.
inline raw::Peer::Script always(std::string answer) {
  return [answer = std::move(answer)](raw::Connection& connection) {
    while (!connection.request().empty()) connection.send(answer);
  };
}

constexpr const char* kHello = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

}  // namespace gateway
