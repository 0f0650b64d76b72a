#pragma once
// What has been asked, and how did each request end?

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tests/support/fake_provider_http.h"

namespace fake_provider {

struct Record {
  std::uint64_t id = 0;  // From 1, in the order in which the heads came.
  double at_ms = 0;      // Since the start of the provider.
  Request request{};
  bool body_complete = false;
  std::uint64_t body_bytes = 0;
  std::string sha256{};
  int rule = -1;
  int status = 0;  // Of the answer; 0: none was begun.
  struct Ended {
    EndedBy by = EndedBy::Nobody;
    std::uint64_t answered_bytes = 0;
    double at_ms = 0;
  };
  std::optional<Ended> ended{};
  std::uint64_t generation = 0;  // Of the records: clearing begins a new one.
};

struct Stats {
  std::uint64_t requests = 0;
  std::uint64_t ended = 0;
  std::uint64_t open_requests = 0;
  std::uint64_t held = 0;  // Waiting at a gate.
};

class Records {
 public:
  explicit Records(bool quiet) : quiet_(quiet) {}

  std::shared_ptr<Record> open(Request request);
  void body_complete(Record& record);
  /// The body has been looked at for the last time: most of a large one is not kept.
  void forget_body(Record& record);
  void ended(Record& record, EndedBy by, std::uint64_t answered_bytes);
  /// What is still open goes on, but is not told any more.
  void clear();

  [[nodiscard]] std::string seen_json(std::uint64_t since) const;
  [[nodiscard]] const Stats& stats() const { return stats_; }
  [[nodiscard]] double now_ms() const;

  // Gates: who waits at one goes on when it has been opened, or when a permit has been put down for it.
  void wait_at(const std::string& gate, std::uint64_t who, std::function<void()> go_on);
  void leave(const std::string& gate, std::uint64_t who);
  /// No number of permits: the gate stays open.
  void release(const std::string& gate, std::optional<std::uint64_t> permits);

  /// Called after each change that somebody may wait for.
  void on_change(std::function<void()> changed) { changed_ = std::move(changed); }
  void changed() const {
    if (changed_) changed_();
  }

 private:
  struct Gate {
    bool open = false;
    std::uint64_t permits = 0;
    std::deque<std::pair<std::uint64_t, std::function<void()>>> waiting{};
  };
  bool quiet_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::deque<std::shared_ptr<Record>> seen_{};
  std::size_t kept_bytes_ = 0;
  std::uint64_t generation_ = 0;
  Stats stats_{};
  std::map<std::string, Gate> gates_{};
  std::function<void()> changed_{};
};

/// Hex.
[[nodiscard]] std::string sha256_of(std::string_view bytes);

}  // namespace fake_provider
