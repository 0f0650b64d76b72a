#pragma once
// The story of one call, from admission to the caller's last byte.

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "budget/lane.h"
#include "budget/price_book.h"
#include "budget/retry_policy.h"
#include "classifier/dialect.h"
#include "classifier/rules.h"
#include "gateway/config.h"
#include "gateway/services.h"

namespace gateway {

struct LiveCall;

/// One upstream as calls see it. Immutable: a reload makes a new one, calls under way keep theirs.
struct Target {
  UpstreamConfig config{};
  const classifier::Dialect* dialect = nullptr;
  /// An operator has written a URL with a path, so what is missing in front of a caller's path is missing on purpose.
  bool url_is_complete = false;
  std::map<std::string, std::string, std::less<>> group_of{};  // Model -> limit group; others are their own.
  std::string provider{};                                      // Whose prices hold there; empty: any provider's.
  std::string region{};  // Of the host, where prices differ by it ("eu"); else empty.
  std::shared_ptr<const WireOptions> wire{};
  std::vector<classifier::ExtraRule> rules{};  // config.rules as the classifier reads them.
};

/// An upstream as a step of a route.
struct RouteTarget {
  std::shared_ptr<const Target> to{};
  std::optional<double> weight{};
  std::map<std::string, std::string, std::less<>> models{};  // Asked model -> its name there.
};

/// What callers address: a route, or an upstream, which is a route of one. Never without a step; one dialect.
struct Route {
  std::string name{};
  std::vector<RouteTarget> steps{};
  [[nodiscard]] const Target& first() const { return *steps.front().to; }
};

/// One way to make an attempt of a call: which step of its route, as whom.
struct Way {
  std::shared_ptr<const Target> to{};
  std::string model{};  // If it has another name there than was asked for.
};

/// The numbers of one configuration, shared by all calls that began under it.
struct CallPolicy {
  std::array<budget::RetryPolicy, 3> retry{};  // By lane.
  Config::Stream stream{};
  std::uint64_t hold_unary = 4 * 1024 * 1024;
  std::shared_ptr<const budget::PriceBook> prices{};  // Null: nothing has a price.
  budget::Price fallback{};                           // For models without one.
  bool refuse_unpriced = false;
  std::set<std::string, std::less<>> budgeted{};  // Tenants whose money is limited.
  int budget_status = 402;
};

struct LastWord;

/// How a dead letter of a call is written, by its queue's contract.
struct LetterTerms {
  std::chrono::milliseconds retention{0};  // 0: store.retention.dead_letters.
  std::string version{};                   // Of the payload.
  ledger::LetterForm form = ledger::LetterForm::AsStore;
};

/// For a call that is to happen once: what is kept of its end.
class Keep {
 public:
  virtual ~Keep() = default;
  /// The story has come to its end; `last` is still to be said. Writes into the record what it did.
  [[nodiscard]] virtual ledger::CallEnd outcome(CallRecord& record, const LastWord& last) = 0;
};

/// A run that is being made. Its end is written with that of its call, where it has one of its own: it may also read
/// along with another's, or be given an answer that was there.
struct RunHold {
  std::string id{};
  std::int64_t fence = 0;
  bool playing = false;    // A call is played for it, and not over yet.
  bool ended = false;      // Its end went to the ledger with that call's.
  Signal* bell = nullptr;  // Rung when that is over.
  /// What becomes of it, by how its call has ended; `answer` may be null.
  std::function<ledger::RunOutcome(const CallRecord& record, std::shared_ptr<const ledger::StoredAnswer> answer)>
      end{};
};

/// Of a call that several callers may wait for: until when the most patient of them does. It moves as they come and
/// go. An attempt under way is not cut by it: whoever cannot wait any longer leaves alone.
struct CallersPatience {
  TimePoint deadline = TimePoint::max();
  TimePoint first_content_by = TimePoint::max();
};

/// One call, as the front door understood it.
struct Call {
  std::string id{};  // UUIDv7.
  std::string tenant{};
  budget::Lane lane = budget::Lane::Bulk;
  std::string run_id{};
  Inbound request{};     // Headers as they go on; ours are gone.
  std::string path{};    // Below the upstream's name, without query.
  std::string target{};  // The same with query, as sent to the provider.
  std::string asked{};   // The path below the upstream's name as the caller wrote it, for other upstreams' sake.
  std::string queue{};   // CallRecord's, as the next.
  std::string labels{};
  std::string idempotency_key{};
  std::string_view once{};  // CallRecord's, as far as it is known at the begin.
  bool sdk_retry = false;
  bool fresh = false;  // Callgate-Fresh: what is remembered does not count.
  std::shared_ptr<const Route> route{};
  std::shared_ptr<const Target> to{};  // The first step's: its dialect is that of all.
  /// In order of preference, side by side: what admission knows of a way, and how it is gone.
  std::vector<budget::Candidate> candidates{};
  std::vector<Way> ways{};
  std::shared_ptr<const CallPolicy> policy{};
  classifier::Endpoint endpoint{};
  classifier::RequestFacts facts{};
  budget::Sizes sizes{};
  std::uint64_t bytes_in = 0;                     // Of the body, as the caller sent it.
  bool hide_usage = false;                        // We asked for usage in the stream; the caller had not.
  TimePoint deadline = TimePoint::max();          // The whole call.
  TimePoint first_content_by = TimePoint::max();  // Until then the caller's SDK waits for a first byte.
  /// Null: those two hold; else this instead of them.
  const CallersPatience* patience = nullptr;
  [[nodiscard]] TimePoint ends_by() const { return patience ? patience->deadline : deadline; }
  [[nodiscard]] TimePoint answers_by() const { return patience ? patience->first_content_by : first_content_by; }
  Keep* keep = nullptr;  // Null: it may happen twice.
  /// What is written of it, should it fail for good; without a request, which is made of this call's. Null: nothing.
  std::shared_ptr<const LetterTerms> letter{};
  std::shared_ptr<RunHold> run{};                    // Null: somebody waits for it.
  std::optional<classifier::Edit> as_sent{};         // Makes the body again what the caller had sent.
  std::optional<budget::RetryPolicy> retry{};        // By its queue's contract, instead of its lane's.
  std::shared_ptr<const ledger::CallTrace> trace{};  // Null: tracing is off.
  LiveCall* live = nullptr;                          // Where it is told how far it has come; may be null.
};

/// What is known of it before its story begins.
[[nodiscard]] CallRecord begin_record(const Call& call);

/// Plays the call to its end: exactly one outcome, one ended row, one end of the answer. Never throws.
task<CallRecord> run_call(Call call, Services services, Caller& caller, Signal& signal);

}  // namespace gateway
