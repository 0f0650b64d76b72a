#include "gateway/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "gateway/once.h"
#include "gateway/process_figures.h"
#include "gateway/reload.h"
#include "gateway/run_end.h"

namespace gateway {
namespace {

using namespace std::string_view_literals;

using Id = std::uint16_t;
constexpr Id kOther = 0;
constexpr std::size_t kIdBits = 12;  // Five ids make one 64-bit key.
constexpr std::size_t kIdsMax = std::size_t{1} << kIdBits;

// A word of ours, or a model name that may stand in a scrape: no blank, no quote, nothing that is not ASCII.
bool is_plain(std::string_view text) {
  constexpr auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || "_.:/@+-"sv.contains(c);
  };
  return !text.empty() && text.size() <= 128 && std::ranges::all_of(text, plain);
}

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// The values that one label can take. Id 0 is "_other": whatever is not among them.
class Vocabulary {
 public:
  /// Up to `learn_max` further words may be taken in later. What does not fit into an id folds like any unknown name.
  template <typename Words>
  explicit Vocabulary(const Words& words, std::size_t learn_max = 0) : learn_left_(learn_max) {
    add("_other");
    for (const auto& word : words) {
      if (texts_.size() + learn_max < kIdsMax) add(word);
    }
  }

  [[nodiscard]] Id id_of(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? kOther : found->second;
  }
  [[nodiscard]] bool can_learn(std::string_view text) const {
    return learn_left_ > 0 && is_plain(text) && !ids_.contains(text);
  }
  Id learn(std::string_view text) {
    if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
    if (!can_learn(text)) return kOther;
    learn_left_ -= 1;
    return add(text);
  }
  /// A word that is of ours now; false if it was before, or there is no room.
  bool take(std::string_view word) {
    if (ids_.contains(word) || texts_.size() + learn_left_ >= kIdsMax) return false;
    add(word);
    return true;
  }
  [[nodiscard]] const std::string& text_of(Id id) const { return texts_[id]; }
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  Id add(std::string_view text) {
    const auto [entry, is_new] = ids_.emplace(std::string{text}, static_cast<Id>(texts_.size()));
    if (is_new) texts_.emplace_back(text);
    return entry->second;
  }
  std::vector<std::string> texts_{};
  std::unordered_map<std::string, Id, TextHash, std::equal_to<>> ids_{};
  std::size_t learn_left_;
};

/// Model names come from callers, and there are providers that answer whatever the name. So a name must be met with
/// success once more for each name that was learned before it: junk that never repeats takes one place, not fifty.
class ModelLearner {
 public:
  void answered(std::string_view model, Vocabulary& models) {
    if (!models.can_learn(model)) return;
    auto seen = successes_.find(model);
    if (seen == successes_.end()) {
      if (successes_.size() >= kCandidatesMax) successes_.clear();
      seen = successes_.emplace(std::string{model}, 0).first;
    }
    if (++seen->second < std::min(learned_ + 1, kSuccessesMax)) return;
    models.learn(model);
    learned_ += 1;
    successes_.erase(seen);
  }

 private:
  static constexpr std::size_t kCandidatesMax = 256;
  static constexpr int kSuccessesMax = 10;
  std::unordered_map<std::string, int, TextHash, std::equal_to<>> successes_{};
  int learned_ = 0;
};

struct Label {
  std::string_view name;
  const Vocabulary* values;
  bool folds_first = false;  // Many values, and the first to go when there are too many series.
};

/// How many series there are. The worth of a series falls with its detail: when room gets scarce, models and tenants
/// fold first, then everything; each family's last resort is one series, for which there is always room.
struct SeriesRoom {
  static constexpr std::array<std::size_t, 3> kMax = {8'000, 9'500, 10'000};
  std::size_t used = 0;
  prometheus::Counter* folded = nullptr;
};

/// One family and its handles, found by the ids of its label values.
template <typename Metric>
class Handles {
 public:
  Handles(prometheus::Family<Metric>& family, std::vector<Label> labels, SeriesRoom& room,
          std::span<const double> buckets)
      : family_(family), labels_(std::move(labels)), room_(room), buckets_(buckets.begin(), buckets.end()) {
    assert(labels_.size() * kIdBits <= 64);
  }

  Metric& at(std::initializer_list<Id> ids) {
    assert(ids.size() == labels_.size());
    std::uint64_t key = 0;
    for (const Id id : ids) key = key << kIdBits | id;
    if (const auto found = found_.find(key); found != found_.end()) return *found->second;
    return add(key);
  }

 private:
  static constexpr std::uint64_t kIdMask = kIdsMax - 1;
  [[nodiscard]] std::size_t shift_of(std::size_t label) const { return kIdBits * (labels_.size() - 1 - label); }
  [[nodiscard]] std::size_t series_each() const {
    return buckets_.empty() ? 1 : buckets_.size() + 3;  // +Inf, sum, count.
  }

  Metric& add(std::uint64_t key) {
    for (std::size_t level = 0;; ++level) {
      const std::uint64_t folded = fold(key, level);
      const bool last_resort = level + 1 == SeriesRoom::kMax.size();
      auto known = found_.find(folded);
      if (known == found_.end() && (last_resort || room_.used + series_each() <= SeriesRoom::kMax[level])) {
        room_.used += series_each();
        known = found_.emplace(folded, &make(folded)).first;
      }
      if (known == found_.end()) continue;
      if (folded != key) room_.folded->Increment();
      return *known->second;
    }
  }
  [[nodiscard]] std::uint64_t fold(std::uint64_t key, std::size_t level) const {
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      if (level > 1 || (level == 1 && labels_[i].folds_first)) key &= ~(kIdMask << shift_of(i));
    }
    return key;
  }
  Metric& make(std::uint64_t key) {
    prometheus::Labels texts;
    for (std::size_t i = 0; i < labels_.size(); ++i) {
      const auto id = static_cast<Id>(key >> shift_of(i) & kIdMask);
      texts.emplace(labels_[i].name, labels_[i].values->text_of(id));
    }
    if constexpr (std::is_same_v<Metric, prometheus::Histogram>) {
      return family_.Add(texts, buckets_);
    } else {
      return family_.Add(texts);
    }
  }

