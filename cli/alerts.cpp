#include "cli/alerts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <string_view>

#include "cli/config.h"
#include "gateway/config_values.h"
#include "gateway/json_out.h"

namespace cli {
namespace {

using gateway::QueueContract;
using std::chrono::milliseconds;

/// A step is more than so many letters in a quarter of an hour, and so many times as many as on the day before.
struct Step {
  double floor = 0;
  double factor = 0;
};
Step step_of(const QueueContract& queue) {
  return {static_cast<double>(queue.alerts.arrivals_floor), queue.alerts.step_factor};
}

constexpr double kMostBad = 5;          // Runs in six hours that may end badly, whatever their share.
constexpr double kNearExpiry = 0.8;     // Of the time for which a letter is kept.
constexpr double kBucketsEnd = 86'400;  // The last bound of callgate_run_duration_seconds.

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.12g", value);
  return text.data();
}
double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }
std::string in_words(milliseconds time) { return gateway::say_duration(time.count()); }

/// For a place where Prometheus runs a template: no brace of the text's own can begin an action.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '{' ? std::string{R"({{"{"}})"} : std::string{c};
  return out;
}

/// A string of PromQL.
std::string literal(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + '"';
}

/// A double-quoted text of YAML, as of JSON. Readers differ over what of UTF-8 ends a line or is refused: that is
/// escaped.
std::string quoted(std::string_view text) {
  std::string out;
  gateway::append_json(out, text, text.size());
  return out;
}

struct Rule {
  std::string alert;
  std::string expr;
  std::string_view lasts;  // How long it must hold; empty: no time.
  std::string_view severity;
  std::string summary;  // These two are templates.
  std::string description;
  int panel;  // Of the dashboard.
};

/// One queue's rules.
class Writer {
 public:
  Writer(const QueueContract& queue, milliseconds kept) : queue_(queue), kept_(kept) {
    if (queue.dead_letter.retention.count() > 0) kept_ = queue.dead_letter.retention;
  }

  std::string text() {
    out_ = "  - name: " + quoted("callgate-queue-" + queue_.name) + "\n    rules:\n";
    // By which the rules that are shipped for all queues know that this one has its own.
    out_ += "      - record: queue:callgate_rules:own\n        expr: vector(1)\n        labels: {queue: " +
            quoted(plain(queue_.name)) + "}\n";
    oldest_wait();
    no_consumers();
    success_ratio();
    complete_within();
    arrivals();
    near_expiry();
    return out_;
  }

 private:
  static constexpr std::string_view kBy = " by (namespace, queue, owner) ";

  /// The series of this queue; `more` are further matchers.
  [[nodiscard]] std::string series(std::string_view metric, std::string_view more = {}) const {
    return std::string{metric} + "{queue=" + literal(queue_.name) + (more.empty() ? "" : ",") + std::string{more} +
           "}";
  }
  [[nodiscard]] std::string most(std::string_view metric) const {
    return std::string{"max"}.append(kBy) + "(" + series(metric) + ")";
  }
  [[nodiscard]] std::string increase(std::string_view metric, std::string_view range,
                                     std::string_view more = {}) const {
    return std::string{"sum"}.append(kBy) + "(increase(" + series(metric, more) + std::string{range} + "))";
  }

