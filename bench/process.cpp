#include "bench/process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "bench/socket.h"

namespace bench {
namespace {

using namespace std::chrono_literals;

std::string proc(pid_t pid, const std::string& name) { return "/proc/" + std::to_string(pid) + "/" + name; }

template <typename Visit>
void for_each_task(pid_t pid, Visit visit) {
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator{proc(pid, "task"), gone}) visit(task.path());
}

pid_t wait_for(pid_t pid, int options) {
  int status = 0;
  return ::waitpid(pid, &status, options);
}

}  // namespace

void pin_to_core(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  ::sched_setaffinity(0, sizeof set, &set);
}

Process::Process(const std::vector<std::string>& command, const std::string& output_file, int core) {
  // execvp() takes what it does not change as char*.
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ > 0) return;
  // TERM and not KILL: a master that is killed leaves its workers.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  pin_to_core(core);
  const int output = ::open(output_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(arguments.front(), arguments.data());
  ::_exit(127);
}

Process::Process(const std::function<void()>& body) {
  pid_ = ::fork();
  if (pid_ < 0) throw_errno("fork");
  if (pid_ > 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  ::_exit(1);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}

Process::~Process() {
  if (!running()) return;
  const std::vector<pid_t> all = family();
  ::kill(pid_, SIGTERM);
  for (int i = 0; i < 300; ++i) {
    if (!running()) return;
    std::this_thread::sleep_for(10ms);
  }
  for (const pid_t pid : all) ::kill(pid, SIGKILL);
  wait_for(pid_, 0);
  pid_ = -1;
}

bool Process::running() {
  if (pid_ > 0 && wait_for(pid_, WNOHANG) != 0) pid_ = -1;
  return pid_ > 0;
}

std::vector<pid_t> Process::family() const {
  std::vector<pid_t> pids{pid_};
  for (std::size_t i = 0; i < pids.size(); ++i) {
    for_each_task(pids[i], [&](const std::filesystem::path& task) {
      std::ifstream children{task / "children"};
      for (pid_t child = 0; children >> child;) pids.push_back(child);
    });
  }
  return pids;
}

std::chrono::nanoseconds Process::cpu() const {
  std::int64_t sum = 0;
  for (const pid_t pid : family()) {
    for_each_task(pid, [&](const std::filesystem::path& task) {
      std::ifstream schedstat{task / "schedstat"};
      std::int64_t run_time = 0;
      if (schedstat >> run_time) sum += run_time;
    });
  }
  return std::chrono::nanoseconds{sum};
}

std::uint64_t Process::status_bytes(const std::string& field) const {
  std::uint64_t sum = 0;
  for (const pid_t pid : family()) {
    std::ifstream status{proc(pid, "status")};
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with(field + ":")) continue;
      std::uint64_t kilobytes = 0;
      std::istringstream{line.substr(field.size() + 1)} >> kilobytes;
      sum += kilobytes * 1024;
    }
  }
  return sum;
}

std::uint64_t Process::rss_bytes() const { return status_bytes("VmRSS"); }
std::uint64_t Process::peak_rss_bytes() const { return status_bytes("VmHWM"); }

void Process::reset_peak_rss() const {
  for (const pid_t pid : family()) std::ofstream{proc(pid, "clear_refs")} << 5;
}

}  // namespace bench
