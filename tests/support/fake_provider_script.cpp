#include "tests/support/fake_provider_script.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

namespace fake_provider {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw ScriptError(where + ": " + what);
}

/// An object whose members are taken one by one; what nobody took is a typo.
class Members {
 public:
  Members(const Json& json, std::string where) : json_(json), where_(std::move(where)) {
    if (!json.is_object()) refuse(where_, "must be an object");
  }
  const Json* find(const char* name) {
    known_.insert(name);
    const auto found = json_.find(name);
    return found == json_.end() ? nullptr : &*found;
  }
  [[nodiscard]] std::string at(const std::string& name) const { return where_ + "." + name; }

  template <typename Number>
  std::optional<Number> number(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number_unsigned()) refuse(at(name), "must be a whole number, 0 or more");
    return value->get<Number>();
  }
  std::optional<milliseconds> time(const char* name) {
    const auto count = number<std::uint32_t>(name);
    return count ? std::optional{milliseconds{*count}} : std::nullopt;
  }
  std::optional<std::string> text(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return std::nullopt;
    if (!value->is_string()) refuse(at(name), "must be a text");
    return value->get<std::string>();
  }
  bool flag(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse(at(name), "must be true or false");
    return value->get<bool>();
  }
  std::optional<How> how(const char* name) {
    const auto value = text(name);
    if (!value) return std::nullopt;
    const auto found = how_named(*value);
    if (!found) refuse(at(name), "must be fin, rst or notify");
    return found;
  }
  void done() const {
    for (const auto& [name, value] : json_.items()) {
      if (!known_.contains(name)) refuse(where_ + "." + name, "unknown");
    }
  }

 private:
  const Json& json_;
  std::string where_;
  std::set<std::string> known_{};
};

std::string from_base64(std::string_view text, const std::string& where) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int have = 0;
  for (const char c : text.substr(0, text.find('='))) {
    const auto digit = kDigits.find(c);
    if (digit == std::string_view::npos) refuse(where, "is not base64");
    bits = (bits << 6) | static_cast<std::uint32_t>(digit);
    have += 6;
    if (have < 8) continue;
    have -= 8;
    bytes += static_cast<char>((bits >> have) & 0xff);
  }
  return bytes;
}

std::string file_text(const std::string& path, const std::string& where) {
  std::ifstream in{path, std::ios::binary};
  if (!in) refuse(where, "cannot read " + path);
  return {std::istreambuf_iterator<char>{in}, {}};
}

Headers headers_from(const Json& json, const std::string& where) {
  Headers headers;
  if (json.is_object()) {
    for (const auto& [name, value] : json.items()) {
      if (!value.is_string()) refuse(where + "." + name, "must be a text");
      headers.emplace_back(name, value.get<std::string>());
    }
    return headers;
  }
  if (!json.is_array()) refuse(where, "must be a list of [name, value] or an object");
  for (const auto& pair : json) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      refuse(where, "must be a list of [name, value]");
    }
    headers.emplace_back(pair[0].get<std::string>(), pair[1].get<std::string>());
  }
  return headers;
}

auto shared(std::string text) { return std::make_shared<const std::string>(std::move(text)); }

Framing framing_from(const std::string& name, const std::string& where) {
  if (name == "length") return Framing::Length;
  if (name == "chunked") return Framing::Chunked;
  if (name == "close") return Framing::Close;
  if (name == "none") return Framing::None;
  refuse(where, "must be length, chunked, close or none");
}

