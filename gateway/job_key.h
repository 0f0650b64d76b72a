#pragma once
// By what is a job known again that is delivered a second time (design §7)?

#include <optional>
#include <string>
#include <string_view>

#include "gateway/call.h"
#include "gateway/config.h"
#include "ledger/records.h"

namespace gateway {

struct JobKey {
  enum class Kind : std::uint8_t {
    Key,          // Idempotency-Key.
    Derived,      // The run id and the body, or the body alone, mean the same as a key.
    Undelivered,  // Run id and body: only an answer that nobody waited for is given to the next one.
  } kind = Kind::Key;
  /// Whose and what: tenant, a passed-through credential, route, method, path, query, and the key. Of a derived key
  /// the fingerprint is part of it.
  ledger::Digest scope{};
  /// Of the body and of the headers that change an answer.
  ledger::Digest fingerprint{};
  std::string shown{};  // For people: the Idempotency-Key, "queue:key" of a contract, "run_id:job-42" or "body".
};

/// `body` as the caller sent it. Nothing: the call may happen as often as it is sent. That is so for methods other
/// than POST, PUT and PATCH, whatever headers a client sends with all its requests: who asks how a batch is doing
/// wants to hear how it is doing now. Without an Idempotency-Key it takes a POST with a body. `contract_of`: the
/// queue by whose contract the call has its key; two queues may name by the same value what is not the same job.
[[nodiscard]] std::optional<JobKey> job_key(const Call& call, std::string_view body,
                                            Config::Idempotency::Derive derive, std::string_view contract_of = {});

/// JobKey::fingerprint.
[[nodiscard]] ledger::Digest fingerprint_of(const classifier::Headers& headers, std::string_view body);

}  // namespace gateway
