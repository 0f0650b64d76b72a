#include "budget/price_json.h"

#include <algorithm>
#include <map>
#include <utility>

namespace budget {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6);
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3F));
    put(0x80 | (code >> 6 & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

/// What stands there, short enough for a message.
std::string shown(std::string_view text) {
  if (text.empty()) return "the end of the file";
  const unsigned char c = static_cast<unsigned char>(text.front());
  if (c < 0x20 || c >= 0x7F) {
    constexpr std::string_view kHex = "0123456789abcdef";
    return std::string{"byte 0x"} + kHex[c >> 4] + kHex[c & 15];
  }
  const auto* end = std::ranges::find_if_not(text, [](char one) {
    return is_digit(one) || (one >= 'a' && one <= 'z') || (one >= 'A' && one <= 'Z') || one == '-' || one == '_';
  });
  const std::size_t length = std::clamp<std::size_t>(static_cast<std::size_t>(end - text.begin()), 1, 24);
  return std::string{text.substr(0, length)};
}

/// Throws JsonError inside this file only.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  JsonDocument read() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    JsonDocument document;
    document.root = value(0);
    blanks();
    if (at_ < text_.size()) fail("the file must end here (has " + shown(rest()) + ")");
    document.repeated = std::move(repeated_);
    return document;
  }

 private:
  [[noreturn]] void fail(std::string message) const { throw JsonError{at_, std::move(message)}; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(at_); }
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void blanks() {
    while (at_ < text_.size() && std::string_view{" \t\r\n"}.find(text_[at_]) != std::string_view::npos) ++at_;
  }

  bool skip(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  Json value(int depth) {
    blanks();
    if (depth > kMostJsonDepth) fail("nested deeper than " + std::to_string(kMostJsonDepth) + " levels");
    if (++values_ > kMostJsonValues) fail("more than " + std::to_string(kMostJsonValues) + " values");
    Json json;
    json.at = at_;
    if (peek() == '{') {
      json.kind = Json::Kind::Map;
      map(json, depth);
    } else if (peek() == '[') {
      json.kind = Json::Kind::List;
      list(json, depth);
    } else if (peek() == '"') {
      json.kind = Json::Kind::String;
      json.text = string();
    } else if (peek() == '-' || is_digit(peek())) {
      json.kind = Json::Kind::Number;
      json.text = number();
    } else {
      word(json);
    }
    return json;
  }

  void word(Json& json) {
    for (const std::string_view known : {"true", "false", "null"}) {
      if (shown(rest()) != known) continue;
      at_ += known.size();
      json.kind = known == "null" ? Json::Kind::Null : Json::Kind::Bool;
      json.text = known;
      return;
    }
    fail("a JSON value must stand here: {…}, […], a \"text\", a number such as 0.25, true, false or null (has " +
         shown(rest()) + ")");
  }

  void map(Json& json, int depth) {
    ++at_;
    blanks();
    if (skip('}')) return;
    do {
      blanks();
      JsonMember member;
      member.at = at_;
      if (peek() != '"')
        fail("a name in quotes must stand here, and no comma before a } (has " + shown(rest()) + ")");
      member.name = string();
      blanks();
      if (!skip(':')) fail("a : must follow the name (has " + shown(rest()) + ")");
      member.value = value(depth + 1);
      json.members.push_back(std::move(member));
      blanks();
    } while (skip(','));
    if (!skip('}')) fail("a , or a } must stand here (has " + shown(rest()) + ")");
    keep_last(json.members);
  }

  void list(Json& json, int depth) {
    ++at_;
    blanks();
    if (skip(']')) return;
    do {
      JsonMember member;
      member.value = value(depth + 1);
      member.at = member.value.at;
      json.members.push_back(std::move(member));
      blanks();
    } while (skip(','));
    if (!skip(']')) fail("a , or a ] must stand here (has " + shown(rest()) + ")");
  }

  void keep_last(std::vector<JsonMember>& members) {
    std::map<std::string_view, std::size_t> last;
    for (std::size_t i = 0; i < members.size(); ++i) last[members[i].name] = i;
    if (last.size() == members.size()) return;
    std::vector<JsonMember> kept;
    std::vector<bool> keep(members.size(), false);
    for (const auto& [name, i] : last) keep[i] = true;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (!keep[i]) repeated_.push_back({members[i].at, members[i].name});
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (keep[i]) kept.push_back(std::move(members[i]));
    }
    members = std::move(kept);
  }

  std::string number() {
    const std::size_t start = at_;
    const auto digits = [&] {
      if (!is_digit(peek())) fail("a digit must stand here (has " + shown(rest()) + ")");
      while (is_digit(peek())) ++at_;
    };
    skip('-');
    if (!skip('0')) digits();
    if (skip('.')) digits();
    if (skip('e') || skip('E')) {
      if (!skip('-')) skip('+');
      digits();
    }
    if (at_ - start > kMostNumber) {
      at_ = start;
      fail("a number of more than " + std::to_string(kMostNumber) + " characters");
    }
    return std::string{text_.substr(start, at_ - start)};
  }

  std::uint32_t hex4() {
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = peek();
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_digit(c) && !letter) fail("four hexadecimal digits must follow \\u (has " + shown(rest()) + ")");
      code = code * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return code;
  }

  void escape(std::string& out) {
    constexpr std::string_view kFrom = "\"\\/bfnrt";
    constexpr std::string_view kTo = "\"\\/\b\f\n\r\t";
    const char c = peek();
    if (const std::size_t known = kFrom.find(c); c != '\0' && known != std::string_view::npos) {
      out += kTo[known];
      ++at_;
      return;
    }
    if (!skip('u')) fail("no escape that JSON knows: \\" + shown(rest()));
    std::uint32_t code = hex4();
    if (code >= 0xD800 && code < 0xDC00 && rest().starts_with("\\u")) {
      const std::size_t before = at_;
      at_ += 2;
      const std::uint32_t low = hex4();
      if (low >= 0xDC00 && low < 0xE000) {
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      } else {
        at_ = before;
      }
    }
    append_utf8(out, code >= 0xD800 && code < 0xE000 ? 0xFFFD : code);
  }

  std::string string() {
    const std::size_t start = at_++;
    std::string out;
    while (true) {
      const std::size_t plain = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20) {
        ++at_;
      }
      out += text_.substr(plain, at_ - plain);
      if (at_ >= text_.size()) {
        at_ = start;
        fail("this text has no end: a closing \" is missing");
      }
      if (skip('"')) return out;
      if (!skip('\\')) fail("a text must end on its line; write \\n for a new line (has " + shown(rest()) + ")");
      escape(out);
    }
  }

  static constexpr std::size_t kMostNumber = 64;
  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t values_ = 0;
  std::vector<JsonError> repeated_{};
};

}  // namespace

const Json* Json::find(std::string_view name) const {
  const auto found = std::ranges::find(members, name, &JsonMember::name);
  return found == members.end() ? nullptr : &found->value;
}

std::string_view name_of(Json::Kind kind) {
  constexpr std::string_view kNames[] = {"null", "true or false", "a number", "a text", "a list", "a map"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::expected<JsonDocument, JsonError> read_json(std::string_view text) {
  if (text.size() > kMostJsonBytes) {
    return std::unexpected{JsonError{0, "larger than 16 MiB; this cannot be a price file"}};
  }
  try {
    return Reader{text}.read();
  } catch (JsonError& error) {
    return std::unexpected{std::move(error)};
  }
}

JsonLines::JsonLines(std::string_view text) {
  starts_.push_back(0);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') starts_.push_back(i + 1);
  }
}

JsonLines::Place JsonLines::place(std::size_t at) const {
  const auto next = std::ranges::upper_bound(starts_, at);
  return {static_cast<std::size_t>(next - starts_.begin()), at - *std::prev(next) + 1};
}

}  // namespace budget
