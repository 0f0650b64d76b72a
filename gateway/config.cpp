#include "gateway/config.h"

#include <algorithm>
#include <cassert>
#include <cctype>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

#include "budget/price_book.h"
#include "budget/zone.h"
#include "classifier/cases.h"
#include "classifier/dialect.h"
#include "classifier/rules.h"
#include "gateway/config_files.h"
#include "gateway/config_keys.h"
#include "gateway/config_values.h"
#include "gateway/config_yaml.h"
#include "gateway/otlp_settings.h"
#include "gateway/verdict_rules.h"

extern char** environ;

namespace gateway {
namespace {

using Kind = Problem::Kind;

constexpr std::size_t kLargestFile = 1 << 20;
constexpr std::size_t kMostProblems = 200;
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz0123456789-_.";
// Of systemd.exec(5).
constexpr std::string_view kCredentialsFolder = "CREDENTIALS_DIRECTORY";
constexpr std::string_view kCredentialLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@:+";
constexpr std::size_t kLongestCredential = 255;
constexpr std::string_view kVariablePrefix = "CALLGATE_";
constexpr std::string_view kFileVariable = "CALLGATE_CONFIG";

/// What other programs call these keys.
struct OtherName {
  std::string_view word;
  std::string_view key;
};
constexpr OtherName kOtherNames[] = {
    {"base_url", "url"},        {"endpoint", "url"},     {"api_base", "url"},          {"host", "url"},
    {"provider", "dialect"},    {"type", "dialect"},     {"api", "dialect"},           {"api_key", "credentials"},
    {"key", "credentials"},     {"keys", "credentials"}, {"api_keys", "credentials"},  {"timeout", "timeouts"},
    {"port", "data"},           {"address", "data"},     {"max_attempts", "attempts"}, {"max_retries", "attempts"},
    {"providers", "upstreams"}, {"logging", "log"},      {"server", "listen"},         {"retries", "retry"},
};

struct Place {
  std::string file{};
  int line = 0;
  int column = 0;
};

/// What somebody decided, and where.
struct Decision {
  const Key* key = nullptr;
  Value value{};
  Place place{};
  std::string origin{};
};

bool is_single(Type type) {
  return type != Type::Map && type != Type::List && type != Type::Texts && type != Type::Secret &&
         type != Type::Anything;
}

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

Path operator/(Path path, std::string_view part) {
  path.emplace_back(part);
  return path;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::vector<std::string> names_below(const Branch& branch) {
  std::vector<std::string> names;
  for (const auto& [name, child] : branch.named) names.emplace_back(name);
  return names;
}

/// Path patterns of the groups that have a key of this name.
std::vector<std::string> groups_with(std::string_view name) {
  std::vector<std::string> groups;
  for (const Key& key : config_keys()) {
    const std::size_t dot = key.path.rfind('.');
    if (dot != std::string_view::npos && key.path.substr(dot + 1) == name)
      groups.emplace_back(key.path.substr(0, dot));
  }
  return groups;
}

std::string say_unknown(std::string_view name, const Branch& branch) {
  if (name == "<<") return "merge keys (<<) are not supported; use an alias for the whole map, or write the keys out";
  const std::vector<std::string> names = names_below(branch);
  const std::string unknown = "unknown key; ";
  for (const OtherName& other : kOtherNames) {
    if (other.word == lower(name) && branch.find(other.key))
      return unknown + "here it is called " + std::string{other.key};
  }
  if (const std::string meant = nearest(name, names); !meant.empty()) return unknown + "did you mean " + meant + "?";
  const std::vector<std::string> groups = groups_with(name);
  if (!groups.empty() && groups.size() <= 3)
    return unknown + "it belongs in " + listed(groups) + " (check the indentation)";
  return unknown + "there are: " + listed(names);
}

/// CALLGATE_RETRY__BASE
std::string variable_of(std::string_view key_path) {
  std::string name{kVariablePrefix};
  for (const char c : key_path) name += c == '.' ? "__" : std::string(1, static_cast<char>(std::toupper(c)));
  return name;
}

/// Set in every pod beside a service whose name begins with ours: CALLGATE_SERVICE_HOST, CALLGATE_PORT_4600_TCP, …
bool is_of_kubernetes(std::string_view rest) {
  return rest.ends_with("SERVICE_HOST") || rest.find("SERVICE_PORT") != rest.npos || rest == "PORT" ||
         rest.ends_with("_PORT") || rest.starts_with("PORT_") || rest.find("_PORT_") != rest.npos;
}

std::string form_found(const YamlNode& node) {
  constexpr std::string_view kForms[] = {"empty", "a single value", "a list", "a map"};
  return std::string{kForms[static_cast<std::size_t>(node.form)]};
}

/// From texts to decisions, and on the way everything that is wrong.
class Reader {
 public:
  Reader(std::string file, const Overrides& overrides) : file_(std::move(file)), overrides_(overrides) {}

  void read_file(std::string_view text);
  void read_environment();
  void read_sets();
  /// What OpenTelemetry's own variables say, where nothing else has.
  void read_otel();
  Loaded finish();

 private:
  // Walking the file. `key_place`: where the key stands whose value this is. `refused`: something above is not in
  // this version, so what is below need not say so again.
  void walk(const YamlNode& node, const Branch& branch, const Path& path, const Place& key_place, bool refused);
  void walk_map(const YamlNode& node, const Branch& branch, const Path& path, bool refused);
  void read_scalar(const YamlNode& node, const Key& key, const Path& path, bool refused);
  void read_list(const YamlNode& node, const Key& key, const Path& path, const Place& key_place, bool refused);
  void read_secret(const YamlNode& node, const Key& key, const Path& path, const Place& key_place, bool refused);
  void wrong_form(const YamlNode& node, const Branch& branch, const Path& path, const Place& key_place);
  [[nodiscard]] std::optional<Written> written(const YamlNode& node, const Path& path);

  void decide(const Key& key, const Path& path, Value value, const Place& place, std::string origin, bool refused);
  void override_one(const Path& path, const Branch& branch, const std::string& text, const std::string& origin);
  [[nodiscard]] std::optional<std::pair<Path, const Branch*>> find_by_variable(std::string_view name) const;

  /// Names that exist below a group: built in, in the file, or set.
  [[nodiscard]] std::set<std::string> names_in(std::string_view group) const;
  void settle(const Key& key, const Path& path, const std::string& name, Loaded& loaded) const;
  void settle_all(Loaded& loaded) const;
  /// Lists of maps and maps of lists have no key to be set by, so they are taken whole.
  void settle_rules(const std::string& upstream, Loaded& loaded) const;
  void settle_credentials(UpstreamConfig& upstream, Loaded& loaded) const;
  void settle_groups(UpstreamConfig& upstream, Loaded& loaded) const;
  void settle_route(const std::string& name, Loaded& loaded) const;
  void settle_keys(TenantConfig& tenant, Loaded& loaded) const;
  /// What queues leave out.
  void settle_queues(Config& config) const;
  /// A decision below `path`; what it says is added to `row`, as one would write it.
  [[nodiscard]] const Value* value_below(const Path& path, std::string_view key, std::string& row) const;

  void check_listen(const Config& config);
  void check_secrets(const Config& config);
  void check_payload_key(const Config& config);
  void check_upstreams(const Config& config, Secrets& secrets);
  void check_rules(const UpstreamConfig& upstream);
  void check_credentials(const UpstreamConfig& upstream, Secrets& secrets);
  void check_groups(const UpstreamConfig& upstream);
  void check_default_upstreams(const Config& config);
  void check_routes(const Config& config);
  void check_tenants(Config& config);
  void check_sizes(const Config& config);
  void check_queues(Config& config);
  void check_queue(QueueContract& queue, const Config& config);
  void check_path(const Path& path, const std::optional<JsonPath>& read);
  void load_payload_schema(QueueContract& queue);
  void check_webhooks(Config& config);
  void check_tracing(const Config& config);
  [[nodiscard]] std::string problem_of_otel(const Path& path, const std::string& text) const;
  void take_otel(const Path& path, std::string text, const std::string& variable);
  void load_prices(Config& config);

  void add(Kind kind, const Place& place, const Path& path, std::string message);
  void warn(Kind kind, const Place& place, const Path& path, std::string message);
  void refuse(const Key& key, const Place& place, const Path& path);
  /// It is there but could not be read: that has been said.
  [[nodiscard]] bool said_of(const Path& path) const {
    const std::string text = text_of(path);
    return std::ranges::any_of(problems_,
                               [&](const Problem& p) { return p.path == text || p.path.starts_with(text + "."); });
  }
  [[nodiscard]] bool is_used(std::string_view variable) const {
    return std::ranges::any_of(used_texts_,
                               [&](const std::string& text) { return text.find(variable) != text.npos; });
  }
  [[nodiscard]] Place place_of(const YamlNode& node) const { return {file_, node.line, node.column}; }
  /// Where this was decided, or the next thing above it.
  [[nodiscard]] Place place_of(Path path) const;

  std::string file_;
  const Overrides& overrides_;
  std::map<Path, Decision> decisions_{};
  std::map<Path, Place> entries_{};        // Names in groups of names: {"upstreams", "openai-eu"}.
  std::vector<std::string> used_texts_{};  // Where variables are named.
  std::vector<Problem> problems_{};
};

void Reader::add(Kind kind, const Place& place, const Path& path, std::string message) {
  Problem problem;
  problem.kind = kind;
  problem.file = place.file;
  problem.line = place.line;
  problem.column = place.column;
  problem.path = text_of(path);
  problem.message = std::move(message);
  problems_.push_back(std::move(problem));
}

void Reader::warn(Kind kind, const Place& place, const Path& path, std::string message) {
  add(kind, place, path, std::move(message));
  problems_.back().severity = Problem::Severity::Warning;
}

void Reader::refuse(const Key& key, const Place& place, const Path& path) {
  std::string message = "not in this version: " + std::string{key.later} + "; ";
  if (key.standard.empty()) {
    message += "remove it";
  } else {
    message += "remove it or leave it at " + std::string{key.standard};
  }
  add(Kind::NotInThisVersion, place, path, std::move(message));
}

Place Reader::place_of(Path path) const {
  for (; !path.empty(); path.pop_back()) {
    if (const auto decision = decisions_.find(path); decision != decisions_.end()) return decision->second.place;
    if (const auto entry = entries_.find(path); entry != entries_.end()) return entry->second;
  }
  return {file_, 0, 0};
}

void Reader::read_file(std::string_view text) {
  std::vector<Problem> found;
  const YamlDocument document = read_yaml(text, found);
  for (Problem& problem : found) {
    problem.file = file_;
    problems_.push_back(std::move(problem));
  }
  if (!document.root || document.root->form == YamlNode::Form::Null) return;
  if (document.root->form != YamlNode::Form::Map) {
    add(Kind::Type,
        place_of(*document.root),
        {},
        "must be a map of keys such as listen: and upstreams: (is " + form_found(*document.root) + ")");
    return;
  }
  walk_map(*document.root, config_tree(), {}, false);
}

void Reader::walk_map(const YamlNode& node, const Branch& branch, const Path& path, bool refused) {
  for (const YamlNode::Entry& entry : node.entries) {
    const Path child_path = path / entry.key;
    const Place place{file_, entry.line, entry.column};
    if (entry.key.find("${") != std::string::npos) {
      add(Kind::Syntax, place, child_path, "a key cannot have a substitution; only values can");
      continue;
    }
    const Branch* child = branch.find(entry.key);
    if (!child) {
      add(Kind::UnknownKey, place, child_path, say_unknown(entry.key, branch));
      continue;
    }
    const bool is_name = child == branch.any.get();
    if (is_name) entries_.emplace(child_path, place);
    if (is_name && !refused && child->key && !child->key->later.empty() && child->key->type == Type::Map &&
        !is_built_in(child_path)) {
      refuse(*child->key, place, child_path);
      walk(*entry.value, *child, child_path, place, true);
    } else {
      walk(*entry.value, *child, child_path, place, refused);
    }
  }
}

void Reader::walk(const YamlNode& node, const Branch& branch, const Path& path, const Place& key_place,
                  bool refused) {
  const Type type = branch.key ? branch.key->type : Type::Map;
  switch (node.form) {
    case YamlNode::Form::Null:
      // "retry:" with its keys commented out is a group that says nothing.
      if (is_single(type) || type == Type::Secret || (type == Type::Texts && branch.key->standard.empty())) {
        add(Kind::Missing, key_place, path, "has no value; write one, or remove the line");
      }
      return;
    case YamlNode::Form::Scalar:
      if (is_single(type)) return read_scalar(node, *branch.key, path, refused);
      break;
    case YamlNode::Form::List:
      if (type == Type::Texts) return read_list(node, *branch.key, path, key_place, refused);
      if (!branch.items) break;
      if (branch.key && !branch.key->later.empty() && !node.items.empty() && !refused) {
        refuse(*branch.key, key_place, path);
        refused = true;
      }
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const Path item = path / ("[" + std::to_string(i) + "]");
        entries_.emplace(item, place_of(*node.items[i]));
        walk(*node.items[i], *branch.items, item, place_of(*node.items[i]), refused);
      }
      return;
    case YamlNode::Form::Map:
      if (type == Type::Secret) return read_secret(node, *branch.key, path, key_place, refused);
      if (type == Type::Anything && node.entries.empty()) return;
      if (branch.any || !branch.named.empty()) return walk_map(node, branch, path, refused);
      break;
  }
  if (type == Type::Anything) {
    if (!refused) refuse(*branch.key, key_place, path);
    return;
  }
  wrong_form(node, branch, path, key_place);
}

void Reader::wrong_form(const YamlNode& node, const Branch& branch, const Path& path, const Place& key_place) {
  const Place place = node.form == YamlNode::Form::Scalar ? place_of(node) : key_place;
  const Type type = branch.key ? branch.key->type : Type::Map;
  if (type == Type::Secret) {
    add(Kind::Secret,
        place,
        path,
        "must not stand in the configuration itself; write {file: /path/to/it} or {env: NAME_OF_A_VARIABLE}");
    return;
  }
  // What is there is not repeated: beside a list of keys somebody may have written the key itself.
  std::string is = " (is " + form_found(node);
  std::string form = form_of(branch.key ? *branch.key : Key{.path = {}, .type = Type::Map});
  if (type == Type::Map && !branch.named.empty()) form = "must be a map of keys: " + listed(names_below(branch));
  if (type == Type::Map && branch.any) form = "must be a map of names";
  if (node.form == YamlNode::Form::Scalar && type == Type::Texts) is += "; write it in [ ]";
  const std::size_t colon = node.text.find(':');
  if (type == Type::Map && colon != std::string::npos && colon > 0 && branch.find(node.text.substr(0, colon))) {
    is += "; a space is missing after " + node.text.substr(0, colon + 1);
  }
  add(Kind::Type, place, path, form + is + ")");
}

std::optional<Written> Reader::written(const YamlNode& node, const Path& path) {
  auto substituted = substitute(node.text, overrides_.environment);
  if (!substituted) {
    add(substituted.error().kind, place_of(node), path, substituted.error().message);
    return std::nullopt;
  }
  if (substituted->any) used_texts_.push_back(node.text);
  // The value of a variable is not repeated; it may be a secret that was put in the wrong place.
  const std::string said = substituted->any ? "what " + say(node.text) + " stands for" : say(node.text);
  return Written{.text = substituted->text, .said = said, .quoted = node.quoted, .untyped = substituted->any};
}

void Reader::read_scalar(const YamlNode& node, const Key& key, const Path& path, bool refused) {
  const std::optional<Written> found = written(node, path);
  if (!found) return;
  auto value = read_value(key, *found);
  if (!value) {
    add(value.error().kind, place_of(node), path, value.error().message);
    return;
  }
  decide(key, path, std::move(*value), place_of(node), file_ + ":" + std::to_string(node.line), refused);
}

void Reader::read_list(const YamlNode& node, const Key& key, const Path& path, const Place& key_place, bool refused) {
  std::vector<Written> items;
  bool good = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& item = *node.items[i];
    const Path item_path = path / ("[" + std::to_string(i) + "]");
    if (item.form != YamlNode::Form::Scalar) {
      add(Kind::Type, place_of(item), item_path, "must be text (is " + form_found(item) + ")");
      good = false;
      continue;
    }
    std::optional<Written> found = written(item, item_path);
    const Key text_key{.path = key.path, .type = Type::Text};
    const auto value = found ? read_value(text_key, *found) : std::expected<Value, Mistake>{};
    if (!value) add(value.error().kind, place_of(item), item_path, value.error().message);
    good = good && found && value;
    if (found) items.push_back(std::move(*found));
  }
  if (!good) return;
  auto value = read_texts(key, items);
  if (!value) {
    add(value.error().kind, place_of(node), path, value.error().message);
    return;
  }
  decide(key, path, std::move(*value), key_place, file_ + ":" + std::to_string(node.line), refused);
}

void Reader::read_secret(const YamlNode& node, const Key& key, const Path& path, const Place& key_place,
                         bool refused) {
  const std::string kind = node.entries.size() == 1 ? node.entries[0].key : std::string{};
  const bool file = kind == "file";
  const bool credential = kind == "credential";
  if ((!file && !credential && kind != "env") || node.entries[0].value->form != YamlNode::Form::Scalar) {
    add(Kind::Secret, key_place, path, form_of(key));
    return;
  }
  const YamlNode& where = *node.entries[0].value;
  const std::optional<Written> found = written(where, path / kind);
  if (!found) return;
  const auto refuse_name = [&](const std::string& message) {
    add(Kind::Secret, place_of(where), path / kind, message);
  };
  // What is no name is not repeated: it may be the secret.
  if (file && found->text.empty()) return refuse_name("must be the path of a file");
  if (kind == "env" && !is_variable_name(found->text))
    return refuse_name("must be the name of an environment variable");
  if (credential && (found->text.empty() || found->text.starts_with('.') || found->text.size() > kLongestCredential ||
                     found->text.find_first_not_of(kCredentialLetters) != std::string::npos)) {
    return refuse_name("must be the name of a credential of the systemd unit, such as in LoadCredential=NAME:FILE");
  }
  if (kind == "env") used_texts_.push_back(found->text);
  Value value{.shown = "{" + kind + ": " + yaml_text(found->text) + "}",
              .text = found->text,
              .number = static_cast<std::int64_t>(kind == "env" ? SecretSource::From::Environment
                                                                : SecretSource::From::File)};
  if (credential) {
    const auto folder = overrides_.environment.find(kCredentialsFolder);
    if (folder == overrides_.environment.end() || folder->second.empty()) {
      return refuse_name(
          "is in the folder that CREDENTIALS_DIRECTORY names, which is not set; systemd does that for a unit with "
          "LoadCredential=NAME:FILE");
    }
    value.text = folder->second + "/" + found->text;
  }
  decide(key, path, std::move(value), key_place, file_ + ":" + std::to_string(node.line), refused);
}

void Reader::decide(const Key& key, const Path& path, Value value, const Place& place, std::string origin,
                    bool refused) {
  const bool changed = key.standard.empty() || !value.same_as(read_standard(key, key.standard));
  if (!key.later.empty() && changed && !refused) refuse(key, place, path);
  decisions_[path] = {&key, std::move(value), place, std::move(origin)};
}

void Reader::override_one(const Path& path, const Branch& branch, const std::string& text,
                          const std::string& origin) {
  const Place place{origin, 0, 0};
  const Type type = branch.key ? branch.key->type : Type::Map;
  if (!is_single(type) && type != Type::Texts) {
    add(Kind::Type, place, path, "cannot be set here; only single values and lists of texts can");
    return;
  }
  std::expected<Value, Mistake> value;
  if (type == Type::Texts) {
    std::vector<Written> items;
    for (std::string_view rest = text; !rest.empty();) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      std::string_view item = rest.substr(0, comma);
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      while (item.starts_with(' ')) item.remove_prefix(1);
      while (item.ends_with(' ')) item.remove_suffix(1);
      items.push_back({.text = std::string{item}, .said = say(item), .untyped = true});
    }
    value = read_texts(*branch.key, items);
  } else {
    value = read_value(*branch.key, {.text = text, .said = say(text), .untyped = true});
  }
  if (!value) {
    add(value.error().kind, place, path, value.error().message);
    return;
  }
  if (path.size() > 1) entries_.emplace(Path{path[0], path[1]}, place);
  decide(*branch.key, path, std::move(*value), place, origin, false);
}

