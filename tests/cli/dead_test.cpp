// Goal: the commands on dead letters say what they would do before they do it, end with the code that they promise,
// and survive whatever answers. Method: the whole program against a listener that says what the test's script has for
// each question.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cli/command.h"
#include "cli/dead_replay.h"
#include "tests/support/raw_peer.h"

namespace dead_test {

using nlohmann::json;
using namespace std::chrono_literals;

const std::string kLetter = "0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10";
const std::string kReplay = "0193c3b5-9a10-7b1c-a4c4-3e2f5b8d7d43";

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};

/// What is asked ("POST /v1/replays?…") and what is answered: "200 OK" or so, and a body.
struct Answer {
  std::string status{"200 OK"};
  std::string body{};
};

class Fake {
 public:
  using Script = std::function<Answer(const std::string& asked)>;
  explicit Fake(Script script) : script_(std::move(script)) {}
  Said run(std::vector<std::string> words, const std::string& typed = {}, bool in_person = false, bool live = false) {
    words.insert(words.begin(), "dead");
    words.insert(words.end(), {"--admin", address()});
    std::istringstream in{typed};
    std::ostringstream out;
    std::ostringstream err;
    cli::Terminal terminal{in, out, err};
    terminal.in_person = in_person;
    terminal.live_err = live;
    const int code = cli::run(words, terminal);
    return {code, out.str(), err.str()};
  }
  Said follow(const cli::Pace& pace, bool live = false) {
    std::istringstream in;
    std::ostringstream out;
    std::ostringstream err;
    cli::Terminal terminal{in, out, err};
    terminal.live_err = live;
    const cli::Arguments arguments{.words = {}, .options = {{"--admin", {address()}}}};
    const int code = cli::follow_replay(kReplay, arguments, terminal, pace);
    return {code, out.str(), err.str()};
  }
  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(peer_.port()); }
  /// Everything that was asked, in its order.
  std::vector<std::string> asked() {
    const std::lock_guard guard{lock_};
    return asked_;
  }
  bool was_asked(const std::string& text) {
    return std::ranges::any_of(asked(), [&](const std::string& one) { return one.find(text) != std::string::npos; });
  }

 private:
  void answer(raw::Connection& connection) {
    const std::string request = connection.request();
    const std::string line = request.substr(0, request.find(" HTTP/"));
    Answer answer;
    {
      const std::lock_guard guard{lock_};
      asked_.push_back(line);
      answer = script_(line);
    }
    if (answer.status.empty()) return;  // Died meanwhile.
    connection.send("HTTP/1.1 " + answer.status + "\r\nConnection: close\r\n\r\n" + answer.body);
  }

  Script script_;
  std::mutex lock_{};
  std::vector<std::string> asked_{};
  raw::Peer peer_{[this](raw::Connection& connection) { answer(connection); }};
};

Answer ok(const json& body) { return {"200 OK", body.dump()}; }
Answer problem(const std::string& status, const std::string& detail) {
  return {status, json{{"detail", detail}}.dump()};
}

json plan_of(int count) {
  return {
      {"id", kReplay},
      {"digest", "d1g"},
      {"state", "planned"},
      {"count", count},
      {"waiting", count},
      {"running", 0},
      {"skipped", 0},
      {"skipped_at_plan", {{{"why", "no_request"}, {"count", 3}}}},
      {"more_than_one_plan_holds", false},
      {"estimate", {{"input_tokens", 1200}, {"output_tokens", 300}, {"cost_usd", "1.25"}, {"without_estimate", 1}}},
      {"limits", {{"rate", 1}, {"concurrency", 2}, {"canary", 5}, {"max_cost_usd", nullptr}}},
      {"needs_approval", false},
      {"groups", {{{"group", "9f2c"}, {"count", count}, {"class", "overloaded"}, {"cause", "too\x1b[2J busy"}}}}};
}
json course(const std::string& state, int waiting, int resolved, int dead_again, int skipped) {
  return {{"id", kReplay},
          {"digest", "d1g"},
          {"state", state},
          {"waiting", waiting},
          {"running", 0},
          {"resolved", resolved},
          {"dead_again", dead_again},
          {"skipped", skipped},
          {"cost_usd", "0.5"},
          {"why", state == "stopped" ? json("auth") : json()}};
}

/// Plans two letters; is started; ends so.
Fake::Script ends(json end) {
  return [end = std::move(end)](const std::string& asked) {
    if (asked.starts_with("POST /v1/replays?") || asked == "POST /v1/replays") return ok(plan_of(2));
    if (asked.find("/start") != std::string::npos) return ok(course("running", 2, 0, 0, 0));
    if (asked.find("/resume") != std::string::npos) return ok(course("running", 1, 1, 0, 0));
    return ok(end);
  };
}

