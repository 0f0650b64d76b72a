#include "gateway/systemd.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace gateway {
namespace {

using namespace std::chrono_literals;

constexpr auto kTellEvery = 1s;
// Of EXTEND_TIMEOUT_USEC: how long the manager waits for the next word of one that drains. After the loop's last one
// the store may take some seconds.
constexpr std::chrono::microseconds kPatienceAskedFor = 15s;

std::string taken(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value ? value : "";
  ::unsetenv(name);
  return text;
}

std::int64_t number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

/// One line: a second one would be another assignment.
std::string status_line(std::string_view status) {
  std::string line = "STATUS=" + std::string{status};
  std::ranges::replace(line, '\n', ' ');
  return line;
}

/// CLOCK_MONOTONIC, which is the manager's clock, too.
std::string monotonic_usec() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::to_string(std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1'000);
}

}  // namespace

ServiceManager ServiceManager::from_environment() {
  ServiceManager manager;
  const std::string socket = taken("NOTIFY_SOCKET");
  const std::int64_t usec = number(taken("WATCHDOG_USEC"));
  const std::string pid = taken("WATCHDOG_PID");
  const bool local = (socket.starts_with('/') || socket.starts_with('@')) && socket.size() > 1;
  if (!local || socket.size() >= sizeof(sockaddr_un::sun_path)) return manager;
  manager.socket_ = socket;
  // It may be meant for a process that started us and keeps watch itself.
  const bool ours = pid.empty() || number(pid) == ::getpid();
  if (ours && usec > 0) manager.watchdog_ = std::chrono::microseconds{usec};
  return manager;
}

void ServiceManager::ready(std::string_view status) const { *owes_ready_ = !say("READY=1\n" + status_line(status)); }
void ServiceManager::reloading() const { say("RELOADING=1\nMONOTONIC_USEC=" + monotonic_usec()); }
void ServiceManager::stopping(std::string_view status) const {
  say("STOPPING=1\nEXTEND_TIMEOUT_USEC=" + std::to_string(kPatienceAskedFor.count()) + "\n" + status_line(status));
}

void ServiceManager::beat(std::string_view status, bool draining, budget::TimePoint now) {
  if (!listens()) return;
  std::string text;
  // A unit of Type=notify waits for that.
  if (!draining && *owes_ready_) text = "READY=1\n";
  if (watchdog_ > 0us && now - alive_at_ >= watchdog_ / 2) {
    alive_at_ = now;
    text += "WATCHDOG=1\n";
  }
  if ((draining || status != told_) && now - told_at_ >= kTellEvery) {
    told_at_ = now;
    told_ = status;
    if (draining) text += "EXTEND_TIMEOUT_USEC=" + std::to_string(kPatienceAskedFor.count()) + "\n";
    text += status_line(status) + "\n";
  }
  if (!text.empty() && say(text)) *owes_ready_ = false;
}

bool ServiceManager::say(std::string_view text) const {
  if (!listens()) return true;
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, socket_.data(), socket_.size());
  if (to.sun_path[0] == '@') to.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  // Not waiting: a manager that does not read must not hold up calls. It hears the next beat.
  const ssize_t sent = ::sendto(
      fd, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), size);
  ::close(fd);
  return sent >= 0;
}

}  // namespace gateway
