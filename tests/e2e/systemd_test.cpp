// Goal: a unit of Type=notify with a watchdog sees callgate come up, reload, live and go. Method: the real binary
// with a NOTIFY_SOCKET of ours.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/harness.h"
#include "tests/support/pace.h"

namespace systemd_test {

using support::Callgate;
using support::eventually;
using support::FakeProvider;
using namespace std::chrono_literals;

class Manager {
 public:
  Manager() : path_(folder_.path() + "/notify"), fd_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path_.c_str(), path_.size());
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at), 0) << std::strerror(errno);
  }
  ~Manager() { ::close(fd_); }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  [[nodiscard]] Callgate::Options options(const std::string& usec = {}) const {
    Callgate::Options options;
    options.env = {{"NOTIFY_SOCKET", path_}};
    if (!usec.empty()) options.env.emplace_back("WATCHDOG_USEC", usec);
    return options;
  }
  /// The next datagram with this line in it; those before it are passed over. Empty: none came in time.
  std::string next(const std::string& line) {
    std::string found;
    (void)eventually([&] {
      while (found.empty() && hear()) {
        if (("\n" + last_ + "\n").find("\n" + line) != std::string::npos) found = last_;
      }
      return !found.empty();
    });
    return found;
  }
  /// Whether one with this line came meanwhile.
  [[nodiscard]] bool has(const std::string& line) {
    bool found = false;
    while (hear()) found = found || last_.find(line) != std::string::npos;
    return found;
  }

 private:
  bool hear() {
    std::array<char, 4096> block{};
    const ssize_t got = ::recv(fd_, block.data(), block.size(), 0);
    if (got < 0) return false;
    last_.assign(block.data(), static_cast<std::size_t>(got));
    return true;
  }
  support::TempDir folder_{};
  std::string path_;
  int fd_;
  std::string last_{};
};

const std::string kConfig = "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n";

TEST(ServiceManager, hears_of_start_reload_and_end) {
  Manager manager;
  Callgate callgate{kConfig, manager.options()};
  EXPECT_EQ(manager.next("READY=1"), "READY=1\nSTATUS=0 under way, 0 of them waiting, 0 calls ended");

  callgate.write_config(kConfig + "retry: {base: 100ms}\n");
  callgate.process().signal(SIGHUP);
  EXPECT_TRUE(manager.next("RELOADING=1").find("\nMONOTONIC_USEC=") != std::string::npos);
  EXPECT_EQ(manager.next("READY=1"), "READY=1\nSTATUS=0 under way, 0 of them waiting, 0 calls ended");
  callgate.process().json_line("reloaded");

  callgate.write_config("retry: {base: soon}\n");
  EXPECT_NE(manager.next("RELOADING=1"), "");
  EXPECT_EQ(manager.next("READY=1"),
            "READY=1\nSTATUS=0 under way, 0 of them waiting, 0 calls ended; the configuration on disk is refused, an "
            "older one holds");

  EXPECT_EQ(callgate.stop(), 0);
  EXPECT_TRUE(manager.next("STOPPING=1").find("\nEXTEND_TIMEOUT_USEC=") != std::string::npos);
}

TEST(ServiceManager, is_asked_for_time_while_calls_drain) {
  FakeProvider provider;
  provider.script(R"([{"answer": {"hold": "gate"}}])");
  Manager manager;
  Callgate callgate{kConfig + "upstreams: {openai: {url: " + provider.url() + "}}\n", manager.options("1000000")};
  support::RawClient client{callgate.data_port()};
  client.send(support::request_text("POST", "/openai/v1/chat/completions", R"({"model":"gpt-5","messages":[]})"));
  provider.wait("requests=1");
  callgate.process().signal(SIGTERM);
  EXPECT_NE(manager.next("STOPPING=1"), "");
  EXPECT_NE(manager.next("EXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining: 1 under way"), "");
  EXPECT_NE(manager.next("EXTEND_TIMEOUT_USEC=15000000\nSTATUS=draining: 1 under way"), "") << "once more";
  EXPECT_NE(manager.next("WATCHDOG=1"), "") << "the loop still turns";
  provider.release("gate");
  EXPECT_EQ(client.read_response().status, 200);
  EXPECT_EQ(callgate.process().wait(), 0);
}

TEST(ServiceManager, is_fed_again_and_again) {
  Manager manager;
  const Callgate callgate{kConfig, manager.options("1000000")};
  EXPECT_NE(manager.next("WATCHDOG=1"), "");
  EXPECT_NE(manager.next("WATCHDOG=1"), "");
  EXPECT_NE(manager.next("WATCHDOG=1"), "");
}

TEST(ServiceManager, that_asked_for_no_watchdog_gets_no_food) {
  Manager manager;
  Callgate::Options options = manager.options("1000000");
  options.env.emplace_back("WATCHDOG_PID", "1");
  Callgate callgate{kConfig, options};
  EXPECT_NE(manager.next("READY=1"), "");
  EXPECT_EQ(callgate.stop(), 0);
  EXPECT_FALSE(manager.has("WATCHDOG=1"));
}

}  // namespace systemd_test
