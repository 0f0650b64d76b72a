#pragma once
// What tests of the store share: a folder of their own, a clock that they set, rows, and waiting for what was told.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ledger/sql.h"
#include "ledger/store.h"

namespace store_test {

using namespace std::chrono_literals;
using ledger::CallRecord;
using ledger::ClaimAnswer;
using ledger::ClaimAsk;
using ledger::Database;
using ledger::OpenRow;
using ledger::Store;
using ledger::StoreOptions;
using ledger::Written;

/// Nothing in these tests takes so long, but a machine may be busy.
inline constexpr std::chrono::seconds kPatience{20};
using WallTime = std::chrono::system_clock::time_point;
/// 2026-11-29T12:00:00Z, the begin of a quarter of an hour.
inline const WallTime kNoon{std::chrono::seconds{1'795'953'600}};

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "callgate-store-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }

 private:
  std::string path_;
};

/// Set by the test, read by the store's threads.
class Clock {
 public:
  [[nodiscard]] WallTime now() const { return kNoon + std::chrono::milliseconds{since_.load()}; }
  void forward(std::chrono::milliseconds by) { since_ += by.count(); }

 private:
  std::atomic<std::int64_t> since_{0};
};

inline StoreOptions options_at(const std::string& path, const Clock& clock) {
  StoreOptions options;
  options.path = path;
  options.now = [&clock] { return clock.now(); };
  return options;
}

/// What a callback is told, once.
template <typename T>
class Told {
 public:
  auto teller() {
    return [state = state_](T value) {
      const std::scoped_lock lock(state->mutex);
      state->value = std::move(value);
      state->bell.notify_all();
    };
  }
  /// Nothing: it was not told.
  std::optional<T> wait(std::chrono::milliseconds patience = kPatience) {
    std::unique_lock lock(state_->mutex);
    state_->bell.wait_for(lock, patience, [&] { return state_->value.has_value(); });
    return state_->value;
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable bell;
    std::optional<T> value;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// In the order of their numbers, as UUIDv7 of that time.
inline std::string id_of(int number, WallTime time = kNoon) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
  std::array<char, 80> text{};
  std::snprintf(text.data(),
                text.size(),
                "%08llx-%04llx-7000-8000-%012d",
                static_cast<unsigned long long>(ms) >> 16U,
                static_cast<unsigned long long>(ms) & 0xffffU,
                number);
  return text.data();
}

inline ledger::Digest digest(int number) {
  ledger::Digest digest{};
  for (std::size_t i = 0; i < 4; ++i) digest[i] = static_cast<std::uint8_t>(number >> (8 * i));
  return digest;
}

inline CallRecord call(int number, WallTime began = kNoon) {
  CallRecord call;
  call.id = id_of(number, began);
  call.tenant = "acme";
  call.route = "openai";
  call.upstream = "openai";
  call.dialect = "openai";
  call.operation = "chat";
  call.method = "POST";
  call.path = "/v1/chat/completions";
  call.model = "gpt-4o";
  call.began = began;
  return call;
}

inline OpenRow opening(const CallRecord& call, int attempt = 1, std::int64_t reserved = 5'000) {
  OpenRow row;
  row.call = &call;
  row.attempt = attempt;
  row.upstream = call.upstream;
  row.credential = "main";
  row.reserved = budget::NanoUsd{reserved};
  row.began = call.began;
  return row;
}

inline ledger::AttemptRow attempt(const CallRecord& call, int number, std::int64_t cost) {
  ledger::AttemptRow row;
  row.number = number;
  row.upstream = call.upstream;
  row.credential = "main";
  row.status = 200;
  row.usage.tokens = classifier::TokenCounts{
      .input = 100, .cached_input = 20, .cache_write_5m = 3, .cache_write_1h = 4, .output = 10, .reasoning = 5};
  row.cost = budget::NanoUsd{cost};
  row.cost_source = "table";
  row.charged = budget::NanoUsd{cost};
  row.began = call.began;
  row.ended = call.began + 500ms;
  return row;
}

/// Answered at the first attempt.
inline CallRecord answered(int number, std::int64_t cost = 1'000, WallTime began = kNoon) {
  CallRecord record = call(number, began);
  record.attempts.push_back(attempt(record, 1, cost));
  record.outcome = ledger::Outcome::Answered;
  record.status = 200;
  record.cost = budget::NanoUsd{cost};
  record.ended = began + 500ms;
  record.duration = 500ms;
  return record;
}

inline std::unique_ptr<Store> opened(StoreOptions options) {
  auto store = Store::open(std::move(options));
  if (!store) {
    ADD_FAILURE() << store.error().text;
    return nullptr;
  }
  return std::move(*store);
}

inline ClaimAsk asking(int scope, const Clock& clock, int number, int body = 1) {
  ClaimAsk ask;
  ask.scope = digest(scope);
  ask.fingerprint = digest(body);
  ask.key = "job-" + std::to_string(scope);
  ask.tenant = "acme";
  ask.call_id = id_of(number);
  ask.now = clock.now();
  ask.lease = 60s;
  return ask;
}

inline ClaimAnswer claimed(Store& store, ClaimAsk ask) {
  Told<ClaimAnswer> told;
  store.claim(std::move(ask), told.teller());
  const std::optional<ClaimAnswer> answer = told.wait();
  EXPECT_TRUE(answer) << "the claim was not answered";
  return answer.value_or(ClaimAnswer{});
}

inline Written ended(Store& store, const CallRecord& record, std::optional<ledger::OnceOutcome> once = {}) {
  Told<Written> told;
  store.end_call(record, {.once = std::move(once)}, told.teller());
  const std::optional<Written> written = told.wait();
  EXPECT_TRUE(written) << "the ending was not told";
  return written.value_or(Written::Lost);
}

inline Written begun(Store& store, const OpenRow& row) {
  Told<Written> told;
  store.open_attempt(row, told.teller());
  return told.wait().value_or(Written::Lost);
}

/// Of a store that is open or not.
inline std::int64_t number(const std::string& path, const std::string& sql) {
  Database database(path, Database::Open::Read);
  return database.number(sql).value_or(-1);
}
inline std::string text(const std::string& path, const std::string& sql) {
  Database database(path, Database::Open::Read);
  return database.text(sql).value_or("(null)");
}

/// Asked again and again, without a pause that would be a guess: each look is a reading of figures or of a file.
template <typename Condition>
bool eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace store_test
