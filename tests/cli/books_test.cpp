// Goal: what the commands on the ledger print is exact, safe for a terminal and a spreadsheet, and ends with the code
// that it says. Method: the whole program on a file that was written by the store's own rows; a listener that answers
// for what only a running callgate can.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "gateway/admin.h"
#include "ledger/csv.h"
#include "ledger/file.h"
#include "ledger/rows.h"
#include "ledger/schema.h"
#include "tests/ledger/store_support.h"
#include "tests/support/raw_peer.h"

namespace books_test {

using namespace store_test;
using nlohmann::json;

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};

Said callgate(const std::vector<std::string>& words, const std::string& input = {}) {
  std::istringstream in{input};
  std::ostringstream out;
  std::ostringstream err;
  cli::Terminal terminal{in, out, err};
  const int code = cli::run(words, terminal);
  return {code, out.str(), err.str()};
}

class OfFile : public testing::Test {
 protected:
  OfFile() {
    database_.run(std::string{ledger::schema_sql()});
    database_.run(
        "PRAGMA application_id = 0x43474c31; PRAGMA user_version = 1; PRAGMA journal_mode = WAL; PRAGMA synchronous "
        "= OFF");
    ledger::Rows rows{database_};
    CallRecord plain = answered(1, 1'234'567'891);
    plain.labels = R"({"prompt":"v1"})";
    EXPECT_TRUE(rows.end(plain, {}));
    CallRecord hostile = answered(2, 5);
    hostile.tenant = "=cmd|'/c calc'!A1";
    hostile.model =
        "evil\x1b[2J\"\n,\xe2\x80\xae"
        "x";
    hostile.outcome = ledger::Outcome::Failed;
    hostile.cls = classifier::Class::Overloaded;
    hostile.idempotency_key = "k1";
    EXPECT_TRUE(rows.end(hostile, {}));
  }
  Said run(std::vector<std::string> words) {
    words.insert(words.end(), {"--store", path_});
    return callgate(words);
  }
  /// Times in the rows are fixed; all of them are asked for.
  Said since(std::vector<std::string> words) {
    words.insert(words.end(), {"--since", "2026-11-01"});
    return run(std::move(words));
  }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream{folder_.path(name)} << text;
    return folder_.path(name);
  }

  Folder folder_{};
  std::string path_ = folder_.path("callgate.db");
  Database database_{path_, Database::Open::Write};
};

