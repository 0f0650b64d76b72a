#include "gateway/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace log_test {

using classifier::Class;
using gateway::CallRecord;
using gateway::Log;
using gateway::Outcome;
using nlohmann::json;
using Format = gateway::Config::Log::Format;
using Level = gateway::Config::Log::Level;
using namespace std::chrono_literals;

constexpr gateway::Config::Log kJson{};
constexpr gateway::Config::Log kText{.format = Format::Text};
const gateway::WallTime kNow =
    std::chrono::sys_days{std::chrono::year{2026} / 11 / 29} + 16h + 40min + 1s + 123'456us;

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0); }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  void close_reader() { close_end(ends[0]); }
  void close_writer() { close_end(ends[1]); }
  [[nodiscard]] int writer() const { return ends[1]; }
  /// Until the end of all writers.
  [[nodiscard]] std::vector<std::string> rest() {
    close_writer();
    std::string all;
    std::array<char, 65536> bytes;
    for (ssize_t got; (got = ::read(ends[0], bytes.data(), bytes.size())) > 0;)
      all.append(bytes.data(), static_cast<std::size_t>(got));
    std::vector<std::string> lines;
    std::istringstream in{all};
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    EXPECT_TRUE(all.empty() || all.ends_with('\n'));
    return lines;
  }
  static void close_end(int& fd) {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
  std::array<int, 2> ends{-1, -1};
};

CallRecord answered() {
  CallRecord record;
  record.id = "0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b";
  record.tenant = "search";
  record.run_id = "invoice-4711";
  record.route = "anthropic";
  record.upstream = "anthropic";
  record.operation = "messages";
  record.method = "POST";
  record.path = "/v1/messages";
  record.model = "claude-sonnet-4-5";
  record.stream = true;
  record.outcome = Outcome::Answered;
  record.status = 200;
  record.attempts = {{.number = 1,
                      .upstream = "anthropic",
                      .credential = "main",
                      .status = 529,
                      .cls = Class::Overloaded,
                      .code = "overloaded_error",
                      .took = 210'412us,
                      .provider_request_id = "req_011A"},
                     {.number = 2,
                      .upstream = "anthropic",
                      .credential = "main",
                      .status = 200,
                      .waited_before = 640ms,
                      .waited_for = ledger::WaitedFor::Computed,
                      .took = 8'269'100us,
                      .provider_request_id = "req_011B",
                      .cost = budget::NanoUsd{9'315'000},
                      .cost_source = "table",
                      .cost_tier = "standard"}};
  record.cost = budget::NanoUsd{9'315'000};
  record.once = "stored";
  auto trace = std::make_shared<ledger::CallTrace>();
  trace->trace_id = "4bf92f3577b34da6a3ce929d0e0e4736";
  trace->span_id = "00f067aa0ba902b7";
  record.trace = std::move(trace);
  record.usage.tokens = classifier::TokenCounts{.input = 4908, .cached_input = 4096, .output = 377, .reasoning = 120};
  record.usage.model = "claude-sonnet-4-5-20250929";
  record.usage.finish = "end_turn";
  record.queued = 31us;
  record.backed_off = 640ms;
  record.first_content = 3'911'250us;
  record.duration = 9'120'007us;
  record.bytes_in = 18231;
  record.bytes_out = 20412;
  return record;
}

/// The one line that `write` makes.
template <typename Write>
std::string line_of(gateway::Config::Log options, const Write& write) {
  Pipe pipe;
  {
    Log log{options, pipe.writer()};
    write(log);
  }
  const std::vector<std::string> lines = pipe.rest();
  EXPECT_EQ(lines.size(), 1u);
  return lines.empty() ? std::string{} : lines[0];
}
std::string line_of(const CallRecord& record, gateway::Config::Log options = kJson) {
  return line_of(options, [&](Log& log) { log.call(record, kNow); });
}

json example_in_docs() {
  std::ifstream file{PROJECT_ROOT "/docs/logs.md"};
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = all.str();
  const std::size_t begin = text.find("```json\n") + 8;
  return json::parse(text.substr(begin, text.find("```", begin) - begin));
}

