// Goal: a service manager hears what sd_notify(3) says it should, in time and not more often; without one nothing is
// said. Method: a datagram socket of our own stands for the manager's.
#include "gateway/systemd.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace systemd_test {

using gateway::ServiceManager;
using namespace std::chrono_literals;

/// Takes datagrams under an abstract name ("@…") or a path.
class Manager {
 public:
  explicit Manager(const std::string& name) : name_(name), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, name.data(), name.size());
    if (name.starts_with('@')) at.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&at), size), 0) << std::strerror(errno);
  }
  ~Manager() {
    ::close(fd_);
    if (name_.starts_with('/')) ::unlink(name_.c_str());
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  /// What was said since, a text for each datagram.
  [[nodiscard]] std::vector<std::string> heard() const {
    std::vector<std::string> all;
    std::array<char, 4096> block{};
    for (ssize_t got = 0; (got = ::recv(fd_, block.data(), block.size(), 0)) >= 0;)
      all.emplace_back(block.data(), static_cast<std::size_t>(got));
    return all;
  }

 private:
  std::string name_;
  int fd_;
};

std::string abstract_name() { return "@callgate-test-" + std::to_string(::getpid()); }

ServiceManager started(const std::string& socket, const char* usec = nullptr, const std::string& pid = {}) {
  ::setenv("NOTIFY_SOCKET", socket.c_str(), 1);
  if (usec) ::setenv("WATCHDOG_USEC", usec, 1);
  if (!pid.empty()) ::setenv("WATCHDOG_PID", pid.c_str(), 1);
  return ServiceManager::from_environment();
}

const std::string kMe = std::to_string(::getpid());

TEST(ServiceManager, is_told_under_a_path_and_under_an_abstract_name) {
  for (const std::string& name : {"/tmp/callgate-test-" + kMe, abstract_name()}) {
    SCOPED_TRACE(name);
    const Manager manager{name};
    const ServiceManager told = started(name);
    EXPECT_TRUE(told.listens());
    told.ready("two\nlines");
    EXPECT_EQ(manager.heard(), (std::vector<std::string>{"READY=1\nSTATUS=two lines"}));
    told.reloading();
    const std::vector<std::string> heard = manager.heard();
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_TRUE(heard[0].starts_with("RELOADING=1\nMONOTONIC_USEC=")) << heard[0];
    EXPECT_GT(std::stoll(heard[0].substr(27)), 0);
    told.stopping("draining");
    EXPECT_EQ(manager.heard(),
              (std::vector<std::string>{"STOPPING=1\nEXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining"}));
  }
}

TEST(ServiceManager, is_nobody_where_no_socket_was_named_or_none_that_can_be) {
  const std::string long_name = "/" + std::string(200, 'x');
  for (const std::string& name : {std::string{}, std::string{"vsock:2:1"}, std::string{"@"}, long_name}) {
    SCOPED_TRACE(name);
    ServiceManager nobody = started(name, "30000000");
    EXPECT_FALSE(nobody.listens());
    EXPECT_EQ(nobody.watchdog(), 0us);
    nobody.ready("");
    nobody.beat("", false, budget::TimePoint{1h});
  }
  // One that has gone is no trouble.
  started("/tmp/callgate-test-gone-" + kMe).ready("");
}

TEST(ServiceManager, leaves_no_variable_to_children) {
  (void)started(abstract_name(), "30000000", kMe);
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) EXPECT_EQ(std::getenv(name), nullptr);
}

TEST(ServiceManager, keeps_watch_only_over_the_process_that_is_meant) {
  EXPECT_EQ(started(abstract_name(), "30000000", kMe).watchdog(), 30s);
  EXPECT_EQ(started(abstract_name(), "30000000").watchdog(), 30s);
  EXPECT_EQ(started(abstract_name(), "30000000", "1").watchdog(), 0s);
  EXPECT_EQ(started(abstract_name(), "soon", kMe).watchdog(), 0s);
  EXPECT_EQ(started(abstract_name(), "-5", kMe).watchdog(), 0s);
  EXPECT_EQ(started(abstract_name()).watchdog(), 0s);
}

TEST(ServiceManager, is_fed_at_half_its_time_and_told_of_what_has_changed) {
  const Manager manager{abstract_name()};
  ServiceManager told = started(abstract_name(), "30000000", kMe);
  budget::TimePoint now{1h};
  const auto beat = [&](const std::string& status, bool draining = false) {
    told.beat(status, draining, now);
    return manager.heard();
  };
  using Heard = std::vector<std::string>;
  EXPECT_EQ(beat("a"), (Heard{"WATCHDOG=1\nSTATUS=a\n"}));
  now += 14s;
  EXPECT_EQ(beat("a"), Heard{});
  EXPECT_EQ(beat("b"), (Heard{"STATUS=b\n"}));
  now += 250ms;
  EXPECT_EQ(beat("c"), Heard{}) << "not more often than once a second";
  now += 750ms;
  EXPECT_EQ(beat("b"), (Heard{"WATCHDOG=1\n"}));
  now += 15s;
  EXPECT_EQ(beat("b", true), (Heard{"WATCHDOG=1\nEXTEND_TIMEOUT_USEC=15000000\nSTATUS=b\n"}));
  now += 1s;
  EXPECT_EQ(beat("b", true), (Heard{"EXTEND_TIMEOUT_USEC=15000000\nSTATUS=b\n"})) << "as long as it drains";
}

}  // namespace systemd_test