/// One item of "stream" or "steps": an event, or another thing that happens in an answer.
void append_step(const Json& json, const std::string& where, std::vector<Step>& steps) {
  if (json.is_string()) {
    steps.emplace_back(Data{shared("data: " + json.get<std::string>() + "\n\n")});
    return;
  }
  Members item{json, where};
  if (const auto wait = item.time("after_ms")) steps.emplace_back(Wait{*wait});
  const auto before = steps.size();
  if (const auto wait = item.time("wait_ms")) steps.emplace_back(Wait{*wait});
  if (const auto gate = item.text("hold")) steps.emplace_back(Hold{*gate});
  if (const auto name = item.text("event"), id = item.text("id"); const Json *data = item.find("data")) {
    std::string event;
    if (name) event.append("event: ").append(*name).append("\n");
    if (id) event.append("id: ").append(*id).append("\n");
    event.append("data: ").append(data->is_string() ? data->get<std::string>() : data->dump()).append("\n\n");
    steps.emplace_back(Data{shared(std::move(event))});
  }
  if (const auto text = item.text("send")) steps.emplace_back(Data{shared(*text)});
  if (const auto text = item.text("send_b64")) {
    steps.emplace_back(Data{shared(from_base64(*text, item.at("send_b64")))});
  }
  if (const auto text = item.text("raw")) steps.emplace_back(Raw{shared(*text)});
  if (const auto text = item.text("raw_b64")) steps.emplace_back(Raw{shared(from_base64(*text, item.at("raw_b64")))});
  if (const auto bytes = item.number<std::uint64_t>("fill")) steps.emplace_back(Fill{*bytes});
  if (const auto text = item.text("say")) steps.emplace_back(Say{*text});
  if (const auto status = item.number<int>("error")) steps.emplace_back(Fail{*status});
  if (const auto status = item.number<int>("interim")) {
    const Json* headers = item.find("headers");
    steps.emplace_back(Interim{*status, headers ? headers_from(*headers, item.at("headers")) : Headers{}});
  }
  if (const Json* json_head = item.find("head")) {
    Members members{*json_head, item.at("head")};
    Head head;
    head.status = members.number<int>("status").value_or(200);
    head.reason = members.text("reason").value_or("");
    if (const Json* headers = members.find("headers")) head.headers = headers_from(*headers, members.at("headers"));
    head.framing = framing_from(members.text("framing").value_or("chunked"), members.at("framing"));
    if (const auto length = members.number<std::uint64_t>("content_length")) {
      head.framing = Framing::Length;
      head.length = *length;
    }
    members.done();
    steps.emplace_back(StartHead{std::move(head)});
  }
  if (item.flag("end")) steps.emplace_back(End{});
  if (item.flag("hang")) steps.emplace_back(Hang{});
  if (const auto how = item.how("close")) steps.emplace_back(Drop{*how});
  item.done();
  if (steps.size() == before && !item.find("after_ms")) refuse(where, "says nothing");
}

std::vector<Step> steps_from(const Json& list, const std::string& where, std::optional<milliseconds> gap) {
  if (!list.is_array()) refuse(where, "must be a list");
  std::vector<Step> steps;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i > 0 && gap) steps.emplace_back(Wait{*gap});
    append_step(list[i], where + "[" + std::to_string(i) + "]", steps);
  }
  return steps;
}

std::vector<Step> one_body(Step step) { return {std::move(step)}; }