  prometheus::Family<Metric>& family_;
  std::vector<Label> labels_;
  SeriesRoom& room_;
  std::vector<double> buckets_;
  std::unordered_map<std::uint64_t, Metric*> found_{};
};
using Counters = Handles<prometheus::Counter>;
using Gauges = Handles<prometheus::Gauge>;
using Histograms = Handles<prometheus::Histogram>;

constexpr std::size_t kModelsLearned = 50;
constexpr std::size_t kCredentialsLearned = 256;
constexpr std::size_t kFingerprintsLearned = 50;
constexpr std::size_t kWordsLearned = 24;  // Ours are fewer; the bound is for the day when one of them is not.

constexpr std::array kDurationBuckets = {.005, .025, .1, .25, .5, 1., 2.5, 5., 10., 20., 40., 80., 160., 320., 600.};
constexpr std::array kFirstTokenBuckets = {.05, .1, .2, .4, .6, .8, 1., 1.5, 2.5, 5., 10., 20., 40., 60., 120.};
constexpr std::array kBackoffBuckets = {.05, .1, .25, .5, 1., 2.5, 5., 10., 20., 30., 60., 120., 600.};
constexpr std::array kQueueBuckets = {.001, .005, .025, .1, .5, 1., 2.5, 5., 10., 30., 60., 120., 300., 600., 1800.};

constexpr std::chrono::milliseconds kWorthTelling{1};  // Shorter waits are none.

constexpr std::array<std::string_view, 0> kNoWords{};
constexpr std::string_view kNoModel = "_none";  // Calls that name no model, such as a list of models.
constexpr std::array kBreakerStates = {"opened"sv, "closed"sv};
constexpr std::array kPeriods = {"day"sv, "month"sv, "run"sv};
constexpr std::array kBudgetEvents = {"warned"sv, "exhausted"sv};
constexpr std::array kTokenSides = {"input"sv, "output"sv};
constexpr std::array kRatioBuckets = {.1, .25, .5, .75, .9, 1.1, 1.33, 2., 4., 10.};  // Expected by true.
constexpr std::array kSeenBy = {"sdk"sv, "memo"sv};
enum class SeenBy : std::uint8_t { Sdk, Memo };
constexpr std::array kLostKinds = {"open"sv, "ending"sv, "other"sv};
constexpr std::string_view kNoQueue = "_none";  // Of what was sent without a queue.
constexpr std::string_view kNobody = "_none";   // Whose contract names no owner.
constexpr std::size_t kQueuesLearned = 500;     // From configurations alone.
constexpr std::array kTellings = {"told"sv, "again"sv, "dead"sv};
constexpr std::array kAcceptances = {"new"sv, "same"sv};
constexpr std::array kRunRefusals = {"max_open"sv, "max_bytes"sv};
constexpr std::array kStartBuckets = {
    .01, .05, .1, .5, 1., 5., 15., 30., 60., 300., 900., 1800., 3600., 14400., 86400.};
constexpr std::array kLevels = {"debug"sv, "info"sv, "warn"sv, "error"sv};
// Only a person can mend these.
constexpr std::array kAccountClasses = {
    classifier::Class::Auth, classifier::Class::Permission, classifier::Class::QuotaExhausted};
constexpr std::array kVersions = {std::string_view{CALLGATE_VERSION}};
enum class Kind : std::uint8_t { Input, CacheRead, CacheWrite, Output, Reasoning };
constexpr std::array kKinds = {"input"sv, "cache_read"sv, "cache_write"sv, "output"sv, "reasoning"sv};
constexpr std::array kCostSources = {"provider"sv, "table"sv, "table_plain"sv, "fallback"sv};
enum class Side : std::uint8_t { Caller, Upstream, Gateway };
constexpr std::array kSides = {"caller"sv, "upstream"sv, "gateway"sv};

/// Money is counted in nano-dollars: whole numbers, whose sums a double holds exactly up to USD 9 million.
double nanos(budget::NanoUsd amount) { return static_cast<double>(amount.value); }

/// In a vocabulary that was made from that enum's names.
template <typename Enum>
constexpr Id id_of(Enum value) {
  return static_cast<Id>(static_cast<Id>(value) + 1);
}

std::vector<std::string> with_no_model(std::vector<std::string> models) {
  models.insert(models.begin(), std::string{kNoModel});
  return models;
}

double seconds(std::chrono::microseconds time) { return std::chrono::duration<double>(time).count(); }
double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

double unix_seconds(WallTime time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }

// Operations whose answers tell usage; the others are free or not read.
bool is_charged(std::string_view operation) {
  constexpr std::array kFree = {"other"sv, "moderation"sv, "count_tokens"sv, ""sv};
  return std::ranges::find(kFree, operation) == kFree.end();
}

// Whose fault is it that a stream which had begun did not end well?
std::optional<Side> broken_by(const CallRecord& record) {
  if (!record.stream || !record.first_content) return std::nullopt;
  if (record.outcome == Outcome::Cancelled) return Side::Caller;
  if (record.outcome == Outcome::Drained || record.cls == classifier::Class::Internal) return Side::Gateway;
  if (record.outcome == Outcome::Failed) return Side::Upstream;
  return std::nullopt;
}

void append(std::vector<prometheus::MetricFamily>& families, const char* name, const char* help,
            prometheus::MetricType type, double value) {
  prometheus::MetricFamily family{
      .name = name, .help = help, .type = type, .metric = std::vector<prometheus::ClientMetric>(1)};
  family.metric[0].counter.value = value;
  family.metric[0].gauge.value = value;
  families.push_back(std::move(family));
}

bool is_money(std::string_view family) { return family.ends_with("_usd") || family.ends_with("_usd_total"); }

void append_label(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
}

/// What is counted in nano-dollars is told in dollars, to the last digit: as a double, 9.7 is 9.699999999999999
/// there.
void append_money(std::string& out, const prometheus::MetricFamily& family) {
  const bool counts = family.type == prometheus::MetricType::Counter;
  out +=
      "# HELP " + family.name + ' ' + family.help + "\n# TYPE " + family.name + (counts ? " counter\n" : " gauge\n");
  for (const prometheus::ClientMetric& metric : family.metric) {
    out += family.name;
    char before = '{';
    for (const prometheus::ClientMetric::Label& label : metric.label) {
      (out += std::exchange(before, ',')).append(label.name) += "=\"";
      append_label(out, label.value);
      out += '"';
    }
    const double value = counts ? metric.counter.value : metric.gauge.value;
    out += metric.label.empty() ? " " : "} ";
    out += std::isnan(value) ? "NaN" : budget::usd_text(budget::NanoUsd{std::llround(value)});
    out += '\n';
  }
}

// The usual names, read at the scrape and kept nowhere.
void append_process(std::vector<prometheus::MetricFamily>& families) {
  const ProcessFigures own = process_figures();
  constexpr auto kGauge = prometheus::MetricType::Gauge;
  append(families,
         "process_cpu_seconds_total",
         "User and system time.",
         prometheus::MetricType::Counter,
         own.cpu_seconds);
  append(
      families, "process_resident_memory_bytes", "Resident memory.", kGauge, static_cast<double>(own.resident_bytes));
  append(families, "process_open_fds", "Open file descriptors.", kGauge, static_cast<double>(own.open_fds));
  append(families, "process_max_fds", "How many may be open.", kGauge, static_cast<double>(own.max_fds));
  append(families, "process_start_time_seconds", "When the process began, in Unix time.", kGauge, own.started_at);
}

}  // namespace

class Metrics::Impl {
 public:
  explicit Impl(const MetricNames& names)
      : upstreams_(names.upstreams),
        models_(with_no_model(names.models), kModelsLearned),
        tenants_(names.tenants),
        tell_tenants_(names.tell_tenants) {
    room_.folded = &series_folded_.at({});
    start_at_zero();
    update(names);
  }

  void call_began(std::string_view upstream, budget::Lane lane) {
    calls_in_flight_.at({upstreams_.id_of(upstream), id_of(lane)}).Increment();
  }

  void call_ended(const CallRecord& record) {
    const Id upstream = upstreams_.id_of(record.upstream);
    const Id tenant = tenant_of(record.tenant);
    const Id model = model_of(record);

    calls_in_flight_.at({upstreams_.id_of(record.route), id_of(record.lane)}).Decrement();
    calls_.at({upstream, model, tenant, id_of(record.outcome), id_of(record.cls)}).Increment();
    call_duration_.at({upstream, model, operations_.learn(record.operation), id_of(record.outcome)})
        .Observe(seconds(record.duration));
    count_attempts(record, model);
    count_tokens(record, upstream, model, tenant);
    count_cost(record, model, tenant);
    if (record.saved) saved_.at({upstream, model, tenant}).Increment(nanos(*record.saved));

    if (!record.attempts.empty()) queue_wait_.at({id_of(record.lane)}).Observe(seconds(record.queued));
    for (std::size_t wait = 0; wait < record.waits.size(); ++wait) {
      if (record.waits[wait] < kWorthTelling) continue;
      waits_.at({id_of(record.lane), id_of(static_cast<budget::Wait>(wait))}).Observe(seconds(record.waits[wait]));
    }
    if (record.outcome == Outcome::Refused)
      refusals_.at({limits_.learn(record.limit.empty() ? record.reason : record.limit)}).Increment();
    if (record.sdk_retry) caller_retries_.at({tenant, id_of(SeenBy::Sdk)}).Increment();
    if (record.reason == ledger::kRemembered) {
      caller_retries_.at({tenant, id_of(SeenBy::Memo)}).Increment();
      memo_answers_.at({upstream, id_of(record.cls)}).Increment();
    }
    if (record.commit_late) commits_late_.at({}).Increment();
    if (record.stream && record.first_content)
      first_token_.at({upstream, model}).Observe(seconds(*record.first_content));
    if (const auto side = broken_by(record)) streams_broken_.at({upstream, id_of(*side)}).Increment();
  }

