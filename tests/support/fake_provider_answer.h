#pragma once
// How does an ordered answer become steps, and who plays them against a wire?

#include <memory>
#include <vector>

#include "tests/support/fake_provider_dialects.h"
#include "tests/support/fake_provider_http.h"
#include "tests/support/fake_provider_records.h"
#include "tests/support/fake_provider_script.h"
#include "tests/support/fake_provider_transport.h"

namespace fake_provider {

struct Plan {
  Ask ask{};
  std::vector<Step> steps{};
  bool each_on_its_own = false;  // Every piece is a write of its own.
  bool gzip = false;             // The pieces are to be packed on their way.
};
/// Fills in what the order leaves out, as a provider of the request's dialect would. `id` numbers the answer.
[[nodiscard]] Plan plan_for(const Order& order, const Request& request, std::uint64_t id);

/// What the exchanges of one provider share.
struct Provider {
  Loop& loop;
  Records& records;
  Script& script;
};
[[nodiscard]] std::shared_ptr<Exchange> open_exchange(Provider provider, Wire& wire, Request request);

}  // namespace fake_provider
