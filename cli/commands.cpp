#include <limits>

#include "cli/about.h"
#include "cli/alerts.h"
#include "cli/calls.h"
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/completion.h"
#include "cli/config.h"
#include "cli/control.h"
#include "cli/dead.h"
#include "cli/dead_replay.h"
#include "cli/doctor.h"
#include "cli/inject.h"
#include "cli/keys.h"
#include "cli/ledger.h"
#include "cli/man.h"
#include "cli/prices.h"
#include "cli/reload.h"
#include "cli/runs.h"
#include "cli/serve.h"
#include "cli/spend.h"
#include "cli/unknown.h"
#include "cli/upstreams.h"

namespace cli {
namespace {

constexpr Option kConfig{"--config", "FILE", "The configuration; without it CALLGATE_CONFIG, else the defaults."};
constexpr Option kSet{"--set", "KEY=VALUE", "One key, over file and environment; may be repeated.", true};
constexpr Option kJson{"--json", "", "For programs, as JSON."};
constexpr Option kPlain{"--plain", "", "One record a line, tabs between its words, no heading."};

constexpr Option kServeOptions[] = {kConfig, kSet};
constexpr Example kServeExamples[] = {
    {"callgate serve", "the defaults, callers' own keys"},
    {"callgate serve --config callgate.yaml", "with a file"},
    {"callgate serve --set listen.data=127.0.0.1:5600", "one key changed"},
};

constexpr Option kAdmin{"--admin", "ADDRESS", "Where it listens (host:port or unix:/path), if not at listen.admin."};
constexpr Option kAcceptWeaker{
    "--accept-weaker", "", "Queue contracts may promise less than those that hold; else that is an error."};
constexpr Option kReloadOptions[] = {kConfig, kSet, kAdmin, kAcceptWeaker, kJson};
constexpr Example kReloadExamples[] = {
    {"callgate reload --config callgate.yaml", "what has changed, or every problem"},
    {"callgate reload --admin unix:/run/callgate/admin.sock", "named by its address"},
    {"callgate reload --accept-weaker", "queue contracts may promise less than before"},
    {"callgate reload --json", "for programs"},
};

constexpr Option kUpstreamsOptions[] = {kConfig, kSet, kAdmin, kPlain, kJson};
constexpr Example kUpstreamsExamples[] = {
    {"callgate upstreams", "one line a provider, and what is the matter with it"},
    {"callgate upstreams --json", "for programs"},
};

constexpr Option kExplainOptions[] = {kConfig, kSet, kAdmin, kJson};
constexpr Example kExplainExamples[] = {
    {"callgate explain 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10", "every attempt, and why it waited or stopped"},
    {"callgate explain 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10 --json", "for programs"},
};

constexpr Option kAskOptions[] = {kConfig, kSet, kAdmin, kJson};
constexpr Option kLookOptions[] = {kConfig, kSet, kAdmin, kPlain, kJson};
constexpr Example kStatusExamples[] = {
    {"callgate status", "tenants, lanes, upstreams, and every call under way"},
    {"callgate status --json", "for programs"},
};
constexpr Option kCancelOptions[] = {
    {"--run-id", "ID", "All calls of a job."},
    {"--tenant", "NAME", "All calls of a tenant; beside --run-id: only if they are this tenant's."},
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kCancelExamples[] = {
    {"callgate cancel 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10", "one call, by the id that callgate status shows"},
    {"callgate cancel --run-id job-17", "all calls of a job"},
    {"callgate cancel --tenant search", "all calls of a tenant"},
};
constexpr Option kPauseOptions[] = {
    {"--for", "TIME", "How long, such as 30m; without it until \"callgate resume\"."},
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kPauseExamples[] = {
    {"callgate pause tenant search --for 1h", "its calls wait, up to queue.max_wait"},
    {"callgate pause upstream openai", "until somebody resumes it; routes use their other upstreams"},
    {"callgate pause lane backfill", "nothing of that lane begins"},
};
constexpr Example kResumeExamples[] = {{"callgate resume tenant search", "what waits goes on at once"}};
constexpr Option kDrainOptions[] = {
    {"--runs-only", "", "No run and no replay begins any more; calls are served as before."},
    {"--no-wait", "", "Do not wait until it is over."},
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kDrainExamples[] = {
    {"callgate drain", "end callgate as SIGTERM does, and wait until it has gone"},
    {"callgate drain --runs-only --no-wait", "what Kubernetes says to a pod's callgate before the pod ends"},
};
constexpr Example kBudgetShowExamples[] = {
    {"callgate budget show", "spent, in reserve and left, by tenant and period"},
    {"callgate budget show --json", "for programs"},
};
constexpr Option kGrantOptions[] = {
    {"--tenant", "NAME", "Whose; default without it."},
    {"--period", "PERIOD", "day, month or run; day without it."},
    {"--run-id", "ID", "Which run, with period run."},
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kGrantExamples[] = {
    {"callgate budget grant 25 --tenant search", "25 USD more for today"},
    {"callgate budget grant 1.50 --tenant search --run-id job-17", "for one run"},
};

constexpr Option kStore{"--store", "FILE", "Read this file, such as a backup, instead of asking a running callgate."};
constexpr Option kSince{"--since", "TIME", "From then on: 2026-11-29, 2026-11-29T16:40Z, or 7d for that long ago."};
constexpr Option kUntil{"--until", "TIME", "Before then."};
constexpr Option kOneTenant{"--tenant", "NAME", "Only this tenant's."};

constexpr Option kSpendOptions[] = {
    {"--by",
     "GROUPS",
     "One line for each tenant, model, upstream, lane, queue, day, hour, run_id, class, label:NAME."},
    {"--since", "TIME", "From then on: 2026-11-29, 2026-11-29T16:40Z, or 7d (as without it) for that long ago."},
    kUntil,
    kOneTenant,
    {"--utc-offset", "OFFSET", "Days and hours as they are at +02:00; UTC without it."},
    {"--most", "NUMBER", "Lines, the dearest; one more has all others."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    {"--csv", "", "For spreadsheets."},
    kPlain,
    kJson,
};
constexpr Example kSpendExamples[] = {
    {"callgate spend --by tenant,model", "the last seven days, the dearest first"},
    {"callgate spend --by label:prompt --since 24h", "what each version of a prompt costs"},
    {"callgate spend --by day --tenant search --since 2026-11-01 --csv", "for a spreadsheet"},
    {"callgate spend --store backup.db --by model --since 90d", "of a file"},
};
constexpr Option kReconcileOptions[] = {
    {"--upstream", "NAME", "Which of ours is meant, if it is not named as the provider; may be repeated.", true},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kReconcileExamples[] = {
    {"callgate spend reconcile usage.json", "OpenAI's or Anthropic's report, whichever it is"},
    {"callgate spend reconcile completions_usage.csv --upstream openai-eu", "of an upstream with another name"},
};
constexpr Option kCallsListOptions[] = {
    kOneTenant,
    {"--run-id", "ID", "Only of this job."},
    {"--upstream", "NAME", "Only by this upstream."},
    {"--model", "NAME", "Only for this model, as asked for."},
    {"--outcome", "OUTCOME", "answered, failed, refused, cancelled, drained or crashed."},
    {"--class", "CLASS", "Only of this class, such as rate_limited."},
    {"--queue", "NAME", "Only of this queue (Callgate-Queue)."},
    {"--key", "KEY", "Only with this Idempotency-Key."},
    kSince,
    kUntil,
    {"--before", "ID", "Only older ones than this call: the next page."},
    {"--after", "ID", "Only younger ones than this call, the oldest first."},
    {"--most", "NUMBER", "At most so many, 1000 at the highest; 100 without it."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kCallsListExamples[] = {
    {"callgate calls list --outcome failed --since 1h", "what failed, the youngest first"},
    {"callgate calls list --run-id job-17 --tenant search", "all calls of a job"},
    {"callgate calls list --store backup.db --class timeout", "of a file"},
};
constexpr Option kCallsShowOptions[] = {kStore, kConfig, kSet, kAdmin, kJson};
constexpr Example kCallsShowExamples[] = {
    {"callgate calls show 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10", "every attempt, its tokens and what it cost"},
};
constexpr Option kCallsTailOptions[] = {
    kOneTenant,
    {"--run-id", "ID", "Only of this job."},
    {"--upstream", "NAME", "Only by this upstream."},
    {"--model", "NAME", "Only for this model, as asked for."},
    {"--outcome", "OUTCOME", "answered, failed, refused, cancelled, drained or crashed."},
    {"--class", "CLASS", "Only of this class, such as rate_limited."},
    {"--queue", "NAME", "Only of this queue (Callgate-Queue)."},
    {"--after", "SEQ", "Begin behind this event, 0 for the first that is kept; without it with the next one."},
    {"--count", "NUMBER", "End after so many."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kCallsTailExamples[] = {
    {"callgate calls tail", "a line for each call that ends"},
    {"callgate calls tail --outcome failed --json", "what fails, as JSON lines"},
};
constexpr Option kEventsTailOptions[] = {
    kOneTenant,
    {"--type", "TYPE", "Only these: call.ended or call.unknown."},
    {"--after", "SEQ", "Begin behind this event, 0 for the first that is kept; without it with the next one."},
    {"--count", "NUMBER", "End after so many."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
};
constexpr Example kEventsTailExamples[] = {
    {"callgate events tail", "a JSON line for each event, as it comes"},
    {"callgate events tail --after 0 --store backup.db --count 10", "the first ten of a file"},
};
constexpr Option kTimeoutsOptions[] = {
    {"--since", "TIME", "Calls that began from then on: 2026-11-29, or 7d (as without it) for that long ago."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kTimeoutsExamples[] = {
    {"callgate report timeouts --since 14d", "what to set at SDK and queue, by model and queue"},
};
constexpr Option kCheckOptions[] = {kStore, kConfig, kSet, kJson};
constexpr Example kCheckExamples[] = {
    {"callgate ledger check --config callgate.yaml", "the file at store.path"},
    {"callgate ledger check backup.db", "a backup"},
};
constexpr Option kFileOptions[] = {kStore, kConfig, kSet};
constexpr Example kBackupExamples[] = {
    {"callgate ledger backup /backups/callgate-2026-11-29.db", "beside a running callgate, too"},
};
constexpr Option kExportOptions[] = {kSince, kUntil, kOneTenant, kStore, kConfig, kSet};
constexpr Example kExportExamples[] = {
    {"callgate ledger export --since 24h > calls.jsonl", "a line of JSON for each call, its attempts in it"},
    {"callgate ledger export calls.jsonl --store backup.db", "into a new file, of a backup"},
};
constexpr Option kRerateOptions[] = {
    {"--apply", "", "Write it; without this the difference is shown and nothing else happens."},
    {"--all", "", "Models too of which nothing changes."},
    {"--file", "FILE", "A price file over the shipped table, instead of prices.files; may be repeated.", true},
    {"--since", "TIME", "Attempts that ended from then on: 2026-11-29, or 30d for that long ago."},
    kUntil,
    kStore,
    kConfig,
    kSet,
    kPlain,
    kJson,
};
constexpr Example kRerateExamples[] = {
    {"callgate ledger rerate --since 30d", "what the last month would cost by the prices of now"},
    {"callgate ledger rerate --file new-prices.json --apply", "by another table, and written"},
};
constexpr Option kIdemShowOptions[] = {kOneTenant, kStore, kConfig, kSet, kAdmin, kPlain, kJson};
constexpr Example kIdemShowExamples[] = {
    {"callgate idem show job-17:summary", "whose answer a key has, and how long"}};
constexpr Option kIdemForgetOptions[] = {kOneTenant, kConfig, kSet, kAdmin, kJson};
constexpr Example kIdemForgetExamples[] = {
    {"callgate idem forget job-17:summary --tenant search", "the next call with it is bought anew"},
};

constexpr Option kOfGroup{"--group", "GROUP", "Only of this cause, as callgate dead groups shows it."};
constexpr Option kOfQueue{"--queue", "NAME", "Only of this queue (Callgate-Queue)."};
constexpr Option kOfClass{"--class", "CLASS", "Only of this class, such as auth."};
constexpr Option kOfModel{"--model", "NAME", "Only for this model, as asked for."};
constexpr Option kOfUpstream{"--upstream", "NAME", "Only of this upstream."};
constexpr Option kOfOperation{"--operation", "NAME", "Only of this operation, such as chat or webhook."};
constexpr Option kOfAdvice{"--advice", "WORD", "replay, fix-first or discard."};
constexpr Option kOfKey{"--key", "KEY", "Only with this Idempotency-Key."};
constexpr Option kOfRunId{"--run-id", "ID", "Only of this job."};
constexpr Option kArrivedSince{
    "--since", "TIME", "That arrived from then on: 2026-11-29T16:40Z, or 7d for that long ago."};
constexpr Option kArrivedUntil{"--until", "TIME", "That arrived before then."};
constexpr Option kLetterState{"--state", "STATE", "open (as without it), resolved, discarded or any."};
constexpr Option kReason{"--reason", "TEXT", "Why, for the audit log."};
constexpr Option kYes{"--yes", "", "Agree to it beforehand (also -y); needed where there is no terminal to ask."};
constexpr Option kConfirm{
    "--confirm",
    "NAME",
    "Agree to much beforehand, where --yes is not enough: the name that would have to be typed."};

constexpr Option kDeadGroupsOptions[] = {
    kOfGroup,  kOfQueue, kOfClass, kOneTenant,    kOfModel,      kOfUpstream,  kOfOperation,
    kOfAdvice, kOfKey,   kOfRunId, kArrivedSince, kArrivedUntil, kLetterState, kStore,
    kConfig,   kSet,     kAdmin,   kPlain,        kJson,
};
constexpr Example kDeadGroupsExamples[] = {
    {"callgate dead groups", "what has failed for good, by cause, the most first"},
    {"callgate dead groups --queue invoices --since 1h", "what is new in a queue"},
    {"callgate dead groups --store backup.db", "of a file"},
};
constexpr Option kDeadListOptions[] = {
    kOfGroup,
    kOfQueue,
    kOfClass,
    kOneTenant,
    kOfModel,
    kOfUpstream,
    kOfOperation,
    kOfAdvice,
    kOfKey,
    kOfRunId,
    kArrivedSince,
    kArrivedUntil,
    kLetterState,
    {"--after", "ID", "Only older ones than this letter: the next page."},
    {"--most", "NUMBER", "At most so many; 100 without it."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kDeadListExamples[] = {
    {"callgate dead list --group 9f2c04d1a7b35e68", "letters of one cause, the newest first"},
    {"callgate dead list --tenant search --state resolved", "what was made good"},
};
constexpr Option kDeadShowOptions[] = {
    {"--request", "", "Show the request, too; that is audited."},
    kOneTenant,
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kDeadShowExamples[] = {
    {"callgate dead show 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10", "cause, attempts, history, and what to do"},
    {"callgate dead show 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10 --request", "with what was asked for"},
};
constexpr Option kDeadReplayOptions[] = {
    kOfGroup,
    kOfQueue,
    kOfClass,
    kOneTenant,
    kOfModel,
    kOfUpstream,
    kOfOperation,
    kOfAdvice,
    kOfKey,
    kOfRunId,
    kArrivedSince,
    kArrivedUntil,
    {"--rate", "NUMBER", "At most so many a second; 1 without it."},
    {"--concurrency", "NUMBER", "At most so many at once; 2 without it."},
    {"--canary", "NUMBER", "So many first, and the others if they go well; 5 without it, at least 1."},
    {"--max-cost", "USD", "It stops there: the letter that passes it is its last."},
    {"--stop-share", "SHARE", "It stops where this share of them fails; 0.2 without it."},
    kReason,
    {"--plan", "", "Show what would be sent; send nothing."},
    {"--resume", "REPLAY", "Follow one, begin one that was planned, or let one go on that was held or stopped."},
    {"--progress", "FORM", "text, or json: a line of JSON on stderr at each step."},
    kYes,
    kConfirm,
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kDeadReplayExamples[] = {
    {"callgate dead replay --group 9f2c04d1a7b35e68 --reason 'it is over' --plan",
     "how many, what is left out, what it may cost"},
    {"callgate dead replay --queue invoices --reason 'key renewed' --rate 20 --max-cost 5",
     "plan, question, and to the end"},
    {"callgate dead replay 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10 --yes", "one letter, without a question"},
    {"callgate dead replay --resume 0193c3b5-9a10-7b1c-a4c4-3e2f5b8d7d43", "on with one"},
};
constexpr Option kDeadReplaysOptions[] = {
    kOneTenant,
    {"--most", "NUMBER", "At most so many."},
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kDeadReplaysExamples[] = {{"callgate dead replays", "how far each has come"}};
constexpr Option kDeadApproveOptions[] = {
    {"--by", "NAME", "Who approves of it."},
    kReason,
    kConfig,
    kSet,
    kAdmin,
    kJson,
};
constexpr Example kDeadApproveExamples[] = {
    {"callgate dead approve 0193c3b5-9a10-7b1c-a4c4-3e2f5b8d7d43 --by kim --reason 'prompt mended'",
     "then it can be begun"},
};
constexpr Option kDeadHoldOptions[] = {kReason, kConfig, kSet, kAdmin, kJson};
constexpr Example kDeadPauseExamples[] = {
    {"callgate dead pause 0193c3b5-9a10-7b1c-a4c4-3e2f5b8d7d43", "nothing more of it begins"},
};
constexpr Example kDeadCancelExamples[] = {
    {"callgate dead cancel 0193c3b5-9a10-7b1c-a4c4-3e2f5b8d7d43", "its other letters stay open"},
};
constexpr Option kDeadEditOptions[] = {
    {"--set",
     "/POINTER=VALUE",
     "A member of the body and its new JSON; what is no JSON is a text; may be repeated.",
     true},
    kReason,
    kYes,
    kOneTenant,
    kConfig,
    kAdmin,
    kJson,
};
constexpr Example kDeadEditExamples[] = {
    {"callgate dead edit 0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10 --set /model=gpt-5 --reason 'model is gone'",
     "the difference, a question, a new revision"},
};
constexpr Option kDeadDiscardOptions[] = {
    kReason,      kOfGroup,  kOfQueue, kOfClass, kOneTenant,    kOfModel,      kOfUpstream,
    kOfOperation, kOfAdvice, kOfKey,   kOfRunId, kArrivedSince, kArrivedUntil, kYes,
    kConfirm,     kConfig,   kSet,     kAdmin,   kJson,
};
constexpr Example kDeadDiscardExamples[] = {
    {"callgate dead discard --group 9f2c04d1a7b35e68 --reason 'test traffic'", "all of a cause, after a question"},
};
constexpr Option kDeadExportOptions[] = {
    {"--request", "", "With their requests; that is audited, each."},
    kOfGroup,
    kOfQueue,
    kOfClass,
    kOneTenant,
    kOfModel,
    kOfUpstream,
    kOfOperation,
    kOfAdvice,
    kOfKey,
    kOfRunId,
    kArrivedSince,
    kArrivedUntil,
    kLetterState,
    kConfig,
    kSet,
    kAdmin,
};
constexpr Example kDeadExportExamples[] = {
    {"callgate dead export --class invalid_request > letters.jsonl", "a line of JSON for each letter"},
};
constexpr Option kDeadAuditOptions[] = {
    {"--before", "SEQ", "Only older ones than this: the next page."},
    {"--most", "NUMBER", "At most so many; 100 without it."},
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kDeadAuditExamples[] = {{"callgate dead audit", "who did what, and why, the youngest first"}};

constexpr Option kRunsListOptions[] = {
    {"--queue", "NAME", "Only of this queue."},
    {"--state", "RUN_STATE", "queued, running, succeeded, failed, dead or cancelled."},
    kOneTenant,
    {"--run-id", "ID", "Only of this job."},
    {"--key", "KEY", "Only with this key."},
    {"--since", "TIME", "Accepted from then on: 2026-11-29T16:40Z, or 7d for that long ago."},
    {"--after", "RUN", "Only older ones than this run: the next page."},
    {"--most", "NUMBER", "At most so many, 1000 at the highest; 100 without it."},
    kStore,
    kConfig,
    kSet,
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kRunsListExamples[] = {
    {"callgate runs list --state running", "what is being made"},
    {"callgate runs list --queue invoices --state dead --since 1h", "what was given up of a queue"},
};
constexpr Option kRunsShowOptions[] = {kOneTenant, kStore, kConfig, kSet, kAdmin, kJson};
constexpr Example kRunsShowExamples[] = {
    {"callgate runs show 01a22ce1-d221-7000-b9b5-95c3777fcb69", "state, attempts, cost, where its result is"},
};
constexpr Option kRunsActOptions[] = {kReason, kOneTenant, kConfig, kSet, kAdmin, kJson};
constexpr Example kRunsCancelExamples[] = {
    {"callgate runs cancel 01a22ce1-d221-7000-b9b5-95c3777fcb69 --reason 'sent twice'", "over within a second"},
};
constexpr Example kRunsRetryExamples[] = {
    {"callgate runs retry 01a22ce1-d221-7000-b9b5-95c3777fcb69", "queued again, with all its attempts"},
};

constexpr Option kUnknownOptions[] = {kConfig, kSet, kAdmin, kPlain, kJson};
constexpr Example kUnknownExamples[] = {
    {"callgate unknown --config callgate.yaml", "a table, and for each the line to report"},
    {"callgate unknown | grep '^{' > unknown.jsonl", "the lines alone, for \"callgate classify --cases\""},
    {"callgate unknown --json", "for programs"},
};

constexpr Option kValidateOptions[] = {
    kSet,
    {"--strict", "", "Warnings are errors."},
    {"--against", "OLD", "The configuration that holds now: contracts that promise less than it are errors."},
    kAcceptWeaker,
    kJson,
};
constexpr Example kValidateExamples[] = {
    {"callgate validate callgate.yaml", "every problem, with its place and the mend"},
    {"callgate validate --strict callgate.yaml", "warnings, too, end with 3"},
    {"callgate validate --against running.yaml callgate.yaml", "would a reload take it?"},
    {"callgate validate --json a.yaml b.yaml", "for programs"},
    {"render-config | callgate validate -", "from standard input"},
};

constexpr Option kShowOptions[] = {kConfig, kSet, kJson};
constexpr Example kShowExamples[] = {
    {"callgate config show", "defaults and CALLGATE_ variables"},
    {"callgate config show --config callgate.yaml", "what holds in the end, and who decided it"},
    {"callgate config show --json", "for programs"},
};

constexpr Option kAlertsOptions[] = {kConfig, kSet};
constexpr Example kAlertsExamples[] = {
    {"callgate alerts --config callgate.yaml > callgate-queues.yaml", "a rules file for Prometheus"},
};

constexpr Option kKeysIssueOptions[] = {{"--tenant", "NAME", "Whose key it will be."}, kJson};
constexpr Example kKeysIssueExamples[] = {
    {"callgate keys issue --tenant search", "a key for the worker, and a line for the configuration"},
    {"callgate keys issue --tenant search --json", "for programs"},
};

constexpr Example kSchemaExamples[] = {{"callgate config schema > callgate.schema.json", "for editors"}};
constexpr Example kDocsExamples[] = {{"callgate config docs", "all keys, in Markdown"}};

constexpr Option kPriceFile{
    "--file", "FILE", "A price file over the shipped table; may be repeated, the last one beats those before.", true};
constexpr Option kPricesListOptions[] = {kPriceFile, kPlain, kJson};
constexpr Example kPricesListExamples[] = {
    {"callgate prices list", "all models of the shipped table"},
    {"callgate prices list claude", "those with that word in model or provider"},
    {"callgate prices list --file model_prices_and_context_window.json groq", "with LiteLLM's file over it"},
};
constexpr Option kPricesShowOptions[] = {
    kPriceFile,
    {"--provider", "NAME", "Whose model: openai, anthropic, groq, bedrock, …; without it, by its name alone."},
    {"--usage", "COUNTS", "What was used, such as input=1000,cached=800,output=50; prints the cost, step by step."},
    {"--tier", "TIER", "The service tier that the answer names: flex, priority, batch, …"},
    {"--modifier", "NAME", "us, eu, fast, regional, where a price has a factor for it; may be repeated.", true},
    {"--date", "DATE", "The day of the call; today without it."},
    kJson,
};
constexpr Example kPricesShowExamples[] = {
    {"callgate prices show gpt-5-mini-2025-08-07", "which price is meant, and how it was found"},
    {"callgate prices show gpt-5.4 --usage input=300000,cached=200000,output=900 --tier flex",
     "what a call costs, and why"},
    {"callgate prices show openai/gpt-oss-120b --provider groq", "at one provider"},
};
constexpr Option kPricesCheckOptions[] = {kJson};
constexpr Example kPricesCheckExamples[] = {
    {"callgate prices check prices.json", "every problem, with its place and the mend"},
    {"callgate prices check model_prices_and_context_window.json", "LiteLLM's file: what of it is understood"},
};
constexpr Option kDialect{"--dialect", "NAME", "Whose words it is in; openai without it."};
constexpr Option kPath{"--path", "PATH", "What was asked for; the dialect's chat without it."};
constexpr Option kHeader{"-H", "HEADER", "A header of the answer, 'Name: value'; may be repeated.", true};
constexpr Option kStream{"--stream", "", "The body is a stream of events (seen by itself where it begins like one)."};
constexpr Option kCases{
    "--cases", "FILE", "A file of recorded answers, one JSON object a line; may be repeated.", true};

constexpr Option kClassifyOptions[] = {
    kDialect,
    kPath,
    {"--status", "CODE", "The answer's status; 200 without it."},
    {"--transport", "HOW", "How the connection failed: timeout, connect_refused, reset, tls or dns."},
    kHeader,
    kStream,
    kCases,
    {"--explain", "", "Which rule spoke; of one of your own also where it stands."},
    {"--upstream", "NAME", "With the dialect and the rules of this upstream of the configuration."},
    kConfig,
    kJson,
};
constexpr Example kClassifyExamples[] = {
    {"callgate classify --dialect openai --status 429 -H 'retry-after: 3' body.json", "one answer"},
    {"callgate classify --transport reset", "a connection that broke"},
    {"callgate classify --explain --config callgate.yaml --upstream lab --status 520 body.json", "by your own rules"},
    {"callgate classify --cases answers.jsonl", "a file of recorded answers"},
};

constexpr Option kUsageOptions[] = {kDialect, kPath, kHeader, kStream, kCases, kJson};
constexpr Example kUsageExamples[] = {
    {"callgate usage --dialect anthropic answer.json", "the tokens of one answer"},
    {"callgate usage --cases answers.jsonl", "a file of recorded answers"},
};

constexpr Option kInjectOptions[] = {
    {"-f", "FILE", "The manifest; \"-\" is standard input."},
    {"--image", "IMAGE", "callgate's image, with its version; without it callgate:" CALLGATE_VERSION "."},
    {"--mode", "MODE", "native (as without it): a sidecar of Kubernetes 1.29; container: a second container."},
    {"--config-map", "NAME", "One that you have, with the key config.yaml; without it one is added."},
    {"--keys-secret", "NAME", "A Secret with provider keys, which only callgate's container sees."},
    {"--key", "UPSTREAM=KEY", "Which key of that Secret belongs to which upstream; may be repeated.", true},
    {"--container", "NAME", "Whose environment gets the base URLs; all without it; may be repeated.", true},
};
constexpr Example kInjectExamples[] = {
    {"callgate inject -f worker.yaml --image registry.example.com/callgate:0.1.0 | kubectl apply -f -", "as it is"},
    {"callgate inject -f - --keys-secret llm --key openai=OPENAI_API_KEY", "callgate holds the key"},
};

constexpr Option kJsonOnly[] = {kJson};
constexpr Example kDialectsExamples[] = {{"callgate dialects", "what `dialect:` may say"}};
constexpr Option kDoctorOptions[] = {
    kConfig,
    kSet,
    {"--upstream",
     "NAME",
     "Look at this upstream, instead of all that the configuration says something of; may be repeated.",
     true},
    {"--timeout", "TIME", "How long each connection may take; 5s without it."},
    kAdmin,
    kPlain,
    kJson,
};
constexpr Example kDoctorExamples[] = {
    {"callgate doctor --config /etc/callgate/config.yaml", "before the first start, and whenever something is odd"},
    {"callgate doctor --upstream openai", "can that provider be reached from here?"},
    {"callgate doctor --json", "for programs"},
};
constexpr Example kManExamples[] = {
    {"callgate man > /usr/local/share/man/man1/callgate.1", "all commands, for man(1)"},
    {"callgate man callgate.yaml | man -l -", "read the configuration's keys at once"},
};
constexpr Example kCompletionExamples[] = {
    {"source <(callgate completion bash)", "in this shell"},
    {"callgate completion zsh > /usr/local/share/zsh/site-functions/_callgate", "for all users of zsh"},
    {"callgate completion fish > ~/.config/fish/completions/callgate.fish", "for oneself"},
};
constexpr Example kVersionExamples[] = {{"callgate version", ""}};
constexpr Example kHelpExamples[] = {
    {"callgate help config show", "one command"},
    {"callgate help exit-codes", "what a command ends with"},
};

constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

constexpr Command kCommands[] = {
    {.words = "serve",
     .summary = "Run callgate.",
     .examples = kServeExamples,
     .options = kServeOptions,
     .details = "SIGTERM or Ctrl-C drains and ends with 0, or with 1 if calls had to be broken off; a second one "
                "ends at once.\n"
                "SIGHUP, a change of the file or \"callgate reload\" makes it read its configuration again.",
     .run = serve},
    {.words = "reload",
     .summary = "Make a running callgate read its configuration again.",
     .examples = kReloadExamples,
     .options = kReloadOptions,
     .details =
         "It is found by listen.admin of the same configuration, and listen.admin_token is shown where one is set.\n"
         "A bad configuration is refused whole: the problems are listed, the old one stays, and the exit code is 3.\n"
         "A queue contract that promises less than the one that holds is refused, too, without --accept-weaker.",
     .run = reload},
    {.words = "upstreams",
     .summary = "Show how the providers of a running callgate are.",
     .examples = kUpstreamsExamples,
     .options = kUpstreamsOptions,
     .details =
         "Breakers that are not closed, keys that are left out, pauses that a provider asked for, and how many\n"
         "retries the budget has left. It is found as by \"callgate reload\".",
     .run = upstreams},
    {.words = "explain",
     .summary = "Tell what became of a call, attempt by attempt.",
     .arguments = "CALL_ID",
     .most_arguments = 1,
     .examples = kExplainExamples,
     .options = kExplainOptions,
     .details = "The id stands in the answer's Callgate-Call-Id and in the log. The last 500 calls that ended are "
                "told from\n"
                "memory, older ones from the ledger. Ends with 4 if the call is in neither.",
     .run = explain},
    {.words = "unknown",
     .summary = "List what providers said to a running callgate that no rule knew.",
     .examples = kUnknownExamples,
     .options = kUnknownOptions,
     .details =
         "Answers that differ only in ids, numbers and quotations have one fingerprint. Below each stands a case "
         "line:\n"
         "nothing of a request and no key is in it, so that it can be reported as it is. Of the process that runs;\n"
         "it is found as by \"callgate reload\".",
     .run = unknown},
    {.words = "status",
     .summary = "Show who waits for what, who holds what, and what is left.",
     .examples = kStatusExamples,
     .options = kLookOptions,
     .details = "At most 200 calls are listed, the oldest first. Of the process that runs; it is found as by\n"
                "\"callgate reload\". With --plain each line begins with what it is of: tenant, lane, upstream, "
                "queue, waits, budget, call.",
     .run = status},
    {.words = "cancel",
     .summary = "End calls that wait or are in flight.",
     .arguments = "[CALL]",
     .most_arguments = 1,
     .examples = kCancelExamples,
     .options = kCancelOptions,
     .details =
         "Their callers get 503 with code callgate_cancelled, or a stream that breaks off. Ends with 4 if no such\n"
         "call is under way. Of the process that runs; it is found as by \"callgate reload\".",
     .run = cancel},
    {.words = "pause",
     .summary = "Let nothing of a tenant, lane, upstream or queue of runs begin.",
     .arguments = "tenant|lane|upstream|queue NAME",
     .most_arguments = 2,
     .examples = kPauseExamples,
     .options = kPauseOptions,
     .details = "What is in flight goes on, and a paused queue still accepts runs. A pause is kept over restarts. "
                "Ends with 4 if\n"
                "there is no such thing.",
     .run = pause},
    {.words = "resume",
     .summary = "End a pause.",
     .arguments = "tenant|lane|upstream|queue NAME",
     .most_arguments = 2,
     .examples = kResumeExamples,
     .options = kAskOptions,
     .details = "Ends with 4 if it was not paused.",
     .run = resume},
    {.words = "drain",
     .summary = "End callgate as SIGTERM does, or only its work on runs.",
     .examples = kDrainExamples,
     .options = kDrainOptions,
     .details =
         "Waits until the process has gone, or with --runs-only until no run and no replay is under way; those "
         "that wait\n"
         "for a turn or a retry are queued again. With --runs-only nothing begins until callgate is started "
         "anew.",
     .run = drain},
    {.words = "budget show",
     .summary = "Show what each tenant has spent of its budgets.",
     .examples = kBudgetShowExamples,
     .options = kLookOptions,
     .details = "Kept over restarts, with what calls in flight have in reserve.",
     .run = budget_show},
    {.words = "budget grant",
     .summary = "Allow more money in the running day or month, or for a run.",
     .arguments = "USD",
     .most_arguments = 1,
     .examples = kGrantExamples,
     .options = kGrantOptions,
     .details =
         "It ends with the period. \"-- -25\" behind the options takes money back. Ends with 4 if the tenant has no\n"
         "such limit.",
     .run = budget_grant},
    {.words = "spend",
     .summary = "Say what was spent: on retries, on failures, and what was saved.",
     .examples = kSpendExamples,
     .options = kSpendOptions,
     .details = "Amounts in US dollars, exact. \"retries\" and \"failed\" are parts of the cost: of attempts that "
                "another one\n"
                "followed, and of calls that were not answered in the end. \"possibly billed\" counts attempts of "
                "which nobody\n"
                "knows whether they were billed, and what budgets were charged for them; it is not in the cost. "
                "Begin and end\n"
                "are whole quarters of an hour. By run_id, class and label it is as old as calls are kept\n"
                "(store.retention.calls). docs/spend.md says more.",
     .run = spend},
    {.words = "spend reconcile",
     .summary = "Compare with a provider's own report, day by day and model.",
     .arguments = "FILE…",
     .most_arguments = kAnyNumber,
     .examples = kReconcileExamples,
     .options = kReconcileOptions,
     .details = "Reads OpenAI's and Anthropic's usage and cost reports, as JSON from their admin APIs and as CSV "
                "from their\n"
                "consoles; several pages are one report, \"-\" is standard input. Ends with 0 if all is equal, with "
                "3 if not.",
     .run = spend_reconcile},
    {.words = "calls list",
     .summary = "List calls, the youngest first.",
     .examples = kCallsListExamples,
     .options = kCallsListOptions,
     .details = "Calls that are under way are in the list once their first attempt has begun.",
     .run = calls_list},
    {.words = "calls show",
     .summary = "Tell all of a call, attempt by attempt.",
     .arguments = "CALL_ID",
     .most_arguments = 1,
     .examples = kCallsShowExamples,
     .options = kCallsShowOptions,
     .details = "Ends with 4 if the call is not in the ledger (store.retention.calls).",
     .run = calls_show},
    {.words = "calls tail",
     .summary = "Print calls as they end.",
     .examples = kCallsTailExamples,
     .options = kCallsTailOptions,
     .details = "Looks twice a second; Ctrl-C ends it.",
     .run = calls_tail},
    {.words = "events tail",
     .summary = "Follow the feed of events.",
     .examples = kEventsTailExamples,
     .options = kEventsTailOptions,
     .details = "Looks twice a second; Ctrl-C ends it.",
     .run = events_tail},
    {.words = "runs list",
     .summary = "List runs, the newest first.",
     .examples = kRunsListExamples,
     .options = kRunsListOptions,
     .run = runs_list},
    {.words = "runs show",
     .summary = "Tell all of a run: how it stands, its attempts, its cost, where its result is.",
     .arguments = "RUN",
     .most_arguments = 1,
     .examples = kRunsShowExamples,
     .options = kRunsShowOptions,
     .details = "Ends with 4 if there is no such run. What was asked for and answered is not shown: its worker reads "
                "the\nresult, and callgate dead show --request has the request of one that is dead.",
     .run = runs_show},
    {.words = "runs cancel",
     .summary = "Take a run back, whatever it is at.",
     .arguments = "RUN",
     .most_arguments = 1,
     .examples = kRunsCancelExamples,
     .options = kRunsActOptions,
     .details = "Ends with 4 if there is no such run, with 8 if it had ended. callgate dead audit shows who did it.",
     .run = runs_cancel},
    {.words = "runs retry",
     .summary = "Queue a run again that failed or died.",
     .arguments = "RUN",
     .most_arguments = 1,
     .examples = kRunsRetryExamples,
     .options = kRunsActOptions,
     .details =
         "Ends with 4 if there is no such run, with 8 if it is in another state or its queue's contract wants "
         "replays\napproved. Then, and for many at once, with a canary, a rate and a cap: callgate dead replay.",
     .run = runs_retry},
    {.words = "dead groups",
     .summary = "Say what has failed for good, by cause.",
     .examples = kDeadGroupsExamples,
     .options = kDeadGroupsOptions,
     .details = "Advice is what to do: replay (it may succeed as it is), fix-first (something has to be mended "
                "before),\n"
                "discard (it would fail again). docs/operations.md says more.",
     .run = dead_groups},
    {.words = "dead list",
     .summary = "List dead letters, the newest first.",
     .examples = kDeadListExamples,
     .options = kDeadListOptions,
     .run = dead_list},
    {.words = "dead show",
     .summary = "Tell all of a dead letter, and what to do with it.",
     .arguments = "ID",
     .most_arguments = 1,
     .examples = kDeadShowExamples,
     .options = kDeadShowOptions,
     .details = "Ends with 4 if there is no such letter. --request shows what the worker sent, as it is kept: "
                "without keys;\n"
                "it is not for --store.",
     .run = dead_show},
    {.words = "dead replay",
     .summary = "Send dead letters again, as planned and agreed to.",
     .arguments = "[ID…]",
     .most_arguments = kAnyNumber,
     .examples = kDeadReplayExamples,
     .options = kDeadReplayOptions,
     .details = "More than one letter needs --reason. The plan is shown first, then it asks. For a whole queue, for "
                "all that\n"
                "there are, and for more than USD 10 a name has to be typed: the queue's, \"all\", or the number of "
                "letters.\n"
                "What is agreed to is what is sent. It runs in callgate, also if this\n"
                "command is ended, and goes on after a restart; --resume follows it. Ends with 0 if all were "
                "resolved, with 7\n"
                "if some failed again, were skipped or not sent, with 8 if the plan no longer holds, with 4 if "
                "nothing matches,\n"
                "with 6 if it needs an approval.",
     .run = dead_replay},
    {.words = "dead replays",
     .summary = "List replays, and how far each has come.",
     .examples = kDeadReplaysExamples,
     .options = kDeadReplaysOptions,
     .run = dead_replays},
    {.words = "dead approve",
     .summary = "Approve of a replay, where a queue's contract asks for it.",
     .arguments = "REPLAY",
     .most_arguments = 1,
     .examples = kDeadApproveExamples,
     .options = kDeadApproveOptions,
     .details = "callgate dead replay --resume REPLAY --plan shows what it would send.",
     .run = dead_approve},
    {.words = "dead pause",
     .summary = "Hold a replay.",
     .arguments = "REPLAY",
     .most_arguments = 1,
     .examples = kDeadPauseExamples,
     .options = kDeadHoldOptions,
     .details = "callgate dead replay --resume REPLAY lets it go on.",
     .run = dead_pause},
    {.words = "dead cancel",
     .summary = "End a replay.",
     .arguments = "REPLAY",
     .most_arguments = 1,
     .examples = kDeadCancelExamples,
     .options = kDeadHoldOptions,
     .run = dead_cancel},
    {.words = "dead edit",
     .summary = "Change the request of a dead letter.",
     .arguments = "ID",
     .most_arguments = 1,
     .examples = kDeadEditExamples,
     .options = kDeadEditOptions,
     .details = "Makes a new revision, which a replay sends. The difference is shown first, then it asks.",
     .run = dead_edit},
    {.words = "dead discard",
     .summary = "Say of dead letters that nobody wants them any more.",
     .arguments = "[ID…]",
     .most_arguments = kAnyNumber,
     .examples = kDeadDiscardExamples,
     .options = kDeadDiscardOptions,
     .details =
         "Needs ids, --group, --queue or --class. Asks with their number first; for a whole queue its name has "
         "to be\n"
         "typed. Ends with 4 if none is meant.",
     .run = dead_discard},
    {.words = "dead export",
     .summary = "Write dead letters as JSON lines, the newest first.",
     .arguments = "[ID…]",
     .most_arguments = kAnyNumber,
     .examples = kDeadExportExamples,
     .options = kDeadExportOptions,
     .run = dead_export},
    {.words = "dead audit",
     .summary = "List what was done by hand: who, what, why.",
     .examples = kDeadAuditExamples,
     .options = kDeadAuditOptions,
     .run = dead_audit},
    {.words = "report timeouts",
     .summary = "Say which timeouts to set, from how long calls take.",
     .examples = kTimeoutsExamples,
     .options = kTimeoutsOptions,
     .details = "Of answered calls, waiting and retries included. From 1000 calls on the SDK timeout is p99.9 and "
                "half of it,\n"
                "from 100 on twice the longest, below that nothing is said; the queue's visibility timeout is a "
                "fifth above,\n"
                "30 s at least. docs/queues.md says how to set and to renew them.",
     .run = report_timeouts},
    {.words = "ledger check",
     .summary = "Say whether the ledger's file is sound.",
     .arguments = "[FILE]",
     .most_arguments = 1,
     .examples = kCheckExamples,
     .options = kCheckOptions,
     .details = "It may be served meanwhile. Ends with 3 if something is wrong, with 4 if there is no such file.",
     .run = ledger_check},
    {.words = "ledger backup",
     .summary = "Copy the ledger into a new file.",
     .arguments = "FILE",
     .most_arguments = 1,
     .examples = kBackupExamples,
     .options = kFileOptions,
     .details = "It may be served meanwhile. A file that is there already is refused.",
     .run = ledger_backup},
    {.words = "ledger export",
     .summary = "Write all calls as JSON lines, the oldest first.",
     .arguments = "[FILE]",
     .most_arguments = 1,
     .examples = kExportExamples,
     .options = kExportOptions,
     .details = "It may be served meanwhile. A line is as by \"callgate calls show --json\"; docs/spend.md has its "
                "fields. Without\n"
                "FILE to standard output; a file that is there already is refused.",
     .run = ledger_export},
    {.words = "ledger rerate",
     .summary = "Price stored attempts anew, by the tables of now.",
     .examples = kRerateExamples,
     .options = kRerateOptions,
     .details = "From the tokens in their rows, at the prices of their days; what a provider stated itself stays. "
                "Costs and\n"
                "sums change together, and what budgets were charged stays. With --apply no callgate may work with "
                "the file.",
     .run = ledger_rerate},
    {.words = "idem show",
     .summary = "Say what is stored under an Idempotency-Key.",
     .arguments = "KEY",
     .most_arguments = 1,
     .examples = kIdemShowExamples,
     .options = kIdemShowOptions,
     .details =
         "One line for each place where the key was used: tenant, credential, route and path count. Ends with 4 if "
         "it is not known.",
     .run = idem_show},
    {.words = "idem forget",
     .summary = "Let an Idempotency-Key be as new.",
     .arguments = "KEY",
     .most_arguments = 1,
     .examples = kIdemForgetExamples,
     .options = kIdemForgetOptions,
     .details = "Its stored answer is gone then, and the next call with it is paid. Ends with 4 if it is not known, "
                "with 8 if a\n"
                "call works on it.",
     .run = idem_forget},
    {.words = "validate",
     .summary = "List all problems of configuration files.",
     .arguments = "[FILE…]",
     .most_arguments = kAnyNumber,
     .examples = kValidateExamples,
     .options = kValidateOptions,
     .details =
         "Without a file: CALLGATE_CONFIG, else the defaults with CALLGATE_ variables. \"-\" is standard input.\n"
         "Nothing is sent anywhere. Ends with 3 if there is an error; warnings alone end with 0 without --strict.",
     .run = validate},
    {.words = "config show",
     .summary = "Print what holds in the end, and who decided each value.",
     .examples = kShowExamples,
     .options = kShowOptions,
     .details = "Keys that are not in this version are left out.",
     .run = config_show},
    {.words = "config schema",
     .summary = "Print the JSON Schema (draft-07) of the configuration.",
     .examples = kSchemaExamples,
     .run = config_schema},
    {.words = "config docs",
     .summary = "Print the documentation of all keys, in Markdown.",
     .examples = kDocsExamples,
     .run = config_docs},
    {.words = "alerts",
     .summary = "Write Prometheus rules from the queue contracts.",
     .examples = kAlertsExamples,
     .options = kAlertsOptions,
     .details =
         "For each queue what its slo, its dead letters and its owner say; the rules that are shipped for all\n"
         "queues then keep silent for it. Errors elsewhere, such as keys that are not on this machine, are named and "
         "do no\n"
         "harm. docs/operations.md says what to do when one fires.",
     .run = alerts},
    {.words = "inject",
     .summary = "Put callgate beside the application in a Kubernetes manifest.",
     .examples = kInjectExamples,
     .options = kInjectOptions,
     .details =
         "Deployments, StatefulSets, DaemonSets, Jobs, CronJobs, Pods and Lists of them get the same container "
         "as by the\n"
         "chart callgate-sidecar; everything else stays as it is, and so does a pod that has callgate already. "
         "No cluster\n"
         "is asked. Ends with 3 if the manifest cannot be read, with 4 if there is no such workload in it.",
     .run = inject},
    {.words = "keys issue",
     .summary = "Make a key by which a tenant's workers are known.",
     .examples = kKeysIssueExamples,
     .options = kKeysIssueOptions,
     .details =
         "The key (cg_…) is printed once and kept nowhere. The configuration gets its digest; a key is withdrawn by\n"
         "taking the digest out. It works for upstreams with credentials of callgate's own, and never goes to a\n"
         "provider. Nothing is sent anywhere.",
     .run = keys_issue},
    {.words = "prices list",
     .summary = "List the models that have a price.",
     .arguments = "[WORD]",
     .most_arguments = 1,
     .examples = kPricesListExamples,
     .options = kPricesListOptions,
     .details = "Ends with 3 if a file is wrong, with 4 if no model has the word.",
     .run = prices_list},
    {.words = "prices show",
     .summary = "Say what a model or a call costs, and why.",
     .arguments = "MODEL",
     .most_arguments = 1,
     .examples = kPricesShowExamples,
     .options = kPricesShowOptions,
     .details = "COUNTS are input, cached, write, write_1h, output, reasoning; audio_input, cached_audio_input,\n"
                "image_input, cached_image_input, audio_output, image_output (parts of input and output);\n"
                "input_ms, output_ms, input_images, output_images, input_characters, output_characters, queries,\n"
                "pages, web_searches. Ends with 3 if a file is wrong, with 4 if the model has no price.",
     .run = prices_show},
    {.words = "prices check",
     .summary = "List all problems of price files, ours or LiteLLM's.",
     .arguments = "FILE…",
     .most_arguments = kAnyNumber,
     .examples = kPricesCheckExamples,
     .options = kPricesCheckOptions,
     .details =
         "\"-\" is standard input. Warnings name what looks wrong, such as a priority tier at 50 times the plain\n"
         "price, and what is left out. Ends with 3 if there is an error; warnings alone end with 0.",
     .run = prices_check},
    {.words = "classify",
     .summary = "Show what callgate makes of an answer: class, retryable, wait.",
     .arguments = "[BODY]",
     .most_arguments = 1,
     .examples = kClassifyExamples,
     .options = kClassifyOptions,
     .details =
         "BODY is a file with the answer's body, \"-\" is standard input. With --cases a line of JSON per case is\n"
         "printed; where a case says what it expects and got something else, stderr says so and the end is 7.",
     .run = classify},
    {.words = "usage",
     .summary = "Show which tokens callgate reads from an answer.",
     .arguments = "[BODY]",
     .most_arguments = 1,
     .examples = kUsageExamples,
     .options = kUsageOptions,
     .details =
         "BODY is a file with the answer's body, \"-\" is standard input. With --cases a line of JSON per case is\n"
         "printed; where a case says what it expects and got something else, stderr says so and the end is 7.",
     .run = usage},
    {.words = "dialects",
     .summary = "List the provider APIs that this version speaks.",
     .examples = kDialectsExamples,
     .options = kJsonOnly,
     .run = dialects},
    {.words = "doctor",
     .summary = "Look at everything that callgate needs, and say what to mend.",
     .examples = kDoctorExamples,
     .options = kDoctorOptions,
     .details =
         "Configuration, keys and their modes, ports, the names and TLS certificates of upstreams, clock, store "
         "and disk,\n"
         "and a running callgate. Upstreams are connected to, but asked nothing, and no key goes out. Ends with "
         "1 if\n"
         "something has failed, with 3 if the configuration is refused; warnings alone end with 0.",
     .run = doctor},
    {.words = "man",
     .summary = "Print a manual page.",
     .arguments = "[callgate|callgate.yaml]",
     .most_arguments = 1,
     .examples = kManExamples,
     .run = man},
    {.words = "completion",
     .summary = "Print what makes a shell complete callgate's commands.",
     .arguments = "bash|zsh|fish",
     .most_arguments = 1,
     .examples = kCompletionExamples,
     .details = "The Debian package has these installed.",
     .run = completion},
    {.words = "version",
     .summary = "Print the version.",
     .examples = kVersionExamples,
     .options = kJsonOnly,
     .run = version},
    {.words = "help",
     .summary = "Say more about a command.",
     .arguments = "[COMMAND…]",
     .most_arguments = kAnyNumber,
     .examples = kHelpExamples,
     .run = help},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace cli