  void idempotency(std::string_view result) { idempotency_.at({once_results_.id_of(result)}).Increment(); }
  void queue_moved(budget::Lane lane, double by) { queue_depth_.at({id_of(lane)}).Increment(by); }
  void retry_denied(std::string_view upstream, std::string_view reason) {
    retries_denied_.at({upstreams_.id_of(upstream), reasons_.learn(reason)}).Increment();
  }
  void request_refused(std::string_view code) { requests_refused_.at({codes_.learn(code)}).Increment(); }
  void log_message(std::string_view level) { log_messages_.at({levels_.id_of(level)}).Increment(); }
  void draining(bool on) { draining_.at({}).Set(on ? 1 : 0); }
  void live(const LiveFigures& figures) {
    connections_.at({}).Set(static_cast<double>(figures.connections));
    upstream_connections_.at({}).Set(static_cast<double>(figures.upstream_connections));
    upstream_exchanges_.at({}).Set(static_cast<double>(figures.upstream_exchanges));
    buffered_bytes_.at({}).Set(static_cast<double>(figures.buffered_bytes));
    event_subscribers_.at({}).Set(static_cast<double>(figures.event_subscribers));
    shared_calls_.at({}).Set(static_cast<double>(figures.shared_calls));
    lingering_calls_.at({}).Set(static_cast<double>(figures.lingering_calls));
    shared_bytes_.at({}).Set(static_cast<double>(figures.shared_bytes));
    const auto dropped = static_cast<double>(figures.log_lines_dropped);
    log_lines_dropped_.at({}).Increment(std::max(0.0, dropped - log_lines_dropped_.at({}).Value()));
  }

  void store(const ledger::StoreFigures& figures, bool well) {
    const auto count = [](prometheus::Counter& counter, std::uint64_t so_far) {
      counter.Increment(std::max(0.0, static_cast<double>(so_far) - counter.Value()));
    };
    store_up_.at({}).Set(well ? 1 : 0);
    count(store_commits_.at({}), figures.commits);
    count(store_rows_.at({}), figures.rows);
    count(store_failures_.at({}), figures.failures);
    count(store_moves_.at({}), figures.moves);
    count(store_lost_.at({lost_kinds_.id_of("open")}), figures.lost_open_rows);
    count(store_lost_.at({lost_kinds_.id_of("ending")}), figures.lost_endings);
    count(store_lost_.at({lost_kinds_.id_of("other")}), figures.lost_others);
    count(outcomes_unknown_.at({}), figures.unknown_outcomes);
    store_waiting_.at({}).Set(static_cast<double>(figures.waiting));
    store_file_bytes_.at({}).Set(static_cast<double>(figures.file_bytes));
    store_log_bytes_.at({}).Set(static_cast<double>(figures.log_bytes));
    stored_answers_.at({}).Set(static_cast<double>(figures.answers));
    stored_answer_bytes_.at({}).Set(static_cast<double>(figures.answers_bytes));
    count(answers_evicted_.at({}), figures.answers_evicted);
    runs_open_.at({}).Set(static_cast<double>(figures.runs_open));
    runs_bytes_.at({}).Set(static_cast<double>(figures.runs_bytes));
    count(letters_without_.at({}), figures.letters_without);
    count(letters_expired_.at({}), figures.letters_expired);
    letter_bytes_.at({}).Set(static_cast<double>(figures.letters_bytes));
  }

  void exports(const TraceExporter::Figures& figures) {
    const auto count = [](prometheus::Counter& counter, std::uint64_t so_far) {
      counter.Increment(std::max(0.0, static_cast<double>(so_far) - counter.Value()));
    };
    for (std::size_t i = 0; i < kExportedNames.size(); ++i)
      count(otlp_exports_.at({export_results_.id_of(kExportedNames[i])}), figures.exports[i]);
    for (std::size_t i = 0; i < kSpansLostNames.size(); ++i)
      count(otlp_dropped_.at({spans_lost_words_.id_of(kSpansLostNames[i])}), figures.dropped[i]);
    count(otlp_spans_.at({}), figures.spans);
    otlp_waiting_.at({}).Set(static_cast<double>(figures.waiting));
  }

