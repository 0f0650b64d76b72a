#include "gateway/unknown_answers.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "classifier/secret_forms.h"

namespace gateway {
namespace {

constexpr std::size_t kCallIdMax = 64;
// Said by every program of its kind, and words that a provider may well use.
constexpr std::array<std::string_view, 9> kPlainHeaders = {"accept",
                                                           "accept-encoding",
                                                           "accept-language",
                                                           "connection",
                                                           "content-type",
                                                           "user-agent",
                                                           "anthropic-version",
                                                           "anthropic-beta",
                                                           "openai-beta"};
constexpr std::string_view kSdkFront = "x-stainless-";
constexpr std::array<std::string_view, 2> kSchemes = {"bearer", "basic"};

bool is_plain(const classifier::Header& header) {
  const auto named = [&](std::string_view name) { return classifier::same_name(header.name, name); };
  return std::ranges::any_of(kPlainHeaders, named) ||
         classifier::same_name(std::string_view{header.name}.substr(0, kSdkFront.size()), kSdkFront);
}

/// The pieces of `text` between any of `marks`.
template <typename Take>
void each_piece(std::string_view text, std::string_view marks, const Take& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(marks), text.size());
    if (end > 0) take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

void UnknownAnswers::note(const SeenUnknown& seen, WallTime now) {
  std::vector<UnknownAnswer>& all = list_.answers;
  auto entry = std::ranges::find_if(all, [&](const UnknownAnswer& one) {
    return one.fingerprint == seen.fingerprint.id && one.upstream == seen.upstream;
  });
  if (entry == all.end()) {
    if (all.size() >= kMost) {
      all.pop_back();
      list_.dropped += 1;
    }
    UnknownAnswer fresh;
    fresh.fingerprint = seen.fingerprint.id;
    fresh.upstream = seen.upstream;
    fresh.dialect = seen.dialect;
    fresh.status = seen.status;
    fresh.words = seen.fingerprint.words;
    fresh.text = seen.fingerprint.text;
    fresh.first_seen = now;
    all.push_back(std::move(fresh));
    entry = std::prev(all.end());
  }
  entry->cls = seen.verdict.cls;
  entry->retryable = seen.verdict.retryable;
  entry->rule = seen.verdict.rule;
  entry->count += 1;
  entry->last_seen = now;
  entry->last_call_id = seen.call_id.substr(0, kCallIdMax);
  entry->case_line = classifier::case_line(seen.fingerprint, seen.dialect, seen.status, seen.verdict);
  std::rotate(all.begin(), entry, std::next(entry));
}

std::vector<std::string> callers_secrets(const classifier::Headers& headers, std::string_view target) {
  std::vector<std::string> secrets;
  for (const classifier::Header& header : headers) {
    if (is_plain(header)) continue;
    each_piece(header.value, " ,;=\"", [&](std::string_view piece) {
      const auto is = [piece](std::string_view scheme) { return classifier::same_name(piece, scheme); };
      if (std::ranges::none_of(kSchemes, is)) secrets.emplace_back(piece);
    });
  }
  const std::size_t query = target.find('?');
  if (query == std::string_view::npos) return secrets;
  each_piece(target.substr(query + 1), "&", [&](std::string_view pair) {
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos) secrets.emplace_back(pair.substr(equals + 1));
  });
  return secrets;
}

std::vector<std::string> also_in_base64(std::vector<std::string> secrets) {
  for (std::size_t i = 0, plain = secrets.size(); i < plain; ++i) {
    for (std::string& form : classifier::base64_of_any_with(secrets[i])) secrets.push_back(std::move(form));
  }
  return secrets;
}

}  // namespace gateway
