#include "classifier/error_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include <nlohmann/json.hpp>

#include "classifier/json.h"
#include "classifier/json_depth.h"
#include "classifier/sse.h"

namespace classifier {

namespace {

using Json = nlohmann::json;

// Real error bodies are far smaller; what is larger is judged by its status and beginning.
constexpr std::size_t kDomMax = std::size_t{1} << 20U;
constexpr std::size_t kTextMax = 4'096;
constexpr std::size_t kWordMax = 128;
constexpr std::size_t kWordsMax = 32;
constexpr int kNestingMax = 3;

bool is_status(std::int64_t number) { return number >= 100 && number <= 599; }

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

const Json* member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string_view text_of(const Json& value) {
  return value.is_string() ? std::string_view{value.get_ref<const std::string&>()} : std::string_view{};
}

Json parsed(std::string_view text) {
  text = trimmed(without_bom(text));
  if (text.empty() || text.size() > kDomMax || (text[0] != '{' && text[0] != '[' && text[0] != '"')) return {};
  // What copies or writes a document calls itself once a level.
  if (!is_shallow(text)) return {};
  Json json = Json::parse(text, nullptr, false);
  // A prompt cut in the middle of a character makes the echo no UTF-8, yet its code is worth reading.
  if (json.is_discarded()) json = Json::parse(as_utf8(text), nullptr, false);
  return json.is_discarded() ? Json{} : json;
}

/// Collects while walking; the outer object comes first, so its code wins.
class Reader {
 public:
  void document(std::string_view body) {
    const Json json = parsed(body);
    if (!json.is_null()) return root(json, 0);
    // Pages are written for people; and JSON too large to read may hold a whole answer.
    const std::string_view text_body = trimmed(without_bom(body));
    if (text_body.starts_with('<') || text_body.size() > kDomMax) return;
    if (text_body.starts_with("event:") || text_body.starts_with("data:")) return event(text_body);
    add_text(text_body);
  }
  void add_word(std::string_view word) {
    std::string letters = letters_of(word.substr(0, kWordMax));
    if (!letters.empty() && facts.words.size() < kWordsMax) facts.words.push_back(std::move(letters));
  }

  ErrorFacts facts{};
  std::optional<int> status{};
  std::string code{};
  std::string type{};
  std::string text{};

 private:
  /// An answer with an error's status, written as the one event of a stream.
  void event(std::string_view body) {
    std::string scratch;
    const EventText first = read_event(body, scratch);
    if (const Json json = parsed(first.data); !json.is_null()) return root(json, 0);
    add_text(first.data);
  }

  void root(const Json& json, int depth) {
    if (json.is_string()) {
      if (depth < kNestingMax) add_message(text_of(json), depth + 1);
      return;
    }
    if (json.is_array()) {
      // A stream in one array may have begun well.
      const auto error =
          std::ranges::find_if(json, [](const Json& element) { return member(element, "error") != nullptr; });
      const auto chosen =
          error != json.end() ? error : std::ranges::find_if(json, [](const Json& e) { return e.is_object(); });
      if (chosen != json.end()) root(*chosen, depth);
      return;
    }
    if (!json.is_object()) return;
    if (const Json* error = member(json, "error")) {
      error_value(*error, depth);
      // What stands beside it: {"error":"text","code":"sentence"}, {"type":"error","error":{…}}.
      if (error->is_string()) fields(json, depth);
      return;
    }
    if (const Json* response = member(json, "response")) {
      if (const Json* error = member(*response, "error")) return error_value(*error, depth);
    }
    if (const Json* choices = member(json, "choices"); choices != nullptr && choices->is_array()) {
      for (const Json& choice : *choices) {
        if (const Json* error = member(choice, "error")) return error_value(*error, depth);
      }
    }
    fields(json, depth);
  }

  void error_value(const Json& error, int depth) {
    if (error.is_string()) return add_message(text_of(error), depth);
    if (error.is_array()) return root(error, depth);
    // {"error":{"error":{…}}} comes from gateways that wrap what they got.
    if (const Json* inner = member(error, "error"); inner != nullptr && depth < kNestingMax)
      error_value(*inner, depth + 1);
    fields(error, depth);
  }

