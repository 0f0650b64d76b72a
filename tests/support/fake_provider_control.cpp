#include "tests/support/fake_provider_control.h"

#include <algorithm>
#include <charconv>
#include <list>
#include <nlohmann/json.hpp>

namespace fake_provider {
namespace {

using Json = nlohmann::json;

constexpr milliseconds kLongestWait{600'000};

struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The query of a target; a name that nobody asks for is a typo.
class Query {
 public:
  explicit Query(std::string_view target) {
    const auto mark = target.find('?');
    if (mark == std::string_view::npos) return;
    auto rest = target.substr(mark + 1);
    while (!rest.empty()) {
      const auto pair = rest.substr(0, rest.find('&'));
      rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
      const auto equals = pair.find('=');
      fields_.emplace_back(pair.substr(0, equals), equals == std::string_view::npos ? "" : pair.substr(equals + 1));
    }
  }
  std::optional<std::string> text(std::string_view name) {
    const auto found =
        std::find_if(fields_.begin(), fields_.end(), [&](const auto& field) { return field.first == name; });
    if (found == fields_.end()) return std::nullopt;
    auto value = std::move(found->second);
    fields_.erase(found);
    return value;
  }
  std::optional<std::uint64_t> number(std::string_view name) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    std::uint64_t parsed = 0;
    const auto* end = value->data() + value->size();
    if (const auto [stop, error] = std::from_chars(value->data(), end, parsed); error != std::errc{} || stop != end) {
      throw Problem(std::string{name} + " must be a whole number");
    }
    return parsed;
  }
  void done() const {
    if (!fields_.empty()) throw Problem("'" + fields_.front().first + "' is not known here");
  }

 private:
  std::vector<std::pair<std::string, std::string>> fields_{};
};

/// What somebody waits for: at least, or exactly, so many.
struct Condition {
  std::optional<std::uint64_t> requests{};
  std::optional<std::uint64_t> ended{};
  std::optional<std::uint64_t> connections_total{};
  std::optional<std::uint64_t> held{};
  std::optional<std::uint64_t> open_requests{};
  std::optional<std::uint64_t> open_connections{};
};

class Answer final : public Exchange, public std::enable_shared_from_this<Answer> {
 public:
  using Handle = std::function<void(const std::shared_ptr<Answer>&)>;
  Answer(Wire& wire, Request request, Handle handle)
      : wire_(wire), request_(std::move(request)), handle_(std::move(handle)) {}

  Request& request() override { return request_; }
  bool on_head() override { return false; }
  void on_complete() override { handle_(shared_from_this()); }
  void on_flushed() override { wire_.finish({}); }
  void on_ended(EndedBy, std::uint64_t) override { over_ = true; }

  void give(int status, std::string_view json) {
    if (over_) return;
    Head head;
    head.status = status;
    head.headers = {{"Content-Type", "application/json"}};
    head.length = json.size() + 1;
    wire_.head(head);
    wire_.data(json);
    wire_.data("\n");
    wire_.end();
    wire_.flush();
  }
  [[nodiscard]] bool over() const { return over_; }

 private:
  Wire& wire_;
  Request request_;
  Handle handle_;
  bool over_ = false;
};

}  // namespace

class Control::Impl : public std::enable_shared_from_this<Control::Impl> {
 public:
  Impl(Loop& loop, Records& records, Script& script, Listener& data)
      : loop_(loop), records_(records), script_(script), data_(data) {}

  void handle(const std::shared_ptr<Answer>& answer) {
    const auto& request = answer->request();
    struct Route {
      std::string_view method, path;
      void (Impl::*act)(const std::shared_ptr<Answer>&, Query&);
    };
    static constexpr Route kRoutes[] = {
        {"PUT", "/script", &Impl::put_script},
        {"GET", "/seen", &Impl::seen},
        {"GET", "/stats", &Impl::stats},
        {"POST", "/reset", &Impl::reset},
        {"GET", "/wait", &Impl::wait},
        {"POST", "/release", &Impl::release},
        {"POST", "/drop", &Impl::drop},
    };
    const auto* route = std::find_if(std::begin(kRoutes), std::end(kRoutes), [&](const Route& row) {
      return row.method == request.method && row.path == request.path();
    });
    if (route == std::end(kRoutes)) {
      std::string known;
      for (const auto& row : kRoutes) known.append(" ").append(row.method).append(" ").append(row.path);
      refuse(answer, 404, "there is:" + known);
      return;
    }
    try {
      Query query{request.target};
      (this->*route->act)(answer, query);
    } catch (const std::runtime_error& problem) {
      refuse(answer, 400, problem.what());
    }
  }

  void changed() {
    for (auto& waiter : waiters_) {
      if (!waiter.told && met(waiter.condition)) tell(waiter, true);
    }
    std::erase_if(waiters_, [](const Waiter& waiter) { return waiter.told || waiter.answer->over(); });
  }

