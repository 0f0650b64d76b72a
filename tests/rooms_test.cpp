// Goal: the dependency direction in docs/architecture.md is true of the files, not only of the drawing.
// Method: a table of texts that must not stand in some files, and a look into all of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Patterns = std::vector<std::string_view>;

/// `text` must not stand in files that match `where`, those that match `except` aside. A pattern is a beginning of
/// the path from the root ("gateway/config"); "*.h" is every header of the five rooms.
struct Ban {
  Patterns where;
  Patterns except;
  std::string_view text;
  std::string_view why;
};

constexpr std::string_view kRooms[] = {"classifier/", "budget/", "ledger/", "gateway/", "cli/"};
const Patterns kPure = {"classifier/", "budget/"};
const Patterns kAll(std::begin(kRooms), std::end(kRooms));

/// Across a real socket, a peer that is slow on purpose has to be slow.
const Patterns kMaySleep = {"tests/support/", "tests/gateway/server_test", "tests/gateway/upstream_curl"};

constexpr std::string_view kLeft = "includes point only left: classifier, budget, ledger, gateway, cli";
constexpr std::string_view kTime = "time is an argument";
constexpr std::string_view kChance = "chance is an argument";
constexpr std::string_view kOneThread = "a room that decides lives on the I/O thread and knows no other";
constexpr std::string_view kNoWorld = "a room that decides does no I/O";
constexpr std::string_view kThinHeaders = "headers include std and our own words; heavy libraries stay in .cpp files";

constexpr std::string_view kUnits = "tests are compiled several files at a time: a file's namespace has its name";

const Ban kBans[] = {
    {{"classifier/"}, {}, "#include \"budget/", kLeft},
    {{"classifier/"}, {}, "#include \"ledger/", kLeft},
    {{"classifier/"}, {}, "#include \"gateway/", kLeft},
    {{"classifier/"}, {}, "#include \"cli/", kLeft},
    {{"budget/"}, {}, "#include \"ledger/", kLeft},
    {{"budget/"}, {}, "#include \"gateway/", kLeft},
    {{"budget/"}, {}, "#include \"cli/", kLeft},
    {{"ledger/"}, {}, "#include \"gateway/", kLeft},
    {{"ledger/"}, {}, "#include \"cli/", kLeft},
    {{"gateway/"}, {}, "#include \"cli/", kLeft},
    {kAll, {}, "#include \"tests/", "what ships does not know its tests"},
    {kAll, {}, "#include \"bench/", "what ships does not know its measurements"},
    {kAll, {}, "#include \"../", "includes go by room path"},

    {{"tests/classifier/", "tests/budget/", "tests/ledger/", "tests/gateway/", "tests/cli/", "tests/e2e/"},
     {},
     "namespace {",
     kUnits},

    {kPure, {}, "_clock::now(", kTime},
    {kPure, {}, "<ctime>", kTime},
    {kPure, {}, "<time.h>", kTime},
    {kPure, {}, "<sys/time.h>", kTime},
    {kPure, {}, "clock_gettime", kTime},
    {{"ledger/"}, {}, "system_clock::now(", "a row's time is told by who writes it"},
    {kPure, {}, "<random>", kChance},
    {kPure, {}, "random_device", kChance},
    {kPure, {}, "<sys/random.h>", kChance},
    {kPure, {}, "rand()", kChance},
    {{"ledger/"}, {}, "<random>", kChance},

    {kPure, {}, "<thread>", kOneThread},
    {kPure, {}, "<future>", kOneThread},
    {kPure, {}, "<stop_token>", kOneThread},
    {kPure, {}, "<mutex>", kOneThread},
    {kPure, {}, "<shared_mutex>", kOneThread},
    {kPure, {}, "<condition_variable>", kOneThread},
    {kPure, {}, "<semaphore>", kOneThread},
    {kPure, {}, "<latch>", kOneThread},
    {kPure, {}, "<barrier>", kOneThread},
    {kPure, {}, "<atomic>", kOneThread},
    {kPure, {}, "<pthread.h>", kOneThread},
    {kPure, {}, "thread_local", kOneThread},

    {kPure, {}, "<boost/", kNoWorld},
    {kPure, {}, "<sys/socket.h>", kNoWorld},
    {kPure, {}, "<netinet/", kNoWorld},
    {kPure, {}, "<arpa/", kNoWorld},
    {kPure, {}, "<netdb.h>", kNoWorld},
    {kPure, {}, "<poll.h>", kNoWorld},
    {kPure, {}, "<sys/epoll.h>", kNoWorld},
    {kPure, {}, "<unistd.h>", kNoWorld},
    {kPure, {}, "<fcntl.h>", kNoWorld},
    {kPure, {}, "<fstream>", kNoWorld},
    {kPure, {}, "<filesystem>", kNoWorld},
    {kPure, {}, "<iostream>", kNoWorld},
    {kPure, {}, "getenv(", kNoWorld},
    {{"ledger/"}, {}, "<boost/", "the store is tested without a socket or an event loop"},
    {{"ledger/"}, {}, "<sys/socket.h>", "the store is tested without a socket or an event loop"},

    {kAll,
     {"gateway/upstream_curl", "gateway/otlp_curl"},
     "<curl/",
     "no curl type leaves the files that are meant to be replaceable"},
    {kAll,
     {"gateway/server", "gateway/http_head"},
     "<boost/beast",
     "only the server speaks HTTP to callers; Beast compiles for ages"},
    {kAll, {"gateway/config"}, "<yaml-cpp/", "only gateway/config knows YAML"},
    {kAll, {"gateway/metrics"}, "<prometheus/", "gateway/metrics lists every metric"},
    {kAll, {"ledger/"}, "<sqlite3.h>", "only ledger/ speaks SQL"},
    {kAll, {"gateway/endpoint", "cli/"}, "<httplib.h>", "cpp-httplib blocks a thread for each call"},
    {{"cli/"}, {"cli/serve.cpp"}, "<boost/", "commands are short blocking calls; only serve runs an event loop"},
    {{"budget/"}, {}, "<nlohmann/", "what decides about money reads no JSON"},

    {{"*.h"}, {}, "<simdjson.h>", kThinHeaders},
    {{"*.h"}, {}, "<nlohmann/", kThinHeaders},
    {{"*.h"}, {}, "<zlib.h>", kThinHeaders},
    {{"*.h"}, {}, "<curl/", kThinHeaders},
    {{"*.h"}, {}, "<openssl/", kThinHeaders},
    {{"*.h"}, {}, "<sqlite3.h>", kThinHeaders},
    {{"*.h"}, {}, "<httplib.h>", kThinHeaders},
    {{"*.h"}, {}, "<yaml-cpp/", kThinHeaders},
    {{"*.h"}, {}, "<prometheus/", kThinHeaders},
    {{"*.h"}, {}, "<boost/beast", kThinHeaders},
    {{"*.h"}, {}, "<boost/asio.hpp>", kThinHeaders},
    {{"*.h"}, {}, "<boost/asio/ip", kThinHeaders},
    {{"*.h"}, {}, "<boost/asio/ssl", kThinHeaders},
    {{"*.h"}, {}, "<boost/asio/co_spawn", kThinHeaders},
    {{"*.h"}, {}, "<boost/asio/steady_timer", kThinHeaders},
    {{"*.h"}, {}, "<iostream>", kThinHeaders},

    {{"tests/"}, kMaySleep, "sleep_for", "tests wait for a condition, or run on virtual time"},
    {{"tests/"}, kMaySleep, "this_thread::sleep", "tests wait for a condition, or run on virtual time"},
    {{"tests/"}, kMaySleep, "usleep(", "tests wait for a condition, or run on virtual time"},
};

