#include "gateway/process.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <cstdint>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>

#include "gateway/admin.h"
#include "gateway/admission.h"
#include "gateway/awaited.h"
#include "gateway/call_id.h"
#include "gateway/config_files.h"
#include "gateway/config_keys.h"
#include "gateway/end_times.h"
#include "gateway/front.h"
#include "gateway/health.h"
#include "gateway/json_out.h"
#include "gateway/key_files.h"
#include "gateway/loop_door.h"
#include "gateway/otlp_curl.h"
#include "gateway/otlp_settings.h"
#include "gateway/recent_calls.h"
#include "gateway/reload.h"
#include "gateway/replays.h"
#include "gateway/runs.h"
#include "gateway/runs_api.h"
#include "gateway/runtime.h"
#include "gateway/store_ledger.h"
#include "gateway/store_start.h"
#include "gateway/systemd.h"
#include "gateway/unknown_answers.h"
#include "gateway/upstream_curl.h"

namespace gateway {
namespace {

using std::chrono::milliseconds;
using Level = Config::Log::Level;

constexpr milliseconds kTick{250};
// The loop that has not turned for so long is stuck: the liveness probe should say so.
constexpr milliseconds kStuckAfter{5'000};
// After the drain's deadline: time for error events and resets to leave.
constexpr milliseconds kLastWords{1'000};
constexpr milliseconds kDrainPoll{10};
// For what waits when all has ended, and, after the last look at the figures, once more.
constexpr milliseconds kFlushPatience{3'000};
// So long without a connection, and the application that is told to stop together with us has gone.
constexpr milliseconds kQuiet{1'000};
constexpr milliseconds kBooksPatience{10'000};
// How long another thread waits for the I/O thread, and an admin client for a reload.
constexpr milliseconds kLoopPatience{3'000};
constexpr milliseconds kReloadPatience{5'000};
constexpr milliseconds kActPatience{9'000};  // Less than the CLI has.
constexpr milliseconds kActLook{20};
// Of what a reload changed, a log line names so many keys.
constexpr std::size_t kKeysNamed = 20;
constexpr std::size_t kCallsTold = 200;  // Of those under way.
constexpr double kBufferedShare = 0.4;
constexpr std::string_view kStandardInput = "-";

constexpr asio::use_awaitable_t<asio::io_context::executor_type> kAwait{};

/// Sockets are what a proxy is made of: take all that we may have.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::uint64_t number_in(const char* file) {
  std::ifstream in{file};
  std::uint64_t number = 0;
  return in >> number ? number : 0;  // "max" is no number.
}

MetricNames metric_names(const Config& config) {
  MetricNames names;
  for (const UpstreamConfig& upstream : config.upstreams) {
    names.upstreams.push_back(upstream.name);
    for (const CredentialConfig& credential : upstream.credentials)
      names.credentials.push_back({upstream.name, credential.name});
  }
  for (const RouteConfig& route : config.routes) names.routes.push_back(route.name);
  for (const TenantConfig& tenant : config.tenants) names.tenants.push_back(tenant.name);
  for (const QueueContract& queue : config.queues)
    names.queues.push_back({queue.name,
                            queue.owner.team,
                            queue.slo.oldest_wait,
                            queue.slo.success_ratio,
                            queue.slo.complete_within,
                            queue.dead_letter.retention});
  names.max_wait = {config.queue.max_wait.interactive, config.queue.max_wait.bulk, config.queue.max_wait.backfill};
  names.letters_kept = config.store.keep_dead_letters;
  names.tell_tenants = config.tenant_label;
  return names;
}

std::int64_t ms_since_epoch(WallTime when) {
  return std::chrono::floor<milliseconds>(when).time_since_epoch().count();
}

std::uint64_t buffered_bytes(const Config& config) {
  return config.limits.buffered_bytes ? config.limits.buffered_bytes : automatic_buffered_bytes();
}

constexpr std::uint64_t kAnswersShare = 4;  // Of runs that are under way, of limits.buffered_bytes.

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size() && i < kKeysNamed; ++i) text += (i == 0 ? "" : ", ") + words[i];
  if (words.size() > kKeysNamed) text += ", and " + std::to_string(words.size() - kKeysNamed) + " more";
  return text;
}

class Sidecar {
 public:
  Sidecar(const Loaded& loaded, ConfigSource source)
      : holding_(loaded),
        source_(std::move(source)),
        metrics_(metric_names(config())),
        log_(config().log, 1, [this](std::string_view level) { metrics_.log_message(level); }),
        upstream_(io_, {}),
        admission_(runtime_, admission_listeners()),
        store_(open_store(config(), source_.overrides.environment)),
        ledger_(runtime_, io_, *store_, claim_mistaken()),
        webhook_secrets_(std::make_shared<const WebhookSecrets>(read_secrets(config()))),
        front_(Services{runtime_, admission_, ledger_, upstream_, memo_, unknown_}, metrics_, log_, recent_),
        runs_(runtime_, io_, *store_, upstream_, metrics_, log_, run_doors()),
        runs_api_(runtime_, io_, *store_, runs_, front_, metrics_, [this] { return store_elsewhere_; }),
        server_(io_, server_options(), server_events()) {}

  int run() {
    front_.serve_events_by(events_);
    front_.serve_runs_by(runs_api_);
    front_.traces_by([this](const CallRecord& record) { exporter_.ended(record); });
    front_.letters_by([this](const CallRecord& record) { runs_.died(record); });
    configure();
    remember();
    server_.listen();
    const HealthServer health{config().listen.health, health_sources()};
    reloader_.emplace(source_.watched(), source_.stamp, reload_doors());
    key_files_.emplace(
        [this](KeyChange change) { asio::post(io_, [this, change = std::move(change)] { take_key(change); }); });
    key_files_->watch(key_sources());
    admin_.emplace(config().listen.admin, admin_access(), admin_sources());
    say(Level::Info,
        "listening",
        "callgate is ready",
        {{"data", server_.address()},
         {"health", health.address()},
         {"admin", admin_->address()},
         {"version", CALLGATE_VERSION},
         {"config", source_.file.empty() ? "built-in defaults" : source_.file},
         {"end_takes_ms", longest_end().count()}});
    ready_ = true;
    manager_.ready(state_line());
    replays_.resume_all();
    turn();
    runs_.start();
    // Spawned by name: a lambda born inside the call would die with it.
    asio::co_spawn(io_, tick(), asio::detached);
    asio::co_spawn(io_, live_and_go(), asio::detached);
    asio::co_spawn(io_, hear_hangups(), asio::detached);
    io_.run();
    door_.close();
    over_ = true;
    admin_.reset();
    key_files_.reset();
    reloader_.reset();
    return broken_off_ ? 1 : 0;
  }

 private:
  [[nodiscard]] const Config& config() const { return holding_.config; }
  void say(Level level, std::string_view event, std::string_view message, Log::Fields fields) {
    log_.line(level, event, message, fields, runtime_.wall_now());
  }

  Runs::Doors run_doors() {
    Runs::Doors doors;
    doors.play = [this](Errand errand, Caller& caller, Signal& signal) {
      return front_.run_errand(std::move(errand), caller, signal);
    };
    doors.told = [this](const ledger::WebhookRow& row, const WebhookResult& result, WallTime began) {
      front_.told(row, result, began);
    };
    return doors;
  }
  /// A file that cannot be read is the configuration's check to tell; nothing is told by webhooks then.
  [[nodiscard]] WebhookSecrets read_secrets(const Config& of) const {
    if (!of.webhooks.secret.given()) return {};
    return read_webhook_secrets(of.webhooks.secret, source_.overrides.environment).value_or(WebhookSecrets{});
  }

  ServerOptions server_options() const {
    ServerOptions options;
    options.address = config().listen.data;
    // Then each call must show an issued key, or Tenants refuses it; that there are keys, the configuration's check
    // says.
    if (config().refuse_unknown) options.reach = Reach::Anybody;
    options.hosts = config().listen.hosts;
    options.limits = config().limits;
    options.buffered_bytes = buffered_bytes(config());
    return options;
  }
  ServerEvents server_events() {
    ServerEvents events;
    events.serve = [this](Inbound request, Caller& caller, Signal& signal) {
      return front_.serve(std::move(request), caller, signal);
    };
    events.refuse = [this](const RefusedRequest& refused) { return front_.refuse(refused); };
    return events;
  }
  HealthSources health_sources() {
    HealthSources sources;
    sources.alive = [this] { return loop_turns(); };
    sources.not_ready_because = [this]() -> std::string {
      if (draining_) return "draining: the process is going\n";
      if (!loop_turns()) return "stuck: the I/O thread does not turn\n";
      if (store_refuses_) return "store: its file cannot be written, and store.on_failure is refuse\n";
      return ready_ ? "" : "starting\n";
    };
    sources.remark = [this]() -> std::string {
      if (store_fails_) return "the store cannot be written: calls are served, runs are refused";
      return store_is_elsewhere_
                 ? "what is remembered is not in the file of store.path: calls are served, runs are refused"
                 : "";
    };
    sources.metrics = [this] { return metrics_.text(); };
    sources.settled = [this] { return settled_.load(); };
    sources.last_taken = [this] { last_scrape_taken_ = true; };
    return sources;
  }

  AdminAccess admin_access() const { return {config().listen.hosts, config().listen.admin_token}; }
  AdminSources admin_sources() {
    AdminSources sources;
    sources.reload = [this](bool accept_weaker, const std::string& who) -> std::optional<ReloadReport> {
      if (accept_weaker && !door_.run([&] { accepted_by_ = who; }, kLoopPatience)) return std::nullopt;
      return reloader_->ask_and_wait(accept_weaker ? ReloadCause::Accepting : ReloadCause::Admin, kReloadPatience);
    };
    sources.settings = [this]() -> std::optional<std::vector<Setting>> {
      std::vector<Setting> settings;
      if (!door_.run([&] { settings = holding_.settings; }, kLoopPatience)) return std::nullopt;
      return settings;
    };
    sources.upstreams = [this]() -> std::optional<std::vector<UpstreamState>> {
      std::vector<UpstreamState> states;
      const auto look = [&] {
        for (budget::UpstreamHealth& health : admission_.health()) {
          const int in_flight = admission_.in_use(health.name);
          states.push_back({std::move(health), in_flight, runtime_.now()});
        }
      };
      if (!door_.run(look, kLoopPatience)) return std::nullopt;
      return states;
    };
    sources.call = [this](std::string_view call_id) -> std::optional<std::string> {
      std::string told;
      if (!door_.run([&] { told = recent_.json_of(call_id); }, kLoopPatience)) return std::nullopt;
      return told;
    };
    sources.unknown_answers = [this]() -> std::optional<UnknownAnswers::List> {
      UnknownAnswers::List list;
      if (!door_.run([&] { list = unknown_.list(); }, kLoopPatience)) return std::nullopt;
      return list;
    };
    sources.status = [this]() -> std::optional<StatusSnapshot> {
      StatusSnapshot snapshot;
      if (!door_.run([&] { snapshot = status(); }, kLoopPatience)) return std::nullopt;
      return snapshot;
    };
    sources.act = [this](const Order& order) -> std::optional<OrderResult> {
      OrderResult result;
      if (!door_.run([&] { result = act(order); }, kLoopPatience)) return std::nullopt;
      return result;
    };
    sources.books = [this](std::function<void(ledger::Books&)> question) {
      // Shared, since a question that comes too late still runs.
      auto done = std::make_shared<std::promise<void>>();
      std::future<void> over = done->get_future();
      store_->read([done, question = std::move(question)](ledger::Books& books) {
        question(books);
        done->set_value();
      });
      return over.wait_for(kBooksPatience) == std::future_status::ready;
    };
    sources.forget_claim = [this](const ledger::Digest& scope, const std::string& call_id) {
      store_->forget_claim(scope, call_id);
    };
    sources.dead = dead_sources(sources.books);
    sources.runs = RunSources{sources.books, [this](RunAct what, const std::string& id, const RunActor& actor) {
                                return act_on_run(what, id, actor);
                              }};
    sources.environment = source_.overrides.environment;
    return sources;
  }
  /// On the admin's thread.
  std::optional<RunActed> act_on_run(RunAct what, const std::string& id, const RunActor& actor) {
    auto told = std::make_shared<std::promise<RunActed>>();
    std::future<RunActed> acted = told->get_future();
    const auto begin = [this, what, id, actor, told] {
      asio::co_spawn(io_, act_on_run(what, id, actor, told), asio::detached);
    };
    if (!door_.run(begin, kLoopPatience)) return std::nullopt;
    const auto until = std::chrono::steady_clock::now() + kActPatience;
    while (acted.wait_for(kActLook) != std::future_status::ready) {
      if (over_ || std::chrono::steady_clock::now() >= until) return std::nullopt;
    }
    return acted.get();
  }
  task<void> act_on_run(RunAct what, std::string id, RunActor actor, std::shared_ptr<std::promise<RunActed>> told) {
    Signal signal{io_};
    // By name: whichever way the frame ends, nothing of it stays in the set.
    struct Place {
      std::set<Signal*>& all;
      Signal* one;
      ~Place() { all.erase(one); }
    } place{acts_, &signal};
    acts_.insert(&signal);
    if (draining_) signal.drain();
    RunActed acted;
    try {
      if (what == RunAct::TakeBack)
        acted = co_await runs_api_.take_back(std::move(id), std::move(actor), signal);
      else
        acted = co_await runs_api_.queue_again(std::move(id), std::move(actor));
    } catch (const std::exception& bug) {
      say(Level::Error, "bug", bug.what(), {});
    }
    told->set_value(std::move(acted));
  }
  /// For the admin's thread.
  DeadSources dead_sources(std::function<bool(std::function<void(ledger::Books&)>)> books) {
    DeadSources sources;
    sources.store = store_.get();
    sources.books = std::move(books);
    sources.look = [this](const std::string& replay) { asio::post(io_, [this, replay] { replays_.look(replay); }); };
    sources.terms = [this](const std::string& queue) {
      const std::shared_ptr<const Config> config = told_config_.load();
      const QueueContract& contract = contract_of(*config, queue);
      ReplayTerms terms;
      // What no contract says is the operator's to choose.
      if (contract.name.empty()) return terms;
      terms.form = contract.dead_letter.payload;
      terms.needs_approval = contract.replay.requires_approval;
      terms.approvers = contract.replay.approvers;
      terms.max_per_second = contract.replay.max_rate;
      terms.canary = contract.replay.canary;
      if (contract.replay.max_cost) terms.max_cost_nano = contract.replay.max_cost->value;
      return terms;
    };
    sources.in_the_way = [this](const ledger::LetterLine& letter) -> std::string {
      const std::shared_ptr<const Config> config = told_config_.load();
      if (letter.operation == ledger::kWebhook) return config->webhooks.secret.given() ? "" : "not_configured";
      if (!Tenants{*config}.named(letter.tenant)) return "unknown_tenant";
      const std::shared_ptr<const Directory> directory = directory_of(*config);
      const auto route = directory->routes.find(letter.route);
      if (route == directory->routes.end()) return "not_configured";
      const bool own_key = std::ranges::any_of(
          route->second->steps, [](const RouteTarget& step) { return step.to->config.credentials.empty(); });
      return own_key ? "no_credential" : "";
    };
    sources.schema_fault = [this](const std::string& queue, std::string_view body) {
      const std::shared_ptr<const Config> config = told_config_.load();
      const QueueContract& contract = contract_of(*config, queue);
      std::string told;
      if (!contract.payload_schema.schema) return told;
      for (const PayloadFault& fault : contract.payload_schema.schema->check(body))
        told += (told.empty() ? "" : "; ") + text_of(fault);
      return told;
    };
    sources.new_id = [] {
      std::random_device chance;
      const auto bits = [&] { return (std::uint64_t{chance()} << 32U) | chance(); };
      const std::uint64_t high = bits();
      return new_call_id(std::chrono::system_clock::now(), high, bits());
    };
    return sources;
  }
  Replays::Doors replay_doors() {
    Replays::Doors doors;
    doors.moved = [this](const ledger::Replay& replay) {
      const std::string_view state = ledger::kReplayStateNames[static_cast<std::size_t>(replay.state)];
      metrics_.replay_moved(state);
      say(replay.state == ledger::ReplayState::Stopped ? Level::Warn : Level::Info,
          "replay",
          "a replay of dead letters has moved on",
          {{"replay", replay.id},
           {"state", state},
           {"reason", replay.why},
           {"resolved", replay.resolved},
           {"dead_again", replay.dead_again},
           {"skipped", replay.skipped},
           {"waiting", replay.waiting}});
    };
    doors.store_trouble = [this] { return store_trouble_; };
    doors.retell = [this](ledger::LetterLine letter, std::string body, Signal& signal) {
      return runs_.retell(std::move(letter), std::move(body), signal);
    };
    doors.breaker_open = [this](const std::string& upstream, const std::string& model) {
      for (const budget::UpstreamHealth& one : admission_.health()) {
        if (one.name != upstream) continue;
        return std::ranges::any_of(one.breakers, [&](const auto& breaker) {
          return breaker.model == model && breaker.state == budget::Breaker::State::Open;
        });
      }
      return false;
    };
    doors.item = [this](ledger::ItemState state) {
      metrics_.replay_item(ledger::kItemStateNames[static_cast<std::size_t>(state)]);
    };
    return doors;
  }
  StatusSnapshot status() {
    StatusSnapshot snapshot;
    snapshot.now = runtime_.now();
    snapshot.wall = runtime_.wall_now();
    snapshot.tenants = admission_.tenants();
    snapshot.lanes = admission_.lanes();
    snapshot.upstreams = admission_.upstreams();
    snapshot.queues = runs_.queues();
    snapshot.held = admission_.held();
    snapshot.budgets = admission_.budgets();
    snapshot.calls = front_.live().list(kCallsTold);
    snapshot.calls_in_all = front_.live().size();
    return snapshot;
  }
  OrderResult act(const Order& order) {
    OrderResult result;
    switch (order.act) {
      case Order::Act::Cancel:
        result.count = front_.cancel(order.cancel);
        result.known = result.count > 0;
        if (result.known) {
          const CancelWhat& what = order.cancel;
          const bool call = !what.call_id.empty();
          const bool run = !what.run_id.empty();
          audit(order,
                call  ? "call.cancel"
                : run ? "run_id.cancel"
                      : "tenant.cancel",
                call  ? what.call_id
                : run ? what.run_id
                      : what.tenant,
                result.count);
        }
        return result;
      case Order::Act::Pause: {
        result.known = is_known(order.pausable, order.name);
        if (!result.known) return result;
        const TimePoint until = order.for_time ? runtime_.now() + *order.for_time : TimePoint::max();
        pause(order.pausable, order.name, until);
        ledger::PauseRow row{.what = std::string{budget::name_of(order.pausable)}, .name = order.name};
        if (order.for_time) row.until_ms = ms_since_epoch(runtime_.wall_now() + *order.for_time);
        store_->remember_pause(row);
        audit(order, std::string{budget::name_of(order.pausable)} + ".pause", order.name);
        std::string told = "resumed";
        if (order.for_time) {
          told.clear();
          append_time(told, runtime_.wall_now() + *order.for_time);
        }
        front_.acted({"pause", budget::name_of(order.pausable), order.name, 0, std::move(told)});
        return result;
      }
      case Order::Act::Resume:
        result.known = order.pausable == budget::Pausable::Queue ? runs_.resume(order.name)
                                                                 : admission_.resume(order.pausable, order.name);
        result.count = result.known ? 1 : 0;
        store_->forget_pause(budget::name_of(order.pausable), order.name);
        if (result.known) audit(order, std::string{budget::name_of(order.pausable)} + ".resume", order.name);
        if (result.known) front_.acted({"resume", budget::name_of(order.pausable), order.name, 0, {}});
        return result;
      case Order::Act::Grant:
        result.known = admission_.grant_money(order.name, order.period, order.run_id, order.amount);
        if (result.known)
          store_->remember_grant({.at_ms = ms_since_epoch(runtime_.wall_now()),
                                  .tenant = order.name,
                                  .period = std::string{budget::name_of(order.period)},
                                  .run_id = order.run_id,
                                  .amount_nano = order.amount.value});
        if (result.known)
          audit(order,
                "budget.grant",
                order.run_id.empty() ? order.name : order.name + "/" + order.run_id,
                1,
                budget::usd_text(order.amount) + " USD, " + std::string{budget::name_of(order.period)});
        if (result.known)
          front_.acted({"grant",
                        budget::name_of(order.period),
                        order.run_id.empty() ? order.name : order.name + "/" + order.run_id,
                        0,
                        budget::usd_text(order.amount)});
        return result;
      case Order::Act::DrainRuns:
        runs_.drain();
        replays_.drain();
        result.count = runs_.active() + replays_.active();
        // Asked again and again by whoever waits for it; it is done once.
        if (!std::exchange(runs_drained_, true)) {
          audit(order, "runs.drain", {});
          front_.acted({"drain", "runs", {}, 0, {}});
        }
        return result;
      case Order::Act::DrainAll:
        audit(order, "drain", {});
        front_.acted({"drain", "all", {}, 0, {}});
        result.count = front_.active();
        // Not by a signal of our own: whoever sends one now means the first.
        if (!draining_) endings_.cancel();
        return result;
    }
    return result;
  }
  void pause(budget::Pausable what, const std::string& name, TimePoint until) {
    if (what == budget::Pausable::Queue)
      runs_.pause(name, until);
    else
      admission_.pause(what, name, until);
  }
  void audit(const Order& order, std::string act, std::string what, std::size_t count = 1, std::string reason = {}) {
    ledger::AuditRow row;
    row.at_ms = ms_since_epoch(runtime_.wall_now());
    row.who = order.who;
    row.act = std::move(act);
    row.what = std::move(what);
    row.reason = std::move(reason);
    row.count = static_cast<std::int64_t>(count);
    store_->remember_act(std::move(row));
  }
  [[nodiscard]] bool is_known(budget::Pausable what, std::string_view name) const {
    switch (what) {
      case budget::Pausable::Tenant:
        return std::ranges::find(config().tenants, name, &TenantConfig::name) != config().tenants.end();
      case budget::Pausable::Lane:
        return budget::lane_named(name).has_value();
      case budget::Pausable::Upstream:
        return std::ranges::find(config().upstreams, name, &UpstreamConfig::name) != config().upstreams.end();
      case budget::Pausable::Queue:
        return runs_.knows_queue(name);
    }
    return false;
  }
  Reloader::Doors reload_doors() {
    Reloader::Doors doors;
    doors.read = [this] {
      manager_.reloading();
      Loaded fresh = source_.read_again();
      webhook_secrets_ = std::make_shared<const WebhookSecrets>(read_secrets(fresh.config));
      return fresh;
    };
    doors.take = [this](Loaded fresh, ReloadCause cause) -> std::optional<ReloadReport> {
      ReloadReport report;
      const auto taking = [&] {
        report = take(std::move(fresh), cause);
        manager_.ready(state_line());
      };
      if (door_.run(taking, kLoopPatience)) return report;
      tell_late(cause);
      return std::nullopt;
    };
    return doors;
  }
  /// The reloader's thread. The log is the I/O thread's, so that the line comes when that turns again; one for all
  /// that were late meanwhile.
  void tell_late(ReloadCause cause) {
    if (late_told_.exchange(true)) return;
    asio::post(io_, [this, cause] {
      late_told_ = false;
      say(Level::Warn,
          "reload_late",
          "the I/O thread was too busy to take a configuration; it is read and handed over again",
          {{"cause", name_of(cause)}, {"file", source_.file}});
    });
  }

  /// A configuration that was read again comes into force, all of it or nothing. What has begun goes on with what it
  /// began with; places in line, slots in use and all counts stay.
  ReloadReport take(Loaded fresh, ReloadCause cause) {
    ReloadReport report;
    report.file = source_.file;
    refuse_weaker(holding_, fresh, cause, source_.file);
    report.problems = fresh.problems;
    if (!fresh.usable()) {
      refuse(report, cause);
      return report;
    }
    report.restart_needed = keep_until_restart(holding_, fresh);
    const Secrets held = holding_.secrets;
    if (fresh.config == config()) {
      report.result = ReloadReport::Result::Unchanged;
      holding_ = std::move(fresh);  // The same, from other lines maybe, and with other keys in its files.
      admission_.take_keys(holding_.secrets);
    } else {
      report.result = ReloadReport::Result::Applied;
      report.changed = changes(holding_.settings, fresh.settings);
      // The same files with other prices in them.
      const bool told = std::ranges::any_of(report.changed, [](const Change& c) { return c.path == "prices.files"; });
      if (!told && fresh.config.prices.digests != config().prices.digests) {
        report.changed.push_back(
            {"prices.files", listed(config().prices.digests), listed(fresh.config.prices.digests)});
      }
      for (const QueueContract& queue : fresh.config.queues) {
        const QueueContract& before = contract_of(config(), queue.name);
        const std::string& file = queue.payload_schema.file;
        if (before.name == queue.name && before.payload_schema.file == file &&
            before.payload_schema != queue.payload_schema) {
          report.changed.push_back(
              {text_of(Path{"queues", queue.name, "payload_schema"}), file, file + ", other text"});
        }
      }
      const MoneyToRestore wanted = money_to_restore(&config(), fresh.config, admission_);
      remember_weaker(report);
      holding_ = std::move(fresh);
      apply();
      tell_not_restored(restore_money(*store_, admission_, runtime_, wanted, kAtReload));
    }
    tell(report, cause);
    tell_rotated(held);
    return report;
  }
  /// Keys that a reload has found in files of which it is said that they change by themselves.
  void tell_rotated(const Secrets& before) {
    for (const auto& [name, key] : holding_.secrets) {
      const auto old = before.find(name);
      if (old != before.end() && old->second != key) tell_key_changed(name);
    }
  }
  void tell_key_changed(std::string_view name) {
    const std::size_t slash = name.find('/');
    say(Level::Info,
        "key_changed",
        "a key's file holds another key, which is used from now on",
        {{"upstream", name.substr(0, slash)}, {"credential", name.substr(slash + 1)}});
  }
  /// That somebody has accepted a contract which promises less.
  void remember_weaker(const ReloadReport& report) {
    for (const Problem& problem : report.problems) {
      if (problem.kind != Problem::Kind::Weaker) continue;
      ledger::AuditRow act;
      act.at_ms = ms_since_epoch(runtime_.wall_now());
      act.who = accepted_by_;
      act.act = "contract.weaken";
      act.what = problem.path;
      act.reason = problem.message;
      act.count = 1;
      store_->remember_act(std::move(act));
    }
  }
  /// What the store knows of the time before this process.
  void remember() {
    ledger::Store& store = *store_;
    const ledger::StoreFigures figures = store.figures();
    store_elsewhere_ = figures.elsewhere;
    store_is_elsewhere_ = !store_elsewhere_.empty();
    if (!store_elsewhere_.empty()) {
      say(Level::Error,
          "store_failed",
          "nothing is kept beyond this process until the file can be used, which is tried every few seconds; "
          "budgets, "
          "grants and pauses begin anew: " +
              store_elsewhere_,
          {{"file", config().store.path}});
    }
    if (!figures.set_aside.empty()) {
      say(Level::Error,
          "store_set_aside",
          "the store's file was broken; a new one is begun, the old one stays beside it",
          {{"file", config().store.path}, {"set_aside", figures.set_aside}});
    }
    if (figures.unknown_outcomes > 0) {
      say(Level::Warn,
          "outcomes_unknown",
          "attempts were under way when callgate ended the last time; they are possibly billed",
          {{"attempts", figures.unknown_outcomes}});
    }
    ledger_.learn();
    tell_not_restored(
        restore_pauses(store, runtime_, [this](budget::Pausable what, const std::string& name, TimePoint until) {
          pause(what, name, until);
        }));
    tell_not_restored(
        restore_money(store, admission_, runtime_, money_to_restore(nullptr, config(), admission_), kAtStart));
  }
  StoreLedger::Mistaken claim_mistaken() {
    return [this](const std::string& call_id, const ledger::ClaimAnswer& answer) {
      say(Level::Error,
          "claim_mistaken",
          "a bug of ours: a call was made for a job that the store knows, so it may be paid twice",
          {{"call_id", call_id}, {"other_call_id", answer.call_id}});
    };
  }
  void tell_not_restored(const std::string& why) {
    if (why.empty()) return;
    say(Level::Error,
        "not_restored",
        "budgets, grants or pauses begin anew: " + why,
        {{"file", config().store.path}});
  }
  /// What a start and a reload have in common.
  void configure() {
    told_config_ = std::make_shared<const Config>(config());
    front_.configure(config());
    runs_.configure(
        std::make_shared<const Config>(config()), *webhook_secrets_.load(), buffered_bytes(config()) / kAnswersShare);
    admission_.configure(dispatch_policy(config()));
    admission_.take_keys(holding_.secrets);
    exporter_.aim(otlp_target(config(), source_.overrides.environment, instance_));
    memo_.update({.ttl = config().memo_final_failure}, runtime_.now());
    ledger_.configure(config().store.commit_wait, config().idempotency.ttl + config().idempotency.lease);
    store_->configure(retention_of(config().store),
                      config().idempotency.ttl,
                      config().idempotency.max_bytes,
                      config().dead_letters_bytes);
    if (key_files_) key_files_->watch(key_sources());
  }
  void apply() {
    configure();
    server_.update(config().listen.hosts, config().limits, buffered_bytes(config()));
    log_.update(config().log);
    metrics_.update(metric_names(config()));
    if (admin_) admin_->update(admin_access());
  }
  void refuse(const ReloadReport& report, ReloadCause cause) {
    last_reload_good_ = false;
    metrics_.config_read(name_of(report.result), runtime_.wall_now());
    for (const Problem& problem : report.problems) {
      if (problem.severity != Problem::Severity::Error) continue;
      say(Level::Error,
          "reload_refused",
          text_of(problem),
          {{"cause", name_of(cause)},
           {"file", problem.file},
           {"line", problem.line},
           {"column", problem.column},
           {"path", problem.path},
           {"code", name_of(problem.kind)}});
    }
  }
  void tell(const ReloadReport& report, ReloadCause cause) {
    last_reload_good_ = true;
    metrics_.config_read(name_of(report.result), runtime_.wall_now());
    metrics_.restart_needed(report.restart_needed);
    for (const Problem& problem : report.problems) {
      say(Level::Warn, "config_warning", text_of(problem), {{"file", problem.file}, {"path", problem.path}});
    }
    std::vector<std::string> keys;
    for (const Change& change : report.changed) keys.push_back(change.path);
    say(Level::Info,
        "reloaded",
        keys.empty() ? "the configuration was read again; nothing has changed" : "a new configuration holds",
        {{"cause", name_of(cause)}, {"file", source_.file}, {"changed", listed(keys)}});
    if (report.restart_needed.empty()) return;
    say(Level::Warn,
        "restart_needed",
        "these keys keep their old value until a restart",
        {{"keys", listed(report.restart_needed)}});
  }

  DispatchAdmission::Listeners admission_listeners() {
    DispatchAdmission::Listeners listeners;
    listeners.moved = [this](budget::Lane lane, int by) {
      by > 0 ? metrics_.queue_entered(lane) : metrics_.queue_left(lane);
    };
    listeners.happened = [this](const budget::HealthEvent& event) { tell(event); };
    listeners.spent = [this](const budget::SpendEvent& event) { tell(event); };
    listeners.estimated = [this](const budget::Expected& guess, const budget::Expected& truth) {
      metrics_.estimated(guess, truth);
    };
    return listeners;
  }
  void tell(const budget::SpendEvent& event) {
    const bool warned = event.kind == budget::SpendEvent::Kind::Warned;
    metrics_.budget_event(event);
    say(Level::Warn,
        warned ? "budget_warned" : "budget_exhausted",
        warned ? "a tenant has spent much of a budget" : "a tenant has spent a budget: its calls are refused",
        {{"tenant", event.tenant},
         {"period", budget::name_of(event.period)},
         {"run_id", event.run_id},
         {"limit_usd", budget::usd_text(event.limit)},
         {"spent_usd", budget::usd_text(event.spent)}});
  }
  void tell(const budget::HealthEvent& event) {
    using Kind = budget::HealthEvent::Kind;
    metrics_.health_event(event);
    const TimePoint now = runtime_.now();
    const auto left = [&] {
      return event.until && *event.until > now ? std::chrono::ceil<milliseconds>(*event.until - now).count() : 0;
    };
    switch (event.kind) {
      case Kind::BreakerOpened:
        return say(
            Level::Warn,
            "breaker_opened",
            "an upstream keeps failing for a model; one call at a time will try it again",
            {{"upstream", event.upstream}, {"model", event.model}, {"reason", event.why}, {"probe_in_ms", left()}});
      case Kind::BreakerClosed:
        return say(Level::Info,
                   "breaker_closed",
                   "an upstream works again for a model",
                   {{"upstream", event.upstream}, {"model", event.model}});
      case Kind::Quarantined:
        return say(Level::Error,
                   "credential_quarantined",
                   "a provider refuses a key, or its money is spent; it is left out and probed",
                   {{"upstream", event.upstream},
                    {"credential", event.credential},
                    {"class", event.why},
                    {"probe_in_ms", left()}});
      case Kind::Freed:
        return say(Level::Info,
                   "credential_freed",
                   "a key is in use again",
                   {{"upstream", event.upstream}, {"credential", event.credential}, {"reason", event.why}});
      case Kind::Paused:
        return say(Level::Info,
                   "paused",
                   "a provider asked for a pause of a key's limit group",
                   {{"upstream", event.upstream},
                    {"credential", event.credential},
                    {"group", event.model},
                    {"class", event.why},
                    {"pause_ms", left()}});
    }
  }

  [[nodiscard]] std::vector<KeySource> key_sources() const {
    std::vector<KeySource> sources;
    for (const UpstreamConfig& upstream : config().upstreams) {
      for (const CredentialConfig& credential : upstream.credentials) {
        if (credential.key.from != SecretSource::From::File) continue;
        sources.push_back({secret_name(upstream.name, credential.name), credential.key});
      }
    }
    return sources;
  }
  /// On the I/O thread: a key file holds something else.
  void take_key(const KeyChange& change) {
    const std::size_t slash = change.name.find('/');
    const std::string_view upstream = std::string_view{change.name}.substr(0, slash);
    const std::string_view credential = std::string_view{change.name}.substr(slash + 1);
    metrics_.key_read(upstream, credential, change.key.has_value());
    if (!change.key) {
      say(Level::Error,
          "key_unreadable",
          "a key's file cannot be used; the last good key stays in use: " + change.key.error(),
          {{"upstream", upstream}, {"credential", credential}});
      return;
    }
    const auto held = holding_.secrets.find(change.name);
    if (held == holding_.secrets.end() || held->second == *change.key) return;
    held->second = *change.key;
    const Secrets fresh{{change.name, *change.key}};
    admission_.take_keys(fresh);
    tell_key_changed(change.name);
  }

  /// Any thread.
  [[nodiscard]] bool loop_turns() const {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return now - std::chrono::steady_clock::duration{last_turn_.load()} < kStuckAfter;
  }
  void turn() {
    last_turn_ = runtime_.now().time_since_epoch().count();
    const Server::Figures server = server_.figures();
    const CurlUpstream::Figures upstream = upstream_.figures();
    metrics_.health(admission_.health());
    metrics_.loads(admission_.upstreams(), admission_.tenants(), admission_.budgets());
    metrics_.lanes(admission_.lanes(), runtime_.now());
    const ledger::StoreFigures store = store_->figures();
    metrics_.store(store, store.trouble.empty() && store.elsewhere.empty());
    hear_of_store(store);
    hear_of_exports(exporter_.figures());
    const Once::Figures once = front_.once().figures();
    metrics_.live({server.connections,
                   upstream.connections,
                   upstream.exchanges,
                   server.buffered_bytes,
                   log_.dropped(),
                   events_.subscribers(),
                   once.shared,
                   once.lingering,
                   once.bytes});
  }

  /// A disk that refuses is told once, and once more when it is well again.
  void hear_of_store(const ledger::StoreFigures& store) {
    const auto tell = [this](Level level, std::string_view event, const std::string& text) {
      say(level, event, text, {{"file", config().store.path}});
    };
    if (store.moves > store_moves_) tell(Level::Error, "store_moved", store.last_move);
    store_moves_ = store.moves;
    const std::string& why = store.trouble.empty() ? store.elsewhere : store.trouble;
    const bool was_well = store_trouble_.empty() && store_elsewhere_.empty();
    if (why.empty() != was_well) {
      if (why.empty())
        tell(Level::Info, "store_recovered", "rows are written again");
      else
        tell(Level::Error, "store_failed", why);
    }
    store_trouble_ = store.trouble;
    store_elsewhere_ = store.elsewhere;
    ledger_.in_trouble(!store_trouble_.empty());
    const bool strict = config().store.refuse;
    front_.refuse_all_because(strict ? why : std::string{});
    store_refuses_ = strict && !why.empty();
    store_fails_ = !store_trouble_.empty();
    store_is_elsewhere_ = !store_elsewhere_.empty();
    if (store.paid_again > paid_again_)
      tell(Level::Warn,
           "paid_again",
           "jobs were paid again whose answer was in the store, which could not be read then");
    for (; paid_again_ < store.paid_again; ++paid_again_) metrics_.idempotency("paid_again");
  }

  /// For people who ask the service manager.
  [[nodiscard]] std::string state_line() const {
    std::string line = draining_ ? "draining: " : "";
    line += std::to_string(server_.figures().requests) + " under way, " + std::to_string(admission_.waiting()) +
            " of them waiting, " + std::to_string(ledger_.ended()) + " calls ended";
    if (!last_reload_good_) line += "; the configuration on disk is refused, an older one holds";
    if (!store_trouble_.empty())
      line += "; the store cannot be written: " + store_trouble_;
    else if (!store_elsewhere_.empty())
      line += "; the store: " + store_elsewhere_;
    return line;
  }

  /// As of the store: once when it begins, once when it is over.
  void hear_of_exports(const TraceExporter::Figures& figures) {
    metrics_.exports(figures);
    if (figures.trouble.empty() != export_trouble_.empty()) {
      if (figures.trouble.empty())
        say(Level::Info, "export_recovered", "spans reach their collector again", {});
      else
        say(Level::Warn,
            "export_failed",
            "spans do not reach their collector: " + figures.trouble,
            {{"waiting", figures.waiting}});
    }
    export_trouble_ = figures.trouble;
  }

  /// What calls have left of spans, within what is left of the drain's time, or a moment.
  task<void> last_spans(TimePoint deadline, TimePoint latest) {
    const TimePoint end = std::min(std::max(deadline, runtime_.now() + kLastWords), latest);
    exporter_.finish(end);
    const auto going = [this] { return !exporter_.finished() && !hurry_; };
    co_await wait_while(going, std::min(end + kLastWords, latest));
    hear_of_exports(exporter_.figures());
  }

  /// Shows the world that the loop turns.
  task<void> tick() {
    asio::steady_timer timer{io_};
    while (!gone_) {
      turn();
      if (manager_.listens()) manager_.beat(state_line(), draining_, runtime_.now());
      timer.expires_after(kTick);
      boost::system::error_code error;
      co_await timer.async_wait(asio::redirect_error(kAwait, error));
    }
  }

  task<void> hear_hangups() {
    while (!gone_) {
      boost::system::error_code error;
      co_await hangups_.async_wait(asio::redirect_error(kAwait, error));
      if (!error) reloader_->ask(ReloadCause::Signal);
    }
  }

  /// Whoever still waits for the store gets its answer and ends, which the loop's end would leave hanging. The reader
  /// answers in order, the writer has been flushed.
  task<void> last_answers(TimePoint latest) {
    auto awaited = std::make_shared<Awaited<bool>>(io_);
    store_->read([tell = Awaited<bool>::teller(awaited)](ledger::Books&) mutable { tell(true); });
    (void)co_await Awaited<bool>::told(awaited, runtime_, std::min(runtime_.now() + kLastWords, latest));
  }

  /// What a supervisor has to allow us between the signal and the end (terminationGracePeriodSeconds,
  /// TimeoutStopSec).
  [[nodiscard]] milliseconds longest_end() const {
    return config().shutdown.drain + config().shutdown.final_scrape + kEndMargin;
  }

  /// `holds` must have a name where this is called: g++ 12 destroys a temporary lambda beside a co_await twice.
  template <typename Condition>
  task<void> wait_while(Condition holds, TimePoint until) {
    asio::steady_timer timer{io_};
    while (holds() && runtime_.now() < until) {
      timer.expires_after(kDrainPoll);
      boost::system::error_code error;
      co_await timer.async_wait(asio::redirect_error(kAwait, error));
    }
  }

  /// Told to stop together with its application, it stays until that has gone.
  task<void> linger(TimePoint deadline) {
    const milliseconds longest = config().shutdown.linger;
    if (longest == milliseconds::zero() || hurry_) co_return;
    say(Level::Info,
        "lingering",
        "new calls are still taken, until no connection was open for a second",
        {{"linger_ms", longest.count()}, {"connections", server_.figures().connections}});
    TimePoint last_seen = runtime_.now();
    std::uint64_t ended = ledger_.ended();
    const auto somebody = [&] {
      // A call may have come and gone between two looks.
      if (server_.figures().connections > 0 || ledger_.ended() != ended) last_seen = runtime_.now();
      ended = ledger_.ended();
      return !hurry_ && runtime_.now() - last_seen < kQuiet;
    };
    const TimePoint end = std::min(deadline, runtime_.now() + longest);
    co_await wait_while(somebody, end);
  }

  /// All has ended and is written: what the metrics say now is what a short job has spent.
  task<void> final_scrape() {
    const milliseconds longest = config().shutdown.final_scrape;
    if (longest == milliseconds::zero() || hurry_) co_return;
    turn();
    settled_ = true;
    say(Level::Info,
        "final_scrape_awaited",
        "all has ended; /metrics stays up until it was read once more",
        {{"final_scrape_ms", longest.count()}});
    const TimePoint begun = runtime_.now();
    const auto unread = [this] { return !last_scrape_taken_ && !hurry_; };
    co_await wait_while(unread, begun + longest);
    const auto waited = std::chrono::floor<milliseconds>(runtime_.now() - begun).count();
    if (last_scrape_taken_)
      say(Level::Info, "final_scrape_taken", "the last figures were read", {{"waited_ms", waited}});
    else
      say(Level::Warn,
          "final_scrape_missed",
          hurry_
              ? "second signal: ending now, and nobody has read the last figures"
              : "nobody has read the last figures in time; is shutdown.final_scrape longer than the scrape interval?",
          {{"waited_ms", waited}});
  }

  /// The second signal ends now. After `callgate drain` the first one only says the same again, since whoever stops
  /// us need not know of that.
  void hear_hurry(bool had_one) {
    endings_.async_wait([this, had_one](const boost::system::error_code& failed, int) {
      if (failed) return;
      if (had_one)
        hurry_ = true;
      else
        hear_hurry(true);
    });
  }

  task<void> live_and_go() {
    boost::system::error_code error;
    const int first = co_await endings_.async_wait(asio::redirect_error(kAwait, error));
    const std::string name = error ? "drain" : first == SIGINT ? "SIGINT" : "SIGTERM";
    hear_hurry(!error);
    const TimePoint deadline = runtime_.now() + config().shutdown.drain;
    draining_ = true;
    manager_.stopping(state_line());
    metrics_.draining(true);
    runs_.drain();
    replays_.drain();
    co_await linger(deadline);
    say(Level::Info,
        "draining",
        "no new calls; those in flight have until the drain's deadline",
        {{"signal", name}, {"in_flight", server_.figures().requests}, {"end_takes_ms", longest_end().count()}});
    server_.drain();
    front_.drain();
    for (Signal* one : acts_) one->drain();
    // Calls that no caller waits for have the same time.
    const auto busy = [this] {
      return server_.figures().requests > 0 || front_.once().active() > 0 || replays_.active() > 0 ||
             runs_.active() > 0 || !acts_.empty();
    };

    const auto in_time = [&] { return busy() && !hurry_; };
    co_await wait_while(in_time, deadline);
    const EndTimes times{hurry_ ? std::min(runtime_.now(), deadline) : deadline};
    if (busy()) {
      // A request that is still being sent to us is nobody's call yet.
      broken_off_ = front_.active() > 0;
      say(Level::Warn,
          "drain_over",
          hurry_ ? "second signal: ending now" : "the drain's deadline has passed",
          {{"broken_off", front_.active()}});
      server_.stop_all();
      front_.stop_all();
      replays_.stop_all();
      runs_.stop_all();
      for (Signal* one : acts_) one->stop(StopReason::Shutdown);
      co_await wait_while(busy, times.last_words());
    }
    // Transfers that are only being seen out have a second; they are nobody's call any more.
    const auto transfers = [this] { return upstream_.figures().exchanges > 0; };
    co_await wait_while(transfers, std::min(runtime_.now() + kLastWords + kLastWords, times.transfers()));
    if (!store_->flush(patience_until(times.flushed(), runtime_.now(), kFlushPatience))) {
      broken_off_ = true;
      say(Level::Error,
          "rows_lost",
          "the store could not write in time what it was told; what it does not write in the next moments is lost",
          {{"file", config().store.path}, {"rows", store_->figures().waiting}});
    }
    co_await last_answers(times.answered());
    co_await last_spans(hurry_ ? runtime_.now() : deadline, times.spans());
    const TimePoint scrape = runtime_.now();
    co_await final_scrape();
    const auto scraped = std::chrono::floor<milliseconds>(runtime_.now() - scrape);
    store_->flush_within(patience_until(times.stored(scraped), runtime_.now(), kFlushPatience));
    say(Level::Info, "stopped", "callgate is gone", {{"calls", ledger_.ended()}});
    gone_ = true;
    // The pending wait refers to us; let it go before we do.
    endings_.cancel();
    asio::steady_timer timer{io_};
    timer.expires_after(milliseconds{0});
    co_await timer.async_wait(asio::redirect_error(kAwait, error));
    io_.stop();
  }

  // In the order in which they are needed; the last one goes first.
  Loaded holding_;
  const ConfigSource source_;
  ServiceManager manager_ = ServiceManager::from_environment();
  asio::io_context io_{1};
  LoopDoor door_{io_};
  std::atomic<bool> late_told_{false};  // A line about a late reload is on its way.
  // Before there is anything that a signal could leave behind. One that comes before the loop turns is kept.
  asio::signal_set endings_{io_, SIGTERM, SIGINT};
  asio::signal_set hangups_{io_, SIGHUP};
  RealRuntime runtime_;
  Metrics metrics_;
  Log log_;
  CurlUpstream upstream_;
  DispatchAdmission admission_;
  budget::Memo memo_{};
  std::unique_ptr<ledger::Store> store_;
  StoreLedger ledger_;
  EventFeed events_{runtime_, io_, *store_};
  UnknownAnswers unknown_;
  RecentCalls recent_{};
  const std::string instance_ = new_call_id(runtime_.wall_now(), runtime_.random_bits(), runtime_.random_bits());
  TraceExporter exporter_{make_otlp_wire()};
  std::atomic<std::shared_ptr<const WebhookSecrets>> webhook_secrets_;
  Front front_;
  Replays replays_{runtime_, io_, *store_, front_, replay_doors()};
  Runs runs_;
  RunsApi runs_api_;
  Server server_;
  std::atomic<std::shared_ptr<const Config>> told_config_{};  // For other threads: contracts.
  std::set<Signal*> acts_{};                                  // Of an operator's on runs, under way.
  // Threads of their own, that ask the I/O thread.
  std::optional<Reloader> reloader_{};
  std::optional<KeyFiles> key_files_{};
  std::optional<AdminServer> admin_{};

  std::atomic<bool> ready_{false};
  std::atomic<bool> draining_{false};
  std::atomic<bool> over_{false};  // The loop turns no more.
  std::atomic<bool> store_refuses_{false};
  std::atomic<bool> store_fails_{false};
  std::atomic<bool> store_is_elsewhere_{false};
  std::string store_trouble_{};
  std::string store_elsewhere_{};
  std::uint64_t store_moves_ = 0;
  std::uint64_t paid_again_ = 0;
  bool last_reload_good_ = true;
  std::string export_trouble_{};
  // Health is asked before the loop turns for the first time, and a start is no standstill.
  std::atomic<std::int64_t> last_turn_{std::chrono::steady_clock::now().time_since_epoch().count()};
  std::atomic<bool> settled_{false};
  std::atomic<bool> last_scrape_taken_{false};
  bool hurry_ = false;  // A second signal came.
  bool runs_drained_ = false;
  std::string accepted_by_ = "admin";  // Who asks for a reload that may promise less.
  bool broken_off_ = false;
  bool gone_ = false;
};

}  // namespace

std::uint64_t automatic_buffered_bytes() {
  std::uint64_t limit = number_in("/sys/fs/cgroup/memory.max");
  if (limit == 0) limit = number_in("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  struct sysinfo machine {};
  const std::uint64_t memory = sysinfo(&machine) == 0 ? std::uint64_t{machine.totalram} * machine.mem_unit : 0;
  // An absent limit is shown as a number beyond all memory.
  if (limit == 0 || (memory != 0 && limit > memory)) limit = memory;
  return static_cast<std::uint64_t>(static_cast<double>(limit) * kBufferedShare);
}

std::string ConfigSource::watched() const { return file == kStandardInput ? std::string{} : file; }

Loaded ConfigSource::read_again() const {
  if (file != kStandardInput) return load_config(file, overrides);
  Loaded loaded;
  Problem problem;
  problem.kind = Problem::Kind::Unreadable;
  problem.file = "<stdin>";
  problem.message = "standard input cannot be read twice; start callgate with --config FILE to reload";
  loaded.problems.push_back(std::move(problem));
  return loaded;
}

int run_sidecar(const Loaded& loaded, ConfigSource source) {
  std::signal(SIGPIPE, SIG_IGN);
  raise_descriptor_limit();
  Sidecar sidecar{loaded, std::move(source)};
  return sidecar.run();
}

}  // namespace gateway
