#include <limits>

#include "cli/about.h"
#include "cli/classify.h"
#include "cli/command.h"
#include "cli/config.h"
#include "cli/control.h"
#include "cli/keys.h"
#include "cli/prices.h"
#include "cli/reload.h"
#include "cli/serve.h"
#include "cli/unknown.h"
#include "cli/upstreams.h"

namespace cli {
namespace {

constexpr Option kConfig{"--config", "FILE", "The configuration; without it CALLGATE_CONFIG, else the defaults."};
constexpr Option kSet{"--set", "KEY=VALUE", "One key, over file and environment; may be repeated.", true};
constexpr Option kJson{"--json", "", "For programs, as JSON."};

constexpr Option kServeOptions[] = {kConfig, kSet};
constexpr Example kServeExamples[] = {
    {"callgate serve", "the defaults, callers' own keys"},
    {"callgate serve --config callgate.yaml", "with a file"},
    {"callgate serve --set listen.data=127.0.0.1:5600", "one key changed"},
};

constexpr Option kAdmin{"--admin", "ADDRESS", "Where it listens (host:port or unix:/path), if not at listen.admin."};
constexpr Option kReloadOptions[] = {kConfig, kSet, kAdmin, kJson};
constexpr Example kReloadExamples[] = {
    {"callgate reload --config callgate.yaml", "what has changed, or every problem"},
    {"callgate reload --admin unix:/run/callgate/admin.sock", "named by its address"},
    {"callgate reload --json", "for programs"},
};

constexpr Option kUpstreamsOptions[] = {kConfig, kSet, kAdmin, kJson};
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

constexpr Option kUnknownOptions[] = {kConfig, kSet, kAdmin, kJson};
constexpr Example kUnknownExamples[] = {
    {"callgate unknown --config callgate.yaml", "a table, and for each the line to report"},
    {"callgate unknown | grep '^{' > unknown.jsonl", "the lines alone, for \"callgate classify --cases\""},
    {"callgate unknown --json", "for programs"},
};

constexpr Option kValidateOptions[] = {kSet, kJson};
constexpr Example kValidateExamples[] = {
    {"callgate validate callgate.yaml", "every problem, with its place and the mend"},
    {"callgate validate --json a.yaml b.yaml", "for programs"},
    {"render-config | callgate validate -", "from standard input"},
};

constexpr Option kShowOptions[] = {kConfig, kSet, kJson};
constexpr Example kShowExamples[] = {
    {"callgate config show", "defaults and CALLGATE_ variables"},
    {"callgate config show --config callgate.yaml", "what holds in the end, and who decided it"},
    {"callgate config show --json", "for programs"},
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
constexpr Option kPricesListOptions[] = {kPriceFile, kJson};
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

constexpr Option kJsonOnly[] = {kJson};
constexpr Example kDialectsExamples[] = {{"callgate dialects", "what `dialect:` may say"}};
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
         "A bad configuration is refused whole: the problems are listed, the old one stays, and the exit code is 3.",
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
     .details =
         "The id stands in the answer's Callgate-Call-Id and in the log. The last 500 calls that ended are kept\n"
         "in memory; of older ones the log has the line. Ends with 4 if the call is not among them.",
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
     .options = kAskOptions,
     .details = "At most 200 calls are listed, the oldest first. Of the process that runs; it is found as by\n"
                "\"callgate reload\".",
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
     .summary = "Let nothing of a tenant, lane or upstream begin.",
     .arguments = "tenant|lane|upstream NAME",
     .most_arguments = 2,
     .examples = kPauseExamples,
     .options = kPauseOptions,
     .details =
         "What is in flight goes on. A pause is forgotten by a restart. Ends with 4 if there is no such thing.",
     .run = pause},
    {.words = "resume",
     .summary = "End a pause.",
     .arguments = "tenant|lane|upstream NAME",
     .most_arguments = 2,
     .examples = kResumeExamples,
     .options = kAskOptions,
     .details = "Ends with 4 if it was not paused.",
     .run = resume},
    {.words = "budget show",
     .summary = "Show what each tenant has spent of its budgets.",
     .examples = kBudgetShowExamples,
     .options = kAskOptions,
     .details = "Kept in memory in this version: a restart begins at zero.",
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
    {.words = "validate",
     .summary = "List all problems of configuration files.",
     .arguments = "[FILE…]",
     .most_arguments = kAnyNumber,
     .examples = kValidateExamples,
     .options = kValidateOptions,
     .details =
         "Without a file: CALLGATE_CONFIG, else the defaults with CALLGATE_ variables. \"-\" is standard input.\n"
         "Nothing is sent anywhere. Ends with 3 if there is an error; warnings alone end with 0.",
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
