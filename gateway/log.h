#pragma once
// One structured line per call when it ends; else only start, stop, changes of state and bugs.
//
// Allow-list: a line is made of the fields in log.cpp and docs/logs.md and nothing else. No header, query, body,
// prompt or answer can reach it.

#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "gateway/config.h"
#include "gateway/services.h"

namespace gateway {

/// A text, or a whole number. Implicit, so that lists of fields read as such.
class LogValue {
 public:
  template <typename Text>
    requires std::convertible_to<Text, std::string_view>
  LogValue(const Text& text) : text_(text) {}  // NOLINT(google-explicit-constructor)
  template <std::integral Number>
  LogValue(Number number) : number_(static_cast<std::int64_t>(number)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] std::string_view text() const { return text_; }
  [[nodiscard]] const std::optional<std::int64_t>& number() const { return number_; }

 private:
  std::string_view text_{};
  std::optional<std::int64_t> number_{};
};

/// I/O thread only, but for dropped(). Lines are handed to a thread of their own: a reader of our output who stops
/// reading stops nothing but the log. Up to 2 MiB wait for him, then lines are dropped and counted.
class Log {
 public:
  /// Writes to file descriptor `fd` (1: stdout), one write(2) per line. `on_line` is told the level of each line, for
  /// the metric.
  Log(Config::Log options, int fd, std::function<void(std::string_view level)> on_line = {});
  /// Writes what waits, for at most a second.
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// `event` is a literal word such as "listening"; field names are literals, values are ours (addresses, counts, …).
  using Fields = std::initializer_list<std::pair<std::string_view, LogValue>>;
  void line(Config::Log::Level level, std::string_view event, std::string_view message, Fields fields, WallTime now);
  /// The call's one line (event "call"): error for a bug of ours, warn if it failed by a provider or by us, else
  /// info.
  void call(const CallRecord& record, WallTime now);
  void update(Config::Log options) { options_ = options; }

  /// Lines that nobody will ever read. Any thread.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  class Writer;
  [[nodiscard]] bool wanted(Config::Log::Level level) const { return level >= options_.level; }
  [[nodiscard]] bool is_json() const { return options_.format == Config::Log::Format::Json; }
  void begin(Config::Log::Level level, std::string_view event, std::string_view message, WallTime now);
  template <typename Write>
  void write_fields(const Write& write);
  /// False if the line had to be dropped.
  bool end(Config::Log::Level level, WallTime now);
  void own_up_to_gaps(WallTime now);

  Config::Log options_;
  std::function<void(std::string_view)> on_line_;
  std::string head_json_;  // service.name, service.version, pid.
  std::string line_{};     // Reused, so that a line costs no allocation.
  std::uint64_t dropped_told_ = 0;
  WallTime last_now_{};
  std::shared_ptr<Writer> writer_;  // Also held by the thread, which may have to be left behind in a write(2).
  std::thread thread_;
};

}  // namespace gateway