TEST(DeadReplay, is_planned_shown_agreed_to_and_followed_to_its_end) {
  Fake fake{ends(course("done", 0, 2, 0, 0))};
  const Said said = fake.run({"replay",     "--group",   "9f2c",
                              "--rate",     "20",        "--concurrency",
                              "4",          "--canary",  "1",
                              "--max-cost", "5",         "--stop-share",
                              "0.1",        "--reason",  "it is over & done",
                              "--queue",    "q",         "--class",
                              "overloaded", "--tenant",  "t",
                              "--model",    "m",         "--upstream",
                              "u",          "--since",   "7d",
                              "--until",    "2026-12-01"},
                             "y\n",
                             true);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out, "2 resolved, 0 dead again, 0 skipped, USD 0.5\n");
  for (const char* told : {"2 letters",
                           "3 letters: no request",
                           "1200 tokens in, 300 out, USD 1.25",
                           "canary 5, concurrency 2, max cost usd none, rate 1",
                           "no estimate  1 letter: no call",
                           "9f2c",
                           "Send 2 letters, for USD 1.25 and what is not known? [y/N] "}) {
    EXPECT_NE(said.err.find(told), std::string::npos) << told << "\n" << said.err;
  }
  EXPECT_FALSE(said.err.contains('\x1b'));
  const std::vector<std::string> asked = fake.asked();
  ASSERT_EQ(asked.size(), 3U);
  EXPECT_EQ(asked[0],
            "POST /v1/replays?group=9f2c&queue=q&class=overloaded&tenant=t&model=m&upstream=u&since=7d&"
            "until=2026-12-01&reason=it%20is%20over%20%26%20done&rate=20&concurrency=4&canary=1&max_cost_usd=5&"
            "stop_share=0.1");
  EXPECT_EQ(asked[1], "POST /v1/replays/" + kReplay + "/start?digest=d1g");
  EXPECT_EQ(asked[2], "GET /v1/replays/" + kReplay);
}

TEST(DeadReplay, ends_with_the_code_that_it_promises) {
  struct Row {
    const char* name;
    json end;
    int code;
    const char* out;
    const char* err;
  };
  const Row kRows[] = {
      {"all resolved", course("done", 0, 2, 0, 0), 0, "2 resolved, 0 dead again, 0 skipped", ""},
      {"one died again",
       course("done", 0, 1, 1, 0),
       7,
       "1 resolved, 1 dead again, 0 skipped",
       "callgate dead groups"},
      {"one was skipped at run time", course("done", 0, 1, 0, 1), 7, "1 resolved, 0 dead again, 1 skipped", ""},
      {"it stopped itself", course("stopped", 1, 1, 0, 0), 7, "1 resolved", "It stopped: auth. 1 letter not sent"},
      {"it was cancelled", course("cancelled", 1, 1, 0, 0), 7, "1 resolved", "It was cancelled."},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.name);
    Fake fake{ends(row.end)};
    const Said said = fake.run({"replay", kLetter, "--yes"});
    EXPECT_EQ(said.code, row.code) << said.err;
    EXPECT_NE(said.out.find(row.out), std::string::npos) << said.out;
    EXPECT_NE(said.err.find(row.err), std::string::npos) << said.err;
    EXPECT_TRUE(fake.was_asked("POST /v1/replays?id=" + kLetter));
  }
}

TEST(DeadReplay, sends_nothing_without_consent) {
  Fake fake{ends(course("done", 0, 2, 0, 0))};
  const Said nobody = fake.run({"replay", "--group", "9f2c", "--reason", "r"});
  EXPECT_EQ(nobody.code, 2);
  EXPECT_NE(nobody.err.find("--yes"), std::string::npos) << nobody.err;
  EXPECT_EQ(fake.run({"replay", "--group", "9f2c", "--yes"}).code, 2) << "no reason";
  EXPECT_TRUE(fake.asked().empty());
  for (const char* typed : {"", "\n", "n\n", "yess\n", "Y e s\n"}) {
    const Said no = fake.run({"replay", "--group", "9f2c", "--reason", "r"}, typed, true);
    EXPECT_EQ(no.code, 1) << typed;
    EXPECT_EQ(no.out, "");
    EXPECT_NE(no.err.find("nothing was done"), std::string::npos);
  }
  EXPECT_FALSE(fake.was_asked("/start"));
  for (const char* typed : {"y\n", "YES\r\n"})
    EXPECT_EQ(fake.run({"replay", "--group", "9f2c", "--reason", "r"}, typed, true).code, 0) << typed;
}

