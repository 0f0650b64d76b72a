#pragma once
// How is it said how far something has come that takes long?

#include <chrono>
#include <ostream>
#include <string>
#include <utility>

#include "cli/command.h"

namespace cli {

/// What stands on the last line of stderr, while a terminal shows it; else a line now and then.
class Progress {
 public:
  Progress(Terminal& terminal, std::chrono::milliseconds say_again) : terminal_(terminal), say_again_(say_again) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const std::string& text) {
    const auto now = std::chrono::steady_clock::now();
    if (terminal_.live_err) {
      terminal_.err << '\r' << text << "\x1b[K" << std::flush;
      shown_ = true;
    } else if (now >= say_from_) {
      terminal_.err << text << std::endl;
      say_from_ = now + say_again_;
    }
  }
  /// For talk that stays.
  std::ostream& talk() {
    clear();
    return terminal_.err;
  }
  void clear() {
    if (std::exchange(shown_, false)) terminal_.err << "\r\x1b[K" << std::flush;
  }

 private:
  Terminal& terminal_;
  std::chrono::milliseconds say_again_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point say_from_ = std::chrono::steady_clock::time_point::min();
};

}  // namespace cli