/// CALLGATE_UPSTREAMS__OPENAI_EU__URL: levels are parted by "__", and a variable cannot say "-" or ".".
std::optional<std::pair<Path, const Branch*>> Reader::find_by_variable(std::string_view name) const {
  Path path;
  const Branch* branch = &config_tree();
  while (true) {
    const std::size_t end = std::min(name.find("__"), name.size());
    std::string part = lower(name.substr(0, end));
    const Branch* child = branch->find(part);
    if (!child || part.empty()) return std::nullopt;
    if (child == branch->any.get()) {
      for (const std::string& known : names_in(text_of(path))) {
        std::string plain = lower(known);
        std::ranges::replace_if(
            plain, [](char c) { return c == '-' || c == '.'; }, '_');
        if (plain == part) part = known;
      }
    }
    path.push_back(part);
    branch = child;
    if (end == name.size()) return std::pair{path, branch};
    name.remove_prefix(end + 2);
  }
}

void Reader::read_environment() {
  std::vector<std::string> right_names;
  for (const Key& key : config_keys()) {
    if (is_single(key.type) || key.type == Type::Texts) right_names.push_back(variable_of(key.path));
  }
  for (const auto& [name, value] : overrides_.environment) {
    if (!name.starts_with(kVariablePrefix) || value.empty()) continue;
    const std::string_view rest = std::string_view{name}.substr(kVariablePrefix.size());
    const Place place{name, 0, 0};
    if (rest.find("__") != std::string_view::npos) {
      if (const auto found = find_by_variable(rest)) {
        override_one(found->first, *found->second, value, name);
        continue;
      }
      const std::string meant = nearest(name, right_names);
      add(Kind::UnknownKey,
          place,
          {},
          "names no key; " + (meant.empty() ? "two underscores part the levels, as in CALLGATE_LOG__LEVEL"
                                            : "did you mean " + meant + "?"));
      continue;
    }
    if (name == kFileVariable || is_of_kubernetes(rest) || is_used(name)) continue;
    std::string meant = nearest(name, right_names);
    for (const std::string& right : right_names) {
      std::string single = right;
      for (std::size_t at = 0; (at = single.find("__")) != std::string::npos;) single.erase(at, 1);
      if (single == name) meant = right;
    }
    warn(Kind::UnknownKey,
         place,
         {},
         "is not used; " + (meant.empty() ? "two underscores part the levels of a key, as in CALLGATE_LOG__LEVEL"
                                          : "did you mean " + meant + "?"));
  }
}

