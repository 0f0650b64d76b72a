#include "ledger/box.h"

#include <utility>

#include "ledger/pack.h"

namespace ledger {
namespace {

constexpr char kSealed = 1;  // First byte (ledger/seal.h); deflated bytes begin with 0x78, JSON with a brace.

}  // namespace

Box::Box(const StoreOptions& options) : keeps_(options.payloads != Payloads::Memory) {
  if (options.payloads == Payloads::Encrypted) seal_.emplace(options.payload_key, options.old_payload_keys);
}

Box::Box(const SealKeys& keys) : keeps_(false) {
  if (!keys.key.empty()) seal_.emplace(keys.key, keys.old_keys);
}

std::string Box::close(std::string bytes, std::string_view bound_to) const {
  if (!keeps_) return {};
  return seal_ ? seal_->seal(bytes, bound_to) : std::move(bytes);
}

std::string Box::close(const KeptRequest& request, std::string_view bound_to, LetterForm form) const {
  if (form == LetterForm::Plain) return pack(request);
  if (form == LetterForm::LeftOut || (form == LetterForm::Encrypted && !seal_)) return {};
  return keeps_ ? close(pack(request), bound_to) : std::string{};
}

std::string Box::close(const StoredAnswer& answer, std::string_view bound_to) const {
  return keeps_ ? close(pack(answer), bound_to) : std::string{};
}

std::expected<std::string, std::string> Box::open(std::string_view bytes, std::string_view bound_to) const {
  if (bytes.empty() || bytes.front() != kSealed) return std::string{bytes};
  if (!seal_) return std::unexpected("it is encrypted, and no key was given (store.payload_key)");
  return seal_->open(bytes, bound_to);
}

std::expected<KeptRequest, std::string> Box::open_request(std::string_view bytes, std::string_view bound_to) const {
  const std::expected<std::string, std::string> opened = open(bytes, bound_to);
  if (!opened) return std::unexpected(opened.error());
  return unpack_request(*opened);
}

std::expected<StoredAnswer, std::string> Box::open_answer(std::string_view bytes, std::string_view bound_to) const {
  const std::expected<std::string, std::string> opened = open(bytes, bound_to);
  if (!opened) return std::unexpected(opened.error());
  return unpack(*opened);
}

std::string letter_place(std::string_view letter, int revision) {
  return std::string{"letter "}.append(letter).append(" ").append(std::to_string(revision));
}
std::string run_place(std::string_view run) { return std::string{"run "}.append(run); }
std::string answer_place(std::string_view run, std::string_view call_id) {
  return std::string{"answer "}.append(run).append(" ").append(call_id);
}
std::string webhook_place(std::string_view run) { return std::string{"webhook "}.append(run); }
std::string url_place(std::string_view run) { return std::string{"url "}.append(run); }

}  // namespace ledger
