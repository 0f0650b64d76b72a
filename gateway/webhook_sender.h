#pragma once
// How is the end of a run told to a receiver, and when is it told again?
//
//   the receiver …                                   Telling
//   -----------------------------------------------  -------------------------------------------------------------
//   answers 2xx                                      Told
//   answers 410                                      GiveUp: it does not want to hear of us any more
//   answers anything else; says nothing; is away     by the class of that: Again if it is retryable, else GiveUp
//   redirects                                        GiveUp: where it leads nobody has allowed
//   is not among webhooks.allow_hosts and            GiveUp, and nothing was sent
//   allow_private_hosts, or its name resolves to no
//   address that it may be reached at

#include <chrono>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/headers.h"
#include "classifier/verdict.h"
#include "gateway/services.h"
#include "gateway/upstream.h"

namespace gateway {

struct WebhookOptions {
  /// Whom we may tell (webhooks.allow_hosts); nobody unless named:
  ///
  ///   entry                               allows
  ///   ----------------------------------  -------------------------------------------------------------------
  ///   hooks.example.com                   https to that host, on any port
  ///   hooks.example.com:8443              https to that port alone
  ///   *.example.com  *.example.com:8443   https to all hosts below example.com, not to itself
  ///   http://hooks.example.com:8080       plain http, to that host and port alone
  ///   localhost  127.0.0.1:9000  [::1]    https and http to this machine
  ///   10.1.2.3  [fd00::1]:8443            https to an address that is not public; also http:// as above
  ///
  /// Only what is `localhost` or an address itself may be reached at an address that is not public. Any other name is
  /// looked at when the connection is made, after it was resolved.
  std::vector<std::string> allow_hosts{};
  /// Names, without port, that may be told at a private address, too (AddressPolicy::Inside), by https and http.
  std::vector<std::string> allow_private_hosts{};
  std::string ca_file{};  // Empty: the system's bundle.
  std::chrono::milliseconds connect_timeout{5'000};
};

/// What is wrong with an entry of allow_hosts, "must be …"; empty: nothing.
[[nodiscard]] std::string problem_of_allowed_host(std::string_view entry);

struct WebhookTarget {
  std::string base_url{};  // "https://hooks.example.com:8443", in small letters.
  std::string target{};    // "/told?x=1"
  AddressPolicy addresses = AddressPolicy::Public;
};
/// Where a webhook's URL leads, if it may lead there. The error is for people, and names neither path nor query.
[[nodiscard]] std::expected<WebhookTarget, std::string> webhook_target(
    std::string_view url, const std::vector<std::string>& allow_hosts,
    const std::vector<std::string>& allow_private_hosts = {});

struct Webhook {
  std::string url{};
  classifier::Headers
      headers{};  // standard_webhooks.h; content-type and user-agent are added where they are missing.
  std::string body{};
  std::shared_ptr<const WebhookOptions> options{};
};

struct WebhookResult {
  enum class Telling : std::uint8_t {
    Told,
    Again,    // See next_try().
    GiveUp,   // Repeating it is of no use.
    Stopped,  // The signal was stopped: it counts for nothing, though the receiver may have heard it.
  } telling = Telling::Again;
  int status = 0;  // 0: no answer came.
  classifier::Class cls = classifier::Class::None;
  std::optional<std::chrono::milliseconds> retry_after{};  // What the receiver asked for.
  std::string why{};                                       // For people, without URL or header; empty: told.
};

/// One attempt, over at `until` at the latest. Of the answer's body at most 64 KiB are read, and dropped.
task<WebhookResult> send_webhook(Upstream& upstream, Webhook webhook, WallTime wall_now, TimePoint until,
                                 Signal& signal);

struct TriedWebhook {
  int attempts = 1;  // Made so far.
  WallTime first{};  // When it was due first.
  std::optional<std::chrono::milliseconds> retry_after{};
};
/// Full jitter over 5 s, 10 s, 20 s, … 5 min; after a hint never before it, and spread behind it. Nothing: it would
/// be later than 24 hours after the first. `roll` is the chance part, in [0, 1).
[[nodiscard]] std::optional<WallTime> next_try(const TriedWebhook& tried, WallTime now, double roll);

}  // namespace gateway
