// Goal: at whatever step of a call's life callgate dies, no row is torn, what nobody knows is written down as that,
// the key is of use at once, and money is counted once. Method: the real binary dies at a step
// (gateway/fault_point.h; where the moment is the provider's, by SIGKILL from here), is started again on the same
// store, and gets the same job again; the rows are read in the database itself.

#include <gtest/gtest.h>
#include <sqlite3.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

#include "tests/support/harness.h"

namespace kill_test {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using support::Callgate;
using support::RawClient;
using support::request_text;
using support::Response;

constexpr int kKilled = 128 + SIGKILL;
constexpr const char* kDay = "day";

/// The ledger's file, read beside callgate or after it.
class Books {
 public:
  explicit Books(const std::string& directory) {
    sqlite3* db = nullptr;
    const std::string path = directory + "/calls.db";
    if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READONLY, nullptr) != SQLITE_OK) {
      sqlite3_close(db);
      throw support::Failed("cannot open " + path);
    }
    db_.reset(db);
    sqlite3_busy_timeout(db, 2'000);
  }
  /// The first column of the first row, as text; "" for none.
  [[nodiscard]] std::string text(const std::string& sql) const {
    sqlite3_stmt* made = nullptr;
    if (sqlite3_prepare_v2(db_.get(), sql.c_str(), -1, &made, nullptr) != SQLITE_OK)
      throw support::Failed(sql + ": " + sqlite3_errmsg(db_.get()));
    const std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement{made, sqlite3_finalize};
    if (sqlite3_step(made) != SQLITE_ROW) return {};
    const unsigned char* bytes = sqlite3_column_text(made, 0);
    return bytes ? std::string{reinterpret_cast<const char*>(bytes)} : std::string{};  // NOLINT
  }
  [[nodiscard]] std::int64_t number(const std::string& sql) const {
    const std::string said = text(sql);
    return said.empty() ? 0 : std::stoll(said);
  }

 private:
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> db_{nullptr, sqlite3_close};
};

std::int64_t attempts_in(const Books& books, int state) {
  return books.number("SELECT count(*) FROM attempts WHERE state = " + std::to_string(state));
}

/// Nothing half-written, nothing forgotten, and all sums are those of the rows.
void expect_in_order(const Books& books) {
  EXPECT_EQ(books.text("PRAGMA integrity_check"), "ok");
  for (const char* table : {"calls", "attempts", "idempotency"})
    EXPECT_EQ(books.number(std::string{"SELECT count(*) FROM "} + table + " WHERE state = 0"), 0) << table;
  EXPECT_EQ(books.number("SELECT count(*) FROM calls c WHERE c.attempts <> "
                         "(SELECT count(*) FROM attempts a WHERE a.call_id = c.id)"),
            0);
  EXPECT_EQ(books.number("SELECT count(*) FROM attempts WHERE call_id NOT IN (SELECT id FROM calls)"), 0);
  EXPECT_EQ(books.number("SELECT count(*) FROM attempts a JOIN calls c ON c.id = a.call_id "
                         "WHERE c.state = 1 AND a.state <> 1"),
            0);
  EXPECT_EQ(books.number("SELECT count(*) FROM attempts WHERE state = 2 AND "
                         "(possibly_billed <> 1 OR charged_nano IS NOT reserved_nano OR reserved_nano <= 0)"),
            0)
      << "what is unknown is charged as it was reserved";
  for (const char* sum : {"charged_nano", "cost_nano", "input", "output", "possibly_billed"}) {
    EXPECT_EQ(books.number(std::string{"SELECT sum("} + sum + ") FROM spend_by_period"),
              books.number(std::string{"SELECT sum("} + sum + ") FROM attempts"))
        << sum;
  }
  EXPECT_EQ(books.number("SELECT sum(attempts) FROM spend_by_period"), books.number("SELECT count(*) FROM attempts"));
  EXPECT_EQ(books.number("SELECT sum(calls) FROM spend_by_period"), books.number("SELECT count(*) FROM calls"));
  EXPECT_EQ(books.number("SELECT sum(answered) FROM spend_by_period"),
            books.number("SELECT count(*) FROM calls WHERE outcome = 'answered'"));
}

/// "0.000123456" → nano-USD.
std::int64_t nano_of(const std::string& usd) {
  const std::size_t dot = std::min(usd.find('.'), usd.size());
  std::string part = dot < usd.size() ? usd.substr(dot + 1) : std::string{};
  part.resize(9, '0');
  return std::stoll(usd.substr(0, dot)) * 1'000'000'000 + std::stoll(part);
}

