#include "gateway/weaker_contracts.h"

#include <algorithm>
#include <charconv>

#include "budget/price.h"
#include "gateway/config_keys.h"
#include "gateway/config_values.h"

namespace gateway {
namespace {

std::string usd(const std::optional<budget::NanoUsd>& amount) {
  return amount ? "$" + budget::usd_text(*amount) : "no limit";
}

std::chrono::milliseconds retention_of(const QueueContract& queue, const Config& config) {
  return queue.dead_letter.retention.count() > 0 ? queue.dead_letter.retention : config.store.keep_dead_letters;
}

std::string changed(std::string_view is, const std::string& before, const std::string& now) {
  return std::string{is} + " (" + before + ", now " + now + ")";
}

}  // namespace

std::vector<Weaker> weaker(const Config& old, const Config& fresh) {
  std::vector<Weaker> all;
  for (const QueueContract& before : old.queues) {
    const Path path{"queues", before.name};
    const auto add = [&](std::string_view group, std::string_view key, std::string message) {
      Path where = path;
      if (!group.empty()) where.emplace_back(group);
      if (!key.empty()) where.emplace_back(key);
      all.push_back({text_of(where), std::move(message)});
    };
    const auto now = std::ranges::find(fresh.queues, before.name, &QueueContract::name);
    if (now == fresh.queues.end()) {
      add({}, {}, "has no contract any more, and there may be runs and dead letters of it");
      continue;
    }
    const auto kept = retention_of(before, old);
    const auto keeps = retention_of(*now, fresh);
    if (keeps < kept) {
      add("dead_letter",
          "retention",
          changed("is shorter than before", say_duration(kept.count()), say_duration(keeps.count())));
    }
    using ledger::LetterForm;
    if (now->dead_letter.payload == LetterForm::Plain && before.dead_letter.payload != LetterForm::Plain)
      add("dead_letter", "payload", "is plain now: requests are kept so that anybody can read them who has the file");
    if (before.payload_schema.schema && !now->payload_schema.schema)
      add({}, "payload_schema", "is there no more (was " + say(before.payload_schema.file) + ")");
    if (before.replay.requires_approval && !now->replay.requires_approval)
      add("replay", "requires_approval", "is not required any more");
    const bool higher = now->replay.max_cost
                            ? before.replay.max_cost && *now->replay.max_cost > *before.replay.max_cost
                            : before.replay.max_cost.has_value();
    if (higher) {
      add("replay",
          "max_cost_usd",
          changed("is higher than before", usd(before.replay.max_cost), usd(now->replay.max_cost)));
    }
  }
  return all;
}

std::vector<Problem> weaker_problems(const Config& old, const Loaded& fresh, const std::string& file) {
  std::vector<Problem> problems;
  for (const Weaker& one : weaker(old, fresh.config)) {
    Problem problem;
    problem.kind = Problem::Kind::Weaker;
    problem.file = file;
    problem.path = one.path;
    problem.message = one.message;
    const auto setting =
        std::ranges::find_if(fresh.settings, [&](const Setting& s) { return text_of(s.path) == one.path; });
    const std::string begin = file + ":";
    if (setting != fresh.settings.end() && setting->origin.starts_with(begin)) {
      const char* last = setting->origin.data() + setting->origin.size();
      std::from_chars(setting->origin.data() + begin.size(), last, problem.line);
      problem.column = problem.line > 0 ? 1 : 0;
    }
    problems.push_back(std::move(problem));
  }
  return problems;
}

}  // namespace gateway
