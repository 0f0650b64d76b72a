#pragma once
// Fakes that work, behind the story's doors: a provider that follows a plan in virtual time, a caller that keeps what
// it got, a ledger that can be slow or broken.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/sim_runtime.h"

/// What a provider does, in order; `after` counts from the step before.
struct SimStep {
  enum class Does { Head, Data, End, Fail, Silence } does = Does::Silence;
  std::chrono::milliseconds after{0};
  int status = 200;
  classifier::Headers headers{};
  std::string bytes{};
  classifier::Transport transport = classifier::Transport::Reset;
};

inline SimStep sim_head(int status, classifier::Headers headers, std::chrono::milliseconds after = {}) {
  return {SimStep::Does::Head, after, status, std::move(headers), {}, {}};
}
inline SimStep sim_data(std::string bytes, std::chrono::milliseconds after = {}) {
  return {SimStep::Does::Data, after, 0, {}, std::move(bytes), {}};
}
inline SimStep sim_end(std::chrono::milliseconds after = {}) { return {SimStep::Does::End, after, 0, {}, {}, {}}; }
inline SimStep sim_fail(classifier::Transport transport, std::chrono::milliseconds after = {}) {
  return {SimStep::Does::Fail, after, 0, {}, {}, transport};
}
inline SimStep sim_silence() { return {}; }
using SimPlan = std::vector<SimStep>;

/// Plays one plan per attempt; the last one again for all further attempts.
class SimUpstream final : public gateway::Upstream {
 public:
  explicit SimUpstream(SimRuntime& runtime) : runtime_(runtime) {}

  std::unique_ptr<gateway::Exchange> start(gateway::Outbound request, gateway::Signal& signal) override {
    if (throws) throw std::runtime_error("the wire is broken");
    started.push_back(runtime_.now());
    most = std::max(most, ++live);
    SimPlan plan = plan_for ? plan_for(request) : plans.at(std::min(started.size(), plans.size()) - 1);
    requests.push_back(std::move(request));
    return std::make_unique<Played>(*this, std::move(plan), signal, requests.back());
  }
  void retire(std::unique_ptr<gateway::Exchange> exchange) override {
    ++retired;
    exchange.reset();
  }

  std::vector<SimPlan> plans{};
  std::function<SimPlan(const gateway::Outbound&)> plan_for{};  // Given: instead of those.
  std::function<void(const gateway::Outbound&)> ended{};        // An exchange is gone.
  std::vector<gateway::TimePoint> started{};
  std::vector<gateway::Outbound> requests{};
  int live = 0;
  int most = 0;
  int retired = 0;
  bool throws = false;

 private:
  class Played final : public gateway::Exchange {
   public:
    Played(SimUpstream& upstream, SimPlan plan, gateway::Signal& signal, gateway::Outbound request)
        : upstream_(upstream), signal_(signal), request_(std::move(request)), at_(upstream.runtime_.now()) {
      for (SimStep& step : plan) steps_.push_back(std::move(step));
    }
    ~Played() override {
      --upstream_.live;
      if (upstream_.ended) upstream_.ended(request_);
    }
    gateway::task<Got> head(gateway::TimePoint until) override {
      const Got got = co_await next(until);
      if (got == Got::Head) sent_ = true;
      co_return got;
    }
    gateway::task<Got> read(std::string& into, gateway::TimePoint until) override {
      const Got got = co_await next(until);
      if (got == Got::Data) into.swap(bytes_);
      bytes_.clear();
      co_return got;
    }
    [[nodiscard]] int status() const override { return status_; }
    [[nodiscard]] const classifier::Headers& headers() const override { return headers_; }
    [[nodiscard]] bool request_sent() const override { return sent_; }
    [[nodiscard]] classifier::Transport transport() const override { return transport_; }
    [[nodiscard]] std::string_view failure() const override { return "the plan says so"; }

