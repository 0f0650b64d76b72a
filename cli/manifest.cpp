#include "cli/manifest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace cli {
namespace {

using gateway::YamlNode;
using Form = YamlNode::Form;

struct Kind {
  std::string_view api;
  std::string_view kind;
  std::array<std::string_view, 3> way;  // From the document to the pod's template.
};
constexpr Kind kKinds[] = {
    {"apps/v1", "Deployment", {"spec", "template", ""}},
    {"apps/v1", "StatefulSet", {"spec", "template", ""}},
    {"apps/v1", "DaemonSet", {"spec", "template", ""}},
    {"batch/v1", "Job", {"spec", "template", ""}},
    {"batch/v1", "CronJob", {"spec", "jobTemplate", "spec"}},
    {"v1", "Pod", {"", "", ""}},
};

/// With their ends, so that put together they are the text.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::size_t size = end == text.npos ? text.size() : end + 1;
    lines.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return lines;
}

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == line.npos; }

bool separates(std::string_view line) {
  if (!line.starts_with("---") && !line.starts_with("...")) return false;
  return line.size() == 3 || std::isspace(static_cast<unsigned char>(line[3])) != 0;
}

void add_pods(const YamlNode* node, int limit, std::vector<PodPlace>& pods) {
  if (!node || node->form != Form::Map) return;
  const std::string kind = text_at(node, "kind");
  const std::string api = text_at(node, "apiVersion");
  if (kind == "List" && api == "v1") {
    const YamlNode* items = find(node, "items");
    if (!items || items->form != Form::List) return;
    const int end = limit_of(*node, "items", limit);
    for (std::size_t i = 0; i < items->items.size(); ++i) {
      add_pods(items->items[i], i + 1 < items->items.size() ? items->items[i + 1]->line : end, pods);
    }
    return;
  }
  const auto known =
      std::ranges::find_if(kKinds, [&](const Kind& one) { return one.kind == kind && one.api == api; });
  if (known == std::end(kKinds)) return;
  PodPlace place;
  place.kind = kind;
  place.owner = node;
  place.workload = node;
  place.limit = limit;
  const YamlNode* metadata = find(node, "metadata");
  place.name = text_at(metadata, "name");
  if (place.name.empty()) place.name = text_at(metadata, "generateName");
  place.space = text_at(metadata, "namespace");
  const auto step = [&](std::string_view key) {
    if (!place.owner || key.empty()) return;
    place.limit = limit_of(*place.owner, key, place.limit);
    place.owner = find(place.owner, key);
  };
  for (const std::string_view key : known->way) step(key);
  if (kind == "CronJob") step("template");
  pods.push_back(std::move(place));
}

std::string json_text(std::string_view text) {
  std::string made{"\""};
  for (const char letter : text) {
    switch (letter) {
      case '"':
        made += "\\\"";
        break;
      case '\\':
        made += "\\\\";
        break;
      case '\n':
        made += "\\n";
        break;
      case '\t':
        made += "\\t";
        break;
      case '\r':
        made += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(letter) < 0x20) {
          constexpr std::string_view kDigits = "0123456789abcdef";
          made += "\\u00";
          made += kDigits[static_cast<unsigned char>(letter) >> 4];
          made += kDigits[static_cast<unsigned char>(letter) & 15];
        } else {
          made += letter;
        }
    }
  }
  return made + '"';
}

/// Keys are text in Kubernetes; these would be something else without quotes.
std::string key_text(const std::string& key) {
  constexpr std::string_view kWords[] = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"};
  std::string small = key;
  std::ranges::transform(small, small.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool plain =
      !key.empty() && std::isalpha(static_cast<unsigned char>(key[0])) != 0 &&
      key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == key.npos &&
      std::ranges::find(kWords, small) == std::end(kWords);
  return plain ? key : json_text(key);
}

bool is_empty(const YamlNode& node) {
  return node.form == Form::Null || (node.form == Form::List && node.items.empty()) ||
         (node.form == Form::Map && node.entries.empty());
}

bool is_leaf(const YamlNode& node) { return node.form == Form::Scalar || is_empty(node); }

std::string leaf_text(const YamlNode& node) {
  switch (node.form) {
    case Form::Null:
      return "null";
    case Form::List:
      return "[]";
    case Form::Map:
      return "{}";
    case Form::Scalar:
      break;
  }
  return node.quoted ? json_text(node.text) : node.text;
}

void print(const YamlNode& node, std::size_t indent, bool begun, std::string& out) {
  constexpr std::string_view kDropped[] = {"env", "volumes", "initContainers", "annotations", "labels", "metadata"};
  const auto begin = [&] {
    if (!begun) out.append(indent, ' ');
    begun = false;
  };
  if (node.form == Form::List) {
    for (const YamlNode* item : node.items) {
      begin();
      out += "- ";
      if (is_leaf(*item))
        out += leaf_text(*item) + '\n';
      else
        print(*item, indent + 2, true, out);
    }
    return;
  }
  for (const YamlNode::Entry& entry : node.entries) {
    if (is_empty(*entry.value) && std::ranges::find(kDropped, entry.key) != std::end(kDropped)) continue;
    begin();
    out += key_text(entry.key) + ':';
    if (is_leaf(*entry.value)) {
      out += ' ' + leaf_text(*entry.value) + '\n';
    } else {
      out += '\n';
      print(*entry.value, indent + 2, false, out);
    }
  }
}

}  // namespace

