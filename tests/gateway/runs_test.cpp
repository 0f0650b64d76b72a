// Goal: what is taken back is not made, wherever it was just then, and what is to be told is told rightly. Method:
// runs on a real store, with the clock of this machine; the calls are the test's own.

#include "gateway/runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "gateway/config.h"
#include "gateway/runtime.h"

namespace gateway {
namespace runs_test {

using namespace std::chrono_literals;
using ledger::RunState;

/// Nobody is asked.
class NoUpstream final : public Upstream {
 public:
  std::unique_ptr<Exchange> start(Outbound /*request*/, Signal& /*signal*/) override {
    throw std::runtime_error("nobody is to be asked here");
  }
  void retire(std::unique_ptr<Exchange> /*exchange*/) override {}
};

class RunsTest : public testing::Test {
 protected:
  using Played = std::expected<CallRecord, RefusedRequest>;

  RunsTest() {
    std::filesystem::create_directories(folder_);
    ledger::StoreOptions options;
    options.path = folder_ + "/calls.db";
    options.payloads = ledger::Payloads::Plain;
    options.now = [] { return std::chrono::system_clock::now(); };
    auto opened = ledger::Store::open(std::move(options));
    if (!opened) throw std::runtime_error(opened.error().text);
    store_ = std::move(*opened);
    Runs::Doors doors;
    doors.play = [this](Errand errand, Caller& caller, Signal& signal) {
      return played(std::move(errand), caller, signal);
    };
    runs_ = std::make_unique<Runs>(runtime_, io_, *store_, upstream_, metrics_, log_, std::move(doors));
    Loaded loaded = parse_config("runs: {max_attempts: 1}\nidempotency: {max_entry: 1KiB}\n", "callgate.yaml", {});
    runs_->configure(std::make_shared<const Config>(loaded.config), {std::string(24, 's')}, 10'000);
    runs_->start();
  }
  ~RunsTest() override {
    runs_->stop_all();
    // Coroutines that still sleep own what they sleep on.
    runs_->drain();
    runs_->stop_all();
    for (int turn = 0; turn < 20; ++turn) {
      io_.restart();
      io_.run_for(2ms);
    }
    store_.reset();
    io_.restart();
    io_.run_for(2ms);
    runs_.reset();
    std::filesystem::remove_all(folder_);
  }

  task<Played> played(Errand errand, Caller& caller, Signal& signal) {
    ++plays_;
    return play_(std::move(errand), caller, signal);
  }

  /// The loop turns until it is so.
  bool until(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io_.restart();
      io_.run_for(2ms);
    }
    return true;
  }
  template <typename T>
  T asked(std::function<T(ledger::Books&)> question) {
    std::promise<T> promise;
    auto future = promise.get_future();
    store_->read([&](ledger::Books& books) { promise.set_value(question(books)); });
    return future.get();
  }
  ledger::RunLine line(const std::string& id) {
    return asked<ledger::RunLine>(
        [&](ledger::Books& books) { return books.run(id, "").value().value_or(ledger::RunLine{}); });
  }
  std::string state(const std::string& id) { return line(id).state; }
  void accept(const std::string& id, const std::string& webhook = {}) {
    ledger::NewRun run;
    run.id = id;
    run.tenant = "default";
    run.queue = "q";
    run.lane = "bulk";
    run.webhook = webhook;
    run.scope.fill(static_cast<std::uint8_t>(id.back()));
    run.created_ms = 1;
    auto request = std::make_shared<ledger::KeptRequest>();
    request->method = "POST";
    request->target = "/openai/v1/chat/completions";
    request->body = "{}";
    run.request = std::move(request);
    std::promise<ledger::RunAnswer> promise;
    store_->accept_run(std::move(run), [&](ledger::RunAnswer answer) { promise.set_value(std::move(answer)); });
    ASSERT_EQ(promise.get_future().get().kind, ledger::RunAnswer::Kind::Accepted);
    runs_->touched("q");
  }