   private:
    gateway::task<Got> next(gateway::TimePoint until) {
      SimRuntime& runtime = upstream_.runtime_;
      for (;;) {
        if (signal_.stopped()) co_return Got::Stopped;
        const bool silent = steps_.empty() || steps_.front().does == SimStep::Does::Silence;
        const gateway::TimePoint due = silent ? gateway::TimePoint::max() : at_ + steps_.front().after;
        if (!silent && due <= runtime.now()) {
          at_ = due;
          SimStep step = std::move(steps_.front());
          steps_.pop_front();
          switch (step.does) {
            case SimStep::Does::Head:
              status_ = step.status;
              headers_ = std::move(step.headers);
              co_return Got::Head;
            case SimStep::Does::Data:
              bytes_ = std::move(step.bytes);
              co_return Got::Data;
            case SimStep::Does::End:
              co_return Got::End;
            default:
              transport_ = step.transport;
              sent_ = step.transport == classifier::Transport::Reset;
              co_return Got::Failed;
          }
        }
        if (runtime.now() >= until) {
          sent_ = true;
          co_return Got::TimedOut;
        }
        co_await runtime.wait(signal_, std::min(due, until));
      }
    }
    SimUpstream& upstream_;
    gateway::Signal& signal_;
    const gateway::Outbound request_;
    gateway::TimePoint at_;
    std::deque<SimStep> steps_{};
    int status_ = 0;
    classifier::Headers headers_{};
    std::string bytes_{};
    bool sent_ = false;
    classifier::Transport transport_ = classifier::Transport::Reset;
  };

  SimRuntime& runtime_;
};

/// Keeps what it got, and insists that an answer ends exactly once.
class SimCaller final : public gateway::Caller {
 public:
  enum class Ended { No, Answered, Finished, Aborted };
  explicit SimCaller(SimRuntime& runtime) : runtime_(runtime) {}

  gateway::task<bool> answer(gateway::AnswerHead answer_head, std::string_view body) override {
    end(Ended::Answered);
    head = std::move(answer_head);
    bytes = body;
    co_return true;
  }
  void begin(gateway::AnswerHead answer_head, std::optional<std::uint64_t> exact) override {
    if (begun_) throw std::logic_error("begun twice");
    begun_ = true;
    head = std::move(answer_head);
    length = exact;
  }
  gateway::task<bool> send(std::string_view more) override {
    if (!begun_ || ended != Ended::No) throw std::logic_error("send out of place");
    if (sends_left && (*sends_left)-- <= 0) co_return false;
    if (slow_signal) {
      const gateway::TimePoint until = runtime_.now() + send_takes;
      while (runtime_.now() < until && !slow_signal->stopped()) co_await runtime_.wait(*slow_signal, until);
      if (slow_signal->stopped()) co_return false;
    }
    bytes += more;
    sends.push_back(runtime_.now());
    co_return true;
  }
  gateway::task<bool> finish(std::string_view last) override {
    if (!begun_) throw std::logic_error("finished before it was begun");
    end(Ended::Finished);
    bytes += last;
    co_return true;
  }
  void abort() override { end(Ended::Aborted); }
  [[nodiscard]] bool begun() const override { return begun_; }
  [[nodiscard]] bool present() override { return here; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return bytes.size(); }

  gateway::Signal* slow_signal = nullptr;   // Given, the call's: each send() waits there, …
  std::chrono::milliseconds send_takes{0};  // … for so long.
  bool here = true;                         // He has closed, and nobody was told yet: false.
  gateway::AnswerHead head{};
  std::optional<std::uint64_t> length{};
  std::string bytes{};
  std::vector<gateway::TimePoint> sends{};
  std::optional<int> sends_left{};  // Then nobody can be reached any more.
  Ended ended = Ended::No;
  gateway::TimePoint ended_at{};

 private:
  void end(Ended how) {
    if (ended != Ended::No) throw std::logic_error("ended twice");
    ended = how;
    ended_at = runtime_.now();
  }
  SimRuntime& runtime_;
  bool begun_ = false;
};

/// A ledger without a disk, but with its moods.
class SimLedger final : public gateway::Ledger {
 public:
  explicit SimLedger(SimRuntime& runtime) : runtime_(runtime) {}

