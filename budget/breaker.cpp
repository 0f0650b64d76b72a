#include "budget/breaker.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>

#include "budget/share_window.h"

namespace budget {
namespace {

constexpr Milliseconds kRowLastsAtLeast{1'000};
constexpr Milliseconds kProbeDeadlineMin{30'000};
constexpr double kJitter = 0.2;  // Of open_for, on top of it.
constexpr int kSureRows = 4;     // So many times `consecutive` failures open it whatever is under way.
constexpr int kFewUnderWay = 4;  // A quarter of the row of failures.
constexpr int kMostDoublings = 5;
constexpr int kSooner = 8;                 // So much shorter is the opening of an upstream that still answers.
constexpr double kUsualLearns = 1.0 / 64;  // Answers come in clusters: a few in a row say little.
constexpr double kMuch = 0.25;             // Where more than that usually fails, only silence tells that it is down.
// A row as unlikely as that, where failing is usual, says that something broke. Every success begins another row, and
// what is usual is an estimate, so a mere one in a thousand would come every minute.
constexpr double kNews = 1e-5;

void check(const BreakerPolicy& policy) {
  assert(policy.window > Milliseconds::zero());
  assert(policy.min_calls >= 1);
  assert(policy.failure_share > 0.0);
  assert(policy.consecutive >= 1);
  assert(policy.open_for > Milliseconds::zero());
}

}  // namespace

class Breaker::Core final : public TicketDesk {
 public:
  explicit Core(const BreakerPolicy& chosen) : policy{chosen}, outcomes{chosen.window} { check(policy); }

  void success(std::uint64_t number, TimePoint now) override {
    if (!opened_at) {
      if (number != generation) return;
      --in_flight;
      outcomes.add_whole(now);
      answered(now);
      return;
    }
    // An answer of any probe since the opening is one, however long it took.
    if (number <= opening) {
      last_success = now;
      return;
    }
    ++generation;
    outcomes.clear();
    answered(now);
    in_flight = 0;
    opened_at.reset();
    probe_until.reset();
    closed_at = now;
    ++transitions.closed;
  }

  void failure(std::uint64_t number, TimePoint now, double roll) override {
    assert(roll >= 0.0 && roll < 1.0);
    if (number != generation) return;
    ++row;
    if (row == 1) usual_before_row = usual;
    usual += kUsualLearns * (1.0 - usual);
    if (opened_at) {
      ++transitions.reopened;
      return open(now, roll);
    }
    --in_flight;
    outcomes.add_whole(now);
    outcomes.add_part(now);
    if (row == 1) row_began = now;

    if (closed_at && now - *closed_at > policy.window) half_alive = 0;
    const auto all = outcomes.whole(now);
    if (all >= std::int64_t{policy.min_calls} << half_alive && is_share(outcomes.part(now), all)) {
      ++transitions.opened_by_share;
      reason = Reason::FailureShare;
      return open(now, roll);
    }
    // Many calls that break in one moment are one incident: a lost connection carries a hundred streams.
    const bool sure = is_share(row, row) || row >= kSureRows * policy.consecutive;
    const bool news = is_news() || is_silent(now);
    if (row >= policy.consecutive && now - row_began >= kRowLastsAtLeast && sure && news) {
      ++transitions.opened_by_row;
      reason = Reason::Consecutive;
      open(now, roll);
    }
  }

  void neutral(std::uint64_t number) override {
    if (number != generation) return;
    if (!opened_at) --in_flight;
    probe_until.reset();
  }

  /// Failures end at once and answers take their time: what is still under way may yet be an answer.
  [[nodiscard]] bool is_share(std::int64_t failures, std::int64_t ended) const {
    return static_cast<double>(failures) >= policy.failure_share * static_cast<double>(ended + in_flight);
  }

  void answered(TimePoint now) {
    row = 0;
    usual -= kUsualLearns * usual;
    last_success = now;
  }

  /// Where three in five fail, five failures in a row happen all the time; where none does, they are news.
  [[nodiscard]] bool is_news() const { return row >= policy.consecutive && std::pow(usual_before_row, row) < kNews; }
  [[nodiscard]] bool is_silent(TimePoint now) const {
    return !last_success || now - *last_success >= policy.open_for;
  }

  void open(TimePoint now, double roll) {
    opening = ++generation;
    const bool again = opened_at.has_value();
    opened_at = now;
    opening_roll = roll;
    probe_until.reset();
    probed = false;
    const bool much_under_way = kFewUnderWay * in_flight > row;  // Which may yet be answered.
    in_flight = 0;                                               // They count for nothing any more.
    // What fails much, but answered a moment ago, is not down: where three in five fail, six probes in a row do now
    // and then. The longer it has been silent, the longer it is left alone. Each opening of such a one proves less:
    // the next takes twice as many outcomes, and it may finish what it can.
    is_down = ((is_news() && usual_before_row < kMuch) || !last_success) && !much_under_way;
    silent_for = last_success ? now - *last_success : std::chrono::nanoseconds::zero();
    if (is_down) half_alive = 0;
    if (!is_down && !again) {
      half_alive = std::min(half_alive + 1, kMostDoublings);
      row = 0;  // What is under way was the other half of it: only probes can be news now.
    }
  }

  /// Of the present opening.
  [[nodiscard]] TimePoint open_until() const {
    assert(opened_at);
    const std::chrono::nanoseconds most{policy.open_for};
    const std::chrono::nanoseconds least = is_down ? most : std::clamp(silent_for / kSooner, most / kSooner, most);
    const auto more = kJitter * opening_roll * static_cast<double>(least.count());
    return *opened_at + least + std::chrono::nanoseconds{static_cast<std::int64_t>(more)};
  }

  [[nodiscard]] bool may_begin(TimePoint now) const {
    if (!opened_at) return true;
    return now >= next_probe();
  }

  [[nodiscard]] TimePoint next_probe() const {
    if (probe_until) return *probe_until;
    // A longer open_for that is set now does not close again what is half open.
    return probed ? half_opened_at : open_until();
  }

  Ticket begin(const std::shared_ptr<Core>& self, TimePoint now) {
    assert(may_begin(now));
    if (!opened_at) {
      ++in_flight;
      return Ticket{self, generation, false};
    }
    if (!probed) {
      half_opened_at = open_until();
      ++transitions.half_opened;
    }
    probed = true;
    probe_until = now + policy.probe_deadline.value_or(std::max(policy.open_for, kProbeDeadlineMin));
    return Ticket{self, ++generation, true};
  }

  BreakerPolicy policy;
  ShareWindow outcomes;        // Whole: outcomes; part: failures.
  int row = 0;                 // Failures with no success between, probes' too.
  std::int64_t in_flight = 0;  // Tickets of the present closed state that are out.
  TimePoint row_began{};
  double usual = 0.5;             // Share of failures of late, over openings and closings; at first nobody knows.
  double usual_before_row = 0.0;  // It, when the present row began.
  std::optional<TimePoint> last_success;

  std::uint64_t generation = 0;        // Moves at every opening, probe and closing.
  std::uint64_t opening = 0;           // It, at the present opening.
  std::optional<TimePoint> opened_at;  // Nothing: closed.
  double opening_roll = 0.0;
  int half_alive = 0;   // Openings in a row of an upstream that still answered some.
  bool is_down = true;  // At the present opening nothing had ever been answered, or a row of failures was news.
  std::chrono::nanoseconds silent_for{};  // Until the present opening.
  bool probed = false;                    // Since the present opening.
  TimePoint half_opened_at{};
  std::optional<TimePoint> probe_until;  // A probe is out, until then at the latest.
  std::optional<TimePoint> closed_at;
  Reason reason = Reason::FailureShare;
  Transitions transitions;
};

Breaker::Breaker(const BreakerPolicy& policy) : core_{std::make_shared<Core>(policy)} {}

bool Breaker::may_begin(TimePoint now) const { return core_->may_begin(now); }

Ticket Breaker::begin(TimePoint now) { return core_->begin(core_, now); }

Breaker::State Breaker::state(TimePoint now) const {
  if (!core_->opened_at) return State::Closed;
  return core_->probed || now >= core_->open_until() ? State::HalfOpen : State::Open;
}

std::optional<Breaker::Reason> Breaker::reason() const {
  if (!core_->opened_at) return std::nullopt;
  return core_->reason;
}

std::optional<TimePoint> Breaker::since(TimePoint now) const {
  switch (state(now)) {
    case State::Closed:
      return core_->closed_at;
    case State::Open:
      return core_->opened_at;
    case State::HalfOpen:
      return core_->probed ? core_->half_opened_at : core_->open_until();
  }
  return std::nullopt;
}

std::optional<TimePoint> Breaker::next_probe() const {
  if (!core_->opened_at) return std::nullopt;
  return core_->next_probe();
}

Breaker::Transitions Breaker::transitions() const { return core_->transitions; }

void Breaker::update(const BreakerPolicy& policy) {
  check(policy);
  core_->policy = policy;
  core_->outcomes.resize(policy.window);
}

std::string_view name_of(Breaker::State state) {
  switch (state) {
    case Breaker::State::Closed:
      return "closed";
    case Breaker::State::Open:
      return "open";
    case Breaker::State::HalfOpen:
      return "half_open";
  }
  return "";
}

std::string_view name_of(Breaker::Reason reason) {
  switch (reason) {
    case Breaker::Reason::FailureShare:
      return "failure_share";
    case Breaker::Reason::Consecutive:
      return "consecutive";
  }
  return "";
}

}  // namespace budget
