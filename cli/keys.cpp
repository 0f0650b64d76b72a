#include "cli/keys.h"

#include <nlohmann/json.hpp>
#include <ostream>
#include <string>

#include "gateway/config_values.h"
#include "gateway/issued_key.h"

namespace cli {
namespace {

bool is_tenant_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string_view::npos;
}

}  // namespace

int keys_issue(const Arguments& arguments, Terminal& terminal) {
  const std::string tenant = arguments.get("--tenant");
  if (!is_tenant_name(tenant)) {
    terminal.err << "callgate keys issue: "
                 << (tenant.empty() ? "needs --tenant NAME: whose key it will be"
                                    : gateway::say(tenant) +
                                          " is no tenant's name; one has at most 64 small letters, "
                                          "digits, -, _ and .")
                 << "\nSee \"callgate keys issue --help\".\n";
    return kUsage;
  }
  const std::string key = gateway::new_issued_key();
  const std::string digest = gateway::text_of(gateway::digest_of_key(key));
  const std::string line = "keys: [{sha256: \"" + digest + "\"}]";
  if (arguments.has("--json")) {
    const nlohmann::ordered_json json{{"tenant", tenant}, {"key", key}, {"sha256", digest}, {"yaml", line}};
    terminal.out << json.dump(2) << '\n';
    return kDone;
  }
  terminal.out << key << "\n\ntenants:\n  " << gateway::yaml_text(tenant) << ":\n    " << line << '\n';
  terminal.err
      << "The key is shown this once. The worker puts it in place of the provider's key; the lines below it\n"
         "belong in the configuration, beside other keys of that tenant: keys: [{sha256: …}, {sha256: …}]\n";
  return kDone;
}

}  // namespace cli