TEST(DeadReplay, much_needs_its_name_typed) {
  Fake fake{ends(course("done", 0, 2, 0, 0))};
  const std::vector<std::string> all{"replay", "--reason", "r"};
  const std::vector<std::string> queue{"replay", "--queue", "invoices", "--reason", "r"};
  for (const std::vector<std::string>& words : {all, queue}) {
    std::vector<std::string> agreed = words;
    agreed.emplace_back("--yes");
    const Said more = fake.run(agreed);
    EXPECT_EQ(more.code, 2) << "--yes is not enough";
    EXPECT_NE(more.err.find("--confirm " + std::string{words == all ? "all" : "invoices"}), std::string::npos)
        << more.err;
    agreed.back() = "--confirm=elsewhere";
    EXPECT_EQ(fake.run(agreed).code, 2);
    EXPECT_TRUE(fake.asked().empty());
  }
  EXPECT_EQ(fake.run(queue, "y\n", true).code, 1);
  EXPECT_EQ(fake.run(queue, "Invoices\n", true).code, 1);
  EXPECT_FALSE(fake.was_asked("/start"));
  const Said typed = fake.run(queue, "invoices\n", true);
  EXPECT_EQ(typed.code, 0) << typed.err;
  EXPECT_NE(typed.err.find("Type invoices to agree: "), std::string::npos) << typed.err;
  EXPECT_EQ(fake.run(all, "all\n", true).code, 0);

  // Few letters of one cause, but dear ones.
  json dear = plan_of(2);
  dear["estimate"]["cost_usd"] = "10.000000001";
  Fake shop{[&](const std::string& asked) {
    return ok(asked.starts_with("POST /v1/replays?") ? dear : course("done", 0, 2, 0, 0));
  }};
  const std::vector<std::string> group{"replay", "--group", "9f2c", "--reason", "r"};
  std::vector<std::string> agreed = group;
  agreed.emplace_back("--yes");
  EXPECT_EQ(shop.run(agreed).code, 2);
  EXPECT_FALSE(shop.was_asked("/start"));
  agreed.back() = "--confirm=2";
  EXPECT_EQ(shop.run(agreed).code, 0);
  dear["estimate"]["cost_usd"] = "10";
  agreed.back() = "-y";
  EXPECT_EQ(shop.run(agreed).code, 0);
}

TEST(DeadReplay, progress_is_told_to_programs_in_json) {
  Fake fake{ends(course("done", 0, 2, 0, 0))};
  EXPECT_EQ(fake.run({"replay", kLetter, "--yes", "--progress", "bar"}).code, 2);
  const Said said = fake.run({"replay", kLetter, "--yes", "--progress", "json"});
  EXPECT_EQ(said.code, 0);
  std::istringstream lines{said.err.substr(said.err.find("{\""))};
  std::string line;
  ASSERT_TRUE(std::getline(lines, line)) << said.err;
  const json step = json::parse(line);
  EXPECT_EQ(step.at("state"), "done");
  EXPECT_EQ(step.at("done"), 2);
  EXPECT_EQ(step.at("all"), 2);
}

TEST(DeadReplay, plan_is_shown_alone_and_can_be_begun_later) {
  Fake fake{ends(plan_of(2))};
  const Said said = fake.run({"replay", "--group", "9f2c", "--reason", "r", "--plan"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("2 letters"), std::string::npos);
  EXPECT_NE(said.err.find("callgate dead replay --resume " + kReplay), std::string::npos);
  EXPECT_EQ(json::parse(fake.run({"replay", "--reason", "r", "--plan", "--json"}).out), plan_of(2));
  const Said again = fake.run({"replay", "--resume", kReplay, "--plan"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.out, said.out);
  EXPECT_FALSE(fake.was_asked("/start"));
}

TEST(DeadReplay, stale_or_unapproved_plans_and_empty_ones_are_told_apart) {
  const auto planned = [](const json& plan, const Answer& started) {
    return [plan, started](const std::string& asked) {
      return asked.find("/start") == std::string::npos ? ok(plan) : started;
    };
  };
  Fake stale{planned(plan_of(2), problem("409 Conflict", "two letters have changed"))};
  const Said changed = stale.run({"replay", "--reason", "r", "--confirm", "all"});
  EXPECT_EQ(changed.code, 8);
  EXPECT_EQ(changed.out, "");
  EXPECT_NE(changed.err.find("two letters have changed"), std::string::npos) << changed.err;
  EXPECT_NE(changed.err.find("Nothing was sent."), std::string::npos);

  Fake none{planned(plan_of(0), ok(json::object()))};
  const Said nothing = none.run({"replay", "--reason", "r", "--confirm", "all"});
  EXPECT_EQ(nothing.code, 4);
  EXPECT_NE(nothing.err.find("3 letters: no request"), std::string::npos) << "why is part of it";
  EXPECT_FALSE(none.was_asked("/start"));

  json unapproved = plan_of(2);
  unapproved["needs_approval"] = true;
  Fake held{planned(unapproved, ok(json::object()))};
  const Said wait = held.run({"replay", "--reason", "r", "--confirm", "all"});
  EXPECT_EQ(wait.code, 6);
  EXPECT_NE(wait.err.find("callgate dead approve " + kReplay + " --by NAME --reason TEXT"), std::string::npos);
  EXPECT_FALSE(held.was_asked("/start"));
}

TEST(DeadReplay, refusals_of_callgate_are_said) {
  struct Row {
    std::string status;
    int code;
  };
  for (const Row& row : {Row{"400 Bad Request", 2},
                         {"401 Unauthorized", 6},
                         {"404 Not Found", 4},
                         {"409 Conflict", 8},
                         {"500 Internal Server Error", 1},
                         {"503 Service Unavailable", 9}}) {
    SCOPED_TRACE(row.status);
    Fake fake{[&](const std::string&) { return problem(row.status, "told so"); }};
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"replay", "--reason", "r", "--confirm", "all"},
          {"replay", "--reason", "r", "--plan"},
          {"replays"},
          {"groups"},
          {"list"},
          {"show", kLetter},
          {"export"},
          {"audit"},
          {"replay", "--resume", kReplay},
          {"pause", kReplay},
          {"cancel", kReplay},
          {"approve", kReplay, "--by", "kim", "--reason", "r"},
          {"discard", kLetter, "--reason", "r", "--yes"},
          {"edit", kLetter, "--set", "/model=x", "--reason", "r", "--yes"}}) {
      const Said said = fake.run(words);
      EXPECT_EQ(said.code, row.code) << words[0] << said.err;
      EXPECT_EQ(said.out, "") << words[0];
      EXPECT_NE(said.err.find("told so"), std::string::npos) << said.err;
    }
  }
}

