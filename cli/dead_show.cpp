// `callgate dead show`: all of one letter, and what to do with it.
#include <array>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/ask_dead.h"
#include "cli/dead.h"
#include "cli/table.h"
#include "cli/upstreams.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kTextMax = 400;

/// What to do, where the cause has to be mended first.
std::string_view mend_of(std::string_view cls) {
  struct Mend {
    std::string_view cls;
    std::string_view mend;
  };
  constexpr std::array kMends = {
      Mend{"auth", "the provider refuses the key: callgate upstreams says which; put a good one in its place"},
      Mend{"permission", "the key may not do this: ask the provider's console for the model or the project"},
      Mend{"quota_exhausted", "the provider's money or monthly allowance is spent: its console"},
      Mend{"not_found", "no such model or deployment there: the route's upstream, or the request's model"},
      Mend{"invalid_request", "the request itself: look at it with --request, mend it with callgate dead edit"},
      Mend{"context_length", "the prompt is too long for the model: another model, or a shorter one"},
      Mend{"content_policy", "the provider does not answer this: another text, or another upstream"},
      Mend{"too_large", "more than the provider takes at once: a shorter request"},
      Mend{"malformed_response", "the provider's answers cannot be read: callgate calls show of the last call"},
      Mend{"unknown", "no rule knows the answer: callgate unknown shows it"},
      Mend{"local_budget", "its budget is spent: callgate budget show, callgate budget grant"},
      Mend{"local_request", "callgate itself could not take it: the cause above says why"},
      Mend{"crash", "callgate died while it worked on this: its log around the attempts; then one alone"},
      Mend{"internal", "a bug of callgate's: its log has the line; report it"},
  };
  for (const Mend& one : kMends) {
    if (one.cls == cls) return one.mend;
  }
  return "the cause above; callgate calls show of the last call has the attempts";
}

