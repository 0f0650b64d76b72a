#include "gateway/our_headers.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "classifier/retry_after.h"
#include "gateway/json_out.h"

namespace gateway {
namespace {

using classifier::Header;
using classifier::Headers;
using classifier::same_name;
using std::chrono::milliseconds;

constexpr std::string_view kPrefix = "callgate-";
constexpr std::size_t kRunIdMax = 128;
constexpr std::size_t kTenantMax = 64;
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
constexpr std::size_t kQueueMax = 64;
constexpr std::size_t kKeyMax = 255;
constexpr std::size_t kLabelsMax = 8;
constexpr std::size_t kLabelNameMax = 32;
constexpr std::size_t kLabelValueMax = 64;
constexpr milliseconds kDeadlineMax = std::chrono::hours{24 * 7};
constexpr std::chrono::seconds kLongestRunWait{60};  // That an answer is held back for a run.

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

bool printable(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 127; });
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

bool is_name(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.find_first_not_of(kNameLetters) == text.npos;
}

/// "team=search,prompt=v7" as {"team":"search","prompt":"v7"}; else what is wrong with it.
std::expected<std::string, std::string> labels_of(std::string_view text) {
  std::string json = "{";
  std::vector<std::string_view> names;
  for (bool more = true; more;) {
    const std::size_t comma = text.find(',');
    const std::string_view pair = trimmed(text.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return std::unexpected(quoted(pair) + " is no pair");
    const std::string_view name = trimmed(pair.substr(0, equals));
    const std::string_view value = trimmed(pair.substr(equals + 1));
    if (!is_name(name, kLabelNameMax))
      return std::unexpected(quoted(name) + " is no name of 1 to 32 letters, digits, -, _ and .");
    if (!visible(value, kLabelValueMax))
      return std::unexpected("the value of " + quoted(name) + " is not 1 to 64 visible ASCII characters");
    if (std::ranges::find(names, name) != names.end()) return std::unexpected(quoted(name) + " is given twice");
    if (names.size() == kLabelsMax) return std::unexpected(std::string{"more than 8 pairs"});
    if (!names.empty()) json += ',';
    names.push_back(name);
    append_json(json, name, kLabelNameMax);
    json += ':';
    append_json(json, value, kLabelValueMax);
  }
  return json + '}';
}

/// Of a Prefer field (RFC 7240 §2: preferences that are not known, or cannot be read, are as if they were not there).
std::optional<std::chrono::milliseconds> respond_async(std::string_view value) {
  bool asked = false;
  std::chrono::seconds wait{0};
  while (!value.empty()) {
    std::string_view one = value.substr(0, value.find(','));
    value.remove_prefix(std::min(one.size() + 1, value.size()));
    one = one.substr(0, one.find(';'));
    const std::size_t begin = std::min(one.find_first_not_of(" \t"), one.size());
    one = one.substr(begin, one.find_last_not_of(" \t") + 1 - begin);
    if (same_name(one, "respond-async")) {
      asked = true;
    } else if (one.size() > 5 && same_name(one.substr(0, 5), "wait=")) {
      int seconds = 0;
      const auto [end, error] = std::from_chars(one.data() + 5, one.data() + one.size(), seconds);
      if (error == std::errc{} && end == one.data() + one.size() && seconds >= 0)
        wait = std::min(std::chrono::seconds{seconds}, kLongestRunWait);
    }
  }
  if (!asked) return std::nullopt;
  return wait;
}

}  // namespace

std::expected<OurHeaders, BadHeader> take_our_headers(Headers& headers, WallTime now) {
  OurHeaders ours;
  for (const Header& header : headers) {
    const std::string& value = header.value;
    if (same_name(header.name, "prefer")) {
      if (const auto wait = respond_async(value)) ours.respond_async = wait;
    }
    if (same_name(header.name, "idempotency-key")) {
      // Two, or none where one was meant: jobs would be taken for each other, or not be recognised.
      if (!ours.idempotency_key.empty()) return std::unexpected(BadHeader{"Idempotency-Key is given twice"});
      if (!printable(value, kKeyMax)) {
        return std::unexpected(
            BadHeader{"Idempotency-Key must be 1 to 255 printable ASCII characters, such as job-42:summary"});
      }
      ours.idempotency_key = value;
    }
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
      if (!is_name(value, kTenantMax)) {
        return std::unexpected(BadHeader{"Callgate-Tenant must be a name of 1 to 64 letters, digits, -, _ and ."});
      }
      ours.tenant = value;
    } else if (same_name(header.name, "callgate-labels")) {
      auto labels = labels_of(value);
      if (!labels) {
        return std::unexpected(BadHeader{"Callgate-Labels must be at most 8 pairs such as team=search,prompt=v7 (" +
                                         labels.error() + ")"});
      }
      ours.labels = std::move(*labels);
    } else if (same_name(header.name, "callgate-fresh")) {
      if (value != "true" && value != "false") {
        return std::unexpected(BadHeader{"Callgate-Fresh is " + quoted(value) + "; it may be true or false"});
      }
      ours.fresh = value == "true";
    } else if (same_name(header.name, "callgate-queue")) {
      if (!is_name(value, kQueueMax)) {
        return std::unexpected(BadHeader{"Callgate-Queue must be a name of 1 to 64 letters, digits, -, _ and ."});
      }
      ours.queue = value;
    } else {
      return std::unexpected(
          BadHeader{"unknown header " + quoted(header.name) +
                    "; known are Callgate-Tenant, -Lane, -Run-Id, -Deadline, -Queue, -Labels and -Fresh"});
    }
  }
  std::erase_if(headers, [&](const Header& header) {
    if (ours.respond_async && same_name(header.name, "prefer")) return true;
    return header.name.size() >= kPrefix.size() && same_name(header.name.substr(0, kPrefix.size()), kPrefix);
  });
  return ours;
}

}  // namespace gateway
