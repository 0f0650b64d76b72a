#pragma once
// How fast may one credential's limit group be called? What is configured or announced, moved by 429s (design §5).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "budget/bucket.h"
#include "classifier/announced.h"

namespace budget {

/// Additive increase, multiplicative decrease on the rate: a 429 takes a tenth, once for all that had begun before,
/// and time brings it back slowly. Where nothing is configured or announced (or a tenth of that is still too much),
/// the rate that was accepted when a 429 came is the first guess, from 300 requests a minute on or where nearly all
/// is refused (else pauses do better); it grows without end, and is forgotten when no 429 has come for ten minutes.
/// Single-threaded.
class GroupRate {
 public:
  GroupRate();

  void configure(const RateLimits& configured, TimePoint now);
  /// Takes up the limits that are meant for a minute.
  void announced(std::span<const classifier::AnnouncedLimit> limits, TimePoint now);
  [[nodiscard]] TimePoint next(const Use& expected, TimePoint now);
  void take(const Use& expected, TimePoint now);
  /// An attempt that began at `began` is over. `refused`: the provider said 429; it had not used anything then.
  void settle(const Use& expected, const Use& truth, bool refused, TimePoint began, TimePoint now);
  /// What holds now; 0: no limit.
  [[nodiscard]] RateLimits effective(TimePoint now);
  /// In (0, 1]: what 429s left of it.
  [[nodiscard]] double share(TimePoint now);
  [[nodiscard]] const char* holds(const Use& expected, TimePoint now);

 private:
  using Unit = classifier::AnnouncedLimit::Unit;
  static constexpr std::size_t kUnits = 4;

  /// What was let go and not refused, by the moment at which it began. A refusal comes at once and an answer after
  /// long, so this tells sooner than answers do what the provider takes.
  struct Moment {
    std::int64_t number = -1;
    float requests = 0;
    float tokens = 0;
  };
  static constexpr std::size_t kMoments = 128;
  struct Pace {
    double requests = 0;  // Per minute.
    double tokens = 0;
  };
  /// Taken from what was accepted when a 429 came; grows from then on.
  struct Learned {
    Pace pace{};
    TimePoint at{};
    bool small = false;  // Nearly all was refused.
  };

  Moment* moment(TimePoint when);
  void count(TimePoint when, double requests, double tokens);
  [[nodiscard]] std::optional<Pace> accepted(TimePoint before) const;
  [[nodiscard]] std::optional<Pace> learned(TimePoint now) const;
  void give_up(TimePoint now);
  void tell_apart(bool refused, TimePoint began, TimePoint now);
  [[nodiscard]] RateLimits base() const;
  void cut(TimePoint began, TimePoint now);
  void apply(TimePoint now);

  RateLimits configured_{};
  std::array<std::int64_t, kUnits> announced_{};     // Per minute; 0: nothing.
  std::array<std::int64_t, kUnits> other_window_{};  // A limit that turned out not to be a minute's.
  double share_ = 1.0;                               // As it was at the last cut.
  std::optional<Learned> learned_{};
  std::optional<TimePoint> cut_at_{};
  TimePoint refused_at_ = TimePoint::min();
  double lately_ = 0;  // Share of attempts that were refused.
  /// What became of attempts that were let go at one level of the rate.
  struct Sample {
    TimePoint since{};
    double level = 1e12;  // Requests per minute that it might have been.
    int ended = 0;
    int refused = 0;
    [[nodiscard]] double share() const { return static_cast<double>(refused) / ended; }
  };
  std::optional<Sample> before_{};
  struct Trial {  // Of a first guess.
    TimePoint since{};
    double before = 0;  // Share that was refused.
    int ended = 0;
    int refused = 0;
  };
  std::optional<Trial> trial_{};
  Sample sample_{};
  std::optional<TimePoint> uncut_until_{};
  std::array<Moment, kMoments> moments_{};
  std::int64_t first_moment_ = -1;
  Buckets buckets_;
  std::optional<TimePoint> applied_at_{};
};

}  // namespace budget