TEST(DeadReplay, resumes_what_was_held_and_follows_what_runs) {
  std::string state = "stopped";
  Fake fake{[&](const std::string& asked) {
    if (asked.starts_with("POST")) state = "done";
    return ok(state == "done" ? course("done", 0, 2, 0, 0) : course(state, 1, 1, 0, 0));
  }};
  const Said said = fake.run({"replay", "--resume", kReplay});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_TRUE(fake.was_asked("POST /v1/replays/" + kReplay + "/start?digest=d1g"));
  state = "paused";
  EXPECT_EQ(fake.run({"replay", "--resume", kReplay}).code, 0);
  EXPECT_EQ(fake.asked().at(4), "POST /v1/replays/" + kReplay + "/resume");
  const Said over = fake.run({"replay", "--resume", kReplay});
  EXPECT_EQ(over.code, 0);
  EXPECT_EQ(std::ranges::count_if(fake.asked(), [](const auto& one) { return one.starts_with("POST"); }), 2);
  EXPECT_EQ(json::parse(fake.run({"replay", "--resume", kReplay, "--json"}).out)["resolved"], 2);
  EXPECT_EQ(fake.run({"replay", "--resume", kReplay, "--rate", "5"}).code, 2);
  EXPECT_EQ(fake.run({"replay", "--resume", kReplay, kLetter}).code, 2);
  EXPECT_EQ(fake.run({"replay", "--resume", "../x"}).code, 2);

  Fake planned{ends(plan_of(2))};
  EXPECT_EQ(planned.run({"replay", "--resume", kReplay}).code, 2) << "it is still to be agreed to";
  EXPECT_EQ(planned.run({"replay", "--resume", kReplay}, "n\n", true).code, 1);
}

constexpr cli::Pace kQuick{.look_again = 1ms, .say_again = 1h, .patience = 30s};

TEST(DeadReplay, followed_goes_on_when_callgate_was_away) {
  int asked = 0;
  Fake fake{[&](const std::string&) -> Answer {
    switch (++asked) {
      case 1:
        return ok(course("running", 2, 0, 0, 0));
      case 2:
      case 3:
        return {"", ""};  // Killed.
      case 4:
        return {"200 OK", R"({"id":")"};  // Killed while it answered.
      case 5:
        return problem("503 Service Unavailable", "starting");
      case 6:
        return ok(course("running", 1, 1, 0, 0));
      case 7:
        return {"", ""};
      default:
        return ok(course("done", 0, 2, 0, 0));
    }
  }};
  const Said said = fake.follow(kQuick);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.out, "2 resolved, 0 dead again, 0 skipped, USD 0.5\n");
  EXPECT_EQ(said.err,
            "0 of 2: 0 resolved, 0 dead again, 0 skipped, USD 0.5, 0 under way\n"
            "callgate cannot be reached; it is asked again for 30 s. After a restart the replay goes on by itself.\n"
            "callgate answers again\n"
            "callgate cannot be reached; it is asked again for 30 s. After a restart the replay goes on by itself.\n"
            "callgate answers again\n");
}

