#include "gateway/answer_headers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "budget/price.h"

namespace gateway {
namespace {

using classifier::Header;
using classifier::Headers;
using classifier::lower;
using classifier::same_name;
using std::chrono::milliseconds;

// Clients that sleep out any Retry-After although x-should-retry says no (facts: cohere, up to a minute).
constexpr std::array<std::string_view, 1> kSleepsWhateverWeSay = {"cohere-ai/"};
constexpr std::int64_t kShortSeconds = 2;

bool starts_with_name(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && same_name(text.substr(0, prefix.size()), prefix);
}

bool named_by_connection(const Headers& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (!same_name(header.name, "connection")) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      const auto comma = rest.find(',');
      std::string_view token = rest.substr(0, comma);
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
      while (!token.empty() && (token.front() == ' ' || token.front() == '\t')) token.remove_prefix(1);
      while (!token.empty() && (token.back() == ' ' || token.back() == '\t')) token.remove_suffix(1);
      if (same_name(token, name)) return true;
    }
  }
  return false;
}

/// A whole second count of at least 1, which every client understands alike.
bool usable_seconds(std::string_view value) {
  std::int64_t seconds = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), seconds);
  return error == std::errc{} && end == value.data() + value.size() && seconds >= 1;
}

std::string text_of(std::int64_t number) { return std::to_string(number); }

}  // namespace

void remove(Headers& headers, std::string_view name) {
  std::erase_if(headers, [&](const Header& header) { return same_name(header.name, name); });
}

void set(Headers& headers, std::string_view name, std::string value) {
  remove(headers, name);
  headers.push_back({std::string{name}, std::move(value)});
}

Headers passable(const Headers& headers) {
  Headers kept;
  kept.reserve(headers.size() + 10);
  for (const Header& header : headers) {
    if (starts_with_name(header.name, "callgate-")) continue;
    if (named_by_connection(headers, header.name)) continue;
    kept.push_back(header);
  }
  return kept;
}

Headers without_ours(const Headers& headers) {
  Headers kept = headers;
  std::erase_if(kept, [](const Header& header) {
    return starts_with_name(header.name, "callgate-") || same_name(header.name, "x-should-retry") ||
           same_name(header.name, "retry-after") || same_name(header.name, "retry-after-ms");
  });
  return kept;
}

void add_our_headers(Headers& headers, const CallRecord& record, std::size_t attempts, classifier::Class cls,
                     std::string_view source) {
  headers.push_back({"Callgate-Call-Id", record.id});
  headers.push_back({"Callgate-Source", std::string{source}});
  headers.push_back({"Callgate-Upstream", record.upstream});
  headers.push_back({"Callgate-Attempts", text_of(static_cast<std::int64_t>(attempts))});
  headers.push_back({"Callgate-Queue-Ms", text_of(std::chrono::duration_cast<milliseconds>(record.queued).count())});
  std::string waits;
  for (std::size_t i = 0; i < record.waits.size(); ++i) {
    const auto time = std::chrono::duration_cast<milliseconds>(record.waits[i]).count();
    if (time > 0) waits.append(waits.empty() ? "" : ", ").append(budget::kWaitNames[i]).append("=" + text_of(time));
  }
  if (!waits.empty()) headers.push_back({"Callgate-Waits-Ms", std::move(waits)});
  if (record.budget_share) {
    headers.push_back(
        {"Callgate-Budget-Spent", text_of(static_cast<std::int64_t>(*record.budget_share * 100)) + "%"});
  }
  if (cls != classifier::Class::None) {
    headers.push_back({"Callgate-Class", std::string{classifier::name_of(cls)}});
  }
}

void add_token_headers(Headers& headers, const classifier::Usage& usage) {
  if (!usage.tokens) return;  // Unknown is not zero.
  headers.push_back({"Callgate-Input-Tokens", text_of(usage.tokens->input)});
  headers.push_back({"Callgate-Cached-Input-Tokens", text_of(usage.tokens->cached_input)});
  headers.push_back({"Callgate-Output-Tokens", text_of(usage.tokens->output)});
  headers.push_back({"Callgate-Reasoning-Tokens", text_of(usage.tokens->reasoning)});
}

void add_cost_header(Headers& headers, const CallRecord& record) {
  if (record.cost) headers.push_back({"Callgate-Cost-Usd", budget::usd_text(*record.cost)});
}

void set_come_back(Headers& headers, const ComeBack& come_back, std::string_view user_agent) {
  set(headers, "Callgate-Retryable", come_back.retryable ? "true" : "false");
  set(headers, "x-should-retry", come_back.sdk_may_retry ? "true" : "false");

  // A copy: what follows moves the headers about.
  const std::optional<std::string> theirs{classifier::find(headers, "retry-after")};
  if (come_back.wait) set(headers, "Callgate-Retry-After-Ms", text_of(come_back.wait->count()));
  if (!theirs && !come_back.wait) {
    remove(headers, "retry-after-ms");
    return;
  }
  std::int64_t seconds = 1;
  const bool passes = theirs && usable_seconds(*theirs);
  if (passes) {
    std::from_chars(theirs->data(), theirs->data() + theirs->size(), seconds);
  } else if (come_back.wait) {
    seconds = std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(*come_back.wait).count());
  }
  const bool sleeps = std::ranges::any_of(
      kSleepsWhateverWeSay, [&](std::string_view prefix) { return starts_with_name(user_agent, prefix); });
  if (sleeps && !come_back.sdk_may_retry) seconds = std::min(seconds, kShortSeconds);
  if (!passes || sleeps) set(headers, "Retry-After", text_of(seconds));

  // The finer form stays only where it agrees; several clients prefer it, and 0 would bring them back at once.
  if (const auto fine = classifier::find(headers, "retry-after-ms")) {
    const bool agrees = usable_seconds(*fine) && come_back.wait && *fine == text_of(come_back.wait->count());
    if (!agrees || sleeps) remove(headers, "retry-after-ms");
  }
}

void lead_home(Headers& headers, std::string_view base_url, std::string_view home) {
  for (Header& header : headers) {
    if (!same_name(header.name, "x-goog-upload-url") && !same_name(header.name, "location")) continue;
    if (!starts_with_name(header.value, base_url)) continue;
    const std::string_view rest = std::string_view{header.value}.substr(base_url.size());
    if (!rest.empty() && rest.front() != '/' && rest.front() != '?') continue;
    header.value = std::string{home}.append(rest);
  }
}

OwnAnswer own_answer(const classifier::Dialect& dialect, const classifier::OwnError& error) {
  OwnAnswer answer;
  answer.head.status = error.status;
  answer.head.headers.push_back({"Content-Type", "application/json"});
  if (!error.call_id.empty())
    answer.head.headers.push_back({std::string{dialect.request_id_header()}, error.call_id});
  for (const Header& header : dialect.error_headers(error)) answer.head.headers.push_back(header);
  answer.body = dialect.error_body(error);
  return answer;
}

}  // namespace gateway
