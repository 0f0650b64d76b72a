// Goal: a provider's quota is used and hardly exceeded, whether it tells of it or not, and a change that it does not
// tell of is followed within half a minute.
// Method: minutes of virtual time against a provider that counts in its own way, with more work than it takes;
// seeded.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "budget/concurrency.h"
#include "budget/group_rate.h"

namespace budget {
namespace group_rate_quota_test {

using namespace std::chrono_literals;
using classifier::AnnouncedLimit;

/// How long it wants to be left alone after a 429.
enum class Hint : std::uint8_t { None, Exact, Seconds };

struct Scenario {
  const char* name;
  double limit_requests = 10'000;  // A minute, as the tokens.
  double limit_tokens = 2'000'000;
  bool announces = false;
  std::chrono::seconds burst{1};  // Zero: windows of a minute, each as it begins.
  Hint hint = Hint::Seconds;
  double input = 100;  // Tokens of a call, in the mean.
  double output = 50;
  double latency = 2.0;  // Seconds, in the mean.
  double halved_at = 0;  // Seconds; 0: never.
  double used = 0;       // Wanted at least, of the quota.
  double refused = 0.01;
  int at_once = 2'000;
};

/// It counts what a call will take when it comes.
class Provider {
 public:
  explicit Provider(const Scenario& scenario)
      : scenario_{scenario}, requests_{full(scenario_.limit_requests)}, tokens_{full(scenario_.limit_tokens)} {}

  bool accept(double tokens, double now) {
    refill(now);
    if (requests_ < 1 || tokens_ < tokens) return false;
    requests_ -= 1;
    tokens_ -= tokens;
    return true;
  }
  /// Seconds until as much would be accepted.
  [[nodiscard]] double wait(double tokens, double now) const {
    if (scenario_.burst == 0s) return (std::floor(now / 60) + 1) * 60 - now;
    const double share = share_at(now);
    return std::max({0.0,
                     (1 - requests_) * 60 / (scenario_.limit_requests * share),
                     (tokens - tokens_) * 60 / (scenario_.limit_tokens * share)});
  }
  [[nodiscard]] double share_at(double now) const {
    return scenario_.halved_at > 0 && now >= scenario_.halved_at ? 0.5 : 1.0;
  }

 private:
  [[nodiscard]] double full(double limit) const {
    return scenario_.burst == 0s ? limit : limit * static_cast<double>(scenario_.burst.count()) / 60;
  }
  void refill(double now) {
    const double share = share_at(now);
    const bool windows = scenario_.burst == 0s;
    const bool turned = std::floor(now / 60) > std::floor(as_of_ / 60);
    const double minutes = windows ? (turned ? 1.0 : 0.0) : (now - as_of_) / 60;
    requests_ =
        std::min(full(scenario_.limit_requests) * share, requests_ + scenario_.limit_requests * share * minutes);
    tokens_ = std::min(full(scenario_.limit_tokens) * share, tokens_ + scenario_.limit_tokens * share * minutes);
    as_of_ = now;
  }

  const Scenario& scenario_;
  double requests_;
  double tokens_;
  double as_of_ = 0;
};

/// Of a stretch of time.
struct Figures {
  double used = 0;     // Of the quota as it was then: requests or tokens, whichever was nearer to it.
  double refused = 0;  // Of all attempts.
};

struct Second {
  double sent = 0;
  double refused = 0;
  double requests = 0;
  double tokens = 0;
  double share = 1;
};

class World {
 public:
  World(const Scenario& scenario, unsigned seed, double seconds)
      : scenario_{scenario},
        provider_{scenario},
        chance_{seed},
        end_{seconds},
        seconds_(static_cast<std::size_t>(seconds) + 1) {
    for (std::size_t i = 0; i < seconds_.size(); ++i) seconds_[i].share = provider_.share_at(static_cast<double>(i));
  }

  void run() {
    concurrency_.configure(scenario_.at_once, true);
    draw();
    at(0, [this] { dispatch(); });
    while (!events_.empty() && events_.top().when < end_) {
      const Event event = events_.top();
      events_.pop();
      now_ = event.when;
      event.what();
    }
  }

