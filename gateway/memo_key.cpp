#include "gateway/memo_key.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>

#include "gateway/digest.h"

namespace gateway {
namespace {

// Parts of the names of headers that say who somebody is: authorization, x-api-key, ocp-apim-subscription-key,
// cookie, …
constexpr std::array<std::string_view, 12> kTellWho = {"auth",
                                                       "key",
                                                       "token",
                                                       "secret",
                                                       "cookie",
                                                       "session",
                                                       "credential",
                                                       "passw",
                                                       "jwt",
                                                       "signature",
                                                       "bearer",
                                                       "account"};
constexpr std::array<std::string_view, 6> kKeyParameters = {
    "key", "apikey", "accesstoken", "authtoken", "subscriptionkey", "token"};
constexpr std::string_view kIdempotencyKey = "idempotency-key";
constexpr std::array<std::string_view, 5> kChangeAnswers = {
    "anthropic-version", "anthropic-beta", "openai-beta", "openai-organization", "openai-project"};
constexpr std::size_t kDigestShown = 16;  // Bytes; enough that no two keys meet.

bool is_one_of(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::any_of(names, [&](std::string_view one) { return classifier::same_name(one, name); });
}

}  // namespace

bool is_key_header(std::string_view name) {
  std::string small{name};
  std::ranges::transform(small, small.begin(), [](char c) { return classifier::lower(c); });
  if (small == kIdempotencyKey) return false;
  return std::ranges::any_of(kTellWho, [&](std::string_view part) { return small.find(part) != small.npos; });
}

bool changes_answers(std::string_view name) { return is_one_of(kChangeAnswers, name); }

bool is_key_parameter(std::string_view pair) {
  pair = pair.substr(0, pair.find('='));
  std::string name;
  for (std::size_t at = 0; at < pair.size(); ++at) {
    char c = pair[at];
    if (c == '%' && at + 2 < pair.size()) {
      unsigned code = 0;
      const auto read = std::from_chars(pair.data() + at + 1, pair.data() + at + 3, code, 16);
      if (read.ec == std::errc{} && read.ptr == pair.data() + at + 3) {
        c = static_cast<char>(code);
        at += 2;
      }
    }
    // "$key", "api-key" and "api_key" are one to us.
    if (c != '$' && c != '-' && c != '_') name += classifier::lower(c);
  }
  return is_one_of(kKeyParameters, name);
}

budget::MemoKey memo_key(const Call& call) {
  Digest digest;
  for (const std::string_view part : {std::string_view{call.tenant},
                                      budget::name_of(call.lane),
                                      std::string_view{call.run_id},
                                      std::string_view{call.idempotency_key},
                                      std::string_view{call.route->name},
                                      std::string_view{call.request.method},
                                      std::string_view{call.target}}) {
    digest.add(part);
  }
  for (const classifier::Header& header : call.request.headers) {
    if (!changes_answers(header.name) && !is_key_header(header.name)) continue;
    std::string name = header.name;
    std::ranges::transform(name, name.begin(), [](char c) { return classifier::lower(c); });
    digest.add(name);
    digest.add(header.value);
  }
  digest.add(call.request.body ? std::string_view{*call.request.body} : std::string_view{});
  return digest.end();
}

std::string key_digest(const classifier::Headers& headers, std::string_view query) {
  Digest digest;
  bool any = false;
  for (const classifier::Header& header : headers) {
    if (!is_key_header(header.name)) continue;
    digest.add(header.value);
    any = true;
  }
  while (!query.empty()) {
    const std::size_t end = std::min(query.find_first_of("&;"), query.size());
    if (is_key_parameter(query.substr(0, end))) {
      digest.add(query.substr(0, end));
      any = true;
    }
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  if (!any) return {};
  const budget::MemoKey whole = digest.end();
  std::string text;
  for (std::size_t i = 0; i < kDigestShown; ++i) {
    text += "0123456789abcdef"[whole[i] >> 4U];
    text += "0123456789abcdef"[whole[i] & 15U];
  }
  return text;
}

}  // namespace gateway