TEST_F(OfFile, spend_is_a_table_with_a_total_and_nothing_that_a_terminal_obeys) {
  const Said said = since({"spend", "--by", "tenant,model", "--until", "2026-12-01"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(std::ranges::count(said.out, '\n'), 4);
  EXPECT_NE(said.out.find("acme"), std::string::npos);
  EXPECT_NE(said.out.find("1.234567891"), std::string::npos);
  EXPECT_NE(said.out.find("1.234567896"), std::string::npos);  // The total, to the nano.
  EXPECT_FALSE(said.out.contains('\x1b'));
  EXPECT_FALSE(said.out.contains("\xe2\x80\xae"));
  EXPECT_NE(said.err.find("from 2026-11-01T00:00:00.000Z to 2026-12-01"), std::string::npos) << said.err;
}

TEST_F(OfFile, spend_for_spreadsheets_is_csv_without_formulas) {
  const Said said = since({"spend", "--by", "tenant,model", "--csv", "--until", "2026-12-01"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.err, "");
  const auto table = ledger::read_csv(said.out);
  ASSERT_TRUE(table) << table.error();
  EXPECT_EQ(table->heading[0], "tenant");
  EXPECT_EQ(table->heading[10], "cost_usd");
  ASSERT_EQ(table->rows.size(), 2U);
  EXPECT_EQ(table->rows[0][10], "1.234567891");
  EXPECT_EQ(table->rows[1][0], "'=cmd|'/c calc'!A1");
  EXPECT_EQ(table->rows[1][1],
            "evil\x1b[2J\"\n,\xe2\x80\xae"
            "x");
}

TEST_F(OfFile, spend_for_programs_has_exact_decimals) {
  const Said said = since({"spend", "--by", "label:prompt", "--json", "--until", "2026-12-01"});
  EXPECT_EQ(said.code, 0) << said.err;
  const json out = json::parse(said.out);
  EXPECT_EQ(out["lines"][0]["by"], json::array({"v1"}));
  EXPECT_EQ(out["lines"][0]["cost_usd"], "1.234567891");
  EXPECT_EQ(out["total"]["failed_usd"], "0.000000005");
  EXPECT_EQ(out["rows_complete_since"], nullptr);
}

TEST_F(OfFile, spend_that_is_asked_for_wrongly_is_misuse) {
  for (const auto& [words, why] : std::initializer_list<std::pair<std::vector<std::string>, std::string>>{
           {{"spend", "--by", "planet"}, "cannot be by planet"},
           {{"spend", "--since", "yesterday"}, "since must be a time"},
           {{"spend", "--utc-offset", "+1"}, "utc_offset must be"},
           {{"spend", "--most", "0"}, "most must be between"},
           {{"spend", "--json", "--csv"}, "in one form"},
       }) {
    const Said said = run(words);
    EXPECT_EQ(said.code, 2) << why;
    EXPECT_NE(said.err.find(why), std::string::npos) << said.err;
  }
}

TEST_F(OfFile, spend_says_where_rows_are_gone) {
  database_.run("INSERT INTO removed VALUES ('calls', 1795953000000)");
  EXPECT_NE(since({"spend", "--by", "class"}).err.find("calls that ended before 2026-11-29T11:50:00"),
            std::string::npos);
  EXPECT_EQ(since({"spend", "--by", "model"}).err.find("calls that ended before"), std::string::npos);
}

TEST_F(OfFile, calls_are_listed_shown_and_followed) {
  const Said list = run({"calls", "list", "--plain"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_EQ(std::ranges::count(list.out, '\n'), 2);
  EXPECT_TRUE(list.out.starts_with(id_of(2) + "\t")) << list.out;
  EXPECT_EQ(run({"calls", "list", "--outcome", "failed", "--json"}).out.find(id_of(1)), std::string::npos);
  EXPECT_EQ(run({"calls", "list", "--model", "none"}).err, "no such calls\n");
  EXPECT_NE(run({"calls", "list", "--key", "k1"}).out.find(id_of(2)), std::string::npos);

  const Said show = run({"calls", "show", id_of(1)});
  EXPECT_EQ(show.code, 0) << show.err;
  EXPECT_NE(show.out.find("tokens 100 in (20 cached), 10 out, 1.234567891 USD (table)"), std::string::npos)
      << show.out;
  EXPECT_NE(show.out.find("prompt=v1"), std::string::npos);
  EXPECT_EQ(run({"calls", "show", "0193c3b5-7d43-7b1c-a4c4-3e2f5b8d9a10"}).code, 4);
  EXPECT_EQ(run({"calls", "show", "no/id"}).code, 2);

  const Said tail = run({"calls", "tail", "--after", "0", "--count", "2"});
  EXPECT_EQ(tail.code, 0) << tail.err;
  EXPECT_EQ(std::ranges::count(tail.out, '\n'), 2);
  EXPECT_FALSE(tail.out.contains('\x1b'));
  const Said failed = run({"calls", "tail", "--after", "0", "--count", "1", "--outcome", "failed", "--json"});
  EXPECT_EQ(json::parse(failed.out)["data"]["call_id"], id_of(2));
}

TEST_F(OfFile, timeouts_are_said_from_enough_calls_alone) {
  const Said few = since({"report", "timeouts"});
  EXPECT_EQ(few.code, 0) << few.err;
  EXPECT_NE(few.out.find("too few calls: 100 are needed"), std::string::npos) << few.out;
  ledger::Rows rows{database_};
  database_.run("BEGIN");
  for (int i = 10; i < 1'100; ++i) {
    CallRecord record = answered(i);
    record.queue = "invoices";
    record.duration = std::chrono::seconds{i < 1'090 ? 20 : 40};
    EXPECT_TRUE(rows.end(record, {}));
  }
  database_.run("COMMIT");
  const Said enough = since({"report", "timeouts", "--json"});
  const json lines = json::parse(enough.out)["timeouts"];
  const auto line = std::ranges::find_if(lines, [](const json& one) { return one["queue"] == "invoices"; });
  ASSERT_NE(line, lines.end());
  EXPECT_EQ((*line)["calls"], 1'090);
  EXPECT_GE((*line)["p50_ms"], 20'000);
  EXPECT_LT((*line)["p50_ms"], 20'400);
  EXPECT_EQ((*line)["most_ms"], 40'000);
  EXPECT_EQ((*line)["enough_calls"], true);
  EXPECT_EQ((*line)["sdk_timeout_ms"], 60'000);  // 40 s and half of it.
  EXPECT_EQ((*line)["visibility_timeout_ms"], 90'000);
}

TEST_F(OfFile, keys_are_shown) {
  database_.run(
      "INSERT INTO idempotency(scope, fingerprint, key, tenant, state, call_id, claimed_ms, expires_ms, bytes, "
      "cost_nano) "
      "VALUES (zeroblob(32), zeroblob(32), 'job:1', 'acme', 1, 'c', 0, 1795953600000, 12, 7)");
  const Said said = run({"idem", "show", "job:1"});
  EXPECT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.out.find("stored"), std::string::npos);
  EXPECT_NE(said.out.find("0.000000007"), std::string::npos);
  EXPECT_EQ(run({"idem", "show", "job:2"}).code, 4);
  EXPECT_EQ(callgate({"idem", "show"}).code, 2);
}

TEST_F(OfFile, the_ledger_is_exported_beside_its_writer) {
  const Said out = run({"ledger", "export"});
  EXPECT_EQ(out.code, 0) << out.err;
  std::istringstream lines{out.out};
  std::string line;
  int count = 0;
  while (std::getline(lines, line)) {
    ++count;
    EXPECT_EQ(json::parse(line)["attempts"].size(), 1U);
  }
  EXPECT_EQ(count, 2);
  const std::string file = folder_.path("calls.jsonl");
  EXPECT_EQ(run({"ledger", "export", file}).code, 0);
  std::ostringstream written;
  written << std::ifstream{file}.rdbuf();
  EXPECT_EQ(written.str(), out.out);
  EXPECT_EQ(run({"ledger", "export", file}).code, 1) << "what is there stays";
  EXPECT_EQ(run({"ledger", "export", "--since", "2027-01-01"}).out, "");
  EXPECT_EQ(run({"ledger", "export", "--since", "soon"}).code, 2);
}

TEST_F(OfFile, the_ledger_is_checked_and_backed_up) {
  const Said sound = run({"ledger", "check"});
  EXPECT_EQ(sound.code, 0) << sound.out << sound.err;
  const std::string copy = folder_.path("copy.db");
  EXPECT_EQ(run({"ledger", "backup", copy}).code, 0);
  EXPECT_EQ(run({"ledger", "backup", copy}).code, 1);
  EXPECT_EQ(callgate({"calls", "list", "--plain", "--store", copy}).out, run({"calls", "list", "--plain"}).out);
  database_.run("UPDATE spend_by_period SET cost_nano = cost_nano + 1");
  EXPECT_EQ(run({"ledger", "check"}).code, 3);
  EXPECT_EQ(callgate({"ledger", "check", "--store", folder_.path("none.db")}).code, 4);
}

TEST_F(OfFile, the_ledger_is_priced_anew_only_when_told_to) {
  const Said dry = run({"ledger", "rerate", "--all"});
  EXPECT_EQ(dry.code, 0) << dry.err;
  EXPECT_NE(dry.err.find("2 of 2 attempts would change"), std::string::npos) << dry.err;
  EXPECT_NE(dry.err.find("Nothing was written"), std::string::npos);
  {
    const auto lock = ledger::FileLock::take(path_);
    const Said refused = run({"ledger", "rerate", "--apply"});
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find("a running callgate works with it"), std::string::npos) << refused.err;
  }
  const Said done = run({"ledger", "rerate", "--apply", "--json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(json::parse(done.out)["applied"], true);
  EXPECT_NE(run({"ledger", "rerate"}).err.find("0 of 2 attempts would change"), std::string::npos);
  EXPECT_EQ(run({"ledger", "check"}).code, 0) << "sums follow";
}

TEST_F(OfFile, spend_is_reconciled_with_a_providers_report) {
  const auto report = [](const std::string& model, int requests, int input) {
    return R"({"object":"page","data":[{"object":"bucket","start_time":1795910400,"end_time":1795996800,"results":[
      {"object":"organization.usage.completions.result","input_tokens":)" +
           std::to_string(input) + R"(,"output_tokens":10,"input_cached_tokens":20,"num_model_requests":)" +
           std::to_string(requests) + R"(,"model":)" + json(model).dump() + R"(},
      {"object":"organization.usage.completions.result","input_tokens":100,"output_tokens":10,"input_cached_tokens":20,
       "num_model_requests":1,"model":)" +
           json(
               "evil\x1b[2J\"\n,\xe2\x80\xae"
               "x")
               .dump() +
           R"(}]}],"has_more":false,"next_page":null})";
  };
  const Said equal = run({"spend", "reconcile", write("equal.json", report("gpt-4o", 1, 100))});
  EXPECT_EQ(equal.code, 0) << equal.out << equal.err;
  EXPECT_EQ(equal.out, "equal: 2 pairs of day and model\n");
  const Said differs = run({"spend", "reconcile", write("differs.json", report("gpt-4o", 2, 150))});
  EXPECT_EQ(differs.code, 3);
  EXPECT_NE(differs.out.find("requests"), std::string::npos);
  EXPECT_NE(differs.out.find("-50"), std::string::npos) << differs.out;
  const Said hostile =
      run({"spend", "reconcile", write("hostile.json", report("gpt-4o", 1, 100)), "--upstream", "none"});
  EXPECT_EQ(hostile.code, 3);
  EXPECT_FALSE(hostile.out.contains('\x1b'));
  EXPECT_EQ(
      json::parse(run({"spend", "reconcile", "--json", folder_.path("differs.json")}).out)["differences"].size(), 2U);
  const Said unknown = run({"spend", "reconcile", write("unknown.csv", "when,what\n1,2\n")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("its columns are 'when', 'what'"), std::string::npos) << unknown.err;
  EXPECT_EQ(run({"spend", "reconcile", folder_.path("none.csv")}).code, 1);
  EXPECT_EQ(callgate({"spend", "reconcile"}).code, 2);
}

TEST_F(OfFile, that_is_none_is_refused) {
  const Said said = callgate({"spend", "--store", folder_.path("none.db")});
  EXPECT_EQ(said.code, 1);
  EXPECT_NE(said.err.find("there is no such file"), std::string::npos);
}

Said ask(std::vector<std::string> words, const std::string& status, const std::string& body) {
  raw::Peer peer{[&](raw::Connection& connection) {
    connection.request();
    connection.send("HTTP/1.1 " + status + "\r\nConnection: close\r\n\r\n" + body);
  }};
  words.insert(words.end(), {"--admin", "127.0.0.1:" + std::to_string(peer.port())});
  return callgate(words);
}

TEST(OfRunning, what_is_no_callgate_is_said_by_every_command) {
  const std::vector<std::vector<std::string>> kCommands = {{"spend"},
                                                           {"calls", "list"},
                                                           {"calls", "show", "c-1"},
                                                           {"calls", "tail"},
                                                           {"report", "timeouts"},
                                                           {"idem", "show", "k"},
                                                           {"idem", "forget", "k"}};
  for (const auto& words : kCommands) {
    SCOPED_TRACE(words[0]);
    for (const auto& [status, body] : {std::pair<std::string, std::string>{"200 OK", R"({"lines":[1]})"},
                                       {"200 OK", "<html>"},
                                       {"404 Not Found", R"({"detail":[1]})"}}) {
      EXPECT_EQ(ask(words, status, body).code, 5) << body;
    }
    EXPECT_EQ(ask(words, "401 Unauthorized", R"({"detail":"no token"})").code, 6);
    EXPECT_EQ(ask(words, "503 Service Unavailable", R"({"detail":"busy"})").code, 9);
    EXPECT_EQ(ask(words, "404 Not Found", R"({"detail":"none"})").code, 4);
  }
}

/// An admin listener over a store, as a running callgate has it.
class Running {
 public:
  explicit Running(const std::string& path) {
    store_ = opened(options_at(path, clock_));
    gateway::AdminSources sources;
    sources.call = [](std::string_view) { return std::optional{std::string{}}; };
    sources.books = [this](std::function<void(ledger::Books&)> question) {
      const auto done = std::make_shared<std::promise<void>>();
      std::future<void> answered = done->get_future();
      store_->read([question = std::move(question), done](ledger::Books& books) {
        question(books);
        done->set_value();
      });
      return answered.wait_for(kPatience) == std::future_status::ready;
    };
    sources.forget_claim = [this](const ledger::Digest& scope, const std::string& call_id) {
      store_->forget_claim(scope, call_id);
    };
    admin_.emplace("127.0.0.1:0", gateway::AdminAccess{}, std::move(sources));
  }
  Said run(std::vector<std::string> words) {
    words.insert(words.end(), {"--admin", admin_->address()});
    return callgate(words);
  }
  Store& store() { return *store_; }
  Clock& clock() { return clock_; }

 private:
  Clock clock_{};
  std::unique_ptr<Store> store_{};
  std::optional<gateway::AdminServer> admin_{};
};

TEST(OfRunning, the_same_is_said_as_of_its_file) {
  Folder folder;
  const std::string path = folder.path("callgate.db");
  Running running{path};
  ASSERT_EQ(ended(running.store(), answered(1, 1'234'567'891)), Written::Committed);
  const std::vector<std::vector<std::string>> kCommands = {
      {"spend", "--by", "tenant,class", "--since", "2026-11-01", "--until", "2026-12-01"},
      {"spend", "--by", "day", "--since", "2026-11-01", "--until", "2026-12-01", "--json"},
      {"calls", "list", "--json"},
      {"calls", "show", id_of(1), "--json"},
      {"calls", "tail", "--after", "0", "--count", "1"},
      {"report", "timeouts", "--since", "2026-11-01", "--json"},
  };
  for (std::vector<std::string> words : kCommands) {
    SCOPED_TRACE(words[0] + " " + words[1]);
    const Said asked = running.run(words);
    EXPECT_EQ(asked.code, 0) << asked.err;
    EXPECT_NE(asked.out, "");
    words.insert(words.end(), {"--store", path});
    EXPECT_EQ(callgate(words).out, asked.out);
  }
  EXPECT_EQ(running.run({"calls", "show", "c-1"}).code, 4);
  EXPECT_EQ(running.run({"spend", "--by", "planet"}).code, 2);
}

TEST(OfRunning, a_key_is_forgotten_unless_a_call_works_on_it) {
  Folder folder;
  Running running{folder.path("callgate.db")};
  // Whether a claim is worked on is told by the time of now.
  ClaimAsk ask = asking(1, running.clock(), 1);
  ask.now = std::chrono::system_clock::now();
  EXPECT_EQ(claimed(running.store(), ask).kind, ClaimAnswer::Kind::Ours);
  EXPECT_EQ(running.run({"idem", "forget", "job-1"}).code, 8);
  ClaimAsk other = asking(2, running.clock(), 2);
  other.now = WallTime{std::chrono::hours{1}};
  EXPECT_EQ(claimed(running.store(), other).kind, ClaimAnswer::Kind::Ours);  // Leased until long ago.
  EXPECT_EQ(running.run({"idem", "show", "job-2"}).code, 0);
  const Said done = running.run({"idem", "forget", "job-2"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_TRUE(running.store().flush(kPatience));
  EXPECT_EQ(running.run({"idem", "show", "job-2"}).code, 4);
  EXPECT_EQ(running.run({"idem", "forget", "job-2"}).code, 4);
}

TEST(OfRunning, a_key_that_is_worked_on_is_not_forgotten) {
  EXPECT_EQ(ask({"idem", "forget", "k"}, "409 Conflict", R"({"detail":"call c works on it"})").code, 8);
  const Said done = ask({"idem", "forget", "k"}, "200 OK", R"({"done":true,"count":2})");
  EXPECT_EQ(done.code, 0);
  EXPECT_EQ(done.out, "forgotten: 2\n");
}

}  // namespace books_test
