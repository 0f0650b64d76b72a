#pragma once
// What does a request's body say of itself, and what must change in it so that a stream reports its usage, or so that
// it asks for another model?

#include <optional>
#include <string_view>
#include <vector>

#include "classifier/dialect.h"

namespace classifier {

/// Model, stream, maximum of output and stream options, in the spelling of any family: they never contradict.
/// `usage_asked` says only whether stream_options.include_usage stands there as true; `streams_unasked` what a body
/// wants that does not speak of `stream`.
[[nodiscard]] RequestFacts read_request_body(std::string_view body, bool streams_unasked);

/// Sets stream_options.include_usage in a body that has "stream": true. Nothing if it is true already, or if the
/// body is such that the provider will refuse it anyway.
[[nodiscard]] std::optional<Edit> include_usage(std::string_view body);

struct ModelNames {
  std::string_view to;
  std::string_view from{};   // Only what names this one; empty: whatever is named.
  std::string_view front{};  // May stand before a name, and stays: "models/".
};
/// Renames the model in every top-level member "model" that is a string. At Google, whose bodies repeat what the path
/// names and must agree with it, also in each of "requests" and in "generateContentRequest". Nothing for a body that
/// is broken.
[[nodiscard]] std::vector<Edit> rename_model(std::string_view body, const ModelNames& names);

}  // namespace classifier
