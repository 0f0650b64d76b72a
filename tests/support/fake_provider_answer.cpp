#include "tests/support/fake_provider_answer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <chrono>

namespace fake_provider {
namespace {

template <typename... Fs>
struct Cases : Fs... {
  using Fs::operator()...;
};
template <typename... Fs>
Cases(Fs...) -> Cases<Fs...>;

constexpr std::size_t kBatch = 64 * 1024;

auto shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

class Gzip {
 public:
  Gzip() {
    constexpr int kGzipWindow = 15 + 16;
    const int ready = deflateInit2(&stream_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8, Z_DEFAULT_STRATEGY);
    assert(ready == Z_OK);
    (void)ready;
  }
  ~Gzip() { deflateEnd(&stream_); }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;

  /// Z_SYNC_FLUSH: all of it can be unpacked at once. Z_FINISH: nothing more comes.
  std::string pack(std::string_view bytes, int flush) {
    std::string packed;
    std::array<char, 16 * 1024> room;
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream_.avail_in = static_cast<uInt>(bytes.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(room.data());
      stream_.avail_out = static_cast<uInt>(room.size());
      deflate(&stream_, flush);
      packed.append(room.data(), room.size() - stream_.avail_out);
    } while (stream_.avail_out == 0);
    return packed;
  }

 private:
  z_stream stream_{};
};

bool has(const Headers& headers, std::string_view name) {
  return std::any_of(
      headers.begin(), headers.end(), [&](const auto& header) { return same_name(header.first, name); });
}
void add_unless_there(Headers& headers, std::string_view name, std::string_view value) {
  if (!has(headers, name)) headers.emplace_back(name, value);
}

/// What is to be sent as body, and of which kind it is.
struct Body {
  std::vector<Step> steps{};
  bool is_stream = false;
  std::string_view content_type = "application/json";
};

Body body_on_its_own(const Order& order, const Request& request, const Endpoint& endpoint, Ask& ask) {
  Body body;
  if (ask.status >= 400) {
    body.steps.emplace_back(Data{shared(render(endpoint.failure->body, ask))});
  } else if (wants_stream(endpoint, request)) {
    body.is_stream = true;
    for (const auto& text : order.say) {
      if (order.gap.count() > 0 && !body.steps.empty()) body.steps.emplace_back(Wait{order.gap});
      body.steps.emplace_back(Say{text});
    }
  } else {
    body.steps.emplace_back(Data{shared(render(endpoint.unary, ask))});
  }
  return body;
}

/// Puts the dialect's begin and end around what is said, and its words into place.
std::vector<Step> in_dialect(const std::vector<Step>& steps, const Endpoint& endpoint, Ask& ask) {
  std::vector<Step> done;
  const auto add = [&](std::string_view text) {
    if (!text.empty()) done.emplace_back(Data{shared(render(text, ask))});
  };
  bool begun = false;
  bool failed = false;
  for (const auto& step : steps) {
    const auto* say = std::get_if<Say>(&step);
    const auto* many = std::get_if<Many>(&step);
    if ((say != nullptr || many != nullptr) && !begun) {
      begun = true;
      add(endpoint.begin);
    }
    if (say != nullptr) {
      ask.delta = say->text;
      add(endpoint.delta);
    } else if (many != nullptr) {
      auto numbered = *many;
      numbered.first = ask.sequence;
      ask.sequence += many->events;
      done.emplace_back(numbered);
    } else if (const auto* fail = std::get_if<Fail>(&step)) {
      ask.status = fail->status;
      add(endpoint.failure->event);
      failed = true;
    } else {
      done.push_back(step);
    }
  }
  // Providers send nothing more behind an error.
  if (begun && !failed) add(endpoint.finish);
  return done;
}

std::optional<std::uint64_t> size_of(const std::vector<Step>& body) {
  std::uint64_t size = 0;
  for (const auto& step : body) {
    if (const auto* data = std::get_if<Data>(&step)) {
      size += data->bytes->size();
    } else if (const auto* fill = std::get_if<Fill>(&step)) {
      size += fill->bytes;
    } else if (!std::holds_alternative<Wait>(step) && !std::holds_alternative<Hold>(step)) {
      return std::nullopt;
    }
  }
  return size;
}

}  // namespace

Plan plan_for(const Order& order, const Request& request, std::uint64_t id) {
  const Endpoint& endpoint = endpoint_for(request);
  Plan plan;
  Ask& ask = plan.ask;
  ask = ask_from(request, id);
  if (order.input_tokens) ask.input_tokens = *order.input_tokens;
  if (order.output_tokens) ask.output_tokens = *order.output_tokens;
  for (const auto& text : order.say) ask.text += text;

  plan.steps = order.before;
  if (order.by_hand) {
    auto steps = in_dialect(*order.body, endpoint, ask);
    plan.steps.insert(plan.steps.end(), steps.begin(), steps.end());
    plan.each_on_its_own = true;
    return plan;
  }

  // Who asks for what we do not know gets 404, unless the script says something.
  const bool lost = !order.status && !order.body && !is_known(endpoint);
  Head head;
  head.status = !request.malformed.empty() ? 400 : order.status.value_or(lost ? 404 : 200);
  head.reason = order.reason;
  ask.status = head.status;
  const bool bodyless = head.status == 204 || head.status == 304 || head.status < 200;
  Body body;
  if (order.body) {
    body.steps = *order.body;
    body.is_stream = order.is_stream;
    body.content_type = "";
  } else if (!bodyless) {
    body = body_on_its_own(order, request, endpoint, ask);
  }
  body.steps = in_dialect(body.steps, endpoint, ask);
  plan.each_on_its_own = body.is_stream;

  auto size = size_of(body.steps);
  if (order.gzip && !body.is_stream && body.steps.size() == 1 && std::holds_alternative<Data>(body.steps[0])) {
    auto packed = Gzip{}.pack(*std::get<Data>(body.steps[0]).bytes, Z_FINISH);
    size = packed.size();
    body.steps = {Data{shared(std::move(packed))}};
  } else {
    plan.gzip = order.gzip;
  }

  head.headers = order.headers;
  if (body.is_stream) {
    add_unless_there(head.headers, "Content-Type", endpoint.stream_type);
    add_unless_there(head.headers, "Cache-Control", "no-cache");
  } else if (!body.content_type.empty() && !bodyless) {
    add_unless_there(head.headers, "Content-Type", body.content_type);
  }
  if (order.gzip) add_unless_there(head.headers, "Content-Encoding", "gzip");
  if (!endpoint.failure->request_id_header.empty()) {
    add_unless_there(head.headers, endpoint.failure->request_id_header, "req_" + std::to_string(id));
  }
  const bool count = size && !body.is_stream && !plan.gzip;
  head.framing = order.framing.value_or(bodyless ? Framing::None : count ? Framing::Length : Framing::Chunked);
  if (order.content_length) head.framing = Framing::Length;
  head.length = order.content_length.value_or(size.value_or(0));
  if (request.version == "1.0" && head.framing == Framing::Chunked) head.framing = Framing::Close;

  plan.steps.emplace_back(StartHead{std::move(head)});
  if (request.method != "HEAD") std::move(body.steps.begin(), body.steps.end(), std::back_inserter(plan.steps));
  if (request.method != "HEAD" && !bodyless) plan.steps.emplace_back(End{});
  return plan;
}

namespace {

/// One request: recorded, an answer chosen, and its steps played.
class DataExchange final : public Exchange, public std::enable_shared_from_this<DataExchange> {
 public:
  DataExchange(Provider provider, Wire& wire, Request request)
      : provider_(provider), wire_(wire), record_(provider.records.open(std::move(request))) {}

