#pragma once
// What has been read of an answer so far? Filled by a family's readers from a whole answer, or event by event.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "classifier/dialect.h"
#include "classifier/error_reader.h"
#include "classifier/json.h"
#include "classifier/reported.h"
#include "classifier/usage.h"
#include "classifier/verdict.h"

namespace classifier {

/// Of several choices (candidates) that run side by side: which have begun, which have ended.
class Choices {
 public:
  void begun(std::uint64_t index) { begun_ |= bit(index); }
  void ended(std::uint64_t index) { ended_ |= bit(index); }
  /// Of at least so many.
  [[nodiscard]] bool all_ended(std::int64_t wanted = 1) const {
    return ended_ != 0 && (begun_ & ~ended_) == 0 && std::popcount(ended_) >= std::min<std::int64_t>(wanted, 64);
  }

 private:
  // Nobody asks for more than 64; beyond that the last bit stands for all.
  static std::uint64_t bit(std::uint64_t index) { return std::uint64_t{1} << (index < 63 ? index : 63); }
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
};

struct Reading {
  // Of all that has been read.
  Reported reported{};
  bool usage_seen = false;
  Settle settle =
      nullptr;  // How that was counted, where an endpoint's answers have several forms; else its family's.
  std::string model{};
  std::optional<std::string> finish{};
  std::string service_tier{};
  std::string speed{};
  std::string inference_geo{};
  Billed billed{};
  std::string stated_usd{};
  std::string stated_beside_usd{};
  Choices choices{};
  bool any_content = false;
  bool answered = false;           // A member came that only an answer has.
  std::optional<Class> refusal{};  // An answer that says no without being an error: recorded, passed on as it is.

  // Of the event (or whole answer) read last; see begin_event().
  bool content = false;
  bool terminal = false;
  bool complete = false;
  bool usage_only = false;  // Nothing but usage: the chunk that a caller gets only when it asked for it.
  bool usage_changed = false;
  std::string error{};      // The JSON that says so if it is an error, else empty.
  bool cause_owed = false;  // That error does not say what went wrong; an event behind it may.

  void begin_event() {
    any_content = any_content || content;
    cause_owed = false;
    content = terminal = complete = usage_only = usage_changed = false;
    error.clear();
  }
  /// It has ended for policy. What had come until then is an answer all the same.
  void ended_by_policy() {
    if (!any_content && !content) refusal = Class::ContentPolicy;
  }
};

/// How the answers of one provider's API are read; several dialects may share a family.
struct Family {
  /// A whole answer. False if it is not readable to its end.
  bool (*read_answer)(PaddedJson json, Reading& into);
  /// One event of a stream, after begin_event(). False if it is none of this API's (an end marker, broken JSON):
  /// then it says nothing but what stands in `into`.
  bool (*read_event)(std::string_view name, PaddedJson json, Reading& into);
  Settle settle;
  /// An event that is an error, as the body of an HTTP answer: as it stands if SDKs can read it, else made anew from
  /// what it says, so that no form of it becomes an answer without words. `said.status` is never 0.
  std::string (*error_document)(std::string_view event, const SaidError& said);
  /// Its streams are lines of JSON where no header says otherwise.
  bool lines = false;
  /// Likewise, AWS's frames.
  bool frames = false;
  /// A request that does not speak of `stream` wants one.
  bool streams_unasked = false;
};

}  // namespace classifier
