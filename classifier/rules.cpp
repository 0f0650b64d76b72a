#include "classifier/rules.h"

#include <algorithm>
#include <cstddef>

namespace classifier {

namespace {

using enum Class;
using namespace on;

// What a sentence may mean beside a status.
constexpr Statuses kMoneyOn = k400 | k402 | k403 | k412 | k429 | kNone;
constexpr Statuses kLongPeriodOn = k402 | k403 | k429;
constexpr Statuses kContextOn = k400 | k413 | k422 | kNone;
constexpr Statuses kPolicyOn = k400 | k403 | k422 | k498 | kOther4xx | kNone;
constexpr Statuses kCredentialOn = k400 | k401 | k403 | kNone;
constexpr Statuses kPlaceOn = k400 | k403 | kNone;
constexpr Statuses kMissingOn = k400 | k404 | k422 | kNone;
constexpr Statuses kBytesOn = k400 | kNone;
constexpr Statuses kBusyOn = k429 | k5xx | kNone;
// And a word: beside the statuses left out, "rate limit" is a type that says less than the status.
constexpr Statuses kThrottleOn = kAny & ~(k401 | k402 | k404 | k413);
constexpr Statuses kLateOn = k429 | k498 | kOther4xx | k5xx | kNone;

// Order is meaning: codes that can say only one thing, then sentences, then codes that providers use for anything.
constexpr Rule kCommonRules[] = {
    // One request above the whole allowance has the code of a rate limit and can never pass.
    {k400 | k413 | k429, "request_above_limit", "", TooLarge},
    {k400 | k413 | k429, "rate_limit_exceeded", "request too large", TooLarge},
    {kAny, "*idempotency", "", Conflict, Retry::No},
    {kAny, "*idempotency_key", "", Conflict, Retry::No},
    {k400 | k409 | k422, "", "idempotency", Conflict, Retry::No},

    // Money and long-period allowances.
    {kAny, "insufficient_quota", "", QuotaExhausted},
    {kAny, "exceeded_current_quota", "", QuotaExhausted},
    {kAny, "*quota_exceeded", "", QuotaExhausted},
    {kAny, "quota_exhausted", "", QuotaExhausted},
    {kAny, "quota_per_day", "", QuotaExhausted},
    {kAny, "quota_of_zero", "", QuotaExhausted},
    {kAny, "dailyLimitExceeded", "", QuotaExhausted},
    {kAny, "*balance_exhausted", "", QuotaExhausted},
    {kAny, "*insufficient_balance", "", QuotaExhausted},
    {kAny, "*insufficient_credits", "", QuotaExhausted},
    {kAny, "*insufficient_funds", "", QuotaExhausted},
    {kAny, "*spend_limit_exceeded", "", QuotaExhausted},
    {kAny, "*spend_limit_reached", "", QuotaExhausted},
    {kAny, "*usage_limit_exceeded", "", QuotaExhausted},
    {kAny, "*usage_limit_reached", "", QuotaExhausted},
    {kAny, "*billing_limit_reached", "", QuotaExhausted},
    {kAny, "*hard_limit_reached", "", QuotaExhausted},
    {kAny, "*billing_limit_user", "", QuotaExhausted},
    {kAny, "*budget_exceeded", "", QuotaExhausted},
    {kAny, "*exceeds_budget", "", QuotaExhausted},
    {kAny, "billing_not_active", "", QuotaExhausted},
    {kAny, "billing_disabled", "", QuotaExhausted},
    {kAny, "billing", "", QuotaExhausted},
    {kAny, "payment_required", "", QuotaExhausted},

    // Policy.
    {kAny, "*content_policy_violation", "", ContentPolicy},
    {kAny, "*ResponsibleAIPolicyViolation", "", ContentPolicy},
    {kAny, "*bio_policy", "", ContentPolicy},
    {kAny, "*cyber_policy", "", ContentPolicy},
    {kAny, "*moderation_blocked", "", ContentPolicy},
    {kAny, "content_filter", "", ContentPolicy},
    {kAny, "content_filtered", "", ContentPolicy},
    {kAny, "flagged_input", "", ContentPolicy},
    {kAny, "invalid_prompt", "", ContentPolicy},

    // The window.
    {kAny, "context_length_exceeded", "", ContextLength},
    {kAny, "context_window_exceeded", "", ContextLength},
    {kAny, "exceed_context_size", "", ContextLength},
    {kAny, "prompt_too_long", "", ContextLength},
    {kAny, "input_too_long", "", ContextLength},
    {kAny, "string_above_max_length", "", InvalidRequest},

    // Credentials.
    {kAny, "*invalid_api_key", "", Auth},
    {kAny, "*api_key_invalid", "", Auth},
    {kAny, "*api_key_expired", "", Auth},
    {kAny, "key_invalid", "", Auth},
    {kAny, "key_expired", "", Auth},
    {kAny, "*token_expired", "", Auth},
    {kAny, "*expired_token", "", Auth},
    {kAny, "missing_api_key", "", Auth},
    {kAny, "credentials_missing", "", Auth},
    {kAny, "authentication", "", Auth},
    {kAny, "unauthenticated", "", Auth},
    {kAny, "unauthorized", "", Auth},
    {kAny, "UnrecognizedClient", "", Auth},
    {kAny, "InvalidSignature", "", Auth},

    // May not.
    {kAny, "permission", "", Permission},
    {kAny, "unsupported_country_region_territory", "", Permission},
    {kAny, "data_residency_mismatch", "", Permission},
    {kAny, "service_disabled", "", Permission},
    {kAny, "consumer_suspended", "", Permission},

    // Unknown or gone. A form that was never filled in hides what is there.
    {k404, "*not_found", "use case details", Permission},
    {kAny, "*not_found", "", NotFound},
    {kAny, "model_decommissioned", "", NotFound},
    {kAny, "model_deprecated", "", NotFound},
    {kAny, "invalid_model", "", NotFound},
    {kAny, "model_not_available", "", NotFound},

    {kAny, "request_too_large", "", TooLarge},
    {kAny, "*payload_too_large", "", TooLarge},
    {kAny, "*entity_too_large", "", TooLarge},
    // Where it is no lock: another request has the same token.
    {k400, "conflict", "", Conflict, Retry::No},
    {kAny, "conflict", "", Conflict},

    // Capacity and the clock.
    {kAny, "*overloaded", "", Overloaded},
    {kAny, "*over_capacity", "", Overloaded},
    {kAny, "*capacity_exceeded", "", Overloaded},
    {kAny, "*capacity_exhausted", "", Overloaded},
    {kAny, "service_unavailable", "", Overloaded},
    {kAny, "resource_unavailable", "", Overloaded},
    {kAny, "unavailable", "", Overloaded},
    {kAny, "model_not_ready", "", Overloaded},
    {kAny, "deployment_scaling_up", "", Overloaded},
    {kAny, "insufficient_system_resource", "", Overloaded},
    {kLateOn, "*timeout", "", Timeout},
    {kLateOn, "deadline_exceeded", "", Timeout},
    {kThrottleOn, "slow_down", "", RateLimited},
    {kThrottleOn, "*rate_limit_exceeded", "", RateLimited},

    // Sentences.
    {kMoneyOn, "", "credit balance is too low", QuotaExhausted},
    {kMoneyOn, "", "reached your specified*usage limit", QuotaExhausted},
    {kMoneyOn, "", "extra usage is required", QuotaExhausted},
    {kMoneyOn, "", "insufficient balance", QuotaExhausted},
    {kMoneyOn, "", "insufficient credit", QuotaExhausted},
    {kMoneyOn, "", "insufficient fund", QuotaExhausted},
    {kMoneyOn, "", "have any credits", QuotaExhausted},
    {kMoneyOn, "", "out of credits", QuotaExhausted},
    {kMoneyOn, "", "all available credits", QuotaExhausted},
    {kMoneyOn, "", "spending limit", QuotaExhausted},
    {kMoneyOn, "", "spend limit", QuotaExhausted},
    {kMoneyOn, "", "billing hard limit", QuotaExhausted},
    {kMoneyOn, "", "enable billing", QuotaExhausted},
    {kMoneyOn, "", "billing to be enabled", QuotaExhausted},
    {kMoneyOn, "", "payment method", QuotaExhausted},
    {kMoneyOn, "", "unpaid invoice", QuotaExhausted},
    {kMoneyOn, "", "exceeded usage limit", QuotaExhausted},
    {kLongPeriodOn, "", "per day", QuotaExhausted},
    {kLongPeriodOn, "", "per month", QuotaExhausted},
    {kLongPeriodOn, "", "calls / month", QuotaExhausted},
    {kLongPeriodOn, "", "daily*limit", QuotaExhausted},
    {kLongPeriodOn, "", "weekly*limit", QuotaExhausted},
    {kLongPeriodOn, "", "monthly*limit", QuotaExhausted},
    {kLongPeriodOn, "", "models-per-day", QuotaExhausted},
    // Azure's API Management, before whatever API: of calls, of bandwidth, of tokens.
    {kLongPeriodOn, "", "quota will be replenished", QuotaExhausted},
    {k403, "", "token quota is exceeded", QuotaExhausted},

    {kContextOn, "", "maximum context length", ContextLength},
    {kContextOn, "", "maximum prompt length", ContextLength},
    {kContextOn, "", "context length*exceed", ContextLength},
    {kContextOn, "", "exceed*context length", ContextLength},
    {kContextOn, "", "exceed*context limit", ContextLength},
    {kContextOn, "", "exceed*context size", ContextLength},
    {kContextOn, "", "context window", ContextLength},
    {kContextOn, "", "context size*exceeded", ContextLength},
    {kContextOn, "", "prompt*longer than the maximum", ContextLength},
    {kContextOn, "", "sequence length is longer than", ContextLength},
    {kContextOn, "", "prompt is too long", ContextLength},
    {kContextOn, "", "input is too long", ContextLength},
    {kContextOn, "", "input token*exceed", ContextLength},
    {kContextOn, "", "too many tokens: size limit", ContextLength},
    {kContextOn, "", "reduce the length of the messages", ContextLength},
    {kContextOn, "", "max_tokens must be at least 1, got -", ContextLength},
    {kContextOn | k403, "", "tokens*max_new_tokens` must be", ContextLength},
    {kContextOn | k403, "", "must have less than*token", ContextLength},

    {kPolicyOn, "", "content management polic", ContentPolicy},
    {kPolicyOn, "", "content filtering polic", ContentPolicy},
    {kPolicyOn, "", "content polic", ContentPolicy},
    {kPolicyOn, "", "usage polic", ContentPolicy},
    {kPolicyOn, "", "usage guideline", ContentPolicy},
    {kPolicyOn, "", "safety system", ContentPolicy},
    {kPolicyOn, "", "flagged by", ContentPolicy},
    {kPolicyOn, "", "flagged as potentially violating", ContentPolicy},

    {kCredentialOn, "", "api key not valid", Auth},
    {kCredentialOn, "", "api key*expired", Auth},
    {kCredentialOn, "", "incorrect api key", Auth},
    {kCredentialOn, "", "invalid api key", Auth},
    {kCredentialOn, "", "invalid x-api-key", Auth},
    {kCredentialOn, "", "reported as leaked", Auth},
    {kCredentialOn, "", "unregistered callers", Auth},

    {kPlaceOn, "", "location is not supported", Permission},
    {kPlaceOn, "", "country, region, or territory", Permission},
    {kCredentialOn, "", "organization has been", Permission},

    {kMissingOn, "", "model*does not exist", NotFound},
    {kMissingOn, "", "model not exist", NotFound},
    {kMissingOn, "", "not a valid model", NotFound},
    {kMissingOn, "", "model*not found", NotFound},
    {kMissingOn, "", "model*has been deprecated", NotFound},
    {kMissingOn, "", "model*no longer", NotFound},
    {kMissingOn, "", "model*was removed", NotFound},
    {kMissingOn, "", "invalid model", NotFound},
    {kMissingOn, "", "unknown model", NotFound},
    {kMissingOn, "", "model identifier is invalid", NotFound},

    {kBytesOn, "", "payload size exceeds", TooLarge},
    {kBytesOn, "", "exceeds*bytes", TooLarge},
    {kBytesOn, "", "payload too large", TooLarge},
    {kBytesOn, "", "request entity too large", TooLarge},
    {kBytesOn, "", "request too large", TooLarge},
    {k5xx, "", "too large to process", TooLarge},

    {kBusyOn, "", "overloaded", Overloaded},
    {kBusyOn, "", "over capacity", Overloaded},
    {kBusyOn, "", "at capacity", Overloaded},
    {kBusyOn, "", "capacity exceeded", Overloaded},
    {kBusyOn, "", "no capacity", Overloaded},
    {kBusyOn, "", "high demand", Overloaded},
    {kBusyOn, "", "server busy", Overloaded},
    {kBusyOn, "", "server is busy", Overloaded},
    {kBusyOn, "", "loading model", Overloaded},
    {kBusyOn, "", "model is loading", Overloaded},
    {kNone, "", "rate limit", RateLimited},
    {kNone, "", "too many requests", RateLimited},
    {kNone, "", "timed out", Timeout},

    // Words that say little more than a status would.
    {kThrottleOn, "rate_limit", "", RateLimited},
    {kThrottleOn, "rate_limited", "", RateLimited},
    {kThrottleOn, "too_many_requests", "", RateLimited},
    {kThrottleOn, "throttling", "", RateLimited},
    {k5xx | kNone, "resource_exhausted", "", RateLimited},
    {kNone, "cancelled", "", Cancelled},
    {kNone, "invalid*", "", InvalidRequest},
    {kNone, "unsupported*", "", InvalidRequest},
    {kNone, "missing*", "", InvalidRequest},
    {kNone, "bad_request", "", InvalidRequest},
    {kNone, "validation", "", InvalidRequest},
    {kNone, "failed_precondition", "", InvalidRequest},
    {kNone, "permission_denied", "", Permission},
    {kNone, "access_denied", "", Permission},
    {kNone, "forbidden", "", Permission},
    {kNone, "aborted", "", Conflict},
    // What every provider says of requests in general: known, though it says no more than the status does.
    {k400 | k422, "invalid_request_error", "", InvalidRequest},
    {k400, "invalid_argument", "", InvalidRequest},
    {k400, "validation_exception", "", InvalidRequest},
};

struct StatusRow {
  int from;
  int to;
  Class cls;
  std::string_view rule;
};
constexpr StatusRow kStatusRows[] = {
    {0, 0, ServerError, "error without a status"},
    {304, 304, None, "not modified"},
    {300, 399, InvalidRequest, "redirect"},
    {400, 400, InvalidRequest, "status 400"},
    {401, 401, Auth, "status 401"},
    {402, 402, QuotaExhausted, "status 402"},
    {403, 403, Permission, "status 403"},
    {404, 404, NotFound, "status 404"},
    {405, 406, InvalidRequest, "status 405, 406"},
    {407, 407, Auth, "status 407"},
    {408, 408, Timeout, "status 408"},
    {409, 409, Conflict, "status 409"},
    {410, 410, NotFound, "status 410"},
    {411, 412, InvalidRequest, "status 411, 412"},
    {413, 413, TooLarge, "status 413"},
    {414, 417, InvalidRequest, "status 414 to 417"},
    {421, 421, Network, "status 421"},
    {422, 422, InvalidRequest, "status 422"},
    {424, 424, ServerError, "status 424"},
    {425, 425, Network, "status 425"},
    {426, 428, InvalidRequest, "status 426, 428"},
    {429, 429, RateLimited, "status 429"},
    {431, 431, TooLarge, "status 431"},
    {451, 451, Permission, "status 451"},
    {499, 499, Cancelled, "status 499"},
    {400, 499, Unknown, "unknown 4xx"},
    {501, 501, InvalidRequest, "status 501"},
    {503, 503, Overloaded, "status 503"},
    {504, 504, Timeout, "status 504"},
    {522, 522, Timeout, "status 522"},
    {524, 524, Timeout, "status 524"},
    {529, 529, Overloaded, "status 529"},
    {500, 599, ServerError, "status 5xx"},
};

bool is_word_char(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

/// Where `piece` stands at or after `from`, not inside a longer word or number, or npos. An ending is let pass:
/// "exceed" is found in "exceeds".
std::size_t find_piece(std::string_view text, std::string_view piece, std::size_t from) {
  const bool number = !piece.empty() && piece.back() >= '0' && piece.back() <= '9';
  for (std::size_t at = text.find(piece, from); at != std::string_view::npos; at = text.find(piece, at + 1)) {
    const std::size_t behind = at + piece.size();
    const bool front = at == 0 || !is_word_char(piece.front()) || !is_word_char(text[at - 1]);
    const bool back = !number || behind == text.size() || !is_word_char(text[behind]);
    if (front && back) return at;
  }
  return std::string_view::npos;
}

bool fits(const Rule& rule, Statuses group, const ErrorFacts& facts) {
  if ((rule.statuses & group) == 0) return false;
  const auto said = [&](const std::string& word) { return rule.word.fits(word); };
  if (!rule.word.empty() && std::ranges::none_of(facts.words, said)) return false;
  return rule.text.empty() || has_text(rule.text, facts.text);
}

bool word_fits(const ExtraRule& rule, std::string_view letters) {
  if (rule.open_front && rule.open_back) return letters.find(rule.word) != std::string_view::npos;
  if (rule.open_front) return letters.ends_with(rule.word);
  return rule.open_back ? letters.starts_with(rule.word) : letters == rule.word;
}

bool fits(const ExtraRule& rule, const ErrorFacts& facts) {
  if (rule.status != 0 && rule.status != facts.answered && rule.status != facts.status) return false;
  const auto said = [&](const std::string& word) { return word_fits(rule, word); };
  if (!rule.word.empty() && std::ranges::none_of(facts.words, said)) return false;
  return rule.text.empty() || has_text(rule.text, facts.text);
}

}  // namespace

Statuses on::group_of(int status) {
  switch (status) {
    case 0:
      return kNone;
    case 400:
      return k400;
    case 401:
      return k401;
    case 402:
      return k402;
    case 403:
      return k403;
    case 404:
      return k404;
    case 409:
      return k409;
    case 412:
      return k412;
    case 413:
      return k413;
    case 422:
      return k422;
    case 429:
      return k429;
    case 498:
      return k498;
    case 503:
      return k503;
    default:
      return status >= 500 ? kOther5xx : kOther4xx;
  }
}

bool has_text(std::string_view needle, std::string_view text) {
  constexpr std::size_t kGapMax = 80;
  const std::size_t star = std::min(needle.find('*'), needle.size());
  const std::string_view piece = needle.substr(0, star);
  for (std::size_t at = find_piece(text, piece, 0); at != std::string_view::npos;
       at = find_piece(text, piece, at + 1)) {
    if (star == needle.size()) return true;
    const std::string_view rest = needle.substr(star + 1);
    const std::string_view behind = text.substr(at + piece.size());
    if (has_text(rest, behind.substr(0, kGapMax + rest.size()))) return true;
  }
  return false;
}

bool never_retryable(Class cls) {
  switch (cls) {
    case Auth:
    case Permission:
    case QuotaExhausted:
    case ContextLength:
    case ContentPolicy:
    case NotFound:
    case TooLarge:
      return true;
    default:
      return false;
  }
}

bool retryable_by_class(Class cls) {
  switch (cls) {
    case RateLimited:
    case Overloaded:
    case ServerError:
    case Timeout:
    case Network:
    case Conflict:
    case Cancelled:
    case MalformedResponse:
      return true;
    default:
      return false;
  }
}

std::optional<ExtraRule> rule_for_code(std::string_view code) {
  ExtraRule rule;
  rule.open_front = code.starts_with('*');
  rule.open_back = code.size() > 1 && code.ends_with('*');
  rule.word = letters_of(code);
  if (rule.word.empty()) return std::nullopt;
  return rule;
}

bool covers(const ExtraRule& earlier, const ExtraRule& later) {
  const auto word_within = [&] {
    if (earlier.word.empty()) return true;
    if (later.word.empty()) return false;
    if (later.open_front && !earlier.open_front) return false;
    if (later.open_back && !earlier.open_back) return false;
    return word_fits(earlier, later.word);
  };
  return (earlier.status == 0 || earlier.status == later.status) && word_within() &&
         (earlier.text.empty() || (!later.text.empty() && has_text(earlier.text, later.text)));
}

Verdict verdict_of(const RuleSet& all, const ErrorFacts& facts, bool& by_operator) {
  const Statuses group = group_of(facts.status);
  Verdict verdict;
  verdict.code = facts.code;
  by_operator = false;
  for (const ExtraRule& rule : all.extra) {
    if (!fits(rule, facts)) continue;
    by_operator = rule.retryable.has_value();
    verdict.cls = rule.cls;
    verdict.rule = rule.name;
    verdict.retryable = rule.retryable.value_or(retryable_by_class(rule.cls));
    return verdict;
  }
  for (const std::span<const Rule> rules : {all.own, std::span<const Rule>{kCommonRules}}) {
    for (const Rule& rule : rules) {
      if (!fits(rule, group, facts)) continue;
      verdict.cls = rule.cls;
      verdict.rule = rule.text.empty() ? rule.word.spelling() : rule.text;
      verdict.retryable = rule.retry == Retry::ByClass ? retryable_by_class(rule.cls) : rule.retry == Retry::Yes;
      return verdict;
    }
  }
  verdict.unexplained = !facts.words.empty() || !facts.text.empty();
  for (const StatusRow& row : kStatusRows) {
    if (facts.status < row.from || facts.status > row.to) continue;
    verdict.cls = row.cls;
    verdict.rule = row.rule;
    verdict.retryable = retryable_by_class(row.cls);
    verdict.unexplained = verdict.unexplained || row.cls == Unknown;
    return verdict;
  }
  verdict.unexplained = true;
  verdict.cls = Unknown;
  verdict.rule = "status of no family";
  return verdict;
}

Verdict verdict_of(Transport transport) {
  switch (transport) {
    case Transport::Timeout:
      return {.cls = Timeout, .retryable = true, .rule = "transport timeout"};
    case Transport::ConnectRefused:
      return {.cls = Network, .retryable = true, .rule = "connection refused"};
    case Transport::Reset:
      return {.cls = Network, .retryable = true, .rule = "connection reset"};
    case Transport::Tls:
      return {.cls = Network, .retryable = false, .rule = "TLS"};
    case Transport::Dns:
      return {.cls = Network, .retryable = true, .rule = "DNS"};
  }
  return {.cls = Network, .retryable = true, .rule = "transport"};
}

}  // namespace classifier
