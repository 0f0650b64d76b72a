#include "classifier/table_dialect.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <utility>

#include "classifier/answer_body.h"
#include "classifier/event_reader.h"
#include "classifier/families/anthropic.h"
#include "classifier/families/gemini.h"
#include "classifier/families/openai.h"
#include "classifier/json.h"
#include "classifier/request.h"

namespace classifier {

namespace {

constexpr std::size_t kModelMax = 128;

/// In the order of Class.
constexpr std::array<int, kClassNames.size()> kUsualStatuses = {
    200, 429, 503, 500, 504, 502, 401, 403, 429, 400, 400, 400, 404,   // none … not_found
    413, 409, 499, 502, 500, 429, 402, 503, 503, 503, 400, 500, 500};  // too_large … internal

bool is_success(int status) { return status >= 200 && status < 300; }

bool content_type_is(const Headers& head, std::string_view type) {
  const auto value = find(head, "content-type");
  return value && same_name(trimmed(value->substr(0, value->find(';'))), type);
}

bool matches(std::string_view pattern, std::string_view path) {
  for (;;) {
    const std::size_t star = pattern.find('*');
    if (star == std::string_view::npos) return pattern == path;
    if (!path.starts_with(pattern.substr(0, star))) return false;
    path.remove_prefix(star);
    pattern.remove_prefix(star + 1);
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      for (std::size_t at = 0; at <= path.size(); ++at) {
        const bool segment = at == 0 || path[at - 1] == '/' || pattern.starts_with('/');
        if (segment && matches(pattern, path.substr(at))) return true;
      }
      return false;
    }
    const std::size_t length = pattern.starts_with(':') ? path.rfind(':') : path.find('/');
    const std::size_t taken = std::min(length, path.size());
    if (taken == 0 || path.substr(0, taken).find('/') != std::string_view::npos) return false;
    path.remove_prefix(taken);
  }
}

bool is_below(std::span<const std::string_view> fronts, std::string_view path) {
  return std::ranges::any_of(fronts, [&](std::string_view front) {
    return path.starts_with(front) && (path.size() == front.size() || path[front.size()] == '/');
  });
}

/// What would be no printable ASCII stays as it is.
std::string percent_decoded(std::string_view text) {
  const auto digit = [&](std::size_t at) {
    const char c = at < text.size() ? lower(text[at]) : '\0';
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const int high = text[at] == '%' ? digit(at + 1) : -1;
    const int low = high >= 0 ? digit(at + 2) : -1;
    const int byte = low >= 0 ? high * 16 + low : 0;
    const bool printable = byte > ' ' && byte < 127;
    out += printable ? static_cast<char>(byte) : text[at];
    if (printable) at += 2;
  }
  return out;
}

/// A name as it may stand in a path, between any signs: all but RFC 3986's unreserved ones is encoded, and "@", which
/// Google's SDKs leave as it is, too.
std::string percent_encoded(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : name) {
    const char low = lower(c);
    const bool plain = (low >= 'a' && low <= 'z') || (c >= '0' && c <= '9') || std::string_view{"-._~@"}.contains(c);
    const auto byte = static_cast<unsigned char>(c);
    if (plain) {
      out += c;
    } else {
      out += {'%', kHex[byte >> 4U], kHex[byte & 0xFU]};
    }
  }
  return out;
}

Verdict malformed(bool retryable, std::string_view rule) {
  return {.cls = Class::MalformedResponse, .retryable = retryable, .rule = std::string{rule}, .unexplained = true};
}

/// How everybody answers it; null where that depends on whom one asks.
const Family* usual_family(Operation operation) {
  switch (operation) {
    case Operation::Chat:
    case Operation::Completions:
    case Operation::Responses:
    case Operation::Moderation:
      return &families::kOpenAi;
    case Operation::Messages:
      return &families::kAnthropic;
    case Operation::GenerateContent:
      return &families::kGemini;
    default:
      return nullptr;
  }
}

/// What a head says its body is; nothing if it is no stream, or if it does not say.
std::optional<Framing> framing_of(const Headers& head) {
  constexpr std::string_view kLines[] = {
      "application/x-ndjson", "application/ndjson", "application/stream+json", "application/jsonl"};
  if (content_type_is(head, "text/event-stream")) return Framing::Events;
  if (content_type_is(head, "application/vnd.amazon.eventstream")) return Framing::Frames;
  const bool lines = std::ranges::any_of(kLines, [&](std::string_view type) { return content_type_is(head, type); });
  return lines ? std::optional{Framing::Lines} : std::nullopt;
}

/// Headers lie: what a body is that its head does not call a stream.
bool looks_like_stream(std::string_view text, const Family& family) {
  text = trimmed(without_bom(text));
  if (text.starts_with("data:") || text.starts_with("event:")) return true;
  const std::size_t end = text.find('\n');
  if (!family.lines || end == std::string_view::npos) return false;
  return trimmed(text.substr(0, end)).ends_with('}') && trimmed(text.substr(end)).starts_with('{');
}

}  // namespace

