// The store's doors for runs, letters and replays: each is a piece of work for the writer.

#include <memory>
#include <utility>

#include "ledger/ops.h"
#include "ledger/owed.h"
#include "ledger/store.h"

namespace ledger {
namespace {

constexpr std::string_view kNotNow = "the ledger cannot be written now, and nothing was changed: try again later";

/// One that is answered: `work` says what.
template <typename T, typename Work, typename Tell>
Op asked(std::string_view what, bool waits, T if_lost, Work work, Tell tell) {
  auto answer = std::make_shared<T>(if_lost);
  WorkOp op;
  op.what = what;
  op.waits = waits;
  op.work = [answer, work = std::move(work)](Owed& owed, std::int64_t now_ms) { *answer = work(owed, now_ms); };
  op.tell = [answer, if_lost = std::move(if_lost), tell = std::move(tell)](bool written) {
    if (tell) tell(written ? std::move(*answer) : if_lost);
  };
  Op out;
  out.what = std::move(op);
  return out;
}

template <typename Work>
Op told(std::string_view what, Work work, Store::Done done) {
  WorkOp op;
  op.what = what;
  op.waits = true;
  op.work = std::move(work);
  op.tell = [](bool) {};
  Op out;
  out.what = std::move(op);
  out.done = std::move(done);
  return out;
}

WorkOp& work_of(Op& op) { return std::get<WorkOp>(op.what); }

/// Made once, however often the transaction is tried.
struct Ending {
  std::optional<RunOutcome> outcome{};
  std::optional<LetterOutcome> letter{};
  MadeBefore made{};