TEST(Log, a_call_is_the_line_that_the_docs_show) {
  json line = json::parse(line_of(answered()));
  json example = example_in_docs();
  EXPECT_EQ(line["pid"], ::getpid());
  EXPECT_EQ(line["service.version"], CALLGATE_VERSION);
  for (const char* own : {"pid", "service.version"}) line.erase(own), example.erase(own);
  EXPECT_EQ(line, example);
}

TEST(Log, the_fields_are_the_same_in_every_call_and_unknown_is_null_not_zero) {
  const json bare = json::parse(line_of(CallRecord{.attempts = {gateway::AttemptRow{}}}));
  const json example = example_in_docs();
  const auto keys = [](const json& object) {
    std::set<std::string> names;
    for (const auto& [name, value] : object.items()) names.insert(name);
    return names;
  };
  EXPECT_EQ(keys(bare), keys(example));
  EXPECT_EQ(keys(bare["attempts"][0]), keys(example["attempts"][0]));
  for (const char* name : {"run_id",
                           "gen_ai.request.model",
                           "gen_ai.response.model",
                           "status",
                           "reason",
                           "queue",
                           "trace_id",
                           "span_id",
                           "once",
                           "origin",
                           "saved_usd",
                           "first_content_ms",
                           "usage",
                           "finish"}) {
    EXPECT_TRUE(bare[name].is_null()) << name;
  }
  for (const char* name : {"status", "code", "detail", "fingerprint", "waited_for", "provider_request_id"}) {
    EXPECT_TRUE(bare["attempts"][0][name].is_null()) << name;
  }
}

TEST(Log, a_replayed_call_says_whose_answer_it_was_and_what_it_saved) {
  CallRecord record = answered();
  record.once = "replayed";
  record.origin = "0193a1b2-0000-7e4f-8a5b-6c7d8e9f0a1b";
  record.saved = budget::NanoUsd{9'315'000};
  record.cost.reset();
  record.attempts.clear();
  record.queue = "imports";
  const json line = json::parse(line_of(record));
  EXPECT_EQ(line["once"], "replayed");
  EXPECT_EQ(line["origin"], record.origin);
  EXPECT_EQ(line["saved_usd"], "0.009315");
  EXPECT_EQ(line["queue"], "imports");
  EXPECT_EQ(line["cost_usd"], "0") << "nothing was sent; null is what nobody knows";
}

TEST(Log, text_is_for_people) {
  const std::string line = line_of(answered(), kText);
  EXPECT_TRUE(
      line.starts_with("2026-11-29T16:40:01.123456Z INFO  call answered call_id=0193a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b "
                       "tenant=search lane=bulk run_id=invoice-4711 trace_id=4bf92f3577b34da6a3ce929d0e0e4736 "
                       "span_id=00f067aa0ba902b7 route=anthropic upstream=anthropic operation=messages method=POST "
                       "path=/v1/messages gen_ai.request.model=claude-sonnet-4-5"))
      << line;
  EXPECT_NE(line.find(" attempts=[[number=1 upstream=anthropic credential=main status=529 class=overloaded "
                      "code=overloaded_error wait_ms=0 "
                      "ms=210.412 provider_request_id=req_011A] [number=2 "),
            std::string::npos)
      << line;
  EXPECT_NE(line.find(" usage=[input=4908 cached=4096 "), std::string::npos) << line;
}

TEST(Log, an_event_has_its_word_its_message_and_its_fields) {
  const auto write = [](Log& log) {
    log.line(Level::Warn, "listening", "ready for calls", {{"data", "127.0.0.1:4600"}, {"note", "two words"}}, kNow);
  };
  json line = json::parse(line_of(kJson, write));
  line.erase("pid");
  EXPECT_EQ(line, json::parse(R"({"ts": "2026-11-29T16:40:01.123456Z", "level": "warn", "msg": "ready for calls",
    "event": "listening", "service.name": "callgate", "service.version": ")" CALLGATE_VERSION R"(",
    "data": "127.0.0.1:4600", "note": "two words"})"));
  EXPECT_EQ(line_of(kText, write),
            R"(2026-11-29T16:40:01.123456Z WARN  ready for calls data=127.0.0.1:4600 note="two words")");
}

