// How long calls take, and what was used day by day.

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "ledger/books_sql.h"
#include "ledger/spend_sums.h"
#include "ledger/times.h"

namespace ledger {
namespace {

constexpr int kPage = 5'000;
constexpr std::size_t kExactMost = 1'000;
constexpr std::size_t kMostGroups = 10'000;
const double kLogStep = std::log(1.015);  // Of a bucket's end over its begin.

/// The first of them are kept as they are; when there are more, all go into buckets that grow by 1.5 %, told by their
/// upper end: a timeout that is set by it is never too short.
class Spans {
 public:
  void add(std::int64_t us) {
    us = std::max<std::int64_t>(us, 0);
    most_ = std::max(most_, us);
    ++count_;
    if (buckets_.empty() && exact_.size() < kExactMost) {
      exact_.push_back(us);
      return;
    }
    for (const std::int64_t one : std::exchange(exact_, {})) ++buckets_[bucket_of(one)];
    ++buckets_[bucket_of(us)];
  }

  /// The smallest that at least this share (per mille) does not exceed, in milliseconds, rounded up.
  [[nodiscard]] std::int64_t at(std::int64_t per_mille) {
    const std::int64_t rank = std::max<std::int64_t>((count_ * per_mille + 999) / 1'000, 1);
    if (buckets_.empty()) {
      std::ranges::sort(exact_);
      return ms(exact_[static_cast<std::size_t>(rank - 1)]);
    }
    std::int64_t passed = 0;
    for (const auto& [bucket, count] : buckets_) {
      passed += count;
      if (passed < rank) continue;
      const double end = std::ceil(std::exp(kLogStep * static_cast<double>(bucket)));
      return std::min(ms(static_cast<std::int64_t>(end)), ms(most_));
    }
    return ms(most_);
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t most() const { return ms(most_); }

 private:
  static std::int64_t ms(std::int64_t us) { return us / 1'000 + (us % 1'000 > 0 ? 1 : 0); }
  static int bucket_of(std::int64_t us) {
    return us <= 1 ? 0 : static_cast<int>(std::ceil(std::log(static_cast<double>(us)) / kLogStep));
  }
  std::int64_t count_ = 0;
  std::int64_t most_ = 0;
  std::vector<std::int64_t> exact_{};
  std::map<int, std::int64_t> buckets_{};
};

}  // namespace

SqlBooks::Answer<std::vector<TimeoutLine>> SqlBooks::durations(std::int64_t since_ms) {
  return asked<std::vector<TimeoutLine>>([&] {
    std::map<std::pair<std::string, std::string>, Spans> groups;
    // Of what was given an earlier answer the span says nothing about a provider.
    Statement row{db_,
                  "SELECT model, queue, duration_us FROM calls WHERE id >= ? AND id < ? AND outcome = 'answered' AND "
                  "attempts > 0 AND duration_us IS NOT NULL AND COALESCE(once, '') NOT IN ('replayed', 'joined')"};
    for (IdPage page{{}, first_id(since_ms)}; page.end < "~";) {
      page = page_from(db_, page.end, "~", kPage);
      for (row.bind(1, page.first).bind(2, page.end); row.step();) {
        const std::pair key{std::string{row.text(0)}, std::string{row.text(1)}};
        const auto found = groups.find(key);
        if (found == groups.end() && groups.size() >= kMostGroups) continue;
        (found == groups.end() ? groups[key] : found->second).add(row.number(2));
      }
    }
    std::vector<TimeoutLine> lines;
    for (auto& [key, spans] : groups) {
      lines.push_back({key.first,
                       key.second,
                       spans.count(),
                       spans.at(500),
                       spans.at(950),
                       spans.at(990),
                       spans.at(999),
                       spans.most()});
    }
    return lines;
  });
}

SqlBooks::Answer<std::vector<UsageLine>> SqlBooks::usage(const UsageAsk& ask) {
  return asked<std::vector<UsageLine>>([&] {
    std::map<std::pair<std::string, std::string>, UsageLine> lines;
    Statement row{
        db_,
        "SELECT ended_ms, upstream, COALESCE(NULLIF(model_answered, ''), model), status, input, cached_input, "
        "COALESCE(cache_write_5m, 0) + COALESCE(cache_write_1h, 0), output, cost_nano, tokens_from, COALESCE(billed, "
        "'') <> '' "
        "FROM attempts WHERE call_id >= ? AND call_id < ? AND state <> 0 AND ended_ms >= ? AND ended_ms < ?"};
    const std::string end = ask.until_ms == INT64_MAX ? "~" : first_id(ask.until_ms);
    for (IdPage page{{}, earliest_id(ask.since_ms)}; page.end < end;) {
      page = page_from(db_, page.end, end, kPage);
      for (row.bind(1, page.first).bind(2, page.end).bind(3, ask.since_ms).bind(4, ask.until_ms); row.step();) {
        if (!ask.upstreams.empty() && std::ranges::find(ask.upstreams, row.text(1)) == ask.upstreams.end()) continue;
        UsageLine& line = lines[{day_text(row.number(0)), std::string{row.text(2)}}];
        const std::string_view from = row.text(9);
        add(line.attempts, 1);
        if (row.number(3) >= 200 && row.number(3) < 300) add(line.requests, 1);
        add(line.input, row.number(4));
        add(line.cached_input, row.number(5));
        add(line.cache_write, row.number(6));
        add(line.output, row.number(7));
        add(line.cost_nano, row.number(8));
        if (from == "unknown") add(line.unknown, 1);
        if ((!row.is_null(4) || row.number(10) != 0) && row.is_null(8)) add(line.unpriced, 1);
      }
    }
    std::vector<UsageLine> told;
    for (auto& [key, line] : lines) {
      line.day = key.first;
      line.model = key.second;
      told.push_back(std::move(line));
    }
    return told;
  });
}

}  // namespace ledger