  void config_read(std::string_view result, WallTime now) {
    reloads_.at({reload_results_.id_of(result)}).Increment();
    const bool good = result != name_of(ReloadReport::Result::Refused);
    config_good_.at({}).Set(good ? 1 : 0);
    if (good) config_good_at_.at({}).Set(unix_seconds(now));
  }
  void health_event(const budget::HealthEvent& event) {
    using Kind = budget::HealthEvent::Kind;
    const Id upstream = upstreams_.id_of(event.upstream);
    if (event.kind == Kind::BreakerOpened || event.kind == Kind::BreakerClosed) {
      const Id to = breaker_states_.id_of(event.kind == Kind::BreakerOpened ? "opened" : "closed");
      breaker_moves_.at({upstream, models_.id_of(event.model), to}).Increment();
    }
    if (event.kind == Kind::Quarantined)
      quarantines_.at({upstream, credentials_.id_of(event.credential), classes_.id_of(event.why)}).Increment();
    if (event.kind == Kind::Paused) pauses_.at({upstream}).Increment();
  }
  void health(const std::vector<budget::UpstreamHealth>& upstreams) {
    std::vector<prometheus::Gauge*> open;  // Set to something that must not outlive what it tells of.
    std::vector<prometheus::Gauge*> counted;
    for (const budget::UpstreamHealth& one : upstreams) {
      const Id upstream = upstreams_.id_of(one.name);
      retry_budget_.at({upstream}).Set(one.retries_available);
      paused_.at({upstream}).Set(static_cast<double>(one.pauses.size()));
      for (const auto& breaker : one.breakers) {
        prometheus::Gauge& gauge = breaker_open_.at({upstream, models_.id_of(breaker.model)});
        gauge.Set(1);
        open.push_back(&gauge);
      }
      double usable = 0;
      for (const auto& credential : one.credentials) {
        const bool free = !credential.quarantined_for;
        usable += free ? 1 : 0;
        prometheus::Gauge& gauge = quarantined_.at({upstream, credentials_.id_of(credential.name)});
        gauge.Set(free ? 0 : 1);
        if (!free) open.push_back(&gauge);
      }
      if (!one.credentials.empty()) usable_.at({upstream}).Set(usable);
      if (!one.credentials.empty()) counted.push_back(&usable_.at({upstream}));
      if (!one.pauses.empty()) open.push_back(&paused_.at({upstream}));
    }
    // Where there are no keys any more, none are missing: no number, so that nobody is paged.
    for (prometheus::Gauge* gauge : usable_shown_) {
      if (std::ranges::find(counted, gauge) == counted.end()) gauge->Set(std::numeric_limits<double>::quiet_NaN());
    }
    usable_shown_ = std::move(counted);
    for (prometheus::Gauge* gauge : breakers_shown_) {
      if (std::ranges::find(open, gauge) == open.end()) gauge->Set(0);
    }
    breakers_shown_ = std::move(open);
  }
  void loads(const std::vector<budget::UpstreamLoad>& upstreams, const std::vector<budget::TenantState>& tenants,
             const std::vector<budget::BudgetState>& budgets) {
    for (const budget::UpstreamLoad& one : upstreams) {
      const Id upstream = upstreams_.id_of(one.name);
      upstream_in_flight_.at({upstream}).Set(one.in_flight);
      concurrency_limit_.at({upstream}).Set(one.limit);
      double least = 1;
      for (const auto& group : one.groups) least = std::min(least, group.share);
      rate_share_.at({upstream}).Set(least);
      upstream_paused_.at({upstream}).Set(one.paused_until ? 1 : 0);
    }
    for (const budget::TenantState& one : tenants) {
      const Id tenant = tenant_of(one.name);
      if (tenant == kOther) continue;  // Sums of others would overwrite each other.
      tenant_in_flight_.at({tenant}).Set(one.in_flight);
      tenant_waiting_.at({tenant}).Set(static_cast<double>(one.waiting[0] + one.waiting[1] + one.waiting[2]));
      tenant_paused_.at({tenant}).Set(one.paused_until ? 1 : 0);
    }
    std::vector<prometheus::Gauge*> shown;
    const auto show = [&shown](prometheus::Gauge& gauge, double value) {
      gauge.Set(value);
      shown.push_back(&gauge);
    };
    for (const budget::BudgetState& one : budgets) {
      const Id tenant = tenant_of(one.tenant);
      if (one.period == budget::Period::Run || tenant == kOther) continue;  // Their ids are without number.
      const Id period = periods_.id_of(budget::name_of(one.period));
      show(budget_limit_.at({tenant, period}), nanos(one.limit));
      show(budget_spent_.at({tenant, period}), nanos(one.spent));
      show(budget_held_.at({tenant, period}), nanos(one.held));
      if (one.resets) show(budget_resets_.at({tenant, period}), unix_seconds(*one.resets));
    }
    // A budget that is no more is none: no number, so that nobody is alerted by its last one.
    for (prometheus::Gauge* gauge : budgets_shown_) {
      if (std::ranges::find(shown, gauge) == shown.end()) gauge->Set(std::numeric_limits<double>::quiet_NaN());
    }
    budgets_shown_ = std::move(shown);
  }
  void lanes(const std::array<budget::LaneState, 3>& lanes, budget::TimePoint now) {
    for (const budget::LaneState& one : lanes) {
      const double waited = one.oldest ? std::chrono::duration<double>(now - *one.oldest).count() : 0;
      queue_oldest_.at({id_of(one.lane)}).Set(std::max(waited, 0.));
    }
  }
  void budget_event(const budget::SpendEvent& event) {
    const bool warned = event.kind == budget::SpendEvent::Kind::Warned;
    budget_events_
        .at({tenant_of(event.tenant),
             periods_.id_of(budget::name_of(event.period)),
             budget_event_words_.id_of(kBudgetEvents[warned ? 0 : 1])})
        .Increment();
  }
  void replay_moved(std::string_view state) { replays_.at({replay_states_.id_of(state)}).Increment(); }
  void replay_item(std::string_view state) { replay_letters_.at({item_states_.id_of(state)}).Increment(); }
  void operator_act(std::string_view act, std::string_view what) {
    operator_acts_.at({acts_.learn(act), targets_.learn(what)}).Increment();
  }
  void run_accepted(std::string_view queue, bool is_new) {
    const Whose whose = whose_is(queue);
    runs_accepted_.at({whose.queue, whose.owner, acceptances_.id_of(kAcceptances[is_new ? 0 : 1])}).Increment();
  }
  void run_refused(std::string_view queue, std::string_view reason) {
    const Whose whose = whose_is(queue);
    runs_refused_.at({whose.queue, whose.owner, run_refusals_.id_of(reason)}).Increment();
  }
  void paused(std::span<const std::string> queues) {
    std::vector<prometheus::Gauge*> shown;
    for (const std::string& queue : queues) {
      const Whose whose = whose_is(queue);
      shown.push_back(&queue_paused_.at({whose.queue, whose.owner}));
    }
    for (const auto& [name, queue] : queues_known_) {
      const Whose whose = whose_is(name);
      paused_shown_.push_back(&queue_paused_.at({whose.queue, whose.owner}));
    }
    for (prometheus::Gauge* gauge : paused_shown_) gauge->Set(0);
    for (prometheus::Gauge* gauge : shown) gauge->Set(1);
    paused_shown_ = std::move(shown);
  }
  void run_began(std::string_view queue, std::chrono::milliseconds waited) {
    const Whose whose = whose_is(queue);
    run_start_wait_.at({whose.queue, whose.owner}).Observe(seconds(waited));
  }
  void run_ended(std::string_view queue, ledger::RunState state, std::string_view cls) {
    const Whose whose = whose_is(queue);
    runs_ended_.at({whose.queue, whose.owner, id_of(state), classes_.id_of(cls)}).Increment();
  }
  void run_took(std::string_view queue, std::chrono::milliseconds time) {
    const Whose whose = whose_is(queue);
    run_duration_.at({whose.queue, whose.owner}).Observe(seconds(time));
  }
  void letter_written(std::string_view queue, classifier::Class cls) {
    const Whose whose = whose_is(queue);
    letters_.at({id_of(cls), whose.queue, whose.owner}).Increment();
    letters_arrived_.at({whose.queue, whose.owner}).Increment();
    if (is_page_worthy(cls)) letters_page_.at({id_of(cls), whose.queue, whose.owner}).Increment();
  }
  void webhook(ledger::Store::Telling how) { webhooks_.at({id_of(how)}).Increment(); }
  void pending(const std::vector<ledger::RunsPending>& runs, const std::vector<ledger::LettersPending>& letters,
               WallTime now) {
    const std::int64_t now_ms = std::chrono::floor<std::chrono::milliseconds>(now).time_since_epoch().count();
    const auto age = [now_ms](std::int64_t since_ms) {
      return static_cast<double>(std::max<std::int64_t>(now_ms - since_ms, 0)) / 1'000;
    };
    std::vector<prometheus::Gauge*> shown;
    const auto fresh = [&](prometheus::Gauge& gauge) -> prometheus::Gauge& {
      // Several queues may share a series: they add up, and of ages the greatest counts.
      if (std::ranges::find(shown, &gauge) == shown.end()) {
        gauge.Set(0);
        shown.push_back(&gauge);
      }
      return gauge;
    };
    const auto add = [&](prometheus::Gauge& gauge, std::int64_t by) {
      fresh(gauge).Increment(static_cast<double>(by));
    };
    const auto most = [&](prometheus::Gauge& gauge, double value) {
      prometheus::Gauge& one = fresh(gauge);
      one.Set(std::max(one.Value(), value));
    };
    for (const auto& [name, queue] : queues_known_) {
      const auto found = std::ranges::find(runs, name, &ledger::RunsPending::queue);
      const bool waits = found != runs.end() && found->waiting > 0;
      const Whose whose = whose_is(name);
      // Of a contract's queue there is something to see when nothing waits, too.
      for (Gauges* const depth : {&runs_waiting_, &runs_scheduled_, &runs_running_})
        add(depth->at({whose.queue, whose.owner}), 0);
      most(runs_oldest_.at({whose.queue, whose.owner}), 0);
      if (queue.success_ratio) most(run_success_ratio_.at({whose.queue, whose.owner}), *queue.success_ratio);
      if (queue.complete_within)
        most(run_complete_within_.at({whose.queue, whose.owner}), seconds(*queue.complete_within));
      if (!queue.oldest_wait) continue;
      const double lag = waits ? age(found->oldest_ms) - seconds(*queue.oldest_wait) : 0;
      most(run_lag_.at({whose.queue, whose.owner}), std::max(lag, 0.));
    }
    for (const ledger::RunsPending& one : runs) {
      const Whose whose = whose_is(one.queue);
      add(runs_waiting_.at({whose.queue, whose.owner}), one.waiting);
      add(runs_scheduled_.at({whose.queue, whose.owner}), one.scheduled);
      add(runs_running_.at({whose.queue, whose.owner}), one.running);
      most(runs_oldest_.at({whose.queue, whose.owner}), one.waiting > 0 ? age(one.oldest_ms) : 0);
    }
    for (const ledger::LettersPending& one : letters) {
      const Whose whose = whose_is(one.queue);
      const Id cls = classes_.id_of(one.cls);
      add(letters_pending_.at({cls, whose.queue, whose.owner}), one.count);
      most(letters_oldest_.at({cls, whose.queue, whose.owner}), age(one.oldest_ms));
    }
    for (prometheus::Gauge* gauge : pending_shown_) {
      if (std::ranges::find(shown, gauge) == shown.end()) gauge->Set(0);
    }
    pending_shown_ = std::move(shown);
  }
  void estimated(const budget::Expected& guess, const budget::Expected& truth) {
    const auto ratio = [](std::int64_t guessed, std::int64_t counted) {
      return static_cast<double>(std::max<std::int64_t>(guessed, 1)) /
             static_cast<double>(std::max<std::int64_t>(counted, 1));
    };
    estimate_ratio_.at({token_sides_.id_of(kTokenSides[0])}).Observe(ratio(guess.input, truth.input));
    estimate_ratio_.at({token_sides_.id_of(kTokenSides[1])}).Observe(ratio(guess.output, truth.output));
  }
  void key_read(std::string_view upstream, std::string_view credential, bool good) {
    key_file_good_.at({upstreams_.id_of(upstream), credentials_.id_of(credential)}).Set(good ? 1 : 0);
  }
  void restart_needed(std::span<const std::string> keys) {
    for (const std::string_view key : kRestartKeys) {
      restart_needed_.at({restart_keys_.id_of(key)}).Set(std::ranges::find(keys, key) == keys.end() ? 0 : 1);
    }
  }
  void update(const MetricNames& names) {
    tell_tenants_ = names.tell_tenants;
    for (const std::string& tenant : names.tenants) {
      if (!tenants_.take(tenant) || !tell_tenants_) continue;
      for (Id by = 1; by < seen_by_.size(); ++by) caller_retries_.at({tenants_.id_of(tenant), by});
    }
    for (const std::string& upstream : names.upstreams) {
      if (upstreams_.take(upstream)) start_at_zero(upstreams_.id_of(upstream));
    }
    for (const std::string& route : names.routes) {
      upstreams_.take(route);
      for (Id lane = 1; lane < lanes_.size(); ++lane) calls_in_flight_.at({upstreams_.id_of(route), lane});
    }
    queues_known_.clear();
    for (const QueueName& queue : names.queues) {
      queue_names_.learn(queue.name);
      if (!queue.owner.empty()) owners_.learn(queue.owner);
      queues_known_[queue.name] = queue;
      const auto kept = queue.letters_kept.count() > 0 ? queue.letters_kept : names.letters_kept;
      start_at_zero(whose_is(queue.name), kept);
    }
    start_at_zero({queue_names_.id_of(kNoQueue), owners_.id_of(kNobody)}, names.letters_kept);
    start_at_zero({kOther, owners_.id_of(kNobody)}, names.letters_kept);
    for (Id lane = 1; lane < lanes_.size(); ++lane)
      queue_max_wait_.at({lane}).Set(seconds(names.max_wait[static_cast<std::size_t>(lane) - 1]));
    for (const auto& [upstream, credential] : names.credentials) {
      credentials_.take(credential);
      key_file_good_.at({upstreams_.id_of(upstream), credentials_.id_of(credential)}).Set(1);
    }
  }

