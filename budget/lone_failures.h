#pragma once
// Is it the upstream that fails, or only what this tenant asks of it? (design §4: faults of a caller open no breaker)

#include <cstdint>
#include <string_view>

#include "budget/lru.h"

namespace budget {

/// Counts, by tenant and upstream and model, the failures in a row, and what that upstream and model answered others
/// meanwhile. More than kRow in a row while others were answered at least as often are the tenant's own: an input
/// that always breaks the provider must not take breaker and slots from those whose calls are good.
///
/// Each answer pays for one failure, and at most kMost are kept: when an upstream stops answering anybody, all that
/// its callers see counts against it kMost failures later at the latest. A tenant that is alone with an upstream and
/// model never has failures of its own. Single-threaded; bounded: those not used for longest are forgotten, and begin
/// anew.
class LoneFailures {
 public:
  static constexpr int kRow = 3;
  static constexpr std::int64_t kMost = 10;

  LoneFailures();

  /// A good answer for that tenant: its row ends, and others' failures may be their own.
  void answered(std::string_view tenant, std::string_view upstream, std::string_view model);
  /// A failure that speaks against the upstream (is_upstreams_fault()). True: it is the tenant's own.
  [[nodiscard]] bool failed(std::string_view tenant, std::string_view upstream, std::string_view model);

 private:
  struct Row {
    int failures = 0;            // In a row.
    std::int64_t seen = 0;       // Of the answers there, at its last failure.
    std::int64_t unmatched = 0;  // Answers of others since the row began that no failure has used up.
  };

  Lru<std::int64_t> answers_;  // "upstream\0model"
  Lru<Row> rows_;              // "upstream\0model\0tenant"
};

}  // namespace budget
