#include "gateway/store_start.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <future>
#include <optional>
#include <stdexcept>
#include <utility>

#include "gateway/config_files.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kMemory = ":memory:";
constexpr std::size_t kMostRuns = 100'000;
constexpr std::chrono::hours kLongestMonth{24 * 32};

ledger::StoreOptions options_of(const Config& config, const Environment& environment) {
  using Payloads = Config::Store::Payloads;
  ledger::StoreOptions options;
  options.path = config.store.path;
  options.commit = config.store.disk ? ledger::Commit::Disk : ledger::Commit::Process;
  options.retention = retention_of(config.store);
  options.letters_bytes = config.dead_letters_bytes;
  options.answers_for = config.idempotency.ttl;
  options.answers_bytes = config.idempotency.max_bytes;
  options.set_aside_if_broken = !config.store.refuse;
  options.now = [] { return std::chrono::system_clock::now(); };
  if (config.store.payloads == Payloads::Plain) options.payloads = ledger::Payloads::Plain;
  if (config.store.payloads != Payloads::Auto || !config.store.payload_key.given()) return options;
  const auto keys = read_payload_keys(config.store.payload_key, environment);
  if (!keys) throw std::runtime_error("store.payload_key " + keys.error());
  options.payloads = ledger::Payloads::Encrypted;
  options.payload_key = keys->front();
  options.old_payload_keys.assign(keys->begin() + 1, keys->end());
  return options;
}

/// Asks the reader's thread and waits for it.
template <typename T>
ledger::Books::Answer<T> ask(ledger::Store& store, std::function<ledger::Books::Answer<T>(ledger::Books&)> question,
                             milliseconds patience) {
  auto answer = std::make_shared<std::promise<ledger::Books::Answer<T>>>();
  std::future<ledger::Books::Answer<T>> told = answer->get_future();
  store.read([answer, question = std::move(question)](ledger::Books& books) { answer->set_value(question(books)); });
  if (told.wait_for(patience) != std::future_status::ready)
    return std::unexpected{std::string{"the store did not answer in time"}};
  return told.get();
}

WallTime moment(std::int64_t ms) { return WallTime{milliseconds{ms}}; }
std::int64_t ms_of(WallTime when) { return std::chrono::floor<milliseconds>(when).time_since_epoch().count(); }

std::optional<budget::Pausable> pausable_named(std::string_view name) {
  using budget::Pausable;
  for (const Pausable one : budget::kPausables) {
    if (budget::name_of(one) == name) return one;
  }
  return std::nullopt;
}

std::optional<budget::Period> period_named(std::string_view name) {
  using budget::Period;
  for (const Period one : {Period::Day, Period::Month, Period::Run}) {
    if (budget::name_of(one) == name) return one;
  }
  return std::nullopt;
}

const budget::SpendLimits* limits_of(const Config& config, std::string_view tenant) {
  const auto found = std::ranges::find(config.tenants, tenant, &TenantConfig::name);
  return found == config.tenants.end() ? nullptr : &found->budget;
}

}  // namespace

ledger::Retention retention_of(const Config::Store& store) {
  return {.calls = store.keep_calls,
          .events = store.keep_events,
          .dead_letters = store.keep_dead_letters,
          .runs = store.keep_runs};
}

std::unique_ptr<ledger::Store> open_store(const Config& config, const Environment& environment) {
  ledger::StoreOptions options = options_of(config, environment);
  auto store = ledger::Store::open(options);
  if (!store) {
    using Kind = ledger::Problem::Kind;
    const ledger::Problem& problem = store.error();
    if (config.store.refuse || problem.kind == Kind::Newer || problem.kind == Kind::InUse)
      throw std::runtime_error(problem.text);
    options.stands_in_for = std::exchange(options.path, std::string{kMemory});
    options.stands_in_because = problem.text;
    store = ledger::Store::open(std::move(options));
    if (!store) throw std::runtime_error(store.error().text);
  }
  return std::move(*store);
}

