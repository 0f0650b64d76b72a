// HTTP/2, with the guards that libcurl 7.88.1 needs there.

#include <atomic>
#include <string>
#include <thread>

#include "tests/gateway/upstream_curl_fixture.h"
#include "tests/support/pace.h"
#include "tests/support/raw_certificates.h"
#include "tests/support/raw_http2.h"

namespace gateway {
namespace upstream_curl_http2_test {

using Kind = raw::Http2::Kind;

class CurlUpstreamHttp2Test : public CurlUpstreamTest {
 protected:
  std::shared_ptr<WireOptions> wire_to(const raw::Peer& peer) {
    auto wire = CurlUpstreamTest::wire_to(peer.url(), authority.file());
    wire->http = 2;
    return wire;
  }

  raw::Authority authority{};
  raw::TlsServer server{authority, {.http2 = true}};
};

/// Serves every stream of a connection with the same answer.
void serve_all(raw::Connection& connection) {
  raw::Http2 http{connection};
  while (const int stream = http.request()) {
    http.head(stream, "200", {{"x-a", "1"}}, false);
    http.body(stream, "hello", true);
  }
}

TEST_F(CurlUpstreamHttp2Test, speaks_it_over_tls_on_one_connection) {
  Headers fields;
  std::string body;
  raw::Peer peer{[&](raw::Connection& connection) {
                   raw::Http2 http{connection};
                   for (;;) {
                     const raw::Http2::Event event = http.next();
                     if (event.kind == Kind::Nothing || event.kind == Kind::Gone) return;
                     if (event.kind == Kind::Body) body += event.bytes;
                     if (event.kind != Kind::End) continue;
                     fields = http.fields(event.stream);
                     http.head(event.stream, "103", {{"link", "x"}}, false);
                     http.head(event.stream, "200", {{"x-a", "1"}, {"x-b", "2"}, {"x-a", "3"}}, false);
                     http.body(event.stream, "hello", true);
                   }
                 },
                 &server};
  for (int i = 0; i < 3; ++i) {
    body.clear();
    Outbound request = post(wire_to(peer), std::string(200'000, 'x'), "/v1/a?b=/../c");
    request.headers = {{"X-Key", "1"}, {"cookie", ""}};
    const Answer answer = ask(std::move(request));
    EXPECT_EQ(answer.end, Got::End) << answer;
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers, (Headers{{"x-a", "1"}, {"x-b", "2"}, {"x-a", "3"}}));
    EXPECT_EQ(answer.body, "hello");
    EXPECT_TRUE(answer.sent);
    EXPECT_EQ(fields,
              (Headers{{":method", "POST"},
                       {":path", "/v1/a?b=/../c"},
                       {":scheme", "https"},
                       {":authority", "127.0.0.1:" + std::to_string(peer.port())},
                       {"x-key", "1"},
                       {"cookie", ""},
                       {"content-length", "200000"}}));
    EXPECT_EQ(body, std::string(200'000, 'x'));
  }
  EXPECT_EQ(peer.accepted(), 1);
}

TEST_F(CurlUpstreamHttp2Test, opens_one_connection_for_a_cold_crowd) {
  raw::Peer peer{&serve_all, &server};
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (int i = 0; i < 20; ++i) exchanges.push_back(upstream->start(get(wire_to(peer)), signal));
  for (const auto& exchange : exchanges) EXPECT_EQ(finish(*exchange).end, Got::End);
  EXPECT_EQ(peer.accepted(), 1);
}

TEST_F(CurlUpstreamHttp2Test, takes_http_1_where_the_provider_has_nothing_else) {
  const raw::TlsServer old{authority, raw::TlsServer::Options{}};
  raw::Peer peer{always(kHello), &old};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(get(wire_to(peer))).end, Got::End);
  EXPECT_EQ(peer.accepted(), 1);
}

TEST_F(CurlUpstreamHttp2Test, speaks_it_without_tls_on_a_connection_for_each_call) {
  raw::Peer peer{&serve_all};
  for (int i = 0; i < 3; ++i) {
    const Answer answer = ask(post(wire_to(peer), "{}"));
    EXPECT_EQ(answer.end, Got::End) << answer;
    EXPECT_EQ(answer.body, "hello");
  }
  EXPECT_EQ(peer.accepted(), 3);
  EXPECT_EQ(upstream->figures().connections, 0U);
}

// Goal: an answer before the upload is through (401, 413, 429 come so) neither hangs nor spins, with a window that
// the provider never opens again.
TEST_F(CurlUpstreamHttp2Test, gives_an_answer_that_comes_before_the_upload_is_through) {
  struct Case {
    std::string status;
    Headers headers;
    std::chrono::milliseconds limit;
  };
  const Case kCases[] = {
      {"413", {{"content-length", "5"}}, 2s},
      {"200", {{"content-length", "5"}}, 2s},
      {"429", {}, 3s},
  };
  for (const bool tls : {true, false}) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(testing::Message() << c.status << " tls " << tls);
      std::atomic<bool> ended = false;
      raw::Peer peer{[&](raw::Connection& connection) {
                       raw::Http2 http{connection, false};
                       if (!http.wait_for(Kind::Body, 1)) return;
                       http.head(1, c.status, c.headers, false);
                       http.body(1, "hello", true);
                       for (;;) {
                         const auto event = http.next();
                         if (event.kind == Kind::End || event.kind == Kind::Reset || event.kind == Kind::Gone)
                           ended = true;
                         if (event.kind == Kind::Gone || event.kind == Kind::Nothing) return;
                       }
                     },
                     tls ? &server : nullptr};
      const auto before = cpu();
      auto exchange = upstream->start(post(wire_to(peer), std::string(5'000'000, 'x')), signal);
      const Answer answer = finish(*exchange, c.limit);
      EXPECT_EQ(answer.end, Got::End) << answer;
      EXPECT_EQ(answer.body, "hello");
      EXPECT_FALSE(answer.sent);
      EXPECT_LT(cpu() - before, 300ms);
      exchange.reset();
      upstream = std::make_unique<CurlUpstream>(io, CurlOptions{});
      EXPECT_TRUE(turn_until([&] { return ended.load(); }, 5s));
    }
  }
}

TEST_F(CurlUpstreamHttp2Test, does_not_spin_while_a_provider_does_not_let_the_upload_on) {
  std::atomic<bool> open = false;
  raw::Peer peer{[&](raw::Connection& connection) {
                   raw::Http2 http{connection, false};
                   std::size_t received = 0;
                   while (received < 65'535) {
                     const auto event = http.next();
                     if (event.kind == Kind::Gone || event.kind == Kind::Nothing) return;
                     received += event.bytes.size();
                   }
                   support::eventually([&] { return open.load(); });
                   http.grant(1, 10'000'000);
                   if (!http.wait_for(Kind::End, 1)) return;
                   http.head(1, "200", {}, false);
                   http.body(1, "hello", true);
                   http.next();
                 },
                 &server};
  const auto exchange = upstream->start(post(wire_to(peer), std::string(5'000'000, 'x')), signal);
  turn_for(200ms);
  const auto before = cpu();
  turn_for(500ms);
  EXPECT_LT(cpu() - before, 100ms);
  EXPECT_FALSE(exchange->request_sent());
  open = true;
  const auto began = Clock::now();
  const Answer answer = finish(*exchange);
  EXPECT_EQ(answer.end, Got::End) << answer;
  EXPECT_TRUE(answer.sent);
  EXPECT_LT(Clock::now() - began, 1s);
}

TEST_F(CurlUpstreamHttp2Test, resets_the_stream_of_a_call_that_is_given_up_and_leaves_the_others_alone) {
  std::atomic<bool> ready = false;
  std::atomic<bool> reset = false;
  raw::Peer peer{[&](raw::Connection& connection) {
                   raw::Http2 http{connection};
                   const int first = http.request();
                   const int second = http.request();
                   http.head(first, "200", {}, false);
                   http.head(second, "200", {}, false);
                   ready = true;
                   reset = http.wait_for(Kind::Reset, first, 5s);
                   http.body(second, "hello", true);
                   const int third = http.request();
                   http.head(third, "204", {}, true);
                   http.next();
                 },
                 &server};
  auto given_up = upstream->start(get(wire_to(peer)), signal);
  Signal other_signal{io};
  const auto other = upstream->start(get(wire_to(peer)), other_signal);
  ASSERT_TRUE(turn_until([&] { return ready.load(); }));
  const auto began = Clock::now();
  given_up.reset();
  while (!reset && Clock::now() - began < 5s) std::this_thread::yield();  // Nothing of ours has to run for it.
  EXPECT_TRUE(reset);
  EXPECT_LT(Clock::now() - began, 200ms);
  Answer answer;
  run(read_all(*other, answer, Clock::now() + 5s));
  EXPECT_EQ(answer.end, Got::End) << answer;
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(ask(get(wire_to(peer))).status, 204);
  EXPECT_EQ(peer.accepted(), 1);
}

TEST_F(CurlUpstreamHttp2Test, closes_the_connection_of_a_call_that_is_given_up_alone) {
  std::atomic<bool> ready = false;
  std::atomic<bool> gone = false;
  raw::Peer peer{[&](raw::Connection& connection) {
                   raw::Http2 http{connection};
                   http.head(http.request(), "200", {}, false);
                   ready = true;
                   while (!gone) gone = http.next(5s).kind >= Kind::Reset;
                 },
                 &server};
  auto exchange = upstream->start(get(wire_to(peer)), signal);
  ASSERT_TRUE(turn_until([&] { return ready.load(); }));
  const auto began = Clock::now();
  exchange.reset();
  while (!gone && Clock::now() - began < 5s) std::this_thread::yield();
  EXPECT_TRUE(gone);
  EXPECT_LT(Clock::now() - began, 200ms);
  EXPECT_EQ(upstream->figures().connections, 0U);
}

TEST_F(CurlUpstreamHttp2Test, never_takes_a_reset_or_lost_stream_for_a_whole_answer) {
  enum class Cut { Reset, Close, GoAway };
  for (const Cut cut : {Cut::Reset, Cut::Close, Cut::GoAway}) {
    SCOPED_TRACE(static_cast<int>(cut));
    raw::Peer peer{[&](raw::Connection& connection) {
                     raw::Http2 http{connection};
                     const int stream = http.request();
                     http.head(stream, "200", {}, false);
                     http.body(stream, "hell", false);
                     if (cut == Cut::GoAway) http.go_away();
                     support::dawdle(30ms);
                     if (cut == Cut::Reset) http.reset(stream, 2);
                     if (cut == Cut::Reset) http.next(1s);
                   },
                   &server};
    const Answer answer = ask(post(wire_to(peer), "{}"));
    EXPECT_EQ(answer.end, Got::Failed) << answer;
    EXPECT_EQ(answer.transport, Transport::Reset);
    EXPECT_TRUE(answer.sent);
  }
}

TEST_F(CurlUpstreamHttp2Test, makes_a_provider_wait_whose_answer_nobody_reads) {
  constexpr std::size_t kSize = 50'000'000;
  std::atomic<std::size_t> through = 0;
  raw::Peer peer{[&](raw::Connection& connection) {
                   raw::Http2 http{connection};
                   const int stream = http.request();
                   http.head(stream, "200", {}, false);
                   for (std::size_t sent = 0; sent < kSize; sent += 500'000) {
                     http.body(stream, std::string(500'000, 'x'), sent + 500'000 == kSize);
                     through = sent;
                     while (http.pending(stream) > 1'000'000) {
                       if (http.next(1s).kind == Kind::Gone) return;
                     }
                   }
                   while (http.next(1s).kind != Kind::Gone) {
                   }
                 },
                 &server};
  const auto exchange = upstream->start(get(wire_to(peer)), signal);
  ASSERT_EQ(head(*exchange), Got::Head);
  turn_for(500ms);
  EXPECT_LT(through, 20'000'000U);
  const Answer answer = finish(*exchange);
  EXPECT_EQ(answer.end, Got::End) << answer;
  EXPECT_EQ(answer.body.size(), kSize);
}

}  // namespace upstream_curl_http2_test
}  // namespace gateway
