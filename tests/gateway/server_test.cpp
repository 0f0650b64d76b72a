#include "gateway/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/support/pace.h"
#include "tests/support/raw_client.h"

// g++ 12 inlines half of Asio's frame allocation and then misses the other half.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

// A real server on a real socket, its I/O thread beside the test's; raw bytes in, raw bytes out.
namespace server_test {

using namespace std::chrono_literals;
using namespace std::string_literals;
using gateway::AnswerHead;
using gateway::Caller;
using gateway::Inbound;
using gateway::Signal;
using gateway::StopReason;
using gateway::task;
using support::End;
using support::RawClient;
using support::RawResponse;
using Clock = std::chrono::steady_clock;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;  // Memory figures mean nothing then.
#else
constexpr bool kSanitized = false;
#endif

using support::eventually;

using Serve = std::function<task<void>(Inbound, Caller&, Signal&)>;

gateway::ServerOptions usual() {
  gateway::ServerOptions options;
  options.address = "127.0.0.1:0";
  options.hosts = {"localhost", "127.0.0.1", "[::1]"};
  return options;
}

class TestServer {
 public:
  explicit TestServer(Serve serve, gateway::ServerOptions options = usual()) {
    gateway::ServerEvents events;
    events.serve = [this, serve = std::move(serve)](Inbound request, Caller& caller, Signal& signal) {
      ++served;
      return serve(std::move(request), caller, signal);
    };
    events.refuse = [this](const gateway::RefusedRequest& refused) {
      const std::lock_guard lock{mutex_};
      refused_.push_back(refused);
      AnswerHead head;
      head.status = refused.status;
      head.headers = {{"Content-Type", "application/json"}, {"Callgate-Source", "callgate"}};
      return std::pair{head, "{\"code\":\"" + refused.code + "\"}"};
    };
    server_ = std::make_unique<gateway::Server>(io_, std::move(options), std::move(events));
    server_->listen();
    address = server_->address();
    thread_ = std::thread{[this] {
      io_.run();
      rested_.set_value();
    }};
  }

