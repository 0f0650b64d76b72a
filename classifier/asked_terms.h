#pragma once
// What does a request ask for that changes its price, beside tokens? The answer says what it got; budgets must know
// before.

#include <cstdint>
#include <string>
#include <string_view>

#include "classifier/dialect.h"
#include "classifier/headers.h"

namespace classifier {

struct AskedTerms {
  std::string service_tier{};   // "flex", "priority", "auto", …; empty: not a word.
  std::string speed{};          // Anthropic: "fast".
  std::string inference_geo{};  // Anthropic: "us".
  /// A tier that it leaves unsaid is as somebody has set it at the provider: for a project, a deployment.
  bool set_elsewhere = false;
  bool place_set_elsewhere = false;  // The same of inference_geo: for a workspace.
  std::int64_t images = 1;           // That are to be made, where it asks for images.
  /// The provider may search the web so often for it; where it names no bound, so often as is usual.
  std::int64_t web_searches = 0;
};

/// `body` must be followed by kBodyPadding readable bytes. What cannot be read asks for nothing.
[[nodiscard]] AskedTerms read_asked_terms(const Dialect& dialect, const Headers& headers, std::string_view body);

}  // namespace classifier