  Request& request() override { return record_->request; }

  bool on_head() override {
    const auto choice = provider_.script.choose_early(request());
    if (!choice) return false;
    if (choice->order->read == Read::Nothing) wire_.stop_reading();
    // The wire is in the middle of reading this request.
    provider_.loop.post([self = shared_from_this(), choice = *choice] {
      if (!self->over_) self->begin(choice);
    });
    early_ = true;
    return true;
  }

  void on_complete() override {
    if (request().malformed.empty()) provider_.records.body_complete(*record_);
    if (early_) {
      provider_.records.forget_body(*record_);
      return;
    }
    begin(provider_.script.choose(request()));
    provider_.records.forget_body(*record_);
  }

  void on_flushed() override { go(); }

  void on_ended(EndedBy by, std::uint64_t answered_bytes) override {
    over_ = true;
    if (alarm_) alarm_->cancel();
    if (!gate_.empty()) provider_.records.leave(gate_, waiting_as_);
    provider_.records.ended(*record_, by, answered_bytes);
  }

 private:
  void begin(const Script::Choice& choice) {
    order_ = choice.order;
    record_->rule = choice.rule;
    plan_ = plan_for(*order_, request(), record_->id);
    if (plan_.gzip) gzip_ = std::make_unique<Gzip>();
    wire_.misbehave(order_->mischief);
    go();
  }

  // Plays steps until one has to wait; whoever waited calls again.
  void go() {
    while (!over_) {
      if (many_left_ > 0) {
        if (!next_of_many()) return;
        continue;
      }
      if (fill_left_ > 0) {
        next_of_fill();
        return;
      }
      if (at_ == plan_.steps.size()) {
        if (!flushed_) {
          flush();
          return;
        }
        wire_.finish(order_->after);
        return;
      }
      // What comes next may take its time: what is ready goes first.
      const Step& step = plan_.steps[at_];
      const bool waits = std::holds_alternative<Wait>(step) || std::holds_alternative<Hold>(step) ||
                         std::holds_alternative<Hang>(step) || std::holds_alternative<Drop>(step);
      if (waits && !flushed_) {
        flush();
        return;
      }
      ++at_;
      if (!play(step)) return;
    }
  }

