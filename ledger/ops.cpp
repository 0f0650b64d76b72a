#include "ledger/ops.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

namespace ledger {

std::uint64_t bytes_of(const CallRecord& record) {
  // Names and ids are short; what callers can make long is counted.
  std::uint64_t bytes = sizeof(CallRecord) + record.attempts.size() * sizeof(AttemptRow);
  for (const std::string* text : {&record.id,
                                  &record.tenant,
                                  &record.run_id,
                                  &record.route,
                                  &record.upstream,
                                  &record.path,
                                  &record.model,
                                  &record.queue,
                                  &record.labels,
                                  &record.idempotency_key,
                                  &record.origin,
                                  &record.bug}) {
    bytes += text->capacity();
  }
  for (const AttemptRow& attempt : record.attempts) {
    bytes += attempt.detail.capacity() + attempt.model.capacity() + attempt.rule.capacity() +
             attempt.fingerprint.capacity() + attempt.usage.model.capacity();
  }
  return bytes;
}

std::uint64_t bytes_of(const classifier::Headers& headers) {
  std::uint64_t bytes = 0;
  for (const classifier::Header& header : headers) bytes += header.name.size() + header.value.size();
  return bytes;
}

std::uint64_t bytes_of(const StoredAnswer& answer) { return answer.body.size() + bytes_of(answer.headers); }

std::uint64_t bytes_of(const KeptRequest& request) {
  return request.body.size() + request.target.size() + bytes_of(request.headers);
}

std::uint64_t bytes_of(const Op& op) {
  std::uint64_t bytes = sizeof(Op);
  if (const auto* open = std::get_if<OpenOp>(&op.what)) bytes += bytes_of(open->call);
  if (const auto* ended = std::get_if<AttemptEndedOp>(&op.what)) bytes += bytes_of(ended->call);
  if (const auto* end = std::get_if<EndOp>(&op.what)) {
    bytes += bytes_of(end->record);
    if (end->end.once && end->end.once->answer) bytes += bytes_of(*end->end.once->answer);
    if (end->end.run && end->end.run->answer) bytes += bytes_of(*end->end.run->answer);
    if (end->end.run) bytes += end->end.run->webhook_body.size();
    if (end->end.letter && end->end.letter->letter && end->end.letter->letter->request) {
      bytes += bytes_of(*end->end.letter->letter->request);
    }
  }
  if (const auto* work = std::get_if<WorkOp>(&op.what)) bytes += work->bytes;
  if (const auto* claim = std::get_if<ClaimOp>(&op.what)) bytes += claim->ask.key.size() + claim->ask.call_id.size();
  return bytes;
}

bool is_impatient(const Op& op) {
  const auto* work = std::get_if<WorkOp>(&op.what);
  return work != nullptr ? !work->waits : std::holds_alternative<ClaimOp>(op.what);
}

bool is_owed(const Op& op) {
  if (const auto* work = std::get_if<WorkOp>(&op.what)) return work->waits;
  const auto* end = std::get_if<EndOp>(&op.what);
  return end != nullptr && (end->end.run || (end->end.letter && end->end.letter->letter));
}

namespace {

const CallRecord* call_of(const Op& op) {
  if (const auto* open = std::get_if<OpenOp>(&op.what)) return &open->call;
  if (const auto* ended = std::get_if<AttemptEndedOp>(&op.what)) return &ended->call;
  if (const auto* end = std::get_if<EndOp>(&op.what)) return &end->record;
  return nullptr;
}

}  // namespace

void fold(std::vector<Op>& batch) {
  std::unordered_map<std::string_view, Op*> last;
  for (auto op = batch.rbegin(); op != batch.rend(); ++op) {
    const CallRecord* call = call_of(*op);
    if (call == nullptr) continue;
    const auto [found, is_last] = last.try_emplace(call->id, &*op);
    if (is_last || std::holds_alternative<EndOp>(op->what)) continue;
    const auto* open = std::get_if<OpenOp>(&op->what);
    // An attempt whose end nobody told leaves no other trace than its opening.
    if (open != nullptr) {
      const auto& ended = call_of(*found->second)->attempts;
      if (std::ranges::find(ended, open->row.attempt, &AttemptRow::number) == ended.end()) continue;
    }
    op->said_later = true;
    if (open != nullptr && open->row.reserved)
      found->second->reserved.push_back({open->row.attempt, open->row.reserved->value});
  }
}

void unfold(std::vector<Op>& batch) {
  for (Op& op : batch) {
    op.said_later = false;
    op.reserved.clear();
  }
}

}  // namespace ledger