 private:
  struct Waiter {
    std::shared_ptr<Answer> answer;
    Condition condition;
    std::shared_ptr<Alarm> alarm;
    bool told = false;
  };

  static void refuse(const std::shared_ptr<Answer>& answer, int status, const std::string& why) {
    answer->give(status, Json{{"error", why}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  }

  [[nodiscard]] Json stats_json() const {
    const auto& stats = records_.stats();
    return {{"now_ms", records_.now_ms()},
            {"requests", stats.requests},
            {"ended", stats.ended},
            {"open_requests", stats.open_requests},
            {"held", stats.held},
            {"open_connections", data_.open_connections()},
            {"connections_total", data_.connections_total()}};
  }

  [[nodiscard]] bool met(const Condition& wanted) const {
    const auto& stats = records_.stats();
    const auto at_least = [](const auto& want, std::uint64_t is) { return !want || is >= *want; };
    const auto exactly = [](const auto& want, std::uint64_t is) { return !want || is == *want; };
    return at_least(wanted.requests, stats.requests) && at_least(wanted.ended, stats.ended) &&
           at_least(wanted.connections_total, data_.connections_total()) && at_least(wanted.held, stats.held) &&
           exactly(wanted.open_requests, stats.open_requests) &&
           exactly(wanted.open_connections, data_.open_connections());
  }

  void tell(Waiter& waiter, bool met) {
    waiter.told = true;
    waiter.alarm->cancel();
    auto json = stats_json();
    json["met"] = met;
    // changed() is called from anywhere, also from within a connection's own work.
    loop_.post([answer = waiter.answer, met, text = json.dump()] { answer->give(met ? 200 : 408, text); });
  }

  void put_script(const std::shared_ptr<Answer>& answer, Query& query) {
    query.done();
    script_ = Script{answer->request().body};
    data_.on_connect(script_.on_connect());
    answer->give(200, Json{{"rules", script_.size()}}.dump());
  }
  void seen(const std::shared_ptr<Answer>& answer, Query& query) {
    const auto since = query.number("since").value_or(0);
    query.done();
    answer->give(200, records_.seen_json(since));
  }
  void stats(const std::shared_ptr<Answer>& answer, Query& query) {
    query.done();
    answer->give(200, stats_json().dump());
  }
  void reset(const std::shared_ptr<Answer>& answer, Query& query) {
    query.done();
    script_ = Script{};
    data_.on_connect(script_.on_connect());
    records_.clear();
    answer->give(200, stats_json().dump());
  }
  void wait(const std::shared_ptr<Answer>& answer, Query& query) {
    Condition condition;
    condition.requests = query.number("requests");
    condition.ended = query.number("ended");
    condition.connections_total = query.number("connections_total");
    condition.held = query.number("held");
    condition.open_requests = query.number("open_requests");
    condition.open_connections = query.number("open_connections");
    const milliseconds longest{static_cast<std::int64_t>(query.number("timeout_ms").value_or(10'000))};
    query.done();
    auto& waiter = waiters_.emplace_back(Waiter{answer, condition, loop_.alarm()});
    if (met(condition)) {
      tell(waiter, true);
    } else {
      waiter.alarm->after(std::min(longest, kLongestWait), [weak = weak_from_this(), answer] {
        const auto self = weak.lock();
        if (!self) return;
        const auto found = std::find_if(self->waiters_.begin(), self->waiters_.end(), [&](const Waiter& other) {
          return other.answer == answer && !other.told;
        });
        if (found != self->waiters_.end()) self->tell(*found, false);
        self->changed();
      });
    }
    changed();
  }
  void release(const std::shared_ptr<Answer>& answer, Query& query) {
    const auto gate = query.text("gate");
    const auto permits = query.number("n");
    query.done();
    if (!gate) throw Problem("gate is missing");
    records_.release(*gate, permits);
    answer->give(200, stats_json().dump());
  }
  void drop(const std::shared_ptr<Answer>& answer, Query& query) {
    const auto how = how_named(query.text("how").value_or("fin"));
    const auto which = query.text("which").value_or("all");
    query.done();
    if (!how) throw Problem("how must be fin, rst or notify");
    if (which != "all" && which != "idle") throw Problem("which must be all or idle");
    data_.drop(*how, which == "idle");
    answer->give(200, stats_json().dump());
  }

  Loop& loop_;
  Records& records_;
  Script& script_;
  Listener& data_;
  std::list<Waiter> waiters_{};
};

Control::Control(Loop& loop, Records& records, Script& script, Listener& data)
    : impl_(std::make_shared<Impl>(loop, records, script, data)) {}
Control::~Control() = default;

std::shared_ptr<Exchange> Control::open(Wire& wire, Request request) {
  return std::make_shared<Answer>(wire, std::move(request), [weak = std::weak_ptr{impl_}](const auto& answer) {
    if (const auto impl = weak.lock()) impl->handle(answer);
  });
}

void Control::changed() { impl_->changed(); }

}  // namespace fake_provider
