#include "gateway/webhook_sender.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <utility>

#include "classifier/retry_after.h"
#include "classifier/rules.h"

namespace gateway {
namespace {

using classifier::Class;
using std::chrono::milliseconds;
using Telling = WebhookResult::Telling;

constexpr std::size_t kBodyRead = 64 * 1024;
constexpr std::size_t kUrlMax = 2'048;
constexpr milliseconds kBase{5'000};
constexpr milliseconds kCap{300'000};
constexpr milliseconds kInAll{24 * 3'600'000};
constexpr milliseconds kHintSpreadMin{1'000};

/// What stands before a path: scheme, host and port.
struct Place {
  bool tls = true;
  std::string host{};  // In small letters; IPv6 without brackets.
  int port = 0;        // 0: none was given.
  bool literal = false;
  [[nodiscard]] bool is_local() const {
    return host == "localhost" || (literal && (host.starts_with("127.") || host == "::1"));
  }
  [[nodiscard]] int port_meant() const { return port != 0 ? port : tls ? 443 : 80; }
};

bool is_address(const std::string& host, int family) {
  std::array<std::uint8_t, 16> bytes{};
  return inet_pton(family, host.c_str(), bytes.data()) == 1;
}

/// The one spelling of an address, so that two of them can be compared.
std::string canonical6(const std::string& host) {
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_pton(AF_INET6, host.c_str(), &address);
  return inet_ntop(AF_INET6, &address, text.data(), text.size());
}

/// "host", "host:8443", "[::1]:8443". Strict: what another reader could take for another host is nothing.
std::optional<Place> place_of(std::string_view authority) {
  Place place;
  std::string_view rest;
  if (authority.starts_with('[')) {
    const std::size_t close = authority.find(']');
    if (close == authority.npos) return std::nullopt;
    place.host = authority.substr(1, close - 1);
    if (!is_address(place.host, AF_INET6)) return std::nullopt;
    place.host = canonical6(place.host);
    place.literal = true;
    rest = authority.substr(close + 1);
  } else {
    const std::size_t colon = std::min(authority.find(':'), authority.size());
    for (const char c : authority.substr(0, colon)) place.host += classifier::lower(c);
    rest = authority.substr(colon);
    const auto fits = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    };
    if (place.host.empty() || place.host.front() == '.' || place.host.back() == '.' || place.host.contains("..") ||
        !std::ranges::all_of(place.host, fits))
      return std::nullopt;
    place.literal = is_address(place.host, AF_INET);
    // "127.1", "0x7f.1", "2130706433": addresses to some resolvers, names to us.
    const std::string last = place.host.substr(place.host.rfind('.') + 1);
    if (!place.literal && (last.starts_with("0x") || last.find_first_not_of("0123456789") == last.npos))
      return std::nullopt;
  }
  if (rest.empty()) return place;
  if (rest.size() < 2 || rest.size() > 6 || rest.front() != ':') return std::nullopt;
  const auto read = std::from_chars(rest.data() + 1, rest.data() + rest.size(), place.port);
  if (read.ec != std::errc{} || read.ptr != rest.data() + rest.size() || place.port < 1 || place.port > 65'535)
    return std::nullopt;
  return place;
}

/// True: https. Takes the scheme off `text`.
std::optional<bool> take_scheme(std::string_view& text) {
  for (const auto& [scheme, tls] : {std::pair{std::string_view{"https://"}, true}, {"http://", false}}) {
    if (text.size() < scheme.size() || !classifier::same_name(text.substr(0, scheme.size()), scheme)) continue;
    text.remove_prefix(scheme.size());
    return tls;
  }
  return std::nullopt;
}

struct Allowed {
  Place place{};
  bool below = false;  // "*.": all hosts below it.
  bool plain = false;  // "http://".
};

std::optional<Allowed> read_entry(std::string_view entry) {
  Allowed allowed;
  if (const auto tls = take_scheme(entry)) allowed.plain = !*tls;
  if (entry.starts_with("*.")) {
    allowed.below = true;
    entry.remove_prefix(2);
  }
  auto place = place_of(entry);
  if (!place) return std::nullopt;
  if (allowed.below && (place->literal || allowed.plain || place->host.find('.') == std::string::npos))
    return std::nullopt;
  if (allowed.plain && place->port == 0) return std::nullopt;
  allowed.place = std::move(*place);
  return allowed;
}

bool allows(const Allowed& allowed, const Place& asked) {
  const Place& place = allowed.place;
  if (allowed.plain && asked.tls) return false;
  if (!asked.tls && !allowed.plain && !place.is_local()) return false;
  if (place.port != 0 && place.port != asked.port_meant()) return false;
  if (!allowed.below) return place.host == asked.host;
  return !asked.literal && asked.host.size() > place.host.size() + 1 && asked.host.ends_with("." + place.host);
}

std::string base_url_of(const Place& place) {
  std::string url = place.tls ? "https://" : "http://";
  url += place.host.contains(':') ? "[" + place.host + "]" : place.host;
  if (place.port != 0) url += ":" + std::to_string(place.port);
  return url;
}

Class class_of(int status) {
  switch (status) {
    case 401:
      return Class::Auth;
    case 403:
      return Class::Permission;
    case 404:
    case 410:
      return Class::NotFound;
    case 408:
    case 504:
      return Class::Timeout;
    case 409:
      return Class::Conflict;
    case 413:
      return Class::TooLarge;
    case 421:
    case 425:
      return Class::Network;
    case 429:
      return Class::RateLimited;
    case 503:
      return Class::Overloaded;
    default:
      if (status >= 500 && status < 600) return Class::ServerError;
      return status >= 300 && status < 500 ? Class::InvalidRequest : Class::MalformedResponse;
  }
}

WebhookResult failed(Class cls, std::string why) {
  WebhookResult result;
  result.telling = classifier::retryable_by_class(cls) ? Telling::Again : Telling::GiveUp;
  result.cls = cls;
  result.why = std::move(why);
  return result;
}

WebhookResult refused(std::string why) {
  WebhookResult result = failed(Class::Permission, std::move(why));
  result.telling = Telling::GiveUp;
  return result;
}

/// Without a head.
WebhookResult unanswered(Exchange::Got got, const Exchange& exchange) {
  if (got == Exchange::Got::TimedOut) return failed(Class::Timeout, "no answer in time");
  if (got == Exchange::Got::Stopped) {
    WebhookResult result = failed(Class::Cancelled, "stopped");
    result.telling = Telling::Stopped;
    return result;
  }
  if (exchange.failure() == kAddressRefused) return refused(std::string{kAddressRefused});
  const Class cls = exchange.transport() == classifier::Transport::Timeout ? Class::Timeout : Class::Network;
  return failed(cls, std::string{exchange.failure()});
}

WebhookResult answered(const Exchange& exchange, WallTime wall_now) {
  const int status = exchange.status();
  WebhookResult result;
  if (status >= 200 && status < 300) {
    result.telling = Telling::Told;
  } else if (status >= 300 && status < 400) {
    result = failed(class_of(status),
                    "the receiver redirects (" + std::to_string(status) + "), and redirects are not followed");
  } else if (status == 410) {
    result = failed(class_of(status), "the receiver wants no more of them (410)");
  } else {
    result = failed(class_of(status), "the receiver answered " + std::to_string(status));
    classifier::HintSources sources;
    sources.headers = &exchange.headers();
    sources.now = wall_now;
    if (result.telling == Telling::Again) result.retry_after = classifier::retry_after(sources);
  }
  result.status = status;
  return result;
}

}  // namespace

std::string problem_of_allowed_host(std::string_view entry) {
  if (read_entry(entry)) return {};
  return "must be a host (hooks.example.com), a host and port (hooks.example.com:8443), all hosts below one "
         "(*.example.com), or, for plain http, http://host:port";
}

std::expected<WebhookTarget, std::string> webhook_target(std::string_view url,
                                                         const std::vector<std::string>& allow_hosts,
                                                         const std::vector<std::string>& allow_private_hosts) {
  const auto odd = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || c == '\\'; };
  if (url.size() > kUrlMax) return std::unexpected("the webhook's URL is longer than 2048 bytes");
  if (std::ranges::any_of(url, odd) || url.contains('#'))
    return std::unexpected("the webhook's URL has a character that must be percent-encoded");
  const auto tls = take_scheme(url);
  if (!tls) return std::unexpected("the webhook's URL must begin with https://");
  const std::size_t end = std::min(url.find_first_of("/?"), url.size());
  if (url.substr(0, end).contains('@')) return std::unexpected("the webhook's URL must not hold a user or password");
  auto place = place_of(url.substr(0, end));
  if (!place) return std::unexpected("the webhook's URL has no host that can be understood");
  place->tls = *tls;

  WebhookTarget target;
  target.base_url = base_url_of(*place);
  target.target = url.substr(end);
  if (!target.target.starts_with('/')) target.target.insert(0, "/");
  bool found = false;
  for (const std::string& entry : allow_hosts) {
    const auto allowed = read_entry(entry);
    if (!allowed || !allows(*allowed, *place)) continue;
    found = true;
    if (!allowed->below && (allowed->place.literal || allowed->place.host == "localhost"))
      target.addresses = AddressPolicy::Any;
  }
  if (!place->literal && std::ranges::find(allow_private_hosts, place->host) != allow_private_hosts.end()) {
    found = true;
    if (target.addresses == AddressPolicy::Public) target.addresses = AddressPolicy::Inside;
  }
  if (found) return target;
  return std::unexpected("the webhook's host is not among webhooks.allow_hosts" +
                         std::string{*tls ? "" : " for plain http"});
}

task<WebhookResult> send_webhook(Upstream& upstream, Webhook webhook, WallTime wall_now, TimePoint until,
                                 Signal& signal) {
  assert(webhook.options != nullptr);
  auto to = webhook_target(webhook.url, webhook.options->allow_hosts, webhook.options->allow_private_hosts);
  if (!to) co_return refused(std::move(to.error()));

  auto wire = std::make_shared<WireOptions>();
  wire->base_url = std::move(to->base_url);
  wire->ca_file = webhook.options->ca_file;
  wire->connect_timeout = webhook.options->connect_timeout;
  wire->addresses = to->addresses;
  Outbound request;
  request.method = "POST";
  request.target = std::move(to->target);
  request.headers = std::move(webhook.headers);
  if (!classifier::find(request.headers, "content-type"))
    request.headers.push_back({"content-type", "application/json"});
  if (!classifier::find(request.headers, "user-agent"))
    request.headers.push_back({"user-agent", "callgate/" CALLGATE_VERSION});
  request.body = std::make_shared<const std::string>(std::move(webhook.body));
  request.wire = std::move(wire);

  const std::unique_ptr<Exchange> exchange = upstream.start(std::move(request), signal);
  const Exchange::Got head = co_await exchange->head(until);
  if (head != Exchange::Got::Head) co_return unanswered(head, *exchange);
  WebhookResult result = answered(*exchange, wall_now);
  // Read to its end its connection can be used again; whatever becomes of it, what the status said holds.
  std::string part;
  for (std::size_t dropped = 0; dropped < kBodyRead; dropped += part.size()) {
    part.clear();
    if (co_await exchange->read(part, until) != Exchange::Got::Data) break;
  }
  co_return result;
}

std::optional<WallTime> next_try(const TriedWebhook& tried, WallTime now, double roll) {
  assert(tried.attempts >= 1 && roll >= 0.0 && roll < 1.0);
  const std::int64_t doublings = std::int64_t{1} << std::min(tried.attempts - 1, 20);
  milliseconds from{0};
  milliseconds spread = std::min(kCap, kBase * doublings);
  if (tried.retry_after) {
    from = std::min(*tried.retry_after, kInAll + milliseconds{1});  // Longer is too long, and must not overflow.
    spread = std::clamp(from / 10, kHintSpreadMin, kCap);
  }
  const milliseconds jitter{static_cast<std::int64_t>(roll * static_cast<double>(spread.count()))};
  const WallTime when = now + from + jitter;
  if (when > tried.first + kInAll) return std::nullopt;
  return when;
}

}  // namespace gateway