  [[nodiscard]] std::string text() const {
    std::vector<prometheus::MetricFamily> families = registry_.Collect();
    append_process(families);
    const auto money = std::ranges::stable_partition(families, [](const auto& one) { return !is_money(one.name); });
    std::string in_dollars;
    for (const prometheus::MetricFamily& family : money) append_money(in_dollars, family);
    families.erase(money.begin(), money.end());
    return prometheus::TextSerializer{}.Serialize(families) + in_dollars;
  }

 private:
  struct Whose {
    Id queue = kOther;
    Id owner = kOther;
  };
  Whose whose_is(std::string_view queue) {
    if (queue.empty()) return {queue_names_.id_of(kNoQueue), owners_.id_of(kNobody)};
    const auto found = queues_known_.find(queue);
    if (found == queues_known_.end()) return {kOther, owners_.id_of(kNobody)};
    const std::string& owner = found->second.owner;
    return {queue_names_.id_of(queue), owners_.id_of(owner.empty() ? kNobody : std::string_view{owner})};
  }
  Id tenant_of(std::string_view name) { return tell_tenants_ ? tenants_.id_of(name) : kOther; }

  Id model_of(const CallRecord& record) {
    if (record.model.empty()) return no_model_;
    if (record.outcome == Outcome::Answered && record.cls == classifier::Class::None) {
      learner_.answered(record.model, models_);
    }
    return models_.id_of(record.model);
  }

  void count_attempts(const CallRecord& record, Id model) {
    std::optional<classifier::Class> before;
    for (const AttemptRow& attempt : record.attempts) {
      const Id upstream = upstreams_.id_of(attempt.upstream);
      attempts_.at({upstream, model, id_of(attempt.cls)}).Increment();
      attempt_duration_.at({upstream, model, id_of(attempt.cls)}).Observe(seconds(attempt.took));
      if (is_page_worthy(attempt.cls)) attempts_page_.at({upstream, id_of(attempt.cls)}).Increment();
      if (before) {
        retries_.at({upstream, model, id_of(*before)}).Increment();
      }
      if (attempt.waited_for != ledger::WaitedFor::Nothing)
        backoff_wait_.at({upstream, id_of(attempt.waited_for)}).Observe(seconds(attempt.waited_before));
      if (attempt.possibly_billed) possibly_billed_.at({upstream}).Increment();
      if (!attempt.fingerprint.empty())
        unknown_answers_.at({upstream, fingerprints_.learn(attempt.fingerprint)}).Increment();
      before = attempt.cls;
    }
  }

  void count_tokens(const CallRecord& record, Id upstream, Id model, Id tenant) {
    // The last attempt's usage may stand in its row, in the record, or in both: it counts once.
    const bool in_rows = !record.attempts.empty() && record.attempts.back().usage.tokens;
    for (const AttemptRow& attempt : record.attempts) {
      if (attempt.usage.tokens) add_tokens(*attempt.usage.tokens, upstreams_.id_of(attempt.upstream), model, tenant);
    }
    if (!in_rows && record.usage.tokens) add_tokens(*record.usage.tokens, upstream, model, tenant);

    const bool was_answer = record.cls == classifier::Class::None ? record.outcome == Outcome::Answered
                                                                  : record.first_content.has_value();
    // What a twin's call has used stands in that one's record.
    const bool known = in_rows || record.usage.tokens || !record.origin.empty();
    if (was_answer && !known && is_charged(record.operation)) usage_missing_.at({upstream}).Increment();
  }
  void count_cost(const CallRecord& record, Id model, Id tenant) {
    for (const AttemptRow& attempt : record.attempts) {
      const Id upstream = upstreams_.id_of(attempt.upstream);
      if (attempt.cost_source == "fallback" || attempt.cost_source == "unpriced") {
        price_missing_.at({upstream}).Increment();
      }
      if (!attempt.cost) continue;
      const double cost = nanos(*attempt.cost);
      cost_.at({upstream, model, tenant, cost_sources_.id_of(attempt.cost_source)}).Increment(cost);
      const bool was_it = &attempt == &record.attempts.back() && record.outcome == Outcome::Answered;
      if (!was_it) retry_cost_.at({upstream, model, tenant}).Increment(cost);
    }
  }
  // In disjoint kinds, so that a sum over them counts nothing twice.
  void add_tokens(const classifier::TokenCounts& tokens, Id upstream, Id model, Id tenant) {
    const std::int64_t written = tokens.cache_write_5m + tokens.cache_write_1h;
    const std::pair<Kind, std::int64_t> parts[] = {
        {Kind::Input, tokens.input - tokens.cached_input - written},
        {Kind::CacheRead, tokens.cached_input},
        {Kind::CacheWrite, written},
        {Kind::Output, tokens.output - tokens.reasoning},
        {Kind::Reasoning, tokens.reasoning},
    };
    for (const auto& [kind, count] : parts) {
      if (count > 0) tokens_.at({upstream, model, tenant, id_of(kind)}).Increment(static_cast<double>(count));
    }
  }

  void start_at_zero(Id upstream) {
    for (Id lane = 1; lane < lanes_.size(); ++lane) calls_in_flight_.at({upstream, lane});
    for (Id side = 1; side < sides_.size(); ++side) streams_broken_.at({upstream, side});
    for (const classifier::Class cls : kAccountClasses) attempts_page_.at({upstream, id_of(cls)});
    possibly_billed_.at({upstream});
    pauses_.at({upstream});
    usage_missing_.at({upstream});
    price_missing_.at({upstream});
    unknown_answers_.at({upstream, kOther});
  }
  void start_at_zero(Whose whose, std::chrono::milliseconds letters_kept) {
    letters_arrived_.at({whose.queue, whose.owner});
    for (const std::string_view reason : kRunRefusals)
      runs_refused_.at({whose.queue, whose.owner, run_refusals_.id_of(reason)});
    for (std::size_t i = 0; i < classifier::kClassNames.size(); ++i) {
      const auto cls = static_cast<classifier::Class>(i);
      if (is_page_worthy(cls)) letters_page_.at({id_of(cls), whose.queue, whose.owner});
    }
    letters_kept_.at({whose.queue, whose.owner}).Set(seconds(letters_kept));
  }
  // A counter that appears with its first event hides that event from rate() and increase().
  void start_at_zero() {
    for (Id upstream = 1; upstream < upstreams_.size(); ++upstream) start_at_zero(upstream);
    for (Id lane = 1; lane < lanes_.size(); ++lane) {
      queue_depth_.at({lane});
      queue_oldest_.at({lane});
      queue_wait_.at({lane});
    }
    for (Id tenant = 1; tenant < tenants_.size(); ++tenant) {
      for (Id by = 1; by < seen_by_.size(); ++by) caller_retries_.at({tenant, by});
    }
    for (Id level = 1; level < levels_.size(); ++level) log_messages_.at({level});
    for (Id result = 1; result < reload_results_.size(); ++result) reloads_.at({result});
    for (Id result = 1; result < once_results_.size(); ++result) idempotency_.at({result});
    restart_needed({});
    // What the process runs with was read, and was good.
    config_good_.at({}).Set(1);
    config_good_at_.at({}).Set(unix_seconds(std::chrono::system_clock::now()));
    commits_late_.at({});
    build_info_.at({versions_.id_of(CALLGATE_VERSION)}).Set(1);
    draining(false);
    live({});
  }