TEST(DeadReplay, followed_in_vain_says_how_to_come_back) {
  Fake fake{[](const std::string&) { return Answer{"", ""}; }};
  const Said away = fake.follow({.look_again = 1ms, .say_again = 1h, .patience = 20ms});
  EXPECT_EQ(away.code, 5);
  EXPECT_EQ(away.out, "");
  EXPECT_NE(away.err.find("callgate dead replay --resume " + kReplay), std::string::npos) << away.err;
  Fake strange{[](const std::string&) { return ok({{"state", "dancing"}}); }};
  EXPECT_EQ(strange.follow({.look_again = 1ms, .say_again = 1h, .patience = 20ms}).code, 5);
  Fake gone{[](const std::string&) { return problem("404 Not Found", "no such replay"); }};
  const Said unknown = gone.follow(kQuick);
  EXPECT_EQ(unknown.code, 4);
  EXPECT_NE(unknown.err.find("no such replay"), std::string::npos);
}

TEST(DeadReplay, followed_on_a_terminal_writes_over_one_line) {
  int asked = 0;
  Fake fake{[&](const std::string&) {
    ++asked;
    if (asked == 2) return ok(course("paused", 1, 1, 0, 0));
    return ok(asked < 4 ? course("running", 2, 0, 0, 0) : course("done", 0, 2, 0, 0));
  }};
  const Said said = fake.follow(kQuick, true);
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(said.err.starts_with("\r0 of 2: ")) << said.err;
  EXPECT_TRUE(said.err.ends_with("\r\x1b[K")) << "the line is gone at the end";
  EXPECT_EQ(std::ranges::count(said.err, '\n'), 1) << "that it is held stays";
  EXPECT_NE(said.err.find("It is held."), std::string::npos);
}

TEST(DeadReplay, interrupted_goes_on_without_the_command) {
  Fake fake{[](const std::string&) {
    ::raise(SIGINT);
    return ok(course("running", 2, 0, 0, 0));
  }};
  const Said said = fake.follow(kQuick);
  EXPECT_EQ(said.code, 130);
  EXPECT_NE(said.err.find("callgate dead replay --resume " + kReplay), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("callgate dead cancel " + kReplay), std::string::npos);
}

json letter(const std::string& id = kLetter) {
  return {{"id", id},
          {"state", "open"},
          {"arrived_at", "2026-11-29T10:00:00Z"},
          {"advice", "fix-first"},
          {"class", "auth"},
          {"cause", "key \x1b[31mrevoked\n\xe2\x80\xae"},
          {"tenant", "search"},
          {"group", "9f2c"},
          {"failures", 2},
          {"cost_usd", "0.01"}};
}

TEST(Dead, groups_and_letters_are_tables_that_no_terminal_obeys) {
  Fake fake{[](const std::string& asked) {
    if (asked.find("groups") != std::string::npos) {
      return ok({{"groups", {{{"group", "9f2c"}, {"count", 7}, {"class", "auth"}, {"cause", "a\x1b[2Jb\nc"}}}}});
    }
    if (asked.find("audit") != std::string::npos)
      return ok(
          {{"acts", {{{"seq", 4}, {"at", "T"}, {"who", "admin"}, {"act", "dead.discard"}, {"reason", "r\x07"}}}}});
    if (asked.find("replays") != std::string::npos) return ok({{"replays", {course("stopped", 1, 2, 3, 4)}}});
    return ok({{"letters", {letter()}}});
  }};
  for (const char* command : {"groups", "list", "audit", "replays"}) {
    SCOPED_TRACE(command);
    const Said table = fake.run({command});
    EXPECT_EQ(table.code, 0) << table.err;
    EXPECT_EQ(std::ranges::count(table.out, '\n'), 2) << table.out;
    for (const char* treacherous : {"\x1b", "\x07", "\xe2\x80\xae"}) EXPECT_FALSE(table.out.contains(treacherous));
    const Said plain = fake.run({command, "--plain"});
    EXPECT_EQ(std::ranges::count(plain.out, '\n'), 1) << plain.out;
    EXPECT_GT(std::ranges::count(plain.out, '\t'), 5);
    const Said programs = fake.run({command, "--json"});
    EXPECT_TRUE(json::parse(programs.out).is_object());
    EXPECT_FALSE(programs.out.contains('\x1b'));
  }
  EXPECT_EQ(fake.run({"list", "--most", "1"}).err, "There may be more: --after " + kLetter + "\n");
  (void)fake.run({"list", "--advice", "discard", "--key", "k/1", "--run-id", "j", "--state", "any", "--after", "x"});
  EXPECT_TRUE(fake.was_asked("GET /v1/dead?advice=discard&key=k%2F1&run_id=j&state=any&after=x"));
  (void)fake.run({"audit", "--before", "9"});
  EXPECT_TRUE(fake.was_asked("GET /v1/audit?before=9"));
}