void Reader::read_sets() {
  for (const std::string& set : overrides_.sets) {
    const std::size_t equals = set.find('=');
    const Path path = path_of(std::string_view{set}.substr(0, equals));
    const Branch* branch = &config_tree();
    const Branch* parent = branch;
    for (auto part = path.begin(); branch && part != path.end(); ++part) {
      parent = branch;
      branch = branch->find(*part);
      if (!branch) {
        const Path until(path.begin(), part + 1);
        add(Kind::UnknownKey, {"--set", 0, 0}, until, say_unknown(*part, *parent));
      }
    }
    if (path.empty() || equals == std::string::npos) {
      add(Kind::Syntax, {"--set", 0, 0}, {}, "must be KEY=VALUE, such as retry.base=1s (is " + say(set) + ")");
    } else if (branch) {
      override_one(path, *branch, set.substr(equals + 1), "--set");
    }
  }
}

std::set<std::string> Reader::names_in(std::string_view group) const {
  std::set<std::string> names;
  for (const BuiltIn& setting : built_in_settings()) {
    const Path path = path_of(setting.path);
    if (path[0] == group) names.insert(path[1]);
  }
  for (const auto& [path, place] : entries_) {
    if (path[0] == group && path.size() == 2) names.insert(path[1]);
  }
  return names;
}

void Reader::settle(const Key& key, const Path& path, const std::string& name, Loaded& loaded) const {
  const auto decision = decisions_.find(path);
  const std::string text = text_of(path);
  const auto built_in = std::ranges::find(built_in_settings(), text, &BuiltIn::path);
  Setting setting{.path = path};
  Value value;
  if (decision != decisions_.end()) {
    value = decision->second.value;
    setting.origin = decision->second.origin;
  } else if (built_in != built_in_settings().end()) {
    value = read_standard(key, built_in->value);
    setting.origin = "built in";
  } else if (!key.standard.empty()) {
    value = read_standard(key, key.standard);
    setting.origin = "default";
  } else {
    return;
  }
  setting.value = value.shown;
  key.apply(loaded.config, name, value);
  loaded.settings.push_back(std::move(setting));
}

void Reader::settle_all(Loaded& loaded) const {
  const std::span<const Key> keys = config_keys();
  for (auto key = keys.begin(); key != keys.end();) {
    const std::size_t star = key->path.find(".*");
    if (star == std::string_view::npos) {
      if (key->apply) settle(*key, path_of(key->path), {}, loaded);
      ++key;
      continue;
    }
    // A group of names: all keys of one name together.
    const std::string_view group = key->path.substr(0, star);
    const std::string prefix = std::string{group} + ".*";
    const auto end = std::find_if(key, keys.end(), [&](const Key& k) { return !k.path.starts_with(prefix); });
    for (const std::string& name : names_in(group)) {
      for (auto one = key; one != end; ++one) {
        if (!one->apply) continue;
        Path path = path_of(one->path);
        path[1] = name;
        settle(*one, path, name, loaded);
      }
      if (group == "routes") settle_route(name, loaded);
      const auto tenant = std::ranges::find(loaded.config.tenants, name, &TenantConfig::name);
      if (group == "tenants" && tenant != loaded.config.tenants.end()) settle_keys(*tenant, loaded);
      const auto upstream = std::ranges::find(loaded.config.upstreams, name, &UpstreamConfig::name);
      if (group != "upstreams" || upstream == loaded.config.upstreams.end()) continue;
      settle_credentials(*upstream, loaded);
      settle_groups(*upstream, loaded);
      settle_rules(name, loaded);
    }
    key = end;
  }
}

Path path_of_rule(const std::string& upstream, std::size_t index) {
  return Path{"upstreams", upstream, "classifier", "rules", "[" + std::to_string(index) + "]"};
}

const Value* Reader::value_below(const Path& path, std::string_view key, std::string& row) const {
  const auto decision = decisions_.find(path / key);
  if (decision == decisions_.end()) return nullptr;
  row += (row.empty() ? "" : ", ") + std::string{key} + ": " + decision->second.value.shown;
  return &decision->second.value;
}

void Reader::settle_rules(const std::string& name, Loaded& loaded) const {
  const auto upstream = std::ranges::find(loaded.config.upstreams, name, &UpstreamConfig::name);
  std::string shown;
  std::string origin;
  for (std::size_t index = 0;; ++index) {
    const Path path = path_of_rule(name, index);
    const auto entry = entries_.find(path);
    if (entry == entries_.end()) break;
    RuleConfig rule{.file = entry->second.file, .line = entry->second.line};
    std::string row;
    if (const Value* status = value_below(path, "status", row)) rule.status = static_cast<int>(status->number);
    if (const Value* code = value_below(path, "code", row)) rule.code = code->text;
    if (const Value* text = value_below(path, "text", row)) rule.text = text->text;
    if (const Value* cls = value_below(path, "class", row)) rule.cls = cls->text;
    if (const Value* retryable = value_below(path, "retryable", row)) rule.retryable = retryable->number == 1;
    shown += (shown.empty() ? "[{" : ", {") + row + "}";
    if (origin.empty()) origin = rule.file + ":" + std::to_string(rule.line);
    upstream->rules.push_back(std::move(rule));
  }
  if (!shown.empty())
    loaded.settings.push_back({{"upstreams", name, "classifier", "rules"}, shown + "]", std::move(origin)});
}