std::string restore_pauses(
    ledger::Store& store, Runtime& runtime,
    const std::function<void(budget::Pausable what, const std::string& name, TimePoint until)>& pause) {
  const WallTime wall = runtime.wall_now();
  const auto pauses = ask<std::vector<ledger::PauseRow>>(
      store, [now = ms_of(wall)](ledger::Books& books) { return books.pauses(now); }, kAtStart);
  if (!pauses) return pauses.error();
  for (const ledger::PauseRow& row : *pauses) {
    const auto what = pausable_named(row.what);
    if (!what) continue;
    TimePoint until = TimePoint::max();
    if (row.until_ms) until = runtime.now() + (moment(*row.until_ms) - wall);
    pause(*what, row.name, until);
  }
  return {};
}

MoneyToRestore money_to_restore(const Config* before, const Config& now, DispatchAdmission& admission) {
  MoneyToRestore wanted;
  for (const TenantConfig& tenant : now.tenants) {
    const budget::SpendLimits* held = before ? limits_of(*before, tenant.name) : nullptr;
    if (is_limited(tenant.budget) && !admission.counts_money_of(tenant.name)) wanted.tenants.insert(tenant.name);
    if (tenant.budget.per_run && (!held || !held->per_run)) wanted.runs.insert(tenant.name);
  }
  return wanted;
}

std::string restore_money(ledger::Store& store, DispatchAdmission& admission, Runtime& runtime,
                          const MoneyToRestore& wanted, milliseconds patience) {
  if (wanted.tenants.empty() && wanted.runs.empty()) return {};
  // What was told to the store is in its books then.
  if (!store.flush(patience)) return "the store could not write in time what it was told";
  struct Found {
    std::vector<ledger::GrantRow> grants{};
    std::vector<ledger::ChargedRow> charged{};
    std::vector<ledger::ChargedRun> runs{};
  };
  const std::int64_t since = ms_of(runtime.wall_now() - kLongestMonth);
  const auto found = ask<Found>(
      store,
      [since](ledger::Books& books) -> ledger::Books::Answer<Found> {
        auto grants = books.grants_since(since);
        if (!grants) return std::unexpected{grants.error()};
        auto charged = books.charged_since(since);
        if (!charged) return std::unexpected{charged.error()};
        auto runs = books.charged_runs(kMostRuns);
        if (!runs) return std::unexpected{runs.error()};
        return Found{std::move(*grants), std::move(*charged), std::move(*runs)};
      },
      patience);
  if (!found) return found.error();

  std::vector<MoneyBefore> before;
  const auto counts = [&](const std::string& tenant, const std::string& run_id) {
    return wanted.runs.contains(tenant) && !admission.counts_money_of(tenant, run_id);
  };
  // Grants first, or what was spent would seem to pass a limit.
  for (const ledger::GrantRow& row : found->grants) {
    const auto period = period_named(row.period);
    if (!period) continue;
    const bool of_run = period == budget::Period::Run;
    if (of_run ? !counts(row.tenant, row.run_id) : !wanted.tenants.contains(row.tenant)) continue;
    before.push_back({.tenant = row.tenant,
                      .run_id = row.run_id,
                      .when = moment(row.at_ms),
                      .granted = budget::NanoUsd{row.amount_nano},
                      .period = *period});
  }
  for (const ledger::ChargedRow& row : found->charged) {
    if (wanted.tenants.contains(row.tenant))
      before.push_back({.tenant = row.tenant, .when = moment(row.slot_ms), .spent = {row.charged_nano}});
  }
  // The latest one comes last, as if they had been used in that order.
  for (auto row = found->runs.rbegin(); row != found->runs.rend(); ++row) {
    if (counts(row->tenant, row->run_id))
      before.push_back({.tenant = row->tenant, .run_id = row->run_id, .spent = {row->charged_nano}});
  }
  admission.restore(before);
  return {};
}

}  // namespace gateway
