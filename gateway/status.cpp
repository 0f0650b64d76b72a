#include "gateway/status.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "budget/price.h"
#include "gateway/json_out.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

std::string dumped(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

std::string text_of(WallTime time) {
  std::string text;
  append_time(text, time);
  return text;
}

/// Null: not paused; its end null: until somebody resumes it.
Json pause_of(const std::optional<TimePoint>& until, TimePoint now) {
  if (!until) return {};
  if (*until == TimePoint::max()) return {{"ends_ms", nullptr}};
  return {{"ends_ms", std::max<std::int64_t>(0, std::chrono::ceil<milliseconds>(*until - now).count())}};
}

/// Null: no limit.
Json limit_of(std::int64_t limit) { return limit > 0 ? Json(limit) : Json(); }

Json rates_of(const budget::RateLimits& rates) {
  return {{"requests_per_minute", limit_of(rates.requests)},
          {"tokens_per_minute", limit_of(rates.tokens)},
          {"input_tokens_per_minute", limit_of(rates.input_tokens)},
          {"output_tokens_per_minute", limit_of(rates.output_tokens)}};
}

Json budgets_of(const StatusSnapshot& snapshot) {
  Json all = Json::array();
  for (const budget::BudgetState& one : snapshot.budgets) {
    all.push_back({{"tenant", one.tenant},
                   {"period", budget::name_of(one.period)},
                   {"run_id", one.run_id.empty() ? Json() : Json(one.run_id)},
                   {"limit_usd", budget::usd_text(one.limit)},
                   {"granted_usd", budget::usd_text(one.granted)},
                   {"spent_usd", budget::usd_text(one.spent)},
                   {"held_usd", budget::usd_text(one.held)},
                   {"resets_at", one.resets ? Json(text_of(*one.resets)) : Json()}});
  }
  return all;
}

Json tenants_of(const StatusSnapshot& snapshot) {
  Json all = Json::array();
  for (const budget::TenantState& one : snapshot.tenants) {
    all.push_back(
        {{"name", one.name},
         {"weight", one.policy.weight},
         {"waiting", {{"interactive", one.waiting[0]}, {"bulk", one.waiting[1]}, {"backfill", one.waiting[2]}}},
         {"in_flight", one.in_flight},
         {"concurrent", limit_of(one.policy.concurrent)},
         {"requests_per_minute", limit_of(one.policy.rates.requests)},
         {"tokens_per_minute", limit_of(one.policy.rates.tokens)},
         {"paused", pause_of(one.paused_until, snapshot.now)}});
  }
  return all;
}

Json upstreams_of(const StatusSnapshot& snapshot) {
  Json all = Json::array();
  for (const budget::UpstreamLoad& one : snapshot.upstreams) {
    Json groups = Json::array();
    for (const auto& group : one.groups) {
      Json told{{"credential", group.configured ? group.credential : "caller"}, {"group", group.group}};
      told.update(rates_of(group.effective));
      told["share"] = group.share;
      groups.push_back(std::move(told));
    }
    all.push_back({{"name", one.name},
                   {"in_flight", one.in_flight},
                   {"concurrent", limit_of(one.limit)},
                   {"paused", pause_of(one.paused_until, snapshot.now)},
                   {"rates", std::move(groups)}});
  }
  return all;
}

Json queues_of(const StatusSnapshot& snapshot) {
  Json all = Json::array();
  for (const QueueState& one : snapshot.queues) {
    all.push_back({{"name", one.name},
                   {"waiting", one.waiting},
                   {"scheduled", one.scheduled},
                   {"running", one.running},
                   {"paused", pause_of(one.paused_until, snapshot.now)}});
  }
  return all;
}

}  // namespace

std::string status_json(const StatusSnapshot& snapshot) {
  Json lanes = Json::array();
  for (const budget::LaneState& one : snapshot.lanes) {
    lanes.push_back({{"name", budget::name_of(one.lane)},
                     {"waiting", one.waiting},
                     {"paused", pause_of(one.paused_until, snapshot.now)}});
  }
  Json held = Json::object();
  for (std::size_t i = 0; i < snapshot.held.size(); ++i) {
    if (snapshot.held[i] > 0) held[std::string{budget::name_of(static_cast<budget::Limit>(i))}] = snapshot.held[i];
  }
  Json calls = Json::array();
  for (const LiveCall& one : snapshot.calls) {
    calls.push_back({{"call_id", one.id},
                     {"tenant", one.tenant},
                     {"lane", budget::name_of(one.lane)},
                     {"run_id", one.run_id.empty() ? Json() : Json(one.run_id)},
                     {"route", one.route},
                     {"model", one.model},
                     {"age_ms", std::chrono::floor<milliseconds>(snapshot.now - one.since).count()},
                     {"state", one.upstream.empty() ? "waiting" : "in_flight"},
                     {"upstream", one.upstream.empty() ? Json() : Json(one.upstream)},
                     {"attempt", one.attempt}});
  }
  return dumped({{"tenants", tenants_of(snapshot)},
                 {"lanes", std::move(lanes)},
                 {"waiting_for", std::move(held)},
                 {"upstreams", upstreams_of(snapshot)},
                 {"queues", queues_of(snapshot)},
                 {"budgets", budgets_of(snapshot)},
                 {"calls", std::move(calls)},
                 {"calls_in_all", snapshot.calls_in_all}});
}

std::string budgets_json(const StatusSnapshot& snapshot) { return dumped({{"budgets", budgets_of(snapshot)}}); }

}  // namespace gateway