  std::string folder_ =
      (std::filesystem::temp_directory_path() / ("runs_test." + std::to_string(::getpid()))).string();
  asio::io_context io_{};
  RealRuntime runtime_{};
  NoUpstream upstream_{};
  Metrics metrics_{MetricNames{}};
  Log log_{Config::Log{.level = Config::Log::Level::Error}, 2};
  std::unique_ptr<ledger::Store> store_{};
  std::unique_ptr<Runs> runs_{};
  std::function<task<Played>(Errand, Caller&, Signal&)> play_{};
  int plays_ = 0;
  int answered_ = 0;
  int wanted_ = 0;
};

CallRecord ended_as(Outcome outcome, classifier::Class cls) {
  CallRecord record;
  record.id = "01a22ce1-d221-7000-8000-000000000001";
  record.tenant = "default";
  record.queue = "q";
  record.outcome = outcome;
  record.cls = cls;
  return record;
}

TEST_F(RunsTest, F43_one_that_is_taken_back_while_it_goes_back_to_its_queue_is_not_made_again) {
  const std::string id = "01a22ce1-d221-7000-8000-00000000000a";
  play_ = [&](Errand errand, Caller&, Signal&) -> task<Played> {
    CallRecord record = ended_as(Outcome::Drained, classifier::Class::LocalDraining);
    ledger::CallEnd end;
    end.run = errand.run->end(record, nullptr);
    EXPECT_EQ(end.run->state, RunState::Queued);
    // Its end is settled and not yet written: whoever asks the store hears that it is running.
    EXPECT_TRUE(runs_->cancel(id));
    store_->end_call(record, std::move(end));
    co_return record;
  };
  accept(id);
  ASSERT_TRUE(until([&] {
    runs_->touched("q");
    return state(id) == "cancelled" || plays_ > 1;
  })) << state(id);
  EXPECT_EQ(state(id), "cancelled");
  EXPECT_EQ(plays_, 1);
}

TEST_F(RunsTest, F43_one_that_nobody_holds_is_cancelled_by_whoever_takes_it) {
  const std::string id = "01a22ce1-d221-7000-8000-00000000000b";
  EXPECT_FALSE(runs_->cancel(id));
  accept(id);
  ASSERT_TRUE(until([&] { return state(id) == "cancelled" || plays_ > 0; }));
  EXPECT_EQ(plays_, 0);
}

TEST_F(RunsTest, answers_are_bounded_each_and_together_and_why_says_so) {
  const auto answers = [&](std::size_t size) {
    return [this, size](Errand errand, Caller& caller, Signal&) -> task<Played> {
      static_cast<void>(errand);
      AnswerHead head;
      head.status = 200;
      const std::string body(size, 'x');
      co_await caller.answer(std::move(head), body);
      ++answered_;
      Signal bell{io_};
      while (answered_ < wanted_) co_await runtime_.wait(bell, runtime_.now() + 5ms);
      co_return ended_as(Outcome::Answered, classifier::Class::None);
    };
  };
  play_ = answers(5'000);
  wanted_ = 0;
  const std::string large = "01a22ce1-d221-7000-8000-00000000000c";
  accept(large);
  ASSERT_TRUE(until([&] { return state(large) == "dead"; })) << state(large);
  EXPECT_NE(line(large).why.find("idempotency.max_entry"), std::string::npos) << line(large).why;
  EXPECT_EQ(line(large).cls, "too_large");

  play_ = answers(4'000);
  answered_ = 0;
  wanted_ = 3;
  const std::string ids[] = {"01a22ce1-d221-7000-8000-00000000000d",
                             "01a22ce1-d221-7000-8000-00000000000e",
                             "01a22ce1-d221-7000-8000-00000000000f"};
  for (const std::string& id : ids) accept(id);
  int kept = 0;
  int dead = 0;
  ASSERT_TRUE(until([&] {
    kept = dead = 0;
    for (const std::string& id : ids) {
      if (state(id) == "succeeded") ++kept;
      if (state(id) == "dead") ++dead;
    }
    return kept + dead == 3;
  }));
  EXPECT_EQ(kept, 2);
  for (const std::string& id : ids) {
    if (state(id) != "dead") continue;
    EXPECT_NE(line(id).why.find("limits.buffered_bytes"), std::string::npos) << line(id).why;
  }
  // What is over leaves its room.
  const std::string after = "01a22ce1-d221-7000-8000-000000000010";
  accept(after);
  EXPECT_TRUE(until([&] { return state(after) == "succeeded"; }));
}

TEST_F(RunsTest, a_call_that_lives_on_after_a_bug_rings_for_nobody) {
  std::shared_ptr<RunHold> hold;
  play_ = [&](Errand errand, Caller&, Signal&) -> task<Played> {
    hold = errand.run;
    hold->playing = true;
    throw std::runtime_error("a bug of the test's");
    co_return ended_as(Outcome::Answered, classifier::Class::None);
  };
  accept("01a22ce1-d221-7000-8000-000000000011");
  ASSERT_TRUE(until([&] { return hold != nullptr && runs_->active() == 0; }));
  EXPECT_EQ(hold->bell, nullptr);
}

}  // namespace runs_test
}  // namespace gateway
