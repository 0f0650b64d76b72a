#pragma once
// In which form do payloads of letters and runs stand in the file?
//
//   store.payloads   what stands there
//   ---------------  ---------------------------------------------------------------------------------------
//   encrypted        sealed (ledger/seal.h), bound to its row: moved to another's place it cannot be opened
//   plain            as it is
//   memory           nothing
//
// A letter's request as its queue's contract says (LetterForm), whatever the store does.
//
// Both forms are read whatever is set now: what is sealed begins with the byte 1, and no other form does.

#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "ledger/books.h"
#include "ledger/letters.h"
#include "ledger/records.h"
#include "ledger/seal.h"
#include "ledger/store.h"

namespace ledger {

class Box {
 public:
  explicit Box(const StoreOptions& options);
  /// For reading alone.
  explicit Box(const SealKeys& keys);

  [[nodiscard]] bool keeps() const { return keeps_; }
  /// Empty where nothing is kept.
  [[nodiscard]] std::string close(std::string bytes, std::string_view bound_to) const;
  [[nodiscard]] std::string close(const KeptRequest& request, std::string_view bound_to,
                                  LetterForm form = LetterForm::AsStore) const;
  [[nodiscard]] std::string close(const StoredAnswer& answer, std::string_view bound_to) const;
  /// The error says why not.
  [[nodiscard]] std::expected<std::string, std::string> open(std::string_view bytes, std::string_view bound_to) const;
  [[nodiscard]] std::expected<KeptRequest, std::string> open_request(std::string_view bytes,
                                                                     std::string_view bound_to) const;
  [[nodiscard]] std::expected<StoredAnswer, std::string> open_answer(std::string_view bytes,
                                                                     std::string_view bound_to) const;

 private:
  bool keeps_;
  std::optional<Seal> seal_{};
};

// To which row a payload belongs.
[[nodiscard]] std::string letter_place(std::string_view letter, int revision);
[[nodiscard]] std::string run_place(std::string_view run);
[[nodiscard]] std::string answer_place(std::string_view run, std::string_view call_id);
[[nodiscard]] std::string webhook_place(std::string_view run);
[[nodiscard]] std::string url_place(std::string_view run);

}  // namespace ledger
