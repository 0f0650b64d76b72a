#include "gateway/job_key.h"

#include <algorithm>

#include "gateway/digest.h"
#include "gateway/memo_key.h"

namespace gateway {
namespace {

using Derive = Config::Idempotency::Derive;

/// Two customers never see each other's answers, so a key that is passed through is part of it.
std::string callers_key(const Call& call) {
  const bool passed_through =
      std::ranges::any_of(call.candidates, [](const budget::Candidate& candidate) { return !candidate.configured; });
  if (!passed_through) return {};
  const std::size_t mark = call.target.find('?');
  return key_digest(call.request.headers,
                    mark == call.target.npos ? std::string_view{} : std::string_view{call.target}.substr(mark + 1));
}

}  // namespace

ledger::Digest fingerprint_of(const classifier::Headers& headers, std::string_view body) {
  Digest digest;
  for (const classifier::Header& header : headers) {
    if (!changes_answers(header.name)) continue;
    std::string name = header.name;
    std::ranges::transform(name, name.begin(), [](char c) { return classifier::lower(c); });
    digest.add(name);
    digest.add(header.value);
  }
  digest.add(body);
  return digest.end();
}

std::optional<JobKey> job_key(const Call& call, std::string_view body, Derive derive, std::string_view contract_of) {
  const std::string_view method = call.request.method;
  const bool post = method == "POST";
  JobKey key;
  std::string_view kind;
  if (!call.idempotency_key.empty()) {
    if (!post && method != "PUT" && method != "PATCH") return std::nullopt;
    key.kind = JobKey::Kind::Key;
    key.shown = call.idempotency_key;
    kind = "key";
    if (!contract_of.empty()) {
      key.shown = std::string{contract_of} + ":" + call.idempotency_key;
      kind = "contract";
    }
  } else {
    if (!post || body.empty() || derive == Derive::Off) return std::nullopt;
    if (derive != Derive::Body && call.run_id.empty()) return std::nullopt;
    key.kind = derive == Derive::Undelivered ? JobKey::Kind::Undelivered : JobKey::Kind::Derived;
    key.shown = derive == Derive::Body ? std::string{"body"} : "run_id:" + call.run_id;
    kind = derive == Derive::Undelivered ? "undelivered" : "derived";
  }
  key.fingerprint = fingerprint_of(call.request.headers, body);
  Digest digest;
  const std::string credential = callers_key(call);
  for (const std::string_view part : {std::string_view{call.tenant},
                                      std::string_view{credential},
                                      std::string_view{call.route->name},
                                      method,
                                      std::string_view{call.target},
                                      kind,
                                      std::string_view{key.shown}}) {
    digest.add(part);
  }
  if (key.kind != JobKey::Kind::Key)
    digest.add({reinterpret_cast<const char*>(key.fingerprint.data()), key.fingerprint.size()});
  key.scope = digest.end();
  return key;
}

}  // namespace gateway
