// TLS and proxies.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "tests/gateway/upstream_curl_fixture.h"
#include "tests/support/pace.h"
#include "tests/support/raw_certificates.h"

namespace gateway {
namespace upstream_curl_tls_test {

class CurlUpstreamTlsTest : public CurlUpstreamTest {
 protected:
  raw::Authority authority{};
  raw::TlsServer server{authority, raw::TlsServer::Options{}};
};

TEST_F(CurlUpstreamTlsTest, believes_the_authorities_of_its_ca_file) {
  raw::Peer peer{always(kHello), &server};
  for (int i = 0; i < 5; ++i) {
    const Answer answer = ask(post(wire_to(peer.url(), authority.file()), std::string(100'000, 'x')));
    EXPECT_EQ(answer.end, Got::End) << answer;
    EXPECT_EQ(answer.body, "hello");
    EXPECT_TRUE(answer.sent);
  }
  EXPECT_EQ(peer.accepted(), 1);
}

TEST_F(CurlUpstreamTlsTest, refuses_who_is_not_who_it_should_be) {
  const raw::Authority stranger;
  const raw::TlsServer expired{authority, {.expired = true}};
  const raw::TlsServer other{authority, {.name = "DNS:example.test"}};
  struct Case {
    const char* name;
    const raw::TlsServer& server;
    std::string ca_file;
    std::string failure;
  };
  const Case kCases[] = {
      {"the system does not know the authority", server, "", "unable to get local issuer certificate"},
      {"nor does another file", server, stranger.file(), "unable to get local issuer certificate"},
      {"expired", expired, authority.file(), "certificate has expired"},
      {"another host", other, authority.file(), "the certificate is not valid for this host"},
      {"no such file", server, "/nonexistent/ca.pem", "the file of certificate authorities cannot be read"},
  };
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    raw::Noted seen;
    raw::Peer peer{[&](raw::Connection& connection) { seen = connection.read_some(); }, &c.server};
    const Answer answer = ask(post(wire_to(peer.url(), c.ca_file), "{}", "/v1?key=SECRET"));
    EXPECT_EQ(answer.end, Got::Failed);
    EXPECT_EQ(answer.transport, Transport::Tls);
    EXPECT_EQ(answer.failure, c.failure);
    EXPECT_FALSE(answer.sent);
    EXPECT_EQ(upstream->figures().connections, 0U);
  }
}

TEST_F(CurlUpstreamTlsTest, never_shares_a_connection_or_session_with_an_upstream_that_believes_others) {
  raw::Peer peer{always(kHello), &server};
  EXPECT_EQ(ask(get(wire_to(peer.url(), authority.file()))).end, Got::End);
  const Answer answer = ask(get(wire_to(peer.url())));
  EXPECT_EQ(answer.transport, Transport::Tls) << answer;
  EXPECT_EQ(ask(get(wire_to(peer.url(), authority.file()))).end, Got::End);
}

TEST_F(CurlUpstreamTlsTest, reads_its_ca_file_once_for_all_connections) {
  const std::string file = authority.file() + ".copy";
  std::filesystem::copy_file(authority.file(), file);
  raw::Peer peer{[](raw::Connection& connection) {
                   while (!connection.request().empty()) {
                     support::dawdle(5ms);
                     connection.send(kHello);
                   }
                 },
                 &server};
  EXPECT_EQ(ask(get(wire_to(peer.url(), file))).end, Got::End);
  // From here on it could not be read any more, and there are connections on several multi handles.
  std::filesystem::remove(file);
  std::vector<std::unique_ptr<Exchange>> exchanges;
  for (int i = 0; i < 100; ++i) exchanges.push_back(upstream->start(get(wire_to(peer.url(), file)), signal));
  for (const auto& exchange : exchanges) {
    const Answer answer = finish(*exchange);
    EXPECT_EQ(answer.end, Got::End) << answer;
  }
  EXPECT_GT(peer.accepted(), 90);
}

TEST_F(CurlUpstreamTlsTest, reads_a_ca_file_again_that_was_replaced) {
  const raw::Authority stranger;
  const std::string file = authority.file() + ".copy";
  std::filesystem::copy_file(stranger.file(), file);
  raw::Peer peer{always(kHello), &server};
  EXPECT_EQ(ask(get(wire_to(peer.url(), file))).transport, Transport::Tls);
  std::filesystem::copy_file(authority.file(), file + ".new");
  std::filesystem::rename(file + ".new", file);
  EXPECT_EQ(ask(get(wire_to(peer.url(), file))).end, Got::End);
  std::ofstream{file, std::ios::trunc} << "not a certificate";  // The last good one stays.
  upstream = std::make_unique<CurlUpstream>(io, CurlOptions{});
  EXPECT_EQ(ask(get(wire_to(peer.url(), file))).failure, "the file of certificate authorities cannot be read");
  std::filesystem::remove(file);
}

TEST_F(CurlUpstreamTlsTest, parses_the_system_bundle_fast_enough_for_a_thread_that_does_all) {
  ASSERT_TRUE(std::filesystem::exists("/etc/ssl/certs/ca-certificates.crt"))
      << "there is nothing to parse; ./dev setup installs ca-certificates";
  raw::Peer peer{always(kHello), &server};
  ask(get(wire_to(peer.url())));  // Parses, and is refused.
  const auto before = cpu();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(get(wire_to(peer.url()))).transport, Transport::Tls);
  const auto each = (cpu() - before) / 20;
  RecordProperty("microseconds_each", static_cast<int>(each.count()));
  EXPECT_LT(each, 20ms) << "parsing it takes 40 ms and more";
}

TEST_F(CurlUpstreamTlsTest, sends_on_a_fresh_connection_what_a_closed_one_cannot_take) {
  for (const bool notify : {true, false}) {
    raw::Peer peer{[&](raw::Connection& connection) {
                     connection.request();
                     connection.send(kHello);
                     if (notify)
                       connection.say_no_more();
                     else
                       shutdown(connection.socket(), SHUT_WR);
                     connection.gone(5s);
                   },
                   &server};
    for (int i = 0; i < 10; ++i) {
      const Answer answer = ask(post(wire_to(peer.url(), authority.file()), "{}"));
      EXPECT_EQ(answer.end, Got::End) << answer;
      turn_for(3ms);
    }
    EXPECT_EQ(peer.accepted(), 10);
  }
}

TEST_F(CurlUpstreamTlsTest, executes_each_call_once_over_a_provider_that_closes_at_the_worst_moments) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random{seed};
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mutex lock;
  std::map<std::string, int> executed;
  std::atomic<std::uint_fast32_t> microseconds = 0;
  raw::Peer peer{[&](raw::Connection& connection) {
                   for (;;) {
                     const std::string request = connection.request();
                     if (request.empty()) return;
                     {
                       const std::lock_guard guard{lock};
                       ++executed[request.substr(0, request.find(" HTTP"))];
                     }
                     connection.send(kHello);
                     const auto until = Clock::now() + std::chrono::microseconds{microseconds};
                     while (Clock::now() < until) {
                     }
                     if (microseconds % 2 == 1 && !connection.readable(0ms)) return;
                   }
                 },
                 &server};
  int failed = 0;
  for (int i = 0; i < 200; ++i) {
    microseconds = random() % 150;
    const std::string target = "/" + std::to_string(i);
    const Answer answer = ask(post(wire_to(peer.url(), authority.file()), "{}", target));
    const std::lock_guard guard{lock};
    if (answer.end == Got::End) {
      EXPECT_EQ(executed["POST " + target], 1);
    } else {
      ++failed;
      EXPECT_LE(executed["POST " + target], answer.sent ? 1 : 0) << answer;
    }
  }
  EXPECT_LT(failed, 40);
  RecordProperty("failed", failed);
}

TEST_F(CurlUpstreamTlsTest, says_what_became_of_a_handshake) {
  raw::Peer peer{[](raw::Connection& connection) {
    connection.read_some();
    connection.reset();
  }};
  const Answer answer = ask(get(wire_to("https://127.0.0.1:" + std::to_string(peer.port()), authority.file())));
  EXPECT_EQ(answer.transport, Transport::Reset) << answer;
  EXPECT_EQ(answer.failure, "connection lost during the TLS handshake");

  raw::Peer plain{[](raw::Connection& connection) {
    connection.read_some();
    connection.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  }};
  const Answer other = ask(get(wire_to("https://127.0.0.1:" + std::to_string(plain.port()), authority.file())));
  EXPECT_EQ(other.transport, Transport::Tls) << other;
}

// ---- Proxies

/// Variables of the environment, as they were before at the end.
class Environment {
 public:
  explicit Environment(std::initializer_list<std::pair<const char*, std::string>> values) {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : values) setenv(name, value.c_str(), 1);
  }
  ~Environment() {
    for (const char* name : kNames) unsetenv(name);
  }