TEST(Log, a_call_is_as_loud_as_its_fault_is_ours) {
  struct Case {
    Outcome outcome;
    Class cls;
    const char* want;
  };
  const Case cases[] = {
      {Outcome::Answered, Class::None, "info"},
      {Outcome::Failed, Class::Overloaded, "warn"},
      {Outcome::Failed, Class::RateLimited, "warn"},
      {Outcome::Failed, Class::Network, "warn"},
      {Outcome::Failed, Class::Auth, "warn"},
      {Outcome::Failed, Class::QuotaExhausted, "warn"},
      {Outcome::Failed, Class::InvalidRequest, "info"},
      {Outcome::Failed, Class::ContextLength, "info"},
      {Outcome::Refused, Class::LocalLimit, "warn"},
      {Outcome::Drained, Class::LocalDraining, "warn"},
      {Outcome::Cancelled, Class::Cancelled, "info"},
      {Outcome::Cancelled, Class::Timeout, "info"},
      {Outcome::Failed, Class::Internal, "error"},
      {Outcome::Crashed, Class::Crash, "error"},
  };
  for (const Case& c : cases) {
    CallRecord record = answered();
    record.outcome = c.outcome;
    record.cls = c.cls;
    const json line = json::parse(line_of(record));
    EXPECT_EQ(line["level"], c.want) << line["outcome"] << " " << line["class"];
    EXPECT_EQ(line["msg"], "call " + line["outcome"].get<std::string>());
  }
}

TEST(Log, the_journal_is_told_each_line_s_priority_and_nobody_else) {
  Pipe pipe;
  struct stat about {};
  ASSERT_EQ(::fstat(pipe.writer(), &about), 0);
  const auto told = [&](const std::string& stream) {
    Pipe other;
    ::setenv("JOURNAL_STREAM", stream.c_str(), 1);
    {
      Log to_journal{kJson, pipe.writer()};
      Log elsewhere{kJson, other.writer()};
      for (const Level level : {Level::Info, Level::Warn, Level::Error}) {
        to_journal.line(level, "word", "message", {}, kNow);
        elsewhere.line(level, "word", "message", {}, kNow);
      }
    }
    ::unsetenv("JOURNAL_STREAM");
    for (const std::string& line : other.rest()) EXPECT_TRUE(line.starts_with("{")) << line;
  };
  told(std::to_string(about.st_dev) + ":" + std::to_string(about.st_ino));
  told("8:1");
  told("");
  const std::vector<std::string> lines = pipe.rest();
  ASSERT_EQ(lines.size(), 9U);
  const char* const begins[] = {"<6>{", "<4>{", "<3>{"};
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_TRUE(lines[i].starts_with(i < 3 ? begins[i] : "{\"ts\"")) << lines[i];
}

TEST(Log, what_is_below_the_level_is_neither_written_nor_counted) {
  Pipe pipe;
  std::vector<std::string> counted;
  {
    Log log{{.level = Level::Warn}, pipe.writer(), [&](std::string_view level) { counted.emplace_back(level); }};
    log.line(Level::Info, "a", "a", {}, kNow);
    log.call(answered(), kNow);
    log.line(Level::Error, "b", "b", {}, kNow);
    log.update({.level = Level::Debug, .format = Format::Text});
    log.line(Level::Debug, "c", "c", {}, kNow);
  }
  EXPECT_EQ(counted, (std::vector<std::string>{"error", "debug"}));
  EXPECT_EQ(pipe.rest().size(), 2u);
}

// F-36. Every string of a record carries a marker of its own; those that the list of fields does not name never
// appear.
TEST(Log, only_what_is_on_the_list_can_be_seen) {
  CallRecord record = answered();
  record.path = "/v1/models?key=CANARY-QUERY#CANARY-FRAGMENT";
  record.dialect = "CANARY-DIALECT";
  record.usage.service_tier = "CANARY-TIER";
  record.attempts[0].usage.model = "CANARY-ROW-MODEL";
  record.attempts[0].usage.finish = "CANARY-ROW-FINISH";
  record.attempts[0].usage.service_tier = "CANARY-ROW-TIER";
  record.attempts[0].detail = std::string(200, 'd') + "CANARY-DETAIL";
  record.attempts[1].provider_request_id = std::string(128, 'i') + "CANARY-REQUEST-ID";
  record.usage.finish = std::string(64, 'f') + "CANARY-FINISH";
  record.usage.speed = record.usage.inference_geo = record.usage.stated_usd = "CANARY-TERMS";
  for (const auto options : {kJson, kText}) {
    const std::string line = line_of(record, options);
    EXPECT_EQ(line.find("CANARY"), std::string::npos) << line;
    EXPECT_NE(line.find("/v1/models"), std::string::npos) << line;
  }
}

