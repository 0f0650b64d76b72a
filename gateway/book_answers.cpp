#include "gateway/book_answers.h"

#include <algorithm>
#include <charconv>
#include <expected>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "budget/price.h"
#include "gateway/asked.h"
#include "gateway/config_values.h"
#include "ledger/times.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostCalls = 1'000;
constexpr std::size_t kMostLines = 10'000;
constexpr std::size_t kMostEvents = 500;
constexpr std::size_t kMostKeys = 100;
constexpr std::string_view kOneCall = "/v1/calls/";

std::int64_t ms_of(WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

EndpointAnswer json_answer(const Json& json) {
  EndpointAnswer answer;
  answer.type = "application/json";
  answer.body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return answer;
}

Json usd(std::int64_t nano) { return budget::usd_text(budget::NanoUsd{nano}); }
Json usd(const std::optional<std::int64_t>& nano) { return nano ? usd(*nano) : Json(); }
Json time(const std::optional<std::int64_t>& ms) { return ms ? Json(ledger::time_text(*ms)) : Json(); }
Json text(const std::string& value) { return value.empty() ? Json() : Json(value); }

EndpointAnswer unreadable(const std::string& why) {
  return plain_problem(503, "The ledger cannot be read", why + "; /readyz says how the store is.");
}

Json json_of(const ledger::SpendLine& line) {
  return {{"calls", line.calls},
          {"answered", line.answered},
          {"attempts", line.attempts},
          {"input_tokens", line.input},
          {"cached_input_tokens", line.cached_input},
          {"cache_write_tokens", line.cache_write},
          {"output_tokens", line.output},
          {"reasoning_tokens", line.reasoning},
          {"cost_usd", usd(line.cost_nano)},
          {"retry_usd", usd(line.retry_nano)},
          {"failed_usd", usd(line.failed_nano)},
          {"possibly_billed", line.possibly_billed},
          {"possibly_billed_usd", usd(line.possibly_billed_nano)},
          {"unknown", line.unknown},
          {"unpriced", line.unpriced},
          {"estimated_usd", usd(line.estimated_nano)},
          {"saved_usd", usd(line.saved_nano)}};
}

EndpointAnswer spend(ledger::Books& books, std::string_view /*path*/, Asked asked) {
  ledger::SpendAsk ask;
  ask.by = listed_words(asked.take("by"));
  ask.since_ms = asked.time("since", asked.week_ago());
  ask.until_ms = asked.time("until", ms_of(asked.now()) + 1);
  ask.tenant = asked.take("tenant");
  ask.most = asked.number("most", kMostLines, kMostLines);
  if (const std::string offset = asked.take("utc_offset"); !offset.empty()) {
    const auto minutes = ledger::read_utc_offset(offset);
    if (!minutes) asked.wrong("utc_offset must be as +02:00, in quarters of an hour");
    ask.utc_offset_minutes = minutes.value_or(0);
  }
  if (const auto group = ledger::unknown_group(ask)) {
    asked.wrong("cannot be by " + say(*group) +
                "; there are tenant, model, upstream, lane, queue, day, hour, run_id, class and label:NAME");
  }
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  const auto lines = books.spend(ask);
  if (!lines) return unreadable(lines.error());
  ask = ledger::in_quarters(ask);
  Json json{{"by", ask.by}, {"since", ledger::time_text(ask.since_ms)}, {"until", ledger::time_text(ask.until_ms)}};
  json["rows_complete_since"] = Json();
  if (ledger::needs_rows(ask)) {
    const auto removed = books.removed_until();
    if (!removed) return unreadable(removed.error());
    if (*removed > ask.since_ms) json["rows_complete_since"] = ledger::time_text(*removed);
  }
  json["lines"] = Json::array();
  for (const ledger::SpendLine& line : *lines) {
    Json one{{"by", line.by}, {"others", line.others}};
    one.update(json_of(line));
    json["lines"].push_back(std::move(one));
  }
  json["total"] = json_of(ledger::total_of(*lines));
  return json_answer(json);
}

EndpointAnswer calls(ledger::Books& books, std::string_view /*path*/, Asked asked) {
  ledger::CallsAsk ask;
  ask.tenant = asked.take("tenant");
  ask.run_id = asked.take("run_id");
  ask.upstream = asked.take("upstream");
  ask.model = asked.take("model");
  ask.outcome = asked.take("outcome");
  ask.cls = asked.take("class");
  ask.queue = asked.take("queue");
  ask.idempotency_key = asked.take("idempotency_key");
  ask.since_ms = asked.time("since", 0);
  ask.until_ms = asked.time("until", INT64_MAX);
  ask.before = asked.take("before");
  ask.after = asked.take("after");
  ask.most = asked.number("most", 100, kMostCalls);
  if (!ask.before.empty() && !ask.after.empty()) asked.wrong("has before and after; one of them is enough");
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  const auto lines = books.calls(ask);
  if (!lines) return unreadable(lines.error());
  Json list = Json::array();
  for (const ledger::CallLine& line : *lines) {
    // As json_of(CallDetail) has it.
    const bool never_sent = line.attempts == 0 && line.state == "ended";
    list.push_back({{"call_id", line.id},
                    {"state", line.state},
                    {"began_at", ledger::time_text(line.began_ms)},
                    {"ended_at", time(line.ended_ms)},
                    {"tenant", line.tenant},
                    {"lane", line.lane},
                    {"run_id", text(line.run_id)},
                    {"queue", text(line.queue)},
                    {"upstream", line.upstream},
                    {"model", text(line.model)},
                    {"outcome", text(line.outcome)},
                    {"status", line.status == 0 ? Json() : Json(line.status)},
                    {"class", text(line.cls)},
                    {"once", text(line.once)},
                    {"attempts", line.attempts},
                    {"duration_ms", line.duration_us / 1'000},
                    {"cost_usd", usd(never_sent ? line.cost_nano.value_or(0) : line.cost_nano)}});
  }
  return json_answer({{"calls", std::move(list)}});
}

EndpointAnswer one_call(ledger::Books& books, std::string_view path, Asked asked) {
  const std::string tenant = asked.take("tenant");
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  auto json = books.call(path.substr(kOneCall.size()), tenant);
  if (!json) return unreadable(json.error());
  if (json->empty()) {
    return plain_problem(
        404, "Not found", "No such call is in the ledger; store.retention.calls says how long calls are kept.");
  }
  EndpointAnswer answer;
  answer.type = "application/json";
  answer.body = std::move(*json) + "\n";
  return answer;
}

EndpointAnswer timeouts(ledger::Books& books, std::string_view /*path*/, Asked asked) {
  const std::int64_t since = asked.time("since", asked.week_ago());
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  const auto lines = books.durations(since);
  if (!lines) return unreadable(lines.error());
  Json list = Json::array();
  for (const ledger::TimeoutLine& line : *lines) {
    const auto set = timeouts_of(line);
    list.push_back({{"model", text(line.model)},
                    {"queue", text(line.queue)},
                    {"calls", line.calls},
                    {"p50_ms", line.p50_ms},
                    {"p95_ms", line.p95_ms},
                    {"p99_ms", line.p99_ms},
                    {"p999_ms", line.p999_ms},
                    {"most_ms", line.most_ms},
                    {"sdk_timeout_ms", set ? Json(set->sdk_ms) : Json()},
                    {"visibility_timeout_ms", set ? Json(set->visibility_ms) : Json()},
                    {"enough_calls", set && !set->few}});
  }
  return json_answer({{"since", ledger::time_text(since)},
                      {"fewest_calls", kFewestCalls},
                      {"enough_calls", kManyCalls},
                      {"timeouts", std::move(list)}});
}

EndpointAnswer usage(ledger::Books& books, std::string_view /*path*/, Asked asked) {
  ledger::UsageAsk ask;
  ask.upstreams = listed_words(asked.take("upstream"));
  ask.since_ms = asked.time("since", asked.week_ago());
  ask.until_ms = asked.time("until", INT64_MAX);
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  const auto lines = books.usage(ask);
  if (!lines) return unreadable(lines.error());
  const auto removed = books.removed_until();
  if (!removed) return unreadable(removed.error());
  Json list = Json::array();
  for (const ledger::UsageLine& line : *lines) {
    list.push_back({{"day", line.day},
                    {"model", line.model},
                    {"requests", line.requests},
                    {"attempts", line.attempts},
                    {"input_tokens", line.input},
                    {"cached_input_tokens", line.cached_input},
                    {"cache_write_tokens", line.cache_write},
                    {"output_tokens", line.output},
                    {"cost_usd", usd(line.cost_nano)},
                    {"cost_nano_usd", line.cost_nano},
                    {"unknown", line.unknown},
                    {"unpriced", line.unpriced}});
  }
  return json_answer({{"rows_complete_since", *removed > ask.since_ms ? Json(ledger::time_text(*removed)) : Json()},
                      {"usage", std::move(list)}});
}

EndpointAnswer idempotency(ledger::Books& books, std::string_view /*path*/, Asked asked) {
  const std::string key = asked.take("key");
  const std::string tenant = asked.take("tenant");
  if (key.empty()) asked.wrong("needs key");
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  const auto rows = books.keys(key, tenant, kMostKeys);
  if (!rows) return unreadable(rows.error());
  if (rows->empty()) {
    return plain_problem(404, "Not found", "This key is not known; idempotency.ttl says how long keys are kept.");
  }
  Json list = Json::array();
  for (const ledger::KeyRow& row : *rows) {
    list.push_back({{"key", row.key},
                    {"tenant", row.tenant},
                    {"state", row.state},
                    {"call_id", row.call_id},
                    {"scope", row.scope},
                    {"claimed_at", ledger::time_text(row.claimed_ms)},
                    {"lease_until", time(row.lease_until_ms)},
                    {"expires_at", time(row.expires_ms)},
                    {"bytes", row.bytes},
                    {"cost_usd", usd(row.cost_nano)}});
  }
  return json_answer({{"keys", std::move(list)}});
}

/// The feed, for those who look now and then; who waits on it is served by the data listener.
EndpointAnswer events(ledger::Books& books, std::string_view /*path*/, Asked asked) {
  const std::string after = asked.take("after");
  const std::string tenant = asked.take("tenant");
  std::int64_t seq = 0;
  const auto [end, error] = std::from_chars(after.data(), after.data() + after.size(), seq);
  if (!after.empty() && (error != std::errc{} || end != after.data() + after.size() || seq < 0))
    asked.wrong("after must be the id of an event");
  const std::size_t most = asked.number("most", kMostEvents, kMostEvents);
  if (auto refusal = asked.refusal()) return std::move(*refusal);
  const auto span = books.event_span();
  if (!span) return unreadable(span.error());
  Json list = Json::array();
  if (!after.empty()) {
    const auto rows = books.events(seq, tenant, most);
    if (!rows) return unreadable(rows.error());
    for (const ledger::EventRow& row : *rows) {
      Json data = Json::parse(row.data, nullptr, false);
      list.push_back({{"id", row.seq},
                      {"at", ledger::time_text(row.at_ms)},
                      {"type", row.type},
                      {"data", data.is_discarded() ? Json::object() : std::move(data)}});
    }
  }
  return json_answer({{"first", span->first}, {"last", span->second}, {"events", std::move(list)}});
}

struct Question {
  std::string_view path;  // With a slash at its end: of all that is below.
  EndpointAnswer (*answer)(ledger::Books& books, std::string_view path, Asked asked);
};
constexpr Question kQuestions[] = {
    {"/v1/spend", spend},
    {"/v1/calls", calls},
    {kOneCall, one_call},
    {"/v1/timeouts", timeouts},
    {"/v1/usage", usage},
    {"/v1/idempotency", idempotency},
    {"/v1/events", events},
};

const Question* question_of(std::string_view path) {
  const auto found = std::ranges::find_if(kQuestions, [&](const Question& one) {
    return one.path == path || (one.path.ends_with('/') && path.starts_with(one.path) && path != one.path);
  });
  return found == std::end(kQuestions) ? nullptr : found;
}

/// To a number that people set: 5 s steps up to a minute, then 30 s, then 5 min.
std::int64_t rounded_up(std::int64_t ms) {
  const std::int64_t step = ms <= 60'000 ? 5'000 : ms <= 600'000 ? 30'000 : 300'000;
  return (ms + step - 1) / step * step;
}

}  // namespace

bool asks_books(std::string_view path) { return question_of(path) != nullptr; }

EndpointAnswer answer_of_books(ledger::Books& books, std::string_view path, std::string_view query, WallTime now) {
  const Question* question = question_of(path);
  if (question == nullptr) return plain_problem(404, "Not found", "There is no such page.");
  return question->answer(books, path, Asked{query, now});
}

EndpointAnswer plain_problem(int status, std::string_view title, std::string_view detail) {
  EndpointAnswer answer = json_answer({{"title", title}, {"status", status}, {"detail", detail}});
  answer.status = status;
  answer.type = "application/problem+json";
  return answer;
}

std::optional<std::int64_t> read_since(std::string_view text, WallTime now) {
  if (const auto ms = ledger::read_time(text)) return *ms;
  std::optional<std::int64_t> span;
  if (text.ends_with('d') || text.ends_with('w')) {
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size() - 1, count);
    if (error == std::errc{} && end == text.data() + text.size() - 1 && count >= 0 && count <= 36'500)
      span = count * (text.ends_with('w') ? 7 : 1) * ledger::kDayMs;
  } else {
    span = read_duration(text);
  }
  if (!span || *span < 0) return std::nullopt;
  return std::max<std::int64_t>(ms_of(now) - *span, 0);
}

std::optional<Timeouts> timeouts_of(const ledger::TimeoutLine& line) {
  if (line.calls < kFewestCalls) return std::nullopt;
  Timeouts set;
  set.few = line.calls < kManyCalls;
  // Half as much again over what one in a thousand exceeds; of fewer calls nobody knows that, so twice the longest.
  const std::int64_t longest = set.few ? 2 * line.most_ms : line.p999_ms + line.p999_ms / 2;
  set.sdk_ms = rounded_up(std::max<std::int64_t>(longest, 10'000));
  // The message must outlast the call, and what the worker does around it.
  set.visibility_ms = rounded_up(set.sdk_ms + std::max<std::int64_t>(set.sdk_ms / 5, 30'000));
  return set;
}

}  // namespace gateway