std::string_view value_in_query(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=')
      return pair.substr(name.size() + 1);
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return {};
}

std::string_view name_before_verb(std::string_view path, std::span<const std::string_view> resources) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  // One before the last slash is no verb's.
  const std::size_t colon = path.rfind(':');
  if (colon == std::string_view::npos || colon < slash) return {};
  std::string_view resource = path.substr(0, slash);
  resource.remove_prefix(resource.rfind('/') + 1);
  if (std::ranges::find(resources, resource) == resources.end()) return {};
  return path.substr(slash + 1, colon - slash - 1);
}

std::string_view type_of(std::span<const TypeOf> types, Class cls, std::string_view otherwise) {
  const auto row = std::ranges::find(types, cls, &TypeOf::cls);
  return row == types.end() ? otherwise : row->type;
}

const Family& TableDialect::family_of(const Endpoint& endpoint) const {
  if (endpoint.family != nullptr) return *endpoint.family;
  const Family* const usual = usual_family(endpoint.operation);
  return usual != nullptr ? *usual : *table_.family;
}

Endpoint TableDialect::endpoint(std::string_view method, std::string_view path) const {
  if (method != "POST") {
    const bool safe = method == "GET" || method == "HEAD" || method == "OPTIONS";
    return {.operation = Operation::Other, .replay_safe = safe, .understood = false};
  }
  const PathRow* row = row_of(without_versions(path).rest);
  if (!row) return {};
  return {.operation = row->operation,
          .replay_safe = row->replay_safe,
          .understood = row->understood,
          .family = row->family};
}

ApiPath TableDialect::without_versions(std::string_view path) const {
  ApiPath read;
  if (path.starts_with('/')) path.remove_prefix(1);
  for (int round = 0; round < 2; ++round) {
    for (const std::string_view version : table_.versions) {
      if (!path.starts_with(version) || !path.substr(version.size()).starts_with('/')) continue;
      read.version = path.substr(0, version.size());
      path.remove_prefix(version.size() + 1);
      break;
    }
  }
  for (const std::string_view front : table_.unversioned) {
    const std::span<const std::string_view> only{&front, 1};
    if (!is_below(only, path) || path.size() == front.size()) continue;
    if (const std::string_view behind = path.substr(front.size() + 1); is_below(only, behind)) path = behind;
    read.version = {};
  }
  read.rest = path;
  return read;
}

const PathRow* TableDialect::row_of(std::string_view rest) const {
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const auto row =
      std::ranges::find_if(table_.paths, [&](const PathRow& known) { return matches(known.path, rest); });
  return row == table_.paths.end() ? nullptr : &*row;
}

ApiPath TableDialect::read_path(std::string_view path) const {
  using Known = ApiPath::Known;
  ApiPath read = without_versions(path);
  if (const PathRow* row = row_of(read.rest)) {
    read.known = row->borrowed ? Known::Borrowed : Known::Own;
  } else if (is_below(table_.resources, read.rest)) {
    read.known = Known::Beside;
  }
  if (read.known == Known::No || is_below(table_.unversioned, read.rest) || table_.versions.empty()) return read;
  read.home = table_.versions.front();
  return read;
}

RequestFacts TableDialect::read_request(const Endpoint& endpoint, std::string_view path, std::string_view query,
                                        std::string_view body) const {
  RequestFacts facts;
  facts.usage_asked = false;
  const Family& family = family_of(endpoint);
  const bool generates = endpoint.operation == Operation::Chat || endpoint.operation == Operation::Completions;
  if (!body.empty()) facts = read_request_body(body, family.streams_unasked && generates);
  if (!usage_on_request(endpoint) || !facts.stream) facts.usage_asked = true;
  const std::string named = percent_decoded(model_in(path));
  if (!named.empty()) facts.model = named.substr(0, kModelMax);
  if (facts.model.starts_with(table_.model_front)) facts.model.erase(0, table_.model_front.size());
  if (table_.read_target != nullptr) table_.read_target(path, query, facts);
  return facts;
}

bool TableDialect::usage_on_request(const Endpoint& endpoint) const {
  const bool generates = endpoint.operation == Operation::Chat || endpoint.operation == Operation::Completions;
  return generates && !table_.usage_unasked && &family_of(endpoint) == &families::kOpenAi;
}

std::optional<Edit> TableDialect::ask_for_usage(const Endpoint& endpoint, std::string_view body) const {
  return usage_on_request(endpoint) ? include_usage(body) : std::nullopt;
}

std::string_view TableDialect::model_in(std::string_view path) const {
  return table_.model_in_path != nullptr ? table_.model_in_path(path) : std::string_view{};
}