  [[nodiscard]] std::uint64_t bytes() const {
    std::uint64_t bytes = 0;
    if (outcome && outcome->answer) bytes += bytes_of(*outcome->answer);
    if (outcome) bytes += outcome->webhook_body.size();
    if (letter && letter->letter && letter->letter->request) bytes += bytes_of(*letter->letter->request);
    return bytes;
  }
};

void prepare(WorkOp& op, const std::shared_ptr<Ending>& ending) {
  op.bytes = ending->bytes();
  op.prepare = [ending](const Owed& owed, std::int64_t now_ms) {
    if (!ending->made.made) ending->made = owed.make(ending->letter, ending->outcome, {}, now_ms);
  };
}

}  // namespace

void Store::accept_run(NewRun run, std::function<void(RunAnswer)> answered, RunBounds bounds) {
  struct Asked {
    NewRun run{};
    std::string request{};
  };
  auto ask = std::make_shared<Asked>(std::move(run), std::string{});
  Op op = asked(
      "a run",
      false,
      RunAnswer{},
      // Where it could not outlive the process, nobody must be told that it will.
      [ask, bounds](Owed& owed, std::int64_t) {
        return ask->request.empty() || !owed.lasting ? RunAnswer{} : owed.runs.accept(ask->run, ask->request, bounds);
      },
      std::move(answered));
  WorkOp& work = work_of(op);
  if (ask->run.request) work.bytes = bytes_of(*ask->run.request);
  work.prepare = [ask](const Owed& owed, std::int64_t) {
    if (ask->request.empty() && ask->run.request) {
      ask->request = owed.box.close(*ask->run.request, run_place(ask->run.id));
    }
  };
  hand_over(std::move(op));
}

void Store::take_run(std::string id, std::chrono::milliseconds lease, std::function<void(TakenRun)> taken) {
  TakenRun lost;
  lost.why = kNotNow;
  hand_over(asked(
      "the taking of a run",
      false,
      std::move(lost),
      [id = std::move(id), lease](Owed& owed, std::int64_t now_ms) {
        return owed.runs.take(id, lease.count(), now_ms);
      },
      std::move(taken)));
}

void Store::renew_runs(std::vector<std::pair<std::string, std::int64_t>> held, std::chrono::milliseconds lease,
                       std::function<void(std::vector<std::string>)> renewed) {
  hand_over(asked(
      "leases of runs",
      false,
      std::vector<std::string>{},
      [held = std::move(held), lease](Owed& owed, std::int64_t now_ms) {
        return owed.runs.renew(held, lease.count(), now_ms);
      },
      std::move(renewed)));
}

void Store::end_run(RunOutcome outcome, std::optional<LetterOutcome> letter, std::function<void(bool)> done) {
  auto ending = std::make_shared<Ending>();
  ending->outcome = std::move(outcome);
  ending->letter = std::move(letter);
  Op op = asked(
      "the end of a run",
      true,
      false,
      [ending](Owed& owed, std::int64_t now_ms) {
        return owed.run_ended(*ending->outcome, ending->letter, ending->made, now_ms);
      },
      std::move(done));
  prepare(work_of(op), ending);
  hand_over(std::move(op));
}

void Store::cancel_run(std::string id, std::string tenant, AuditRow audit,
                       std::function<void(std::optional<RunState>)> done, std::string webhook_body) {
  hand_over(asked(
      "the cancelling of a run",
      true,
      std::optional<RunState>{},
      [id = std::move(id), tenant = std::move(tenant), audit = std::move(audit), body = std::move(webhook_body)](
          Owed& owed, std::int64_t now_ms) {
        bool changed = false;
        const std::optional<RunState> state = owed.runs.cancel(id, tenant, body, now_ms, changed);
        if (changed && !audit.act.empty()) owed.replays.act(audit, now_ms);
        return state;
      },
      std::move(done)));
}

void Store::retry_run(std::string id, std::string tenant, AuditRow audit,
                      std::function<void(std::optional<RunState>)> done, RunBounds bounds) {
  hand_over(asked(
      "the retry of a run",
      true,
      std::optional<RunState>{},
      [id = std::move(id), tenant = std::move(tenant), audit = std::move(audit), bounds](Owed& owed,
                                                                                         std::int64_t now_ms) {
        bool changed = false;
        const std::optional<RunState> state = owed.runs.retry(id, tenant, bounds, now_ms, changed);
        if (changed) owed.replays.act(audit, now_ms);
        return state;
      },
      std::move(done)));
}

void Store::webhook_ended(WebhookRow row, Telling how, std::optional<LetterOutcome> letter, Done done) {
  auto ending = std::make_shared<Ending>();
  ending->letter = std::move(letter);
  Op op = told(
      "what became of a webhook",
      [ending, row = std::move(row), how](Owed& owed, std::int64_t now_ms) {
        owed.webhook_ended(row, how, ending->letter, ending->made, now_ms);
      },
      std::move(done));
  prepare(work_of(op), ending);
  hand_over(std::move(op));
}

void Store::discard_letters(LettersAsk ask, AuditRow audit, Answered<std::int64_t> done) {
  using Answer = std::expected<std::int64_t, std::string>;
  hand_over(asked(
      "the discarding of letters",
      false,
      Answer{std::unexpected(std::string{kNotNow})},
      [ask = std::move(ask), audit = std::move(audit)](Owed& owed, std::int64_t now_ms) -> Answer {
        AuditRow row = audit;
        row.count = owed.letters.discard(ask, row.reason, now_ms);
        const std::int64_t count = row.count;
        if (count > 0) owed.replays.act(std::move(row), now_ms);
        return count;
      },
      std::move(done)));
}

void Store::edit_letter(std::string id, std::string tenant, int from, std::shared_ptr<const KeptRequest> request,
                        LetterForm form, std::string difference, AuditRow audit, Answered<int> done) {
  using Answer = std::expected<int, std::string>;
  struct Edit {
    std::string id{}, tenant{}, difference{};
    std::shared_ptr<const KeptRequest> request{};
    std::string stored{};
    AuditRow audit{};
  };
  auto edit = std::make_shared<Edit>();
  edit->id = std::move(id);
  edit->tenant = std::move(tenant);
  edit->difference = std::move(difference);
  edit->request = std::move(request);
  edit->audit = std::move(audit);
  Op op = asked(
      "the edit of a letter",
      false,
      Answer{std::unexpected(std::string{kNotNow})},
      [edit, from](Owed& owed, std::int64_t now_ms) -> Answer {
        Answer answer = owed.letters.edit(edit->id, edit->tenant, from, edit->stored, edit->difference, now_ms);
        if (answer) owed.replays.act(edit->audit, now_ms);
        return answer;
      },
      std::move(done));
  WorkOp& work = work_of(op);
  work.bytes = bytes_of(*edit->request);
  work.prepare = [edit, from, form](const Owed& owed, std::int64_t) {
    if (edit->stored.empty()) edit->stored = owed.box.close(*edit->request, letter_place(edit->id, from + 1), form);
  };
  hand_over(std::move(op));
}

void Store::plan_replay(Replay replay, std::vector<ReplayItem> items, AuditRow audit, Answered<bool> done) {
  using Answer = std::expected<bool, std::string>;
  const std::uint64_t bytes = items.size() * sizeof(ReplayItem);
  Op op = asked(
      "the plan of a replay",
      false,
      Answer{std::unexpected(std::string{kNotNow})},
      [replay = std::move(replay), items = std::move(items), audit = std::move(audit)](
          Owed& owed, std::int64_t now_ms) -> Answer {
        const bool planned = owed.replays.plan(replay, items);
        if (planned) owed.replays.act(audit, now_ms);
        return planned;
      },
      std::move(done));
  work_of(op).bytes = bytes;
  hand_over(std::move(op));
}

void Store::move_replay(std::string id, std::vector<ReplayState> from, ReplayState to, std::string why,
                        AuditRow audit, Answered<ReplayState> done) {
  using Answer = std::expected<ReplayState, std::string>;
  hand_over(asked(
      "the state of a replay",
      false,
      Answer{std::unexpected(std::string{kNotNow})},
      [id = std::move(id), from = std::move(from), to, why = std::move(why), audit = std::move(audit)](
          Owed& owed, std::int64_t now_ms) -> Answer {
        bool changed = false;
        Answer state = owed.replays.move(id, from, to, why, now_ms, changed);
        if (changed) owed.replays.act(audit, now_ms);
        return state;
      },
      std::move(done)));
}

void Store::replay_item(std::string replay, ReplayItem item, Done done) {
  Op op = told(
      "the state of a replay's item",
      [replay = std::move(replay), item = std::move(item)](Owed& owed, std::int64_t) {
        owed.replays.item(replay, item);
      },
      std::move(done));
  // It can be found out again: the letter says what became of it.
  work_of(op).synced = false;
  hand_over(std::move(op));
}

void Store::canary_passed(std::string replay, Done done) {
  hand_over(told(
      "the canary of a replay",
      [replay = std::move(replay)](Owed& owed, std::int64_t) { owed.replays.canary_passed(replay); },
      std::move(done)));
}

void Store::approve_replay(std::string id, std::string by, AuditRow audit, Answered<bool> done) {
  using Answer = std::expected<bool, std::string>;
  hand_over(asked(
      "the approval of a replay",
      false,
      Answer{std::unexpected(std::string{kNotNow})},
      [id = std::move(id), by = std::move(by), audit = std::move(audit)](Owed& owed, std::int64_t now_ms) -> Answer {
        Answer approved = owed.replays.approve(id, by);
        if (approved && *approved) owed.replays.act(audit, now_ms);
        return approved;
      },
      std::move(done)));
}

void Store::remember_act(AuditRow audit, Done done) {
  hand_over(told(
      "a row of the audit",
      [audit = std::move(audit)](Owed& owed, std::int64_t now_ms) { owed.replays.act(audit, now_ms); },
      std::move(done)));
}

}  // namespace ledger