  void fields(const Json& object, int depth) {
    constexpr std::array<std::string_view, 7> kCodes = {
        "code", "status", "status_code", "statusCode", "raw_status_code", "originalStatusCode", "reason"};
    for (const std::string_view key : kCodes) {
      if (const Json* value = member(object, key)) code_value(*value, key != "reason");
    }
    for (const std::string_view key : {"type", "__type", "error_type", "errorCode", "error_code"}) {
      if (const Json* value = member(object, key)) type_value(text_of(*value));
    }
    for (const std::string_view key :
         {"message", "Message", "msg", "title", "detail", "error_description", "error_message", "raw"}) {
      if (const Json* value = member(object, key)) message_value(*value, depth);
    }
    if (const Json* errors = member(object, "errors"); errors != nullptr && errors->is_array()) {
      for (const Json& error : *errors) each_reason(error);
    }
    if (const Json* details = member(object, "details")) {
      if (details->is_array()) {
        for (const Json& detail : *details) google_detail(detail);
      } else if (details->is_object() && depth < kNestingMax) {
        fields(*details, depth + 1);
      }
    }
    for (const std::string_view key : {"innererror", "inner_error", "metadata"}) {
      const Json* inner = member(object, key);
      if (inner == nullptr || !inner->is_object() || depth >= kNestingMax) continue;
      fields(*inner, depth + 1);
      if (member(*inner, "flagged_input") != nullptr) add_word("flagged_input");
      if (const Json* source = member(*inner, "limit_source")) add_word(text_of(*source));
    }
  }

  void code_value(const Json& value, bool may_be_status) {
    std::optional<std::int64_t> number;
    if (value.is_number_integer()) number = value.get<std::int64_t>();
    const std::string word = number ? std::to_string(*number) : std::string{text_of(value)};
    if (!number) number = whole_number(word);
    if (number && is_status(*number) && may_be_status) {
      if (!status) status = static_cast<int>(*number);
      return;
    }
    add_word(word);
    if (code.empty() && !word.empty()) code = word;
  }

  void type_value(std::string_view word) {
    // AWS: "com.amazon.coral.service#ThrottlingException".
    if (const std::size_t hash = word.rfind('#'); hash != std::string_view::npos) word.remove_prefix(hash + 1);
    add_word(word);
    if (type.empty()) type = word;
  }

  void message_value(const Json& value, int depth) {
    if (value.is_string()) return add_message(text_of(value), depth);
    if (depth >= kNestingMax) return;
    if (value.is_object()) {
      if (member(value, "error") != nullptr) return root(value, depth + 1);
      return fields(value, depth + 1);
    }
    if (value.is_array()) {
      // FastAPI's list; what is wrong with a field is told by `msg`, its `type` is of pydantic's making.
      for (const Json& element : value) {
        if (const Json* message = member(element, "msg")) add_text(text_of(*message));
      }
    }
  }

  void add_message(std::string_view message, int depth) {
    if (depth < kNestingMax) {
      if (const Json inner = parsed(message); !inner.is_null()) return root(inner, depth + 1);
    }
    add_text(message);
  }

  void add_text(std::string_view message) {
    if (text.size() >= kTextMax) return;
    if (!text.empty()) text += '\n';
    text += message.substr(0, kTextMax);
  }

  void each_reason(const Json& error) {
    if (error.is_string()) return add_text(text_of(error));
    if (const Json* reason = member(error, "reason")) add_word(text_of(*reason));
    if (const Json* message = member(error, "message")) add_text(text_of(*message));
  }

  /// Read by what is there, not by @type: that key has been seen misspelt.
  void google_detail(const Json& detail) {
    if (const Json* reason = member(detail, "reason")) {
      add_word(text_of(*reason));
      if (code.empty()) code = text_of(*reason);
    }
    if (const Json* delay = member(detail, "retryDelay"); delay != nullptr && facts.retry_delay.empty()) {
      facts.retry_delay = text_of(*delay).substr(0, kWordMax);
    }
    if (const Json* metadata = member(detail, "metadata")) quota(*metadata, "quota_limit", "quota_limit_value");
    if (const Json* violations = member(detail, "violations"); violations != nullptr && violations->is_array()) {
      for (const Json& violation : *violations) quota(violation, "quotaId", "quotaValue");
    }
  }