std::shared_ptr<const Order> order_from(const Json& json, const std::string& where) {
  auto order = std::make_shared<Order>();
  if (json.is_number_unsigned()) {
    order->status = json.get<int>();
    return order;
  }
  if (json == "default") return order;
  if (json.is_array()) {
    order->body = steps_from(json, where, std::nullopt);
    order->is_stream = order->by_hand = true;
    return order;
  }

  Members members{json, where};
  order->status = members.number<int>("status");
  order->reason = members.text("reason").value_or("");
  if (const Json* headers = members.find("headers")) order->headers = headers_from(*headers, members.at("headers"));
  const auto gap = members.time("gap_ms");
  order->gap = gap.value_or(milliseconds{0});

  int bodies = 0;
  const auto take_body = [&](std::vector<Step> steps) {
    order->body = std::move(steps);
    if (++bodies > 1) refuse(where, "has more than one body");
  };
  if (const auto text = members.text("body")) take_body(one_body(Data{shared(*text)}));
  if (const auto text = members.text("body_b64")) {
    take_body(one_body(Data{shared(from_base64(*text, members.at("body_b64")))}));
  }
  if (const auto path = members.text("body_file")) {
    take_body(one_body(Data{shared(file_text(*path, members.at("body_file")))}));
  }
  if (const Json* value = members.find("json")) {
    take_body(one_body(Data{shared(value->dump())}));
    const bool typed = std::any_of(order->headers.begin(), order->headers.end(), [](const auto& header) {
      return same_name(header.first, "content-type");
    });
    if (!typed) order->headers.emplace_back("Content-Type", "application/json");
  }
  if (const auto bytes = members.number<std::uint64_t>("fill")) take_body(one_body(Fill{*bytes}));
  if (const Json* stream = members.find("stream")) {
    order->is_stream = true;
    if (stream->is_object()) {
      Members many{*stream, members.at("stream")};
      Many step;
      step.events = many.number<std::uint64_t>("events").value_or(1);
      step.size = many.number<std::size_t>("size").value_or(0);
      step.every = many.time("every_ms").value_or(milliseconds{0});
      many.done();
      take_body(one_body(step));
    } else {
      take_body(steps_from(*stream, members.at("stream"), gap));
    }
  }
  for (const char* name : {"raw", "raw_b64"}) {
    if (const auto text = members.text(name)) {
      order->by_hand = true;
      take_body(
          one_body(Raw{shared(std::string_view{name} == "raw" ? *text : from_base64(*text, members.at(name)))}));
    }
  }
  if (const Json* steps = members.find("steps")) {
    order->is_stream = order->by_hand = true;
    take_body(steps_from(*steps, members.at("steps"), gap));
  }

  if (const Json* say = members.find("say")) {
    const auto is_text = [](const Json& item) { return item.is_string(); };
    if (!say->is_array() || !std::all_of(say->begin(), say->end(), is_text)) {
      refuse(members.at("say"), "must be a list of texts");
    }
    order->say = say->get<std::vector<std::string>>();
  }
  if (const Json* usage = members.find("usage")) {
    Members tokens{*usage, members.at("usage")};
    order->input_tokens = tokens.number<std::uint64_t>("input");
    order->output_tokens = tokens.number<std::uint64_t>("output");
    tokens.done();
  }
  if (const auto name = members.text("framing")) order->framing = framing_from(*name, members.at("framing"));
  order->content_length = members.number<std::uint64_t>("content_length");
  order->gzip = members.flag("gzip");

  if (const auto gate = members.text("hold")) order->before.emplace_back(Hold{*gate});
  if (const auto wait = members.time("delay_ms")) order->before.emplace_back(Wait{*wait});
  if (const Json* list = members.find("interim")) {
    if (!list->is_array()) refuse(members.at("interim"), "must be a list");
    for (const auto& item : *list) {
      const std::string place = members.at("interim");
      append_step(item.is_number() ? Json{{"interim", item}} : item, place, order->before);
    }
  }
  if (members.flag("hang")) order->before.emplace_back(Hang{});
  if (const auto how = members.how("drop")) order->before.emplace_back(Drop{*how});

  const auto read = members.text("read").value_or("all");
  if (read != "all" && read != "head" && read != "nothing") {
    refuse(members.at("read"), "must be all, head or nothing");
  }
  order->read = read == "all" ? Read::All : read == "head" ? Read::Head : Read::Nothing;

  order->mischief.piece_bytes = members.number<std::size_t>("piece_bytes").value_or(0);
  order->mischief.piece_gap = members.time("piece_gap_ms").value_or(milliseconds{0});
  order->mischief.cut_at = members.number<std::uint64_t>("cut_at");
  order->mischief.cut_by = members.how("cut_by").value_or(How::Fin);
  order->mischief.hang_at = members.number<std::uint64_t>("hang_at");
  order->after.close = members.how("close");
  order->after.close_idle = members.time("close_idle_ms");
  if (const auto how = members.how("close_idle_by")) order->after.close_idle_by = *how;
  order->after.next_request = members.how("close_when_next_request_arrives");
  members.done();
  return order;
}

Rule rule_from(const Json& json, const std::string& where) {
  Rule rule;
  Members members{json, where};
  if (const Json* match = members.find("match")) {
    Members fields{*match, members.at("match")};
    rule.method = fields.text("method").value_or("");
    rule.path = fields.text("path").value_or("");
    if (const Json* headers = fields.find("header")) rule.headers = headers_from(*headers, fields.at("header"));
    rule.body_contains = fields.text("body_contains").value_or("");
    rule.nth = fields.number<std::uint64_t>("nth").value_or(0);
    rule.times = fields.number<std::uint64_t>("times").value_or(0);
    fields.done();
  }
  const Json* answer = members.find("answer");
  const Json* answers = members.find("answers");
  if ((answer == nullptr) == (answers == nullptr)) refuse(where, "needs either an answer or answers");
  if (answer != nullptr) {
    rule.answers.push_back(order_from(*answer, members.at("answer")));
  } else {
    if (!answers->is_array() || answers->empty()) refuse(members.at("answers"), "must be a list of at least one");
    for (std::size_t i = 0; i < answers->size(); ++i) {
      rule.answers.push_back(order_from((*answers)[i], members.at("answers[" + std::to_string(i) + "]")));
    }
  }
  if (const Json* weights = members.find("weights")) {
    const auto is_weight = [](const Json& item) { return item.is_number() && item.get<double>() >= 0.0; };
    if (!weights->is_array() || weights->size() != rule.answers.size() ||
        !std::all_of(weights->begin(), weights->end(), is_weight)) {
      refuse(members.at("weights"), "must be a list of numbers, one for each answer");
    }
    rule.weights = weights->get<std::vector<double>>();
  }
  rule.chance.seed(members.number<std::uint64_t>("seed").value_or(1));
  members.done();
  return rule;
}