std::string origin_of(const std::string& file, int line) {
  return line > 0 ? file + ":" + std::to_string(line) : file;
}

void Reader::settle_credentials(UpstreamConfig& upstream, Loaded& loaded) const {
  const Path list{"upstreams", upstream.name, "credentials"};
  std::string shown;
  std::string origin;
  for (std::size_t index = 0;; ++index) {
    const Path path = list / ("[" + std::to_string(index) + "]");
    const auto entry = entries_.find(path);
    if (entry == entries_.end()) break;
    CredentialConfig credential;
    std::string row;
    if (const Value* name = value_below(path, "name", row)) credential.name = name->text;
    if (const Value* key = value_below(path, "key", row))
      credential.key = {static_cast<SecretSource::From>(key->number), key->text};
    if (const Value* weight = value_below(path, "weight", row)) credential.weight = weight->real;
    shown += (shown.empty() ? "[{" : ", {") + row + "}";
    if (origin.empty()) origin = origin_of(entry->second.file, entry->second.line);
    upstream.credentials.push_back(std::move(credential));
  }
  if (!shown.empty()) loaded.settings.push_back({list, shown + "]", std::move(origin)});
}

void Reader::settle_groups(UpstreamConfig& upstream, Loaded& loaded) const {
  const Path groups{"upstreams", upstream.name, "limits", "groups"};
  for (const auto& [path, decision] : decisions_) {
    if (decision.key->path != "upstreams.*.limits.groups.*" || path[1] != upstream.name) continue;
    upstream.groups[path.back()] = decision.value.texts;
    loaded.settings.push_back({path, decision.value.shown, decision.origin});
  }
}

void Reader::settle_route(const std::string& name, Loaded& loaded) const {
  RouteConfig route{.name = name};
  std::string shown;
  const Path list{"routes", name, "try"};
  for (std::size_t index = 0;; ++index) {
    const Path path = list / ("[" + std::to_string(index) + "]");
    const auto entry = entries_.find(path);
    if (entry == entries_.end()) break;
    RouteStep step;
    std::string row;
    if (const auto plain = decisions_.find(path); plain != decisions_.end()) {
      step.upstream = plain->second.value.text;
      row = plain->second.value.shown;
    } else {
      if (const Value* upstream = value_below(path, "upstream", row)) step.upstream = upstream->text;
      if (const Value* weight = value_below(path, "weight", row)) step.weight = weight->real;
      std::string models;
      for (const auto& [below, decision] : decisions_) {
        const bool mine = below.size() == path.size() + 2 && below[path.size()] == "models" &&
                          std::equal(path.begin(), path.end(), below.begin());
        if (!mine) continue;
        step.models[below.back()] = decision.value.text;
        models += (models.empty() ? "" : ", ") + yaml_text(below.back()) + ": " + decision.value.shown;
      }
      if (!models.empty()) row += (row.empty() ? "models: {" : ", models: {") + models + "}";
      row = "{" + row + "}";
    }
    shown += (shown.empty() ? "[" : ", ") + row;
    route.steps.push_back(std::move(step));
  }
  const Place place = place_of(list);
  if (!shown.empty()) loaded.settings.push_back({list, shown + "]", origin_of(place.file, place.line)});
  loaded.config.routes.push_back(std::move(route));
}

void Reader::settle_keys(TenantConfig& tenant, Loaded& loaded) const {
  const Path list{"tenants", tenant.name, "keys"};
  std::string shown;
  std::string origin;
  for (std::size_t index = 0;; ++index) {
    const Path path = list / ("[" + std::to_string(index) + "]");
    const auto entry = entries_.find(path);
    if (entry == entries_.end()) break;
    std::string row;
    const Value* digest = value_below(path, "sha256", row);
    shown += (shown.empty() ? "[{" : ", {") + row + "}";
    if (origin.empty()) origin = origin_of(entry->second.file, entry->second.line);
    tenant.keys.push_back(digest ? lower(digest->text) : std::string{});
  }
  if (!shown.empty()) loaded.settings.push_back({list, shown + "]", std::move(origin)});
}

void Reader::check_tenants(Config& config) {
  std::map<std::string, std::string> owner_of;
  for (TenantConfig& tenant : config.tenants) {
    const Path path{"tenants", tenant.name};
    if (tenant.name.empty() || tenant.name.size() > 64 ||
        tenant.name.find_first_not_of(kNameLetters) != std::string::npos) {
      add(Kind::Type,
          place_of(path),
          path,
          "must be a name of at most 64 small letters, digits, -, _ and ., since it is a label in metrics");
    }
    const Branch& keys = *config_tree().find("tenants")->any;
    if (std::ranges::any_of(keys.named, [&](const auto& key) { return key.first == tenant.name; })) {
      std::erase_if(problems_, [&](const Problem& p) {
        return p.path == text_of(path) || p.path.starts_with(text_of(path) + ".");
      });
      add(Kind::Reference,
          place_of(path),
          path,
          "is a key of a tenant, but stands where the tenants' names do; indent it below the name of one");
      continue;
    }
    for (std::size_t index = 0; index < tenant.keys.size(); ++index) {
      const Path item = path / "keys" / ("[" + std::to_string(index) + "]");
      const std::string& digest = tenant.keys[index];
      if (said_of(item)) continue;
      if (digest.starts_with("cg_")) {
        // Not repeated: it is the secret.
        add(Kind::Secret,
            place_of(item / "sha256"),
            item / "sha256",
            "must be the digest of an issued key, not the key; `callgate keys issue` prints both");
        continue;
      }
      if (digest.size() != 64 || digest.find_first_not_of("0123456789abcdef") != std::string::npos) {
        add(digest.empty() ? Kind::Missing : Kind::Type,
            place_of(item / "sha256"),
            item,
            digest.empty() ? "needs sha256: the digest that `callgate keys issue` printed"
                           : "sha256 must be 64 hexadecimal digits, as `callgate keys issue` prints them");
        continue;
      }
      const auto [owner, fresh] = owner_of.try_emplace(digest, tenant.name);
      if (!fresh) {
        add(Kind::DuplicateKey,
            place_of(item / "sha256"),
            item / "sha256",
            owner->second == tenant.name ? "stands in this list twice"
                                         : "is a key of " + owner->second + ", too; a key is one tenant's");
      }
    }
    for (const std::string& pattern : tenant.models) {
      const Path where = path / "models" / "allow";
      if (pattern.empty() || pattern.size() > 256 ||
          std::ranges::any_of(pattern, [](unsigned char c) { return c <= ' ' || c == 127; })) {
        add(Kind::Type,
            place_of(where),
            where,
            "must be names of models or patterns with * (has " + say(pattern) + ")");
      } else if (pattern.find_first_of("?[]{}^$|\\") != std::string::npos) {
        add(Kind::Type,
            place_of(where),
            where,
            "has " + say(pattern) + "; only * has a meaning in patterns, and no model's name has such a character");
      }
    }
  }
  std::ranges::sort(config.tenants, {}, &TenantConfig::name);
  const Path zone{"budget", "time_zone"};
  try {
    const budget::Zone known{config.time_zone};
  } catch (const std::invalid_argument&) {
    add(Kind::Reference,
        place_of(zone),
        zone,
        "must be a name of the time-zone database of this machine, such as UTC or Europe/Berlin (is " +
            say(config.time_zone) + ")");
  }
}

void Reader::check_credentials(const UpstreamConfig& upstream, Secrets& secrets) {
  const Path list{"upstreams", upstream.name, "credentials"};
  std::set<std::string> names;
  for (std::size_t index = 0; index < upstream.credentials.size(); ++index) {
    const CredentialConfig& credential = upstream.credentials[index];
    const Path path = list / ("[" + std::to_string(index) + "]");
    if (said_of(path)) continue;
    if (credential.name.empty()) {
      add(Kind::Missing, place_of(path), path, "needs name: how metrics and log call it");
      continue;
    }
    if (credential.name.size() > 64 || credential.name.find_first_not_of(kNameLetters) != std::string::npos) {
      add(Kind::Type,
          place_of(path / "name"),
          path / "name",
          "must be a name of at most 64 small letters, digits, -, _ and ., since it is a label in metrics");
    }
    if (credential.name == "caller") {
      add(Kind::Reference,
          place_of(path / "name"),
          path / "name",
          "is what a caller's own key is called; choose another one");
    }
    if (!names.insert(credential.name).second) {
      add(Kind::DuplicateKey,
          place_of(path / "name"),
          path / "name",
          "is the name of another credential of this upstream, too (" + say(credential.name) + ")");
    }
    if (!credential.key.given()) {
      add(Kind::Missing, place_of(path), path, "needs key: {file: /path/to/it} or {env: NAME_OF_A_VARIABLE}");
      continue;
    }
    auto key = read_key(credential.key, overrides_.environment);
    if (!key) {
      add(Kind::Secret, place_of(path / "key"), path / "key", key.error());
      continue;
    }
    secrets[secret_name(upstream.name, credential.name)] = std::move(*key);
    if (credential.key.from == SecretSource::From::File && open_to_others(credential.key.name))
      warn(Kind::Exposure, place_of(path / "key"), path / "key", "is in a file that anybody can read; chmod 0640 it");
  }
}

