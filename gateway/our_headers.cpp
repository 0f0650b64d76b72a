#include "gateway/our_headers.h"

#include <algorithm>

#include "classifier/retry_after.h"

namespace gateway {
namespace {

using classifier::Header;
using classifier::Headers;
using classifier::same_name;
using std::chrono::milliseconds;

constexpr std::string_view kPrefix = "callgate-";
constexpr std::size_t kRunIdMax = 128;
constexpr std::size_t kTenantMax = 64;
constexpr std::string_view kTenantLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
constexpr std::size_t kLabelsMax = 8;
constexpr milliseconds kDeadlineMax = std::chrono::hours{24 * 7};

std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 64)) shown += (c >= ' ' && c < 127) ? c : '?';
  return shown + '"';
}

/// A span ("90s", "1.5m", "1h30m") or a time of RFC 3339; from now on, and at most a week.
std::optional<milliseconds> deadline_of(std::string_view text, WallTime now) {
  if (const auto span = classifier::parse_go_duration(text)) {
    return *span >= milliseconds::zero() ? std::optional{std::min(*span, kDeadlineMax)} : std::nullopt;
  }
  if (const auto instant = classifier::parse_rfc3339(text)) {
    const auto away = std::chrono::floor<milliseconds>(*instant) - std::chrono::floor<milliseconds>(now);
    return std::clamp<milliseconds>(away, -kDeadlineMax, kDeadlineMax);
  }
  return std::nullopt;
}

bool visible(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127; });
}

std::optional<std::string> bad_labels(std::string_view text) {
  std::size_t count = 0;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos || equals == 0) return quoted(pair);
    if (++count > kLabelsMax) return "more than 8 pairs";
  }
  return std::nullopt;
}

}  // namespace

std::expected<OurHeaders, BadHeader> take_our_headers(Headers& headers, WallTime now) {
  OurHeaders ours;
  for (const Header& header : headers) {
    const std::string& value = header.value;
    if (same_name(header.name, "prefer") && value.find("respond-async") != std::string::npos) {
      return std::unexpected(
          BadHeader{"Prefer: respond-async: runs are not in this version; send the call without it", 501});
    }
    if (same_name(header.name, "idempotency-key")) ours.idempotency_key = value;
    if (header.name.size() < kPrefix.size() || !same_name(header.name.substr(0, kPrefix.size()), kPrefix)) continue;
    const auto same = [&](const Header& other) { return same_name(other.name, header.name); };
    if (std::ranges::count_if(headers, same) > 1) {
      return std::unexpected(BadHeader{quoted(header.name) + " is given twice"});
    }
    if (same_name(header.name, "callgate-lane")) {
      ours.lane = budget::lane_named(value);
      if (!ours.lane) {
        return std::unexpected(
            BadHeader{"Callgate-Lane is " + quoted(value) + "; it may be interactive, bulk or backfill"});
      }
    } else if (same_name(header.name, "callgate-run-id")) {
      if (!visible(value, kRunIdMax)) {
        return std::unexpected(BadHeader{"Callgate-Run-Id must be 1 to 128 visible ASCII characters without blanks"});
      }
      ours.run_id = value;
    } else if (same_name(header.name, "callgate-deadline")) {
      ours.deadline = deadline_of(value, now);
      if (!ours.deadline) {
        return std::unexpected(
            BadHeader{"Callgate-Deadline is " + quoted(value) +
                      "; it may be a span such as 90s or 5m, or a time such as 2026-11-29T18:00:00Z"});
      }
    } else if (same_name(header.name, "callgate-tenant")) {
      if (value.empty() || value.size() > kTenantMax || value.find_first_not_of(kTenantLetters) != value.npos) {
        return std::unexpected(BadHeader{"Callgate-Tenant must be a name of 1 to 64 letters, digits, -, _ and ."});
      }
      ours.tenant = value;
    } else if (same_name(header.name, "callgate-labels")) {
      if (const auto bad = bad_labels(value)) {
        return std::unexpected(
            BadHeader{"Callgate-Labels must be at most 8 pairs such as team=search,prompt=v7 (" + *bad + ")"});
      }
    } else if (same_name(header.name, "callgate-fresh")) {
      if (value != "true" && value != "false") {
        return std::unexpected(BadHeader{"Callgate-Fresh is " + quoted(value) + "; it may be true or false"});
      }
      ours.fresh = value == "true";
    } else if (same_name(header.name, "callgate-queue")) {
      return std::unexpected(BadHeader{"Callgate-Queue: no queue of that name is configured"});
    } else {
      return std::unexpected(
          BadHeader{"unknown header " + quoted(header.name) +
                    "; known are Callgate-Tenant, -Lane, -Run-Id, -Deadline, -Queue, -Labels and -Fresh"});
    }
  }
  std::erase_if(headers, [](const Header& header) {
    return header.name.size() >= kPrefix.size() && same_name(header.name.substr(0, kPrefix.size()), kPrefix);
  });
  return ours;
}

}  // namespace gateway