bool path_fits(std::string_view pattern, const Request& request) {
  const auto path = pattern.find('?') == std::string_view::npos ? request.path() : std::string_view{request.target};
  if (pattern.ends_with('*')) return path.starts_with(pattern.substr(0, pattern.size() - 1));
  return path == pattern;
}

bool head_fits(const Rule& rule, const Request& request) {
  if (!rule.method.empty() && rule.method != request.method) return false;
  if (!rule.path.empty() && !path_fits(rule.path, request)) return false;
  return std::all_of(rule.headers.begin(), rule.headers.end(), [&](const auto& wanted) {
    return std::any_of(request.headers.begin(), request.headers.end(), [&](const auto& header) {
      return same_name(header.first, wanted.first) && header.second == wanted.second;
    });
  });
}

bool counts_fit(const Rule& rule) {
  return (rule.nth == 0 || rule.fitted + 1 == rule.nth) && (rule.times == 0 || rule.used < rule.times);
}

const std::shared_ptr<const Order>& next_in_sequence(const Rule& rule) {
  return rule.answers[std::min<std::size_t>(rule.used, rule.answers.size() - 1)];
}

std::shared_ptr<const Order> use(Rule& rule) {
  auto order = next_in_sequence(rule);
  if (!rule.weights.empty()) {
    std::discrete_distribution<std::size_t> draw{rule.weights.begin(), rule.weights.end()};
    order = rule.answers[draw(rule.chance)];
  }
  ++rule.fitted;
  ++rule.used;
  return order;
}

std::shared_ptr<const Order> on_its_own() {
  static const auto order = std::make_shared<const Order>();
  return order;
}

}  // namespace

Script::Script(std::string_view text) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw ScriptError(std::string{"no JSON: "} + error.what());
  }
  try {
    Json rules = json;
    if (json.is_object()) {
      Members members{json, "script"};
      const Json* list = members.find("rules");
      rules = list == nullptr ? Json::array() : *list;
      const std::string what = members.text("on_connect").value_or("serve");
      constexpr std::pair<std::string_view, OnConnect> kWays[] = {{"serve", OnConnect::Serve},
                                                                  {"fin", OnConnect::Fin},
                                                                  {"rst", OnConnect::Rst},
                                                                  {"hang", OnConnect::Hang},
                                                                  {"refuse", OnConnect::Refuse}};
      const auto* way =
          std::find_if(std::begin(kWays), std::end(kWays), [&](const auto& row) { return row.first == what; });
      if (way == std::end(kWays)) refuse(members.at("on_connect"), "must be serve, fin, rst, hang or refuse");
      on_connect_ = way->second;
      members.done();
    }
    if (!rules.is_array()) refuse("script", "must be a list of rules");
    for (std::size_t i = 0; i < rules.size(); ++i) {
      rules_.push_back(rule_from(rules[i], "rule " + std::to_string(i)));
      const auto& answers = rules_.back().answers;
      any_early_ = any_early_ || std::any_of(answers.begin(), answers.end(), [](const auto& order) {
                     return order->read != Read::All;
                   });
    }
  } catch (const Json::exception& error) {
    throw ScriptError(error.what());
  }
}

Script::Choice Script::choose(const Request& request) {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    auto& rule = rules_[i];
    if (!head_fits(rule, request)) continue;
    if (!rule.body_contains.empty() && request.body.find(rule.body_contains) == std::string::npos) continue;
    if (counts_fit(rule)) return {use(rule), static_cast<int>(i)};
    ++rule.fitted;
  }
  return {on_its_own(), -1};
}

std::optional<Script::Choice> Script::choose_early(const Request& request) {
  if (!any_early_) return std::nullopt;
  const auto first = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    return head_fits(rule, request) && (!rule.body_contains.empty() || counts_fit(rule));
  });
  const bool certain = first != rules_.end() && first->body_contains.empty() && first->weights.empty();
  if (!certain || next_in_sequence(*first)->read == Read::All) return std::nullopt;
  return choose(request);
}

}  // namespace fake_provider