std::optional<Renamed> TableDialect::with_model(std::string_view path, std::string_view body,
                                                std::string_view model) const {
  if (model.starts_with(table_.model_front)) model.remove_prefix(table_.model_front.size());
  const std::string_view place = model_in(path);
  // Dots alone are a step in a path, however they are written.
  if (model.empty() || (!place.empty() && (model == "." || model == ".."))) return std::nullopt;
  const std::string named = percent_decoded(place);
  Renamed renamed{.path = std::string{path}};
  const bool other = !place.empty() && named != model;
  if (other) {
    renamed.path.replace(static_cast<std::size_t>(place.data() - path.data()), place.size(), percent_encoded(model));
  }
  if (!body.empty()) renamed.body = rename_model(body, {.to = model, .from = named, .front = table_.model_front});
  if (!other && renamed.body.empty()) return std::nullopt;
  return renamed;
}

Judged TableDialect::read(const Endpoint& endpoint, const ProviderAnswer& answer) const {
  if (answer.status == 0) return {verdict_of(answer.transport.value_or(Transport::Reset))};
  assert(answer.headers != nullptr);
  const RuleSet rules{answer.rules, table_.rules};
  if (!is_success(answer.status)) {
    const AnswerBody body{answer.headers, answer.body, answer.truncated};
    return {judge_error(
        rules, answer.status, answer.headers, body.readable ? body.text : std::string_view{}, answer.now)};
  }
  if (!endpoint.understood) {
    Judged judged{answer.transport ? verdict_of(*answer.transport) : Verdict{}};
    if (answer.usage_wanted) judged.usage = read_good(endpoint, answer).usage;
    return judged;
  }
  return read_good(endpoint, answer);
}

Judged TableDialect::read_good(const Endpoint& endpoint, const ProviderAnswer& answer) const {
  const AnswerBody body{answer.headers, answer.body, answer.truncated};
  const Family& family = family_of(endpoint);
  if (!body.readable || (!body.whole && !answer.transport)) return {};
  // Images and transcripts are not always JSON, and then there is nothing to look for.
  const bool lenient = endpoint.operation == Operation::Other;
  const bool stream = framing_of(*answer.headers).has_value();
  if (stream || looks_like_stream(body.text, family)) {
    const auto reader = stream_reader(endpoint, {}, *answer.headers, false, answer.rules);
    reader->feed(body.text);
    Judged judged{reader->finish(answer.transport)};
    judged.usage = reader->usage();
    if (lenient && !stream) judged.verdict = answer.transport ? verdict_of(*answer.transport) : Verdict{};
    return judged;
  }
  if (answer.transport) return {verdict_of(*answer.transport)};

  const std::string_view text = trimmed(without_bom(body.text));
  if (text.empty()) return {malformed(true, "empty answer")};
  // A login page or a wrong base URL: the next try gets the same.
  if (text.starts_with('<')) return {lenient ? Verdict{} : malformed(false, "markup in place of an answer")};
  const PaddedCopy copy{text};
  Reading reading;
  if (!balanced(text) || !family.read_answer(copy.json(), reading))
    return {lenient ? Verdict{} : malformed(true, "no whole JSON")};
  if (table_.read_head != nullptr) table_.read_head(*answer.headers, reading);
  Judged judged;
  settle_into(judged.usage, reading, family.settle);
  if (!reading.error.empty()) {
    judged.verdict =
        judge_error({answer.rules, table_.rules}, answer.status, answer.headers, reading.error, answer.now);
  } else if (reading.refusal) {
    judged.verdict = refused(*reading.refusal);
  } else if (!reading.answered && !lenient) {
    judged.verdict = malformed(true, "JSON that is no answer");
  }
  return judged;
}

bool TableDialect::is_stream(const Endpoint& endpoint, const RequestFacts& facts, const Headers& head) const {
  if (!endpoint.understood || !encoding_of(head).empty()) return false;
  if (!find(head, "content-type")) return facts.stream;
  return framing_of(head).has_value();
}

std::unique_ptr<StreamReader> TableDialect::stream_reader(const Endpoint& endpoint, const RequestFacts& facts,
                                                          const Headers& head, bool hide_usage,
                                                          std::span<const ExtraRule> rules) const {
  const Family& family = family_of(endpoint);
  const Framing usual = family.lines ? Framing::Lines : family.frames ? Framing::Frames : Framing::Events;
  return make_event_reader(
      {.family = &family,
       .rules = {rules, table_.rules},
       .head = &head,
       .hide_usage = hide_usage,
       .choices = facts.choices,
       .framing = framing_of(head).value_or(usual),
       .error_document = table_.error_document != nullptr ? table_.error_document : family.error_document,
       .dialect = this});
}

std::string TableDialect::error_body(const OwnError& error) const { return table_.error_body(error); }

Headers TableDialect::error_headers(const OwnError& error) const {
  return table_.error_headers != nullptr ? table_.error_headers(error) : Headers{};
}

std::string TableDialect::error_event(const Endpoint& endpoint, const OwnError& error) const {
  return table_.error_event(endpoint, error);
}

std::string_view TableDialect::heartbeat(const Endpoint& endpoint) const { return table_.heartbeat(endpoint); }

int TableDialect::status_of(Class cls) const {
  for (const StatusOf& row : table_.statuses) {
    if (row.cls == cls) return row.status;
  }
  return kUsualStatuses[static_cast<std::size_t>(cls)];
}

}  // namespace classifier