bool is_header(std::string_view path) { return path.ends_with(".h"); }

bool in_a_room(std::string_view path) {
  return std::ranges::any_of(kRooms, [&](std::string_view room) { return path.starts_with(room); });
}

bool matches(std::string_view path, const Patterns& patterns) {
  return std::ranges::any_of(patterns, [&](std::string_view pattern) {
    return pattern == "*.h" ? is_header(path) && in_a_room(path) : path.starts_with(pattern);
  });
}

/// g++ 12 destroys an aggregate temporary and a capturing lambda temporary twice if they are born in one full
/// expression with a co_await: heap corruption without a warning. So such a thing gets a name on the line above.
std::vector<std::string> traps_in(const std::string& text) {
  static const std::regex kTrap{R"(\b[A-Z]\w*\{|\(\{|\[[=A-Za-z][^\]]*\]\s*[\({])"};
  std::vector<std::string> traps;
  for (auto at = text.find("co_await"); at != std::string::npos; at = text.find("co_await", at + 1)) {
    const auto line = text.rfind('\n', at) + 1;
    if (text.substr(line, at - line).find("//") != std::string::npos) continue;
    // To the end of the full expression: the semicolon, or the block that an if or a for opens.
    const auto end = std::min(text.find(';', at), text.find(") {\n", at));
    const std::string expression = text.substr(at, end - at);
    if (std::regex_search(expression, kTrap)) traps.push_back(expression.substr(0, 80));
  }
  return traps;
}

