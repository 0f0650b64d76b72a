#include "gateway/webhook_sender.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/gateway/upstream_curl_fixture.h"

namespace gateway {
namespace webhook_sender_test {

using classifier::Class;
using Telling = WebhookResult::Telling;
using Hosts = std::vector<std::string>;

std::string port_of(const std::string& url) { return url.substr(url.rfind(':') + 1); }

class WebhookSenderTest : public CurlUpstreamTest {
 protected:
  task<void> send_into(Webhook webhook, WebhookResult& result, TimePoint until) {
    const WallTime wall_now{};
    result = co_await send_webhook(*upstream, std::move(webhook), wall_now, until, signal);
  }
  WebhookResult send(std::string url, Hosts allow, std::chrono::milliseconds limit = kPatience,
                     const std::string& ca_file = {}) {
    auto options = std::make_shared<WebhookOptions>();
    options->allow_hosts = std::move(allow);
    options->ca_file = ca_file;
    options->connect_timeout = kPatience;
    Webhook webhook;
    webhook.url = std::move(url);
    webhook.headers = {{"webhook-id", "1"}};
    webhook.body = "{}";
    webhook.options = std::move(options);
    WebhookResult result;
    run(send_into(std::move(webhook), result, Clock::now() + limit));
    return result;
  }
};

TEST_F(WebhookSenderTest, tells) {
  raw::Noted seen;
  raw::Peer peer{[&](raw::Connection& connection) {
    while (!(seen = connection.request()).empty()) connection.send(kHello);
  }};
  for (int i = 0; i < 3; ++i) {
    const WebhookResult result = send(peer.url() + "/told/?a=%20b", {"127.0.0.1"});
    EXPECT_EQ(result.telling, Telling::Told);
    EXPECT_EQ(result.status, 200);
    EXPECT_EQ(result.cls, Class::None);
    EXPECT_EQ(result.why, "");
  }
  EXPECT_EQ(peer.accepted(), 1) << "the answer was read to its end, so its connection is used again";
  const std::string head = "POST /told/?a=%20b HTTP/1.1\r\nHost: 127.0.0.1:" + std::to_string(peer.port()) +
                           "\r\nwebhook-id: 1\r\ncontent-type: application/json\r\nuser-agent: callgate/";
  EXPECT_EQ(seen.get().substr(0, head.size()), head);
  EXPECT_TRUE(seen.get().ends_with("\r\n\r\n{}"));
}

TEST_F(WebhookSenderTest, tells_over_tls_whom_it_can_verify) {
  const raw::Authority authority;
  const raw::TlsServer server{authority, raw::TlsServer::Options{}};
  raw::Peer peer{always(kHello), &server};
  EXPECT_EQ(send(peer.url(), {"127.0.0.1:" + port_of(peer.url())}, kPatience, authority.file()).telling,
            Telling::Told);
  const WebhookResult stranger = send(peer.url(), {"127.0.0.1"});
  EXPECT_EQ(stranger.telling, Telling::Again);
  EXPECT_EQ(stranger.cls, Class::Network);
  EXPECT_EQ(stranger.why, "unable to get local issuer certificate");
}

TEST_F(WebhookSenderTest, judges_answers_by_their_class) {
  struct Case {
    const char* answer;
    Telling telling;
    int status;
    Class cls;
    std::optional<std::chrono::milliseconds> retry_after{};
  };
  const Case kCases[] = {
      {"HTTP/1.1 204 No Content\r\n\r\n", Telling::Told, 204, Class::None},
      {"HTTP/1.1 500 x\r\nContent-Length: 0\r\n\r\n", Telling::Again, 500, Class::ServerError},
      {"HTTP/1.1 503 x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", Telling::Again, 503, Class::Overloaded, 7s},
      {"HTTP/1.1 429 x\r\nRetry-After: 90\r\nContent-Length: 0\r\n\r\n",
       Telling::Again,
       429,
       Class::RateLimited,
       90s},
      {"HTTP/1.1 408 x\r\nContent-Length: 0\r\n\r\n", Telling::Again, 408, Class::Timeout},
      {"HTTP/1.1 410 x\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", Telling::GiveUp, 410, Class::NotFound},
      {"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", Telling::GiveUp, 404, Class::NotFound},
      {"HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n", Telling::GiveUp, 401, Class::Auth},
      {"HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n", Telling::GiveUp, 400, Class::InvalidRequest},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.answer);
    raw::Peer peer{always(c.answer)};
    const WebhookResult result = send(peer.url(), {"127.0.0.1"});
    EXPECT_EQ(result.telling, c.telling);
    EXPECT_EQ(result.status, c.status);
    EXPECT_EQ(result.cls, c.cls);
    EXPECT_EQ(result.retry_after, c.retry_after);
  }
  const WebhookResult away = send("http://127.0.0.1:" + std::to_string(raw::closed_port()), {"127.0.0.1"});
  EXPECT_EQ(away.telling, Telling::Again);
  EXPECT_EQ(away.status, 0);
  EXPECT_EQ(away.cls, Class::Network);
  EXPECT_EQ(away.why, "connection refused");
}

TEST_F(WebhookSenderTest, follows_no_redirect) {
  raw::Peer elsewhere{always(kHello)};
  for (const char* status : {"301", "302", "307", "308"}) {
    raw::Peer peer{always("HTTP/1.1 " + std::string{status} + " x\r\nLocation: " + elsewhere.url() +
                          "/\r\nContent-Length: 0\r\n\r\n")};
    const WebhookResult result = send(peer.url(), {"127.0.0.1"});
    EXPECT_EQ(result.telling, Telling::GiveUp);
    EXPECT_EQ(std::to_string(result.status), status);
  }
  EXPECT_EQ(elsewhere.accepted(), 0);
}

TEST_F(WebhookSenderTest, does_not_begin_with_a_host_that_is_not_allowed) {
  raw::Peer peer{always(kHello)};
  const std::string port = port_of(peer.url());
  for (const Hosts& allow : {Hosts{}, Hosts{"127.0.0.1:1"}, Hosts{"127.0.0.2", "example.com"}, Hosts{"localhost"}}) {
    const WebhookResult result = send(peer.url() + "/SECRET?SECRET", allow);
    EXPECT_EQ(result.telling, Telling::GiveUp);
    EXPECT_EQ(result.cls, Class::Permission);
    EXPECT_EQ(result.why, "the webhook's host is not among webhooks.allow_hosts for plain http");
  }
  EXPECT_EQ(send("http://localhost:" + port, {"127.0.0.1"}).telling, Telling::GiveUp);
  EXPECT_EQ(peer.accepted(), 0);
  EXPECT_EQ(send("http://localhost:" + port, {"localhost"}).telling, Telling::Told);
}

// Goal: a name that was allowed cannot lead to where only this machine gets. Method: one that resolves to loopback,
// on a connection that nothing but the address keeps from being made, and one that is there already.
TEST_F(WebhookSenderTest, looks_at_the_address_that_a_name_resolves_to) {
  raw::Peer peer{always(kHello)};
  const std::string port = port_of(peer.url());
  const std::string plain = "http://hook.localhost:" + port;
  ASSERT_EQ(ask(post(wire_to(plain), "{}")).status, 200) << "it can be reached";
  for (const std::string& url : {plain, "https://hook.localhost:" + port}) {
    for (const Hosts& allow : {Hosts{plain, "hook.localhost"},
                               Hosts{plain, "*.hook.localhost", "hook.localhost:" + port},
                               Hosts{plain, "hook.localhost", "localhost", "127.0.0.1", "[::1]"}}) {
      const WebhookResult result = send(url, allow);
      EXPECT_EQ(result.telling, Telling::GiveUp);
      EXPECT_EQ(result.status, 0);
      EXPECT_EQ(result.why, kAddressRefused);
    }
  }
  EXPECT_EQ(peer.accepted(), 1);
}

// Goal: naming a private host opens private addresses, not this machine.
TEST_F(WebhookSenderTest, a_private_host_that_resolves_to_loopback_is_not_told) {
  raw::Peer peer{always(kHello)};
  auto options = std::make_shared<WebhookOptions>();
  options->allow_private_hosts = {"hook.localhost"};
  options->connect_timeout = kPatience;
  Webhook webhook;
  webhook.url = "http://hook.localhost:" + port_of(peer.url());
  webhook.body = "{}";
  webhook.options = options;
  WebhookResult result;
  run(send_into(std::move(webhook), result, Clock::now() + kPatience));
  EXPECT_EQ(result.telling, Telling::GiveUp);
  EXPECT_EQ(result.why, kAddressRefused);
  EXPECT_EQ(peer.accepted(), 0);
}

TEST_F(WebhookSenderTest, uses_no_proxy_where_the_address_counts) {
  raw::Peer proxy{always(kHello)};
  ::setenv("https_proxy", proxy.url().c_str(), 1);
  ::setenv("http_proxy", proxy.url().c_str(), 1);
  const WebhookResult result =
      send("https://no-such-host.invalid/x", {"*.no-such-host.invalid", "no-such-host.invalid"});
  ::unsetenv("https_proxy");
  ::unsetenv("http_proxy");
  EXPECT_EQ(result.telling, Telling::Again);
  EXPECT_EQ(result.why, "the host name cannot be resolved");
  EXPECT_EQ(proxy.accepted(), 0);
}

TEST_F(WebhookSenderTest, waits_no_longer_than_it_may) {
  raw::Peer silent{[](raw::Connection& connection) {
    connection.request();
    connection.gone(kPatience);
  }};
  const WebhookResult result = send(silent.url(), {"127.0.0.1"}, 100ms);
  EXPECT_EQ(result.telling, Telling::Again);
  EXPECT_EQ(result.cls, Class::Timeout);
  EXPECT_EQ(result.why, "no answer in time");
}

TEST_F(WebhookSenderTest, has_told_whatever_becomes_of_the_answers_body) {
  raw::Peer endless{[](raw::Connection& connection) {
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\n\r\n");
    while (connection.send(std::string(16 * 1024, 'x'))) continue;
  }};
  EXPECT_EQ(send(endless.url(), {"127.0.0.1"}).telling, Telling::Told) << "64 KiB are enough";
  raw::Peer slow{[](raw::Connection& connection) {
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
    connection.gone(kPatience);
  }};
  EXPECT_EQ(send(slow.url(), {"127.0.0.1"}, 300ms).telling, Telling::Told);
  raw::Peer cut{[](raw::Connection& connection) {
    connection.request();
    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe");
  }};
  EXPECT_EQ(send(cut.url(), {"127.0.0.1"}).telling, Telling::Told);
}

TEST_F(WebhookSenderTest, ends_when_it_is_stopped) {
  raw::Peer silent{[](raw::Connection& connection) {
    connection.request();
    connection.gone(kPatience);
  }};
  signal.stop(StopReason::Shutdown);
  EXPECT_EQ(send(silent.url(), {"127.0.0.1"}).telling, Telling::Stopped);
}

TEST(WebhookTarget, is_read_strictly) {
  const Hosts allow = {"hooks.example.com",
                       "ported.example.com:8443",
                       "*.below.example.com",
                       "*.b.example:444",
                       "http://plain.example:80",
                       "10.0.0.5",
                       "[FD00:0::1]:9000",
                       "http://10.0.0.6:81",
                       "LOCALHOST",
                       "https://secure.example"};
  struct Case {
    const char* url;
    const char* base_url;  // Empty: refused.
    const char* target = "/";
    AddressPolicy addresses = AddressPolicy::Public;
  };
  const Case kCases[] = {
      {"https://hooks.example.com", "https://hooks.example.com"},
      {"HTTPS://Hooks.Example.COM:8443/A?b=C", "https://hooks.example.com:8443", "/A?b=C"},
      {"https://hooks.example.com?x", "https://hooks.example.com", "/?x"},
      {"http://hooks.example.com", ""},
      {"https://ported.example.com:8443/", "https://ported.example.com:8443"},
      {"https://ported.example.com/", ""},
      {"https://ported.example.com:443/", ""},
      {"https://x.below.example.com", "https://x.below.example.com"},
      {"https://x.y.below.example.com:1", "https://x.y.below.example.com:1"},
      {"https://below.example.com", ""},
      {"https://xbelow.example.com", ""},
      {"https://x.b.example:444", "https://x.b.example:444"},
      {"https://x.b.example", ""},
      {"http://plain.example", "http://plain.example"},
      {"http://plain.example:81", ""},
      {"https://plain.example", ""},
      {"https://secure.example:1", "https://secure.example:1"},
      {"http://secure.example", ""},
      {"https://10.0.0.5", "https://10.0.0.5", "/", AddressPolicy::Any},
      {"http://10.0.0.5", ""},
      {"http://10.0.0.6:81/", "http://10.0.0.6:81", "/", AddressPolicy::Any},
      {"https://[fd00::0001]:9000/x", "https://[fd00::1]:9000", "/x", AddressPolicy::Any},
      {"https://[fd00::1]", ""},
      {"http://localhost:9000/x", "http://localhost:9000", "/x", AddressPolicy::Any},
      {"https://localhost", "https://localhost", "/", AddressPolicy::Any},
      {"http://127.0.0.1", ""},
      {"https://user@hooks.example.com/", ""},
      {"https://hooks.example.com@evil.example/", ""},
      {"https://evil.example/@hooks.example.com", ""},
      {"https://evil.example?hooks.example.com", ""},
      {"https://evil.example#hooks.example.com", ""},
      {"https://evil.example\\.hooks.example.com/", ""},
      {"https://hooks.example.com./", ""},
      {"https://hooks%2eexample.com/", ""},
      {"https://hooks.example.com:0/", ""},
      {"https://hooks.example.com:65536/", ""},
      {"https://hooks.example.com:/", ""},
      {"https://hooks.example.com:+1/", ""},
      {"https://hooks.example.com /", ""},
      {"https://hooks.example.com/\r\nx: y", ""},
      {"https://10.0.5/", ""},
      {"https://0xa.0.0.5/", ""},
      {"https://167772165/", ""},
      {"https://[10.0.0.5]/", ""},
      {"ftp://hooks.example.com/", ""},
      {"//hooks.example.com/", ""},
      {"hooks.example.com", ""},
      {"https://", ""},
      {"", ""},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.url);
    const auto target = webhook_target(c.url, allow);
    EXPECT_EQ(target ? target->base_url : "", c.base_url);
    if (!target) continue;
    EXPECT_EQ(target->target, c.target);
    EXPECT_EQ(target->addresses, c.addresses);
  }
  EXPECT_FALSE(webhook_target("https://hooks.example.com/" + std::string(2'048, 'x'), allow));
  EXPECT_FALSE(webhook_target("https://hooks.example.com/", {}));
}

TEST(WebhookTarget, a_private_host_is_named_whole_and_may_be_told_by_http_and_inside) {
  const std::vector<std::string> inside{"hooks.jobs.svc.cluster.local"};
  for (const char* url : {"http://hooks.jobs.svc.cluster.local:8080/x", "https://HOOKS.jobs.svc.cluster.local/x"}) {
    const auto target = webhook_target(url, {}, inside);
    ASSERT_TRUE(target) << target.error();
    EXPECT_EQ(target->addresses, AddressPolicy::Inside);
  }
  for (const char* url : {"http://other.jobs.svc.cluster.local/",
                          "http://a.hooks.jobs.svc.cluster.local/",
                          "http://10.0.0.1/",
                          "http://169.254.169.254/"})
    EXPECT_FALSE(webhook_target(url, {}, inside)) << url;
  // An address is not looked at, so that none can be named; and what leads to this machine stays as it is.
  EXPECT_FALSE(webhook_target("http://10.0.0.1/", {}, {"10.0.0.1"}));
  const auto here = webhook_target("https://localhost/", {"localhost"}, {"localhost"});
  ASSERT_TRUE(here);
  EXPECT_EQ(here->addresses, AddressPolicy::Any);
}

TEST(WebhookTarget, is_allowed_by_entries_that_can_be_understood) {
  for (const char* entry : {"h",
                            "h:1",
                            "*.example.com",
                            "*.example.com:1",
                            "http://h:1",
                            "https://h",
                            "localhost",
                            "127.0.0.1",
                            "[::1]",
                            "[::1]:1",
                            "http://[::1]:1",
                            "a_b.c-d"}) {
    EXPECT_EQ(problem_of_allowed_host(entry), "") << entry;
  }
  for (const char* entry :
       {"",    "*",   "*.",  "*.com", "*.1.2.3.4",   "a.*.b",  "http://h", "http://*.example.com:1",
        "h:",  "h:0", "h:x", "h/",    "https://h/x", "::1",    "[::1",     "[h]",
        "h h", "u@h", ".h",  "h.",    "127.1",       "ftp://h"}) {
    EXPECT_TRUE(problem_of_allowed_host(entry).starts_with("must be ")) << entry;
  }
}

TEST(NextTry, spreads_and_ends_after_a_day) {
  const WallTime first{std::chrono::hours{1'000}};
  struct Case {
    const char* name;
    TriedWebhook tried;
    std::chrono::milliseconds passed;
    double roll;
    std::optional<std::chrono::milliseconds> wait;
  };
  const Case kCases[] = {
      {"no roll, no wait", {1, first, {}}, 0ms, 0.0, 0ms},
      {"half of 5 s", {1, first, {}}, 1h, 0.5, 2'500ms},
      {"half of 10 s", {2, first, {}}, 1h, 0.5, 5s},
      {"half of 160 s", {6, first, {}}, 1h, 0.5, 80s},
      {"half of the cap", {7, first, {}}, 1h, 0.5, 150s},
      {"half of the cap, for ever", {1'000'000, first, {}}, 1h, 0.5, 150s},
      {"never before a hint", {1, first, 30s}, 1h, 0.0, 30s},
      {"and spread behind it", {1, first, 30s}, 1h, 0.5, 31'500ms},
      {"by a second at least", {1, first, 0s}, 1h, 0.5, 500ms},
      {"by five minutes at most", {1, first, 5h}, 1h, 0.5, 5h + 150s},
      {"the last moment", {9, first, {}}, 24h, 0.0, 0ms},
      {"a moment later", {9, first, {}}, 24h + 1ms, 0.0, std::nullopt},
      {"within the last wait", {9, first, {}}, 24h - 1min, 0.5, std::nullopt},
      {"a hint beyond the day", {1, first, 24h}, 1ms, 0.0, std::nullopt},
      {"a hint beyond all days", {1, first, std::chrono::milliseconds::max()}, 1h, 0.0, std::nullopt},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const WallTime now = first + c.passed;
    const auto when = next_try(c.tried, now, c.roll);
    EXPECT_EQ(when.has_value(), c.wait.has_value());
    if (when && c.wait) {
      EXPECT_EQ(*when - now, *c.wait);
    }
  }
}

}  // namespace webhook_sender_test
}  // namespace gateway