std::vector<ManifestPart> parts_of(std::string_view stream) {
  std::vector<ManifestPart> parts(1);
  int number = 0;
  for (std::string& line : lines_of(stream)) {
    ++number;
    if (!separates(line)) {
      parts.back().body += line;
      continue;
    }
    ManifestPart part;
    const std::size_t rest = line.find_first_not_of(" \t\r\n", 3);
    // What stands behind the dashes belongs to the document.
    const bool has_more = rest != line.npos && line[rest] != '#';
    part.lead = has_more ? line.substr(0, 3) + '\n' : line;
    if (has_more) part.body = line.substr(rest);
    part.first_line = has_more ? number : number + 1;
    parts.push_back(std::move(part));
  }
  return parts;
}

bool may_have_pod(std::string_view body) {
  for (const std::string& line : lines_of(body)) {
    if (is_blank(line) || line.starts_with('#')) continue;
    if (line.starts_with('{') || line.starts_with(' ')) return true;
    if (!line.starts_with("kind:")) continue;
    std::string kind = line.substr(5);
    std::erase_if(kind, [](unsigned char c) { return std::isspace(c) != 0 || c == '"' || c == '\''; });
    kind = kind.substr(0, kind.find('#'));
    return kind == "List" || std::ranges::any_of(kKinds, [&](const Kind& one) { return one.kind == kind; });
  }
  return false;
}

const YamlNode* find(const YamlNode* map, std::string_view key) {
  if (!map || map->form != Form::Map) return nullptr;
  const auto found = std::ranges::find(map->entries, key, &YamlNode::Entry::key);
  return found == map->entries.end() ? nullptr : found->value;
}

std::string text_at(const YamlNode* map, std::string_view key) {
  const YamlNode* value = find(map, key);
  return value && value->form == Form::Scalar ? value->text : std::string{};
}

std::vector<PodPlace> pods_in(const YamlNode* root) {
  std::vector<PodPlace> pods;
  add_pods(root, 0, pods);
  return pods;
}

bool has_alias(const YamlNode& root) {
  const auto before = [](const YamlNode& one, const YamlNode& other) {
    return one.line < other.line || (one.line == other.line && one.column < other.column);
  };
  for (const YamlNode* item : root.items) {
    if (before(*item, root) || has_alias(*item)) return true;
  }
  for (const YamlNode::Entry& entry : root.entries) {
    if (entry.value->form != Form::Null && (entry.value->line < entry.line || has_alias(*entry.value))) return true;
  }
  return false;
}

std::string block_style(const YamlNode& root) {
  std::string text;
  print(root, 0, false, text);
  return text;
}

int limit_of(const YamlNode& map, std::string_view key, int limit) {
  const auto found = std::ranges::find(map.entries, key, &YamlNode::Entry::key);
  if (found == map.entries.end() || found + 1 == map.entries.end()) return limit;
  return (found + 1)->line;
}

Additions::Additions(std::string_view body) : lines_(lines_of(body)) {
  // A last line without its end would run into what is put behind it.
  if (!lines_.empty() && !lines_.back().ends_with('\n')) lines_.back() += '\n';
}

bool Additions::in_flow(const YamlNode& node) const {
  const auto line = static_cast<std::size_t>(node.line - 1);
  const auto column = static_cast<std::size_t>(node.column - 1);
  if (line >= lines_.size() || column >= lines_[line].size()) return true;
  const char first = lines_[line][column];
  return first == '{' || first == '[' || first == '&';
}

bool Additions::to_map(const YamlNode& map, const Lines& lines) {
  if (map.form != Form::Map || map.entries.empty() || in_flow(map)) return false;
  const auto& entries = map.entries;
  const auto place = [](const YamlNode::Entry& entry) {
    YamlNode node;
    node.line = entry.line;
    node.column = entry.column;
    return node;
  };
  const std::string& text = lines_.at(static_cast<std::size_t>(entries[0].line - 1));
  const auto column = static_cast<std::size_t>(entries[0].column - 1);
  // An item's first key stands behind the dash; the second one has a line of its own, and names stay where they are.
  const bool behind_dash = text.find_first_not_of(' ') != column;
  if (behind_dash && entries.size() > 1 && entries[1].line > entries[0].line &&
      entries[1].column == entries[0].column) {
    const std::string& second = lines_.at(static_cast<std::size_t>(entries[1].line - 1));
    const bool in_block = text.substr(0, column).find_first_not_of(" -") == std::string::npos &&
                          second.find_first_not_of(' ') == column;
    return in_block && put(place(entries[1]), false, lines);
  }
  return put(place(entries[0]), false, lines);
}

