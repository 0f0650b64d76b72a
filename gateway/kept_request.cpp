#include "gateway/kept_request.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "gateway/issued_key.h"
#include "gateway/memo_key.h"
#include "gateway/trace_context.h"

namespace gateway {
namespace {

// Beside those that change answers (memo_key.h): without them the body cannot be read, or goes to another place.
constexpr std::array<std::string_view, 11> kHeaders = {"content-type",
                                                       "content-encoding",  // Of the body as it is kept.
                                                       "accept",
                                                       "traceparent",  // Of the trace that it goes on in.
                                                       "x-goog-user-project",
                                                       "extra-parameters",  // Azure AI: pass-through, drop, error.
                                                       "azureml-model-deployment",
                                                       "x-ms-model-mesh-model-name",
                                                       "x-vertex-ai-llm-request-type",
                                                       "x-vertex-ai-llm-shared-request-type",
                                                       "x-wait-for-model"};
constexpr std::string_view kBedrock = "x-amzn-bedrock-";  // Guardrail, trace, latency, service tier.

constexpr std::array<std::string_view, 29> kParameters = {
    "api-version", "alt",      "$alt",       "prettyprint",    "$prettyprint", "fields",
    "$fields",     "beta",     "stream",     "model",          "limit",        "order",
    "after",       "before",   "after_id",   "before_id",      "include",      "include[]",
    "purpose",     "pagesize", "page",       "starting_after", "uploadtype",   "language",
    "format",      "version",  "deployment", "region",         "service_tier"};
// Beside is_key_parameter(): what says who somebody is, so that a credential of ours takes its place. Of others
// whoever asks is told that they are left out.
constexpr std::array<std::string_view, 12> kTellWho = {"sig",
                                                       "signature",
                                                       "secret",
                                                       "client_secret",
                                                       "password",
                                                       "oauth_token",
                                                       "id_token",
                                                       "auth",
                                                       "authorization",
                                                       "session",
                                                       "jwt",
                                                       "credential"};
constexpr std::array<std::string_view, 2> kSigned = {"x-amz-", "x-goog-"};  // URLs that are signed.

constexpr std::string_view kIssued = "cg_";
// Letters behind it; fewer are a name. A whole one has 43, and is one even where a letter stands before it.
constexpr std::size_t kIssuedMin = 8;
constexpr std::size_t kIssuedWhole = 43;
constexpr std::size_t kNameMax = 64;

std::string small(std::string_view text) {
  std::string out{text};
  std::ranges::transform(out, out.begin(), [](char c) { return classifier::lower(c); });
  return out;
}

bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (classifier::lower(c) >= 'a' && classifier::lower(c) <= 'z');
}

/// Percent-decoded as often as it can be: somebody below us may do it twice. What is no code stays as it is.
std::string decoded(std::string_view text) {
  std::string out{text};
  for (int times = 0; times < 3; ++times) {
    std::string next;
    for (std::size_t i = 0; i < out.size(); ++i) {
      unsigned code = 0;
      if (out[i] == '%' && i + 2 < out.size()) {
        const auto read = std::from_chars(out.data() + i + 1, out.data() + i + 3, code, 16);
        if (read.ec == std::errc{} && read.ptr == out.data() + i + 3) {
          next += static_cast<char>(code);
          i += 2;
          continue;
        }
      }
      next += out[i];
    }
    if (next == out) break;
    out = std::move(next);
  }
  return out;
}

/// One of ours anywhere in it, or what is left of one.
bool holds_issued_key(std::string_view text) {
  const std::string plain = small(decoded(text));
  for (std::size_t at = plain.find(kIssued); at != plain.npos; at = plain.find(kIssued, at + 1)) {
    const std::size_t least = at > 0 && is_alnum(plain[at - 1]) ? kIssuedWhole : kIssuedMin;
    const auto begin = plain.begin() + static_cast<std::ptrdiff_t>(at + kIssued.size());
    if (std::find_if_not(begin, plain.end(), is_alnum) - begin >= static_cast<std::ptrdiff_t>(least)) return true;
  }
  return false;
}

bool is_kept(const classifier::Header& header) {
  const auto is = [&](std::string_view name) { return classifier::same_name(header.name, name); };
  if (is("traceparent") && !read_traceparent(header.value)) return false;
  const bool known =
      changes_answers(header.name) || std::ranges::any_of(kHeaders, is) || small(header.name).starts_with(kBedrock);
  return known && issued_key_in(header.value).empty() && !holds_issued_key(header.value);
}

struct Parameter {
  std::string_view pair{};
  char before = '&';  // What parts it from the one before.
};
std::vector<Parameter> parameters_in(std::string_view target) {
  std::vector<Parameter> all;
  const std::size_t mark = target.find('?');
  if (mark == target.npos) return all;
  char before = '&';
  for (std::size_t at = mark + 1; at < target.size();) {
    const std::size_t end = std::min(target.find_first_of("&;", at), target.size());
    if (end > at) all.push_back({target.substr(at, end - at), before});
    if (end < target.size()) before = target[end];
    at = end + 1;
  }
  return all;
}

bool is_kept(std::string_view pair) {
  const std::string name = small(decoded(pair.substr(0, pair.find('='))));
  return std::ranges::find(kParameters, name) != kParameters.end() && !holds_issued_key(pair);
}

bool may_hold_key(std::string_view pair) {
  const std::string name = small(decoded(pair.substr(0, pair.find('='))));
  return is_key_parameter(name) || holds_issued_key(pair) || std::ranges::find(kTellWho, name) != kTellWho.end() ||
         std::ranges::any_of(kSigned, [&](std::string_view front) { return name.starts_with(front); });
}

std::string kept_path(std::string_view path) {
  std::string kept;
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    kept += holds_issued_key(segment) ? std::string_view{"-"} : segment;
    if (end < path.size()) kept += '/';
    at = end + 1;
  }
  return kept;
}

}  // namespace

std::shared_ptr<const ledger::KeptRequest> keep_request(std::string_view method, std::string_view target,
                                                        const classifier::Headers& headers, std::string body) {
  auto kept = std::make_shared<ledger::KeptRequest>();
  kept->method = method;
  kept->target = kept_path(target.substr(0, target.find_first_of("?#")));
  bool first = true;
  for (const Parameter& parameter : parameters_in(target.substr(0, target.find('#')))) {
    if (!is_kept(parameter.pair)) continue;
    kept->target += std::exchange(first, false) ? '?' : parameter.before;
    kept->target += parameter.pair;
  }
  for (const classifier::Header& header : headers) {
    if (is_kept(header)) kept->headers.push_back(header);
  }
  kept->body = std::move(body);
  return kept;
}

std::vector<std::string> left_out_of(std::string_view target) {
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters_in(target.substr(0, target.find('#')))) {
    if (is_kept(parameter.pair) || may_hold_key(parameter.pair)) continue;
    names.emplace_back(parameter.pair.substr(0, std::min(parameter.pair.find('='), kNameMax)));
  }
  return names;
}

}  // namespace gateway