  using Labels = std::vector<Label>;
  Counters counters(const char* name, const char* help, Labels labels) {
    auto& family = prometheus::BuildCounter().Name(name).Help(help).Register(registry_);
    return {family, std::move(labels), room_, {}};
  }
  Gauges gauges(const char* name, const char* help, Labels labels) {
    auto& family = prometheus::BuildGauge().Name(name).Help(help).Register(registry_);
    return {family, std::move(labels), room_, {}};
  }
  Histograms histograms(const char* name, const char* help, Labels labels, std::span<const double> buckets) {
    auto& family = prometheus::BuildHistogram().Name(name).Help(help).Register(registry_);
    return {family, std::move(labels), room_, buckets};
  }

  prometheus::Registry registry_{};
  SeriesRoom room_{};
  std::vector<prometheus::Gauge*> breakers_shown_{};
  std::vector<prometheus::Gauge*> usable_shown_{};
  std::vector<prometheus::Gauge*> budgets_shown_{};
  std::vector<prometheus::Gauge*> pending_shown_{};
  std::vector<prometheus::Gauge*> paused_shown_{};
  std::map<std::string, QueueName, std::less<>> queues_known_{};
  ModelLearner learner_{};

  Vocabulary upstreams_;
  Vocabulary models_;
  Vocabulary tenants_;
  bool tell_tenants_;
  Vocabulary operations_{kNoWords, kWordsLearned};
  Vocabulary reasons_{kNoWords, kWordsLearned};
  Vocabulary limits_{kNoWords, kWordsLearned};
  Vocabulary codes_{kNoWords, kWordsLearned};
  Vocabulary fingerprints_{kNoWords, kFingerprintsLearned};
  Vocabulary classes_{classifier::kClassNames};
  Vocabulary outcomes_{kOutcomeNames};
  Vocabulary lanes_{budget::kLaneNames};
  Vocabulary levels_{kLevels};
  Vocabulary lost_kinds_{kLostKinds};
  Vocabulary export_results_{kExportedNames};
  Vocabulary spans_lost_words_{kSpansLostNames};
  Vocabulary kinds_{kKinds};
  Vocabulary sources_{ledger::kWaitedForNames};
  Vocabulary cost_sources_{kCostSources};
  Vocabulary sides_{kSides};
  Vocabulary seen_by_{kSeenBy};
  Vocabulary breaker_states_{kBreakerStates};
  Vocabulary waits_words_{budget::kWaitNames};
  Vocabulary periods_{kPeriods};
  Vocabulary budget_event_words_{kBudgetEvents};
  Vocabulary token_sides_{kTokenSides};
  Vocabulary acts_{kNoWords, kWordsLearned};
  Vocabulary targets_{kNoWords, kWordsLearned};
  Vocabulary credentials_{kNoWords, kCredentialsLearned};
  Vocabulary versions_{kVersions};
  Vocabulary reload_results_{kReloadResults};
  Vocabulary once_results_{kOnceResults};
  Vocabulary replay_states_{ledger::kReplayStateNames};
  Vocabulary item_states_{ledger::kItemStateNames};
  Vocabulary restart_keys_{kRestartKeys};
  Vocabulary queue_names_{std::array{kNoQueue}, kQueuesLearned};
  Vocabulary owners_{std::array{kNobody}, kQueuesLearned};
  Vocabulary run_states_{ledger::kRunStateNames};
  Vocabulary tellings_{kTellings};
  Vocabulary acceptances_{kAcceptances};
  Vocabulary run_refusals_{kRunRefusals};
  const Id no_model_ = models_.id_of(kNoModel);

  const Label upstream_{"upstream", &upstreams_};
  const Label model_{"model", &models_, true};
  const Label tenant_{"tenant", &tenants_, true};
  const Label operation_{"operation", &operations_};
  const Label class_{"class", &classes_};
  const Label outcome_{"outcome", &outcomes_};
  const Label lane_{"lane", &lanes_};
  const Label period_{"period", &periods_};
  const Label credential_{"credential", &credentials_};
  const Label queue_{"queue", &queue_names_};
  const Label owner_{"owner", &owners_};

