#include "gateway/process_figures.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>
#include <string>

namespace gateway {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

std::uint64_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  statm >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t open_fds() {
  std::error_code error;
  std::filesystem::directory_iterator fds{"/proc/self/fd", error};
  if (error) return 0;
  return static_cast<std::uint64_t>(std::distance(fds, std::filesystem::directory_iterator{})) - 1;  // Our own look.
}

// The kernel counts from the boot in ticks; when that boot was stands in another file.
double started_at() {
  std::ifstream own{"/proc/self/stat"};
  std::string line;
  std::getline(own, line);
  // The second field is the program's name in brackets, and may itself hold blanks and brackets.
  std::istringstream fields{line.substr(std::min(line.size(), line.rfind(')') + 1))};
  std::string field;
  constexpr int kStartTime = 22;
  for (int i = 3; i <= kStartTime; ++i) fields >> field;

  std::ifstream machine{"/proc/stat"};
  std::string name;
  double boot = 0;
  while (machine >> name) {
    if (name == "btime") {
      machine >> boot;
      break;
    }
    machine.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (field.empty() || boot == 0) return 0;
  return boot + std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

ProcessFigures process_figures() {
  static const double began = started_at();
  ProcessFigures figures{.resident_bytes = resident_bytes(), .open_fds = open_fds(), .started_at = began};
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) == 0) figures.cpu_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures.max_fds = limit.rlim_cur;
  return figures;
}

}  // namespace gateway