void print_body(const std::string& body, std::ostream& out) {
  if (const auto json = shallow<Json>(body)) {
    std::string text;
    append_readable(text, *json, 0);
    out << text << '\n';
    return;
  }
  for (std::string_view rest = body; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    out << (line.empty() ? std::string{} : cell(line, line.size())) << '\n';
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
}

void print_request(const Json& request, std::ostream& out) {
  out << "\nrequest\n" << told(request, "method") << ' ' << told(request, "target", kTextMax) << '\n';
  if (const auto headers = request.find("headers"); headers != request.end()) {
    for (const auto& [name, value] : headers->items())
      out << cell(name) << ": " << cell(value.get<std::string>(), kTextMax) << '\n';
  }
  out << '\n';
  const Json& body = request.at("body");
  if (body.is_string()) {
    print_body(body.get_ref<const std::string&>(), out);
  } else {
    std::string text;
    append_readable(text, body, 0);
    out << text << '\n';
  }
}

void print_history(const Json& history, std::ostream& out) {
  for (const Json& step : history) {
    out << told(step, "at") << "  " << told(step, "what");
    for (const char* name : {"class", "call_id"}) {
      if (const std::string text = told(step, name); text != "-")
        out << (name[1] == 'l' ? ", class " : ", call ") << text;
    }
    const auto attempts = step.find("attempts");
    if (attempts == step.end()) {
      if (const std::string text = told(step, "detail", kTextMax); text != "-") out << ": " << text;
      out << '\n';
      continue;
    }
    out << '\n';
    const auto rows = rows_of_attempts(attempts->dump(-1, ' ', true, Json::error_handler_t::replace));
    if (!rows) out << "  " << cell(attempts->dump(-1, ' ', true, Json::error_handler_t::replace), kTextMax) << '\n';
    for (const std::string& line : aligned(rows.value_or(Rows{}))) out << "  " << line << '\n';
  }
}

/// All of one, for people.
void print_letter(const Json& json, Terminal& terminal) {
  Rows rows;
  const auto line = [&](const char* name, const std::string& text) {
    if (text != "-" && !text.empty()) rows.push_back({name, text});
  };
  // "a NAME, b NAME" of those that are there.
  const auto several = [&](std::initializer_list<std::pair<const char*, const char*>> members) {
    std::string text;
    for (const auto& [says, name] : members) {
      const std::string value = told(json, name);
      if (value != "-") text += (text.empty() ? "" : ", ") + std::string{says} + value;
    }
    return text;
  };
  const std::string id = cell(json.at("id").get<std::string>());
  const std::string state = cell(json.at("state").get<std::string>());
  const std::string advice = told(json, "advice");
  const std::string cls = told(json, "class");
  line("letter", id);
  line("state", state);
  line("arrived", several({{"", "arrived_at"}, {"last failed ", "last_at"}, {"kept until ", "expires_at"}}));
  line("ended", told(json, "ended_at"));
  line("cause", told(json, "cause", kTextMax));
  line("class",
       several({{"", "class"}, {"status ", "status"}, {"code ", "code"}, {"unknown answer ", "fingerprint"}}));
  line("group", told(json, "group"));
  line("of", several({{"tenant ", "tenant"}, {"queue ", "queue"}, {"lane ", "lane"}, {"version ", "version"}}));
  line("asked", several({{"", "operation"}, {"route ", "route"}, {"upstream ", "upstream"}, {"model ", "model"}}));
  line("work", several({{"key ", "key"}, {"job ", "run_id"}, {"run ", "run"}, {"last call ", "call_id"}}));
  line("failures", several({{"", "failures"}, {"lost USD ", "cost_usd"}}));
  std::string request = several({{"", "request"}, {"revision ", "revision"}});
  if (told(json, "request") == "erased")
    request = "erased at " + told(json, "request_erased_at") + ", when the letter was " + state;
  line("request", request);
  if (const auto labels = json.find("labels"); labels != json.end() && labels->is_object()) {
    std::string text;
    for (const auto& [name, value] : labels->items())
      text += (text.empty() ? "" : ", ") + cell(name) + "=" + word(value);
    line("labels", text);
  }
  print_rows(rows, terminal.out);
  if (const auto history = json.find("history"); history != json.end() && history->is_array() && !history->empty()) {
    terminal.out << '\n' << toned("history", Tone::Bold, terminal.colour_out) << '\n';
    print_history(*history, terminal.out);
  }
  if (state != "open") return;
  terminal.out << '\n' << toned("what to do", Tone::Bold, terminal.colour_out) << '\n';
  if (advice == "discard") {
    terminal.out << "It would fail again, and nothing is to be mended: callgate dead discard " << id
                 << " --reason TEXT\n";
  } else if (told(json, "request") != "kept") {
    terminal.out << (advice == "fix-first" ? "First: " + std::string{mend_of(cls)} + "\nThen only"
                                           : std::string{"Only"})
                 << " its worker can send it again: its request is not here (" << told(json, "request")
                 << "; see store.payload_key). With it done: callgate dead discard " << id << " --reason TEXT\n";
  } else if (advice == "fix-first") {
    terminal.out << "First: " << mend_of(cls) << "\nThen: callgate dead replay " << id << '\n';
  } else {
    terminal.out << "It may succeed as it is: callgate dead replay " << id << '\n';
  }
}

}  // namespace

int dead_show(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "dead show";
  if (arguments.words.empty())
    return misuse(kCommand, "needs a letter's id, as callgate dead list shows it", terminal);
  if (const auto bad = no_id(arguments)) return misuse(kCommand, *bad + " is no letter's id", terminal);
  const bool request = arguments.has("--request");
  if (request && arguments.has("--store"))
    return misuse(kCommand, "--request is audited, so only a running callgate answers it: without --store", terminal);
  const auto reply =
      ask_dead(kCommand,
               "GET",
               "/v1/dead/" + arguments.words[0] +
                   query_of({{"tenant", arguments.get("--tenant")}, {"request", request ? "true" : ""}}),
               arguments,
               terminal,
               kLargestLetter);
  if (!reply) return reply.error();
  const auto json = shallow<Json>(reply->body);
  if (!json) return no_books(kCommand, *reply, terminal);
  try {
    (void)json->at("id").get_ref<const std::string&>();
    if (arguments.has("--json")) {
      terminal.out << pages_of(*json);
    } else {
      print_letter(*json, terminal);
    }
    if (!request) return kDone;
    const auto kept = json->find("kept_request");
    const bool there = kept != json->end() && kept->is_object();
    if (there && !arguments.has("--json")) print_request(*kept, terminal.out);
    if (!there && told(*json, "request") == "erased") {
      terminal.err << "No request is kept of it: it is " << told(*json, "state") << ", and the request was erased at "
                   << told(*json, "request_erased_at") << ".\n";
    } else if (!there) {
      terminal.err << "No request is kept of it (" << told(*json, "request") << ").\n";
    }
    if (there) terminal.err << "That the request was shown stands in callgate dead audit.\n";
    return kDone;
  } catch (const Json::exception&) {
    return no_books(kCommand, *reply, terminal);
  }
}

}  // namespace cli