  gateway::task<ledger::ClaimAnswer> claim(ledger::ClaimAsk ask) override {
    if (throws_on_claim) throw std::runtime_error("claim is broken");
    ++claims;
    known.insert(ask.scope);
    const gateway::TimePoint until = runtime_.now() + claim_takes;
    gateway::Signal pause{runtime_.io()};
    while (runtime_.now() < until) co_await runtime_.wait(pause, until);
    if (claim_answer) co_return *claim_answer;
    ledger::ClaimAnswer answer;
    const auto [at, fresh] = jobs.try_emplace(ask.scope);
    Job& job = at->second;
    if (!fresh) {
      using Kind = ledger::ClaimAnswer::Kind;
      answer.call_id = job.call_id;
      answer.until = job.until;
      if (job.fingerprint != ask.fingerprint) {
        answer.kind = Kind::OtherBody;
        co_return answer;
      }
      if (job.answer) {
        answer.kind = Kind::Stored;
        answer.answer = job.answer;
        if (job.give_once) jobs.erase(at);
        co_return answer;
      }
      answer.kind = job.unknown || job.until <= ask.now ? Kind::Unknown : Kind::Held;
      if (answer.kind == Kind::Held || !ask.rerun) co_return answer;
    }
    job = {ask.fingerprint, ask.call_id, ask.now + ask.lease, false, false, nullptr};
    co_return answer;
  }
  bool claim_ahead(const ledger::ClaimAsk& ask) override {
    if (throws_on_claim) throw std::runtime_error("claim is broken");
    if (!claims_ahead || jobs.contains(ask.scope) || !known.insert(ask.scope).second) return false;
    ++ahead;
    if (!loses_ahead) jobs[ask.scope] = {ask.fingerprint, ask.call_id, ask.now + ask.lease, false, false, nullptr};
    return true;
  }
  void forget_claim(const ledger::Digest& scope, const std::string& call_id) override {
    forgotten.push_back(call_id);
    const auto at = jobs.find(scope);
    if (at != jobs.end() && at->second.call_id == call_id) jobs.erase(at);
  }
  gateway::task<void> open(const gateway::OpenRow& row) override {
    if (throws_on_open) throw std::runtime_error("open is broken");
    open_.insert(row.call->id);
    opened.push_back(row.attempt);
    co_return;
  }
  void attempt_ended(const gateway::CallRecord& record) override {
    ended_attempts.push_back(record.attempts.back().number);
  }
  gateway::task<bool> end(const gateway::CallRecord& record, ledger::CallEnd end) override {
    std::optional<ledger::OnceOutcome> once = std::move(end.once);
    letters.push_back(std::move(end.letter));
    if (throws_on_end) throw std::runtime_error("end is broken");
    const gateway::TimePoint until = runtime_.now() + end_takes;
    gateway::Signal pause{runtime_.io()};
    while (runtime_.now() < until) co_await runtime_.wait(pause, until);
    if (loses_answers) {
      ended.push_back(record);
      outcomes.emplace_back();
      co_return false;
    }
    if (once) {
      if (once->unclaimed && once->answer && !claim_answer) {
        const ledger::ClaimAsk& ask = *once->unclaimed;
        jobs.try_emplace(once->scope, Job{ask.fingerprint, ask.call_id, ask.now + ask.lease, false, false, nullptr});
      }
      const auto at = jobs.find(once->scope);
      if (at != jobs.end() && at->second.call_id == once->call_id) {
        at->second.answer = once->answer;
        at->second.give_once = once->give_once;
        if (!once->answer) jobs.erase(at);
      }
    }
    ended.push_back(record);
    outcomes.push_back(std::move(once));
    ended_at = runtime_.now();
    open_.erase(record.id);
    co_return true;
  }

  /// Calls with an attempt under way.
  [[nodiscard]] std::size_t open_rows() const { return open_.size(); }

  struct Job {
    ledger::Digest fingerprint{};
    std::string call_id{};
    std::chrono::system_clock::time_point until{};
    bool unknown = false;
    bool give_once = false;
    std::shared_ptr<const ledger::StoredAnswer> answer{};
  };
  std::map<ledger::Digest, Job> jobs{};
  std::optional<ledger::ClaimAnswer> claim_answer{};  // Given: instead of what `jobs` say.
  int claims = 0;
  bool claims_ahead = false;  // What was never asked for is claimed without waiting, …
  bool loses_ahead = false;   // … which the store then gives up.
  int ahead = 0;
  std::set<ledger::Digest> known{};
  std::chrono::milliseconds claim_takes{0};
  bool loses_answers = false;  // end() is never committed.
  std::vector<std::string> forgotten{};
  std::vector<int> opened{};
  std::vector<int> ended_attempts{};  // The last one each time that a call was to go on.
  std::vector<gateway::CallRecord> ended{};
  std::vector<std::optional<ledger::OnceOutcome>> outcomes{};
  std::vector<std::optional<ledger::LetterOutcome>> letters{};  // Beside `outcomes`, but for lost ones.
  gateway::TimePoint ended_at{};
  std::chrono::milliseconds end_takes{0};
  bool throws_on_claim = false;
  bool throws_on_open = false;
  bool throws_on_end = false;

 private:
  SimRuntime& runtime_;
  std::set<std::string, std::less<>> open_{};
};
