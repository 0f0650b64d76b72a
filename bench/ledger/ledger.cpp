// What does it cost to remember a call? Commit times as a caller waits for them, CPU per call, the log's size under
// load.
//
//   bench_ledger FOLDER [SECONDS [SCENE]]: three scenes, or one, for each of commit: process and disk, in files of
//   their own in FOLDER.
//
//   alone    one call after the other: its open row is awaited (as for a keyed call), then its ending
//   crowd    64 calls at once, each as `alone`: how far group commit carries
//   steady   500 calls a second whose open rows nobody awaits, beside a reader that reads all rows again and again

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ledger/store.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using ledger::Commit;
using ledger::Store;

double seconds(Clock::duration span) { return std::chrono::duration<double>(span).count(); }

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

std::atomic<std::uint64_t> serial{0};

ledger::CallRecord new_call() {
  const auto now = std::chrono::system_clock::now();
  const auto ms = static_cast<unsigned long long>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
  std::array<char, 80> id{};
  std::snprintf(id.data(),
                id.size(),
                "%08llx-%04llx-7000-8000-%012llx",
                ms >> 16U,
                ms & 0xffffU,
                static_cast<unsigned long long>(serial++));
  ledger::CallRecord call;
  call.id = id.data();
  call.tenant = "acme";
  call.run_id = "nightly-2026-11-30-" + std::to_string(serial % 1'000);
  call.route = call.upstream = "openai";
  call.dialect = "openai";
  call.operation = "chat";
  call.method = "POST";
  call.path = "/v1/chat/completions";
  call.model = "gpt-4o-mini";
  call.labels = R"({"team":"search","prompt":"v7"})";
  call.began = now;
  return call;
}

ledger::OpenRow opening(const ledger::CallRecord& call, bool durable) {
  ledger::OpenRow row;
  row.call = &call;
  row.attempt = 1;
  row.upstream = "openai";
  row.credential = "main";
  row.reserved = budget::NanoUsd{5'000'000};
  row.began = call.began;
  row.durable = durable;
  return row;
}

void finish(ledger::CallRecord& call) {
  ledger::AttemptRow attempt;
  attempt.number = 1;
  attempt.upstream = "openai";
  attempt.credential = "main";
  attempt.status = 200;
  attempt.provider_request_id = "req_8f14e45fceea167a5a36dedd4bea2543";
  attempt.rule = "openai: 200";
  attempt.usage.tokens = classifier::TokenCounts{.input = 1'200, .cached_input = 1'024, .output = 300};
  attempt.usage.model = "gpt-4o-mini-2024-07-18";
  attempt.cost = attempt.charged = budget::NanoUsd{283'000};
  attempt.cost_source = "table";
  attempt.prices = "2026-11-20";
  attempt.began = call.began;
  attempt.ended = call.ended = std::chrono::system_clock::now();
  call.attempts.push_back(std::move(attempt));
  call.outcome = ledger::Outcome::Answered;
  call.status = 200;
  call.cost = budget::NanoUsd{283'000};
}

/// Rings when told.
class Bell {
 public:
  Store::Done ringer() {
    return [this](ledger::Written) {
      const std::scoped_lock lock(mutex_);
      rung_ = true;
      bell_.notify_one();
    };
  }
  void wait() {
    std::unique_lock lock(mutex_);
    bell_.wait(lock, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable bell_;
  bool rung_ = false;
};

struct Times {
  std::vector<double> open_us{};
  std::vector<double> end_us{};
};

void one_call(Store& store, Bell& bell, Times& times) {
  ledger::CallRecord call = new_call();
  const auto began = Clock::now();
  store.open_attempt(opening(call, true), bell.ringer());
  bell.wait();
  const auto open = Clock::now();
  finish(call);
  store.end_call(call, {}, bell.ringer());
  bell.wait();
  times.open_us.push_back(seconds(open - began) * 1e6);
  times.end_us.push_back(seconds(Clock::now() - open) * 1e6);
}

double share(std::vector<double>& sorted, double which) {
  if (sorted.empty()) return 0;
  std::ranges::sort(sorted);
  return sorted[std::min(sorted.size() - 1, static_cast<std::size_t>(which * static_cast<double>(sorted.size())))];
}

void say(const char* commit, const char* scene, const char* what, std::vector<double>& times) {
  std::printf("%-8s %-7s %-28s p50 %8.0f us   p99 %8.0f us   p99.9 %8.0f us   most %8.0f us\n",
              commit,
              scene,
              what,
              share(times, 0.5),
              share(times, 0.99),
              share(times, 0.999),
              share(times, 1.0));
}

void calls_at_once(Store& store, const char* commit, const char* scene, int threads, std::chrono::seconds span) {
  const double cpu = cpu_seconds();
  const auto began = Clock::now();
  std::vector<Times> times(static_cast<std::size_t>(threads));
  std::vector<std::thread> callers;
  for (Times& mine : times) {
    callers.emplace_back([&store, &mine, until = began + span] {
      Bell bell;
      while (Clock::now() < until) one_call(store, bell, mine);
    });
  }
  for (std::thread& caller : callers) caller.join();
  Times all;
  for (Times& mine : times) {
    all.open_us.insert(all.open_us.end(), mine.open_us.begin(), mine.open_us.end());
    all.end_us.insert(all.end_us.end(), mine.end_us.begin(), mine.end_us.end());
  }
  const auto count = static_cast<double>(all.end_us.size());
  say(commit, scene, "open row until committed", all.open_us);
  say(commit, scene, "ending until committed", all.end_us);
  std::printf("%-8s %-7s %.0f calls/s, CPU of the whole process %.0f us per call\n",
              commit,
              scene,
              count / seconds(Clock::now() - began),
              (cpu_seconds() - cpu) / count * 1e6);
}

void steady(Store& store, const char* commit, bool with_reader, std::chrono::seconds span) {
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> readings{0};
  std::function<void(ledger::Books&)> reading = [&](ledger::Books& books) {
    ledger::SpendAsk ask;
    ask.by = {"run_id"};
    (void)books.spend(ask);
    ++readings;
    if (!stop) store.read(reading);
  };
  if (with_reader) store.read(reading);
  constexpr auto kEvery = 2ms;
  std::mutex mutex;
  std::vector<double> end_us;
  std::uint64_t most_log = 0;
  const double cpu = cpu_seconds();
  const auto began = Clock::now();
  int calls = 0;
  for (auto at = began; at < began + span; at += kEvery) {
    std::this_thread::sleep_until(at);
    ledger::CallRecord call = new_call();
    store.open_attempt(opening(call, false));
    finish(call);
    const auto handed = Clock::now();
    store.end_call(call, {}, [&mutex, &end_us, handed](ledger::Written) {
      const std::scoped_lock lock(mutex);
      end_us.push_back(seconds(Clock::now() - handed) * 1e6);
    });
    if (++calls % 50 == 0) most_log = std::max(most_log, store.figures().log_bytes);
  }
  store.flush(10s);
  const double used = cpu_seconds() - cpu;
  stop = true;
  const char* scene = with_reader ? "read" : "steady";
  say(commit, scene, "ending until committed", end_us);
  std::printf("%-8s %-7s %d calls, CPU of the whole process %.0f us per call, log at most %.1f MB, %llu readings\n",
              commit,
              scene,
              calls,
              used / calls * 1e6,
              static_cast<double>(most_log) / 1e6,
              static_cast<unsigned long long>(readings.load()));
  std::atomic<bool> read{false};
  store.read([&](ledger::Books&) {
    read = true;
    read.notify_one();
  });
  read.wait(false);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "bench_ledger FOLDER [SECONDS [alone|crowd|steady]]\n");
    return 2;
  }
  const std::chrono::seconds span{argc > 2 ? std::atoi(argv[2]) : 10};
  const std::string only = argc > 3 ? argv[3] : "";
  const auto wanted = [&](const char* scene) { return only.empty() || only == scene; };
  for (const auto& [commit, name] : {std::pair{Commit::Process, "process"}, std::pair{Commit::Disk, "disk"}}) {
    ledger::StoreOptions options;
    options.path = std::string{argv[1]} + "/" + name + ".db";
    options.commit = commit;
    options.now = [] { return std::chrono::system_clock::now(); };
    auto store = Store::open(options);
    if (!store) {
      std::fprintf(stderr, "%s\n", store.error().text.c_str());
      return 1;
    }
    if (wanted("alone")) calls_at_once(**store, name, "alone", 1, span);
    if (wanted("crowd")) calls_at_once(**store, name, "crowd", 64, span);
    if (wanted("steady")) {
      steady(**store, name, false, span);
      steady(**store, name, true, span);
    }
    const ledger::StoreFigures figures = (*store)->figures();
    std::printf("%-8s %-7s %llu commits, %llu rows, %llu failures, file %.1f MB\n\n",
                name,
                "all",
                static_cast<unsigned long long>(figures.commits),
                static_cast<unsigned long long>(figures.rows),
                static_cast<unsigned long long>(figures.failures),
                static_cast<double>(figures.file_bytes) / 1e6);
  }
  return 0;
}