void Reader::check_groups(const UpstreamConfig& upstream) {
  std::map<std::string, std::string> group_of;
  for (const auto& [group, models] : upstream.groups) {
    const Path path{"upstreams", upstream.name, "limits", "groups", group};
    for (const std::string& model : models) {
      const auto [other, fresh] = group_of.try_emplace(model, group);
      if (fresh) continue;
      add(Kind::Reference,
          place_of(path),
          path,
          "has " + say(model) + ", which " +
              (other->second == group ? "stands in it twice" : "is in " + other->second + ", too"));
    }
  }
}

void Reader::check_rules(const UpstreamConfig& upstream) {
  std::vector<classifier::ExtraRule> earlier;
  for (std::size_t index = 0; index < upstream.rules.size(); ++index) {
    const RuleConfig& rule = upstream.rules[index];
    const Path path = path_of_rule(upstream.name, index);
    const auto wrong = [&](Kind kind, const Path& where, std::string why) {
      if (!said_of(path)) add(kind, place_of(where), where, std::move(why));
    };
    if (rule.cls.empty()) wrong(Kind::Missing, path, "needs class: what such an answer means");
    if (rule.status == 0 && rule.code.empty() && rule.text.empty())
      wrong(Kind::Missing, path, "needs at least one of status, code and text, or it would fit any error");
    if (!rule.code.empty() && !classifier::rule_for_code(rule.code))
      wrong(Kind::Reference, path / "code", "can never fit: it has no letter or digit");
    if (const std::size_t star = rule.code.find('*', 1); star != std::string::npos && star + 1 < rule.code.size())
      wrong(Kind::Reference, path / "code", "has a * inside; one may stand before or behind a word");
    if (rule.text.find_first_not_of(" *") == std::string::npos && !rule.text.empty())
      wrong(Kind::Reference, path / "text", "can never fit: it has nothing to look for");
    if (rule.status != 0 && (rule.status < 200 || rule.status == 204 || rule.status == 205 || rule.status == 304))
      wrong(Kind::Reference, path / "status", "can never fit: such an answer is no error");
    if (said_of(path)) continue;
    classifier::ExtraRule read = classifier_rule(rule, {});
    const auto covering = std::ranges::find_if(earlier, [&](const auto& one) { return covers(one, read); });
    if (covering != earlier.end()) {
      wrong(Kind::Reference,
            path,
            "can never fit: all that it fits is taken by the rule before it in " + covering->name);
    }
    read.name = "line " + std::to_string(rule.line);
    earlier.push_back(std::move(read));
  }
}

void Reader::check_listen(const Config& config) {
  const auto data = read_address(config.listen.data);
  const auto health = read_address(config.listen.health);
  const auto admin = read_address(config.listen.admin);
  const Path data_path{"listen", "data"};
  const Path health_path{"listen", "health"};
  const Path admin_path{"listen", "admin"};
  const bool keys = std::ranges::any_of(config.tenants, [](const TenantConfig& one) { return !one.keys.empty(); });
  if (data && !data->loopback && !(config.refuse_unknown && keys)) {
    const std::string missing =
        config.refuse_unknown ? "a tenant with issued keys (callgate keys issue)"
        : keys                ? "tenancy: {unknown: refuse}"
                              : "tenancy: {unknown: refuse} and a tenant with issued keys (callgate keys issue)";
    add(Kind::Missing,
        place_of(data_path),
        data_path,
        "needs " + missing + ", since others can reach this address; or use 127.0.0.1:" + std::to_string(data->port) +
            ", [::1]:" + std::to_string(data->port) + " or unix:/path");
  } else if (data && !data->loopback) {
    warn(Kind::Exposure,
         place_of(data_path),
         data_path,
         "lets keys and prompts cross the network unencrypted; use 127.0.0.1 or unix:/path if that will do");
  }
  if (health && !health->unix_path.empty()) {
    add(Kind::Type,
        place_of(health_path),
        health_path,
        "must be host:port; probes and Prometheus cannot use a unix socket");
  }
  if (admin && !admin->loopback && !config.listen.admin_token.given() && !said_of({"listen", "admin_token"})) {
    add(Kind::Missing,
        place_of(admin_path),
        admin_path,
        "needs listen.admin_token, since others can reach this address; write admin_token: {file: /path/to/it}, or "
        "use "
        "127.0.0.1:" +
            std::to_string(admin->port) + " or unix:/path");
  } else if (admin && !admin->loopback) {
    warn(Kind::Exposure,
         place_of(admin_path),
         admin_path,
         "lets the token cross the network unencrypted; use 127.0.0.1 or unix:/path if that will do");
  }
  struct Listener {
    const std::optional<Address>& address;
    const Path& path;
  };
  const Listener listeners[] = {{data, data_path}, {health, health_path}, {admin, admin_path}};
  for (const Listener& one : listeners) {
    for (const Listener& other : std::span{listeners, &one}) {
      if (!one.address || !other.address) continue;
      const bool same = one.address->unix_path == other.address->unix_path &&
                        one.address->port == other.address->port && one.address->host == other.address->host &&
                        (one.address->port != 0 || !one.address->unix_path.empty());
      if (!same) continue;
      const Path& path = decisions_.contains(one.path) ? one.path : other.path;
      add(Kind::Reference,
          place_of(path),
          path,
          text_of(other.path) + " and " + text_of(one.path) + " must not be the same address");
    }
  }
  const Path hosts_path{"listen", "hosts"};
  for (const std::string& host : config.listen.hosts) {
    const bool v6 = host.starts_with('[') && host.ends_with(']');
    const bool good = !host.empty() && host.find_first_of(" /*") == std::string::npos &&
                      (v6 || host.find(':') == std::string::npos);
    if (!good) {
      add(Kind::Type,
          place_of(hosts_path),
          hosts_path,
          "must be host names without scheme, port or * (has " + say(host) + "); IPv6 addresses stand in [ ]");
    }
  }
}

void Reader::check_payload_key(const Config& config) {
  const Path path{"store", "payload_key"};
  const SecretSource& source = config.store.payload_key;
  if (!source.given()) return;
  if (const auto keys = read_payload_keys(source, overrides_.environment); !keys) {
    add(Kind::Secret, place_of(path), path, keys.error());
  }
  if (config.store.payloads != Config::Store::Payloads::Auto) {
    warn(Kind::Exposure, place_of(path), path, "is not used, since store.payloads is not auto");
  } else if (source.from == SecretSource::From::File && open_to_others(source.name)) {
    warn(Kind::Exposure, place_of(path), path, "is in a file that anybody can read; chmod 0640 it");
  }
}

void Reader::check_secrets(const Config& config) {
  const Path path{"listen", "admin_token"};
  const SecretSource& source = config.listen.admin_token;
  if (!source.given()) return;
  if (const auto token = read_token(source, overrides_.environment); !token) {
    add(Kind::Secret, place_of(path), path, token.error());
  }
  if (source.from == SecretSource::From::File && open_to_others(source.name)) {
    warn(Kind::Exposure, place_of(path), path, "is in a file that anybody can read; chmod 0640 it");
  }
}

void Reader::check_upstreams(const Config& config, Secrets& secrets) {
  std::vector<std::string> dialects;
  for (const classifier::Dialect* dialect : classifier::dialects()) dialects.emplace_back(dialect->name());

  for (const std::string_view group : {"upstreams", "routes"}) {
    for (const std::string& name : names_in(group)) {
      const Path path{std::string{group}, name};
      const bool good = !name.empty() && name.size() <= 64 && name != "." && name != ".." &&
                        name.find_first_not_of(kNameLetters) == std::string::npos;
      if (!good) {
        add(Kind::Type,
            place_of(path),
            path,
            "must be a name of at most 64 small letters, digits, -, _ and ., since it stands in URLs");
      }
      if (std::ranges::find(reserved_names(), name) != reserved_names().end()) {
        add(Kind::Reference, place_of(path), path, "is a reserved name; choose another one");
      }
    }
  }

  for (const UpstreamConfig& upstream : config.upstreams) {
    const Path path{"upstreams", upstream.name};
    const auto missing = [&](std::string_view key) {
      if (!said_of(path / key))
        add(Kind::Missing, place_of(path), path, "needs " + std::string{key} + ", since it is not built in");
    };
    const Branch& keys = *config_tree().find("upstreams")->any;
    if (upstream.dialect.empty() && upstream.url.empty() && keys.find(upstream.name)) {
      std::erase_if(problems_, [&](const Problem& p) { return p.path.starts_with(text_of(path) + "."); });
      add(Kind::Reference,
          place_of(path),
          path,
          "is a key of an upstream, but stands where the upstreams' names do; indent it below the name of one");
      continue;
    }
    if (upstream.dialect.empty()) {
      missing("dialect");
    } else if (!classifier::find_dialect(upstream.dialect)) {
      const std::string meant = nearest(upstream.dialect, dialects);
      add(Kind::Reference,
          place_of(path / "dialect"),
          path / "dialect",
          "must be a dialect of this version: " + listed(dialects) + " (is " + say(upstream.dialect) +
              (meant.empty() ? ")" : "; did you mean " + meant + "?)"));
    }
    if (upstream.url.empty()) {
      missing("url");
    } else if (const auto url = read_url(upstream.url)) {
      if (!url->https && !url->loopback) {
        warn(Kind::Exposure,
             place_of(path / "url"),
             path / "url",
             "sends keys and prompts unencrypted to another machine; use https:// if it is there");
      }
    }
    if (!upstream.ca_file.empty()) {
      if (const std::string why = no_authorities_in(upstream.ca_file); !why.empty()) {
        add(Kind::Reference, place_of(path / "ca_file"), path / "ca_file", why);
      }
    }
    check_rules(upstream);
    check_credentials(upstream, secrets);
    check_groups(upstream);
    for (const std::string& safe : upstream.replay_safe) {
      if (!safe.starts_with('/')) {
        add(Kind::Type,
            place_of(path / "replay_safe"),
            path / "replay_safe",
            "must be paths that begin with / (has " + say(safe) + ")");
      }
    }
  }
}

