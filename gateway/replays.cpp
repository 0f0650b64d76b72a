#include "gateway/replays.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "budget/price.h"
#include "gateway/awaited.h"

namespace gateway {

using classifier::Class;
using ledger::ItemState;
using ledger::ReplayState;
using std::chrono::milliseconds;
using Json = nlohmann::ordered_json;

namespace {

constexpr std::size_t kPage = 200;
constexpr milliseconds kReadPatience{10'000};
constexpr milliseconds kAskAgain{1'000};  // Of a store that did not answer.
constexpr int kRefusals = 10;             // In a row, of those that pass.
constexpr std::int64_t kFewest = 10;      // Letters, before their share says anything.

/// Nobody reads the answer here: it is stored under the letter's key.
class Nobody final : public Caller {
 public:
  task<bool> answer(AnswerHead /*head*/, std::string_view body) override {
    begun_ = true;
    sent_ += body.size();
    co_return true;
  }
  void begin(AnswerHead /*head*/, std::optional<std::uint64_t> /*length*/) override { begun_ = true; }
  task<bool> send(std::string_view bytes) override {
    sent_ += bytes.size();
    co_return true;
  }
  task<bool> finish(std::string_view last) override {
    sent_ += last.size();
    co_return true;
  }
  void abort() override {}
  [[nodiscard]] bool begun() const override { return begun_; }
  [[nodiscard]] std::uint64_t bytes_sent() const override { return sent_; }
  [[nodiscard]] bool unseen() const override { return true; }
  void begin_anew() override {
    begun_ = false;
    sent_ = 0;
  }

 private:
  bool begun_ = false;
  std::uint64_t sent_ = 0;
};

/// What all others of the replay would die of, too.
bool is_hopeless(Class cls) { return cls == Class::Auth || cls == Class::QuotaExhausted || cls == Class::Permission; }

/// Of a refusal: the letter's own, which no waiting helps.
bool is_its_own(const CallRecord& record) {
  return record.cls == Class::LocalRequest || record.cls == Class::Crash || record.reason == "unpriced_model";
}
/// … or one that passes.
bool passes(Class cls) { return cls == Class::LocalLimit || cls == Class::LocalMemory; }

/// What its call has cost, or may have.
std::int64_t cost_of(const CallRecord& record) {
  if (!record.origin.empty()) return 0;
  std::int64_t sum = 0;
  for (const AttemptRow& attempt : record.attempts) {
    if (attempt.charged) sum += attempt.charged->value;
  }
  return std::max(sum, record.cost ? record.cost->value : 0);
}

/// What a reading on the store's thread has found.
struct Found {
  std::optional<ledger::LetterDetail> letter{};
  std::shared_ptr<const ledger::KeptRequest> request{};
  std::shared_ptr<const ledger::KeptRequest> original{};  // Where that was edited.
  std::int64_t bought = 0;                                // What the call has cost that resolved it.
  std::string why{};                                      // Not empty: it could not be read.
};

std::int64_t cost_in(ledger::Books& books, const std::string& call_id) {
  const auto call = books.call(call_id, {});
  if (!call) return 0;
  const Json json = Json::parse(*call, nullptr, false);
  if (!json.is_object() || !json.contains("cost_usd") || !json.at("cost_usd").is_string()) return 0;
  const auto cost = budget::parse_usd(json.at("cost_usd").get<std::string>());
  return cost ? cost->value : 0;
}

}  // namespace

std::string text_of(const ReplayLimits& limits) {
  Json json{{"rate", limits.per_second},
            {"concurrency", limits.concurrency},
            {"canary", limits.canary},
            {"max_cost_nano", nullptr},
            {"stop_share", limits.stop_share}};
  if (limits.max_cost_nano) json["max_cost_nano"] = *limits.max_cost_nano;
  return json.dump();
}

ReplayLimits read_replay_limits(const std::string& text) {
  ReplayLimits limits;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return limits;
  limits.per_second = json.value("rate", limits.per_second);
  limits.concurrency = json.value("concurrency", limits.concurrency);
  limits.canary = json.value("canary", limits.canary);
  if (const auto most = json.find("max_cost_nano"); most != json.end() && most->is_number_integer())
    limits.max_cost_nano = most->get<std::int64_t>();
  limits.stop_share = json.value("stop_share", limits.stop_share);
  return limits;
}

void count(ReplaySums& sums, const ledger::ReplayItem& item, std::int64_t cost_before) {
  if (item.state == ItemState::Resolved) ++sums.resolved;
  if (item.state == ItemState::DeadAgain) ++sums.dead_again;
  sums.cost_nano += item.cost_nano - cost_before;
}

std::string why_to_stop(const ReplayLimits& limits, const ReplaySums& sums) {
  const std::int64_t sent = sums.resolved + sums.dead_again;
  const auto share = [&] { return static_cast<double>(sums.dead_again) / static_cast<double>(sent); };
  const std::string of = std::to_string(sums.dead_again) + " of " + std::to_string(sent) + " died again";
  if (limits.max_cost_nano && sums.cost_nano >= *limits.max_cost_nano) return "its money is spent (max_cost_usd)";
  if (!sums.canary_passed) {
    if (sent >= limits.canary && sent > 0 && share() > limits.stop_share) return "canary: " + of;
    return {};
  }
  if (sent >= kFewest && share() > limits.stop_share) return of;
  return {};
}

struct Replays::Going {
  Going(std::string name, asio::io_context& io) : id(std::move(name)), bell(io) {}
  const std::string id;
  Signal bell;
  ReplayLimits limits{};
  ReplaySums sums{};
  bool look_again = true;
  int refused_in_a_row = 0;
  TimePoint not_before = TimePoint::min();
  std::string stop{};                                                 // Why nothing more is sent.
  std::int64_t dearest = 0;                                           // What one letter has cost at most.
  std::map<std::string, std::pair<std::string, std::string>> ways{};  // Letters under way: upstream and model.
  std::vector<ledger::ReplayItem> again{};                            // Refused for a while.
  std::set<Signal*> under_way{};
  std::int64_t flying = 0;  // Those and the ones that are about to be.
};

Replays::Replays(Runtime& runtime, asio::io_context& io, ledger::Store& store, Front& front, Doors doors)
    : runtime_(runtime), io_(io), store_(store), front_(front), doors_(std::move(doors)) {}
Replays::~Replays() = default;

void Replays::resume_all() { asio::co_spawn(io_, find_running(), asio::detached); }

void Replays::look(const std::string& id) {
  if (draining_) return;
  const auto [at, fresh] = going_.try_emplace(id, nullptr);
  if (fresh) {
    at->second = std::make_shared<Going>(id, io_);
    asio::co_spawn(io_, go(at->second), asio::detached);
    return;
  }
  at->second->look_again = true;
  at->second->bell.ring();
}

void Replays::drain() {
  draining_ = true;
  for (const auto& [id, going] : going_) {
    for (Signal* signal : going->under_way) signal->drain();
    going->bell.ring();
  }
}

void Replays::stop_all() {
  drain();
  for (const auto& [id, going] : going_) {
    for (Signal* signal : going->under_way) signal->stop(StopReason::Shutdown);
  }
}

task<void> Replays::find_running() {
  using Told = std::vector<std::string>;
  while (!draining_) {
    auto awaited = std::make_shared<Awaited<std::optional<Told>>>(io_);
    auto tell = Awaited<std::optional<Told>>::teller(awaited);
    store_.read([tell](ledger::Books& books) mutable {
      const auto replays = books.replays({}, 10'000);
      std::optional<Told> running;
      if (replays) {
        running.emplace();
        for (const ledger::Replay& one : *replays) {
          if (one.state == ReplayState::Running || one.state == ReplayState::Paused) running->push_back(one.id);
        }
      }
      tell(std::move(running));
    });
    const auto told = co_await Awaited<std::optional<Told>>::told(awaited, runtime_, runtime_.now() + kReadPatience);
    if (told && *told) {
      for (const std::string& id : **told) look(id);
      co_return;
    }
    Signal pause{io_};
    co_await runtime_.wait(pause, runtime_.now() + kAskAgain);
  }
}

task<std::optional<ledger::Replay>> Replays::read_replay(std::string id) {
  using Told = std::optional<ledger::Replay>;
  auto awaited = std::make_shared<Awaited<Told>>(io_);
  auto tell = Awaited<Told>::teller(awaited);
  store_.read([tell, id](ledger::Books& books) mutable {
    auto replay = books.replay(id, {});
    tell(replay ? std::move(*replay) : Told{});
  });
  auto told = co_await Awaited<Told>::told(awaited, runtime_, runtime_.now() + kReadPatience);
  co_return told ? std::move(*told) : Told{};
}

task<void> Replays::finish(std::shared_ptr<Going> going, ReplayState state, std::string why) {
  for (;;) {
    auto awaited = std::make_shared<Awaited<bool>>(io_);
    auto tell = Awaited<bool>::teller(awaited);
    store_.move_replay(going->id, {ReplayState::Running}, state, why, {}, [tell](const auto& moved) mutable {
      tell(moved.has_value());
    });
    const std::optional<bool> moved = co_await Awaited<bool>::told(awaited, runtime_, runtime_.now() + kReadPatience);
    if ((moved && *moved) || draining_) break;
    // A store that refuses: it is running for whoever asks, so it must not be forgotten.
    co_await runtime_.wait(going->bell, runtime_.now() + kAskAgain);
  }
  const auto replay = co_await read_replay(going->id);
  if (replay) doors_.moved(*replay);
}

task<void> Replays::go(std::shared_ptr<Going> going) {
  using Page = std::optional<std::vector<ledger::ReplayItem>>;
  std::deque<ledger::ReplayItem> next;
  std::set<std::string> begun;  // By this process: those that the store calls running are an earlier one's.
  std::string after;
  bool leftovers = true;  // First those that were under way when the process ended.
  bool paused = false;
  TimePoint not_before = runtime_.now();
  for (;;) {
    if (draining_) break;
    if (std::exchange(going->look_again, false)) {
      const auto replay = co_await read_replay(going->id);
      if (!replay) {
        going->look_again = true;
        co_await runtime_.wait(going->bell, runtime_.now() + kAskAgain);
        continue;
      }
      if (replay->state != ReplayState::Running && replay->state != ReplayState::Paused) break;
      paused = replay->state == ReplayState::Paused;
      going->limits = read_replay_limits(replay->limits);
      // What died before this start says nothing of what is mended since; what it has cost counts.
      if (begun.empty() && going->flying == 0) {
        going->sums = {0, 0, replay->cost_nano, replay->canary_passed};
        if (!paused) doors_.moved(*replay);
      }
      continue;
    }
    if (going->stop.empty()) going->stop = why_to_stop(going->limits, going->sums);
    if (going->stop.empty()) {
      if (const std::string trouble = doors_.store_trouble(); !trouble.empty())
        going->stop = "the store cannot keep what would be bought: " + trouble;
    }
    for (const auto& [letter, way] : going->ways) {
      if (!going->stop.empty() || !doors_.breaker_open(way.first, way.second)) continue;
      going->stop = "the breaker of " + way.first + " is open for " + way.second;
      // They wait for its probe; as in a drain they give up, and are as they were.
      for (Signal* signal : going->under_way) signal->drain();
    }
    if (!going->stop.empty()) {
      if (going->flying > 0) {
        co_await runtime_.wait(going->bell, runtime_.now() + kAskAgain);
        continue;
      }
      co_await finish(going, ReplayState::Stopped, going->stop);
      break;
    }
    if (paused) {
      co_await runtime_.wait(going->bell, TimePoint::max());
      continue;
    }
    const std::int64_t sent = going->sums.resolved + going->sums.dead_again;
    if (!going->sums.canary_passed && sent >= going->limits.canary) {
      going->sums.canary_passed = true;
      store_.canary_passed(going->id);
      continue;
    }
    if (next.empty() && (leftovers || after != "-")) {
      auto awaited = std::make_shared<Awaited<Page>>(io_);
      auto tell = Awaited<Page>::teller(awaited);
      store_.read([tell, id = going->id, state = leftovers ? ItemState::Running : ItemState::Waiting, after](
                      ledger::Books& books) mutable {
        auto page = books.replay_items(id, state, after, kPage);
        tell(page ? Page{std::move(*page)} : Page{});
      });
      auto page = co_await Awaited<Page>::told(awaited, runtime_, runtime_.now() + kReadPatience);
      if (!page || !*page) {
        co_await runtime_.wait(going->bell, runtime_.now() + kAskAgain);
        continue;
      }
      for (ledger::ReplayItem& item : **page) {
        after = item.letter;
        if (!begun.contains(item.letter)) next.push_back(std::move(item));
      }
      if ((*page)->size() < kPage) {
        after = leftovers ? std::string{} : "-";
        leftovers = false;
      }
      continue;
    }
    if (next.empty() && !going->again.empty()) {
      next.insert(next.end(), going->again.begin(), going->again.end());
      going->again.clear();
    }
    if (next.empty()) {
      if (going->flying > 0) {
        co_await runtime_.wait(going->bell, runtime_.now() + kAskAgain);
        continue;
      }
      co_await finish(going, ReplayState::Done, {});
      break;
    }
    const std::int64_t flying = going->flying;
    const bool canary_out = !going->sums.canary_passed && sent + flying >= going->limits.canary;
    const bool money_out =
        going->limits.max_cost_nano && flying > 0 &&
        (going->dearest == 0 || going->sums.cost_nano + (flying + 1) * going->dearest > *going->limits.max_cost_nano);
    if (canary_out || money_out || flying >= going->limits.concurrency) {
      // Breaker and store are looked at meanwhile.
      co_await runtime_.wait(going->bell, runtime_.now() + kAskAgain);
      continue;
    }
    if (const TimePoint until = std::max(not_before, going->not_before); runtime_.now() < until) {
      co_await runtime_.wait(going->bell, until);
      continue;
    }
    not_before = std::max(not_before, runtime_.now() - std::chrono::seconds{1}) +
                 std::chrono::duration_cast<TimePoint::duration>(
                     std::chrono::duration<double>{1.0 / std::max(going->limits.per_second, 0.001)});
    ledger::ReplayItem item = std::move(next.front());
    next.pop_front();
    if (!going->again.empty()) {
      next.insert(next.end(), going->again.begin(), going->again.end());
      going->again.clear();
    }
    begun.insert(item.letter);
    ++going->flying;
    ++active_;
    asio::co_spawn(io_, one(going, std::move(item)), asio::detached);
  }
  while (going->flying > 0) co_await runtime_.wait(going->bell, TimePoint::max());
  going_.erase(going->id);
  // Started anew between its end and this line.
  if (going->look_again && !draining_) look(going->id);
}

void Replays::settle(Going& going, ledger::ReplayItem item, std::int64_t cost_before) {
  count(going.sums, item, cost_before);
  going.dearest = std::max(going.dearest, item.cost_nano);
  if (item.state != ItemState::Waiting) doors_.item(item.state);
  store_.replay_item(going.id, std::move(item));
}

task<void> Replays::one(std::shared_ptr<Going> going, ledger::ReplayItem item) {
  Signal signal{io_};
  if (draining_) signal.drain();
  going->under_way.insert(&signal);
  const auto leave = [&] {
    going->under_way.erase(&signal);
    --going->flying;
    --active_;
    going->bell.ring();
  };
  const bool was_running = item.state == ItemState::Running;
  const std::int64_t cost_before = item.cost_nano;
  try {
    item.state = ItemState::Running;
    store_.replay_item(going->id, item);
    auto awaited = std::make_shared<Awaited<Found>>(io_);
    auto tell = Awaited<Found>::teller(awaited);
    store_.read([tell, letter = item.letter, revision = item.revision](ledger::Books& books) mutable {
      Found found;
      auto detail = books.letter(letter, {});
      auto request = books.letter_request(letter, revision);
      auto original = revision > 0 ? books.letter_request(letter, 0) : request;
      if (!detail || !request || !original) {
        found.why = !detail ? detail.error() : !request ? request.error() : original.error();
      } else {
        if (*detail && (*detail)->line.state == "resolved")
          found.bought = cost_in(books, (*detail)->steps.back().call_id);
        found.letter = std::move(*detail);
        found.request = std::move(*request);
        if (revision > 0) found.original = std::move(*original);
      }
      tell(std::move(found));
    });
    auto found = co_await Awaited<Found>::told(awaited, runtime_, runtime_.now() + kReadPatience);
    const auto skip = [&](std::string why) {
      item.state = ItemState::Skipped;
      item.why = std::move(why);
    };
    if (!found || !found->why.empty()) {
      item.state = ItemState::Waiting;
      going->stop = "the store cannot be read: " + (found ? found->why : std::string{"it did not answer"});
    } else if (!found->letter) {
      skip("expired");
    } else if (was_running && found->letter->line.state == "resolved") {
      // By ourselves, right before the process ended.
      item.state = ItemState::Resolved;
      item.call_id = found->letter->steps.back().call_id;
      item.cost_nano += found->bought;  // Beside what an earlier try of it has cost.
    } else if (found->letter->line.state != "open") {
      skip(found->letter->line.state + " meanwhile");
    } else if (!found->request) {
      skip("no_request");
    } else if (found->letter->line.operation == ledger::kWebhook) {
      ledger::LetterLine line = std::move(found->letter->line);
      std::string body = found->request->body;
      const auto told = co_await doors_.retell(std::move(line), std::move(body), signal);
      if (!told) {
        skip(told.error());
      } else if (told->telling == WebhookResult::Telling::Stopped) {
        item.state = ItemState::Waiting;
      } else if (told->telling == WebhookResult::Telling::Told) {
        item.state = ItemState::Resolved;
      } else {
        item.state = ItemState::DeadAgain;
        item.why = classifier::name_of(told->cls);
      }
    } else {
      const ledger::LetterLine& line = found->letter->line;
      Errand errand;
      errand.tenant = line.tenant;
      errand.run_id = line.run_id;
      errand.queue = line.queue;
      errand.labels = found->letter->labels;
      errand.lane = budget::Lane::Backfill;
      errand.request = found->request;
      errand.original = found->original;
      errand.scope = line.scope;
      errand.key = line.key;
      errand.version = line.version;
      going->ways[item.letter] = {line.upstream, line.model};
      Nobody nobody;
      auto record = co_await front_.run_errand(std::move(errand), nobody, signal);
      if (!record) {
        skip(record.error().code + ": " + record.error().message);
      } else {
        going->ways.erase(item.letter);
        item.call_id = record->id;
        // Until it is kept it would be bought again; so not many may be in that state.
        if (record->commit_late) going->not_before = runtime_.now() + kAskAgain;
        item.cost_nano += cost_of(*record);
        const Class cls = record->cls;
        item.why = classifier::name_of(cls);
        switch (record->outcome) {
          case Outcome::Answered:
            item.state = ItemState::Resolved;
            item.why.clear();
            going->refused_in_a_row = 0;
            break;
          case Outcome::Drained:
            item.state = ItemState::Waiting;
            break;
          case Outcome::Refused:
            if (is_its_own(*record)) {
              skip(record->reason.empty() ? item.why : std::string{record->reason});
              break;
            }
            // Nothing was tried: it waits, behind the others.
            item.state = ItemState::Waiting;
            if (passes(cls) && ++going->refused_in_a_row <= kRefusals) {
              going->again.push_back(item);
              going->not_before = runtime_.now() + kAskAgain * going->refused_in_a_row;
            } else {
              going->stop =
                  "refused: " + item.why + (record->limit.empty() ? "" : " (" + std::string{record->limit} + ")");
            }
            break;
          case Outcome::Cancelled:
            if (draining_) {
              item.state = ItemState::Waiting;
              break;
            }
            [[fallthrough]];
          case Outcome::Failed:
          case Outcome::Crashed:
            item.state = ItemState::DeadAgain;
            if (is_hopeless(cls)) going->stop = "a letter died of " + item.why + ", as all others would";
            break;
        }
      }
    }
  } catch (const std::exception& bug) {
    item.state = ItemState::Waiting;
    going->stop = std::string{"callgate failed inside: "} + bug.what();
  }
  settle(*going, std::move(item), cost_before);
  leave();
}

}  // namespace gateway
