#pragma once
// Which failures become dead letters, and what stands in them (design §4, §9)?
//
//   a call that has a key or run id, and …             leaves one
//   -------------------------------------------------  ----------------------------------------------------
//   failed after its attempts, its deadline or a bug   yes
//   the request itself is at fault                     no: the caller has been told, and nothing would change
//   was refused by callgate, cancelled or drained      no: nothing of it was tried for the last time
//   got the failure that is remembered                 no: the one that is remembered has left one
//
// A run that ends dead or failed always leaves one.

#include <memory>
#include <string>

#include "gateway/call.h"
#include "ledger/letters.h"

namespace gateway {

[[nodiscard]] bool leaves_letter(const CallRecord& record);

/// What a letter needs of a call that is about to be played; the body is shared with it.
class LetterMaker {
 public:
  explicit LetterMaker(const Call& call);
  /// `said`: the body of the last answer, if there was one.
  [[nodiscard]] ledger::Letter make(const CallRecord& record, std::string_view said) const;

 private:
  std::string method_;
  std::string target_;  // As the worker wrote it.
  classifier::Headers headers_;
  std::shared_ptr<const std::string> body_;
  std::optional<classifier::Edit> as_sent_;
  std::shared_ptr<const LetterTerms> terms_;
  bool callers_key_ = false;
};

/// The request as the worker sent it, for keeping.
[[nodiscard]] std::shared_ptr<const ledger::KeptRequest> kept_of(const Call& call);

}  // namespace gateway