  [[nodiscard]] Figures figures(double from, double to) const {
    double sent = 0, refused = 0, requests = 0, tokens = 0, quota = 0;
    for (auto i = static_cast<std::size_t>(from); i < static_cast<std::size_t>(to); ++i) {
      sent += seconds_[i].sent;
      refused += seconds_[i].refused;
      requests += seconds_[i].requests;
      tokens += seconds_[i].tokens;
      quota += seconds_[i].share / 60;
    }
    return {
        .used = std::max(requests / (scenario_.limit_requests * quota), tokens / (scenario_.limit_tokens * quota)),
        .refused = refused / std::max(1.0, sent)};
  }

 private:
  struct Event {
    double when;
    std::uint64_t number;
    std::function<void()> what;
    bool operator<(const Event& other) const {
      return when != other.when ? when > other.when : number > other.number;
    }
  };
  struct Attempt {
    Use expected{};
    Use truth{};
    double began = 0;
  };

  void at(double when, std::function<void()> what) { events_.push({when, number_++, std::move(what)}); }
  static TimePoint moment(double seconds) {
    return TimePoint{1'000'000s} + std::chrono::nanoseconds{static_cast<std::int64_t>(seconds * 1e9)};
  }
  double uniform(double from, double to) { return std::uniform_real_distribution{from, to}(chance_); }
  Second& second() { return seconds_[static_cast<std::size_t>(now_)]; }

  /// The next call that waits. Input is guessed well, output is reserved at its p90.
  void draw() {
    const double input = scenario_.input * uniform(0.2, 1.8);
    const double output = std::exponential_distribution{1 / scenario_.output}(chance_);
    waiting_.truth = {.requests = 1, .input = std::ceil(input), .output = std::ceil(output)};
    waiting_.expected = {
        .requests = 1, .input = std::ceil(input * uniform(0.9, 1.1)), .output = std::ceil(scenario_.output * 2.3)};
  }

  void dispatch() {
    while (in_flight_ < concurrency_.limit()) {
      const TimePoint now = moment(now_);
      const TimePoint next = std::max(rate_.next(waiting_.expected, now), moment(paused_until_));
      if (next > now) {
        const double wake = now_ + std::chrono::duration<double>(next - now).count() + 1e-6;
        if (wake_ <= now_ || wake < wake_) at(wake_ = wake, [this] { dispatch(); });
        return;
      }
      Attempt attempt = waiting_;
      attempt.began = now_;
      rate_.take(attempt.expected, now);
      ++in_flight_;
      second().sent += 1;
      at(now_ + uniform(0.01, 0.05), [this, attempt] { arrive(attempt); });
      draw();
    }
  }

  void arrive(const Attempt& attempt) {
    const double tokens = attempt.truth.tokens();
    if (provider_.accept(tokens, now_)) {
      second().requests += 1;
      second().tokens += tokens;
      const double latency = std::lognormal_distribution{std::log(scenario_.latency) - 0.18, 0.6}(chance_);
      at(now_ + latency, [this, attempt] { answered(attempt, false, 0); });
      return;
    }
    second().refused += 1;
    double wait = provider_.wait(tokens, now_);
    if (scenario_.hint == Hint::Seconds) wait = std::max(1.0, std::ceil(wait));
    if (scenario_.hint == Hint::None) wait = 0;
    at(now_ + uniform(0.01, 0.05), [this, attempt, wait] { answered(attempt, true, wait); });
  }

  void answered(const Attempt& attempt, bool refused, double wait) {
    const TimePoint now = moment(now_);
    if (!refused) concurrency_.succeeded(in_flight_, now);
    --in_flight_;
    rate_.settle(attempt.expected, refused ? Use{} : attempt.truth, refused, moment(attempt.began), now);
    if (refused) paused_until_ = std::max(paused_until_, now_ + wait);
    if (scenario_.announces) {
      const AnnouncedLimit limits[] = {{.unit = AnnouncedLimit::Unit::Requests,
                                        .limit = static_cast<std::int64_t>(scenario_.limit_requests),
                                        .resets_in = 6ms},
                                       {.unit = AnnouncedLimit::Unit::Tokens,
                                        .limit = static_cast<std::int64_t>(scenario_.limit_tokens),
                                        .resets_in = 40ms}};
      rate_.announced(limits, now);
    }
    dispatch();
  }

