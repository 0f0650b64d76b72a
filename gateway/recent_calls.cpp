#include "gateway/recent_calls.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "budget/price.h"
#include "gateway/json_out.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;
using std::chrono::milliseconds;

template <typename Duration>
std::int64_t ms(Duration span) {
  return std::chrono::duration_cast<milliseconds>(span).count();
}

Json text_or_null(std::string_view text) { return text.empty() ? Json() : Json(text); }

Json json_of_attempt(const AttemptRow& row) {
  Json out;
  out["number"] = row.number;
  out["upstream"] = row.upstream;
  out["credential"] = text_or_null(row.credential);
  out["model"] = text_or_null(row.model);
  out["status"] = row.status == 0 ? Json() : Json(row.status);
  out["class"] = classifier::name_of(row.cls);
  out["code"] = text_or_null(row.code);
  out["rule"] = text_or_null(row.rule);
  out["detail"] = text_or_null(row.detail);
  out["hint_ms"] = row.hint ? Json(row.hint->count()) : Json();
  out["wait_ms"] = row.waited_before.count();
  out["waited_for"] = text_or_null(ledger::name_of(row.waited_for));
  out["ms"] = ms(row.took);
  out["possibly_billed"] = row.possibly_billed;
  out["cost_usd"] = row.cost ? Json(budget::usd_text(*row.cost)) : Json();
  out["provider_request_id"] = text_or_null(row.provider_request_id);
  out["next"] = text_or_null(row.next);
  return out;
}

}  // namespace

void RecentCalls::add(CallRecord record, WallTime ended) {
  if (calls_.size() == most_) calls_.pop_front();
  calls_.push_back({std::move(record), ended});
}

std::string RecentCalls::json_of(std::string_view call_id) const {
  const auto found =
      std::find_if(calls_.rbegin(), calls_.rend(), [&](const Ended& ended) { return ended.record.id == call_id; });
  if (found == calls_.rend()) return {};
  const CallRecord& record = found->record;
  Json out;
  out["call_id"] = record.id;
  std::string ended;
  append_time(ended, found->at);
  out["ended_at"] = ended;
  out["tenant"] = record.tenant;
  out["lane"] = budget::name_of(record.lane);
  out["run_id"] = text_or_null(record.run_id);
  out["route"] = record.route;
  out["upstream"] = record.upstream;
  out["method"] = record.method;
  out["path"] = record.path;
  out["model"] = text_or_null(record.model);
  out["stream"] = record.stream;
  out["sdk_retry"] = record.sdk_retry;
  out["outcome"] = ledger::name_of(record.outcome);
  out["status"] = record.status;
  out["class"] = classifier::name_of(record.cls);
  out["reason"] = text_or_null(record.reason);
  out["once"] = text_or_null(record.once);
  out["origin"] = text_or_null(record.origin);
  out["saved_usd"] = record.saved ? Json(budget::usd_text(*record.saved)) : Json();
  out["queue_ms"] = ms(record.queued);
  out["backoff_ms"] = ms(record.backed_off);
  out["waits_ms"] = Json::object();
  for (std::size_t i = 0; i < record.waits.size(); ++i) {
    if (record.waits[i].count() > 0) out["waits_ms"][std::string{budget::kWaitNames[i]}] = ms(record.waits[i]);
  }
  out["limit"] = text_or_null(record.limit);
  out["duration_ms"] = ms(record.duration);
  out["cost_usd"] = record.cost ? Json(budget::usd_text(*record.cost)) : Json();
  out["attempts"] = Json::array();
  for (const AttemptRow& row : record.attempts) out["attempts"].push_back(json_of_attempt(row));
  // Codes and ids are the provider's: bytes that are no UTF-8 must not cost the page.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace gateway
