#pragma once
// What does the worker tell us beside its request? The Callgate-* fields and Prefer (design §3).

#include <expected>
#include <optional>
#include <string>

#include "budget/lane.h"
#include "classifier/headers.h"
#include "gateway/services.h"

namespace gateway {

struct OurHeaders {
  std::string tenant{};  // At most 64 letters, digits, '-', '_' and '.'; empty: none is named.
  std::optional<budget::Lane> lane{};
  std::string run_id{};                                 // At most 128 visible ASCII characters.
  std::optional<std::chrono::milliseconds> deadline{};  // From now; may be zero or less.
  std::string queue{};                                  // Which queue of the worker's the job is from: as `tenant`.
  std::string labels{};           // As a JSON object on one line, {"team":"search"}; empty: none.
  std::string idempotency_key{};  // At most 255 printable ASCII characters. Goes on to the provider, too.
  bool fresh = false;             // What is remembered does not count.
  /// Prefer: respond-async (RFC 7240 §4.1), and for how long its answer may be waited for (wait=SECONDS).
  std::optional<std::chrono::milliseconds> respond_async{};
};

struct BadHeader {
  std::string message{};  // Which field, what is wrong, what would be right.
  int status = 400;
};

/// Reads them and takes them out of `headers`. A field of ours that cannot be read, or that we do not know, is an
/// error: a typo must not become a default.
[[nodiscard]] std::expected<OurHeaders, BadHeader> take_our_headers(classifier::Headers& headers, WallTime now);

}  // namespace gateway
