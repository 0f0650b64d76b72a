#include "cli/about.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "classifier/dialect.h"
#include "gateway/config.h"

namespace cli {

int version(const Arguments& arguments, Terminal& terminal) {
  if (arguments.has("--json")) {
    terminal.out << nlohmann::ordered_json{{"version", CALLGATE_VERSION}}.dump(2) << '\n';
  } else {
    terminal.out << "callgate " CALLGATE_VERSION "\n";
  }
  return kDone;
}

int dialects(const Arguments& arguments, Terminal& terminal) {
  const gateway::Config config = gateway::default_config();
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const classifier::Dialect* dialect : classifier::dialects()) {
    std::string names;
    nlohmann::ordered_json upstreams = nlohmann::ordered_json::array();
    for (const gateway::UpstreamConfig& upstream : config.upstreams) {
      if (upstream.dialect != dialect->name()) continue;
      names += (names.empty() ? "" : ", ") + upstream.name;
      upstreams.push_back(upstream.name);
    }
    list.push_back({{"dialect", dialect->name()}, {"built_in_upstreams", upstreams}});
    if (arguments.has("--json")) continue;
    const std::string name{dialect->name()};
    terminal.out << name << std::string(name.size() < 12 ? 12 - name.size() : 1, ' ')
                 << "built-in upstreams: " << names << '\n';
  }
  if (arguments.has("--json")) terminal.out << list.dump(2) << '\n';
  return kDone;
}

}  // namespace cli
