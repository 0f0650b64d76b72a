#include "ledger/rerate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "budget/rating.h"
#include "ledger/billed_names.h"
#include "ledger/books_sql.h"
#include "ledger/file.h"
#include "ledger/schema.h"
#include "ledger/spend_sums.h"
#include "ledger/times.h"

namespace ledger {
namespace {

constexpr int kPage = 500;  // Calls of one transaction.

void read_billed(const std::string& json, classifier::Usage& into) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return;
  for (const BilledName& one : kBilledNames) {
    const auto found = parsed.find(std::string{one.name});
    if (found != parsed.end() && found->is_number_integer()) into.billed.*one.member = found->get<std::int64_t>();
  }
  const auto beside = parsed.find("stated_beside_usd");
  if (beside != parsed.end() && beside->is_string()) into.stated_beside_usd = beside->get<std::string>();
}

bool estimated(std::string_view source) { return source == "fallback" || source == "table_plain"; }

/// A line of spend_by_period, by its key.
struct SlotKey {
  std::int64_t slot = 0;
  std::string tenant{}, upstream{}, model{};
  std::int64_t lane = 0;
  std::string queue{};
  auto operator<=>(const SlotKey&) const = default;
};
struct Change {
  std::int64_t cost = 0, retry = 0, failed = 0, unpriced = 0, estimated = 0;
};

struct Rerated {
  std::string call_id{};
  int number = 0;
  budget::Rated rated{};
};

class Rerating {
 public:
  Rerating(Database& database, const RerateAsk& ask)
      : database_(database),
        ask_(ask),
        calls_(database,
               "SELECT id, tenant, lane, queue, outcome, state FROM calls WHERE id >= ? AND id < ? ORDER BY id"),
        attempts_(database,
                  "SELECT " + attempt_columns() +
                      ", call_id FROM attempts WHERE call_id >= ? AND call_id < ? ORDER BY call_id, number DESC") {}

  void page(const IdPage& page) {
    changes_.clear();
    rerated_.clear();
    std::optional<Transaction> transaction;
    transaction.emplace(database_, ask_.apply ? Transaction::Kind::Write : Transaction::Kind::Read);
    look(page);
    if (!ask_.apply || rerated_.empty()) return;
    write();
    transaction->commit();
  }
  [[nodiscard]] std::vector<RerateLine> lines() && {
    std::vector<RerateLine> out;
    for (auto& [key, line] : lines_) out.push_back(std::move(line));
    return out;
  }

 private:
  void look(const IdPage& page) {
    const int id_column = attempts_.columns() - 1;
    attempts_.bind(1, page.first).bind(2, page.end);
    bool there = attempts_.step();
    for (calls_.bind(1, page.first).bind(2, page.end); calls_.step();) {
      const std::string id{calls_.text(0)};
      SlotKey key;
      key.tenant = calls_.text(1);
      key.lane = calls_.number(2);
      key.queue = calls_.text(3);
      const bool failed = calls_.number(5) != 0 && calls_.text(4) != "answered";
      while (there && attempts_.text(id_column) < id) there = attempts_.step();
      bool followed = false;
      for (; there && attempts_.text(id_column) == id; there = attempts_.step()) {
        const AttemptDetail attempt = attempt_of(attempts_);
        const bool last = !std::exchange(followed, true);
        const bool within =
            attempt.ended_ms && *attempt.ended_ms >= ask_.since_ms && *attempt.ended_ms < ask_.until_ms;
        if (attempt.state == RowState::Ended && within) rate(id, key, attempt, !last, failed);
      }
    }
    attempts_.reset();
  }

