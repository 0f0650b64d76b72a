#include "ledger/owed.h"

#include <openssl/rand.h>

#include <array>
#include <cstdio>
#include <stdexcept>
#include <utility>
#include <vector>

#include "ledger/call_detail.h"

namespace ledger {
namespace {

LetterOf letter_of(const CallRecord& record) {
  LetterOf of;
  of.id = record.id;
  of.tenant = record.tenant;
  of.queue = record.queue;
  of.lane = budget::name_of(record.lane);
  of.run_id = record.run_id;
  of.labels = record.labels;
  of.route = record.route;
  of.upstream = record.upstream;
  of.model = record.model;
  of.operation = record.operation;
  of.cls = classifier::name_of(record.cls);
  of.call_id = record.id;
  of.status = record.status;
  of.cost_nano = record.cost ? record.cost->value : 0;
  of.attempts = attempts_json(detail_of(record));
  return of;
}

/// Of a run that ends without a call, or of its webhook.
LetterOf letter_of(const NewRun& run) {
  LetterOf of;
  of.tenant = run.tenant;
  of.queue = run.queue;
  of.lane = run.lane;
  of.run_id = run.run_id;
  of.labels = run.labels;
  of.route = run.route;
  of.model = run.model;
  return of;
}

}  // namespace

std::string fresh_id(std::int64_t now_ms) {
  std::array<unsigned char, 10> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    throw std::runtime_error("no random bytes are to be had");
  }
  const auto ms = static_cast<std::uint64_t>(now_ms);
  std::array<char, 40> text{};
  std::snprintf(text.data(),
                text.size(),
                "%08x-%04x-7%01x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                static_cast<unsigned>(ms >> 16U),
                static_cast<unsigned>(ms & 0xffffU),
                random[0] & 0xfU,
                unsigned{random[1]},
                (random[2] & 0x3fU) | 0x80U,
                unsigned{random[3]},
                unsigned{random[4]},
                unsigned{random[5]},
                unsigned{random[6]},
                unsigned{random[7]},
                unsigned{random[8]},
                unsigned{random[9]});
  return text.data();
}

Owed::Owed(Database& database, const StoreOptions& options, Rows& rows)
    : lasting(options.path != ":memory:"),
      box(options),
      load(database),
      letters(database, options, load),
      runs(database, box, rows, load),
      replays(database) {}

MadeBefore Owed::make(const std::optional<LetterOutcome>& letter, const std::optional<RunOutcome>& run,
                      const std::string& letter_id, std::int64_t now_ms) const {
  MadeBefore made;
  made.made = true;
  if (letter && letter->letter) {
    made.letter = letter_id.empty() ? fresh_id(now_ms) : letter_id;
    if (letter->letter->request)
      made.request = box.close(*letter->letter->request, letter_place(made.letter, 0), letter->letter->form);
  }
  if (run && run->answer) made.answer = box.close(*run->answer, answer_place(run->id, run->call_id));
  return made;
}

void Owed::call_ended(const CallRecord& record, const CallEnd& end, const MadeBefore& made, std::int64_t now_ms) {
  const bool answered = end.letter && !end.letter->letter;
  if (end.letter) {
    if (answered) {
      letters.answered(end.letter->scope, record.id, now_ms);
    } else {
      letters.failed(*end.letter, letter_of(record), made.request, now_ms);
    }
  }
  // Of one that was taken, the fence decides. Another call of its scope (a replay) makes good what was in vain.
  if (end.run && (end.run->fence > 0 || !answered)) {
    runs.end(*end.run, made.answer, now_ms);
    return;
  }
  if (!answered) return;
  const bool own = end.run && end.run->answer;
  const StoredAnswer* answer = own                            ? end.run->answer.get()
                               : end.once && end.once->answer ? end.once->answer.get()
                                                              : nullptr;
  runs.answered(end.letter->scope,
                record.id,
                answer,
                answer == nullptr ? record.status : answer->status,
                record.cost ? std::optional{record.cost->value} : std::nullopt,
                end.run ? end.run->webhook_body : std::string{},
                now_ms);
}

bool Owed::run_ended(const RunOutcome& outcome, const std::optional<LetterOutcome>& letter, const MadeBefore& made,
                     std::int64_t now_ms) {
  const std::optional<NewRun> run = runs.find(outcome.id);
  if (!runs.end(outcome, made.answer, now_ms)) return false;
  if (!letter) return true;
  if (!letter->letter) {
    letters.answered(letter->scope, outcome.call_id, now_ms);
    return true;
  }
  LetterOf of = letter_of(*run);
  of.id = made.letter;
  of.cls = outcome.cls;
  of.status = outcome.status;
  letters.failed(*letter, of, made.request, now_ms);
  return true;
}

void Owed::webhook_ended(const WebhookRow& row, Store::Telling how, const std::optional<LetterOutcome>& letter,
                         const MadeBefore& made, std::int64_t now_ms) {
  if (!runs.webhook_ended(row, how) || !letter) return;
  if (!letter->letter) {
    letters.answered(letter->scope, "", now_ms);
    return;
  }
  LetterOf of = letter_of(runs.find(row.run).value_or(NewRun{}));
  of.id = made.letter;
  of.tenant = row.tenant;
  of.cls = row.cls;
  of.status = row.status;
  of.operation = kWebhook;
  letters.failed(*letter, of, made.request, now_ms);
}

bool Owed::to_disk(const CallEnd& end) {
  if (end.run) return true;
  if (!end.letter) return false;
  // An answer that makes nothing good changes neither letter nor run.
  return end.letter->letter || letters.any_open(end.letter->scope) || runs.in_vain(end.letter->scope);
}

bool Owed::tidy(std::int64_t now_ms, const Retention& retention, int most) {
  const std::int64_t letters_ms = retention.dead_letters.count();
  std::vector<std::string> open;
  bool more = letters.expire(now_ms, letters_ms, most, open);
  for (const std::string& id : open) {
    AuditRow row;
    row.who = "retention";
    row.act = "dead.expire";
    row.what = id;
    row.reason = "it was still open when its time was over";
    row.count = 1;
    replays.act(std::move(row), now_ms);
  }
  more = runs.expire(now_ms - retention.runs.count(), most) || more;
  return replays.expire(now_ms - letters_ms, most) || more;
}

void Owed::committed() {
  letters.committed();
  runs.committed();
}

void Owed::rolled_back() {
  load.rolled_back();
  letters.rolled_back();
  runs.rolled_back();
}

}  // namespace ledger
