#include <limits>

#include "cli/about.h"
#include "cli/command.h"
#include "cli/config.h"
#include "cli/serve.h"

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

constexpr Example kSchemaExamples[] = {{"callgate config schema > callgate.schema.json", "for editors"}};
constexpr Example kDocsExamples[] = {{"callgate config docs", "all keys, in Markdown"}};

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
     .details = "SIGTERM drains and ends; a second one ends at once.",
     .run = serve},
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