  void oldest_wait() {
    if (!queue_.slo.oldest_wait) return;
    const milliseconds promised = *queue_.slo.oldest_wait;
    add({"CallgateQueueOldestWait",
         most("callgate_runs_oldest_wait_seconds") + " > " + number(seconds(promised)),
         "5m",
         "page",
         "a run of " + name() + " has waited {{ $value | humanizeDuration }} for its start",
         "Promised is " + in_words(promised) + " (slo.oldest_wait).",
         606});
  }
  void no_consumers() {
    add({"CallgateQueueNoConsumers",
         "max by (namespace, instance, queue, owner) (" + series("callgate_runs_waiting") +
             ") > 0 unless max by (namespace, instance, queue, owner) (" + series("callgate_runs_running") + ") > 0",
         "5m",
         "page",
         "{{ $value }} runs of " + name() + " could begin, and none does",
         "Nothing of the queue was under way for 5 minutes: it is paused, or others hold all places.",
         605});
  }
  void success_ratio() {
    if (!queue_.slo.success_ratio) return;
    const std::string bad = increase("callgate_runs_ended_total", "[6h]", R"(state=~"failed|dead")");
    const std::string all = increase("callgate_runs_ended_total", "[6h]", R"(state=~"succeeded|failed|dead")");
    add({"CallgateQueueSuccessRatio",
         bad + " / " + all + " > " + number(1 - *queue_.slo.success_ratio) + " and " + bad + " > " + number(kMostBad),
         "15m",
         "ticket",
         "{{ $value | humanizePercentage }} of the runs of " + name() + " end badly",
         "Over 6 hours; promised is that " + number(100 * *queue_.slo.success_ratio) +
             " % succeed (slo.success_ratio).",
         608});
  }
  void complete_within() {
    if (!queue_.slo.complete_within) return;
    const milliseconds promised = *queue_.slo.complete_within;
    if (seconds(promised) >= kBucketsEnd) {
      out_ += "      # slo.complete_within is beyond the last bucket of callgate_run_duration_seconds (24h).\n";
      return;
    }
    add({"CallgateQueueCompleteWithin",
         "histogram_quantile(0.95, sum by (namespace, queue, owner, le) (rate(" +
             series("callgate_run_duration_seconds_bucket") + "[1h]))) > " + number(seconds(promised)),
         "15m",
         "ticket",
         "one in twenty runs of " + name() + " takes more than {{ $value | humanizeDuration }}",
         "From acceptance to end, over an hour; promised is " + in_words(promised) + " (slo.complete_within).",
         609});
  }
  void arrivals() {
    const Step step = step_of(queue_);
    const std::string now = increase("callgate_dead_letters_arrived_total", "[15m]");
    // `unless … <=` fires without a day before, too.
    add({"CallgateQueueDeadLetterArrivalsStep",
         now + " > " + number(step.floor) + " unless " + now + " <= " + number(step.factor) + " * " +
             increase("callgate_dead_letters_arrived_total", "[1d] offset 15m") + " / 96",
         "",
         "page",
         R"({{ printf "%.0f" $value }} dead letters of )" + name() + " in 15 minutes",
         "More than " + number(step.floor) + ", and more than " + number(step.factor) +
             " times what came in a quarter of an hour on the day before: something new fails for good.",
         701});
  }
  void near_expiry() {
    if (kept_.count() == 0) return;
    add({"CallgateQueueDeadLettersNearExpiry",
         most("callgate_dead_letters_oldest_seconds") + " > " + number(kNearExpiry * seconds(kept_)),
         "",
         "ticket",
         "dead letters of " + name() + " will be gone soon",
         "The oldest open one is {{ $value | humanizeDuration }} old; they are kept for " + in_words(kept_) + ".",
         705});
  }

  [[nodiscard]] std::string name() const { return plain(queue_.name); }

  void add(const Rule& rule) {
    out_ += "      - alert: " + rule.alert + "\n        expr: " + quoted(rule.expr) + "\n";
    if (!rule.lasts.empty()) out_.append("        for: ").append(rule.lasts) += '\n';
    out_.append("        labels:\n          severity: ").append(rule.severity) += '\n';
    out_ += "          queue: " + quoted(name()) + "\n";
    member("team", queue_.owner.team);
    member("contact", queue_.owner.contact);
    out_ += "        annotations:\n          summary: " + quoted(rule.summary) +
            "\n          description: " + quoted(rule.description) + "\n";
    member("runbook_url", queue_.owner.runbook);
    out_ += "          runbook: docs/operations.md#a-queue-breaks-its-contract\n";
    out_ += "          __dashboardUid__: callgate\n          __panelId__: \"" + std::to_string(rule.panel) + "\"\n";
  }
  void member(std::string_view key, std::string_view text) {
    if (!text.empty()) out_.append("          ").append(key).append(": ") += quoted(plain(text)) + "\n";
  }

  const QueueContract& queue_;
  milliseconds kept_;
  std::string out_{};
};

}  // namespace

std::string alert_rules(std::span<const QueueContract> queues, milliseconds kept) {
  std::string text = "# Written by callgate alerts from the queue contracts; docs/operations.md says what to do.\n";
  if (queues.empty()) return text + "groups: []\n";
  text += "groups:\n";
  for (const QueueContract& queue : queues) text += Writer{queue, kept}.text();
  return text;
}

int alerts(const Arguments& arguments, Terminal& terminal) {
  const gateway::Loaded loaded = load(arguments, terminal);
  print_problems(loaded.problems, terminal.err, terminal.colour_err);
  // Whoever writes rules need not have the keys and files of the machine that callgate runs on.
  const bool spoilt = std::ranges::any_of(loaded.problems, [](const gateway::Problem& problem) {
    return problem.severity == gateway::Problem::Severity::Error &&
           (problem.path.empty() || problem.path.starts_with("queues") ||
            problem.path.starts_with("store.retention"));
  });
  if (spoilt) return kInvalid;
  if (loaded.config.queues.empty()) terminal.err << "no queue has a contract (queues)\n";
  terminal.out << alert_rules(loaded.config.queues, loaded.config.store.keep_dead_letters);
  return kDone;
}

}  // namespace cli