  void quota(const Json& object, std::string_view id_key, std::string_view value_key) {
    const Json* id = member(object, id_key);
    if (id != nullptr && (text_of(*id).contains("PerDay") || text_of(*id).contains("Daily")))
      add_word("quota_per_day");
    const Json* value = member(object, value_key);
    if (value == nullptr) return;
    if (text_of(*value) == "0" || (value->is_number() && value->get<double>() == 0.0)) add_word("quota_of_zero");
  }
};

/// Which status to judge by. A number inside the body never makes a 4xx something that passes.
int effective_status(int status, std::optional<int> inner) {
  const bool success = status >= 200 && status < 300;
  if (!inner || *inner < 300) return success ? 0 : status;
  if (success || status >= 500) return *inner;
  if (status < 400) return status;
  constexpr std::array<int, 5> kPassing = {408, 409, 425, 429, 499};
  const bool lasting = *inner >= 400 && *inner < 500 && std::ranges::find(kPassing, *inner) == kPassing.end();
  return lasting ? *inner : status;
}

/// At most 64 bytes of [A-Za-z0-9_.-]: it goes into logs.
std::string tame(std::string_view word) {
  constexpr std::size_t kCodeMax = 64;
  std::string out;
  for (const char c : word.substr(0, kCodeMax)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
                       c == '.' || c == '-';
    out += plain ? c : '_';
  }
  return out;
}

}  // namespace

std::string own_words(std::string_view text) {
  std::string out;
  text = text.substr(0, kTextMax);
  out.reserve(text.size());
  const auto is_alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  std::size_t at = 0;
  while (at < text.size()) {
    const char c = text[at];
    // An apostrophe inside a word opens nothing.
    const bool opens = (c == '"' || c == '`' || c == '\'') && (at == 0 || !is_alnum(text[at - 1]));
    if (opens) {
      std::size_t close = text.find(c, at + 1);
      while (c == '\'' && close != std::string_view::npos && close + 1 < text.size() && is_alnum(text[close + 1])) {
        close = text.find(c, close + 1);
      }
      if (close != std::string_view::npos) {
        const std::string_view inside = text.substr(at + 1, close - at - 1);
        if (inside.find_first_of(" \n") != std::string_view::npos) {
          out += c;
          out += c;
          at = close + 1;
          continue;
        }
      }
    }
    out += lower(c);
    ++at;
  }
  return out;
}

bool asks_more_than_limit(std::string_view lower_text) {
  const auto number_behind = [&](std::string_view word) -> std::optional<std::int64_t> {
    const std::size_t at = lower_text.find(word);
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view rest = lower_text.substr(at + word.size());
    return whole_number(rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size())));
  };
  const auto limit = number_behind("limit ");
  const auto requested = number_behind("requested ");
  return limit && requested && *requested > *limit;
}

ErrorFacts read_error(int status, const Headers* headers, std::string_view body) {
  Reader reader;
  if (headers != nullptr) {
    if (const auto header = find(*headers, "x-amzn-errortype")) {
      const std::string_view type = header->substr(0, std::min(header->find(':'), header->size()));
      reader.add_word(type);
      reader.type = type;
    }
  }
  reader.document(body);
  ErrorFacts facts = std::move(reader.facts);
  facts.answered = status;
  facts.status = effective_status(status, reader.status);
  facts.text = own_words(reader.text);
  if (asks_more_than_limit(facts.text)) facts.words.push_back(letters_of("request_above_limit"));
  // A sentence is no code, and may quote a key.
  const bool sentence = reader.code.find(' ') != std::string::npos;
  facts.code = tame(!reader.code.empty() && !sentence ? reader.code : reader.type);
  if (facts.code.empty() && reader.status) facts.code = std::to_string(*reader.status);
  return facts;
}

SaidError said_error(std::string_view body) {
  Reader reader;
  reader.document(body);
  SaidError said{.status = reader.status.value_or(0),
                 .message = std::move(reader.text),
                 .type = std::move(reader.type),
                 .code = std::move(reader.code)};
  if (said.message.empty()) said.message = "the provider reported an error and did not say which";
  return said;
}

}  // namespace classifier