  /// False: go() is called again later.
  bool play(const Step& step) {
    const Cases cases{
        [&](const Wait& wait) { return sleep_until(std::chrono::steady_clock::now() + wait.time); },
        [&](const Hold& hold) {
          gate_ = hold.gate;
          waiting_as_ = record_->id + (record_->generation << 32);
          provider_.records.wait_at(gate_, waiting_as_, [weak = weak_from_this(), &loop = provider_.loop] {
            loop.post([weak] {
              const auto self = weak.lock();
              if (!self || self->over_) return;
              self->gate_.clear();
              self->go();
            });
          });
          return false;
        },
        [&](const Interim& interim) {
          wire_.interim(interim.status, interim.headers);
          flush();
          return false;
        },
        [&](const StartHead& start) {
          record_->status = start.head.status;
          wire_.head(start.head);
          flushed_ = false;
          return true;
        },
        [&](const Data& data) { return send(*data.bytes); },
        [&](const Raw& raw) {
          wire_.raw(*raw.bytes);
          flush();
          return false;
        },
        [&](const Fill& fill) {
          fill_left_ = fill.bytes;
          return true;
        },
        [&](const Say& say) { return send(say.text); },
        [&](const Fail&) { return true; },
        [&](const Many& many) {
          many_ = many;
          many_left_ = many.events;
          many_due_ = std::chrono::steady_clock::now();
          plan_.ask.sequence = many.first;
          plan_.ask.delta.clear();
          const auto bare = one_of_many().size();
          plan_.ask.sequence = many.first;
          plan_.ask.delta = std::string(many.size > bare ? many.size - bare : 1, 'x');
          return true;
        },
        [&](const End&) {
          if (gzip_) wire_.data(gzip_->pack({}, Z_FINISH));
          wire_.end();
          flushed_ = false;
          return true;
        },
        [&](const Hang&) { return false; },
        [&](const Drop& drop) {
          wire_.abort(drop.how);
          return false;
        },
    };
    return std::visit(cases, step);
  }

  void put(std::string_view bytes) {
    if (gzip_) {
      wire_.data(gzip_->pack(bytes, Z_SYNC_FLUSH));
    } else {
      wire_.data(bytes);
    }
    flushed_ = false;
  }

  bool send(std::string_view bytes) {
    put(bytes);
    if (!plan_.each_on_its_own) return true;
    flush();
    return false;
  }

  void flush() {
    flushed_ = true;
    wire_.flush();
  }

  bool sleep_until(std::chrono::steady_clock::time_point when) {
    if (!alarm_) alarm_ = provider_.loop.alarm();
    alarm_->at(when, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && !self->over_) self->go();
    });
    return false;
  }

  std::string one_of_many() { return render(endpoint_for(record_->request).delta, plan_.ask); }

  bool next_of_many() {
    if (many_.every.count() == 0) {
      // As fast as they can be taken.
      for (std::size_t batch = 0; many_left_ > 0 && batch < kBatch; --many_left_) {
        const auto event = one_of_many();
        batch += event.size();
        put(event);
      }
      flush();
      return false;
    }
    if (many_due_ > std::chrono::steady_clock::now()) return sleep_until(many_due_);
    many_due_ += many_.every;
    --many_left_;
    return send(one_of_many());
  }

  void next_of_fill() {
    static const std::string block(kBatch, 'x');
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(fill_left_, kBatch));
    fill_left_ -= size;
    put(std::string_view{block}.substr(0, size));
    flush();
  }

  Provider provider_;
  Wire& wire_;
  std::shared_ptr<Record> record_;
  std::shared_ptr<const Order> order_{};
  Plan plan_{};
  std::size_t at_ = 0;
  bool early_ = false;
  bool over_ = false;
  bool flushed_ = true;
  std::unique_ptr<Alarm> alarm_{};
  std::string gate_{};
  std::uint64_t waiting_as_ = 0;
  std::unique_ptr<Gzip> gzip_{};
  Many many_{};
  std::uint64_t many_left_ = 0;
  std::chrono::steady_clock::time_point many_due_{};
  std::uint64_t fill_left_ = 0;
};

}  // namespace

std::shared_ptr<Exchange> open_exchange(Provider provider, Wire& wire, Request request) {
  return std::make_shared<DataExchange>(provider, wire, std::move(request));
}

}  // namespace fake_provider