std::int64_t spent_today(const Callgate& callgate) {
  const Json told = Json::parse(support::http_get(callgate.admin_url() + "/v1/budgets").body);
  for (const Json& one : told.at("budgets")) {
    if (one.at("period") == kDay) return nano_of(one.at("spent_usd"));
  }
  return -1;
}

enum class Row : std::uint8_t {
  None,
  Perhaps,  // Handed over, and not awaited: as far as its group commit has come.
  Unknown,
  Answered,
};
/// Of a job that was never seen the claim is handed over and not awaited, until the open row behind it is.
bool is_claim_awaited(std::string_view step) { return step != "claimed"; }

struct Death {
  const char* step;  // Null: SIGKILL from here, while the provider has the request and says nothing.
  bool stream;
  bool keyed;
  int requests;  // That the provider has got by then; -1: none or one.
  Row row;
  bool whole;  // The caller has the whole answer.
};

void PrintTo(const Death& death, std::ostream* out) {
  *out << (death.step ? death.step : "sent") << (death.stream ? ", stream" : ", unary")
       << (death.keyed ? ", keyed" : "");
}

const Death kDeaths[] = {
    {nullptr, false, false, 1, Row::Unknown, false},    {nullptr, true, false, 1, Row::Unknown, false},
    {nullptr, false, true, 1, Row::Unknown, false},     {nullptr, true, true, 1, Row::Unknown, false},
#ifdef CALLGATE_FAULT_POINTS
    {"claimed", false, true, 0, Row::None, false},      {"claimed", true, true, 0, Row::None, false},
    {"opened", false, false, 0, Row::Perhaps, false},   {"opened", true, false, 0, Row::Perhaps, false},
    {"opened", false, true, 0, Row::Unknown, false},    {"opened", true, true, 0, Row::Unknown, false},
    {"started", false, false, -1, Row::Perhaps, false}, {"started", true, false, -1, Row::Perhaps, false},
    {"started", false, true, -1, Row::Unknown, false},  {"started", true, true, -1, Row::Unknown, false},
    {"head", false, false, 1, Row::Unknown, false},     {"head", true, false, 1, Row::Unknown, false},
    {"head", false, true, 1, Row::Unknown, false},      {"head", true, true, 1, Row::Unknown, false},
    {"part", true, false, 1, Row::Unknown, false},      {"part", true, true, 1, Row::Unknown, false},
    {"answered", false, false, 1, Row::Unknown, false}, {"answered", true, false, 1, Row::Unknown, false},
    {"answered", false, true, 1, Row::Unknown, false},  {"answered", true, true, 1, Row::Unknown, false},
    {"ended", false, false, 1, Row::Answered, false},   {"ended", true, false, 1, Row::Answered, false},
    {"ended", false, true, 1, Row::Answered, false},    {"ended", true, true, 1, Row::Answered, false},
    {"said", false, false, 1, Row::Answered, true},     {"said", true, false, 1, Row::Answered, true},
    {"said", false, true, 1, Row::Answered, true},      {"said", true, true, 1, Row::Answered, true},
#endif
};

std::string yaml_for(const support::FakeProvider& provider, const std::string& more = {}) {
  return "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
         "upstreams: {openai: {url: " +
         provider.url() +
         "}}\n"
         "tenants: {default: {budget: {daily_usd: \"1000.00\"}}}\n"
         "store: {path: calls.db, payloads: plain, commit_wait: 10s}\n" +
         more;
}

std::string job(bool stream, bool keyed, bool fresh = false) {
  std::vector<std::pair<std::string, std::string>> headers = {{"Content-Type", "application/json"},
                                                              {"Authorization", "Bearer sk-test"}};
  if (keyed) headers.emplace_back("Idempotency-Key", "job-1:ask");
  if (fresh) headers.emplace_back("Callgate-Fresh", "true");
  return request_text("POST",
                      "/openai/v1/chat/completions",
                      stream ? R"({"model":"gpt-5-mini","max_completion_tokens":100,"stream":true,"messages":[]})"
                             : R"({"model":"gpt-5-mini","max_completion_tokens":100,"messages":[]})",
                      headers);
}

bool is_whole(const Response& answer, bool stream) {
  if (answer.status != 200 || answer.end != Response::End::Complete) return false;
  return stream ? answer.body.ends_with("data: [DONE]\n\n") : Json::accept(answer.body);
}

