#pragma once
// Was this very job asked before? Then its caller gets that answer: from the call that is under way, or from the
// store.
//
// A call with a key (job_key.h) is not played for its caller but for a spool, by a coroutine of its own; its caller
// and whoever comes with the same job read along, each at his own pace and with a record of his own.
//
//   a call with the same key comes …     … and
//   -----------------------------------  ------------------------------------------------------------------------
//   while it is under way                joins. `undelivered`: only if no caller is there any more; else it is
//                                        another call
//   when its answer is stored            gets that. `undelivered`: what nobody got is given to one, once
//   with another body or other headers   422, nothing is sent
//   after a crash that hid how it ended  is played again ("recovered"), or 502 (on_unknown)
//   when it had failed                   is played anew; so it is where the answer was too large to be kept
//   Callgate-Fresh: true                 joins what is under way, since that is new; what is stored is bought again
//
//   the last caller leaves; and with     … it
//   -----------------------------------  ------------------------------------------------------------------------
//   on_caller_gone: {linger: 15s}        goes on for so long: if it ends, its answer is kept, else it is stopped
//   finish                               goes on to its end
//   cancel; or nobody could get it       is stopped at once
//
// Delivered is an answer whose last byte the socket has taken from us, with neither an end nor a reset from the
// caller's side seen just before. What then still lies in a socket's buffer when a caller dies, no kernel can tell.

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "gateway/call.h"
#include "gateway/job_key.h"
#include "gateway/live_calls.h"
#include "gateway/spool.h"

namespace gateway {

/// The values of callgate_idempotency_total's label.
inline constexpr std::array<std::string_view, 9> kOnceResults = {
    "stored", "replayed", "joined", "recovered", "mismatch", "given_once", "too_large", "released", "paid_again"};

/// I/O thread only.
class Once {
 public:
  struct Doors {
    std::function<void(CallRecord)> ended{};  // Of every call, its caller's own: for log, metrics, recent calls.
    std::function<void(std::string_view)> counted{};  // One of kOnceResults.
    std::function<void(const CallRecord&)> died{};    // It leaves a dead letter. May be empty.
  };
  Once(Services services, LiveCalls& live, Doors doors);
  ~Once();
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;

  /// Holds for what begins from now on, but for the bounds, which hold at once.
  void configure(const Config::Idempotency& options, bool refuse_without_store);

  /// Until the caller has his answer or has gone. The call is counted as begun.
  task<void> serve(Call call, JobKey key, Caller& caller, Signal& signal);

  /// What waits gives up, what is in flight goes on.
  void drain();
  /// Every call is stopped (StopReason::Shutdown); active() falls to 0 as they end.
  void stop_all();
  /// Calls under way, those without a caller included.
  [[nodiscard]] std::size_t active() const { return playing_.size(); }

  struct Figures {
    std::size_t shared = 0;     // Calls under way.
    std::size_t lingering = 0;  // Those of them that no caller waits for.
    std::uint64_t bytes = 0;    // Of answers that are kept in memory, and of requests that no caller waits for.
  };
  [[nodiscard]] Figures figures() const;

 private:
  struct Story;
  struct Visitor;
  enum class Left : std::uint8_t;
  using Index = std::multimap<ledger::Digest, std::shared_ptr<Story>>;

  struct Met {
    std::shared_ptr<Story> story{};  // To join.
    std::shared_ptr<Story> dying{};  // Its claim is about to be given back.
    bool other_body = false;
    bool beside = false;  // The claim is another call's, which cannot be joined.
  };
  Met meet(const JobKey& key, bool fresh);
  std::shared_ptr<Story> begin(const Call& call, JobKey key, const Met& met, Signal& signal);
  task<void> play(std::shared_ptr<Story> story, Call call);
  task<bool> claim(Story& story, const Call& call);
  task<void> say_no(Story& story, const Call& call, classifier::OwnError error, std::string_view reason,
                    std::optional<std::chrono::milliseconds> wait);
  void over(const std::shared_ptr<Story>& story);

  void arrive(Story& story, Visitor& visitor);
  task<Left> follow(Story& story, Visitor& visitor, Caller& caller, Signal& signal);
  task<Left> last_words(Story& story, Visitor& visitor, Caller& caller, Signal& signal);
  task<void> part(Story& story, Visitor& visitor, Left left, Caller& caller);
  void depart(const std::shared_ptr<Story>& story, Visitor& visitor, Left left, Caller& caller);
  void alone(const std::shared_ptr<Story>& story, Left left);
  task<void> own_words(Visitor& visitor, classifier::OwnError error, bool own_record, Caller& caller);
  static bool is_the_storys(const Story& story, const Visitor& visitor);
  task<void> end_record(Visitor& visitor);
  void tell(Story& story);
  void count(std::string_view result) const { doors_.counted(result); }
  [[nodiscard]] AnswerHead dress(const Story& story, const Visitor& visitor) const;

  void forget(const std::shared_ptr<Story>& story);
  void keep_leftover(const std::shared_ptr<Story>& story);
  void bound_leftovers();
  void linger(const std::shared_ptr<Story>& story);
  void linger_no_more(Story& story);
  void wake();
  task<void> watch();

  Services services_;
  LiveCalls& live_;
  Doors doors_;
  Config::Idempotency options_{};
  bool refuse_without_store_ = false;
  std::shared_ptr<SpoolRoom> room_ = std::make_shared<SpoolRoom>();
  Index index_{};
  std::set<Story*> playing_{};
  std::list<std::shared_ptr<Story>> leftovers_{};  // In the index too, over, and in no store; the oldest first.
  std::uint64_t leftover_bytes_ = 0;
  std::multimap<TimePoint, std::weak_ptr<Story>> lingering_{};
  std::size_t lonely_ = 0;          // Under way, without a caller.
  std::uint64_t lonely_bytes_ = 0;  // Their requests'.
  std::optional<Signal> bell_{};
  bool watching_ = false;
  bool draining_ = false;
  bool stopping_ = false;
};

}  // namespace gateway