/// What is wrong with one file; `path` from the root.
std::vector<std::string> faults_of(const std::string& path, const std::string& text) {
  std::vector<std::string> faults;
  for (const Ban& ban : kBans) {
    if (!matches(path, ban.where) || matches(path, ban.except)) continue;
    if (text.find(ban.text) == std::string::npos) continue;
    faults.push_back(path + " contains " + std::string{ban.text} + ": " + std::string{ban.why});
  }
  for (const std::string& trap : traps_in(text)) {
    faults.push_back(path + " has a temporary beside a co_await, which g++ 12 destroys twice: " + trap);
  }
  return faults;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

std::vector<std::string> sources_in(std::string_view folder) {
  const std::filesystem::path root{PROJECT_ROOT};
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator{root / folder}) {
    const auto extension = entry.path().extension();
    if (!entry.is_regular_file() || (extension != ".h" && extension != ".cpp")) continue;
    // This file names all that it bans.
    if (entry.path().filename() == "rooms_test.cpp") continue;
    paths.push_back(std::filesystem::relative(entry.path(), root).generic_string());
  }
  return paths;
}

TEST(Rooms, keep_their_doors) {
  Patterns folders = kAll;
  folders.emplace_back("tests/");
  for (const std::string_view folder : folders) {
    const std::vector<std::string> paths = sources_in(folder);
    EXPECT_FALSE(paths.empty()) << folder << " has no file: has it moved?";
    for (const std::string& path : paths) {
      for (const std::string& fault : faults_of(path, text_of(std::filesystem::path{PROJECT_ROOT} / path))) {
        ADD_FAILURE() << fault;
      }
    }
  }
}

TEST(Rooms, a_breach_of_any_row_is_seen) {
  for (const Ban& ban : kBans) {
    for (const std::string_view where : ban.where) {
      const std::string path = where == "*.h" ? "gateway/made_up.h" : std::string{where} + "made_up.cpp";
      if (matches(path, ban.except)) continue;
      const std::vector<std::string> faults = faults_of(path, "// made up\n#include " + std::string{ban.text});
      EXPECT_TRUE(std::ranges::any_of(faults, [&](const std::string& fault) { return fault.contains(ban.why); }))
          << path << " with " << ban.text;
    }
  }
}

TEST(Rooms, what_is_allowed_is_not_taken_for_a_breach) {
  const struct {
    std::string path;
    std::string text;
  } kAllowed[] = {
      {"classifier/made_up.cpp", "#include \"classifier/verdict.h\"\n#include <simdjson.h>\n"},
      {"budget/made_up.cpp", "#include \"classifier/verdict.h\"\n#include <chrono>\n"},
      {"ledger/made_up.cpp", "#include \"budget/units.h\"\n#include <sqlite3.h>\n#include <mutex>\n"},
      {"gateway/upstream_curl.cpp", "#include <curl/curl.h>\n#include <boost/asio/steady_timer.hpp>\n"},
      {"gateway/server_http.cpp", "#include <boost/beast/http.hpp>\n"},
      {"gateway/made_up.h", "#include <boost/asio/awaitable.hpp>\n"},
      {"cli/serve.cpp", "#include <boost/asio/io_context.hpp>\n"},
      {"cli/client.cpp", "#include <httplib.h>\n#include \"gateway/config.h\"\n"},
      {"tests/support/made_up.cpp", "std::this_thread::sleep_for(1ms);"},
      {"tests/support/made_up.h", "#include <nlohmann/json.hpp>"},
  };
  for (const auto& allowed : kAllowed) {
    EXPECT_EQ(faults_of(allowed.path, allowed.text), std::vector<std::string>{});
  }
}

TEST(Rooms, temporaries_that_gcc_12_destroys_twice_are_seen) {
  const struct {
    std::string text;
    bool trap;
  } kForms[] = {
      {"co_await send(Options{1, path});", true},
      {"co_await send({.name = name});", true},
      {"co_await send({\n    .name = name});", true},
      {"const auto got = co_await visit([path](int n) { return n; });", true},
      {"const auto got = co_await visit([=] { return 1; });", true},
      {"co_await send(std::move(options));", false},
      {"co_await visit([&](int n) { return n; });", false},
      {"const auto [ec, n] = co_await read(buffer);", false},
      {"if (co_await read(buffer)) {\n  use(Options{1});\n}", false},
      {"for (;;) {\n  co_await next();\n  use(Options{1});\n}", false},
      {"co_await read(rows[index], std::chrono::milliseconds{5});", false},
      {"co_return Options{1};", false},
      {"// See co_await.\nconst auto visit = [this](auto handler) {};", false},
  };
  for (const auto& form : kForms) EXPECT_EQ(!traps_in(form.text).empty(), form.trap) << form.text;
}

}  // namespace