// Whatever a caller or a provider puts into its strings: one line, valid, without a control character.
TEST(Log, no_string_can_forge_a_second_line) {
  const std::string evil = "x\n{\"level\":\"info\"}\r\n\x1b[2K\xe2\x80\xa8\xc2\x85\xff\"]}";
  CallRecord record = answered();
  for (std::string* text : {&record.id,
                            &record.tenant,
                            &record.run_id,
                            &record.upstream,
                            &record.method,
                            &record.path,
                            &record.model,
                            &record.usage.model}) {
    *text = evil;
  }
  record.usage.finish = evil;
  record.attempts[0] = {
      .upstream = evil, .code = evil, .detail = evil, .fingerprint = evil, .provider_request_id = evil};
  const auto writes = {std::function<void(Log&)>{[&](Log& log) { log.call(record, kNow); }},
                       std::function<void(Log&)>{[&](Log& log) {
                         log.line(Level::Error, "bug", evil, {{"what", evil}}, kNow);
                       }}};
  for (const auto& write : writes) {
    for (const auto options : {kJson, kText}) {
      const std::string line = line_of(options, write);
      EXPECT_TRUE(std::ranges::none_of(line, [](char c) { return static_cast<unsigned char>(c) < 0x20; })) << line;
      EXPECT_EQ(line.find("\xe2\x80\xa8"), std::string::npos) << line;
      EXPECT_EQ(line.find("\xc2\x85"), std::string::npos) << line;
      EXPECT_EQ(json::accept(line), options.format == Format::Json) << line;
    }
  }
}

TEST(Log, each_line_is_one_write) {
  // A packet socket keeps writes apart.
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  {
    Log log{kJson, ends[1]};
    for (int i = 0; i < 50; ++i) log.call(answered(), kNow);
  }
  ::close(ends[1]);
  int packets = 0;
  std::array<char, 65536> bytes;
  for (ssize_t got; (got = ::recv(ends[0], bytes.data(), bytes.size(), 0)) > 0; ++packets) {
    const std::string_view packet{bytes.data(), static_cast<std::size_t>(got)};
    EXPECT_TRUE(packet.ends_with("}\n"));
    EXPECT_TRUE(json::accept(packet));
  }
  ::close(ends[0]);
  EXPECT_EQ(packets, 50);
}

// A reader who stops: the pipe fills, the log's thread hangs in write(2), and the I/O thread goes on.
TEST(Log, a_blocked_output_stops_nobody_and_what_is_lost_is_owned_up_to) {
  constexpr std::uint64_t kCalls = 5'000;
  Pipe pipe;
  std::uint64_t made = 0;
  std::optional<Log> log{std::in_place, kJson, pipe.writer(), [&](std::string_view) { made += 1; }};
  for (std::uint64_t i = 0; i < kCalls; ++i) log->call(answered(), kNow);
  const std::uint64_t lost_calls = log->dropped();
  EXPECT_GT(lost_calls, 0u);
  EXPECT_LT(lost_calls, kCalls);

  // Then he reads again, and the log goes on until a line gets through.
  std::uint64_t lost = 0;
  std::thread writer{[&] {
    for (std::uint64_t before = log->dropped();; before = log->dropped()) {
      log->line(Level::Info, "after", "there is room again", {}, kNow);
      if (log->dropped() == before) break;
      std::this_thread::yield();
    }
    lost = log->dropped();
    log.reset();
    pipe.close_writer();
  }};
  std::vector<std::string> lines;
  FILE* const reader = ::fdopen(::dup(pipe.ends[0]), "r");
  char* text = nullptr;
  std::size_t size = 0;
  while (::getline(&text, &size, reader) > 0) lines.emplace_back(text);
  ::free(text);
  ::fclose(reader);
  writer.join();

  std::uint64_t calls = 0;
  std::uint64_t owned_up_to = 0;
  for (const std::string& line : lines) {
    const json object = json::parse(line);
    if (object["event"] == "call") calls += 1;
    if (object["event"] == "log_lines_dropped") owned_up_to += object["lines"].get<std::uint64_t>();
  }
  EXPECT_EQ(calls, kCalls - lost_calls);
  EXPECT_EQ(lines.size(), made - lost);
  EXPECT_EQ(owned_up_to, lost);
}

