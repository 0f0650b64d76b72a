#include "gateway/letters.h"

#include <algorithm>

#include "classifier/error_reader.h"
#include "gateway/cause.h"
#include "gateway/kept_request.h"
#include "gateway/unknown_answers.h"

namespace gateway {
namespace {

using classifier::Class;

/// As it stood behind the listener's address, with its upstream's or route's name.
std::string target_of(const Call& call) {
  const std::size_t mark = call.target.find('?');
  return "/" + call.route->name + call.asked + (mark == call.target.npos ? std::string{} : call.target.substr(mark));
}

std::shared_ptr<const ledger::KeptRequest> keep(const std::string& method, const std::string& target,
                                                const classifier::Headers& headers, const std::string* body,
                                                const std::optional<classifier::Edit>& as_sent) {
  std::string sent;
  if (body) sent = as_sent ? classifier::edited(*body, std::span{&*as_sent, 1}) : *body;
  return keep_request(method, target, headers, std::move(sent));
}

}  // namespace

bool leaves_letter(const CallRecord& record) {
  if (record.outcome != ledger::Outcome::Failed && record.outcome != ledger::Outcome::Crashed) return false;
  if (record.reason == ledger::kRemembered) return false;
  switch (record.cls) {
    case Class::InvalidRequest:
    case Class::ContextLength:
    case Class::ContentPolicy:
    case Class::NotFound:
    case Class::TooLarge:
    case Class::Cancelled:
      return false;
    default:
      return true;
  }
}

LetterMaker::LetterMaker(const Call& call)
    : method_(call.request.method),
      target_(target_of(call)),
      headers_(call.request.headers),
      body_(call.request.body),
      as_sent_(call.as_sent),
      terms_(call.letter),
      callers_key_(std::ranges::any_of(call.candidates, [](const auto& way) { return !way.configured; })) {}

ledger::Letter LetterMaker::make(const CallRecord& record, std::string_view said) const {
  const bool tried = !record.attempts.empty();
  const AttemptRow* last = tried ? &record.attempts.back() : nullptr;
  // Our own words for it, where we had any; else the provider's.
  std::string message{last ? std::string_view{last->detail} : record.reason};
  if (message.empty() && !said.empty()) message = classifier::said_error(said).message;
  const std::vector<std::string> hidden = also_in_base64(callers_secrets(headers_, target_));
  const Cause cause = cause_of({.queue = record.queue,
                                .cls = record.cls,
                                .code = last ? std::string_view{last->code} : record.reason,
                                .message = message,
                                .model = record.model,
                                .fingerprint = last ? std::string_view{last->fingerprint} : std::string_view{},
                                .body = body_ ? std::string_view{*body_} : std::string_view{},
                                .hidden = hidden});
  ledger::Letter letter;
  letter.group = cause.group;
  letter.cause = cause.text;
  letter.advice = cause.advice;
  if (tried) {
    letter.code = record.attempts.back().code;
    letter.fingerprint = record.attempts.back().fingerprint;
  }
  letter.request = keep(method_, target_, headers_, body_.get(), as_sent_);
  letter.callers_key = callers_key_;
  if (terms_) {
    letter.retention = terms_->retention;
    letter.version = terms_->version;
    letter.form = terms_->form;
  }
  return letter;
}

std::shared_ptr<const ledger::KeptRequest> kept_of(const Call& call) {
  return keep(call.request.method, target_of(call), call.request.headers, call.request.body.get(), call.as_sent);
}

}  // namespace gateway