/// Also if it only imitates it, as most do OpenAI's. An unknown one has been told of.
bool speaks(std::string_view theirs, std::string_view dialect) {
  const classifier::Dialect* found = classifier::find_dialect(theirs);
  return !found || theirs == dialect || found->endpoint("POST", classifier::usual_path(dialect)).understood;
}

void Reader::check_default_upstreams(const Config& config) {
  const std::set<std::string> routes = names_in("routes");
  for (const auto& [dialect, name] : config.default_upstream) {
    const Path path{"default_upstream", dialect};
    if (!classifier::find_dialect(dialect)) {
      std::vector<std::string> dialects;
      for (const classifier::Dialect* known : classifier::dialects()) dialects.emplace_back(known->name());
      const std::string meant = nearest(dialect, dialects);
      add(Kind::UnknownKey,
          place_of(path),
          path,
          "is not a dialect of this version; " +
              (meant.empty() ? "there are: " + listed(dialects) : "did you mean " + meant + "?"));
      continue;
    }
    const auto upstream = std::ranges::find(config.upstreams, name, &UpstreamConfig::name);
    if (upstream == config.upstreams.end()) {
      if (routes.contains(name)) continue;
      std::vector<std::string> names;
      for (const UpstreamConfig& known : config.upstreams) names.push_back(known.name);
      const std::string meant = nearest(name, names);
      add(Kind::Reference,
          place_of(path),
          path,
          "names no upstream (is " + say(name) +
              (meant.empty() ? "; there are: " + listed(names) + ")" : "; did you mean " + meant + "?)"));
    } else if (!speaks(upstream->dialect, dialect)) {
      add(Kind::Reference,
          place_of(path),
          path,
          "must name an upstream that speaks " + dialect + " (" + say(name) + " speaks " + upstream->dialect + ")");
    }
  }
}

void Reader::check_routes(const Config& config) {
  for (const RouteConfig& route : config.routes) {
    const Path path{"routes", route.name};
    const auto same_name = std::ranges::find(config.upstreams, route.name, &UpstreamConfig::name);
    if (same_name != config.upstreams.end())
      add(Kind::Reference, place_of(path), path, "is the name of an upstream, too; choose another one");
    if (route.steps.empty() && !said_of(path))
      add(Kind::Missing, place_of(path), path, "needs try: a list of upstreams, such as try: [openai]");

    std::string dialect;
    std::set<std::string> seen;
    for (std::size_t index = 0; index < route.steps.size(); ++index) {
      const RouteStep& step = route.steps[index];
      Path where = path / "try" / ("[" + std::to_string(index) + "]");
      if (said_of(where)) continue;
      if (step.upstream.empty()) {
        add(Kind::Missing, place_of(where), where, "needs upstream: the name of one");
        continue;
      }
      if (decisions_.contains(where / "upstream")) where = where / "upstream";
      const auto upstream = std::ranges::find(config.upstreams, step.upstream, &UpstreamConfig::name);
      if (upstream == config.upstreams.end()) {
        std::vector<std::string> names;
        for (const UpstreamConfig& known : config.upstreams) names.push_back(known.name);
        const std::string meant = nearest(step.upstream, names);
        add(Kind::Reference,
            place_of(where),
            where,
            "names no upstream (is " + say(step.upstream) +
                (meant.empty() ? "; there are: " + listed(names) + ")" : "; did you mean " + meant + "?)"));
        continue;
      }
      if (dialect.empty()) dialect = upstream->dialect;
      if (upstream->dialect != dialect) {
        add(Kind::Reference,
            place_of(where),
            where,
            "must speak the dialect of the route's first upstream, " + dialect + " (" + say(step.upstream) +
                " speaks " + upstream->dialect + ")");
      }
      if (!seen.insert(step.upstream).second)
        add(Kind::Reference, place_of(where), where, "stands in this route twice (" + say(step.upstream) + ")");
    }
  }
}

void Reader::settle_queues(Config& config) const {
  const auto take = [&](QueueContract& queue) {
    const Path retry{"queues", queue.name, "retry"};
    if (!decisions_.contains(retry / "max_attempts")) queue.retry.max_attempts = config.runs.max_attempts;
    if (!decisions_.contains(retry / "max_elapsed")) queue.retry.max_elapsed = config.runs.max_elapsed;
    if (!decisions_.contains(retry / "backoff" / "base")) queue.retry.base = config.retry.base;
    if (!decisions_.contains(retry / "backoff" / "cap"))
      queue.retry.cap = std::max(config.retry.cap, queue.retry.base);
  };
  for (QueueContract& queue : config.queues) take(queue);
  take(config.other_queues);
}

/// What could not be read of a path in the body.
void Reader::check_path(const Path& path, const std::optional<JsonPath>& read) {
  const auto decision = decisions_.find(path);
  if (decision == decisions_.end() || read) return;
  const std::string& text = decision->second.value.text;
  add(Kind::Type, place_of(path), path, JsonPath::read(text).error() + " (is " + say(text) + ")");
}

/// Problems of a schema are told with its own name and lines, as those of price files are.
void Reader::load_payload_schema(QueueContract& queue) {
  constexpr std::size_t kLargestSchema = std::size_t{1} << 20U;
  const Path path = Path{"queues", queue.name} / "payload_schema";
  const std::string& named = queue.payload_schema.file;
  if (named.empty()) {
    if (decisions_.contains(path)) add(Kind::Type, place_of(path), path, "must be the path of a file (is \"\")");
    return;
  }
  const std::size_t slash = file_.rfind('/');
  const std::string folder = slash == std::string::npos ? std::string{} : file_.substr(0, slash + 1);
  const std::string file = named.starts_with('/') ? named : folder + named;
  const auto text = read_whole(file, kLargestSchema, "a payload's schema");
  if (!text) return add(Kind::Reference, place_of(path), path, "cannot read " + say(file) + ": " + text.error());
  auto schema = JsonSchema::read(text->text);
  if (schema) {
    queue.payload_schema.schema = std::move(*schema);
    return;
  }
  for (const SchemaProblem& problem : schema.error()) {
    const Place place{file, problem.line, problem.column};
    add(Kind::Reference, place, path, (problem.pointer.empty() ? "it" : problem.pointer) + " " + problem.message);
  }
}

void Reader::check_queue(QueueContract& queue, const Config& config) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.";
  const auto is_name = [&](const std::string& text) {
    return !text.empty() && text.size() <= 64 && text.find_first_not_of(kLetters) == text.npos;
  };
  const Path path{"queues", queue.name};
  if (!is_name(queue.name))
    add(Kind::Type, place_of(path), path, "must be a name of at most 64 letters, digits, -, _ and .");
  const Path team = path / "owner" / "team";
  if (decisions_.contains(team) && !is_name(queue.owner.team)) {
    add(Kind::Type,
        place_of(team),
        team,
        "must be a name of at most 64 letters, digits, -, _ and ., since it is a label in metrics");
  }
  const Path runbook = path / "owner" / "runbook";
  const std::string& page = queue.owner.runbook;
  const bool is_page = (page.starts_with("https://") || page.starts_with("http://")) &&
                       std::ranges::none_of(page, [](unsigned char c) { return c <= ' ' || c == 0x7f; });
  if (decisions_.contains(runbook) && !is_page)
    add(Kind::Type, place_of(runbook), runbook, "must be the URL of a page (is " + say(page) + ")");

  load_payload_schema(queue);
  check_path(path / "version_from", queue.version_from);
  check_path(path / "idempotency_key" / "from", queue.idempotency_key_from);
  check_path(path / "ordering_key", queue.ordering_key);

  const Path abreast = path / "concurrency" / "per_ordering_key";
  if (queue.concurrency.per_ordering_key != 1 && decisions_.contains(abreast)) {
    add(Kind::Range,
        place_of(abreast),
        abreast,
        "must be 1 (is " + std::to_string(queue.concurrency.per_ordering_key) +
            "): runs with the same ordering key are made one at a time, in their order; without an order, leave "
            "ordering_key out");
  }
  const Path backoff = path / "retry" / "backoff";
  if (queue.retry.base > queue.retry.cap) {
    const Path where = decisions_.contains(backoff / "cap") ? backoff / "cap" : backoff / "base";
    add(Kind::Range,
        place_of(where),
        where,
        "backoff.base (" + say_duration(queue.retry.base.count()) + ") must not be above backoff.cap (" +
            say_duration(queue.retry.cap.count()) + ")");
  }
  const Path never = path / "retry" / "never";
  if (const auto decision = decisions_.find(never); decision != decisions_.end()) {
    constexpr std::size_t kProviders = 18;  // Behind them come those of our own making.
    std::vector<std::string> classes;
    for (std::size_t i = 1; i < kProviders; ++i) classes.emplace_back(classifier::kClassNames[i]);
    for (const std::string& word : decision->second.value.texts) {
      if (std::ranges::find(classes, class_meant(word)) != classes.end()) continue;
      const std::string meant = nearest(word, classes);
      add(Kind::Reference,
          place_of(never),
          never,
          "must be classes of a verdict (has " + say(word) +
              (meant.empty() ? "; there are: " + listed(classes) + ")" : "; did you mean " + meant + "?)"));
    }
  }
  const Path ttl = path / "idempotency_key" / "ttl";
  if (queue.idempotency_key_ttl.count() > 0 &&
      (queue.idempotency_key_ttl < config.idempotency.ttl || queue.idempotency_key_ttl > config.store.keep_runs)) {
    add(Kind::Range,
        place_of(ttl),
        ttl,
        "must be from idempotency.ttl (" + say_duration(config.idempotency.ttl.count()) +
            "), for which answers are kept by their keys, to store.retention.runs (" +
            say_duration(config.store.keep_runs.count()) + "), after which nobody knows the run (is " +
            say_duration(queue.idempotency_key_ttl.count()) + ")");
  }
  const Path payload = path / "dead_letter" / "payload";
  const bool sealed = config.store.payloads == Config::Store::Payloads::Auto && config.store.payload_key.given();
  if (queue.dead_letter.payload == ledger::LetterForm::Encrypted && !sealed) {
    add(Kind::Reference,
        place_of(payload),
        payload,
        config.store.payload_key.given() ? "encrypted needs store.payloads: auto"
                                         : "encrypted needs a key: set store.payload_key");
  }
  const Path rate = path / "replay" / "max_rate";
  if (const auto decision = decisions_.find(rate);
      decision != decisions_.end() && !read_rate(decision->second.value.text)) {
    add(Kind::Type,
        place_of(rate),
        rate,
        "must be a rate such as 5/s, 30/m or 100/h (is " + say(decision->second.value.text) + ")");
  }
  for (const std::string& approver : queue.replay.approvers) {
    const Path approvers = path / "replay" / "approvers";
    if (!is_name(approver)) {
      add(Kind::Type,
          place_of(approvers),
          approvers,
          "must be names of letters, digits, -, _ and . (has " + say(approver) + ")");
    }
  }

  std::vector<std::string> missing;
  if (queue.owner.team.empty() && !said_of(path / "owner")) missing.emplace_back("owner: {team: …}");
  if (!queue.slo.given() && !said_of(path / "slo")) missing.emplace_back("slo: {oldest_wait: …}");
  if (!decisions_.contains(path / "dead_letter" / "retention") && !said_of(path / "dead_letter"))
    missing.emplace_back("dead_letter: {retention: …}");
  if (!missing.empty()) warn(Kind::Contract, place_of(path), path, "leaves out " + listed(missing));
}