TEST(Log, the_end_is_not_held_up_by_an_output_that_nobody_reads) {
  Pipe pipe;
  const auto begin = std::chrono::steady_clock::now();
  {
    Log log{kJson, pipe.writer()};
    for (int i = 0; i < 2'000; ++i) log.call(answered(), kNow);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  // The thread that was left behind in write(2) ends with EPIPE; nobody can tell when, so its descriptor stays open.
  pipe.close_reader();
  pipe.ends[1] = -1;
}

TEST(Log, a_non_blocking_output_loses_nothing_while_somebody_reads) {
  Pipe pipe;
  ASSERT_EQ(::fcntl(pipe.writer(), F_SETFL, O_NONBLOCK), 0);
  ASSERT_GT(::fcntl(pipe.writer(), F_SETPIPE_SZ, 4096), 0);
  CallRecord record = answered();
  record.attempts.resize(20, record.attempts[0]);  // Longer than the pipe: every write is cut.
  constexpr int kLines = 200;
  Log log{kJson, pipe.writer()};
  for (int i = 0; i < kLines; ++i) log.call(record, kNow);

  std::string all;
  std::array<char, 777> bytes;
  for (std::ptrdiff_t whole = 0; whole < kLines;) {
    const ssize_t got = ::read(pipe.ends[0], bytes.data(), bytes.size());
    ASSERT_GT(got, 0);
    whole += std::count(bytes.data(), bytes.data() + got, '\n');
    all.append(bytes.data(), static_cast<std::size_t>(got));
  }
  std::istringstream lines{all};
  for (std::string line; std::getline(lines, line);) {
    EXPECT_GT(line.size(), 4096u);
    EXPECT_TRUE(json::accept(line)) << line;
  }
  EXPECT_EQ(log.dropped(), 0u);
}

// A disk that is full cuts a line; the next one must not be glued to what there is of it.
TEST(Log, after_a_line_that_was_cut_the_next_begins_on_its_own) {
  const auto path = std::filesystem::temp_directory_path() / ("callgate_log_test." + std::to_string(::getpid()));
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
  ASSERT_GE(fd, 0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit full{500, before.rlim_max};  // In the midst of the first line.
  {
    Log log{kJson, fd};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    log.call(answered(), kNow);
    while (log.dropped() == 0) std::this_thread::yield();
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    log.line(Level::Info, "after", "there is room again", {}, kNow);
  }
  ::close(fd);
  std::ifstream file{path};
  std::vector<std::string> events;
  for (std::string line; std::getline(file, line);) {
    events.push_back(json::accept(line) ? json::parse(line)["event"].get<std::string>() : "cut");
  }
  std::filesystem::remove(path);
  // The first line may learn of its own loss, or the second.
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], "cut");
  EXPECT_EQ((std::set<std::string>{events[1], events[2]}), (std::set<std::string>{"after", "log_lines_dropped"}));
}

TEST(Log, a_closed_output_costs_the_lines_and_nothing_else) {
  Pipe pipe;
  pipe.close_reader();
  Log log{kJson, pipe.writer()};
  log.call(answered(), kNow);
  while (log.dropped() == 0) std::this_thread::yield();
  EXPECT_GE(log.dropped(), 1u);
}

TEST(Log, nothing_of_a_finished_program_is_lost) {
  Pipe pipe;
  { Log{kJson, pipe.writer()}.call(answered(), kNow); }
  EXPECT_EQ(pipe.rest().size(), 1u);
}

}  // namespace log_test
