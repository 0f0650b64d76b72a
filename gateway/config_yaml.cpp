#include "gateway/config_yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "gateway/config_keys.h"
#include "gateway/config_values.h"

namespace gateway {
namespace {

using Kind = Problem::Kind;

constexpr std::size_t kMostNodes = 50'000;
constexpr std::size_t kMostDepth = 32;
constexpr std::size_t kLongestKey = 256;

Problem problem_at(Kind kind, int line, int column, std::string message) {
  Problem problem;
  problem.kind = kind;
  problem.line = line;
  problem.column = column;
  problem.message = std::move(message);
  return problem;
}

/// Ends the parse; everything behind it would be noise.
struct Stop {
  Problem problem;
};

[[noreturn]] void stop(Kind kind, const YAML::Mark& mark, std::string message) {
  throw Stop{problem_at(kind, mark.line + 1, mark.column + 1, std::move(message))};
}

class Builder final : public YAML::EventHandler {
 public:
  Builder(YamlDocument& document, std::vector<Problem>& problems) : document_(document), problems_(problems) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(begun_, true)) {
      stop(Kind::Syntax, mark, "a second document or stray text begins here; a configuration is one document");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(YamlNode::Form::Null, mark, anchor), mark);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(tag, mark);
    YamlNode* node = make(YamlNode::Form::Scalar, mark, anchor);
    node->text = value;
    node->quoted = tag == "!";
    add(node, mark);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) stop(Kind::Syntax, mark, "this alias names no anchor above it");
    const bool open = std::ranges::any_of(stack_, [&](const Frame& frame) { return frame.node == found->second; });
    if (open) stop(Kind::Syntax, mark, "this alias stands inside its own anchor");
    add(found->second, mark);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Form::List, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open(YamlNode::Form::Map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode* node;
    YAML::Mark mark;
    std::string key{};  // Map: the key whose value comes next.
    YAML::Mark key_mark{};
    bool key_read = false;
    std::unordered_map<std::string, int> lines{};  // Map: where each key stood first.
  };

  YamlNode* make(YamlNode::Form form, const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (document_.nodes.size() >= kMostNodes) {
      stop(Kind::Syntax, mark, "there are more than " + std::to_string(kMostNodes) + " values in this file");
    }
    YamlNode& node = document_.nodes.emplace_back();
    node.form = form;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    if (anchor != YAML::NullAnchor) anchors_[anchor] = &node;
    return &node;
  }

  void open(YamlNode::Form form, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    refuse_tag(tag, mark);
    if (stack_.size() >= kMostDepth) stop(Kind::Syntax, mark, "this is nested too deeply");
    Frame frame{.node = make(form, mark, anchor), .mark = mark};
    stack_.push_back(std::move(frame));
  }

  void close() {
    const Frame frame = std::move(stack_.back());
    stack_.pop_back();
    add(frame.node, frame.mark);
  }

  /// A finished node takes its place: as a key, a value, an item or the root.
  void add(YamlNode* node, const YAML::Mark& mark) {
    if (stack_.empty()) {
      document_.root = node;
      return;
    }
    Frame& frame = stack_.back();
    // A short file can say "ten times ten times ten …" with aliases; what they stand for is bounded too.
    frame.node->weight += node->weight;
    if (frame.node->weight > kMostNodes) {
      stop(Kind::Syntax, mark, "aliases repeat their content to more than " + std::to_string(kMostNodes) + " values");
    }
    if (frame.node->form == YamlNode::Form::List) {
      frame.node->items.push_back(node);
    } else if (!std::exchange(frame.key_read, !frame.key_read)) {
      read_key(frame, *node, mark);
    } else {
      add_entry(frame, node);
    }
  }

  static void read_key(Frame& frame, const YamlNode& node, const YAML::Mark& mark) {
    if (node.form == YamlNode::Form::Null) stop(Kind::Syntax, mark, "a key is missing before the colon");
    if (node.form != YamlNode::Form::Scalar) stop(Kind::Syntax, mark, "a key must be text, not a list or a map");
    const bool odd =
        std::ranges::any_of(node.text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; });
    if (odd || node.text.size() > kLongestKey) {
      stop(Kind::Syntax, mark, "a key must be short and without control characters");
    }
    frame.key = node.text;
    frame.key_mark = mark;
  }

  void add_entry(Frame& frame, const YamlNode* value) {
    const int line = frame.key_mark.line + 1;
    const int column = frame.key_mark.column + 1;
    const auto [first, fresh] = frame.lines.try_emplace(frame.key, line);
    if (fresh) {
      frame.node->entries.push_back({frame.key, line, column, value});
      return;
    }
    Problem problem = problem_at(
        Kind::DuplicateKey,
        line,
        column,
        "stands here a second time (first in line " + std::to_string(first->second) + "); keep one of the two");
    problem.path = text_of(path());
    problems_.push_back(std::move(problem));
  }

  [[nodiscard]] Path path() const {
    Path path;
    for (const Frame& frame : stack_) {
      const bool list = frame.node->form == YamlNode::Form::List;
      path.push_back(list ? "[" + std::to_string(frame.node->items.size()) + "]" : frame.key);
    }
    return path;
  }

  /// "?" and "!" are what yaml-cpp says for plain and quoted values without a tag.
  static void refuse_tag(const std::string& tag, const YAML::Mark& mark) {
    if (!tag.empty() && tag != "?" && tag != "!")
      stop(Kind::Syntax, mark, "tags such as !!str are not used here; remove it");
  }

  YamlDocument& document_;
  std::vector<Problem>& problems_;
  std::vector<Frame> stack_{};
  std::map<YAML::anchor_t, YamlNode*> anchors_{};
  bool begun_ = false;
};

