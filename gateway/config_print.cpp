#include "gateway/config_print.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "gateway/config_keys.h"
#include "gateway/config_values.h"

namespace gateway {
namespace {

using Json = nlohmann::ordered_json;

bool is_word_number(const std::string& word) { return word.find_first_not_of("0123456789") == std::string::npos; }

Json json_of(const Key& key, std::string_view text) {
  const Value value = read_standard(key, text);
  switch (key.type) {
    case Type::Flag:
      return value.number == 1;
    case Type::Integer:
      return value.number;
    case Type::Number:
      return value.real;
    case Type::Texts:
      return value.texts;
    case Type::Word:
      return is_word_number(value.text) ? Json(std::stoi(value.text)) : Json(value.text);
    case Type::Money:
      return value.shown.substr(1, value.shown.size() - 2);
    case Type::Text:
    case Type::Url:
    case Type::Address:
      return value.text;
    default:
      return value.shown;
  }
}

void add_range(Json& schema, const Key& key, const char* low, const char* high) {
  const auto number = [](double bound) {
    const auto whole = static_cast<std::int64_t>(bound);
    return static_cast<double>(whole) == bound ? Json(whole) : Json(bound);
  };
  if (key.range.low != Range{}.low) schema[low] = number(key.range.low);
  if (key.range.high != Range{}.high) schema[high] = number(key.range.high);
}

Json form_of_value(const Key& key) {
  switch (key.type) {
    case Type::Flag:
      return {{"type", "boolean"}};
    case Type::Integer: {
      Json schema{{"type", "integer"}};
      add_range(schema, key, "minimum", "maximum");
      return schema;
    }
    case Type::Number: {
      Json schema{{"type", "number"}};
      add_range(schema, key, "minimum", "maximum");
      return schema;
    }
    case Type::Duration:
      return {{"type", "string"}, {"pattern", "^[0-9]+(ms|s|m|h|d)$"}};
    case Type::Size: {
      Json plain{{"type", "integer"}};
      add_range(plain, key, "minimum", "maximum");
      return {{"anyOf", {{{"type", "string"}, {"pattern", "^[0-9]+(KiB|MiB|GiB)?$"}}, plain}}};
    }
    case Type::Money:
      return {{"type", "string"}, {"pattern", "^[0-9]+(\\.[0-9]{1,9})?$"}};
    case Type::Address:
      return {{"type", "string"}, {"pattern", "^(unix:/.+|.+:[0-9]{1,5})$"}};
    case Type::Url:
      return {{"type", "string"}, {"pattern", "^https?://[^@?#]+$"}};
    default:
      return {{"type", "string"}};
  }
}

Json words_as_json(const Key& key) {
  Json words = Json::array();
  for (const std::string& word : words_of(key.words)) {
    if (is_word_number(word)) words.push_back(std::stoi(word));
    words.push_back(word);
  }
  return words;
}

Json value_schema(const Key& key) {
  if (key.type == Type::Secret) return {{"$ref", "#/definitions/secret"}};
  if (key.type == Type::Texts) {
    // Nothing means the default; without one it means a line that is not finished.
    const Json type = key.standard.empty() ? Json("array") : Json{"array", "null"};
    Json schema{{"type", type}, {"items", {{"type", "string"}}}};
    add_range(schema, key, "minItems", "maxItems");
    return schema;
  }
  Json any = Json::array();
  if (!key.words.empty()) any.push_back({{"enum", words_as_json(key)}});
  if (key.type != Type::Word) any.push_back(form_of_value(key));
  any.push_back({{"$ref", "#/definitions/substitution"}});
  return {{"anyOf", any}};
}

std::string plain_text(std::string_view meaning) {
  std::string text{meaning};
  std::erase(text, '`');
  return text;
}

std::set<std::string> built_in_names(std::string_view group) {
  std::set<std::string> names;
  for (const BuiltIn& setting : built_in_settings()) {
    const Path path = path_of(setting.path);
    if (path[0] == group) names.insert(path[1]);
  }
  return names;
}

void describe(Json& schema, const Key& key) {
  std::string text = plain_text(key.meaning);
  if (!key.later.empty()) text += " Not in this version: " + std::string{key.later} + ".";
  schema["description"] = text;
  const bool single = key.type != Type::Map && key.type != Type::List && key.type != Type::Anything;
  if (!single || key.type == Type::Secret) return;
  if (!key.standard.empty()) schema["default"] = json_of(key, key.standard);
  if (!key.example.empty()) schema["examples"] = Json::array({json_of(key, key.example)});
}

Json schema_of(const Branch& branch);

Json object_of(const Branch& branch) {
  Json properties = Json::object();
  for (const auto& [name, child] : branch.named) properties[std::string{name}] = schema_of(*child);
  Json schema{{"type", {"object", "null"}}, {"properties", properties}, {"additionalProperties", false}};
  if (!branch.any) return schema;

  // Names: built-in ones may say as little as they like; new ones of a later version cannot be there at all.
  const Key* key = branch.any->key;
  const std::string group{key->path.substr(0, key->path.size() - 2)};
  const bool top = group.find('.') == std::string::npos;
  const Json entry = top ? Json{{"$ref", "#/definitions/" + group}} : schema_of(*branch.any);
  for (const std::string& name : built_in_names(group)) schema["properties"][name] = entry;
  if (!key->later.empty()) return schema;
  schema["additionalProperties"] = entry;
  if (group == "upstreams") {
    schema["propertyNames"] = {{"pattern", "^[-a-z0-9_.]+$"}, {"not", {{"enum", reserved_names()}}}};
    schema["additionalProperties"] = {{"allOf", {entry, {{"required", {"dialect", "url"}}}}}};
  }
  return schema;
}

/// What a later version will take, this one only takes at its default.
Json schema_of_later(const Branch& branch) {
  const Key& key = *branch.key;
  if (key.type == Type::List) return {{"type", {"array", "null"}}, {"maxItems", 0}};
  if (key.type == Type::Texts && !key.standard.empty()) return {{"enum", {json_of(key, key.standard), nullptr}}};
  if (key.type == Type::Anything) return {{"type", {"object", "null"}}, {"maxProperties", 0}};
  if (key.type == Type::Map || branch.group()) return object_of(branch);
  if (key.standard.empty()) return {{"not", Json::object()}};
  // 60s is 1m and "5.0" is "5.00": that they mean the same is more than a schema can see.
  const bool many_ways = key.type == Type::Duration || key.type == Type::Size || key.type == Type::Money;
  const Json standard = many_ways ? form_of_value(key) : Json{{"const", json_of(key, key.standard)}};
  return {{"anyOf", {standard, {{"$ref", "#/definitions/substitution"}}}}};
}

Json schema_of(const Branch& branch) {
  Json schema;
  if (branch.key && !branch.key->later.empty()) {
    schema = schema_of_later(branch);
  } else if (!branch.key || branch.key->type == Type::Map) {
    schema = object_of(branch);
  } else if (branch.key->type == Type::List) {
    schema = {{"type", {"array", "null"}}, {"items", schema_of(*branch.items)}};
  } else {
    schema = value_schema(*branch.key);
    // A word, or a map of its own.
    if (!branch.named.empty()) schema = {{"anyOf", {schema, object_of(branch)}}};
  }
  if (branch.key) describe(schema, *branch.key);
  return schema;
}

std::string shown_path(std::string_view pattern) {
  std::string text;
  for (const char c : pattern) text += c == '*' ? std::string{"NAME"} : std::string(1, c);
  return text;
}

std::string code(std::string_view text) { return "`" + std::string{text} + "`"; }

std::string allowed(const Key& key) {
  std::string words;
  for (const std::string& word : words_of(key.words)) words += (words.empty() ? "" : ", ") + code(word);
  const auto with_range = [&](std::string text) {
    if (!words.empty()) text = words + " or " + text;
    const std::string range = range_of(key);
    return range.empty() ? text : text + ", " + range;
  };
  switch (key.type) {
    case Type::Map:
      return "map";
    case Type::Anything:
      return "map";
    case Type::List:
      return "list";
    case Type::Texts:
      return "list of texts";
    case Type::Text:
      return "text";
    case Type::Flag:
      return "`true`, `false`";
    case Type::Integer:
      return with_range("whole number");
    case Type::Number:
      return with_range("number");
    case Type::Duration:
      return with_range("duration");
    case Type::Size:
      return with_range("size");
    case Type::Money:
      return "money";
    case Type::Word:
      return words;
    case Type::Address:
      return "address";
    case Type::Url:
      return "URL";
    case Type::Secret:
      return "secret";
  }
  return {};
}

std::string row_of(const Key& key) {
  std::string meaning{key.meaning};
  if (!key.example.empty()) meaning += " Example: " + code(key.example) + ".";
  if (!key.later.empty()) meaning += " *Not in this version.*";
  return "| " + code(shown_path(key.path)) + " | " + allowed(key) + " | " +
         (key.standard.empty() ? "" : code(key.standard)) + " | " + meaning + " |\n";
}

constexpr std::string_view kIntroduction = R"(# Configuration

<!-- Printed by `callgate config docs` from the table in gateway/config_keys.cpp; a test compares. -->

One YAML file, named by `--config` or `CALLGATE_CONFIG`. Every key is optional: without a file, callgate uses the
defaults and the built-in upstreams and passes the callers' own keys through.

```yaml
# callgate.yaml
upstreams:
  openai:
    limits: {concurrent: 64}
retry:
  bulk: {attempts: 6, max_elapsed: 90s}
log: {level: warn}
```

- `callgate validate callgate.yaml` lists everything that is wrong, with line, column and the mend.
- `callgate config show --config callgate.yaml` prints what holds in the end, and who decided each value.
- `callgate config schema` prints a JSON Schema, with which editors complete and check while you write.
- [callgate.example.yaml](callgate.example.yaml) has every key with its default. What is marked *not in this version*
  is already named, so that files stay valid later; setting it to anything but its default is refused.
- A running callgate takes a changed file by itself, all of it or nothing: [operations.md](operations.md).

## How values are written

| form | looks like | |
|---|---|---|
| duration | `250ms`, `30s`, `5m`, `24h`, `7d` | a whole number and one unit |
| size | `65536`, `64KiB`, `256MiB`, `1GiB` | bytes; units are powers of 1024 |
| money | `"12.50"` | US dollars, in quotes |
| address | `127.0.0.1:4600`, `"[::1]:4600"`, `unix:/run/callgate.sock` | no host names but `localhost` |
| secret | `{file: /path}`, `{env: NAME}`, `{credential: NAME}` | a secret itself must not stand in the file; a credential is one of the systemd unit (`LoadCredential=NAME:FILE`), a file in `$CREDENTIALS_DIRECTORY` |
| flag | `true`, `false` | not `yes` or `on` |

**Substitution.** `${env:NAME}` or `${NAME}` puts in an environment variable, `${env:NAME:-default}` has a default for
one that is not set or empty, `$$` is a dollar sign. It works in values, not in keys, and the result gets its type from
what it says. Inside `{ }` or `[ ]` write it in quotes: `{attempts: "${env:ATTEMPTS:-8}"}`.

**Who wins.** `--set retry.base=1s` on the command line, over `CALLGATE_RETRY__BASE=1s` in the environment (two
underscores part the levels; `-` and `.` in names become `_`), over the file, over the defaults. Lists are written as
`CALLGATE_LISTEN__HOSTS=localhost,callgate.local`. A variable with `__` in it that names no key is an error; any other
`CALLGATE_…` that is not used is a warning, save those that Kubernetes sets for a service (`CALLGATE_SERVICE_HOST`,
`CALLGATE_PORT…`).

**Strictness.** An unknown or repeated key, a wrong unit or a value out of range is an error, with which callgate does
not start. A file is at most 1 MiB, one YAML document in UTF-8, indented with spaces. Anchors and aliases work; merge
keys (`<<`) and tags do not. Files that are named must be there: a `ca_file` with a certificate in it, a secret with one
line. A configuration that anybody may write, or a secret that anybody may read, is a warning.
)";

std::string built_in_table() {
  std::string text = "\nBuilt in:\n\n| upstream | dialect | url |\n|---|---|---|\n";
  const auto settings = built_in_settings();
  for (const BuiltIn& setting : settings) {
    if (!setting.path.starts_with("upstreams.") || !setting.path.ends_with(".dialect")) continue;
    const std::string name = path_of(setting.path)[1];
    const auto url = std::ranges::find(settings, "upstreams." + name + ".url", &BuiltIn::path);
    text += "| " + code(name) + " | " + code(setting.value) + " | " + code(url->value) + " |\n";
  }
  return text;
}

}  // namespace

