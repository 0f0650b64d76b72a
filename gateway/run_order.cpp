#include "gateway/run_order.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "classifier/headers.h"
#include "classifier/retry_after.h"
#include "gateway/config_values.h"
#include "gateway/json_tree.h"

namespace gateway {
namespace {

using Kind = JsonValue::Kind;

constexpr std::array<std::string_view, 14> kMembers = {"path",
                                                       "method",
                                                       "headers",
                                                       "body",
                                                       "body_text",
                                                       "queue",
                                                       "key",
                                                       "lane",
                                                       "run_id",
                                                       "deadline",
                                                       "labels",
                                                       "ordering_key",
                                                       "not_before",
                                                       "webhook"};
constexpr std::size_t kOrderingKeyMax = 255;
constexpr std::size_t kUrlMax = 2'048;
constexpr std::size_t kPathMax = 8'192;
constexpr std::size_t kHeadersMax = 64;

std::string quoted(std::string_view text) {
  std::string shown = "\"";
  for (const char c : text.substr(0, 64)) shown += (c >= ' ' && c < 127) ? c : '?';
  return shown + '"';
}

bool is_token(std::string_view text) {
  constexpr std::string_view kMore = "!#$%&'*+-.^_`|~";
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || kMore.contains(c);
  });
}

bool is_field_value(std::string_view text) {
  return text.size() <= 8'192 && std::ranges::all_of(text, [](char c) { return (c >= ' ' && c < 127) || c == '\t'; });
}

/// Ours are members of the order.
bool is_not_the_providers(std::string_view name) {
  std::string lower{name};
  std::ranges::transform(lower, lower.begin(), [](char c) { return classifier::lower(c); });
  if (lower.starts_with("callgate-")) return true;
  return lower == "idempotency-key" || lower == "prefer";
}

/// Of one connection alone (RFC 9110 §7.6.1), or of how a body is framed there; a run has its own when it is made.
bool is_of_the_connection(std::string_view name) {
  constexpr std::array<std::string_view, 13> kNames = {"host",
                                                       "content-length",
                                                       "transfer-encoding",
                                                       "connection",
                                                       "proxy-connection",
                                                       "proxy-authenticate",
                                                       "proxy-authorization",
                                                       "upgrade",
                                                       "http2-settings",
                                                       "te",
                                                       "trailer",
                                                       "expect",
                                                       "keep-alive"};
  return std::ranges::any_of(kNames, [&](std::string_view one) { return classifier::same_name(name, one); });
}

/// What asks for a tunnel, or for the request's own echo with the key in it.
bool is_no_call(std::string_view method) {
  return classifier::same_name(method, "CONNECT") || classifier::same_name(method, "TRACE") ||
         classifier::same_name(method, "TRACK");
}

class Reader {
 public:
  Reader(std::string_view text, const JsonTree& tree) : text_(text), tree_(tree) {}

  std::expected<RunOrder, std::string> read() {
    if (tree_[0].kind != Kind::Object) return std::unexpected{"the body must be a JSON object"};
    for (std::uint32_t at = 1; at < tree_[0].end; at = tree_[at].end) {
      const std::string name = unescaped(tree_[at].key);
      if (std::ranges::find(kMembers, name) != kMembers.end()) continue;
      const std::string meant = nearest(name, {kMembers.begin(), kMembers.end()});
      return std::unexpected{"there is no member " + quoted(name) +
                             (meant.empty() ? std::string{} : "; did you mean " + quoted(meant) + "?")};
    }
    Inbound& request = order_.request;
    request.target = text("path", kPathMax);
    request.method = text("method", 16);
    if (request.method.empty()) request.method = "POST";
    if (wrong_.empty() && request.target.empty()) wrong_ = "path is missing: where the call is to be sent to";
    const bool plain =
        std::ranges::all_of(request.target, [](char c) { return c > ' ' && c < 127 && c != '#' && c != '"'; });
    if (wrong_.empty() && (!request.target.starts_with('/') || request.target.starts_with("//") || !plain))
      wrong_ = "path must be a path with its query, such as \"/openai/v1/chat/completions\"";
    if (wrong_.empty() && request.target.starts_with("/callgate/"))
      wrong_ = "path must be one of a provider, not of callgate's own API";
    if (wrong_.empty() && !is_token(request.method)) wrong_ = "method must be an HTTP method, such as \"POST\"";
    if (wrong_.empty() && is_no_call(request.method))
      wrong_ = "method must not be " + quoted(request.method) + ", which no provider's API has";
    headers();
    body();
    ours("queue", "Callgate-Queue");
    ours("key", "Idempotency-Key");
    ours("lane", "Callgate-Lane");
    ours("run_id", "Callgate-Run-Id");
    ours("deadline", "Callgate-Deadline");
    labels();
    order_.ordering_key = text("ordering_key", kOrderingKeyMax);
    if (wrong_.empty() && !is_field_value(order_.ordering_key))
      wrong_ = "ordering_key must be at most 255 printable ASCII characters";
    order_.webhook = text("webhook", kUrlMax);
    if (const std::string when = text("not_before", 64); wrong_.empty() && !when.empty()) {
      const auto instant = classifier::parse_rfc3339(when);
      if (!instant)
        wrong_ = "not_before must be a time as RFC 3339 has it, such as \"2026-12-01T06:00:00Z\"";
      else
        order_.not_before_ms = std::chrono::floor<std::chrono::milliseconds>(*instant).time_since_epoch().count();
    }
    if (!wrong_.empty()) return std::unexpected{wrong_};
    return std::move(order_);
  }