/// What yaml-cpp says, in words that help.
struct Saying {
  std::string_view theirs;
  std::string_view ours;
};
constexpr Saying kSayings[] = {
    {"end of map not found", "the indentation does not fit the lines above; keys of one map begin in one column"},
    {"end of sequence not found",
     "the indentation does not fit the list above; each item begins with \"- \" in one column"},
    {"end of map flow not found",
     "a { above is not closed by }, a comma is missing, or text with a colon, a quote or ${…} in it needs quotes"},
    {"end of sequence flow not found",
     "a [ above is not closed by ], a comma is missing, or text with a colon, a quote or ${…} in it needs quotes"},
    {"illegal EOF in scalar", "a quote above is not closed"},
    {"illegal document indicator in scalar", "a quote above is not closed"},
    {"illegal flow end", "there is a } or ] without its { or ["},
    {"illegal block entry", "a list item cannot begin here; put \"- \" on a line of its own"},
    {"illegal map value",
     "no colon is expected here; look at the indentation, at the colon and space in the line above, or put the text "
     "in "
     "quotes"},
    {"illegal map key", "a key cannot begin here; look at the indentation"},
    {"unknown escape character: ",
     "the backslash begins an escape that YAML does not know; in 'single quotes' it stands for itself"},
    {"the referenced anchor is not defined",
     "this alias names no anchor above it; text that begins with * needs quotes"},
    {"unknown token", "a value cannot begin with this character; write it in quotes"},
};

std::string say_syntax(const std::string& theirs) {
  const auto known =
      std::ranges::find_if(kSayings, [&](const Saying& saying) { return theirs.starts_with(saying.theirs); });
  return "cannot be read as YAML: " + std::string{known == std::end(kSayings) ? theirs : known->ours};
}

/// "level:info" in the line above reads as one word, and YAML complains only at the next colon.
std::optional<Problem> missing_space_above(std::string_view text, int line) {
  std::size_t begin = 0;
  std::string_view above;
  for (int i = 1; i < line; ++i) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    above = text.substr(begin, end - begin);
    begin = std::min(end + 1, text.size());
  }
  const std::size_t first = std::min(above.find_first_not_of(' '), above.size());
  const std::size_t end =
      std::min(above.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", first), above.size());
  const bool glued = end > first && end + 1 < above.size() && above[end] == ':' && above[end + 1] != ' ';
  if (!glued) return std::nullopt;
  return problem_at(Kind::Syntax,
                    line - 1,
                    static_cast<int>(end) + 1,
                    "a space is missing after " + std::string{above.substr(first, end + 1 - first)});
}

/// Length of the UTF-8 character that begins here; 0: none does.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool beyond = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return overlong || beyond ? 0 : length;
}

/// What the YAML reader would take wrongly, or not at all: bytes that are no text, tabs and no-break spaces as
/// indentation.
std::optional<Problem> look_at_bytes(std::string_view text) {
  int line = 1;
  int column = 1;
  std::optional<Problem> tab;  // Only of interest if something follows it in its line.
  bool indenting = true;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const bool control = (c < ' ' && c != '\t' && c != '\n' && c != '\r') || c == 0x7f;
    if (length == 0 || control) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "0x%02x", static_cast<unsigned>(c));
      return problem_at(
          Kind::Syntax,
          line,
          column,
          std::string{"there is a byte here that is no text ("} + hex.data() + "); save the file as UTF-8");
    }
    if (c == '\n') {
      ++line;
      column = 0;
      indenting = true;
      tab.reset();
    } else if (indenting && (c == '\t' || text.substr(i, length) == "\u00a0")) {
      if (!tab) {
        tab = problem_at(Kind::Syntax,
                         line,
                         column,
                         c == '\t' ? "there is a tab in the indentation; use spaces"
                                   : "there is a no-break space in the indentation; use spaces");
      }
    } else if (indenting && c != ' ') {
      indenting = false;
      if (tab && c != '#' && c != '\r') return tab;
    }
    ++column;
    i += length;
  }
  return std::nullopt;
}

}  // namespace

YamlDocument read_yaml(std::string_view text, std::vector<Problem>& problems) {
  YamlDocument document;
  if (std::optional<Problem> problem = look_at_bytes(text)) {
    problems.push_back(std::move(*problem));
    return document;
  }
  try {
    std::istringstream stream{std::string{text}};
    YAML::Parser parser{stream};
    Builder builder{document, problems};
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop& stopped) {
    document.root = nullptr;
    problems.push_back(stopped.problem);
  } catch (const YAML::Exception& error) {
    document.root = nullptr;
    // Some errors come without a place; then it is that of the end.
    const int lines = static_cast<int>(std::ranges::count(text, '\n')) + 1;
    const bool placed = !error.mark.is_null();
    if (placed && error.msg.starts_with("illegal map value")) {
      if (std::optional<Problem> space = missing_space_above(text, error.mark.line + 1)) {
        problems.push_back(std::move(*space));
        return document;
      }
    }
    problems.push_back(problem_at(Kind::Syntax,
                                  placed ? error.mark.line + 1 : lines,
                                  placed ? error.mark.column + 1 : 1,
                                  say_syntax(error.msg)));
  } catch (const std::exception& error) {
    document.root = nullptr;
    problems.push_back(problem_at(Kind::Syntax, 1, 1, say_syntax(error.what())));
  }
  return document;
}

}  // namespace gateway