  void rate(const std::string& id, SlotKey key, const AttemptDetail& attempt, bool followed, bool failed) {
    classifier::Usage usage;
    usage.tokens = attempt.tokens;
    read_billed(attempt.billed, usage);
    usage.stated_usd = attempt.stated_usd;
    usage.service_tier = attempt.service_tier;
    usage.speed = attempt.speed;
    usage.inference_geo = attempt.inference_geo;
    // Of counts that are none, nothing but this was written.
    usage.tokens_unknown = !usage.tokens && attempt.tokens_from == "unknown" && !attempt.billed.empty();
    const bool used = usage.tokens || !attempt.billed.empty();
    if (!used && usage.stated_usd.empty()) return;
    const std::string provider = ask_.provider_of(attempt.upstream);
    const std::string region = ask_.region_of(attempt.upstream);
    const std::string& model = attempt.model_answered.empty() ? attempt.model : attempt.model_answered;
    const std::chrono::sys_time<std::chrono::milliseconds> at{std::chrono::milliseconds{*attempt.ended_ms}};
    const budget::Sought sought{
        .provider = provider, .model = model, .day = std::chrono::floor<std::chrono::days>(at)};
    budget::Rated rated = budget::rate(ask_.book, ask_.fallback, sought, region, usage);

    RerateLine& line = lines_[{attempt.upstream, model}];
    line.upstream = attempt.upstream;
    line.model = model;
    const std::int64_t before = attempt.cost_nano.value_or(0);
    const std::int64_t after = rated.cost.value_or(budget::NanoUsd{}).value;
    add(line.attempts, 1);
    add(line.before_nano, before);
    add(line.after_nano, after);
    if (!attempt.cost_nano) add(line.unpriced_before, 1);
    if (!rated.cost) add(line.unpriced_after, 1);
    const bool same_cost = attempt.cost_nano.has_value() == rated.cost.has_value() && before == after;
    if (same_cost && attempt.cost_source == rated.source && attempt.cost_tier == rated.tier &&
        attempt.prices == rated.prices) {
      return;
    }
    if (!same_cost || attempt.cost_source != rated.source) add(line.changed, 1);
    key.slot = floor_to(*attempt.ended_ms, kQuarterMs);
    key.upstream = attempt.upstream;
    key.model = attempt.model;
    Change& change = changes_[key];
    const std::int64_t more = after - before;
    change.cost += more;
    if (followed) change.retry += more;
    if (failed) change.failed += more;
    if (used) change.unpriced += (rated.cost ? 0 : 1) - (attempt.cost_nano ? 0 : 1);
    change.estimated += (estimated(rated.source) ? after : 0) - (estimated(attempt.cost_source) ? before : 0);
    rerated_.push_back({id, attempt.number, std::move(rated)});
  }

  void write() {
    Statement attempt{
        database_,
        "UPDATE attempts SET cost_nano = ?, cost_source = ?, cost_tier = ?, prices = ? WHERE call_id = ? "
        "AND number = ?"};
    const auto text = [](std::string_view value) {
      return value.empty() ? std::optional<std::string_view>{} : std::optional{value};
    };
    for (const Rerated& one : rerated_) {
      attempt.bind(1, one.rated.cost ? std::optional{one.rated.cost->value} : std::nullopt);
      attempt.bind(2, text(one.rated.source)).bind(3, text(one.rated.tier)).bind(4, text(one.rated.prices));
      attempt.bind(5, one.call_id).bind(6, one.number).run();
    }
    Statement call{
        database_,
        "UPDATE calls SET cost_nano = (SELECT SUM(cost_nano) FROM attempts WHERE call_id = id) WHERE id = ? "
        "AND state <> 0"};
    std::string last;
    for (const Rerated& one : rerated_) {
      if (std::exchange(last, one.call_id) != one.call_id) call.bind(1, one.call_id).run();
    }
    Statement slot{database_,
                   "UPDATE spend_by_period SET cost_nano = cost_nano + ?, retry_nano = retry_nano + ?, failed_nano = "
                   "failed_nano + ?, unpriced = unpriced + ?, estimated_nano = estimated_nano + ? WHERE slot = ? AND "
                   "tenant = ? AND upstream = ? AND model = ? AND lane = ? AND queue = ?"};
    for (const auto& [key, change] : changes_) {
      slot.bind(1, change.cost).bind(2, change.retry).bind(3, change.failed).bind(4, change.unpriced);
      slot.bind(5, change.estimated).bind(6, key.slot).bind(7, key.tenant).bind(8, key.upstream).bind(9, key.model);
      slot.bind(10, key.lane).bind(11, key.queue).run();
    }
  }

  Database& database_;
  const RerateAsk& ask_;
  Statement calls_;
  Statement attempts_;
  std::map<std::pair<std::string, std::string>, RerateLine> lines_{};
  std::map<SlotKey, Change> changes_{};
  std::vector<Rerated> rerated_{};
};

}  // namespace

std::expected<std::vector<RerateLine>, std::string> rerate(const std::string& path, const RerateAsk& ask) {
  // It says why a file cannot be read, and looks before anything is touched.
  if (const auto readable = open_books(path); !readable) return std::unexpected(readable.error());
  std::optional<FileLock> lock;
  if (ask.apply) {
    auto taken = FileLock::take(path);
    if (!taken && taken.error().kind == Problem::Kind::InUse) {
      return std::unexpected(path +
                             ": a running callgate works with it; stop that one first, or try without applying");
    }
    if (!taken) return std::unexpected(taken.error().text);
    lock.emplace(std::move(*taken));
  }
  try {
    Database database{path, ask.apply ? Database::Open::Write : Database::Open::Read};
    Rerating rerating{database, ask};
    const std::string end = ask.until_ms == INT64_MAX ? "~" : first_id(ask.until_ms);
    for (IdPage page{{}, earliest_id(ask.since_ms)}; page.end < end;) {
      page = page_from(database, page.end, end, kPage);
      rerating.page(page);
    }
    return std::move(rerating).lines();
  } catch (const SqlError& error) {
    return std::unexpected(path + ": " + error.what() +
                           (ask.apply ? "; what was written before is whole, and it may be begun again" : ""));
  }
}

}  // namespace ledger
