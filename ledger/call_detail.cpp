#include "ledger/call_detail.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>

#include "budget/price.h"
#include "ledger/rows.h"
#include "ledger/times.h"

namespace ledger {
namespace {

using Json = nlohmann::ordered_json;

std::optional<std::int64_t> ms_or_none(std::chrono::system_clock::time_point at) {
  return at == std::chrono::system_clock::time_point{} ? std::nullopt : std::optional{ms_of(at)};
}
std::optional<std::int64_t> nano(const std::optional<budget::NanoUsd>& amount) {
  return amount ? std::optional{amount->value} : std::nullopt;
}

Json text(const std::string& value) { return value.empty() ? Json() : Json(value); }
Json time(const std::optional<std::int64_t>& ms) { return ms ? Json(time_text(*ms)) : Json(); }
Json usd(const std::optional<std::int64_t>& amount) {
  return amount ? Json(budget::usd_text(budget::NanoUsd{*amount})) : Json();
}
Json ms_of_us(const std::optional<std::int64_t>& us) { return us ? Json(*us / 1'000) : Json(); }
Json number(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

/// What somebody else put into a column must not break the line.
Json object(const std::string& json) {
  Json parsed = Json::parse(json, nullptr, false);
  return parsed.is_object() ? parsed : Json::object();
}

Json json_of(const AttemptDetail& row, const CallDetail& call) {
  Json out;
  out["number"] = row.number;
  out["state"] = name_of(row.state);
  out["began_at"] = time_text(row.began_ms);
  out["ended_at"] = time(row.ended_ms);
  out["upstream"] = row.upstream;
  out["credential"] = text(row.credential);
  out["model"] = row.model == call.model ? Json() : text(row.model);
  out["model_answered"] = text(row.model_answered);
  out["status"] = row.status == 0 ? Json() : Json(row.status);
  out["class"] = text(row.cls);
  out["code"] = text(row.code);
  out["rule"] = text(row.rule);
  out["detail"] = text(row.detail);
  out["fingerprint"] = text(row.fingerprint);
  out["hint_ms"] = number(row.hint_ms);
  out["wait_ms"] = row.waited_before_ms;
  out["waited_for"] = text(row.waited_for);
  out["ms"] = ms_of_us(row.took_us);
  out["possibly_billed"] = row.possibly_billed;
  out["tokens"] = Json();
  if (row.tokens) {
    out["tokens"] = {{"input", row.tokens->input},
                     {"cached_input", row.tokens->cached_input},
                     {"cache_write_5m", row.tokens->cache_write_5m},
                     {"cache_write_1h", row.tokens->cache_write_1h},
                     {"output", row.tokens->output},
                     {"reasoning", row.tokens->reasoning}};
  }
  out["tokens_from"] = text(row.tokens_from);
  out["billed"] = object(row.billed);
  out["service_tier"] = text(row.service_tier);
  out["speed"] = text(row.speed);
  out["inference_geo"] = text(row.inference_geo);
  out["cost_usd"] = usd(row.cost_nano);
  out["cost_source"] = text(row.cost_source);
  out["cost_tier"] = text(row.cost_tier);
  out["prices"] = text(row.prices);
  out["stated_usd"] = text(row.stated_usd);
  out["reserved_usd"] = usd(row.reserved_nano);
  out["charged_usd"] = usd(row.charged_nano);
  out["provider_request_id"] = text(row.provider_request_id);
  out["next"] = text(row.next);
  return out;
}

AttemptDetail detail_of(const AttemptRow& row, const CallRecord& record) {
  AttemptDetail out;
  out.number = row.number;
  out.began_ms = ms_of(row.began);
  out.ended_ms = ms_or_none(row.ended);
  out.upstream = row.upstream;
  out.credential = row.credential;
  out.model = row.model.empty() ? record.model : row.model;
  out.model_answered = row.usage.model;
  out.status = row.status;
  out.cls = classifier::name_of(row.cls);
  out.code = row.code;
  out.rule = row.rule;
  out.detail = row.detail;
  out.fingerprint = row.fingerprint;
  if (row.hint) out.hint_ms = row.hint->count();
  out.waited_before_ms = row.waited_before.count();
  out.waited_for = name_of(row.waited_for);
  out.took_us = row.took.count();
  out.possibly_billed = row.possibly_billed;
  out.tokens = row.usage.tokens;
  out.tokens_from = tokens_from(record, row);
  out.billed = billed_json(row.usage);
  out.stated_usd = row.usage.stated_usd;
  out.service_tier = row.usage.service_tier;
  out.speed = row.usage.speed;
  out.inference_geo = row.usage.inference_geo;
  out.cost_nano = nano(row.cost);
  out.cost_source = row.cost_source;
  out.cost_tier = row.cost_tier;
  out.prices = row.prices;
  out.charged_nano = nano(row.charged);
  out.provider_request_id = row.provider_request_id;
  out.next = row.next;
  return out;
}

}  // namespace

std::string_view name_of(RowState state) {
  constexpr std::array<std::string_view, 3> kNames{"open", "ended", "unknown"};
  return kNames[static_cast<std::size_t>(state)];
}

CallDetail detail_of(const CallRecord& record) {
  CallDetail out;
  out.id = record.id;
  out.began_ms = ms_of(record.began);
  out.ended_ms = ms_or_none(record.ended);
  out.tenant = record.tenant;
  out.lane = budget::name_of(record.lane);
  out.run_id = record.run_id;
  out.queue = record.queue;
  out.labels = record.labels;
  out.route = record.route;
  out.upstream = record.upstream;
  out.dialect = record.dialect;
  out.operation = record.operation;
  out.method = record.method;
  out.path = record.path;
  out.model = record.model;
  out.stream = record.stream;
  out.sdk_retry = record.sdk_retry;
  out.idempotency_key = record.idempotency_key;
  out.once = record.once;
  out.origin = record.origin;
  out.saved_nano = nano(record.saved);
  out.outcome = name_of(record.outcome);
  out.cls = classifier::name_of(record.cls);
  out.reason = record.reason;
  out.limit = record.limit;
  out.status = record.status;
  out.waits = waits_json(record.waits);
  if (record.first_content) out.first_content_us = record.first_content->count();
  out.duration_us = record.duration.count();
  out.bytes_in = static_cast<std::int64_t>(record.bytes_in);
  out.bytes_out = static_cast<std::int64_t>(record.bytes_out);
  out.cost_nano = nano(record.cost);
  for (const AttemptRow& row : record.attempts) out.attempts.push_back(detail_of(row, record));
  return out;
}

std::string json_of(const CallDetail& call) {
  Json out;
  out["call_id"] = call.id;
  out["state"] = name_of(call.state);
  out["began_at"] = time_text(call.began_ms);
  out["ended_at"] = time(call.ended_ms);
  out["tenant"] = call.tenant;
  out["lane"] = call.lane;
  out["run_id"] = text(call.run_id);
  out["queue"] = text(call.queue);
  out["labels"] = object(call.labels);
  out["route"] = call.route;
  out["upstream"] = call.upstream;
  out["dialect"] = text(call.dialect);
  out["operation"] = text(call.operation);
  out["method"] = call.method;
  out["path"] = call.path;
  out["model"] = text(call.model);
  out["stream"] = call.stream;
  out["sdk_retry"] = call.sdk_retry;
  out["idempotency_key"] = text(call.idempotency_key);
  out["once"] = text(call.once);
  out["origin"] = text(call.origin);
  out["saved_usd"] = usd(call.saved_nano);
  out["outcome"] = text(call.outcome);
  out["status"] = call.status == 0 ? Json() : Json(call.status);
  out["class"] = text(call.cls);
  out["reason"] = text(call.reason);
  // Waits do not overlap; what was slept out before an attempt is among them.
  std::int64_t waited_us = 0;
  Json waits = Json::object();
  const Json told = object(call.waits);
  for (const auto& [kind, us] : told.items()) {
    if (!us.is_number_integer()) continue;
    waited_us += us.get<std::int64_t>();
    waits[kind] = us.get<std::int64_t>() / 1'000;
  }
  std::int64_t slept_ms = 0;
  for (const AttemptDetail& row : call.attempts) slept_ms += row.waited_before_ms;
  out["queue_ms"] = std::max<std::int64_t>(waited_us / 1'000 - slept_ms, 0);
  out["backoff_ms"] = slept_ms;
  out["waits_ms"] = std::move(waits);
  out["limit"] = text(call.limit);
  out["first_content_ms"] = ms_of_us(call.first_content_us);
  out["duration_ms"] = ms_of_us(call.duration_us);
  out["bytes_in"] = call.bytes_in;
  out["bytes_out"] = call.bytes_out;
  // What was never sent has cost nothing; null is what nobody knows.
  const bool never_sent = call.attempts.empty() && call.state == RowState::Ended;
  out["cost_usd"] = usd(never_sent ? call.cost_nano.value_or(0) : call.cost_nano);
  out["attempts"] = Json::array();
  for (const AttemptDetail& row : call.attempts) out["attempts"].push_back(json_of(row, call));
  // Codes and ids are the provider's: bytes that are no UTF-8 must not cost the line.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string attempts_json(const CallDetail& call) {
  Json out = Json::array();
  for (const AttemptDetail& row : call.attempts) out.push_back(json_of(row, call));
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace ledger