  // The table: name, help, labels. docs/metrics.md says more of each.
  Counters calls_ =
      counters("callgate_calls_total", "Calls, at their end.", {upstream_, model_, tenant_, outcome_, class_});
  Histograms call_duration_ =
      histograms("callgate_call_duration_seconds", "From a call's first byte to its answer's last.",
                 {upstream_, model_, operation_, outcome_}, kDurationBuckets);
  Gauges calls_in_flight_ =
      gauges("callgate_calls_in_flight", "Calls that have begun and not ended.", {upstream_, lane_});
  Counters attempts_ =
      counters("callgate_attempts_total", "Tries at a provider, at their end.", {upstream_, model_, class_});
  Counters attempts_page_ = counters("callgate_attempts_page_total",
                                     "Those of them that somebody must look at at once.", {upstream_, class_});
  Histograms attempt_duration_ = histograms("callgate_attempt_duration_seconds", "How long a try at a provider took.",
                                            {upstream_, model_, class_}, kDurationBuckets);
  Counters retries_ = counters("callgate_retries_total", "Tries after the first, by the class that caused them.",
                               {upstream_, model_, class_});
  Counters retries_denied_ =
      counters("callgate_retries_denied_total", "Failed attempts that were not tried again, by why not.",
               {upstream_, {"reason", &reasons_}});
  Histograms backoff_wait_ =
      histograms("callgate_backoff_wait_seconds", "Slept out before an attempt, by what most of it was for.",
                 {upstream_, {"source", &sources_}}, kBackoffBuckets);
  Counters caller_retries_ =
      counters("callgate_caller_retries_total",
               "Calls that were a repetition by the caller, by what told us: its SDK's mark, or the "
               "remembered failure that it got.",
               {tenant_, {"seen_by", &seen_by_}});
  Counters memo_answers_ = counters("callgate_memo_answers_total",
                                    "Calls answered with the failure that an identical one ended in a moment before: "
                                    "attempts that the provider was spared.",
                                    {upstream_, class_});
  Gauges breaker_open_ =
      gauges("callgate_breaker_open", "1 while an upstream is left alone for a model, else 0.", {upstream_, model_});
  Counters breaker_moves_ = counters("callgate_breaker_transitions_total", "Openings and closings of breakers.",
                                     {upstream_, model_, {"to", &breaker_states_}});
  Gauges retry_budget_ = gauges("callgate_retry_budget_available", "Retries that could begin now.", {upstream_});
  Gauges paused_ = gauges("callgate_paused_groups", "Limit groups that a provider has told to wait.", {upstream_});
  Counters pauses_ =
      counters("callgate_pauses_total", "Times that a provider told a limit group to wait.", {upstream_});
  Gauges quarantined_ = gauges("callgate_credential_quarantined",
                               "1 while a key of ours is left out, since the provider refuses it or its money is "
                               "spent, else 0.",
                               {upstream_, credential_});
  Counters quarantines_ = counters("callgate_credential_quarantines_total", "Times that a key of ours was put there.",
                                   {upstream_, credential_, class_});
  Gauges usable_ = gauges("callgate_credentials_usable",
                          "Keys of ours that are not left out; at 0 nothing goes there.", {upstream_});
  Gauges key_file_good_ =
      gauges("callgate_key_file_good", "0 while a key's file cannot be used, else 1.", {upstream_, credential_});
  Gauges queue_depth_ = gauges("callgate_queue_depth", "Calls that wait for their turn.", {lane_});
  Gauges queue_oldest_ =
      gauges("callgate_queue_oldest_wait_seconds", "How long the call has waited that waits longest.", {lane_});
  Gauges queue_max_wait_ = gauges("callgate_queue_max_wait_seconds", "How long it may: queue.max_wait.", {lane_});
  Histograms queue_wait_ =
      histograms("callgate_queue_wait_seconds", "How long calls waited for their turns.", {lane_}, kQueueBuckets);
  Histograms waits_ =
      histograms("callgate_wait_seconds", "How long calls waited, by what for; the kinds do not overlap.",
                 {lane_, {"wait", &waits_words_}}, kQueueBuckets);
  Gauges upstream_in_flight_ =
      gauges("callgate_upstream_in_flight", "Attempts that have a place at an upstream.", {upstream_});
  Gauges concurrency_limit_ =
      gauges("callgate_upstream_concurrency_limit", "How many it may have at present; 0: no limit.", {upstream_});
  Gauges rate_share_ = gauges("callgate_upstream_rate_share",
                              "What 429s have left of its rate, of the limit group that has least.", {upstream_});
  Gauges upstream_paused_ =
      gauges("callgate_upstream_paused", "1 while an operator has paused it, else 0.", {upstream_});
  Gauges tenant_in_flight_ = gauges("callgate_tenant_in_flight", "A tenant's attempts in flight.", {tenant_});
  Gauges tenant_waiting_ = gauges("callgate_tenant_waiting", "A tenant's calls that wait.", {tenant_});
  Gauges tenant_paused_ = gauges("callgate_tenant_paused", "1 while an operator has paused it, else 0.", {tenant_});
  Gauges budget_limit_ =
      gauges("callgate_budget_limit_usd", "What a tenant may spend, grants included.", {tenant_, period_});
  Gauges budget_spent_ = gauges("callgate_budget_spent_usd", "What it has spent.", {tenant_, period_});
  Gauges budget_held_ =
      gauges("callgate_budget_held_usd", "What attempts in flight have put aside of it.", {tenant_, period_});
  Gauges budget_resets_ =
      gauges("callgate_budget_reset_timestamp_seconds", "When it begins anew, in Unix time.", {tenant_, period_});
  Counters budget_events_ =
      counters("callgate_budget_events_total", "Times that a budget was spent as far as warn_at, or wholly.",
               {tenant_, period_, {"event", &budget_event_words_}});
  Counters operator_acts_ =
      counters("callgate_operator_acts_total", "What was done by hand.", {{"act", &acts_}, {"what", &targets_}});
  Counters replays_ = counters("callgate_replays_total", "Replays of dead letters that came to a state.",
                               {{"state", &replay_states_}});
  Counters replay_letters_ = counters("callgate_replay_letters_total",
                                      "Letters that a replay has come to an end with.", {{"result", &item_states_}});
  Histograms estimate_ratio_ = histograms("callgate_token_estimate_ratio",
                                          "Tokens that were expected of an answered attempt, by those it took.",
                                          {{"kind", &token_sides_}}, kRatioBuckets);
  Counters refusals_ =
      counters("callgate_refusals_total", "Calls that we refused, by what was in the way.", {{"limit", &limits_}});
  Counters requests_refused_ = counters("callgate_requests_refused_total",
                                        "Requests that were refused before they became a call.", {{"code", &codes_}});
  Counters tokens_ = counters("callgate_tokens_total", "Tokens as providers reported them, in disjoint kinds.",
                              {upstream_, model_, tenant_, {"kind", &kinds_}});
  Counters cost_ =
      counters("callgate_cost_usd_total", "What providers reported to have been used, in USD, of all attempts.",
               {upstream_, model_, tenant_, {"source", &cost_sources_}});
  Counters retry_cost_ =
      counters("callgate_retry_cost_usd_total", "The part of it for attempts whose answer nobody got.",
               {upstream_, model_, tenant_});
  Counters price_missing_ = counters("callgate_price_missing_total",
                                     "Attempts at models without a price, or with a use that has none.", {upstream_});
  Counters usage_missing_ =
      counters("callgate_usage_missing_total", "Answers whose provider did not report usage.", {upstream_});
  Histograms first_token_ =
      histograms("callgate_time_to_first_token_seconds", "From a streamed call's first byte to its first content.",
                 {upstream_, model_}, kFirstTokenBuckets);
  Counters streams_broken_ =
      counters("callgate_streams_broken_total", "Streams that ended badly after their first content.",
               {upstream_, {"side", &sides_}});
  Counters possibly_billed_ =
      counters("callgate_possibly_billed_attempts_total",
               "Attempts whose request had gone out and whose answer nobody got.", {upstream_});
  Counters unknown_answers_ = counters("callgate_unknown_answers_total", "Answers that no rule knew, by fingerprint.",
                                       {upstream_, {"fingerprint", &fingerprints_, true}});
  Counters commits_late_ =
      counters("callgate_commits_late_total", "Answers whose end went out before its row was durable.", {});
  Gauges event_subscribers_ =
      gauges("callgate_event_subscribers", "Who waits for events or reads them just now.", {});
  Gauges store_up_ = gauges("callgate_store_up", "1 while rows reach the store's file, else 0.", {});
  Counters store_commits_ = counters("callgate_store_commits_total", "Transactions of the store.", {});
  Counters store_rows_ = counters("callgate_store_rows_total", "Calls and attempts that were written.", {});
  Counters store_failures_ = counters("callgate_store_failures_total", "Transactions that the disk refused.", {});
  Counters store_moves_ = counters("callgate_store_moves_total",
                                   "How often the store's file was not where it was and had to be left.", {});
  Counters store_lost_ =
      counters("callgate_store_rows_lost_total", "Rows that were given up because the disk refused for too long.",
               {{"kind", &lost_kinds_}});
  Counters outcomes_unknown_ = counters("callgate_outcomes_unknown_total",
                                        "Attempts that were under way when the process before this one ended.", {});
  Gauges store_waiting_ = gauges("callgate_store_waiting", "Rows that wait to be written.", {});
  Gauges store_file_bytes_ = gauges("callgate_store_file_bytes", "Size of the store's file.", {});
  Gauges store_log_bytes_ = gauges("callgate_store_log_bytes", "Size of its write-ahead log.", {});
  Gauges stored_answers_ = gauges("callgate_stored_answers", "Answers that are kept for repetitions.", {});
  Gauges stored_answer_bytes_ = gauges("callgate_stored_answer_bytes", "Their size as stored.", {});
  Counters answers_evicted_ = counters("callgate_stored_answers_evicted_total",
                                       "Answers that were given up for want of room (idempotency.max_bytes).", {});
  Counters letters_without_ = counters(
      "callgate_dead_letters_without_request_total",
      "Dead letters that were written without their request, for want of room (dead_letters.max_bytes).", {});
  Counters letters_expired_ = counters("callgate_dead_letters_expired_total",
                                       "Dead letters that were still open when their time was over.", {});
  Gauges letter_bytes_ =
      gauges("callgate_dead_letter_request_bytes", "Size of the requests of open dead letters, as stored.", {});
  Gauges connections_ = gauges("callgate_connections", "Connections from callers.", {});
  Gauges upstream_connections_ =
      gauges("callgate_upstream_connections", "Connections to providers, idle ones included.", {});
  Gauges upstream_exchanges_ = gauges("callgate_upstream_exchanges", "Attempts that are on the wire.", {});
  Gauges buffered_bytes_ = gauges("callgate_buffered_bytes", "Request bytes in memory.", {});
  Counters idempotency_ =
      counters("callgate_idempotency_total", "What became of jobs that callgate knows again, by key or run id.",
               {{"result", &once_results_}});
  Counters saved_ = counters("callgate_saved_usd_total",
                             "What the answers that twins got had cost, in USD, and was not paid again.",
                             {upstream_, model_, tenant_});
  Gauges shared_calls_ = gauges("callgate_shared_calls", "Calls with a key or run id that are under way.", {});
  Gauges lingering_calls_ =
      gauges("callgate_lingering_calls", "Those of them that no caller waits for at present.", {});
  Gauges shared_bytes_ = gauges("callgate_shared_bytes",
                                "Bytes of answers that are kept in memory for whoever asks the same, and of requests "
                                "whose caller has left.",
                                {});
  Counters runs_accepted_ =
      counters("callgate_runs_accepted_total", "Runs that were accepted, or were there already.",
               {queue_, owner_, {"result", &acceptances_}});
  Counters runs_refused_ = counters("callgate_runs_refused_total",
                                    "Runs that were refused for want of room (runs.max_open, runs.max_bytes).",
                                    {queue_, owner_, {"reason", &run_refusals_}});
  Gauges runs_open_ = gauges("callgate_runs_open", "Runs that are queued or running, of at most runs.max_open.", {});
  Gauges runs_bytes_ =
      gauges("callgate_runs_open_bytes", "Their requests, as stored, of at most runs.max_bytes.", {});
  Gauges queue_paused_ =
      gauges("callgate_queue_paused", "1 while somebody has paused a queue of runs, else 0.", {queue_, owner_});
  Counters runs_ended_ = counters("callgate_runs_ended_total", "Runs at their end, or given back (queued).",
                                  {queue_, owner_, {"state", &run_states_}, class_});
  Histograms run_start_wait_ =
      histograms("callgate_run_start_wait_seconds", "How long runs waited for their first start.", {queue_, owner_},
                 kStartBuckets);
  Histograms run_duration_ = histograms("callgate_run_duration_seconds", "From a run's acceptance to its end.",
                                        {queue_, owner_}, kStartBuckets);
  Gauges run_complete_within_ = gauges("callgate_runs_slo_complete_within_seconds",
                                       "How long that may be: the queue's slo.complete_within.", {queue_, owner_});
  Gauges run_success_ratio_ = gauges(
      "callgate_runs_slo_success_ratio",
      "Share of the runs that are to succeed, of those that end: the queue's slo.success_ratio.", {queue_, owner_});
  Gauges runs_waiting_ = gauges("callgate_runs_waiting", "Runs that could begin and wait.", {queue_, owner_});
  Gauges runs_scheduled_ = gauges("callgate_runs_scheduled", "Runs that may not begin yet.", {queue_, owner_});
  Gauges runs_running_ = gauges("callgate_runs_running", "Runs under way.", {queue_, owner_});
  Gauges runs_oldest_ = gauges("callgate_runs_oldest_wait_seconds",
                               "How long the oldest one that could begin has waited.", {queue_, owner_});
  Gauges run_lag_ = gauges("callgate_runs_slo_lag_seconds", "By how much that is over the queue's slo.oldest_wait.",
                           {queue_, owner_});
  Counters letters_ =
      counters("callgate_dead_letters_total", "Dead letters that were written.", {class_, queue_, owner_});
  Counters letters_arrived_ = counters("callgate_dead_letters_arrived_total",
                                       "Dead letters that were written, of all classes together.", {queue_, owner_});
  Counters letters_page_ = counters("callgate_dead_letters_page_total",
                                    "Those of them that somebody must look at at once.", {class_, queue_, owner_});
  Gauges letters_pending_ =
      gauges("callgate_dead_letters_pending", "Dead letters that are open.", {class_, queue_, owner_});
  Gauges letters_oldest_ =
      gauges("callgate_dead_letters_oldest_seconds", "The age of the oldest open one.", {class_, queue_, owner_});
  Gauges letters_kept_ = gauges("callgate_dead_letters_retention_seconds",
                                "For how long a dead letter is kept, from its arrival.", {queue_, owner_});
  Counters webhooks_ =
      counters("callgate_webhooks_total", "Attempts to tell of a run's end.", {{"result", &tellings_}});
  Gauges draining_ = gauges("callgate_draining", "1 while the process is going, else 0.", {});
  Gauges build_info_ =
      gauges("callgate_build_info", "Always 1; the version is in the label.", {{"version", &versions_}});
  Counters reloads_ = counters("callgate_config_reloads_total", "Times that the configuration was read again.",
                               {{"result", &reload_results_}});
  Gauges config_good_ =
      gauges("callgate_config_last_reload_successful", "1 if the configuration was good when it was read last.", {});
  Gauges config_good_at_ = gauges("callgate_config_last_reload_success_timestamp_seconds",
                                  "When a good configuration was read last, in Unix time.", {});
  Gauges restart_needed_ = gauges("callgate_config_restart_needed",
                                  "1 for a key whose new value waits for a restart.", {{"key", &restart_keys_}});
  Counters log_messages_ = counters("callgate_log_messages_total", "Lines for the log.", {{"level", &levels_}});
  Counters log_lines_dropped_ =
      counters("callgate_log_lines_dropped_total", "Log lines that were lost because nobody took them in time.", {});
  Counters otlp_exports_ =
      counters("callgate_otlp_exports_total", "Tries to send a batch of spans.", {{"result", &export_results_}});
  Counters otlp_spans_ = counters("callgate_otlp_spans_total", "Spans that a collector has taken.", {});
  Counters otlp_dropped_ =
      counters("callgate_otlp_dropped_total", "Spans that no collector has.", {{"reason", &spans_lost_words_}});
  Gauges otlp_waiting_ = gauges("callgate_otlp_waiting_spans", "Spans that wait to be sent.", {});
  Counters series_folded_ = counters("callgate_metric_series_folded_total",
                                     "Updates that went to an _other series because there were too many series.", {});
};

