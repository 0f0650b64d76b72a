#pragma once
// How are an answer and a request kept as bytes?
//
// Deflated (zlib): of a request its method and target; then the count of header fields, each as name and value, then
// the body. Counts and lengths are 32 bits, little end first.

#include <expected>
#include <string>
#include <string_view>

#include "ledger/records.h"

namespace ledger {

/// Headers and body alone; what has a column of its own stays there.
[[nodiscard]] std::string pack(const StoredAnswer& answer);
/// The error says what is wrong with the bytes.
[[nodiscard]] std::expected<StoredAnswer, std::string> unpack(std::string_view bytes);

[[nodiscard]] std::string pack(const KeptRequest& request);
[[nodiscard]] std::expected<KeptRequest, std::string> unpack_request(std::string_view bytes);

}  // namespace ledger
