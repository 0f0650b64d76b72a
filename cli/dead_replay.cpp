#include "cli/dead_replay.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "budget/price.h"
#include "cli/ask_dead.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kCommand = "dead replay";
constexpr int kInterrupted = 130;
constexpr budget::NanoUsd kDear{10'000'000'000};
constexpr std::size_t kTextMax = 400;

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

/// While it lives, the first Ctrl-C is only noted; the second one ends the program.
class Interrupts {
 public:
  Interrupts() {
    interrupted = false;
    struct sigaction noting {};
    noting.sa_handler = [](int) { interrupted = true; };
    noting.sa_flags = SA_RESETHAND;
    ::sigaction(SIGINT, nullptr, &before_);
    if (before_.sa_handler != SIG_IGN) ::sigaction(SIGINT, &noting, nullptr);
  }
  ~Interrupts() { ::sigaction(SIGINT, &before_, nullptr); }
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  [[nodiscard]] static bool seen() { return interrupted; }

 private:
  struct sigaction before_ {};
};

/// How far one has come.
struct Course {
  std::string state{};
  std::uint64_t waiting = 0, running = 0, resolved = 0, dead_again = 0, skipped = 0;
  std::string cost{};
  std::string why{};
  [[nodiscard]] std::uint64_t done() const { return resolved + dead_again + skipped; }
  [[nodiscard]] std::uint64_t all() const { return done() + waiting + running; }
  /// Nothing can be waited for in words that nobody knows.
  [[nodiscard]] bool known() const { return over() || state == "planned" || state == "running" || state == "paused"; }
  [[nodiscard]] bool over() const { return state == "done" || state == "stopped" || state == "cancelled"; }
};

Course course_of(const Json& json) {
  Course course;
  course.state = json.at("state").get<std::string>();
  course.waiting = count_in(json, "waiting");
  course.running = count_in(json, "running");
  course.resolved = count_in(json, "resolved");
  course.dead_again = count_in(json, "dead_again");
  course.skipped = count_in(json, "skipped");
  course.cost = told(json, "cost_usd");
  course.why = told(json, "why", kTextMax);
  return course;
}

/// For programs: a line of JSON.
std::string line_of(const Course& course) {
  return Json{{"state", course.state},
              {"done", course.done()},
              {"all", course.all()},
              {"running", course.running},
              {"resolved", course.resolved},
              {"dead_again", course.dead_again},
              {"skipped", course.skipped},
              {"cost_usd", course.cost == "-" ? "0" : course.cost}}
      .dump();
}

std::string spaced(std::string text) {
  std::ranges::replace(text, '_', ' ');
  return text;
}

std::string letters(std::uint64_t count) { return std::to_string(count) + (count == 1 ? " letter" : " letters"); }

std::string counts_of(const Course& course) {
  return std::to_string(course.resolved) + " resolved, " + std::to_string(course.dead_again) + " dead again, " +
         std::to_string(course.skipped) + " skipped, USD " + (course.cost == "-" ? "0" : course.cost);
}

void print_plan(const Json& plan, std::ostream& out) {
  Rows rows{{"replay", cell(plan.at("id").get<std::string>())}, {"state", told(plan, "state")}};
  rows.push_back({"to be sent", letters(course_of(plan).waiting)});
  if (const auto skipped = plan.find("skipped_at_plan"); skipped != plan.end() && skipped->is_array()) {
    for (const Json& one : *skipped)
      rows.push_back({"left out", letters(count_in(one, "count")) + ": " + spaced(told(one, "why"))});
  }
  if (const auto more = plan.find("more_than_one_plan_holds"); more != plan.end() && *more == true)
    rows.push_back({"and more", "one plan cannot hold all; the same command plans the others afterwards"});
  if (const auto estimate = plan.find("estimate"); estimate != plan.end() && estimate->is_object()) {
    const std::uint64_t unknown = count_in(*estimate, "without_estimate");
    if (unknown < course_of(plan).waiting) {
      rows.push_back({"estimate",
                      told(*estimate, "input_tokens") + " tokens in, " + told(*estimate, "output_tokens") +
                          " out, USD " + told(*estimate, "cost_usd")});
    }
    if (unknown > 0) {
      rows.push_back(
          {"no estimate", letters(unknown) + ": no call of their model was answered in the last seven days"});
    }
  }
  if (const auto limits = plan.find("limits"); limits != plan.end() && limits->is_object()) {
    std::string text;
    for (const auto& [name, value] : limits->items())
      text += (text.empty() ? "" : ", ") + spaced(cell(name)) + " " + (value.is_null() ? "none" : word(value));
    if (!text.empty()) rows.push_back({"limits", text});
  }
  print_rows(rows, out);
  if (const auto groups = plan.find("groups"); groups != plan.end() && groups->is_array() && !groups->empty()) {
    Rows table{{"group", "letters", "class", "queue", "model", "cause"}};
    for (const Json& one : *groups) {
      table.push_back({told(one, "group"),
                       std::to_string(count_in(one, "count")),
                       told(one, "class"),
                       told(one, "queue"),
                       told(one, "model"),
                       told(one, "cause")});
    }
    out << '\n';
    print_rows(table, out);
  }
}

std::string path_of(const std::string& id, std::string_view act = {}) {
  return "/v1/replays/" + id + (act.empty() ? "" : "/") + std::string{act};
}

/// The result, and what else there is to say of an end.
int ended(const std::string& id, const Json& json, const Arguments& arguments, Terminal& terminal) {
  const Course course = course_of(json);
  if (arguments.has("--json")) {
    terminal.out << pages_of(json);
  } else {
    terminal.out << counts_of(course) << '\n';
  }
  if (course.state == "cancelled") terminal.err << "It was cancelled.\n";
  if (course.state == "stopped") {
    terminal.err << "It stopped: " << spaced(course.why) << ". " << letters(course.waiting)
                 << " not sent. When that is mended: callgate dead replay --resume " << id << '\n';
  } else if (course.dead_again > 0) {
    terminal.err << "What died again is in callgate dead groups, with the cause that it has now.\n";
  }
  return course.state == "done" && course.dead_again == 0 && course.skipped == 0 ? kDone : kPartly;
}

int left_running(const std::string& id, std::ostream& err) {
  err << "The replay goes on without this. To follow it: callgate dead replay --resume " << id
      << "\nTo hold or to end it: callgate dead pause " << id << ", callgate dead cancel " << id << '\n';
  return kInterrupted;
}

/// A good answer's JSON; else the exit code, and why stands on terminal.err by then.
std::expected<Json, int> asked(std::string_view command, std::string_view method, const std::string& path,
                               const Arguments& arguments, Terminal& terminal) {
  const auto reply = ask_dead(command, method, path, arguments, terminal);
  if (!reply) return std::unexpected(reply.error());
  auto json = shallow<Json>(reply->body);
  if (!json || !json->is_object()) return std::unexpected(no_books(command, *reply, terminal));
  return *std::move(json);
}

int strange(std::string_view command, Terminal& terminal) {
  terminal.err << "callgate " << command << ": what listens there does not answer as a callgate does\n"
               << "Give the address of its admin listener with --admin.\n";
  return kUnreachable;
}

/// What was agreed to begins; else the exit code.
std::optional<int> start(const std::string& id, const Json& plan, const Arguments& arguments, Terminal& terminal) {
  const std::string digest = plan.at("digest").get<std::string>();
  // Broken off from here on, it may have begun.
  const Interrupts interrupts;
  const auto begun =
      asked(kCommand, "POST", path_of(id, "start") + query_of({{"digest", digest}}), arguments, terminal);
  if (begun && Interrupts::seen()) return left_running(id, terminal.err);
  if (begun) return std::nullopt;
  if (begun.error() == kConflict) terminal.err << "Nothing was sent.\n";
  if (begun.error() == kTimedOut || begun.error() == kUnreachable)
    terminal.err << "It may have begun all the same: callgate dead replay --resume " << id << " tells.\n";
  return Interrupts::seen() ? kInterrupted : begun.error();
}

/// ", for about USD 1.25"; nothing where nobody knows.
std::string price_of(const Json& plan) {
  const auto estimate = plan.find("estimate");
  if (estimate == plan.end() || !estimate->is_object()) return {};
  const std::uint64_t unknown = count_in(*estimate, "without_estimate");
  if (unknown >= course_of(plan).waiting) return ", at a cost that is not known";
  return std::string{unknown > 0 ? ", for USD " : ", for about USD "} + told(*estimate, "cost_usd") +
         (unknown > 0 ? " and what is not known" : "");
}

/// May it cost more than one agrees to in passing?
bool is_dear(const Json& plan) {
  const auto estimate = plan.find("estimate");
  if (estimate == plan.end() || !estimate->is_object()) return false;
  const auto cost = budget::parse_usd(told(*estimate, "cost_usd"));
  return cost && *cost > kDear;
}

std::optional<int> ask_and_start(const std::string& id, const Json& plan, const Arguments& arguments,
                                 Terminal& terminal) {
  if (const auto needs = plan.find("needs_approval"); needs != plan.end() && *needs == true) {
    terminal.err << "callgate dead replay: a queue's contract wants somebody's approval first: callgate dead approve "
                 << id << " --by NAME --reason TEXT\nThen: callgate dead replay --resume " << id << '\n';
    return kDenied;
  }
  const std::string question = "Send " + letters(course_of(plan).waiting) + price_of(plan) + "?";
  std::string name = arguments.has("--resume") ? std::string{} : name_to_type(arguments);
  if (name.empty() && is_dear(plan)) name = std::to_string(course_of(plan).waiting);
  if (const auto code = declined(kCommand, question, name, arguments, terminal)) return code;
  return start(id, plan, arguments, terminal);
}

/// A replay that there is: planned ones are begun, held ones go on.
int resume(const Arguments& arguments, Terminal& terminal) {
  const std::string id = arguments.get("--resume");
  const auto json = asked(kCommand, "GET", path_of(id), arguments, terminal);
  if (!json) return json.error();
  const Course course = course_of(*json);
  if (arguments.has("--plan")) {
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else {
      print_plan(*json, terminal.out);
    }
    return kDone;
  }
  if (!course.known()) return strange(kCommand, terminal);
  if (course.over() && course.state != "stopped") return ended(id, *json, arguments, terminal);
  if (course.state == "planned") {
    print_plan(*json, terminal.err);
    if (const auto code = ask_and_start(id, *json, arguments, terminal)) return *code;
  } else if (course.state == "stopped") {
    if (const auto code = start(id, *json, arguments, terminal)) return *code;
  } else if (course.state == "paused") {
    if (const auto moved = asked(kCommand, "POST", path_of(id, "resume"), arguments, terminal); !moved)
      return moved.error();
  }
  return follow_replay(id, arguments, terminal);
}

int plan_and_send(const Arguments& arguments, Terminal& terminal) {
  const std::string query = dead_query(arguments,
                                       {{"reason", arguments.get("--reason")},
                                        {"rate", arguments.get("--rate")},
                                        {"concurrency", arguments.get("--concurrency")},
                                        {"canary", arguments.get("--canary")},
                                        {"max_cost_usd", arguments.get("--max-cost")},
                                        {"stop_share", arguments.get("--stop-share")}});
  const auto plan = asked(kCommand, "POST", "/v1/replays" + query, arguments, terminal);
  if (!plan) return plan.error();
  const std::string id = plan->at("id").get<std::string>();
  if (no_id({.words = {id}})) return strange(kCommand, terminal);
  const std::uint64_t planned = plan->at("count").get_ref<const Json::number_unsigned_t&>();
  const bool only_plan = arguments.has("--plan");
  if (arguments.has("--json")) {
    if (only_plan) terminal.out << pages_of(*plan);
  }
  if (!arguments.has("--json") || !only_plan) print_plan(*plan, only_plan ? terminal.out : terminal.err);
  if (planned == 0) {
    terminal.err << "callgate dead replay: no letter that could be sent is meant by this\n";
    return kNotFound;
  }
  if (only_plan) {
    terminal.err << "Nothing was sent. Within an hour: callgate dead replay --resume " << id << '\n';
    return kDone;
  }
  if (const auto code = ask_and_start(id, *plan, arguments, terminal)) return *code;
  return follow_replay(id, arguments, terminal);
}

/// "ID STATE", or the answer for programs.
int order(std::string_view command, std::string_view act, const std::string& query, std::string_view done,
          const Arguments& arguments, Terminal& terminal) {
  if (arguments.words.empty())
    return misuse(command, "needs a replay's id, as callgate dead replays shows it", terminal);
  if (const auto bad = no_id(arguments)) return misuse(command, *bad + " is no replay's id", terminal);
  const std::string& id = arguments.words[0];
  const auto json = asked(command, "POST", path_of(id, act) + query, arguments, terminal);
  if (!json) return json.error();
  if (const auto state = json->find("state"); state == json->end() || !state->is_string())
    return strange(command, terminal);
  if (arguments.has("--json")) {
    terminal.out << pages_of(*json);
  } else {
    terminal.out << done << '\n';
  }
  if (act != "cancel") terminal.err << "To go on: callgate dead replay --resume " << id << '\n';
  return kDone;
}

}  // namespace

