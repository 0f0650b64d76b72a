#pragma once
// One structured line per call when it ends; else only start, stop, changes of state and bugs.
//
// Allow-list: a line is made of the fields below and nothing else. No header, query, body, prompt or answer can reach it.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "gateway/config.h"
#include "gateway/services.h"

namespace gateway {

class Log {
 public:
  /// Writes to file descriptor `fd` (1: stdout), one write(2) per line.
  Log(Config::Log options, int fd);

  /// `event` is a literal word such as "listening"; field names are literals, values are ours (addresses, counts, …).
  using Fields = std::initializer_list<std::pair<std::string_view, std::string_view>>;
  void line(Config::Log::Level level, std::string_view event, std::string_view message, Fields fields, WallTime now);
  /// The call's one line (event "call"): warn if it failed by a provider or by us, info otherwise.
  void call(const CallRecord& record, WallTime now);
  void update(Config::Log options) { options_ = options; }

 private:
  void write(const std::string& line);
  Config::Log options_;
  int fd_;
};

}  // namespace gateway