bool Additions::to_list(const YamlNode& list, const Lines& item) {
  if (list.form != Form::List || list.items.empty() || in_flow(list)) return false;
  return put(*list.items[0], true, item);
}

bool Additions::to_key(const YamlNode& map, const std::string& key, const Lines& lines) {
  if (lines.empty()) return true;
  const auto entry = std::ranges::find(map.entries, key, &YamlNode::Entry::key);
  if (entry != map.entries.end()) {
    if (is_empty(*entry->value)) return to_empty(*entry, lines);
    return entry->value->form == Form::List ? to_list(*entry->value, lines) : to_map(*entry->value, lines);
  }
  Lines made{key + ":"};
  for (const std::string& line : lines) made.push_back("  " + line);
  return to_map(map, made);
}

/// "key: []  # why" becomes "key:  # why", and what is added stands below.
bool Additions::to_empty(const YamlNode::Entry& entry, const Lines& lines) {
  if (entry.line < 1 || static_cast<std::size_t>(entry.line) > lines_.size()) return false;
  const std::string& text = lines_.at(static_cast<std::size_t>(entry.line - 1));
  const auto column = static_cast<std::size_t>(entry.column - 1);
  if (text.substr(0, column).find_first_not_of(" -") != std::string::npos) return false;
  if (text.compare(column, entry.key.size() + 1, entry.key + ':') != 0) return false;
  const std::size_t end = column + entry.key.size() + 1;
  std::string value = text.substr(end);
  std::string comment;
  if (const std::size_t at = value.find(" #"); at != std::string::npos)
    comment = std::exchange(value, value.substr(0, at)).substr(at);
  std::erase_if(value, [](unsigned char c) { return std::isspace(c) != 0; });
  constexpr std::string_view kEmpty[] = {"", "[]", "{}", "null", "~"};
  if (std::ranges::find(kEmpty, value) == std::end(kEmpty)) return false;
  Added& added = added_[entry.line - 1];
  added.instead = text.substr(0, end) + (comment.empty() ? "\n" : comment);
  for (const std::string& line : lines) added.below += std::string(column + 2, ' ') + line + '\n';
  return true;
}

bool Additions::put(const YamlNode& first, bool in_list, const Lines& lines) {
  if (first.line < 1 || static_cast<std::size_t>(first.line) > lines_.size()) return false;
  const std::string& text = lines_.at(static_cast<std::size_t>(first.line - 1));
  auto column = static_cast<std::size_t>(first.column - 1);
  const std::string before = text.substr(0, std::min(column, text.size()));
  // Of block style there is nothing in front but blanks and dashes; flow style has brackets, an alias other words.
  if (before.find_first_not_of(" -") != before.npos || column >= text.size()) return false;
  if (!in_list && (text[column] == '{' || text[column] == '[' || text[column] == '*' || text[column] == '?'))
    return false;
  if (in_list) {
    const std::size_t dash = before.rfind('-');
    if (dash == before.npos) return false;
    column = dash;
  }
  Added& added = added_[first.line - 1];
  const std::string indent(column, ' ');
  const bool alone = before.substr(0, column).find('-') == before.npos;
  if (alone) {
    for (const std::string& line : lines) added.whole += indent + line + '\n';
    return true;
  }
  // In the middle of a line: what stood there goes to the next one.
  if (!added.inside.empty() && added.column != column) return false;
  added.column = column;
  for (const std::string& line : lines) added.inside += (added.inside.empty() ? "" : indent) + line + '\n';
  return true;
}

bool Additions::to_end_of_list(const YamlNode& list, const Lines& item, int limit) {
  if (list.form != Form::List || list.items.empty() || in_flow(list)) return false;
  const YamlNode& first = *list.items[0];
  if (first.line < 1 || static_cast<std::size_t>(first.line) > lines_.size()) return false;
  const std::string before =
      lines_.at(static_cast<std::size_t>(first.line - 1)).substr(0, static_cast<std::size_t>(first.column - 1));
  const std::size_t dash = before.rfind('-');
  if (before.find_first_not_of(" -") != before.npos || dash == before.npos) return false;
  std::size_t line = limit > 0 ? static_cast<std::size_t>(limit - 1) : lines_.size();
  while (line > 0 && is_blank(lines_[line - 1])) --line;
  if (line < static_cast<std::size_t>(first.line)) return false;
  for (const std::string& one : item) added_[static_cast<int>(line)].whole += std::string(dash, ' ') + one + '\n';
  return true;
}

std::string Additions::text() const {
  std::string made;
  for (std::size_t i = 0; i <= lines_.size(); ++i) {
    const auto found = added_.find(static_cast<int>(i));
    if (found == added_.end()) {
      if (i < lines_.size()) made += lines_[i];
      continue;
    }
    const Added& added = found->second;
    made += added.whole;
    if (i == lines_.size()) break;
    const std::string& line = added.instead.empty() ? lines_[i] : added.instead;
    if (added.inside.empty())
      made += line;
    else
      made +=
          line.substr(0, added.column) + added.inside + std::string(added.column, ' ') + line.substr(added.column);
    made += added.below;
  }
  return made;
}

}  // namespace cli