void Reader::check_queues(Config& config) {
  for (QueueContract& queue : config.queues) check_queue(queue, config);
}

void Reader::check_webhooks(Config& config) {
  const Path hosts{"webhooks", "allow_hosts"};
  const Path inside{"webhooks", "allow_private_hosts"};
  const auto read = [&](const Path& path, std::vector<std::string>& names, bool of_names_alone) {
    for (std::string& host : names) {
      host = lower(host);
      bool good = !host.empty() && host.size() <= 253 && !host.starts_with('.') && !host.ends_with('.') &&
                  host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-.") == std::string::npos;
      // An address is not looked at after its name was resolved, since it has none.
      if (of_names_alone) good = good && host != "localhost" && host.find_first_not_of("0123456789.") != host.npos;
      if (good) continue;
      const std::string what = of_names_alone ? "no address and not localhost, and" : "";
      add(Kind::Type,
          place_of(path),
          path,
          "must be host names" + (what.empty() ? std::string{} : ", " + what) + " without scheme, port or * (has " +
              say(host) + ")");
    }
  };
  read(hosts, config.webhooks.allow_hosts, false);
  read(inside, config.webhooks.allow_private_hosts, true);
  const Path path{"webhooks", "secret"};
  const SecretSource& source = config.webhooks.secret;
  if (!source.given()) {
    const Path& named = config.webhooks.allow_hosts.empty() ? inside : hosts;
    if (!(config.webhooks.allow_hosts.empty() && config.webhooks.allow_private_hosts.empty()) && !said_of(path)) {
      add(Kind::Missing,
          place_of(named),
          named,
          "needs webhooks.secret, since what is sent is signed; write secret: {file: /path/to/it}");
    }
    return;
  }
  if (const auto secrets = read_webhook_secrets(source, overrides_.environment); !secrets) {
    add(Kind::Secret, place_of(path), path, secrets.error());
  } else if (source.from == SecretSource::From::File && open_to_others(source.name)) {
    warn(Kind::Exposure, place_of(path), path, "is in a file that anybody can read; chmod 0640 it");
  }
}

void Reader::check_tracing(const Config& config) {
  const Config::Tracing& tracing = config.tracing;
  bool plain = false;
  for (const auto& [key, text] :
       {std::pair{"otlp_url", &tracing.otlp_url}, std::pair{"otlp_traces_url", &tracing.otlp_traces_url}}) {
    if (text->empty()) continue;
    const Path path{"tracing", key};
    if (const auto url = read_url(*text))
      plain = plain || (!url->https && !url->loopback);
    else
      add(Kind::Type, place_of(path), path, url.error());
  }
  if (const Path path{"tracing", "resource"}; !read_pairs(tracing.resource))
    add(Kind::Type, place_of(path), path, "must be name=value, parted by commas and percent-encoded");
  if (const Path path{"tracing", "ca_file"}; !tracing.ca_file.empty()) {
    if (const std::string why = no_authorities_in(tracing.ca_file); !why.empty())
      add(Kind::Reference, place_of(path), path, why);
  }
  const Path path{"tracing", "otlp_headers"};
  if (!tracing.otlp_headers.given()) return;
  if (const auto headers = read_otlp_headers(tracing.otlp_headers, overrides_.environment); !headers) {
    add(Kind::Secret, place_of(path), path, headers.error());
  } else if (tracing.otlp_headers.from == SecretSource::From::File && open_to_others(tracing.otlp_headers.name)) {
    warn(Kind::Exposure, place_of(path), path, "is in a file that anybody can read; chmod 0640 it");
  } else if (plain) {
    warn(Kind::Exposure, place_of(path), path, "is sent without TLS, so others on the way can read it");
  }
}

/// Empty: it can be used.
std::string Reader::problem_of_otel(const Path& path, const std::string& text) const {
  const std::string& key = path[1];
  if (key == "otlp_url" || key == "otlp_traces_url") {
    const auto url = read_url(text);
    return url ? std::string{} : url.error();
  }
  if (key == "resource") return read_pairs(text) ? "" : "must be name=value, parted by commas and percent-encoded";
  if (key == "ca_file") return no_authorities_in(text);
  return {};
}

/// These variables are for many programs: what cannot be used stops none of them.
void Reader::take_otel(const Path& path, std::string text, const std::string& variable) {
  if (decisions_.contains(path)) return;
  const Branch* branch = config_tree().find(path[0])->find(path[1]);
  const auto value = read_value(*branch->key, {.text = text, .said = say(text), .untyped = true});
  std::string problem = value ? problem_of_otel(path, text) : value.error().message;
  if (problem.empty()) return decide(*branch->key, path, *value, {variable, 0, 0}, variable, false);
  warn(Kind::Type, {variable, 0, 0}, path, "is not used: " + problem);
}

void Reader::read_otel() {
  const auto given = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = overrides_.environment.find(name);
    if (found == overrides_.environment.end() || found->second.empty()) return std::nullopt;
    return found->second;
  };
  /// The one for traces wins over that for all signals.
  const auto first = [&](std::string_view name) -> std::pair<std::string, std::string> {
    for (const std::string& full :
         {"OTEL_EXPORTER_OTLP_TRACES_" + std::string{name}, "OTEL_EXPORTER_OTLP_" + std::string{name}}) {
      if (const auto text = given(full)) return {full, *text};
    }
    return {};
  };
  const auto take = [&](const char* key, std::string_view name, const char* unit = "") {
    if (const auto [variable, text] = first(name); !variable.empty())
      take_otel({"tracing", key}, text + unit, variable);
  };
  const Path base{"tracing", "otlp_url"};
  const Path whole{"tracing", "otlp_traces_url"};
  const bool disabled = lower(given("OTEL_SDK_DISABLED").value_or("")) == "true";
  const std::string exporter = given("OTEL_TRACES_EXPORTER").value_or("otlp");
  const auto [variable, url] = first("ENDPOINT");
  const bool wanted = !disabled && exporter.find("otlp") != std::string::npos && !variable.empty();
  if (wanted && !decisions_.contains(base) && !decisions_.contains(whole)) {
    if (const auto [other, protocol] = first("PROTOCOL"); protocol == "grpc")
      warn(Kind::Type, {other, 0, 0}, base, "is grpc, which callgate does not speak: " + variable + " is not used");
    else
      take_otel(variable.find("_TRACES_") == std::string::npos ? base : whole, url, variable);
  }
  if (const auto [name, text] = first("HEADERS");
      !name.empty() && !decisions_.contains({"tracing", "otlp_headers"})) {
    const Path path{"tracing", "otlp_headers"};
    const SecretSource source{SecretSource::From::Environment, name};
    const Value value{.shown = "{env: " + name + "}", .text = name, .number = static_cast<std::int64_t>(source.from)};
    if (const auto headers = read_otlp_headers(source, overrides_.environment))
      decide(*config_tree().find(path[0])->find(path[1])->key, path, value, {name, 0, 0}, name, false);
    else
      warn(Kind::Secret, {name, 0, 0}, path, "is not used: it " + headers.error());
  }
  take("ca_file", "CERTIFICATE");
  take("compression", "COMPRESSION");
  take("timeout", "TIMEOUT", "ms");
  if (const auto name = given("OTEL_SERVICE_NAME"))
    take_otel({"tracing", "service_name"}, *name, "OTEL_SERVICE_NAME");
  if (const auto text = given("OTEL_RESOURCE_ATTRIBUTES"))
    take_otel({"tracing", "resource"}, *text, "OTEL_RESOURCE_ATTRIBUTES");

  const Path sample{"tracing", "sample"};
  const Path ratio{"tracing", "ratio"};
  const auto sampler = given("OTEL_TRACES_SAMPLER");
  if (!sampler || decisions_.contains(sample) || decisions_.contains(ratio)) return;
  const bool by_parent = sampler->starts_with("parentbased_");
  const std::string rest = by_parent ? sampler->substr(12) : *sampler;
  std::string share;
  if (rest == "always_on") share = "1";
  if (rest == "always_off") share = "0";
  if (rest == "traceidratio") share = given("OTEL_TRACES_SAMPLER_ARG").value_or("1");
  if (share.empty())
    return warn(Kind::Type, {"OTEL_TRACES_SAMPLER", 0, 0}, sample, "is not used: " + say(*sampler) + " is not known");
  take_otel(sample, by_parent ? "parent" : "always", "OTEL_TRACES_SAMPLER");
  take_otel(ratio, share, rest == "traceidratio" ? "OTEL_TRACES_SAMPLER_ARG" : "OTEL_TRACES_SAMPLER");
}

