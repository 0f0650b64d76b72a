#pragma once
// One try at a provider: what came of it, and what of it has already reached the caller.

#include <optional>
#include <string>

#include "gateway/call.h"

namespace gateway {

/// What is left to say when a call is over.
struct LastWord {
  enum class How : std::uint8_t {
    Nothing,  // Nobody is there.
    Answer,   // head and bytes are the whole answer.
    Finish,   // bytes are the last ones of an answer that was begun.
    Abort,    // bytes (an error event, or none), then a visible break.
  } how = How::Nothing;
  AnswerHead head{};
  std::string bytes{};
};

/// AttemptRow::credential of a key that came with the call.
inline constexpr std::string_view kCallersKey = "caller";

struct Attempt {
  AttemptRow row{};
  classifier::Verdict verdict{};
  /// The provider has answered; a refusal for policy in a 200 is an answer too.
  [[nodiscard]] bool good() const { return verdict.cls == classifier::Class::None || verdict.is_answer; }
  bool answer_started = false;  // Bytes have reached the caller.
  bool request_sent = false;
  bool forbidden = false;  // The provider said x-should-retry: false.
  bool callers_deadline = false;
  std::optional<StopReason> stopped{};
  std::optional<TimePoint> first_content{};
  /// A good answer's end, or a broken one's; or the provider's refusal, should it be the last.
  LastWord last{};
  /// last.head and last.bytes are the provider's (perhaps with an error status that we gave it), not ours.
  bool providers_answer = false;
};

/// Sends one attempt, the way that was admitted, and relays what may go to the caller at once. Network trouble,
/// deadlines and a caller who left come back as values. `number` counts from 1.
task<Attempt> try_once(const Call& call, int number, Admitted& admitted, Services services, Caller& caller,
                       Signal& signal, CallRecord& record);

}  // namespace gateway