 private:
  static constexpr const char* kNames[] = {
      "http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"};
};

TEST_F(CurlUpstreamTlsTest, reaches_a_provider_through_a_proxy_that_sees_no_key) {
  const raw::TlsServer provider{authority, {.name = "DNS:provider.test"}};
  raw::Noted connect;
  raw::Noted request;
  raw::Peer proxy{[&](raw::Connection& connection) {
    connect = connection.request();
    connection.send("HTTP/1.1 200 Connection established\r\nX-Proxy: 1\r\n\r\n");
    connection.shake_hands(provider);
    while (!(request = connection.request()).empty()) connection.send(kHello);
  }};
  const Environment environment{{"HTTPS_PROXY", "http://user:word@127.0.0.1:" + std::to_string(proxy.port())}};
  for (int i = 0; i < 3; ++i) {
    Outbound outbound = post(wire_to("https://provider.test", authority.file()), "{}", "/v1/x");
    outbound.headers = {{"Authorization", "Bearer SECRET"}, {"X-Api-Key", "SECRET"}};
    const Answer answer = ask(std::move(outbound));
    EXPECT_EQ(answer.end, Got::End) << answer;
    EXPECT_EQ(answer.headers, (Headers{{"Content-Length", "5"}}));
  }
  EXPECT_TRUE(connect.get().starts_with("CONNECT provider.test:443 HTTP/1.1\r\n")) << connect.get();
  EXPECT_NE(connect.get().find("Proxy-Authorization: Basic dXNlcjp3b3Jk"), std::string::npos) << connect.get();
  EXPECT_EQ(connect.get().find("SECRET"), std::string::npos) << connect.get();
  EXPECT_EQ(request.get(),
            "POST /v1/x HTTP/1.1\r\nHost: provider.test\r\nAuthorization: Bearer SECRET\r\nX-Api-Key: SECRET\r\n"
            "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(proxy.accepted(), 1);
}

TEST_F(CurlUpstreamTlsTest, asks_a_proxy_for_plain_http_by_the_whole_url) {
  raw::Noted request;
  raw::Peer proxy{[&](raw::Connection& connection) {
    while (!(request = connection.request()).empty()) connection.send(kHello);
  }};
  const Environment environment{{"HTTP_PROXY", "http://127.0.0.1:" + std::to_string(proxy.port())}};
  EXPECT_EQ(ask(get(wire_to("http://provider.test:81/base"), "/a/../b?c=%2e")).end, Got::End);
  EXPECT_TRUE(request.get().starts_with(
      "GET http://provider.test:81/base/a/../b?c=%2e HTTP/1.1\r\nHost: provider.test:81\r\n"))
      << request.get();
}

TEST_F(CurlUpstreamTlsTest, goes_around_the_proxy_where_it_should) {
  raw::Peer proxy{always("HTTP/1.1 500 Proxy\r\nContent-Length: 0\r\n\r\n")};
  raw::Peer peer{always(kHello)};
  const std::string url = "http://127.0.0.1:" + std::to_string(proxy.port());
  {
    const Environment environment{{"http_proxy", url}, {"all_proxy", url}};
    EXPECT_EQ(ask(get(wire_to(peer.url()))).status, 200);
    EXPECT_EQ(ask(get(wire_to("http://localhost:" + std::to_string(peer.port())))).status, 200);
    EXPECT_EQ(ask(get(wire_to("http://provider.invalid"))).status, 500);
  }
  {
    const Environment environment{{"http_proxy", url}, {"NO_PROXY", "provider.invalid"}};
    EXPECT_EQ(ask(get(wire_to("http://provider.invalid"))).transport, Transport::Dns);
  }
  const Environment environment{{"http_proxy", url}};
  upstream = std::make_unique<CurlUpstream>(io, CurlOptions{.use_environment_proxies = false});
  EXPECT_EQ(ask(get(wire_to("http://provider.invalid"))).transport, Transport::Dns);
}

TEST_F(CurlUpstreamTlsTest, says_that_the_proxy_refused) {
  raw::Peer proxy{always("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")};
  const Environment environment{{"https_proxy", "http://127.0.0.1:" + std::to_string(proxy.port())}};
  const Answer answer = ask(post(wire_to("https://provider.test"), "{}"));
  EXPECT_EQ(answer.transport, Transport::ConnectRefused) << answer;
  EXPECT_EQ(answer.failure, "the proxy refused the connection (403)");
  EXPECT_FALSE(answer.sent);
}

}  // namespace upstream_curl_tls_test
}  // namespace gateway