void Reader::check_sizes(const Config& config) {
  const Path base{"retry", "base"};
  const Path cap{"retry", "cap"};
  if (config.retry.base > config.retry.cap) {
    const Path& path = decisions_.contains(base) ? base : cap;
    add(Kind::Range,
        place_of(path),
        path,
        "retry.base (" + say_duration(config.retry.base.count()) + ") must not be above retry.cap (" +
            say_duration(config.retry.cap.count()) + ")");
  }
  const Path drain{"shutdown", "drain"};
  const Path linger{"shutdown", "linger"};
  if (config.shutdown.linger > config.shutdown.drain) {
    const Path& path = decisions_.contains(linger) ? linger : drain;
    add(Kind::Range,
        place_of(path),
        path,
        "shutdown.linger (" + say_duration(config.shutdown.linger.count()) + ") must not be above shutdown.drain (" +
            say_duration(config.shutdown.drain.count()) + "), of which it is a part");
  }
  const Path body{"limits", "body_bytes"};
  const Path buffered{"limits", "buffered_bytes"};
  if (config.limits.buffered_bytes > 0 && config.limits.body_bytes > config.limits.buffered_bytes) {
    const Path& path = decisions_.contains(buffered) ? buffered : body;
    add(Kind::Range,
        place_of(path),
        path,
        "limits.buffered_bytes (" + say_size(static_cast<std::int64_t>(config.limits.buffered_bytes)) +
            ") must not be below limits.body_bytes (" +
            say_size(static_cast<std::int64_t>(config.limits.body_bytes)) + "), or the largest body never fits");
  }
}

/// Problems of a price file are told with its own name and lines.
void Reader::load_prices(Config& config) {
  constexpr std::size_t kLargestPrices = std::size_t{64} << 20U;
  std::vector<budget::PriceTable> tables{budget::shipped_prices()};
  const Path path{"prices", "files"};
  for (const std::string& name : config.prices.files) {
    const auto text = read_whole(name, kLargestPrices, "a price file");
    if (!text) {
      add(Kind::Reference, place_of(path), path, "cannot read " + say(name) + ": " + text.error());
      continue;
    }
    budget::PriceFile read = budget::read_price_file(text->text, name);
    for (const budget::PriceProblem& problem : read.problems) {
      if (problem.severity != budget::PriceProblem::Severity::Error) continue;
      const Place place{name, static_cast<int>(problem.line), static_cast<int>(problem.column)};
      add(Kind::Reference, place, path, (problem.path.empty() ? "" : problem.path + ": ") + problem.message);
    }
    config.prices.digests.push_back(read.table.digest);
    tables.push_back(std::move(read.table));
  }
  config.prices.book = std::make_shared<const budget::PriceBook>(std::move(tables));
}

Loaded Reader::finish() {
  Loaded loaded;
  settle_all(loaded);
  settle_queues(loaded.config);
  // A file that could not be read as YAML says nothing about the rest.
  const bool readable = std::ranges::none_of(problems_, [](const Problem& p) {
    return p.path.empty() && (p.kind == Kind::Syntax || p.kind == Kind::Unreadable);
  });
  load_prices(loaded.config);
  if (readable) {
    check_listen(loaded.config);
    check_secrets(loaded.config);
    check_payload_key(loaded.config);
    check_upstreams(loaded.config, loaded.secrets);
    check_default_upstreams(loaded.config);
    check_routes(loaded.config);
    check_tenants(loaded.config);
    check_sizes(loaded.config);
    check_queues(loaded.config);
    check_webhooks(loaded.config);
    check_tracing(loaded.config);
  }
  std::ranges::stable_sort(problems_, [&](const Problem& a, const Problem& b) {
    return std::tuple{a.file != file_, a.line, a.column} < std::tuple{b.file != file_, b.line, b.column};
  });
  if (problems_.size() > kMostProblems) {
    const auto rest = problems_.begin() + kMostProblems;
    const auto worst = std::ranges::min_element(rest, problems_.end(), {}, &Problem::severity);
    Problem more = *worst;  // Stands for all of them.
    more.path.clear();
    more.message = "and " + std::to_string(problems_.end() - rest) + " more problems, of which this is one";
    problems_.erase(rest, problems_.end());
    problems_.push_back(std::move(more));
  }
  loaded.problems = std::move(problems_);
  return loaded;
}

Problem unreadable(const std::string& file, std::string message) {
  Problem problem;
  problem.kind = Kind::Unreadable;
  problem.file = file;
  problem.message = std::move(message);
  return problem;
}

}  // namespace

std::string secret_name(std::string_view upstream, std::string_view credential) {
  return std::string{upstream} + "/" + std::string{credential};
}

std::string_view name_of(Problem::Kind kind) {
  constexpr std::string_view kNames[] = {"unreadable",
                                         "syntax",
                                         "unknown_key",
                                         "duplicate_key",
                                         "missing",
                                         "type",
                                         "range",
                                         "secret",
                                         "reference",
                                         "exposure",
                                         "contract",
                                         "weaker",
                                         "not_in_this_version"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Problem::Severity severity) {
  return severity == Problem::Severity::Error ? "error" : "warning";
}

std::string text_of(const Problem& problem) {
  std::string text = problem.file;
  if (problem.line > 0) text += ":" + std::to_string(problem.line) + ":" + std::to_string(problem.column);
  text += ": " + std::string{name_of(problem.severity)} + ": ";
  if (!problem.path.empty()) text += problem.path + ": ";
  return text + problem.message;
}

bool Loaded::usable() const {
  return std::ranges::none_of(problems, [](const Problem& p) { return p.severity == Problem::Severity::Error; });
}

Environment process_environment() {
  Environment environment;
  for (char** one = environ; one && *one; ++one) {
    const std::string_view line{*one};
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) environment.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  return environment;
}

bool Config::Prices::operator==(const Prices& other) const {
  return files == other.files && fallback_input == other.fallback_input && fallback_output == other.fallback_output &&
         refuse_unpriced == other.refuse_unpriced && digests == other.digests;
}

const QueueContract& contract_of(const Config& config, std::string_view queue) {
  const auto found = std::ranges::lower_bound(config.queues, queue, {}, &QueueContract::name);
  return found != config.queues.end() && found->name == queue ? *found : config.other_queues;
}

Config default_config() { return parse_config("", "").config; }

Loaded load_config(const std::string& file, const Overrides& overrides) {
  if (file.empty()) return parse_config("", "", overrides);
  const auto read = read_whole(file, kLargestFile, "a configuration");
  if (!read) {
    // The rest of what was decided is looked at all the same.
    Loaded loaded = parse_config("", file, overrides);
    loaded.problems.insert(loaded.problems.begin(), unreadable(file, read.error()));
    return loaded;
  }
  Loaded loaded = parse_config(read->text, file, overrides);
  // As while it is being written, or on a full disk. By what was read: the file's size may be another one by now.
  if (read->text.empty()) {
    loaded.problems.push_back(unreadable(
        file, "it is empty, which would set everything to the defaults; write {} into it if that is meant"));
  }
  // It holds no secret, so anybody may read it; who may write it decides where keys are sent.
  if (read->anybody_writes) {
    Problem problem =
        unreadable(file, "anybody may write to it, and so decide where calls and keys go; chmod o-w it");
    problem.severity = Problem::Severity::Warning;
    problem.kind = Kind::Exposure;
    loaded.problems.insert(loaded.problems.begin(), std::move(problem));
  }
  return loaded;
}

Loaded parse_config(std::string_view text, const std::string& file_name, const Overrides& overrides) {
  Reader reader{file_name, overrides};
  if (text.size() > kLargestFile) {
    Loaded loaded;
    loaded.problems.push_back(unreadable(file_name, "it is larger than 1MiB; this cannot be a configuration"));
    return loaded;
  }
  reader.read_file(text);
  reader.read_environment();
  reader.read_sets();
  reader.read_otel();
  return reader.finish();
}

}  // namespace gateway
