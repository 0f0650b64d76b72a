#pragma once
// What does a worker want to be done later? The body of POST /callgate/v1/runs.
//
//   member        what
//   ------------  ----------------------------------------------------------------------------------------------
//   path          where a call would be sent to: "/openai/v1/chat/completions"; the one that must be there
//   method        "POST" unless said
//   headers       an object of texts: the provider's own. Keys are left out, since ours are sent
//   body          any JSON value but a text: what is sent is what stands here, byte for byte
//   body_text     a text instead, for bodies that are no JSON
//   queue, key, lane, run_id, deadline    as Callgate-Queue, Idempotency-Key, Callgate-Lane, … would say
//   labels        an object of texts, as Callgate-Labels
//   ordering_key  runs of a queue with the same one are made one after the other, as they were accepted
//   not_before    RFC 3339: not to be begun earlier
//   webhook       an https URL that is told of the end

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>

#include "gateway/services.h"

namespace gateway {

struct RunOrder {
  Inbound request{};  // As the call would come, with our headers; without its arrival.
  std::string ordering_key{};
  std::int64_t not_before_ms = 0;
  std::string webhook{};
};

/// Strict: what it does not know is an error, which says what and where, for people.
[[nodiscard]] std::expected<RunOrder, std::string> read_run_order(std::string_view body);

}  // namespace gateway