Metrics::Metrics(const MetricNames& names) : impl_(std::make_unique<Impl>(names)) {}
Metrics::~Metrics() = default;

void Metrics::call_began(std::string_view upstream, budget::Lane lane) { impl_->call_began(upstream, lane); }
void Metrics::call_ended(const CallRecord& record) { impl_->call_ended(record); }
void Metrics::idempotency(std::string_view result) { impl_->idempotency(result); }
void Metrics::queue_entered(budget::Lane lane) { impl_->queue_moved(lane, 1); }
void Metrics::queue_left(budget::Lane lane) { impl_->queue_moved(lane, -1); }
void Metrics::retry_denied(std::string_view upstream, std::string_view reason) {
  impl_->retry_denied(upstream, reason);
}
void Metrics::request_refused(std::string_view code) { impl_->request_refused(code); }
void Metrics::log_message(std::string_view level) { impl_->log_message(level); }
void Metrics::health_event(const budget::HealthEvent& event) { impl_->health_event(event); }
void Metrics::health(const std::vector<budget::UpstreamHealth>& upstreams) { impl_->health(upstreams); }
void Metrics::key_read(std::string_view upstream, std::string_view credential, bool good) {
  impl_->key_read(upstream, credential, good);
}
void Metrics::loads(const std::vector<budget::UpstreamLoad>& upstreams,
                    const std::vector<budget::TenantState>& tenants,
                    const std::vector<budget::BudgetState>& budgets) {
  impl_->loads(upstreams, tenants, budgets);
}
void Metrics::lanes(const std::array<budget::LaneState, 3>& lanes, budget::TimePoint now) {
  impl_->lanes(lanes, now);
}
void Metrics::budget_event(const budget::SpendEvent& event) { impl_->budget_event(event); }
void Metrics::operator_act(std::string_view act, std::string_view what) { impl_->operator_act(act, what); }
void Metrics::replay_moved(std::string_view state) { impl_->replay_moved(state); }
void Metrics::replay_item(std::string_view state) { impl_->replay_item(state); }
void Metrics::estimated(const budget::Expected& guess, const budget::Expected& truth) {
  impl_->estimated(guess, truth);
}
void Metrics::run_refused(std::string_view queue, std::string_view reason) { impl_->run_refused(queue, reason); }
void Metrics::paused(std::span<const std::string> queues) { impl_->paused(queues); }
void Metrics::run_accepted(std::string_view queue, bool is_new) { impl_->run_accepted(queue, is_new); }
void Metrics::run_began(std::string_view queue, std::chrono::milliseconds waited) { impl_->run_began(queue, waited); }
void Metrics::run_took(std::string_view queue, std::chrono::milliseconds time) { impl_->run_took(queue, time); }
void Metrics::run_ended(std::string_view queue, ledger::RunState state, std::string_view cls) {
  impl_->run_ended(queue, state, cls);
}
void Metrics::letter_written(std::string_view queue, classifier::Class cls) { impl_->letter_written(queue, cls); }
void Metrics::webhook(ledger::Store::Telling how) { impl_->webhook(how); }
void Metrics::pending(const std::vector<ledger::RunsPending>& runs,
                      const std::vector<ledger::LettersPending>& letters, WallTime now) {
  impl_->pending(runs, letters, now);
}
void Metrics::draining(bool on) { impl_->draining(on); }
void Metrics::live(const LiveFigures& figures) { impl_->live(figures); }
void Metrics::store(const ledger::StoreFigures& figures, bool well) { impl_->store(figures, well); }
void Metrics::exports(const TraceExporter::Figures& figures) { impl_->exports(figures); }
void Metrics::config_read(std::string_view result, WallTime now) { impl_->config_read(result, now); }
void Metrics::restart_needed(std::span<const std::string> keys) { impl_->restart_needed(keys); }
void Metrics::update(const MetricNames& names) { impl_->update(names); }
std::string Metrics::text() const { return impl_->text(); }

}  // namespace gateway