TEST(Dead, lists_of_nothing_say_so) {
  Fake fake{[](const std::string&) {
    return ok(
        {{"groups", json::array()}, {"letters", json::array()}, {"acts", json::array()}, {"replays", json::array()}});
  }};
  for (const char* command : {"groups", "list", "audit", "replays"}) {
    const Said said = fake.run({command});
    EXPECT_EQ(said.code, 0);
    EXPECT_EQ(said.out, "");
    EXPECT_NE(said.err, "");
  }
}

TEST(DeadShow, tells_all_of_a_letter_and_what_to_do) {
  json one = letter();
  one["request"] = "kept";
  one["history"] = {{{"at", "T1"},
                     {"what", "failed"},
                     {"call_id", "c-1"},
                     {"class", "auth"},
                     {"attempts", {{{"number", 1}, {"odd", "\x1b"}}}}},
                    {{"at", "T2"}, {"what", "edited"}, {"detail", "by\x1b hand"}}};
  Fake fake{[&](const std::string& asked) {
    json answer = one;
    if (asked.find("request=true") != std::string::npos) {
      answer["kept_request"] = {{"method", "POST"},
                                {"target", "/openai/v1/chat/completions"},
                                {"headers", {{"content-type", "application/json"}}},
                                {"body", R"({"model":"gpt-5","text":"a \u001b[2J b"})"}};
    }
    return ok(answer);
  }};
  const Said said = fake.run({"show", kLetter, "--tenant", "search"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_TRUE(fake.was_asked("GET /v1/dead/" + kLetter + "?tenant=search"));
  for (const std::string& told : {std::string{"T1  failed, class auth, call c-1"},
                                  std::string{"T2  edited: by"},
                                  std::string{"First: the provider refuses the key"},
                                  "Then: callgate dead replay " + kLetter}) {
    EXPECT_NE(said.out.find(told), std::string::npos) << told << "\n" << said.out;
  }
  EXPECT_FALSE(said.out.contains('\x1b'));
  EXPECT_FALSE(said.out.contains("\xe2\x80\xae"));

  const Said whole = fake.run({"show", kLetter, "--request"});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("POST /openai/v1/chat/completions\ncontent-type: application/json\n\n{\n"
                           "  \"model\": \"gpt-5\",\n  \"text\": \"a \\u001b[2J b\"\n}\n"),
            std::string::npos)
      << whole.out;
  EXPECT_NE(whole.err.find("callgate dead audit"), std::string::npos);

  for (const auto& [advice, words] : {std::pair<std::string, std::string>{"replay", "callgate dead replay "},
                                      {"discard", "callgate dead discard "}}) {
    one["advice"] = advice;
    EXPECT_NE(fake.run({"show", kLetter}).out.find(words + kLetter), std::string::npos);
  }
  one["state"] = "resolved";
  EXPECT_EQ(fake.run({"show", kLetter}).out.find("what to do"), std::string::npos);
  one["request"] = "full";
  EXPECT_EQ(json::parse(fake.run({"show", kLetter, "--json"}).out)["request"], "full");
  EXPECT_EQ(fake.run({"show"}).code, 2);
  EXPECT_EQ(fake.run({"show", "a/b"}).code, 2);
  EXPECT_EQ(fake.run({"show", kLetter, "--request", "--store", "x.db"}).code, 2);
  EXPECT_EQ(fake.run({"show", kLetter, "--store", "/none/x.db"}).code, 1);
}

TEST(DeadExport, writes_every_page_and_says_what_is_gone) {
  Fake fake{[](const std::string& asked) {
    if (asked.starts_with("GET /v1/dead/c")) return problem("404 Not Found", "gone");
    if (asked.starts_with("GET /v1/dead/")) return ok({{"id", "a"}, {"kept_request", {{"body", "x"}}}});
    if (asked.find("after=") == std::string::npos) return ok({{"letters", {letter("e"), letter("d")}}});
    if (asked.find("after=d") != std::string::npos) return ok({{"letters", {letter("c")}}});
    return ok({{"letters", json::array()}});
  }};
  const Said said = fake.run({"export", "--class", "auth"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 3);
  EXPECT_FALSE(said.out.contains('\x1b'));
  std::istringstream lines{said.out};
  std::string ids;
  for (std::string line; std::getline(lines, line);) ids += json::parse(line)["id"];
  EXPECT_EQ(ids, "edc");
  EXPECT_EQ(said.err, "3 letters written\n");
  const Said whole = fake.run({"export", "--request", "--tenant", "t"});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(std::ranges::count(whole.out, '\n'), 2);
  EXPECT_TRUE(fake.was_asked("GET /v1/dead/e?tenant=t&request=true"));
  EXPECT_NE(whole.err.find("2 letters written, 1 were gone by then"), std::string::npos) << whole.err;
}

TEST(DeadExport, broken_off_says_that_it_is_a_part) {
  Fake fake{[](const std::string& asked) {
    if (asked.find("after=") != std::string::npos) return problem("503 Service Unavailable", "busy");
    return ok({{"letters", {letter("e")}}});
  }};
  const Said said = fake.run({"export"});
  EXPECT_EQ(said.code, 9);
  EXPECT_NE(said.err.find("What was written is a part: 1 letters."), std::string::npos) << said.err;
  Fake same{[](const std::string&) { return ok({{"letters", {letter("e")}}}); }};
  EXPECT_EQ(same.run({"export"}).code, 5) << "pages without an end";
}

TEST(DeadDiscard, asks_with_the_number_and_needs_a_reason) {
  int count = 2;
  Fake fake{[&](const std::string& asked) {
    if (asked.starts_with("POST")) return ok({{"count", count}});
    json groups = json::array();
    if (count > 0) groups = {{{"group", "9f2c"}, {"count", 2}}, {{"group", "a1"}, {"count", 1}}};
    return ok({{"groups", groups}});
  }};
  EXPECT_EQ(fake.run({"discard", "--group", "9f2c", "--yes"}).code, 2) << "no reason";
  EXPECT_EQ(fake.run({"discard", "--tenant", "t", "--reason", "r", "--yes"}).code, 2) << "everything of a tenant";
  EXPECT_EQ(fake.run({"discard", "--group", "9f2c", "--reason", "r"}).code, 2) << "nobody to ask";
  EXPECT_TRUE(fake.asked().empty());
  const Said no = fake.run({"discard", "--group", "9f2c", "--reason", "r"}, "n\n", true);
  EXPECT_EQ(no.code, 1);
  EXPECT_NE(no.err.find("Discard 3 letters? They are not sent again. [y/N] "), std::string::npos) << no.err;
  EXPECT_FALSE(fake.was_asked("POST"));
  const Said yes = fake.run({"discard", "a", "b", "--reason", "r", "--model", "m"}, "y\n", true);
  EXPECT_EQ(yes.code, 0);
  EXPECT_EQ(yes.out, "discarded: 2\n");
  EXPECT_TRUE(fake.was_asked("POST /v1/dead/discard?id=a%2Cb&model=m&reason=r"));
  count = 0;
  EXPECT_EQ(fake.run({"discard", "--queue", "q", "--reason", "r", "--confirm", "q"}).code, 4);
  EXPECT_EQ(fake.run({"discard", "--queue", "q", "--reason", "r"}, "y\n", true).code, 4);
}

TEST(DeadEdit, shows_the_difference_before_it_asks) {
  Fake fake{[](const std::string& asked) {
    json answer = {{"revision", 1},
                   {"difference",
                    {{{"at", "/model"}, {"was_text", "\"old\x1b[2J\\n\""}, {"is_text", "\"gpt-5\""}},
                     {{"at", "/n"}, {"was_text", nullptr}, {"is_text", "3.10"}}}}};
    if (asked.find("none") != std::string::npos) answer["difference"] = json::array();
    return ok(answer);
  }};
  const std::vector<std::string> words{
      "edit", kLetter, "--set", "/model=gpt-5", "--set", "/n=3.10", "--set", "/t=a=\"b\"", "--reason", "why"};
  const Said no = fake.run(words, "n\n", true);
  EXPECT_EQ(no.code, 1);
  EXPECT_NE(no.err.find("/model\n  - \"old\\u001b[2J\\n\"\n  + \"gpt-5\"\n"), std::string::npos) << no.err;
  EXPECT_NE(no.err.find("  - (not there)\n  + 3.10\n"), std::string::npos) << no.err;
  EXPECT_FALSE(no.err.contains('\x1b'));
  ASSERT_EQ(fake.asked().size(), 1U);
  EXPECT_NE(
      fake.asked()[0].find("set=%7B%22%2Fmodel%22%3A%22gpt-5%22%2C%22%2Fn%22%3A3.10%2C%22%2Ft%22%3A%22a%3D%5C%22b"
                           "%5C%22%22%7D&reason=why&dry=true"),
      std::string::npos)
      << fake.asked()[0];
  const Said yes = fake.run(words, "y\n", true);
  EXPECT_EQ(yes.code, 0) << yes.err;
  EXPECT_EQ(yes.out, "revision 1; callgate dead replay " + kLetter + " sends it\n");
  EXPECT_EQ(fake.asked().back().find("dry="), std::string::npos);
  EXPECT_EQ(fake.run({"edit", kLetter, "--set", "/x=none", "--reason", "r", "--yes"}).err,
            "callgate dead edit: this changes nothing\n");
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>{"edit", kLetter, "--reason", "r", "--yes"},
        {"edit", kLetter, "--set", "model=x", "--reason", "r", "--yes"},
        {"edit", kLetter, "--set", "/model", "--reason", "r", "--yes"},
        {"edit", kLetter, "--set", "/a=1", "--set", "/a=2", "--reason", "r", "--yes"},
        {"edit", kLetter, "--set", "/a=\xff", "--reason", "r", "--yes"},
        {"edit", kLetter, "--set", "/a=1", "--yes"},
        {"edit", kLetter, "--set", "/a=1", "--reason", "r"},
        {"edit", "--set", "/a=1", "--reason", "r", "--yes"}}) {
    EXPECT_EQ(fake.run(wrong).code, 2) << wrong.back();
  }
}

TEST(DeadReplays, are_held_ended_and_approved_of) {
  Fake fake{[](const std::string&) { return ok({{"state", "paused"}}); }};
  EXPECT_EQ(fake.run({"pause", kReplay, "--reason", "r"}).code, 0);
  EXPECT_EQ(fake.run({"cancel", kReplay}).code, 0);
  EXPECT_EQ(fake.run({"approve", kReplay, "--by", "kim", "--reason", "a b"}).code, 0);
  EXPECT_EQ(fake.run({"approve", kReplay, "--by", "kim"}).code, 2);
  EXPECT_EQ(fake.run({"approve", kReplay, "--reason", "r"}).code, 2);
  EXPECT_EQ(fake.run({"pause"}).code, 2);
  const std::string path = "POST /v1/replays/" + kReplay;
  EXPECT_EQ(fake.asked(),
            (std::vector{path + "/pause?reason=r", path + "/cancel", path + "/approve?by=kim&reason=a%20b"}));
}

TEST(Dead, what_is_no_callgate_is_said_by_every_command) {
  const std::vector<std::vector<std::string>> kCommands = {
      {"groups"},
      {"list"},
      {"show", kLetter},
      {"export"},
      {"audit"},
      {"replays"},
      {"replay", "--reason", "r", "--confirm", "all"},
      {"replay", "--reason", "r", "--plan"},
      {"replay", "--resume", kReplay},
      {"pause", kReplay},
      {"discard", kLetter, "--reason", "r", "--yes"},
      {"edit", kLetter, "--set", "/a=1", "--reason", "r", "--yes"}};
  const std::string deep = R"({"state":"done","id":"x","letters":)" + std::string(200'000, '[');
  const std::vector<Answer> kAnswers = {{"200 OK", "<html>"},
                                        {"200 OK", ""},
                                        {"200 OK", "[1]"},
                                        {"200 OK",
                                         R"({"letters":[1],"groups":[{"group":1}],"acts":[{}],"id":5,)"
                                         R"("state":7,"count":-1,"replays":[{"state":"x"}]})"},
                                        {"200 OK", deep},
                                        {"200 OK", deep + std::string(200'000, ']') + "}"},
                                        {"404 Not Found", R"({"detail":[1]})"},
                                        {"500 Internal Server Error", "oops"}};
  for (const auto& words : kCommands) {
    for (const Answer& answer : kAnswers) {
      Fake fake{[&](const std::string&) { return answer; }};
      const Said said = fake.run(words);
      EXPECT_EQ(said.code, 5) << words[0] << ": " << answer.body.substr(0, 80) << "\n" << said.err;
      EXPECT_EQ(said.out, "") << words[0];
    }
    Fake fake{[](const std::string&) { return Answer{"200 OK", std::string(9 * 1024 * 1024, ' ')}; }};
    if (words[0] == "show" || words[0] == "edit") continue;  // A letter may be as large.
    const Said huge = fake.run(words);
    EXPECT_EQ(huge.code, 5) << words[0];
    EXPECT_NE(huge.err.find("more than 8MiB"), std::string::npos) << huge.err;
  }
  Fake odd{[](const std::string&) { return ok(json::object({{"id", "x"}, {"state", "done"}, {"resolved", -4}})); }};
  EXPECT_EQ(odd.run({"replay", "--resume", kReplay}).code, 5);
}

TEST(Dead, more_than_a_head_can_hold_is_not_asked) {
  Fake fake{[](const std::string&) { return ok(json::object()); }};
  std::vector<std::string> words{"replay", "--reason", "r", "--confirm", "all"};
  for (int i = 0; i < 2'000; ++i) words.push_back(kLetter);
  EXPECT_EQ(fake.run(words).code, 2);
  EXPECT_TRUE(fake.asked().empty());
}

}  // namespace dead_test