int follow_replay(const std::string& id, const Arguments& arguments, Terminal& terminal, const Pace& pace) {
  const Interrupts interrupts;
  Progress progress{terminal, pace.say_again};
  auto heard = Clock::now();
  bool lost = false;
  bool held = false;
  const bool json_lines = arguments.get("--progress") == "json";
  std::string last;
  for (;; std::this_thread::sleep_for(pace.look_again)) {
    if (Interrupts::seen()) return left_running(id, progress.talk());
    std::ostringstream why;
    Terminal aside{terminal.in, terminal.out, why};
    const auto json = asked(kCommand, "GET", path_of(id), arguments, aside);
    if (Interrupts::seen()) return left_running(id, progress.talk());
    std::optional<Course> course;
    try {
      if (json) course = course_of(*json);
      if (course && !course->known()) course.reset();
      if (json && !course) strange(kCommand, aside);
    } catch (const Json::exception&) {
      strange(kCommand, aside);
    }
    if (course) {
      heard = Clock::now();
      if (std::exchange(lost, false)) progress.talk() << "callgate answers again\n";
      if (json_lines) {
        if (auto line = line_of(*course); line != last) terminal.err << (last = std::move(line)) << std::endl;
      }
      if (course->over()) {
        progress.clear();
        return ended(id, *json, arguments, terminal);
      }
      if (course->state == "paused" && !held) {
        progress.talk() << "It is held. From elsewhere: callgate dead replay --resume " << id << " lets it go on\n";
      }
      held = course->state == "paused";
      if (json_lines) continue;
      progress.show(std::to_string(course->done()) + " of " + std::to_string(course->all()) + ": " +
                    counts_of(*course) + ", " + std::to_string(course->running) + " under way");
      continue;
    }
    const int code = json ? kUnreachable : json.error();
    if (code != kUnreachable && code != kTimedOut) {
      progress.talk() << why.str();
      return code;
    }
    if (Clock::now() - heard >= pace.patience) {
      progress.talk() << why.str() << "The replay goes on once callgate runs again: callgate dead replay --resume "
                      << id << '\n';
      return code;
    }
    if (!std::exchange(lost, true)) {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(pace.patience).count();
      progress.talk() << "callgate cannot be reached; it is asked again for " << seconds
                      << " s. After a restart the replay goes on by itself.\n"
                      << std::flush;
    }
  }
}