  const Scenario& scenario_;
  Provider provider_;
  std::mt19937_64 chance_;
  double end_;
  std::vector<Second> seconds_;
  GroupRate rate_;
  Attempt waiting_;
  double now_ = 0;
  double wake_ = 0;
  double paused_until_ = 0;
  Concurrency concurrency_;
  int in_flight_ = 0;
  std::uint64_t number_ = 0;
  std::priority_queue<Event> events_;
};

constexpr double kStart = 30;  // What is learned first is told apart.

// clang-format off
const Scenario kScenarios[] = {
    {.name = "announced, burst 1 s", .announces = true, .burst = 1s, .used = 0.95},
    {.name = "announced, burst 10 s", .announces = true, .burst = 10s, .used = 0.95},
    {.name = "announced, burst 60 s", .announces = true, .burst = 60s, .used = 0.95},
    {.name = "announced, minute windows", .announces = true, .burst = 0s, .used = 0.95},
    {.name = "announced, tokens limit", .announces = true, .burst = 1s, .input = 300, .output = 150, .used = 0.95},
    {.name = "announced, long answers", .announces = true, .burst = 1s, .input = 1'000, .output = 1'000, .latency = 10, .used = 0.95},
    {.name = "announced, exact hints", .announces = true, .burst = 1s, .hint = Hint::Exact, .used = 0.95},
    {.name = "announced, no hints", .announces = true, .burst = 1s, .hint = Hint::None, .used = 0.95},
    {.name = "silent, burst 1 s", .burst = 1s, .used = 0.85},
    {.name = "silent, burst 10 s", .burst = 10s, .used = 0.85},
    {.name = "silent, burst 60 s", .burst = 60s, .used = 0.85},
    {.name = "silent, minute windows", .burst = 0s, .used = 0.85},
    {.name = "silent, tokens limit", .burst = 1s, .input = 300, .output = 150, .used = 0.85},
    {.name = "silent, long answers", .burst = 1s, .input = 1'000, .output = 1'000, .latency = 10, .used = 0.85},
    {.name = "silent, exact hints", .burst = 1s, .hint = Hint::Exact, .used = 0.85},
    {.name = "silent, no hints", .burst = 1s, .hint = Hint::None, .used = 0.85},
    // Few calls tell little: here it is the pauses that keep the refusals few.
    {.name = "silent, slow, burst 2 s", .limit_requests = 30, .limit_tokens = 1e6, .burst = 2s, .used = 0.6, .refused = 0.15},
    {.name = "silent, slow, burst 60 s", .limit_requests = 30, .limit_tokens = 1e6, .burst = 60s, .used = 0.6, .refused = 0.15},
    // A burst of all who wait at the begin of each minute, and half of them refused: nothing is learned of so few.
    {.name = "silent, slow, windows", .limit_requests = 30, .limit_tokens = 1e6, .burst = 0s, .used = 0.6, .refused = 0.6},
    {.name = "silent, 600 a minute", .limit_requests = 600, .limit_tokens = 1e6, .burst = 10s, .used = 0.85, .refused = 0.02},
    {.name = "announced, halved", .announces = true, .burst = 1s, .halved_at = 300, .used = 0.85},
    {.name = "announced, windows, halved", .announces = true, .burst = 0s, .halved_at = 300, .used = 0.85},
    {.name = "silent, halved", .burst = 1s, .halved_at = 300, .used = 0.85},
    {.name = "silent, burst 60 s, halved", .burst = 60s, .halved_at = 300, .used = 0.85},
};
// clang-format on

TEST(GroupRateQuota, is_used_and_hardly_exceeded) {
  for (const Scenario& scenario : kScenarios) {
    for (unsigned seed = 1; seed <= 2; ++seed) {
      SCOPED_TRACE(std::string{scenario.name} + ", seed " + std::to_string(seed));
      World world{scenario, seed, 660};
      world.run();
      const Figures start = world.figures(0, kStart);
      const double from = scenario.halved_at > 0 ? scenario.halved_at + kStart : 60;
      const Figures then = world.figures(from, 660);
      std::printf("%-28s start: used %.3f, 429s %.4f", scenario.name, start.used, start.refused);
      if (scenario.halved_at > 0) {
        const Figures change = world.figures(scenario.halved_at, from);
        std::printf("; change: used %.3f, 429s %.4f", change.used, change.refused);
      }
      std::printf("; then: used %.3f, 429s %.4f\n", then.used, then.refused);
      EXPECT_GE(then.used, scenario.used);
      EXPECT_LT(then.refused, scenario.refused);
    }
  }
}

}  // namespace group_rate_quota_test
}  // namespace budget
