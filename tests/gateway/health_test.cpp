#include "gateway/health.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace health_test {

using gateway::HealthServer;
using gateway::HealthSources;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

HealthSources healthy() {
  return {.alive = [] { return true; },
          .not_ready_because = [] { return std::string{}; },
          .metrics = [] { return "up 1\n"; }};
}

struct Socket {
  /// Connects to "127.0.0.1:PORT"; reads give up after ten seconds.
  explicit Socket(const std::string& address, int receive_buffer = 0)
      : fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    const timeval limit{10, 0};
    ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (receive_buffer > 0) ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0)
      ADD_FAILURE() << "cannot connect to " << address;
  }
  Socket(Socket&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  void send(const std::string& bytes) const { ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  /// Until the peer closes.
  [[nodiscard]] std::string rest() const {
    std::string all;
    std::array<char, 65536> bytes;
    for (ssize_t got; (got = ::recv(fd, bytes.data(), bytes.size(), 0)) > 0;)
      all.append(bytes.data(), static_cast<std::size_t>(got));
    return all;
  }
  int fd;
};

std::string ask(const HealthServer& server, const std::string& request) {
  const Socket socket{server.address()};
  socket.send(request);
  return socket.rest();
}
std::string get(const HealthServer& server, const std::string& path, const std::string& headers = {}) {
  return ask(server, "GET " + path + " HTTP/1.1\r\nHost: 10.1.2.3:4601\r\n" + headers + "\r\n");
}
std::string body_of(const std::string& answer) { return answer.substr(answer.find("\r\n\r\n") + 4); }
bool has(const std::string& answer, const std::string& text) { return answer.find(text) != std::string::npos; }

TEST(Health, live_ready_and_metrics_are_what_their_sources_say) {
  std::atomic<bool> alive = true;
  std::atomic<bool> ready = false;
  HealthSources sources = healthy();
  sources.alive = [&] { return alive.load(); };
  sources.not_ready_because = [&] { return ready ? std::string{} : std::string{"draining\nledger: disk full"}; };
  const HealthServer server{"127.0.0.1:0", std::move(sources)};

  EXPECT_TRUE(get(server, "/livez").starts_with("HTTP/1.1 200 "));
  EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
  EXPECT_TRUE(get(server, "/readyz").starts_with("HTTP/1.1 503 "));
  EXPECT_EQ(body_of(get(server, "/readyz")), "draining\nledger: disk full\n");
  const std::string metrics = get(server, "/metrics");
  EXPECT_TRUE(metrics.starts_with("HTTP/1.1 200 ")) << metrics;
  EXPECT_TRUE(has(metrics, "Content-Type: text/plain; version=0.0.4")) << metrics;
  EXPECT_EQ(body_of(metrics), "up 1\n");

  alive = false;
  ready = true;
  EXPECT_TRUE(get(server, "/livez").starts_with("HTTP/1.1 503 "));
  EXPECT_TRUE(get(server, "/readyz").starts_with("HTTP/1.1 200 "));
}

TEST(Health, answers_nothing_but_get_and_head_on_three_paths) {
  struct Case {
    const char* request;
    const char* status;
  };
  const Case cases[] = {
      {"HEAD /livez HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
      {"GET /livez?verbose HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
      {"GET /livez HTTP/1.0\r\n\r\n", "200"},
      {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
      {"GET /livez/ HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
      {"GET /../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "404"},
      {"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx", "404"},
      {"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx", "405"},
      {"DELETE /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
      {"nonsense\r\n\r\n", "400"},
      {"\x16\x03\x01\x02\r\n\r\n", "400"},
  };
  const HealthServer server{"127.0.0.1:0", healthy()};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.request);
    const std::string answer = ask(server, c.request);
    EXPECT_EQ(answer.substr(0, 12), std::string{"HTTP/1.1 "} + c.status);
    EXPECT_TRUE(has(answer, "Connection: close\r\n"));
    EXPECT_FALSE(has(answer, "Server:"));
    EXPECT_EQ(body_of(answer).empty(),
              std::string_view{c.request}.starts_with("HEAD") || std::string_view{c.status} == "400");
  }
}

TEST(Health, what_a_page_cannot_tell_is_503_without_the_reason) {
  HealthSources sources = healthy();
  sources.metrics = []() -> std::string { throw std::runtime_error{"CANARY"}; };
  const HealthServer server{"127.0.0.1:0", std::move(sources)};
  const std::string answer = get(server, "/metrics");
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 503 ")) << answer;
  EXPECT_FALSE(has(answer, "CANARY"));
}

TEST(Health, the_last_metrics_are_taken_by_who_has_read_them_all) {
  std::atomic<bool> settled = false;
  std::atomic<int> taken = 0;
  HealthSources sources = healthy();
  // More than both sides' buffers hold, so that nobody has it all without having read.
  const std::string large = "up 1\n" + std::string(4 << 20, '#') + "\n";
  sources.metrics = [&] { return large; };
  sources.settled = [&] { return settled.load(); };
  sources.last_taken = [&] { ++taken; };
  const HealthServer server{"127.0.0.1:0", std::move(sources)};
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

  EXPECT_EQ(body_of(get(server, "/metrics")), large) << "not the last ones yet";
  settled = true;
  get(server, "/livez");
  ask(server, "HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  {
    const Socket goes{server.address(), 4096};
    goes.send(request);
    std::array<char, 100> some;
    EXPECT_GT(::recv(goes.fd, some.data(), some.size(), 0), 0);
  }
  // Answered one after the other: when this one is there, the one above has been dealt with.
  get(server, "/livez");
  EXPECT_EQ(taken, 0);

  EXPECT_EQ(body_of(get(server, "/metrics")), large);
  const auto until = Clock::now() + 10s;
  while (taken == 0 && Clock::now() < until) get(server, "/livez");
  EXPECT_EQ(taken, 1);
}

TEST(Health, metrics_are_compressed_if_asked) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "callgate_calls_total{n=\"" + std::to_string(i) + "\"} 1\n";
  HealthSources sources = healthy();
  sources.metrics = [&] { return text; };
  const HealthServer server{"127.0.0.1:0", std::move(sources)};
  EXPECT_EQ(body_of(get(server, "/metrics")), text);

  const std::string answer = get(server, "/metrics", "Accept-Encoding: gzip\r\n");
  EXPECT_TRUE(has(answer, "Content-Encoding: gzip\r\n"));
  EXPECT_LT(body_of(answer).size(), text.size() / 4);
  const auto file = std::filesystem::temp_directory_path() / ("callgate_health_test." + std::to_string(::getpid()));
  std::ofstream{file, std::ios::binary} << body_of(answer);
  FILE* const unpacked = ::popen(("gzip -dc < " + file.string()).c_str(), "r");
  std::string back;
  for (int c = std::fgetc(unpacked); c != EOF; c = std::fgetc(unpacked)) back += static_cast<char>(c);
  ::pclose(unpacked);
  std::filesystem::remove(file);
  EXPECT_EQ(back, text);
}

TEST(Health, a_page_is_given_once_whatever_ranges_are_asked_for) {
  const HealthServer server{"127.0.0.1:0", healthy()};
  std::string ranges = "Range: bytes=0-";
  for (int i = 0; i < 900; ++i) ranges += ",0-";
  EXPECT_EQ(body_of(get(server, "/metrics", ranges + "\r\n")), "up 1\n");
}

TEST(Health, a_head_without_end_is_refused) {
  const HealthServer server{"127.0.0.1:0", healthy()};
  EXPECT_TRUE(get(server, "/livez", "X: " + std::string(100'000, 'x') + "\r\n").starts_with("HTTP/1.1 431 "));
}

/// The middle one of eleven probes: what a busy machine adds now and then is not meant.
Clock::duration probe_time(const HealthServer& server) {
  std::array<Clock::duration, 11> times;
  for (Clock::duration& time : times) {
    const auto begin = Clock::now();
    EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
    time = Clock::now() - begin;
  }
  std::ranges::sort(times);
  return times[5];
}

TEST(Health, probes_are_quick_whoever_hangs_on) {
  HealthSources sources = healthy();
  sources.metrics = [] { return std::string(4'000'000, 'x'); };
  const HealthServer server{"127.0.0.1:0", std::move(sources)};
  std::vector<Socket> others;
  for (int i = 0; i < 100; ++i) others.emplace_back(server.address());
  EXPECT_LT(probe_time(server), 200ms) << "with idle connections";
  for (int i = 0; i < 100; ++i) others.emplace_back(server.address()).send("GET /livez HTTP/1.1\r\nX-Slow: ");
  EXPECT_LT(probe_time(server), 200ms) << "with half requests";
  for (int i = 0; i < 4; ++i)
    others.emplace_back(server.address(), 4096).send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_LT(probe_time(server), 200ms) << "with scrapers that do not read";
}

TEST(Health, memory_for_scrapers_that_do_not_read_is_bounded) {
  HealthSources sources = healthy();
  std::atomic<int> scrapes = 0;
  sources.metrics = [&] {
    scrapes += 1;
    return std::string(6'000'000, 'x');
  };
  const HealthServer server{"127.0.0.1:0", std::move(sources)};
  std::vector<Socket> others;
  for (int i = 0; i < 40; ++i)
    others.emplace_back(server.address(), 4096).send("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
  EXPECT_LE(scrapes, 3);
  EXPECT_TRUE(has(get(server, "/metrics"), "HTTP/1.1 503 "));
}

// Descriptors from 1024 on are beyond select(2); a busy callgate has thousands.
TEST(Health, probes_work_when_thousands_of_descriptors_are_open) {
  const HealthServer server{"127.0.0.1:0", healthy()};
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_GE(limit.rlim_max, 2000u);
  const rlimit before = limit;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, 2000);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  std::vector<int> open;
  while (open.empty() || open.back() < 1100) open.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
  for (const int fd : open) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Health, the_longest_silent_makes_room_for_a_newcomer) {
  const HealthServer server{"127.0.0.1:0", healthy()};
  const Socket first{server.address()};
  const auto begin = Clock::now();
  std::vector<Socket> others;
  for (int i = 0; i < 150; ++i) others.emplace_back(server.address());
  EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
  EXPECT_EQ(first.rest(), "");
  EXPECT_LT(Clock::now() - begin, 4s) << "its own time was not up yet";
}

TEST(Health, a_silent_connection_is_closed_in_time) {
  const HealthServer server{"127.0.0.1:0", healthy()};
  const Socket idle{server.address()};
  const auto begin = Clock::now();
  EXPECT_EQ(idle.rest(), "");
  EXPECT_LT(Clock::now() - begin, 7s);
}

TEST(Health, the_end_waits_for_nobody) {
  std::vector<Socket> others;
  const auto begin = [&] {
    const HealthServer server{"127.0.0.1:0", healthy()};
    for (int i = 0; i < 20; ++i) others.emplace_back(server.address());
    for (int i = 0; i < 20; ++i) others.emplace_back(server.address()).send("GET /livez HT");
    EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
    return Clock::now();
  }();
  EXPECT_LT(Clock::now() - begin, 1s);
}

TEST(Health, tells_the_real_port) {
  const HealthServer server{"127.0.0.1:0", healthy()};
  EXPECT_TRUE(server.address().starts_with("127.0.0.1:"));
  EXPECT_FALSE(server.address().ends_with(":0"));
  EXPECT_EQ(body_of(get(server, "/livez")), "ok\n");
}

TEST(Health, an_ipv6_address_keeps_its_brackets) {
  // A machine without IPv6 has no ::1; the refusal must then name the address as it was written.
  std::string told;
  try {
    told = HealthServer{"[::1]:0", healthy()}.address();
  } catch (const std::runtime_error& error) {
    told = std::string{error.what()}.substr(std::string_view{"cannot listen on "}.size());
  }
  EXPECT_TRUE(told.starts_with("[::1]:")) << told;
}

std::string why_not(const std::string& address) {
  try {
    const HealthServer server{address, healthy()};
    return "it listens";
  } catch (const std::runtime_error& error) {
    return error.what();
  }
}

TEST(Health, an_address_in_use_is_named_together_with_the_mend) {
  const HealthServer first{"127.0.0.1:0", healthy()};
  const std::string why = why_not(first.address());
  EXPECT_TRUE(has(why, first.address())) << why;
  EXPECT_TRUE(has(why, "Address already in use")) << why;
  EXPECT_TRUE(has(why, "set listen.health")) << why;
  EXPECT_EQ(body_of(get(first, "/livez")), "ok\n");
}

TEST(Health, what_is_no_address_is_refused_with_an_example) {
  for (const char* address : {"",
                              "4601",
                              "127.0.0.1",
                              "127.0.0.1:",
                              "127.0.0.1:x",
                              "127.0.0.1:70000",
                              ":4601",
                              "::1:4601",
                              "[::1]",
                              "unix:/tmp/x"}) {
    EXPECT_TRUE(has(why_not(address), "something like 127.0.0.1:4601")) << address << ": " << why_not(address);
  }
  EXPECT_TRUE(has(why_not("192.0.2.1:0"), "an address of this machine")) << why_not("192.0.2.1:0");
}

}  // namespace health_test
