// Goal: the commands on runs ask for what their words say, end with the code that they promise, and survive whatever
// answers. Method: the whole program against a listener that says what the test has for it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "tests/support/raw_peer.h"

namespace runs_test {

using nlohmann::json;

const std::string kRun = "01a22ce1-d221-7000-b9b5-95c3777fcb69";

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
  std::string asked{};  // "GET /v1/runs?…"; empty: nothing was.
};

Said run(std::vector<std::string> words, const std::string& status, const json& body) {
  raw::Noted asked;
  raw::Peer peer{[&](raw::Connection& connection) {
    asked = connection.request();
    connection.send("HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" +
                    (body.is_string() ? body.get<std::string>() : body.dump()));
  }};
  words.insert(words.begin(), "runs");
  words.insert(words.end(), {"--admin", "127.0.0.1:" + std::to_string(peer.port())});
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  cli::Terminal terminal{in, out, err};
  Said said;
  said.code = cli::run(words, terminal);
  said.out = out.str();
  said.err = err.str();
  const std::string request = asked.get();
  said.asked = request.substr(0, request.find(" HTTP/"));
  return said;
}

json a_run() {
  return {{"id", kRun},
          {"state", "dead"},
          {"class", "server_error"},
          {"why", "bro\x1b[2Jken"},
          {"tenant", "a"},
          {"queue", "invoices"},
          {"lane", "bulk"},
          {"model", "gpt-5"},
          {"created_at", "2026-11-30T14:35:26.629Z"},
          {"ended_at", nullptr},
          {"starts", 2},
          {"crashes", 0},
          {"cost_usd", "0.00003125"},
          {"labels", nullptr},
          {"result", {{"status", 500}, {"at", "/callgate/v1/runs/" + kRun + "/result"}}},
          {"attempts", json::array()},
          {"dead_letter", {{"id", "0193c3b5"}, {"cause", "broken"}, {"advice", "replay"}}}};
}

TEST(RunsCommands, list_asks_for_what_its_options_say_and_tells_where_it_goes_on) {
  const json page = {{"runs", {a_run()}}, {"next", kRun}};
  const Said said = run({"list",
                         "--queue",
                         "invoices",
                         "--state",
                         "dead",
                         "--tenant",
                         "a",
                         "--since",
                         "1h",
                         "--most",
                         "1",
                         "--after",
                         "01a2"},
                        "200 OK",
                        page);
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.asked, "GET /v1/runs?queue=invoices&state=dead&tenant=a&since=1h&after=01a2&most=1");
  EXPECT_NE(said.out.find(kRun), std::string::npos);
  EXPECT_NE(said.out.find("server_error"), std::string::npos);
  EXPECT_NE(said.err.find("--after " + kRun), std::string::npos);
  EXPECT_EQ(json::parse(run({"list", "--json"}, "200 OK", page).out), page);
  const Said plain = run({"list", "--plain"}, "200 OK", page);
  EXPECT_TRUE(plain.out.starts_with(kRun + "\t")) << plain.out;
  const Said none = run({"list"}, "200 OK", {{"runs", json::array()}, {"next", nullptr}});
  EXPECT_EQ(none.code, 0);
  EXPECT_EQ(none.out, "");
  EXPECT_EQ(none.err, "no such runs\n");
}

TEST(RunsCommands, show_says_how_it_stands_where_its_result_is_and_what_to_do) {
  const Said said = run({"show", kRun}, "200 OK", a_run());
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.asked, "GET /v1/runs/" + kRun);
  for (const char* part :
       {"dead", "server_error", "invoices", "0.00003125", "/result", "callgate dead show 0193c3b5"})
    EXPECT_NE(said.out.find(part), std::string::npos) << part << " is not in\n" << said.out;
  EXPECT_NE(said.out.find("callgate runs retry " + kRun), std::string::npos);
  EXPECT_EQ(said.out.find('\x1b'), std::string::npos) << "what somebody else says moves no cursor";
  EXPECT_EQ(json::parse(run({"show", kRun, "--json"}, "200 OK", a_run()).out), a_run());
}

TEST(RunsCommands, cancel_and_retry_are_done_once_and_say_what_came_of_it) {
  const Said gone = run({"cancel", kRun, "--reason", "sent twice"}, "200 OK", {{"id", kRun}, {"state", "cancelled"}});
  EXPECT_EQ(gone.code, 0) << gone.err;
  EXPECT_EQ(gone.asked, "DELETE /v1/runs/" + kRun + "?reason=sent%20twice");
  EXPECT_EQ(gone.out, "run " + kRun + " is cancelled\n");
  EXPECT_EQ(gone.err, "");
  const Said late = run({"cancel", kRun}, "202 Accepted", {{"id", kRun}, {"state", "running"}});
  EXPECT_EQ(late.code, 0);
  EXPECT_NE(late.err.find("callgate runs show " + kRun), std::string::npos) << late.err;
  const Said again = run({"retry", kRun, "--tenant", "a"}, "202 Accepted", {{"id", kRun}, {"state", "queued"}});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.asked, "POST /v1/runs/" + kRun + "/retry?tenant=a");
  EXPECT_EQ(again.out, "run " + kRun + " is queued\n");
}

TEST(RunsCommands, refusals_end_with_the_code_that_is_promised) {
  struct {
    const char* status;
    int code;
  } const kRefusals[] = {{"400 Bad Request", 2},
                         {"401 Unauthorized", 6},
                         {"403 Forbidden", 6},
                         {"404 Not Found", 4},
                         {"409 Conflict", 8},
                         {"500 Internal Server Error", 1},
                         {"503 Service Unavailable", 9}};
  for (const auto& [status, code] : kRefusals) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"list"}, {"show", kRun}, {"cancel", kRun}, {"retry", kRun}}) {
      const Said said = run(words, status, {{"detail", "told so"}});
      EXPECT_EQ(said.code, code) << words[0] << ' ' << status;
      EXPECT_EQ(said.out, "") << words[0];
      EXPECT_NE(said.err.find("told so"), std::string::npos) << said.err;
    }
  }
}

TEST(RunsCommands, what_cannot_be_meant_is_not_asked_and_what_is_no_callgate_is_said) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"show"},
                                                {"cancel"},
                                                {"retry"},
                                                {"show", "../x"},
                                                {"cancel", kRun, "--tenant", ""},
                                                {"list", "--queue", ""}}) {
    const Said said = run(words, "200 OK", json::object());
    EXPECT_EQ(said.code, 2) << words[0];
    EXPECT_EQ(said.asked, "");
  }
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"list"}, {"show", kRun}, {"cancel", kRun}, {"retry", kRun}}) {
    EXPECT_EQ(run(words, "200 OK", json("<html>")).code, 5) << words[0];
    EXPECT_EQ(run(words, "200 OK", {{"runs", 1}, {"id", 1}, {"state", 1}}).code, 5) << words[0];
  }
}

}  // namespace runs_test
