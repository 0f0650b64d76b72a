#pragma once
// Is it the same call again?

#include <string>

#include "budget/memo.h"
#include "gateway/call.h"

namespace gateway {

/// SHA-256 of all that makes two calls the same: whose (tenant, lane, key, run id, idempotency key), what (route,
/// method, path, query, body) and the headers that change an answer.
[[nodiscard]] budget::MemoKey memo_key(const Call& call);

/// Of a key that a caller passes through: which one it is, but not what it is. Empty: it has none.
[[nodiscard]] std::string key_digest(const classifier::Headers& headers, std::string_view query);

/// Where a caller may have put its key, by the header's name: whatever says who somebody is.
[[nodiscard]] bool is_key_header(std::string_view name);
/// Headers that change an answer: versions, betas, organisation and project.
[[nodiscard]] bool changes_answers(std::string_view name);
/// The same as is_key_header() for a part of the query, such as "key=abc", however its name is written.
[[nodiscard]] bool is_key_parameter(std::string_view pair);

}  // namespace gateway