std::string settings_json(std::span<const Setting> settings) {
  Json list = Json::array();
  for (const Setting& setting : settings) {
    list.push_back({{"path", text_of(setting.path)}, {"value", setting.value}, {"origin", setting.origin}});
  }
  return Json{{"settings", std::move(list)}}.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string problems_json(std::span<const Problem> problems) {
  Json list = Json::array();
  for (const Problem& problem : problems) {
    list.push_back({{"file", problem.file},
                    {"line", problem.line},
                    {"column", problem.column},
                    {"path", problem.path},
                    {"severity", name_of(problem.severity)},
                    {"code", name_of(problem.kind)},
                    {"message", problem.message}});
  }
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string config_schema() {
  const auto only = [](const char* name) {
    return Json{{"type", "object"},
                {"required", {name}},
                {"properties", {{name, {{"type", "string"}}}}},
                {"additionalProperties", false}};
  };
  Json definitions{{"substitution", {{"type", "string"}, {"pattern", "\\$\\{"}}},
                   {"secret", {{"oneOf", {only("file"), only("env"), only("credential")}}}}};
  for (const auto& [name, group] : config_tree().named) {
    if (group->any) definitions[std::string{name}] = schema_of(*group->any);
  }
  Json schema{{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "callgate configuration"}};
  schema.update(object_of(config_tree()));
  schema["definitions"] = definitions;
  return schema.dump(2) + "\n";
}

std::string config_docs() {
  std::string text{kIntroduction};
  std::string_view section;
  for (const Key& key : config_keys()) {
    const std::string_view top = key.path.substr(0, key.path.find('.'));
    if (top != section) {
      if (section == "upstreams") text += built_in_table();
      section = top;
      text += "\n## " + std::string{top} + "\n\n" + std::string{key.meaning};
      if (!key.later.empty()) text += " *Not in this version.*";
      if (key.type != Type::Map) text += " A map; `{}` by default.";
      text += "\n";
      if (key.type != Type::Map) continue;
      text += "\n| key | value | default | meaning |\n|---|---|---|---|\n";
      continue;
    }
    text += row_of(key);
  }
  return text;
}

}  // namespace gateway