Response deliver(const Callgate& callgate, const std::string& request) {
  RawClient client{callgate.data_port()};
  client.send(request);
  return client.read_response();
}

/// Until what was handed over to the store is in its file.
void await_open_row(const std::string& directory) {
  const auto until = std::chrono::steady_clock::now() + support::kPatience;
  while (attempts_in(Books{directory}, 0) == 0) {
    if (std::chrono::steady_clock::now() > until) throw support::Failed("the open row did not come");
    std::this_thread::yield();
  }
}

class Kill : public testing::TestWithParam<Death> {};

TEST_P(Kill, the_same_job_is_done_afterwards_and_money_is_counted_once) {
  const Death& death = GetParam();
  support::FakeProvider provider;
  const support::TempDir directory;
  const std::string yaml = yaml_for(provider);
  const std::string request = job(death.stream, death.keyed);
  const bool reaches_provider = death.requests == 1;
  // A keyed call goes on beside its caller: the rest must not be there before he has had a part.
  const bool in_parts = death.step && std::string_view{death.step} == "part";
  if (reaches_provider) {
    provider.script(
        in_parts ? R"([{"answer": {"hold": "door", "stream": [{"say": "hel"}, {"hold": "rest"}, {"say": "lo"}]}}])"
                 : R"([{"answer": {"hold": "door"}}])");
  }

  Response first;
  {
    Callgate::Options options;
    options.directory = directory.path();
    if (death.step) options.env = {{"CALLGATE_KILL_AT", std::string{death.step} + ":1"}};
    Callgate callgate{yaml, options};
    RawClient client{callgate.data_port()};
    client.send(request);
    if (reaches_provider) {
      provider.wait("held=1");
      await_open_row(directory.path());
      if (death.step)
        provider.release("door");
      else
        callgate.process().signal(SIGKILL);
    }
    first = client.read_response();
    ASSERT_EQ(callgate.process().wait(), kKilled);
  }
  EXPECT_EQ(is_whole(first, death.stream), death.whole) << first.body;
  const auto requests = [&provider] { return provider.stats().at("requests").get<std::int64_t>(); };
  if (death.requests >= 0) {
    EXPECT_EQ(requests(), death.requests);
  }
  if (reaches_provider) provider.script("[]");

  std::int64_t spent = 0;
  std::int64_t claims = 0;
  const std::int64_t before = requests();
  const bool is_stored = death.keyed && death.row == Row::Answered;
  {
    Callgate::Options options;
    options.directory = directory.path();
    const Callgate callgate{yaml, options};
    {
      const Books books{directory.path()};
      expect_in_order(books);
      const std::int64_t unknown = attempts_in(books, 2);
      const std::int64_t answered = attempts_in(books, 1);
      EXPECT_EQ(answered, death.row == Row::Answered ? 1 : 0);
      if (death.row == Row::Perhaps) {
        EXPECT_LE(unknown, 1);
      } else {
        EXPECT_EQ(unknown, death.row == Row::Unknown ? 1 : 0);
      }
      if (death.row == Row::Answered) {
        EXPECT_EQ(books.number("SELECT input * 1000 + output FROM attempts"), 9'002);
        EXPECT_EQ(books.text("SELECT outcome FROM calls"), "answered");
      }
      claims = books.number("SELECT count(*) FROM idempotency");
      if (death.step == nullptr || is_claim_awaited(death.step)) {
        EXPECT_EQ(claims, death.keyed ? 1 : 0);
      } else {
        EXPECT_LE(claims, 1);
      }
      if (claims > 0) {
        EXPECT_EQ(books.number("SELECT state FROM idempotency"), is_stored ? 1 : 2);
      }
      EXPECT_EQ(spent_today(callgate), books.number("SELECT sum(charged_nano) FROM attempts"));
    }

    // The queue delivers it again: at once, since a dead process' lease holds up nobody.
    const Response second = deliver(callgate, request);
    EXPECT_TRUE(is_whole(second, death.stream)) << second.status << ' ' << second.body;
    EXPECT_EQ(requests(), before + (is_stored ? 0 : 1));
    if (death.keyed) {
      EXPECT_EQ(second.header("callgate-idempotency"), is_stored ? "replayed" : claims == 0 ? "stored" : "recovered");
    }
    if (is_stored && death.whole) {
      EXPECT_EQ(second.body, first.body);
    }
    if (death.keyed) {
      const Response third = deliver(callgate, request);
      EXPECT_EQ(third.header("callgate-idempotency"), "replayed");
      EXPECT_EQ(third.body, second.body);
      EXPECT_EQ(requests(), before + (is_stored ? 0 : 1));
    }
    const Books books{directory.path()};
    spent = books.number("SELECT sum(charged_nano) FROM attempts");
    EXPECT_GT(spent, 0);
    EXPECT_EQ(spent_today(callgate), spent);
  }

  // Another death, and another start: what was closed as unknown is not charged again.
  Callgate::Options options;
  options.directory = directory.path();
  const Callgate callgate{yaml, options};
  const Books books{directory.path()};
  expect_in_order(books);
  EXPECT_EQ(books.number("SELECT sum(charged_nano) FROM attempts"), spent);
  EXPECT_EQ(spent_today(callgate), spent);
}

std::string name_of(const testing::TestParamInfo<Death>& info) {
  const Death& death = info.param;
  return std::string{death.step ? death.step : "sent"} + (death.stream ? "_stream" : "_unary") +
         (death.keyed ? "_keyed" : "");
}

INSTANTIATE_TEST_SUITE_P(at, Kill, testing::ValuesIn(kDeaths), name_of);

TEST(KillOnUnknown, fail_does_not_buy_again_until_it_is_told_to) {
  support::FakeProvider provider;
  provider.script(R"([{"answer": {"hold": "door"}}])");
  const support::TempDir directory;
  const std::string yaml = yaml_for(provider, "idempotency: {on_unknown: fail}\n");
  {
    Callgate::Options options;
    options.directory = directory.path();
    Callgate callgate{yaml, options};
    RawClient client{callgate.data_port()};
    client.send(job(false, true));
    provider.wait("held=1");
    callgate.process().signal(SIGKILL);
    ASSERT_EQ(callgate.process().wait(), kKilled);
  }
  provider.script("[]");
  Callgate::Options options;
  options.directory = directory.path();
  const Callgate callgate{yaml, options};
  for (int i = 0; i < 2; ++i) {
    const Response refused = deliver(callgate, job(false, true));
    EXPECT_EQ(refused.status, 502);
    EXPECT_EQ(refused.header("x-should-retry"), "false");
    EXPECT_EQ(refused.header("callgate-class"), "crash");
  }
  EXPECT_EQ(provider.stats().at("requests"), 1);
  EXPECT_EQ(deliver(callgate, job(false, true, true)).status, 200);
  EXPECT_EQ(deliver(callgate, job(false, true)).header("callgate-idempotency"), "replayed");
  EXPECT_EQ(provider.stats().at("requests"), 2);
}

TEST(KillTwice, each_death_of_one_job_has_its_row_and_its_charge) {
  support::FakeProvider provider;
  provider.script(R"([{"answer": {"hold": "door"}}])");
  const support::TempDir directory;
  const std::string yaml = yaml_for(provider);
  constexpr int kDeathsOfIt = 4;
  for (int i = 1; i <= kDeathsOfIt; ++i) {
    Callgate::Options options;
    options.directory = directory.path();
    Callgate callgate{yaml, options};
    RawClient client{callgate.data_port()};
    client.send(job(true, true));
    provider.wait("requests=" + std::to_string(i) + "&held=1");
    callgate.process().signal(SIGKILL);
    ASSERT_EQ(callgate.process().wait(), kKilled);
  }
  provider.script("[]");
  Callgate::Options options;
  options.directory = directory.path();
  const Callgate callgate{yaml, options};
  EXPECT_TRUE(is_whole(deliver(callgate, job(true, true)), true));
  const Books books{directory.path()};
  EXPECT_EQ(attempts_in(books, 2), kDeathsOfIt);
  EXPECT_EQ(attempts_in(books, 1), 1);
  EXPECT_EQ(books.number("SELECT count(DISTINCT charged_nano) FROM attempts WHERE state = 2"), 1);
  expect_in_order(books);
  EXPECT_EQ(spent_today(callgate), books.number("SELECT sum(charged_nano) FROM attempts"));
}

#ifndef CALLGATE_FAULT_POINTS
TEST(KillAt, a_release_cannot_be_told_to_die) {
  support::FakeProvider provider;
  Callgate::Options options;
  options.env = {{"CALLGATE_KILL_AT", "said:1"}};
  Callgate callgate{yaml_for(provider), options};
  EXPECT_EQ(deliver(callgate, job(false, false)).status, 200);
  EXPECT_EQ(deliver(callgate, job(false, false)).status, 200);
  EXPECT_TRUE(callgate.process().running());
}
#endif

}  // namespace kill_test