int dead_replay(const Arguments& arguments, Terminal& terminal) {
  if (const auto bad = no_id(arguments)) return misuse(kCommand, *bad + " is no letter's id", terminal);
  if (const std::string form = arguments.get("--progress", "text"); form != "text" && form != "json")
    return misuse(kCommand, "--progress must be text or json (is " + gateway::say(form) + ")", terminal);
  const bool resumed = arguments.has("--resume");
  if (resumed) {
    const std::string id = arguments.get("--resume");
    if (no_id({.words = {id}})) return misuse(kCommand, "--resume needs a replay's id", terminal);
    constexpr std::string_view kOfPlans[] = {"--group",
                                             "--queue",
                                             "--class",
                                             "--model",
                                             "--upstream",
                                             "--advice",
                                             "--key",
                                             "--run-id",
                                             "--since",
                                             "--until",
                                             "--rate",
                                             "--concurrency",
                                             "--canary",
                                             "--max-cost",
                                             "--stop-share",
                                             "--reason"};
    const auto given = std::ranges::find_if(kOfPlans, [&](std::string_view one) { return arguments.has(one); });
    if (!arguments.words.empty() || given != std::end(kOfPlans)) {
      return misuse(
          kCommand, "--resume is of a replay that was planned; letters and limits can no longer be named", terminal);
    }
  } else if (arguments.words.size() != 1 && !arguments.has("--reason")) {
    return misuse(kCommand, "needs --reason TEXT, for the audit log, unless it is of a single letter", terminal);
  } else if (!arguments.has("--plan")) {
    const std::string name = resumed ? std::string{} : name_to_type(arguments);
    // What it may cost is known once it is planned, and what has to be typed for that.
    const bool later = name.empty() && arguments.has("--confirm");
    const auto nobody = later ? std::nullopt : nobody_to_ask(kCommand, name, arguments, terminal);
    if (nobody) {
      terminal.err << "--plan shows what would be sent, and sends nothing.\n";
      return *nobody;
    }
  }
  try {
    return resumed ? resume(arguments, terminal) : plan_and_send(arguments, terminal);
  } catch (const Json::exception&) {
    return strange(kCommand, terminal);
  }
}