 private:
  std::string text(std::string_view name, std::size_t most) {
    const std::uint32_t at = tree_.member(0, name);
    if (at == 0 || tree_[at].kind == Kind::Null || !wrong_.empty()) return {};
    if (tree_[at].kind != Kind::String) {
      wrong_ = std::string{name} + " must be a text";
      return {};
    }
    std::string said = unescaped(tree_[at].text);
    if (said.size() > most)
      wrong_ = std::string{name} + " must be no longer than " + std::to_string(most) + " bytes";
    else if (said.empty())
      wrong_ = std::string{name} + " is empty; leave it out instead";
    return said;
  }

  void ours(std::string_view name, std::string_view header) {
    std::string said = text(name, 1'024);
    if (said.empty() || !wrong_.empty()) return;
    if (!is_field_value(said))
      wrong_ = std::string{name} + " must be printable ASCII";
    else
      order_.request.headers.push_back({std::string{header}, std::move(said)});
  }

  std::uint32_t object(std::string_view name) {
    const std::uint32_t at = tree_.member(0, name);
    if (at == 0 || tree_[at].kind == Kind::Null || !wrong_.empty()) return 0;
    if (tree_[at].kind == Kind::Object) return at;
    wrong_ = std::string{name} + " must be an object of texts";
    return 0;
  }

  void headers() {
    const std::uint32_t all = object("headers");
    if (all == 0) return;
    if (tree_[all].count > kHeadersMax) wrong_ = "headers has too many members";
    for (std::uint32_t at = all + 1; at < tree_[all].end && wrong_.empty(); at = tree_[at].end) {
      std::string name = unescaped(tree_[at].key);
      if (tree_[at].kind != Kind::String || !is_token(name)) {
        wrong_ = "headers must be an object of texts, each under a header's name; " + quoted(name) + " is none";
        return;
      }
      std::string value = unescaped(tree_[at].text);
      if (!is_field_value(value)) {
        wrong_ = "headers: the value of " + quoted(name) + " cannot stand in a header";
      } else if (is_of_the_connection(name)) {
        wrong_ = "headers: " + quoted(name) +
                 " is of one connection alone, and a run is sent over another; leave it out (callgate sets what the "
                 "provider needs)";
      } else if (is_not_the_providers(name)) {
        wrong_ = "headers: " + quoted(name) +
                 " is not the provider's; what callgate should know stands in members of their own "
                 "(queue, key, lane, run_id, deadline, labels)";
      } else {
        order_.request.headers.push_back({std::move(name), std::move(value)});
      }
    }
  }

  void labels() {
    const std::uint32_t all = object("labels");
    if (all == 0) return;
    std::string joined;
    for (std::uint32_t at = all + 1; at < tree_[all].end && wrong_.empty(); at = tree_[at].end) {
      const std::string name = unescaped(tree_[at].key);
      const std::string value = tree_[at].kind == Kind::String ? unescaped(tree_[at].text) : std::string{};
      if (tree_[at].kind != Kind::String || name.find_first_of(",=") != name.npos || value.find(',') != value.npos ||
          !is_field_value(name) || !is_field_value(value))
        wrong_ = "labels must be an object of short texts; " + quoted(name) + " is none";
      joined += (joined.empty() ? "" : ",") + name + '=' + value;
    }
    if (!joined.empty()) order_.request.headers.push_back({"Callgate-Labels", std::move(joined)});
  }

  void body() {
    const std::uint32_t json = tree_.member(0, "body");
    const std::uint32_t text_at = tree_.member(0, "body_text");
    if (!wrong_.empty() || (json == 0 && text_at == 0)) return;
    if (json != 0 && text_at != 0) {
      wrong_ = "body and body_text are both given; a request has one body";
      return;
    }
    auto sent = std::make_shared<std::string>();
    if (text_at != 0) {
      if (tree_[text_at].kind != Kind::String) {
        wrong_ = "body_text must be a text";
        return;
      }
      *sent = unescaped(tree_[text_at].text);
    } else if (tree_[json].kind == Kind::String) {
      wrong_ = "body must be a JSON value as it is to be sent; a text that is the whole body is body_text";
      return;
    } else {
      const std::string_view raw = raw_of(json);
      *sent = raw;
    }
    sent->reserve(sent->size() + 64);  // As a body has that came by itself.
    if (!classifier::find(order_.request.headers, "content-type"))
      order_.request.headers.push_back({"Content-Type", "application/json"});
    order_.request.body = std::move(sent);
  }

  /// All bytes of a value.
  [[nodiscard]] std::string_view raw_of(std::uint32_t index) const {
    const JsonValue& value = tree_[index];
    switch (value.kind) {
      case Kind::Number:
        return value.text;
      case Kind::True:
        return "true";
      case Kind::False:
        return "false";
      case Kind::Object:
      case Kind::Array:
        break;
      default:
        return "null";
    }
    // To the bracket that closes it; the text is known to be good.
    std::size_t depth = 0;
    bool quoted_text = false;
    for (std::size_t at = value.at; at < text_.size(); ++at) {
      const char c = text_[at];
      if (quoted_text) {
        if (c == '\\') ++at;
        if (c == '"') quoted_text = false;
        continue;
      }
      if (c == '"') quoted_text = true;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return text_.substr(value.at, at + 1 - value.at);
    }
    return {};
  }

  std::string_view text_;
  const JsonTree& tree_;
  RunOrder order_{};
  std::string wrong_{};
};

}  // namespace

std::expected<RunOrder, std::string> read_run_order(std::string_view body) {
  const auto tree = JsonTree::read(body);
  if (!tree) {
    const std::string where = tree.error().pointer.empty() ? "the body" : tree.error().pointer;
    return std::unexpected{where + " " + tree.error().message + " (byte " + std::to_string(tree.error().at) + ")"};
  }
  return Reader{body, *tree}.read();
}

}  // namespace gateway