  /// Without the server nothing may keep the I/O thread busy: whatever was open must come to its end.
  ~TestServer() {
    on_io([this] { server_.reset(); });
    work_.reset();
    EXPECT_EQ(rested_.get_future().wait_for(10s), std::future_status::ready) << "something is left on the I/O thread";
    io_.stop();
    thread_.join();
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  template <typename Work>
  std::invoke_result_t<Work> on_io(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> packaged{std::move(work)};
    auto result = packaged.get_future();
    boost::asio::post(io_, [&packaged] { packaged(); });
    return result.get();
  }
  gateway::Server::Figures figures() {
    return on_io([this] { return server_->figures(); });
  }
  gateway::Server& server() { return *server_; }
  boost::asio::io_context& io() { return io_; }
  std::vector<gateway::RefusedRequest> refused() {
    const std::lock_guard lock{mutex_};
    return refused_;
  }

  std::string address{};
  std::atomic<int> served = 0;

 private:
  std::mutex mutex_{};
  std::vector<gateway::RefusedRequest> refused_{};
  boost::asio::io_context io_{};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<gateway::Server> server_{};
  std::promise<void> rested_{};
  std::thread thread_{};
};

AnswerHead head_of(int status) {
  AnswerHead head;
  head.status = status;
  head.headers = {{"Content-Type", "text/plain"}};
  return head;
}

/// Says back what it was asked.
task<void> echo(Inbound request, Caller& caller, Signal&) {
  std::string text = request.method + " " + request.target + "\n";
  for (const auto& header : request.headers) text += header.name + ": " + header.value + "\n";
  text += "\n";
  if (request.body) text += *request.body;
  AnswerHead head = head_of(200);
  co_await caller.answer(std::move(head), text);
}

/// Sleeps until it is told to stop, and says why and when.
struct Sleeper {
  std::atomic<bool> asleep = false;
  std::atomic<bool> awake = false;
  std::atomic<int> reason = -1;
  std::atomic<Clock::rep> at = 0;
  task<void> sleep(Signal& signal) {
    asleep = true;
    while (!signal.stopped()) co_await signal.wait();
    reason = static_cast<int>(*signal.stopped());
    at = Clock::now().time_since_epoch().count();
    awake = true;
  }
};

std::string get(const std::string& target, const std::string& fields = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields + "\r\n";
}
std::string post(const std::string& target, const std::string& body, const std::string& fields = "") {
  return "POST " + target + " HTTP/1.1\r\nHost: localhost\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// ---- Requests ----

TEST(Server, answers_one_request_after_the_other_on_one_connection) {
  TestServer server{echo};
  RawClient client{server.address};
  for (int i = 0; i < 3; ++i) {
    const std::string body(static_cast<std::size_t>(i) * 10'000, 'b');
    ASSERT_TRUE(client.send(post("/a?i=" + std::to_string(i), body, "X-One: 1\r\ncookie: \r\nTE: trailers\r\n")));
    const auto response = client.response();
    ASSERT_TRUE(response && response->complete);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->reason, "OK");
    EXPECT_EQ(response->body, "POST /a?i=" + std::to_string(i) + "\nX-One: 1\ncookie: \n\n" + body);
    EXPECT_EQ(response->head,
              "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " +
                  std::to_string(response->body.size()) + "\r\n\r\n");
  }
  EXPECT_EQ(client.end(), End::Open);
  EXPECT_EQ(server.figures().connections, 1u);
  EXPECT_EQ(server.figures().requests, 0u);
}

TEST(Server, reads_a_request_however_it_is_cut) {
  TestServer server{echo};
  const std::string chunked =
      "POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "5;x=y\r\nhello\r\n1\r\n \r\n5\r\nworld\r\n0\r\nTrailer: t\r\n\r\n";
  const struct {
    std::string wire, want;
  } kCases[] = {
      {get("/g"), "GET /g\n\n"},
      {post("/p", "hello world"), "POST /p\n\nhello world"},
      {chunked, "POST /c\n\nhello world"},
      {"POST /e HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "POST /e\n\n"},
  };
  for (const auto& c : kCases) {
    RawClient client{server.address};
    for (std::size_t cut = 1; cut <= c.wire.size(); ++cut) {
      ASSERT_TRUE(client.send(c.wire.substr(0, cut)) && client.send(c.wire.substr(cut)));
      const auto response = client.response();
      ASSERT_TRUE(response && response->complete) << cut;
      ASSERT_EQ(response->body, c.want) << cut;
    }
    ASSERT_TRUE(client.send_in_pieces(c.wire, 1));
    EXPECT_EQ(client.response().value_or(RawResponse{}).body, c.want);
  }
}

TEST(Server, gives_a_body_room_for_simdjson_behind_its_end) {
  std::atomic<int> short_of_room = 0;
  TestServer server{[&](Inbound request, Caller& caller, Signal&) -> task<void> {
    const bool has_body = request.target != "/none";
    if (has_body != static_cast<bool>(request.body)) ++short_of_room;
    if (request.body && request.body->capacity() < request.body->size() + 64) ++short_of_room;
    AnswerHead head = head_of(204);
    co_await caller.answer(std::move(head), "");
  }};
  RawClient client{server.address};
  for (const std::size_t size : {1u, 15u, 16u, 1'000u, 100'000u, 3'000'000u}) {
    const std::string body(size, 'x');
    char length[32];
    std::snprintf(length, sizeof length, "%zx", size);
    ASSERT_TRUE(client.send(post("/", body)));
    ASSERT_EQ(client.response().value_or(RawResponse{}).status, 204);
    ASSERT_TRUE(client.send("POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
                            std::string{length} + "\r\n" + body + "\r\n0\r\n\r\n"));
    ASSERT_EQ(client.response().value_or(RawResponse{}).status, 204);
  }
  ASSERT_TRUE(client.send(get("/none") + post("/none", "")));
  ASSERT_EQ(client.response().value_or(RawResponse{}).status, 204);
  ASSERT_EQ(client.response().value_or(RawResponse{}).status, 204);
  EXPECT_EQ(short_of_room, 0);
}

TEST(Server, serves_what_comes_ahead_of_its_turn_in_order) {
  // Three requests at once; the first waits until the other two have certainly arrived.
  std::promise<void> go;
  std::atomic<Signal*> first = nullptr;
  TestServer server{[&](Inbound request, Caller& caller, Signal& signal) -> task<void> {
    if (request.target == "/1") {
      first = &signal;
      co_await signal.wait();
    }
    AnswerHead head = head_of(200);
    co_await caller.answer(std::move(head), request.target);
  }};
  RawClient client{server.address};
  ASSERT_TRUE(client.send(get("/1") + post("/2", "body") + get("/3").substr(0, 10)));
  ASSERT_TRUE(eventually([&] { return first.load() != nullptr; }));
  ASSERT_TRUE(client.send(get("/3").substr(10)));
  server.on_io([&] { first.load()->ring(); });
  for (const std::string want : {"/1", "/2", "/3"}) EXPECT_EQ(client.response().value_or(RawResponse{}).body, want);
}

TEST(Server, reads_only_a_little_ahead) {
  Sleeper sleeper;
  TestServer server{[&](Inbound, Caller&, Signal& signal) { return sleeper.sleep(signal); }};
  RawClient client{server.address};
  ASSERT_TRUE(client.send(get("/")));
  ASSERT_TRUE(eventually([&] { return sleeper.asleep.load(); }));
  client.patience = 500ms;
  EXPECT_FALSE(client.send(std::string(64 * 1024 * 1024, 'x'))) << "somebody reads all that";
  // And a caller that resets now is still noticed.
  client.reset();
  EXPECT_TRUE(eventually([&] { return sleeper.awake.load(); }));
  EXPECT_EQ(sleeper.reason, static_cast<int>(StopReason::CallerGone));
}

// ---- Refusals ----

struct Refusal {
  std::string wire;
  int status;
  std::string code = "callgate_bad_request";
};

TEST(Server, refuses_what_two_readers_could_read_in_two_ways) {
  const std::string h = "Host: localhost\r\n";
  const std::string tail = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const Refusal kCases[] = {
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 5, 5\r\n\r\nhello" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: +5\r\n\r\nhello" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: -1\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 0x5\r\n\r\nhello" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 5 5\r\n\r\nhello" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length:\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Content-Length: 18446744073709551616\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: identity\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding:\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + tail,
       400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
           tail,
       400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\t\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.0\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "X: a\r\n b\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "X:\r\n\tb\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n Content-Length: 5\r\n" + h + "\r\nhello" + tail, 400},
      {"GET / HTTP/1.1\nHost: localhost\n\n" + tail, 400},
      {"GET / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\rZ: z\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "X : y\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "X Y: z\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + ": z\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "no colon\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "X\xc3\xa4: z\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "X: a\0b\r\n\r\n"s + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "X: a\x1b\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + "X: a\x7f\r\n\r\n" + tail, 400},
      {"GET /\x01 HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET /\t HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET /\xc3\xa4 HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET /a b HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET /a#b HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET  / HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET / HTTP/1.1 \r\n" + h + "\r\n" + tail, 400},
      {"GET /\r\n\r\n" + tail, 400},
      {"\r\n\r\n" + tail, 400},
      {"G\"T / HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"\x16\x03\x01\x02\x05\x01", 400},  // A TLS client.
      {"GET / HTTP/1.1\r\n\r\n" + tail, 400},
      {"GET / HTTP/1.1\r\n" + h + h + "\r\n" + tail, 400},
      {"GET / HTTP/1.0\r\n" + h + h + "\r\n" + tail, 400},
      {"GET * HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"OPTIONS * HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET a/b HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"GET https://localhost/ HTTP/1.1\r\n" + h + "\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloo\r\n0\r\n\r\n" + tail, 400},
      {"POST / HTTP/1.1\r\n" + h + "Transfer-Encoding: chunked\r\n\r\n5;" + std::string(17'000, 'x'), 400},
      {"GET / HTTP/2.0\r\n" + h + "\r\n" + tail, 505, "callgate_http_version"},
      {"GET / HTTP/1.2\r\n" + h + "\r\n" + tail, 505, "callgate_http_version"},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "callgate_http2"},
      {"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\nHost: localhost.evil.example:4600\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\nHost: evil@localhost\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\nHost: localhost:4600:4600\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\nHost: [::2]\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\nHost: ::1\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\nHost:\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.0\r\nHost: evil.example\r\n\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET http://evil.example/ HTTP/1.1\r\n" + h + "\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET http://localhost@evil.example/ HTTP/1.1\r\n" + h + "\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET http:///x HTTP/1.1\r\n" + h + "\r\n" + tail, 403, "callgate_forbidden_host"},
      {"GET / HTTP/1.1\r\n" + h + "Origin: http://localhost\r\n\r\n" + tail, 403, "callgate_forbidden_origin"},
      {"GET / HTTP/1.1\r\n" + h + "Origin:\r\n\r\n" + tail, 403, "callgate_forbidden_origin"},
      {"CONNECT localhost:443 HTTP/1.1\r\n" + h + "\r\n" + tail, 405, "callgate_method_not_allowed"},
      {"TRACE / HTTP/1.1\r\n" + h + "\r\n" + tail, 405, "callgate_method_not_allowed"},
      {"GET / HTTP/1.1\r\n" + h + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + tail,
       501,
       "callgate_no_websocket"},
      {"POST / HTTP/1.1\r\n" + h + "Expect: 200-ok\r\nContent-Length: 5\r\n\r\nhello" + tail,
       417,
       "callgate_expectation_failed"},
  };
  TestServer server{echo};
  std::size_t refused = 0;
  for (const Refusal& c : kCases) {
    SCOPED_TRACE(testing::PrintToString(c.wire.substr(0, 200)));
    for (const std::size_t piece : {c.wire.size(), std::size_t{c.wire.size() > 1'000 ? 997u : 1u}}) {
      RawClient client{server.address};
      client.send_in_pieces(c.wire, piece);
      const auto response = client.response();
      ASSERT_TRUE(response && response->complete);
      EXPECT_EQ(response->status, c.status);
      EXPECT_FALSE(response->reason.empty());
      EXPECT_EQ(response->body, "{\"code\":\"" + c.code + "\"}");
      EXPECT_EQ(classifier::find(response->headers, "content-type"), "application/json");
      EXPECT_EQ(classifier::find(response->headers, "connection"), "close");
      EXPECT_EQ(client.read_to_end(), "");
      EXPECT_EQ(client.end(), End::Fin);
      EXPECT_EQ(server.refused().size(), ++refused);
    }
  }
  EXPECT_EQ(server.served, 0);
}

TEST(Server, tells_what_it_refused_and_to_whom) {
  TestServer server{echo};
  RawClient{server.address}.send("GET /openai/v1/models?key=k HTTP/1.1\r\nHost: evil\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return server.refused().size() == 1; }));
  EXPECT_EQ(server.refused()[0].target, "/openai/v1/models?key=k");
  EXPECT_EQ(server.refused()[0].status, 403);
  RawClient{server.address}.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  ASSERT_TRUE(eventually([&] { return server.refused().size() == 2; }));
  EXPECT_NE(server.refused()[1].message.find("NodeHttpHandler"), std::string::npos);
}

TEST(Server, takes_the_odd_forms_that_real_clients_send) {
  TestServer server{echo};
  const struct {
    std::string wire, want;
  } kCases[] = {
      // JDK's HttpClient on each new connection.
      {get("/jdk", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAB\r\n"),
       "GET /jdk\n\n"},
      // httpx under HTTP_PROXY.
      {"GET http://127.0.0.1:4600/a?b HTTP/1.1\r\nHost: 127.0.0.1:4600\r\n\r\n", "GET /a?b\n\n"},
      {"GET / HTTP/1.1\r\nHost: [::1]:4600\r\n\r\n", "GET /\n\n"},
      {"GET / HTTP/1.1\r\nhOST:LOCALHOST\r\nx:\xc3\xa4 \r\n\r\n", "GET /\nx: \xc3\xa4\n\n"},
      {"PATCH //evil/%2e%2e/ HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: evil\r\n\r\n",
       "PATCH //evil/%2e%2e/\nX-Forwarded-Host: evil\n\n"},
      {post("/e", "hi", "Expect: 100-continue\r\n"), "POST /e\n\nhi"},
  };
  RawClient client{server.address};
  for (const auto& c : kCases) {
    ASSERT_TRUE(client.send(c.wire));
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, c.want);
    EXPECT_FALSE(response->continued) << "the body was here already";
  }
}

TEST(Server, says_100_only_to_who_waits_for_it_and_only_if_the_body_is_wanted) {
  auto options = usual();
  options.limits.body_bytes = 100;
  TestServer server{echo, options};
  const std::string expect = "Expect: 100-continue\r\n";
  {
    RawClient client{server.address};
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\n" + expect + "Content-Length: 5\r\n\r\n");
    EXPECT_EQ(client.read_some(10s), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    EXPECT_EQ(client.response().value_or(RawResponse{}).body, "POST /\n\nhello");
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\n" + expect + "Transfer-Encoding: chunked\r\n\r\n");
    EXPECT_EQ(client.read_some(10s), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("2\r\nhi\r\n0\r\n\r\n");
    EXPECT_EQ(client.response().value_or(RawResponse{}).body, "POST /\n\nhi");
    client.send(get("/", expect));  // Nothing to wait for.
    EXPECT_FALSE(client.response().value_or(RawResponse{.continued = true}).continued);
  }
  {
    RawClient client{server.address};
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\n" + expect + "Content-Length: 101\r\n\r\n");
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 413);
    EXPECT_FALSE(response->continued);
    client.close();
  }
  RawClient client{server.address};
  client.send("POST / HTTP/1.0\r\nHost: localhost\r\n" + expect + "Content-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read_some(50ms), "");
  client.send("hi");
  EXPECT_EQ(client.response().value_or(RawResponse{}).body, "POST /\n\nhi");
}

TEST(Server, takes_heads_up_to_the_bound_of_many_reads) {
  TestServer server{echo};
  RawClient client{server.address};
  for (const std::size_t size : {10'000u, 30'000u, 65'000u}) {
    ASSERT_TRUE(client.send(post("/", "hello", "X: " + std::string(size, 'x') + "\r\n")));
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "POST /\nX: " + std::string(size, 'x') + "\n\nhello");
  }
}

TEST(Server, bounds_heads) {
  auto options = usual();
  options.limits.header_bytes = 2'000;
  TestServer server{echo, options};
  const std::string fits = get("/", "X: " + std::string(2'000 - get("/", "X: \r\n").size(), 'x') + "\r\n");
  ASSERT_EQ(fits.size(), 2'000u);
  RawClient client{server.address};
  client.send(fits);
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);

  for (const std::string& wire : {get("/", "X: " + std::string(2'000 - get("/", "X: \r\n").size() + 1, 'x') + "\r\n"),
                                  "GET /" + std::string(100'000, 'x')}) {
    RawClient other{server.address};
    other.send(wire);
    const auto response = other.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 431);
    EXPECT_EQ(response->body, "{\"code\":\"callgate_head_too_large\"}");
    EXPECT_EQ(other.wait_for_end(), End::Fin);
  }
  EXPECT_EQ(server.served, 1);
}

TEST(Server, refuses_large_bodies_so_that_the_caller_sees_it) {
  auto options = usual();
  options.limits.body_bytes = 1'000'000;
  TestServer server{echo, options};
  const std::string head = "POST /big HTTP/1.1\r\nHost: localhost\r\n";
  {
    RawClient client{server.address};
    client.send(head + "Content-Length: 1000001\r\n\r\n");
    EXPECT_EQ(client.response().value_or(RawResponse{}).status, 413) << "at once, without the body";
  }
  // A client that reads nothing before all is written, as httpx.
  for (const std::string& wire :
       {head + "Content-Length: 20000000\r\n\r\n" + std::string(20'000'000, 'x'),
        head + "Transfer-Encoding: chunked\r\n\r\n1312D00\r\n" + std::string(20'000'000, 'x') + "\r\n0\r\n\r\n"}) {
    RawClient client{server.address};
    ASSERT_TRUE(client.send(wire));
    client.end_sending();
    const auto response = client.response();
    ASSERT_TRUE(response && response->complete);
    EXPECT_EQ(response->status, 413);
    EXPECT_EQ(client.wait_for_end(), End::Fin);
  }
  // Small chunks, the sum of which passes the limit.
  RawClient client{server.address};
  client.send(head + "Transfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "3E8\r\n" + std::string(1'000, 'x') + "\r\n";
  for (int i = 0; i < 1'001; ++i) ASSERT_TRUE(client.send(chunk));
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 413);
  EXPECT_EQ(server.served, 0);
  EXPECT_EQ(server.refused().front().target, "/big");
  EXPECT_EQ(server.figures().buffered_bytes, 0u);
}

TEST(Server, bounds_all_bodies_together_and_gives_their_room_back) {
  auto options = usual();
  options.buffered_bytes = 100'000;
  Sleeper sleeper;
  TestServer server{[&](Inbound request, Caller& caller, Signal& signal) -> task<void> {
                      if (request.target == "/sleep") {
                        co_await sleeper.sleep(signal);
                      } else {
                        AnswerHead head = head_of(204);
                        co_await caller.answer(std::move(head), "");
                      }
                    },
                    options};
  const std::string body(60'000, 'x');
  const std::string chunked =
      "POST /c HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nEA60\r\n" + body + "\r\n0\r\n\r\n";
  RawClient holder{server.address};
  holder.send(post("/sleep", body));
  ASSERT_TRUE(eventually([&] { return sleeper.asleep.load(); }));
  EXPECT_GE(server.figures().buffered_bytes, 60'000u);
  EXPECT_EQ(server.figures().requests, 1u);

  for (const std::string& wire : {post("/", body), chunked}) {
    RawClient refused{server.address};
    refused.send(wire);
    const auto response = refused.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 503);
    EXPECT_EQ(response->body, "{\"code\":\"callgate_memory\"}");
  }
  RawClient small{server.address};
  small.send(post("/", "small"));
  EXPECT_EQ(small.response().value_or(RawResponse{}).status, 204);

  holder.close();
  ASSERT_TRUE(eventually([&] { return server.figures().buffered_bytes == 0; }));
  for (const std::string& wire : {post("/", body), chunked}) {
    small.send(wire);
    EXPECT_EQ(small.response().value_or(RawResponse{}).status, 204);
  }
  EXPECT_EQ(server.figures().buffered_bytes, 0u);
}

// ---- Time ----

TEST(Server, does_not_wait_for_ever_for_a_request) {
  auto options = usual();
  options.limits.header_timeout = 150ms;
  TestServer server{echo, options};
  const struct {
    std::string first, then;  // `then` again and again.
    std::string name;
  } kCases[] = {
      {"GET / HTT", "", "a head that stops"},
      {"GET / HTTP/1.1\r\n", "X: y\r\n", "a head that never ends"},
      {post("/", std::string(1'000, 'x')).substr(0, 200), "", "a body that stops"},
      {post("/", std::string(500'000, 'x')).substr(0, 400'000), "", "a body that came fast, and then stops"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", "x", "a body that trickles"},
      {"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n",
       "1\r\nx\r\n",
       "chunks that trickle"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.name);
    RawClient client{server.address};
    const auto began = Clock::now();
    client.send(c.first);
    std::string seen;
    while (seen.empty() && Clock::now() < began + 10s) {
      client.send(c.then);
      seen = client.read_some(20ms);
    }
    EXPECT_TRUE(seen.starts_with("HTTP/1.1 408 Request Timeout\r\n")) << seen;
    EXPECT_GE(Clock::now() - began, 150ms);
  }
  EXPECT_EQ(server.served, 0);
}

TEST(Server, takes_a_slow_body_that_makes_progress) {
  auto options = usual();
  options.limits.header_timeout = 300ms;
  TestServer server{echo, options};
  RawClient client{server.address};
  const std::string body(40'000, 'x');
  const std::string wire = post("/", body);
  // 20 ms a piece: longer than header_timeout in all, and well above a kilobyte a second.
  for (std::size_t at = 0; at < wire.size(); at += 1'000) {
    ASSERT_TRUE(client.send(wire.substr(at, 1'000)));
    ASSERT_TRUE(at + 1'000 >= wire.size() || client.read_some(20ms).empty());
  }
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);
}

TEST(Server, closes_idle_connections_when_their_time_is_over_and_not_before) {
  auto options = usual();
  options.limits.keep_alive = 200ms;
  TestServer server{echo, options};
  RawClient silent{server.address};
  RawClient used{server.address};
  for (int i = 0; i < 3; ++i) {
    used.send(get("/"));
    ASSERT_TRUE(used.response());
    ASSERT_EQ(used.read_some(120ms), "");
    ASSERT_EQ(used.end(), End::Open);
  }
  EXPECT_EQ(silent.read_to_end(), "");
  EXPECT_EQ(silent.end(), End::Fin);
  EXPECT_EQ(used.wait_for_end(), End::Fin);
  used.close();
  silent.close();
  EXPECT_TRUE(eventually([&] { return server.figures().connections == 0; }));
}

// ---- Answers ----

/// Serves by target: each way in which an answer can run.
task<void> many_ways(Inbound request, Caller& caller, Signal&) {
  const std::string& way = request.target;
  AnswerHead head = head_of(way == "/204" ? 204 : way == "/304" ? 304 : 200);
  if (way == "/stream") {
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("one");
    co_await caller.send("");
    co_await caller.send("twotwotwotwotwotwo");
    co_await caller.finish("three");
  } else if (way == "/head-first") {
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("");
    co_await caller.finish("");
  } else if (way == "/known") {
    caller.begin(std::move(head), 6);
    co_await caller.send("one");
    co_await caller.finish("two");
  } else if (way == "/too-much") {
    caller.begin(std::move(head), 6);
    EXPECT_TRUE(co_await caller.send("one"));
    EXPECT_FALSE(co_await caller.send("fours"));
    EXPECT_FALSE(co_await caller.finish("two"));
  } else if (way == "/too-little") {
    caller.begin(std::move(head), 6);
    co_await caller.send("one");
    EXPECT_FALSE(co_await caller.finish("tw"));
  } else if (way == "/abort-stream") {
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("one");
    caller.abort();
    EXPECT_FALSE(co_await caller.send("two"));
  } else if (way == "/abort-known") {
    caller.begin(std::move(head), 6);
    co_await caller.send("one");
    caller.abort();
  } else if (way == "/abort-begun") {
    caller.begin(std::move(head), 6);
    caller.abort();
  } else if (way == "/abort-nothing") {
    EXPECT_FALSE(caller.begun());
    caller.abort();
  } else if (way == "/nothing") {
  } else if (way == "/begun") {
    caller.begin(std::move(head), std::nullopt);
    EXPECT_TRUE(caller.begun());
  } else if (way == "/cut") {
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("one");
  } else if (way == "/throw") {
    throw std::runtime_error{"a bug"};
  } else if (way == "/throw-late") {
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("one");
    throw std::runtime_error{"a bug"};
  } else {
    co_await caller.answer(std::move(head), way == "/204" || way == "/304" ? "" : "whole");
  }
}

TEST(Server, frames_answers_so_that_their_end_is_known_and_a_cut_is_seen) {
  TestServer server{many_ways};
  struct Case {
    std::string method, version, target;
    int status = 0;  // 0: no answer at all.
    std::string body{};
    bool complete = false;
    End end = End::Open;    // Afterwards.
    std::string framing{};  // Fields that must be there.
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n";
  const std::string closing = "Connection: close\r\n";
  const Case kCases[] = {
      {"GET", "1.1", "/whole", 200, "whole", true, End::Open, "Content-Length: 5\r\n"},
      {"HEAD", "1.1", "/whole", 200, "", true, End::Open, "Content-Length: 5\r\n"},
      {"GET", "1.1", "/204", 204, "", true, End::Open},
      {"GET", "1.1", "/304", 304, "", true, End::Open},
      {"GET", "1.1", "/stream", 200, "onetwotwotwotwotwotwothree", true, End::Open, chunked},
      {"HEAD", "1.1", "/stream", 200, "", true, End::Open},
      {"GET", "1.1", "/head-first", 200, "", true, End::Open, chunked},
      {"GET", "1.1", "/known", 200, "onetwo", true, End::Open, "Content-Length: 6\r\n"},
      {"HEAD", "1.1", "/known", 200, "", true, End::Open, "Content-Length: 6\r\n"},
      {"GET", "1.1", "/too-much", 200, "one", false, End::Reset, "Content-Length: 6\r\n"},
      {"GET", "1.1", "/too-little", 200, "one", false, End::Reset, "Content-Length: 6\r\n"},
      {"GET", "1.1", "/abort-stream", 200, "one", false, End::Fin, chunked},
      {"GET", "1.1", "/abort-known", 200, "one", false, End::Reset, "Content-Length: 6\r\n"},
      {"GET", "1.1", "/abort-begun", 0, "", false, End::Fin},
      {"GET", "1.1", "/abort-nothing", 0, "", false, End::Fin},
      {"GET", "1.1", "/nothing", 500, "{\"code\":\"callgate_internal\"}", true, End::Open},
      {"GET", "1.1", "/begun", 0, "", false, End::Fin},
      {"GET", "1.1", "/cut", 200, "one", false, End::Fin, chunked},
      {"GET", "1.1", "/throw", 500, "{\"code\":\"callgate_internal\"}", true, End::Open},
      {"GET", "1.1", "/throw-late", 200, "one", false, End::Fin, chunked},
      {"GET", "1.0", "/whole", 200, "whole", true, End::Fin, "Content-Length: 5\r\n" + closing},
      {"GET", "1.0", "/stream", 200, "onetwotwotwotwotwotwothree", true, End::Fin, closing},
      {"GET", "1.0", "/abort-stream", 200, "one", false, End::Reset, closing},
      {"GET", "1.0", "/cut", 200, "one", false, End::Reset, closing},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.method + " " + c.target + " " + c.version);
    RawClient client{server.address};
    client.send(c.method + " " + c.target + " HTTP/" + c.version + "\r\nHost: localhost\r\n\r\n");
    const auto response = client.response(c.method == "HEAD");
    EXPECT_EQ(response ? response->status : 0, c.status);
    if (response) {
      EXPECT_EQ(response->body, c.body);
      EXPECT_EQ(response->complete, c.complete);
      EXPECT_NE(response->head.find(c.framing), std::string::npos) << response->head;
      EXPECT_EQ(response->head.find("chunked") != response->head.npos, c.framing == chunked);
      EXPECT_EQ(response->head.find("Connection") != response->head.npos, c.framing.ends_with(closing));
    }
    if (c.end != End::Open) {
      EXPECT_EQ(client.wait_for_end(), c.end);
      continue;
    }
    // What is kept is ready for the next.
    client.send(get("/whole"));
    EXPECT_EQ(client.response().value_or(RawResponse{}).body, "whole");
  }
}

TEST(Server, resets_no_sooner_than_what_was_sent_can_have_been_read) {
  TestServer server{many_ways};
  RawClient client{server.address};
  const auto before = std::chrono::steady_clock::now();
  client.send(get("/abort-known"));
  EXPECT_EQ(client.wait_for_end(), End::Reset);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 100ms);
}

TEST(Server, sends_each_piece_as_one_chunk_and_the_end_with_the_last) {
  TestServer server{many_ways};
  RawClient client{server.address};
  client.send(get("/stream", "Connection: close\r\n"));
  EXPECT_EQ(client.read_to_end(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
            "3\r\none\r\n12\r\ntwotwotwotwotwotwo\r\n5\r\nthree\r\n0\r\n\r\n");
}

TEST(Server, keeps_http_10_connections_only_when_asked) {
  TestServer server{many_ways};
  RawClient client{server.address};
  const std::string ask = " HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  for (int i = 0; i < 2; ++i) {
    client.send("GET /whole" + ask);
    const auto response = client.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(classifier::find(response->headers, "connection"), "keep-alive");
  }
  client.send("GET /stream" + ask);  // Only its end can end it.
  const auto response = client.response();
  ASSERT_TRUE(response);
  EXPECT_EQ(classifier::find(response->headers, "connection"), "close");
  EXPECT_EQ(client.end(), End::Fin);
}

TEST(Server, closes_so_that_its_last_answer_arrives) {
  // The caller has sent more than was asked for; closing with that unread would reset the connection, and with it
  // what is under way to him.
  TestServer server{many_ways};
  for (int i = 0; i < 20; ++i) {
    RawClient client{server.address};
    client.send(get("/whole", "Connection: close\r\n") + std::string(100'000, 'x'));
    EXPECT_EQ(client.response().value_or(RawResponse{}).body, "whole");
    EXPECT_EQ(client.wait_for_end(), End::Fin);
  }
}

TEST(Server, lets_the_head_go_with_the_first_piece_and_each_piece_at_once) {
  std::atomic<Signal*> turn = nullptr;
  TestServer server{[&](Inbound, Caller& caller, Signal& signal) -> task<void> {
    turn = &signal;
    AnswerHead head = head_of(200);
    caller.begin(std::move(head), std::nullopt);
    co_await signal.wait();
    co_await caller.send("one");
    co_await signal.wait();
    co_await caller.finish("");
  }};
  RawClient client{server.address};
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return turn.load() != nullptr; }));
  EXPECT_EQ(client.read_some(30ms), "") << "a status that can still change";
  server.on_io([&] { turn.load()->ring(); });
  const std::string first = client.read_some(10s);
  EXPECT_TRUE(first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\n3\r\none\r\n")) << first;
  server.on_io([&] { turn.load()->ring(); });
  EXPECT_EQ(client.read_some(10s), "0\r\n\r\n");
}

// ---- Callers that go, and callers that do not read ----

TEST(Server, notices_at_once_that_the_caller_has_gone) {
  enum class Way { Close, Reset, HalfClose };
  std::vector<std::chrono::nanoseconds> delays;
  for (const Way way : {Way::Close, Way::Reset, Way::HalfClose}) {
    for (const bool streaming : {false, true}) {
      for (int i = 0; i < 5; ++i) {
        Sleeper sleeper;
        TestServer server{[&](Inbound, Caller& caller, Signal& signal) -> task<void> {
          if (streaming) {
            AnswerHead head = head_of(200);
            caller.begin(std::move(head), std::nullopt);
            co_await caller.send("one");
          }
          co_await sleeper.sleep(signal);
          EXPECT_FALSE(co_await caller.send("two"));
          EXPECT_FALSE(co_await caller.finish("three"));
        }};
        RawClient client{server.address};
        client.send(post("/", "body"));
        ASSERT_TRUE(eventually([&] { return sleeper.asleep.load(); }));
        const auto left = Clock::now();
        if (way == Way::Close) client.close();
        if (way == Way::Reset) client.reset();
        if (way == Way::HalfClose) client.end_sending();
        ASSERT_TRUE(eventually([&] { return sleeper.awake.load(); }));
        EXPECT_EQ(sleeper.reason, static_cast<int>(StopReason::CallerGone));
        delays.push_back(std::chrono::nanoseconds{sleeper.at} - left.time_since_epoch());
        ASSERT_TRUE(eventually([&] { return server.figures().connections == 0; }));
      }
    }
  }
  std::ranges::sort(delays);
  EXPECT_LT(delays[delays.size() / 2], 50ms);
}

TEST(Server, can_let_a_caller_close_its_half) {
  auto options = usual();
  options.limits.half_close_is_gone = false;
  std::atomic<Signal*> inside = nullptr;
  TestServer server{[&](Inbound request, Caller& caller, Signal& signal) -> task<void> {
                      inside = &signal;
                      co_await signal.wait();
                      const bool stopped = signal.stopped().has_value();
                      if (stopped) inside = nullptr;
                      AnswerHead head = head_of(200);
                      EXPECT_EQ(co_await caller.answer(std::move(head), request.target), !stopped);
                    },
                    options};
  {
    RawClient client{server.address};
    client.send(get("/1") + get("/2"));
    client.end_sending();
    for (const std::string want : {"/1", "/2"}) {
      ASSERT_TRUE(eventually([&] { return inside.load() != nullptr; }));
      EXPECT_EQ(client.read_some(30ms), "");
      server.on_io([&] { inside.exchange(nullptr)->ring(); });
      EXPECT_EQ(client.response().value_or(RawResponse{}).body, want);
    }
    EXPECT_EQ(client.wait_for_end(), End::Fin);
  }
  RawClient client{server.address};
  client.send(get("/3"));
  client.end_sending();
  ASSERT_TRUE(eventually([&] { return inside.load() != nullptr; }));
  EXPECT_EQ(client.read_some(30ms), "");
  client.reset();
  EXPECT_TRUE(eventually([&] { return inside.load() == nullptr; })) << "a reset is an end in any case";
}

std::size_t resident_kb() {
  std::ifstream statm{"/proc/self/statm"};
  std::size_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 1024;
}

TEST(Server, makes_a_fast_provider_wait_for_a_slow_reader) {
  // F-29: 20 callers that do not read, 100 MB offered to each.
  constexpr std::size_t kCallers = 20;
  constexpr std::uint64_t kOffered = 100'000'000;
  std::atomic<std::uint64_t> taken = 0;
  std::atomic<std::size_t> stopped = 0;
  TestServer server{[&](Inbound, Caller& caller, Signal&) -> task<void> {
    const std::string piece(16 * 1024, 'x');
    AnswerHead head = head_of(200);
    caller.begin(std::move(head), std::nullopt);
    for (std::uint64_t sent = 0; sent < kOffered; sent += piece.size()) {
      if (!co_await caller.send(piece)) break;
      taken += piece.size();
    }
    ++stopped;
  }};
  const std::size_t before = resident_kb();
  std::vector<RawClient> clients;
  for (std::size_t i = 0; i < kCallers; ++i) {
    clients.emplace_back(server.address, 16 * 1024);
    ASSERT_TRUE(clients.back().send(get("/")));
  }
  // It stands still when three looks in a row see the same.
  std::uint64_t seen = 0;
  int still = 0;
  ASSERT_TRUE(eventually([&] {
    support::dawdle(20ms);
    still = std::exchange(seen, taken.load()) == taken.load() && seen > 0 ? still + 1 : 0;
    return still == 3;
  }));
  EXPECT_EQ(stopped, 0u);
  EXPECT_LT(taken / kCallers, 1'000'000u) << "the kernel keeps more than that for one slow reader";
  if (!kSanitized) {
    EXPECT_LT(resident_kb() - before, kCallers * 200);
  }

  // Another caller is served meanwhile, and one that begins to read gets on.
  RawClient other{server.address};
  other.send(get("/"));
  EXPECT_FALSE(other.read_some(10s).empty());
  const std::uint64_t at_rest = taken;
  for (int i = 0; i < 200; ++i) clients[0].read_some(1s);
  EXPECT_TRUE(eventually([&] { return taken > at_rest; }));
}

TEST(Server, gives_up_a_caller_that_never_reads) {
  auto options = usual();
  options.limits.write_stall = 200ms;
  std::atomic<int> reason = -1;
  TestServer server{[&](Inbound, Caller& caller, Signal& signal) -> task<void> {
                      const std::string piece(1024 * 1024, 'x');
                      AnswerHead head = head_of(200);
                      caller.begin(std::move(head), std::nullopt);
                      while (co_await caller.send(piece)) continue;
                      reason = signal.stopped() ? static_cast<int>(*signal.stopped()) : -2;
                    },
                    options};
  RawClient client{server.address, 16 * 1024};
  client.send(get("/"));
  ASSERT_TRUE(eventually([&] { return reason != -1; }));
  EXPECT_EQ(reason, static_cast<int>(StopReason::CallerGone));
  EXPECT_EQ(client.wait_for_end(), End::Reset);
}

TEST(Server, does_not_give_up_a_caller_that_reads_slowly) {
  auto options = usual();
  options.limits.write_stall = 300ms;
  constexpr std::size_t kSize = 3'000'000;
  TestServer server{[](Inbound, Caller& caller, Signal&) -> task<void> {
                      const std::string all(kSize, 'x');
                      AnswerHead head = head_of(200);
                      EXPECT_TRUE(co_await caller.answer(std::move(head), all));
                    },
                    options};
  RawClient client{server.address, 16 * 1024};
  client.send(get("/"));
  std::size_t got = 0;
  const auto began = Clock::now();
  while (got < kSize && client.end() == End::Open) {
    got += client.read_some(1s, 60'000).size();
    if (Clock::now() < began + 600ms) support::dawdle(20ms);  // Slower than it could, for twice the stall.
  }
  EXPECT_GE(got, kSize);
  EXPECT_EQ(client.end(), End::Open);
}

TEST(Server, wakes_a_story_that_waits_for_a_slow_reader_when_it_must_stop) {
  for (const bool by_caller : {true, false}) {
    std::atomic<int> reason = -1;
    std::atomic<bool> sending = false;
    TestServer server{[&](Inbound, Caller& caller, Signal& signal) -> task<void> {
      const std::string piece(64 * 1024 * 1024, 'x');
      AnswerHead head = head_of(200);
      caller.begin(std::move(head), std::nullopt);
      sending = true;
      EXPECT_FALSE(co_await caller.send(piece));
      EXPECT_FALSE(co_await caller.send("an error event that would stand inside of what was cut"));
      reason = signal.stopped() ? static_cast<int>(*signal.stopped()) : -2;
      caller.abort();
    }};
    RawClient client{server.address, 16 * 1024};
    client.send(get("/"));
    ASSERT_TRUE(eventually([&] { return sending.load(); }));
    if (by_caller)
      client.end_sending();
    else
      server.on_io([&] { server.server().stop_all(); });
    ASSERT_TRUE(eventually([&] { return reason != -1; }));
    EXPECT_EQ(reason, static_cast<int>(by_caller ? StopReason::CallerGone : StopReason::Shutdown));
    if (!by_caller) {
      const auto response = client.response();
      ASSERT_TRUE(response);
      EXPECT_FALSE(response->complete);
      EXPECT_GT(response->body.size(), 0u);
      EXPECT_EQ(response->body.find_first_not_of('x'), std::string::npos);
    }
  }
}

TEST(Server, lets_others_have_their_turn_while_one_stream_could_always_be_written) {
  // F-30: readers as fast as the senders, who never have to wait for their provider.
  std::atomic<bool> enough = false;
  TestServer server{[&](Inbound request, Caller& caller, Signal&) -> task<void> {
    AnswerHead head = head_of(200);
    if (request.target != "/flood") {
      co_await caller.answer(std::move(head), "quick");
      co_return;
    }
    caller.begin(std::move(head), std::nullopt);
    while (!enough && co_await caller.send("data: x\n\n")) continue;
    co_await caller.finish("");
  }};
  std::vector<std::jthread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      RawClient client{server.address};
      client.send(get("/flood"));
      while (!enough) client.read_some(1s);
    });
  }
  std::vector<Clock::duration> took;
  RawClient client{server.address};
  for (int i = 0; i < 50; ++i) {
    const auto began = Clock::now();
    client.send(get("/quick"));
    ASSERT_EQ(client.response().value_or(RawResponse{}).body, "quick");
    took.push_back(Clock::now() - began);
  }
  enough = true;
  std::ranges::sort(took);
  EXPECT_LT(took[took.size() / 2], 50ms);
}

// ---- Many, and too many ----

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all{"/proc/self/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(Server, leaves_no_descriptor_behind) {
  TestServer server{many_ways};
  const std::size_t before = open_descriptors();
  const std::string kTargets[] = {"/whole", "/stream", "/abort-known", "/abort-stream", "/throw", "/too-much"};
  for (int i = 0; i < 1'000; ++i) {
    RawClient client{server.address};
    const bool whole = i % 7 != 0;
    const std::string wire = get(kTargets[i % 6]);
    client.send(whole ? wire : wire.substr(0, static_cast<std::size_t>(i % 5) * 4));
    if (whole && i % 3 == 0) client.response();
    if (i % 2 == 0) client.reset();
  }
  EXPECT_TRUE(eventually([&] { return server.figures().connections == 0; }));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Server, holds_little_for_an_idle_connection_and_for_an_idle_stream) {
  constexpr std::size_t kMany = 1'000;
  TestServer server{[](Inbound request, Caller& caller, Signal& signal) -> task<void> {
    AnswerHead head = head_of(200);
    if (request.target == "/idle") {
      co_await caller.answer(std::move(head), "x");
      co_return;
    }
    request = Inbound{};
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("one");
    while (!signal.stopped()) co_await signal.wait();
  }};
  for (const std::string target : {"/idle", "/stream"}) {
    const std::size_t before = resident_kb();
    std::vector<RawClient> clients;
    for (std::size_t i = 0; i < kMany; ++i) {
      clients.emplace_back(server.address);
      clients.back().send(
          post(target, std::string(1'000, 'x'), "Authorization: Bearer " + std::string(60, 'k') + "\r\n"));
      ASSERT_FALSE(clients.back().read_some(10s).empty());
    }
    if (!kSanitized) {
      EXPECT_LT(resident_kb() - before, kMany * 10) << target;
    }
    EXPECT_EQ(server.figures().connections, kMany);
    clients.clear();
    ASSERT_TRUE(eventually([&] { return server.figures().connections == 0; }));
  }
}

TEST(Server, tells_those_beyond_the_limit_of_connections) {
  auto options = usual();
  options.limits.connections = 2;
  TestServer server{echo, options};
  std::vector<RawClient> inside;
  for (int i = 0; i < 2; ++i) {
    inside.emplace_back(server.address);
    inside.back().send(get("/"));
    ASSERT_TRUE(inside.back().response());
  }
  {
    RawClient outside{server.address};
    outside.send(post("/late", "body"));
    const auto response = outside.response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->status, 503);
    EXPECT_EQ(response->body, "{\"code\":\"callgate_connections\"}");
    EXPECT_EQ(classifier::find(response->headers, "connection"), "close");
    EXPECT_EQ(outside.wait_for_end(), End::Fin);
  }
  inside.pop_back();
  ASSERT_TRUE(eventually([&] { return server.figures().connections == 1; }));
  RawClient next{server.address};
  next.send(get("/"));
  EXPECT_EQ(next.response().value_or(RawResponse{}).status, 200);
}

TEST(Server, outlives_a_lack_of_descriptors) {
  if (kSanitized)
    GTEST_SKIP() << "UBSan's own checks open pipes and abort where none can be opened; plain builds run this";
  TestServer server{echo};
  // The connection is made while the I/O thread stands still, and taken when no descriptor is left.
  std::promise<void> stands, go;
  auto held = std::async(std::launch::async, [&] {
    server.on_io([&] {
      stands.set_value();
      go.get_future().wait();
    });
  });
  stands.get_future().wait();
  RawClient client{server.address};
  client.send(get("/"));
  rlimit usual_limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual_limit), 0);
  rlimit none = usual_limit;
  none.rlim_cur = 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  go.set_value();
  held.get();
  EXPECT_EQ(client.read_some(150ms), "");
  EXPECT_EQ(server.figures().connections, 0u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &usual_limit), 0);
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);
}

// ---- Where it listens ----

std::string listen_failure(const std::string& address) {
  boost::asio::io_context io;
  auto options = usual();
  options.address = address;
  gateway::Server server{io, options, {}};
  try {
    server.listen();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

TEST(Server, listens_on_loopback_and_refuses_what_others_could_reach) {
  for (const std::string address : {"127.0.0.1:0", "127.1.2.3:0", "[::1]:0", "localhost:0"}) {
    EXPECT_EQ(listen_failure(address), "") << address;
  }
  for (const std::string address :
       {"0.0.0.0:0", "[::]:0", "10.0.0.1:4600", "[2001:db8::1]:4600", "[::ffff:127.0.0.1]:0"}) {
    const std::string failure = listen_failure(address);
    EXPECT_NE(failure.find("cannot listen on " + address), std::string::npos) << failure;
    EXPECT_NE(failure.find("127.0.0.1"), std::string::npos) << failure;
  }
  for (const std::string address : {"",
                                    "4600",
                                    "127.0.0.1",
                                    "127.0.0.1:",
                                    "127.0.0.1:66000",
                                    "127.0.0.1:46x",
                                    "::1:4600",
                                    "example.org:4600",
                                    "unix:",
                                    "127.0.0.1:-1"}) {
    EXPECT_NE(listen_failure(address).find("cannot listen on " + address), std::string::npos) << address;
  }
  TestServer server{echo};
  EXPECT_NE(listen_failure(server.address).find("Address already in use"), std::string::npos);
}

TEST(Server, serves_ipv6) {
  auto options = usual();
  options.address = "[::1]:0";
  TestServer server{echo, options};
  EXPECT_TRUE(server.address.starts_with("[::1]:")) << server.address;
  EXPECT_FALSE(server.address.ends_with(":0"));
  RawClient client{server.address};
  client.send(get("/"));
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);
}

class ServerOnFile : public testing::Test {
 protected:
  ServerOnFile() {
    std::string name = testing::TempDir() + "callgate-XXXXXX";
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    file_ = name + "/data.sock";
    options_ = usual();
    options_.address = "unix:" + file_;
  }
  ~ServerOnFile() override { std::filesystem::remove_all(directory_); }

  std::string directory_{};
  std::string file_{};
  gateway::ServerOptions options_{};
};

TEST_F(ServerOnFile, is_for_owner_and_group_and_goes_with_the_server) {
  {
    TestServer server{many_ways, options_};
    EXPECT_EQ(server.address, "unix:" + file_);
    struct stat status {};
    ASSERT_EQ(stat(file_.c_str(), &status), 0);
    EXPECT_TRUE(S_ISSOCK(status.st_mode));
    EXPECT_EQ(status.st_mode & 0777, 0660u);
    RawClient client{server.address};
    client.send("GET /stream HTTP/1.1\r\nHost: whatever\r\n\r\n");
    EXPECT_EQ(client.response().value_or(RawResponse{}).chunks, 3u);
    client.send("GET /abort-stream HTTP/1.1\r\nHost: whatever\r\n\r\n");
    EXPECT_FALSE(client.response().value_or(RawResponse{.complete = true}).complete);
    EXPECT_EQ(client.wait_for_end(), End::Fin);
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(ServerOnFile, replaces_a_file_that_a_crash_left_behind) {
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  file_.copy(name.sun_path, sizeof name.sun_path - 1);
  ASSERT_EQ(bind(dead, reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
  close(dead);
  ASSERT_TRUE(std::filesystem::exists(file_));
  TestServer server{many_ways, options_};
  RawClient client{server.address};
  client.send(get("/whole"));
  EXPECT_EQ(client.response().value_or(RawResponse{}).body, "whole");
}

TEST_F(ServerOnFile, leaves_alone_what_came_to_its_place) {
  {
    TestServer server{many_ways, options_};
    std::filesystem::remove(file_);
    std::ofstream{file_} << "precious";
  }
  EXPECT_TRUE(std::filesystem::exists(file_));
  std::filesystem::remove(file_);
  std::optional<TestServer> first{std::in_place, many_ways, options_};
  std::filesystem::remove(file_);
  TestServer successor{many_ways, options_};
  first.reset();
  RawClient client{successor.address};
  client.send(get("/whole"));
  EXPECT_EQ(client.response().value_or(RawResponse{}).body, "whole");
}

TEST_F(ServerOnFile, leaves_alone_what_is_not_its_own) {
  {
    TestServer server{many_ways, options_};
    EXPECT_NE(listen_failure(options_.address).find("another process"), std::string::npos);
    RawClient client{server.address};
    client.send(get("/whole"));
    EXPECT_EQ(client.response().value_or(RawResponse{}).body, "whole");
  }
  std::ofstream{file_} << "precious";
  EXPECT_NE(listen_failure(options_.address).find("no socket"), std::string::npos);
  EXPECT_EQ(std::filesystem::file_size(file_), 8u);
  EXPECT_NE(listen_failure("unix:" + directory_ + "/" + std::string(200, 'x')).find("107 bytes"), std::string::npos);
  EXPECT_NE(listen_failure("unix:" + directory_ + "/missing/x").find("No such file"), std::string::npos);
}

// ---- How it ends ----

TEST(Server, drains) {
  std::atomic<Signal*> running = nullptr;
  std::atomic<bool> told = false;
  TestServer server{[&](Inbound request, Caller& caller, Signal& signal) -> task<void> {
    AnswerHead head = head_of(200);
    if (request.target == "/long") {
      running = &signal;
      while (!signal.draining()) co_await signal.wait();
      told = true;
      co_await signal.wait();
    }
    const std::string text = signal.draining() ? "draining" : "usual";
    co_await caller.answer(std::move(head), text);
  }};
  RawClient idle{server.address}, fresh{server.address}, silent{server.address}, half{server.address},
      busy{server.address};
  idle.send(get("/"));
  ASSERT_EQ(idle.response().value_or(RawResponse{}).body, "usual");
  half.send(get("/").substr(0, 20));
  busy.send(get("/long"));
  ASSERT_TRUE(eventually([&] { return running.load() != nullptr && server.figures().connections == 5; }));
  ASSERT_TRUE(eventually([&] { return server.figures().requests == 2; }));

  server.on_io([&] { server.server().drain(); });
  EXPECT_EQ(idle.wait_for_end(), End::Fin);
  EXPECT_THROW(RawClient{server.address}, std::system_error);
  EXPECT_TRUE(eventually([&] { return told.load(); }));

  // Those that have just connected, or are in the middle of asking, are served, and told to go.
  for (RawClient* client : {&fresh, &half}) {
    client->send(client == &half ? get("/").substr(20) : get("/"));
    const auto response = client->response();
    ASSERT_TRUE(response && response->complete);
    EXPECT_EQ(response->body, "draining");
    EXPECT_EQ(classifier::find(response->headers, "connection"), "close");
    EXPECT_EQ(client->wait_for_end(), End::Fin);
  }
  EXPECT_EQ(busy.read_some(30ms), "");
  server.on_io([&] { running.load()->ring(); });
  const auto response = busy.response();
  ASSERT_TRUE(response && response->complete);
  EXPECT_EQ(classifier::find(response->headers, "connection"), "close");
  EXPECT_EQ(busy.wait_for_end(), End::Fin);
  EXPECT_EQ(silent.wait_for_end(), End::Fin);  // After some seconds of patience.
  for (RawClient* client : {&idle, &fresh, &silent, &half, &busy}) client->close();
  EXPECT_TRUE(eventually([&] { return server.figures().connections == 0; }));
}

TEST(Server, serves_those_in_the_backlog_before_it_stops_listening) {
  TestServer server{echo};
  std::vector<RawClient> clients;
  server.on_io([&] {
    for (int i = 0; i < 50; ++i) {
      clients.emplace_back(server.address);  // Nobody accepts while we are here.
      clients.back().send(get("/"));
    }
    server.server().drain();
  });
  for (RawClient& client : clients) EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);
}

TEST(Server, stops_every_call) {
  Sleeper one, two;
  TestServer server{[&](Inbound request, Caller& caller, Signal& signal) -> task<void> {
    Sleeper& mine = request.target == "/1" ? one : two;
    AnswerHead head = head_of(200);
    caller.begin(std::move(head), std::nullopt);
    co_await caller.send("begun");
    co_await mine.sleep(signal);
    EXPECT_TRUE(co_await caller.send("the end")) << "a stopped call may still say why";
    caller.abort();
  }};
  RawClient first{server.address}, second{server.address};
  first.send(get("/1"));
  second.send(get("/2"));
  ASSERT_TRUE(eventually([&] { return one.asleep && two.asleep; }));
  server.on_io([&] { server.server().stop_all(); });
  for (RawClient* client : {&first, &second}) {
    const auto response = client->response();
    ASSERT_TRUE(response);
    EXPECT_EQ(response->body, "begunthe end");
    EXPECT_FALSE(response->complete);
  }
  EXPECT_EQ(one.reason, static_cast<int>(StopReason::Shutdown));
  EXPECT_EQ(two.reason, static_cast<int>(StopReason::Shutdown));
}

TEST(Server, takes_new_limits_and_hosts_for_what_comes_next) {
  TestServer server{echo};
  RawClient client{server.address};
  client.send(post("/", "hello"));
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);
  server.on_io([&] {
    gateway::Config::Limits limits;
    limits.body_bytes = 3;
    server.server().update({"other"}, limits, 0);
  });
  client.send("POST / HTTP/1.1\r\nHost: other\r\nContent-Length: 3\r\n\r\nabc");
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 200);
  client.send("POST / HTTP/1.1\r\nHost: other\r\nContent-Length: 4\r\n\r\nabcd");
  EXPECT_EQ(client.response().value_or(RawResponse{}).status, 413);
  RawClient stranger{server.address};
  stranger.send(get("/"));
  EXPECT_EQ(stranger.response().value_or(RawResponse{}).status, 403);
}

TEST(Server, may_be_destroyed_in_any_state_when_nothing_runs_any_more) {
  // Connections in every phase; then the I/O thread stops dead, and all is taken down. ASan sees what leaks.
  for (const bool stopped_before : {true, false}) {
    std::vector<RawClient> clients;
    std::atomic<int> inside = 0, deaf = 0;
    boost::asio::io_context io;
    gateway::ServerEvents events;
    events.serve = [&](Inbound request, Caller& caller, Signal& signal) -> task<void> {
      ++inside;
      AnswerHead head = head_of(200);
      caller.begin(std::move(head), std::nullopt);
      const std::string piece(request.target == "/blocked" ? 64 * 1024 * 1024 : 1, 'x');
      co_await caller.send(piece);
      while (!signal.stopped()) co_await signal.wait();
      while (request.target == "/deaf") {
        ++deaf;
        co_await signal.wait();
      }
    };
    events.refuse = [](const gateway::RefusedRequest&) { return std::pair{AnswerHead{}, std::string{}}; };
    gateway::Server server{io, usual(), std::move(events)};
    server.listen();
    std::thread thread{[&] { io.run(); }};
    const std::string body = post("/", "hello");
    const std::string chunks = "POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe";
    const std::string refused = get("/", "Origin: x\r\n");
    for (const std::string& wire : {refused,
                                    get("/deaf"),
                                    ""s,
                                    get("/").substr(0, 9),
                                    body.substr(0, body.size() - 2),
                                    chunks,
                                    get("/stream"),
                                    get("/blocked")}) {
      clients.emplace_back(server.address(), 16 * 1024);
      clients.back().send(wire);
    }
    EXPECT_FALSE(clients[0].read_some(10s).empty());
    clients[1].close();
    EXPECT_TRUE(eventually([&] { return inside == 3 && deaf == 1; }));
    io.stop();
    thread.join();
    if (stopped_before) server.stop_all();
  }
}

}  // namespace server_test