int dead_replays(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kReplays = "dead replays";
  const auto json =
      asked(kReplays,
            "GET",
            "/v1/replays" + query_of({{"tenant", arguments.get("--tenant")}, {"most", arguments.get("--most")}}),
            arguments,
            terminal);
  if (!json) return json.error();
  try {
    Rows rows{{"replay",
               "created",
               "state",
               "waiting",
               "running",
               "resolved",
               "dead again",
               "skipped",
               "USD",
               "approved by",
               "why",
               "reason"}};
    for (const Json& one : json->at("replays")) {
      const Course course = course_of(one);
      rows.push_back({cell(one.at("id").get<std::string>()),
                      told(one, "created_at"),
                      cell(course.state),
                      std::to_string(course.waiting),
                      std::to_string(course.running),
                      std::to_string(course.resolved),
                      std::to_string(course.dead_again),
                      std::to_string(course.skipped),
                      course.cost,
                      told(one, "approved_by"),
                      spaced(course.why),
                      told(one, "reason")});
    }
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else if (rows.size() == 1) {
      terminal.err << "no replays\n";
    } else {
      print_list(rows, arguments, terminal);
    }
    return kDone;
  } catch (const Json::exception&) {
    return strange(kReplays, terminal);
  }
}

int dead_approve(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kApprove = "dead approve";
  if (!arguments.has("--by")) return misuse(kApprove, "needs --by NAME: who approves of it", terminal);
  if (!arguments.has("--reason")) return misuse(kApprove, "needs --reason TEXT, for the audit log", terminal);
  return order(kApprove,
               "approve",
               query_of({{"by", arguments.get("--by")}, {"reason", arguments.get("--reason")}}),
               "approved",
               arguments,
               terminal);
}

int dead_pause(const Arguments& arguments, Terminal& terminal) {
  return order("dead pause",
               "pause",
               query_of({{"reason", arguments.get("--reason")}}),
               "paused; what is under way comes to its end",
               arguments,
               terminal);
}

int dead_cancel(const Arguments& arguments, Terminal& terminal) {
  return order("dead cancel",
               "cancel",
               query_of({{"reason", arguments.get("--reason")}}),
               "cancelled; what is under way comes to its end",
               arguments,
               terminal);
}

}  // namespace cli
