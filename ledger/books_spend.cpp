// What was spent, by whatever is asked for: from the sums of quarters where these can tell, else from the rows.

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "ledger/books_sql.h"
#include "ledger/spend_sums.h"
#include "ledger/times.h"

namespace ledger {
namespace {

constexpr int kPage = 5'000;                   // Calls that one reading takes in.
constexpr std::int64_t kPeriodsPage = kDayMs;  // Of sums.
constexpr std::size_t kMostGroups = 100'000;   // What one report keeps in memory.
constexpr std::string_view kLabel = "label:";
constexpr std::string_view kOthers = "(others)";
constexpr std::string_view kOfPeriods[] = {"tenant", "model", "upstream", "lane", "queue", "day", "hour"};
constexpr std::string_view kOfRows[] = {"run_id", "class"};

bool of_periods(std::string_view group) { return std::ranges::find(kOfPeriods, group) != std::end(kOfPeriods); }

std::string lane_text(std::int64_t lane) {
  const auto known = static_cast<std::int64_t>(budget::kLaneNames.size());
  return lane >= 0 && lane < known ? std::string{budget::kLaneNames[static_cast<std::size_t>(lane)]}
                                   : std::to_string(lane);
}

/// What a group's value is read from.
struct Traits {
  std::int64_t at_ms = 0;
  std::string_view tenant{}, model{}, upstream{}, queue{}, run_id{}, cls{}, labels{};
  std::int64_t lane = 0;
};

std::string label_of(std::string_view labels, std::string_view name) {
  if (labels.empty()) return {};
  const nlohmann::json parsed = nlohmann::json::parse(labels, nullptr, false);
  if (!parsed.is_object()) return {};
  const auto found = parsed.find(std::string{name});
  if (found == parsed.end()) return {};
  return found->is_string() ? found->get<std::string>()
                            : found->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

class Groups {
 public:
  explicit Groups(const SpendAsk& ask) : ask_(ask) { others_.by.assign(ask.by.size(), std::string{kOthers}); }

  SpendLine& at(const Traits& traits) {
    key_.clear();
    for (const std::string& group : ask_.by) key_.push_back(value_of(group, traits));
    const auto found = lines_.find(key_);
    if (found != lines_.end()) return found->second;
    if (lines_.size() >= kMostGroups) {
      others_.others = true;
      return others_;
    }
    SpendLine& line = lines_[key_];
    line.by = key_;
    return line;
  }

  /// Those by time in its order, all others with the dearest first.
  std::vector<SpendLine> told() {
    std::vector<SpendLine> lines;
    lines.reserve(lines_.size());
    for (auto& [key, line] : lines_) lines.push_back(std::move(line));
    const auto dearer = [](const SpendLine& a, const SpendLine& b) {
      if (a.cost_nano != b.cost_nano) return a.cost_nano > b.cost_nano;
      return a.calls != b.calls ? a.calls > b.calls : a.by < b.by;
    };
    if (lines.size() > ask_.most) {
      std::ranges::sort(lines, dearer);
      for (std::size_t i = ask_.most; i < lines.size(); ++i) add(others_, lines[i]);
      others_.others = true;
      lines.resize(ask_.most);
    }
    const bool by_time = !ask_.by.empty() && (ask_.by[0] == "day" || ask_.by[0] == "hour");
    if (by_time) {
      std::ranges::sort(lines, [&](const SpendLine& a, const SpendLine& b) {
        return a.by[0] != b.by[0] ? a.by[0] < b.by[0] : dearer(a, b);
      });
    } else {
      std::ranges::sort(lines, dearer);
    }
    if (others_.others) lines.push_back(others_);
    return lines;
  }

 private:
  [[nodiscard]] std::string value_of(const std::string& group, const Traits& traits) const {
    if (group == "tenant") return std::string{traits.tenant};
    if (group == "model") return std::string{traits.model};
    if (group == "upstream") return std::string{traits.upstream};
    if (group == "lane") return lane_text(traits.lane);
    if (group == "queue") return std::string{traits.queue};
    if (group == "run_id") return std::string{traits.run_id};
    if (group == "class") return std::string{traits.cls};
    if (group == "day") return day_text(traits.at_ms, ask_.utc_offset_minutes);
    if (group == "hour") return hour_text(traits.at_ms, ask_.utc_offset_minutes);
    return label_of(traits.labels, std::string_view{group}.substr(kLabel.size()));
  }

  const SpendAsk& ask_;
  std::vector<std::string> key_{};
  std::map<std::vector<std::string>, SpendLine> lines_{};
  SpendLine others_{};
};

void read_periods(Database& database, const SpendAsk& ask, Groups& groups) {
  const auto first = database.number("SELECT MIN(slot) FROM spend_by_period");
  const auto last = database.number("SELECT MAX(slot) FROM spend_by_period");
  if (!first || !last) return;
  Statement row{database,
                std::string{"SELECT slot, tenant, upstream, model, lane, queue, calls, answered, attempts, input, "
                            "cached_input, cache_write, output, reasoning, cost_nano, retry_nano, failed_nano, "
                            "possibly_billed, possibly_billed_nano, unknown, unpriced, estimated_nano, saved_nano "
                            "FROM spend_by_period WHERE slot >= ?1 AND slot < ?2"} +
                    (ask.tenant.empty() ? "" : " AND tenant = ?3")};
  const std::int64_t end = std::min(ask.until_ms, *last + kQuarterMs);
  for (std::int64_t at = std::max(ask.since_ms, *first); at < end; at += kPeriodsPage) {
    row.bind(1, at).bind(2, std::min(end, at + kPeriodsPage));
    if (!ask.tenant.empty()) row.bind(3, ask.tenant);
    while (row.step()) {
      Traits traits;
      traits.at_ms = row.number(0);
      traits.tenant = row.text(1);
      traits.upstream = row.text(2);
      traits.model = row.text(3);
      traits.lane = row.number(4);
      traits.queue = row.text(5);
      constexpr std::int64_t SpendLine::*kColumns[] = {
          &SpendLine::calls,
          &SpendLine::answered,
          &SpendLine::attempts,
          &SpendLine::input,
          &SpendLine::cached_input,
          &SpendLine::cache_write,
          &SpendLine::output,
          &SpendLine::reasoning,
          &SpendLine::cost_nano,
          &SpendLine::retry_nano,
          &SpendLine::failed_nano,
          &SpendLine::possibly_billed,
          &SpendLine::possibly_billed_nano,
          &SpendLine::unknown,
          &SpendLine::unpriced,
          &SpendLine::estimated_nano,
          &SpendLine::saved_nano,
      };
      SpendLine& line = groups.at(traits);
      for (std::size_t i = 0; i < std::size(kColumns); ++i)
        add(line.*kColumns[i], row.number(static_cast<int>(i) + 6));
    }
  }
}

struct CallTraits {
  std::string id{}, tenant{}, upstream{}, model{}, queue{}, run_id{}, cls{}, labels{};
  std::int64_t lane = 0;
  [[nodiscard]] Traits at(std::int64_t ms) const {
    return {ms, tenant, model, upstream, queue, run_id, cls, labels, lane};
  }
};

void read_rows(Database& database, const SpendAsk& ask, Groups& groups) {
  Statement call{
      database,
      std::string{"SELECT id, tenant, lane, queue, run_id, labels, upstream, model, class, outcome, state, "
                  "ended_ms, saved_nano FROM calls WHERE id >= ?1 AND id < ?2 AND (ended_ms IS NULL OR "
                  "ended_ms >= ?3)"} +
          (ask.tenant.empty() ? "" : " AND tenant = ?4") + " ORDER BY id"};
  Statement attempt{database,
                    "SELECT call_id, number, state, ended_ms, upstream, model, class, possibly_billed, tokens_from, "
                    "cost_source, input, cached_input, COALESCE(cache_write_5m, 0) + COALESCE(cache_write_1h, 0), "
                    "output, reasoning, cost_nano, charged_nano, COALESCE(billed, '') <> '' FROM attempts WHERE "
                    "call_id >= ?1 AND call_id < ?2 "
                    "ORDER BY call_id, number DESC"};
  const auto within = [&](std::int64_t ms) { return ms >= ask.since_ms && ms < ask.until_ms; };
  const auto read = [&](const IdPage& page) {
    const Transaction snapshot{database, Transaction::Kind::Read};
    call.bind(1, page.first).bind(2, page.end).bind(3, ask.since_ms);
    if (!ask.tenant.empty()) call.bind(4, ask.tenant);
    attempt.bind(1, page.first).bind(2, page.end);
    bool there = attempt.step();
    while (call.step()) {
      CallTraits traits;
      traits.id = call.text(0);
      traits.tenant = call.text(1);
      traits.lane = call.number(2);
      traits.queue = call.text(3);
      traits.run_id = call.text(4);
      traits.labels = call.text(5);
      traits.upstream = call.text(6);
      traits.model = call.text(7);
      traits.cls = call.text(8);
      const bool answered = call.text(9) == "answered";
      const bool ended = call.number(10) != 0;
      const auto call_ended = call.maybe_number(11);
      const std::int64_t saved = call.number(12);
      while (there && attempt.text(0) < traits.id) there = attempt.step();
      bool followed = false;
      std::string last_upstream = traits.upstream;
      std::string last_model = traits.model;
      for (; there && attempt.text(0) == traits.id; there = attempt.step()) {
        const auto ended_ms = attempt.maybe_number(3);
        const bool last = !std::exchange(followed, true);
        if (last) {
          // A call counts where its last attempt went.
          last_upstream = attempt.text(4);
          last_model = attempt.text(5);
        }
        if (attempt.number(2) == 0 || !ended_ms || !within(*ended_ms)) continue;
        CallTraits own = traits;
        own.upstream = attempt.text(4);
        own.model = attempt.text(5);
        own.cls = attempt.text(6);
        AttemptSpend spend;
        spend.followed = !last;
        spend.call_answered = answered || !ended;
        spend.possibly_billed = attempt.number(7) != 0;
        const std::string tokens_from{attempt.text(8)};
        const std::string cost_source{attempt.text(9)};
        spend.tokens_from = tokens_from;
        spend.cost_source = cost_source;
        spend.input = attempt.number(10);
        spend.cached_input = attempt.number(11);
        spend.cache_write = attempt.number(12);
        spend.output = attempt.number(13);
        spend.reasoning = attempt.number(14);
        spend.cost_nano = attempt.maybe_number(15);
        spend.charged_nano = attempt.maybe_number(16);
        spend.used = !attempt.is_null(10) || attempt.number(17) != 0;
        add(groups.at(own.at(*ended_ms)), spend);
      }
      if (!ended || !call_ended || !within(*call_ended)) continue;
      traits.upstream = last_upstream;
      traits.model = last_model;
      SpendLine& line = groups.at(traits.at(*call_ended));
      add(line.calls, 1);
      if (answered) add(line.answered, 1);
      add(line.saved_nano, saved);
    }
    attempt.reset();
  };
  const std::string earliest = earliest_id(ask.since_ms);
  std::vector<std::string> found_late;
  Statement late{database, "SELECT id FROM calls WHERE state = 2 AND id < ? AND ended_ms >= ?"};
  for (late.bind(1, earliest).bind(2, ask.since_ms); late.step();) found_late.emplace_back(late.text(0));
  for (const std::string& id : found_late) read({id, id + "!"});
  const std::string end = ask.until_ms == INT64_MAX ? "~" : first_id(ask.until_ms);
  for (IdPage page{{}, earliest}; page.end < end;) {
    page = page_from(database, page.end, end, kPage);
    read(page);
  }
}

}  // namespace

SpendAsk in_quarters(SpendAsk ask) {
  ask.since_ms = floor_to(std::max<std::int64_t>(ask.since_ms, 0), kQuarterMs);
  if (ask.until_ms < INT64_MAX - kQuarterMs) ask.until_ms = floor_to(ask.until_ms + kQuarterMs - 1, kQuarterMs);
  return ask;
}

std::optional<std::string> unknown_group(const SpendAsk& ask) {
  for (const std::string& group : ask.by) {
    const bool label = group.starts_with(kLabel) && group.size() > kLabel.size();
    if (!label && !of_periods(group) && std::ranges::find(kOfRows, group) == std::end(kOfRows)) return group;
  }
  return std::nullopt;
}

bool needs_rows(const SpendAsk& ask) { return !std::ranges::all_of(ask.by, of_periods); }

SpendLine total_of(const std::vector<SpendLine>& lines) {
  SpendLine total;
  for (const SpendLine& line : lines) add(total, line);
  return total;
}

SqlBooks::Answer<std::vector<SpendLine>> SqlBooks::spend(const SpendAsk& unrounded) {
  return asked<std::vector<SpendLine>>([&]() -> Answer<std::vector<SpendLine>> {
    const SpendAsk ask = in_quarters(unrounded);
    if (const auto group = unknown_group(ask)) return std::unexpected("spend cannot be asked for by " + *group);
    Groups groups{ask};
    if (needs_rows(ask)) {
      read_rows(db_, ask, groups);
    } else {
      read_periods(db_, ask, groups);
    }
    return groups.told();
  });
}

}  // namespace ledger
