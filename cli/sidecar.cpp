#include "cli/sidecar.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>

namespace cli {
namespace {

using Lines = Sidecar::Lines;
using Sections = std::map<std::string, Lines, std::less<>>;

/// Top-level keys, and what stands below them, two blanks to the left.
Sections sections_in(std::string_view text) {
  Sections sections;
  Lines* section = nullptr;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.starts_with('#')) continue;
    if (line.front() != ' ') {
      section = &sections[std::string{line.substr(0, line.find(':'))}];
    } else {
      assert(section && line.starts_with("  "));
      section->emplace_back(line.substr(2));
    }
  }
  return sections;
}

/// A list's items; `indent`: of their dashes.
std::vector<Lines> items_of(const Lines& lines, std::size_t indent) {
  std::vector<Lines> items;
  for (const std::string& line : lines) {
    if (line.find_first_not_of(' ') == indent && line.substr(indent).starts_with("- ")) items.emplace_back();
    items.back().push_back(line);
  }
  return items;
}

std::string quoted(std::string_view text) {
  std::string made{"\""};
  made.append(text);
  return made + '"';
}

/// The item that begins with "- name: NAME" goes, to the next line that is not below it.
void drop_item(Lines& lines, std::string_view name) {
  const std::string head = "- name: " + std::string{name};
  const auto begin = std::ranges::find_if(lines, [&](const std::string& line) { return line.ends_with(head); });
  if (begin == lines.end()) return;
  const std::size_t indent = begin->find_first_not_of(' ');
  const auto end =
      std::find_if(begin + 1, lines.end(), [&](const auto& line) { return line.find_first_not_of(' ') <= indent; });
  lines.erase(begin, end);
}

void replace_value(Lines& lines, std::string_view key, const std::string& value) {
  for (std::string& line : lines) {
    const std::size_t at = line.find_first_not_of(' ');
    if (at != line.npos && std::string_view{line}.substr(at).starts_with(key)) {
      line = line.substr(0, at) + std::string{key} + " " + value;
      return;
    }
  }
}

/// The placeholder's name in the application's environment.
std::optional<std::string_view> key_variable(std::string_view upstream) {
  constexpr std::pair<std::string_view, std::string_view> kVariables[] = {
      {"openai", "OPENAI_API_KEY"}, {"anthropic", "ANTHROPIC_API_KEY"}, {"gemini", "GEMINI_API_KEY"}};
  for (const auto& [name, variable] : kVariables) {
    if (name == upstream) return variable;
  }
  return std::nullopt;
}

}  // namespace

std::string yaml_name(const std::string& name) {
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"};
  const bool other =
      name.empty() || (name[0] >= '0' && name[0] <= '9') || std::ranges::find(kWords, name) != std::end(kWords);
  return other ? quoted(name) : name;
}

std::string name_in(const Lines& item) {
  constexpr std::string_view kHead = "- name: ";
  if (item.empty()) return {};
  const std::size_t at = item.front().find(kHead);
  return at == std::string::npos ? std::string{} : item.front().substr(at + kHead.size());
}

Sidecar sidecar_of(const SidecarWishes& wishes) {
  const Sections sections = sections_in(sidecar_text());
  Sidecar made;
  made.labels = sections.at("labels");
  // Of a release, which is Helm's.
  std::erase_if(made.labels, [](const std::string& line) { return line.starts_with("callgate/instance:"); });
  made.annotations = sections.at("annotations");
  made.container = sections.at("container");
  made.volumes = items_of(sections.at("volumes"), 0);
  if (!wishes.image.empty()) replace_value(made.container, "image:", quoted(wishes.image));
  if (!wishes.native) std::erase(made.container, "  restartPolicy: Always");

  for (Lines& volume : made.volumes) {
    if (name_in(volume) == "callgate-config") replace_value(volume, "name:", yaml_name(wishes.config_map));
    if (name_in(volume) == "callgate-keys") replace_value(volume, "secretName:", yaml_name(wishes.keys_secret));
  }
  if (wishes.keys_secret.empty()) {
    drop_item(made.container, "callgate-keys");
    std::erase_if(made.volumes, [](const Lines& volume) { return name_in(volume) == "callgate-keys"; });
  }

  // Placeholders only for what callgate has a key of: the others still bring their own.
  for (Lines& entry : items_of(sections.at("env"), 0)) {
    const std::string name = name_in(entry);
    const bool of_a_key = name.ends_with("_API_KEY");
    const bool held =
        std::ranges::any_of(wishes.keys, [&](const auto& key) { return key_variable(key.first) == name; });
    if (!of_a_key || (held && !wishes.keys_secret.empty())) made.app_env.push_back(std::move(entry));
  }

  // Its upstreams stand at the end, since Helm writes keys in their order.
  for (const std::string& line : sections.at("config")) {
    if (line == "upstreams:") break;
    // Told to stop together with the application, whose last calls it takes all the same.
    if (line == "store:" && !wishes.native) made.config.insert(made.config.end(), {"shutdown:", "  linger: 20s"});
    made.config.push_back(line);
  }
  if (!wishes.keys_secret.empty() && !wishes.keys.empty()) {
    made.config.emplace_back("upstreams:");
    auto keys = wishes.keys;
    std::ranges::sort(keys);
    for (const auto& [upstream, file] : keys) {
      made.config.push_back("  " + yaml_name(upstream) + ":");
      made.config.emplace_back("    credentials:");
      made.config.emplace_back("    - key:");
      made.config.push_back("        file: /etc/callgate-keys/" + file);
      made.config.emplace_back("      name: main");
    }
  }
  return made;
}

}  // namespace cli
