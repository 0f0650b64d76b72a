#include "gateway/trace_context.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

namespace gateway {
namespace {

constexpr std::size_t kLength = 55;  // Of version 00: "00-" 32 "-" 16 "-" 2.
constexpr std::uint8_t kSampled = 1;
constexpr std::uint8_t kKnownFlags = 3;
constexpr std::size_t kMembersMax = 32;
constexpr std::size_t kPartMax = 256;  // Of a member's key, and of its value.
constexpr std::size_t kStateMax = 4096;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }
bool all_hex(std::string_view text) { return std::ranges::all_of(text, is_hex); }
bool is_id(std::string_view text) { return all_hex(text) && text.find_first_not_of('0') != text.npos; }

unsigned number_in(std::string_view two_digits) {
  unsigned number = 0;
  std::from_chars(two_digits.data(), two_digits.data() + two_digits.size(), number, 16);
  return number;
}
std::uint64_t number_in_id(std::string_view digits) {
  std::uint64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  return number;
}

std::string hex_of(std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; number >>= 4U) text[i] = kDigits[number & 15U];
  return text;
}
/// An id of zeros is none.
std::string id_of(std::uint64_t number) { return hex_of(number == 0 ? 1 : number); }

/// SplitMix64's finisher: different numbers stay different.
std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

bool is_state_key(std::string_view key) {
  const auto first = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const auto other = [&](char c) { return first(c) || c == '_' || c == '-' || c == '*' || c == '/' || c == '@'; };
  return !key.empty() && key.size() <= kPartMax && first(key.front()) && std::ranges::all_of(key, other);
}
bool is_state_value(std::string_view value) {
  const auto fits = [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; };
  return !value.empty() && value.size() <= kPartMax && value.back() != ' ' && std::ranges::all_of(value, fits);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

/// Nothing: more than one, or none that can be read.
std::optional<TraceParent> parent_in(const classifier::Headers& headers) {
  const std::string* found = nullptr;
  for (const classifier::Header& header : headers) {
    if (!classifier::same_name(header.name, "traceparent")) continue;
    if (found) return std::nullopt;
    found = &header.value;
  }
  return found ? read_traceparent(trimmed(*found)) : std::nullopt;
}

}  // namespace

std::optional<TraceParent> read_traceparent(std::string_view value) {
  if (value.size() < kLength || value[2] != '-' || value[35] != '-' || value[52] != '-') return std::nullopt;
  const std::string_view version = value.substr(0, 2);
  if (!all_hex(version) || version == "ff") return std::nullopt;
  if (version == "00" ? value.size() != kLength : value.size() > kLength && value[kLength] != '-')
    return std::nullopt;
  const std::string_view trace_id = value.substr(3, 32);
  const std::string_view span_id = value.substr(36, 16);
  const std::string_view flags = value.substr(53, 2);
  if (!is_id(trace_id) || !is_id(span_id) || !all_hex(flags)) return std::nullopt;
  return TraceParent{
      std::string{trace_id}, std::string{span_id}, static_cast<std::uint8_t>(number_in(flags) & kKnownFlags)};
}

std::string traceparent_of(std::string_view trace_id, std::string_view span_id, std::uint8_t flags) {
  std::string text = "00-";
  text.append(trace_id).append("-").append(span_id).append("-0");
  text += static_cast<char>('0' + (flags & kKnownFlags));
  return text;
}

std::string tracestate_in(const classifier::Headers& headers) {
  std::string state;
  std::set<std::string_view> keys;
  for (const classifier::Header& header : headers) {
    if (!classifier::same_name(header.name, "tracestate")) continue;
    for (std::string_view rest = header.value; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      const std::string_view member = trimmed(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (member.empty()) continue;
      const std::size_t equals = member.find('=');
      if (equals == member.npos) return {};
      const std::string_view key = member.substr(0, equals);
      if (!is_state_key(key) || !is_state_value(member.substr(equals + 1)) || !keys.insert(key).second) return {};
      if (keys.size() > kMembersMax || state.size() + member.size() > kStateMax) return {};
      state.append(state.empty() ? "" : ",").append(member);
    }
  }
  return state;
}

bool is_sampled(std::string_view trace_id, double ratio) {
  if (ratio >= 1) return true;
  if (!(ratio > 0)) return false;
  // As OpenTelemetry's TraceIdRatioBased does it, so that all who look at a trace decide alike.
  const std::uint64_t low = number_in_id(trace_id.substr(16)) >> 1U;
  return low < static_cast<std::uint64_t>(std::ldexp(ratio, 63));
}

std::shared_ptr<ledger::CallTrace> begin_trace(const classifier::Headers& headers, const Sampling& how,
                                               const TraceChance& chance) {
  auto trace = std::make_shared<ledger::CallTrace>();
  trace->span_id = id_of(chance.span);
  if (auto parent = parent_in(headers)) {
    trace->trace_id = std::move(parent->trace_id);
    trace->parent_id = std::move(parent->span_id);
    trace->flags = parent->flags;
    trace->state = tracestate_in(headers);
    if (how.by_caller) return trace;
  } else {
    trace->trace_id = hex_of(chance.trace_high) + id_of(chance.trace_low);
  }
  const bool sampled = is_sampled(trace->trace_id, how.ratio);
  trace->flags = static_cast<std::uint8_t>((trace->flags & ~kSampled) | (sampled ? kSampled : 0));
  return trace;
}

std::string attempt_span_id(const ledger::CallTrace& trace, int number) {
  const std::uint64_t of_call = number_in_id(trace.span_id);
  const std::uint64_t id = mixed(of_call + 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(number));
  return id_of(id == of_call ? id + 1 : id);
}

bool is_trace_header(std::string_view name) {
  return classifier::same_name(name, "traceparent") || classifier::same_name(name, "tracestate");
}

void add_trace_headers(classifier::Headers& headers, const ledger::CallTrace& trace, int number) {
  headers.push_back({"traceparent", traceparent_of(trace.trace_id, attempt_span_id(trace, number), trace.flags)});
  if (!trace.state.empty()) headers.push_back({"tracestate", trace.state});
}

}  // namespace gateway
