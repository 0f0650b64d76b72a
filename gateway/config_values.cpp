#include "gateway/config_values.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "gateway/json_out.h"

namespace gateway {
namespace {

using Kind = Problem::Kind;

struct Unit {
  std::string_view name;
  std::int64_t factor;
};
constexpr Unit kDurationUnits[] = {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}, {"d", 86'400'000}};
constexpr Unit kSizeUnits[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

/// What people write instead; the longest that fits comes first.
struct OtherWord {
  std::string_view begins;
  std::string_view unit;
};
constexpr OtherWord kOtherDurations[] = {
    {"mil", "ms"},
    {"ms", "ms"},
    {"min", "m"},
    {"sec", "s"},
    {"hour", "h"},
    {"hr", "h"},
    {"day", "d"},
    {"m", "m"},
    {"s", "s"},
    {"h", "h"},
    {"d", "d"},
};
constexpr OtherWord kOtherSizes[] = {{"k", "KiB"}, {"m", "MiB"}, {"g", "GiB"}};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool all_digits(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_digit); }

std::string lower(std::string_view text) {
  std::string out{text};
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

Mistake wrong(const Key& key, const Written& written, std::string_view mend = {}) {
  std::string message = form_of(key) + " (is " + written.said;
  if (!mend.empty()) message.append("; ").append(mend);
  return {Kind::Type, message + ")"};
}

bool in_range(const Key& key, double number) { return number >= key.range.low && number <= key.range.high; }

Mistake out_of_range(const Key& key, const Written& written) {
  return {Kind::Range, "must be " + range_of(key) + " (is " + written.said + ")"};
}

/// What YAML's core schema takes for something else than text.
bool is_text(std::string_view text) {
  constexpr std::string_view kOthers[] = {"",
                                          "~",
                                          "null",
                                          "Null",
                                          "NULL",
                                          "true",
                                          "True",
                                          "TRUE",
                                          "false",
                                          "False",
                                          "FALSE",
                                          ".nan",
                                          ".NaN",
                                          ".NAN",
                                          ".inf",
                                          "-.inf",
                                          "+.inf"};
  if (std::ranges::find(kOthers, text) != std::end(kOthers)) return false;
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (!std::ranges::any_of(text, is_digit)) return true;
  if (text.starts_with("0x") || text.starts_with("0o")) return text.size() == 2;
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return end != text.data() + text.size() || std::isalpha(static_cast<unsigned char>(text.front()));
}

/// Digits of at most 15 places, which no int64 and no double can lose.
std::optional<std::int64_t> small_number(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.size() > 15) return std::nullopt;
  return number;
}

std::expected<Value, Mistake> read_flag(const Key& key, const Written& written) {
  const std::string word = lower(written.text);
  const bool known = word == "true" || word == "false";
  if (!known) {
    const bool yes = word == "yes" || word == "on" || word == "y" || word == "1";
    const bool no = word == "no" || word == "off" || word == "n" || word == "0";
    return std::unexpected(wrong(key, written, yes ? "write true" : no ? "write false" : ""));
  }
  if (written.quoted && !written.untyped) return std::unexpected(wrong(key, written, "write it without quotes"));
  return Value{.shown = word, .text = word, .number = word == "true"};
}

std::expected<Value, Mistake> read_integer(const Key& key, const Written& written) {
  std::string_view digits = written.text;
  const bool minus = digits.starts_with('-');
  if (minus) digits.remove_prefix(1);
  if (!all_digits(digits) || (digits.size() > 1 && digits.front() == '0'))
    return std::unexpected(wrong(key, written));
  if (written.quoted && !written.untyped) return std::unexpected(wrong(key, written, "write it without quotes"));
  const std::optional<std::int64_t> number = small_number(digits);
  if (!number || !in_range(key, static_cast<double>(minus ? -*number : *number))) {
    return std::unexpected(out_of_range(key, written));
  }
  return Value{.shown = written.text, .number = minus ? -*number : *number};
}

std::expected<Value, Mistake> read_number(const Key& key, const Written& written) {
  const std::string_view text = written.text;
  const bool digits = std::ranges::all_of(text, [](char c) { return is_digit(c) || c == '.' || c == '-'; });
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!digits || text.empty() || end != text.data() + text.size() || text.back() == '.' || text.find('.') == 0) {
    return std::unexpected(wrong(key, written));
  }
  if (written.quoted && !written.untyped) return std::unexpected(wrong(key, written, "write it without quotes"));
  if (error != std::errc{} || !in_range(key, number)) return std::unexpected(out_of_range(key, written));
  return Value{.shown = written.text, .real = number};
}

/// Whole numbers with a unit.
std::expected<Value, Mistake> read_measure(const Key& key, const Written& written, std::span<const Unit> units,
                                           std::span<const OtherWord> other_words) {
  std::string_view rest = written.text;
  const bool minus = rest.starts_with('-');
  if (minus) rest.remove_prefix(1);
  const std::size_t digits_end = std::min(rest.find_first_not_of("0123456789"), rest.size());
  const std::string_view digits = rest.substr(0, digits_end);
  const std::string_view name = rest.substr(digits_end);
  const auto unit = std::ranges::find(units, name, &Unit::name);
  if (digits.empty() || unit == units.end()) {
    std::string mend;
    if (name.empty() && !digits.empty()) {
      mend = "write " + std::string{digits} + std::string{units[1].name} + " or another unit";
    } else if (!digits.empty() && name.find_first_of("0123456789.") == std::string_view::npos) {
      const std::string word = lower(name.substr(std::min(name.find_first_not_of(' '), name.size())));
      const auto other =
          std::ranges::find_if(other_words, [&](const OtherWord& o) { return word.starts_with(o.begins); });
      if (other != other_words.end()) mend = "write " + std::string{digits} + std::string{other->unit};
    } else if (!digits.empty()) {
      mend = "one whole number and one unit";
    }
    return std::unexpected(wrong(key, written, mend));
  }
  const std::optional<std::int64_t> number = small_number(digits);
  std::int64_t product = 0;
  if (!number || __builtin_mul_overflow(*number, minus ? -unit->factor : unit->factor, &product) ||
      !in_range(key, static_cast<double>(product))) {
    return std::unexpected(out_of_range(key, written));
  }
  return Value{.shown = written.text, .number = product};
}

std::expected<Value, Mistake> read_money(const Key& key, const Written& written) {
  const std::string_view text = written.text;
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view dollars = text.substr(0, point);
  const std::string_view fraction = point < text.size() ? text.substr(point + 1) : std::string_view{"0"};
  if (!all_digits(dollars) || !all_digits(fraction) || fraction.size() > 9)
    return std::unexpected(wrong(key, written));
  // A number would become binary before we see it, and money is never that.
  if (!written.quoted && !written.untyped) {
    return std::unexpected(wrong(key, written, "write it in quotes: \"" + written.text + "\""));
  }
  std::string digits{dollars};
  digits.append(fraction).append(9 - fraction.size(), '0');
  std::int64_t nano = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), nano);
  if (error != std::errc{} || !in_range(key, static_cast<double>(nano))) {
    return std::unexpected(out_of_range(key, written));
  }
  return Value{.shown = '"' + written.text + '"', .number = nano};
}

std::expected<Value, Mistake> read_word(const Key& key, const Written& written) {
  const std::vector<std::string> words = words_of(key.words);
  const auto found = std::ranges::find(words, written.text);
  if (found == words.end()) {
    const std::string meant = nearest(written.text, words);
    return std::unexpected(
        Mistake{Kind::Range,
                form_of(key) + " (is " + written.said + (meant.empty() ? ")" : "; did you mean " + meant + "?)")});
  }
  return Value{.shown = written.text, .text = written.text, .number = found - words.begin()};
}

std::expected<Value, Mistake> read_text(const Key& key, const Written& written) {
  if (!written.quoted && !written.untyped && !is_text(written.text)) {
    return std::unexpected(wrong(key, written, "write \"" + written.text + "\" in quotes"));
  }
  return Value{.shown = yaml_text(written.text), .text = written.text};
}

bool is_loopback(std::string_view host) {
  in_addr v4{};
  const std::string text{host};
  if (::inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "::1" || host == "[::1]";
}

bool is_ip_or_localhost(std::string_view host) {
  in_addr v4{};
  in6_addr v6{};
  const std::string text{host};
  return host == "localhost" || ::inet_pton(AF_INET, text.c_str(), &v4) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &v6) == 1;
}

std::optional<int> read_port(std::string_view text) {
  if (!all_digits(text) || text.size() > 5) return std::nullopt;
  int port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port <= 65535 ? std::optional{port} : std::nullopt;
}

std::expected<Value, Mistake> read_address_value(const Key& key, const Written& written) {
  if (!read_address(written.text)) {
    if (read_port(written.text)) return std::unexpected(wrong(key, written, "write 127.0.0.1:" + written.text));
    const std::string_view last = std::string_view{written.text}.substr(written.text.rfind(':') + 1);
    return std::unexpected(
        wrong(key, written, all_digits(last) && !read_port(last) ? "a port is at most 65535" : ""));
  }
  return Value{.shown = yaml_text(written.text), .text = written.text};
}

std::expected<Value, Mistake> read_url_value(const Key& /*key*/, const Written& written) {
  const auto url = read_url(written.text);
  // The text is not repeated: it may hold a password.
  if (!url) return std::unexpected(Mistake{Kind::Type, url.error()});
  std::string text = written.text;
  while (text.ends_with('/')) text.pop_back();
  return Value{.shown = yaml_text(text), .text = text};
}

std::string say_number(double number) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.15g", number);
  return text.data();
}

std::string say_in_unit(Type type, double number) {
  switch (type) {
    case Type::Duration:
      return say_duration(static_cast<std::int64_t>(number));
    case Type::Size:
      return say_size(static_cast<std::int64_t>(number));
    case Type::Money:
      return say_number(number / 1e9);
    default:
      return say_number(number);
  }
}

std::string joined(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? std::string{" "}.append(last).append(" ") : ", ";
    text += words[i];
  }
  return text;
}

std::string say_in_units(std::int64_t number, std::span<const Unit> units, std::size_t smallest) {
  std::size_t best = smallest;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (number != 0 && number % units[i].factor == 0) best = i;
  }
  return std::to_string(number / units[best].factor).append(units[best].name);
}

}  // namespace

std::expected<Value, Mistake> read_value(const Key& key, const Written& written) {
  // Words besides the type's own, such as auto. Word itself has nothing else.
  if (key.type != Type::Word && !key.words.empty()) {
    const std::vector<std::string> words = words_of(key.words);
    if (std::ranges::find(words, written.text) != words.end())
      return Value{.shown = written.text, .text = written.text};
  }
  switch (key.type) {
    case Type::Flag:
      return read_flag(key, written);
    case Type::Integer:
      return read_integer(key, written);
    case Type::Number:
      return read_number(key, written);
    case Type::Duration:
      return read_measure(key, written, kDurationUnits, kOtherDurations);
    case Type::Size:
      return read_measure(key, written, kSizeUnits, kOtherSizes);
    case Type::Money:
      return read_money(key, written);
    case Type::Word:
      return read_word(key, written);
    case Type::Address:
      return read_address_value(key, written);
    case Type::Url:
      return read_url_value(key, written);
    default:
      return read_text(key, written);
  }
}

std::expected<Value, Mistake> read_texts(const Key& key, const std::vector<Written>& items) {
  Value value{.shown = "["};
  const Key item{.path = key.path, .type = Type::Text};
  for (const Written& written : items) {
    auto text = read_text(item, written);
    if (!text) return std::unexpected(text.error());
    if (value.texts.size() > 0) value.shown += ", ";
    value.shown += text->shown;
    value.texts.push_back(text->text);
  }
  value.shown += ']';
  if (!in_range(key, static_cast<double>(items.size()))) {
    return std::unexpected(
        Mistake{Kind::Range, "must have " + range_of(key) + " items (has " + std::to_string(items.size()) + ")"});
  }
  return value;
}

Value read_standard(const Key& key, std::string_view text) {
  const auto unquoted = [](std::string_view part) {
    const bool quoted = part.size() >= 2 && part.starts_with('"') && part.ends_with('"');
    const std::string plain{quoted ? part.substr(1, part.size() - 2) : part};
    return Written{.text = plain, .said = say(plain), .quoted = quoted};
  };
  if (key.type != Type::Texts) return read_value(key, unquoted(text)).value();
  std::vector<Written> items;
  text = text.substr(1, text.size() - 2);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(", "), text.size());
    items.push_back(unquoted(text.substr(0, end)));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return read_texts(key, items).value();
}

std::expected<Substituted, Mistake> substitute(std::string_view raw, const Environment& environment) {
  Substituted out;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '$' || i + 1 == raw.size() || (raw[i + 1] != '$' && raw[i + 1] != '{')) {
      out.text += raw[i];
      continue;
    }
    if (raw[i + 1] == '$') {
      out.text += raw[++i];
      continue;
    }
    const std::size_t end = raw.find('}', i);
    if (end == std::string_view::npos) {
      return std::unexpected(Mistake{Kind::Syntax, "has ${ without }; write $$ for a dollar sign of its own"});
    }
    std::string_view inside = raw.substr(i + 2, end - i - 2);
    if (inside.starts_with("env:")) inside.remove_prefix(4);
    const std::size_t dash = inside.find(":-");
    const std::string name{inside.substr(0, dash)};
    if (!is_variable_name(name)) {
      return std::unexpected(
          Mistake{Kind::Syntax, "has a substitution that is neither ${env:NAME}, ${env:NAME:-default} nor ${NAME}"});
    }
    const auto variable = environment.find(name);
    const bool filled = variable != environment.end() && !variable->second.empty();
    if (filled) {
      out.text += variable->second;
    } else if (dash != std::string_view::npos) {
      out.text += inside.substr(dash + 2);
    } else if (variable == environment.end()) {
      return std::unexpected(Mistake{Kind::Missing,
                                     "needs the environment variable " + name + ", which is not set (${env:" + name +
                                         ":-default} would do without it)"});
    }
    out.any = true;
    i = end;
  }
  return out;
}

std::string_view class_meant(std::string_view word) { return word == "content_filter" ? "content_policy" : word; }

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  if (word.empty() || word.size() > 64) return {};
  // An option's dashes say nothing of what was meant.
  const auto plain = [](std::string_view text) {
    std::string out = lower(text.substr(std::min(text.find_first_not_of('-'), text.size())));
    std::ranges::replace(out, '-', '_');
    return out;
  };
  const std::string a = plain(word);
  std::string best;
  // In a third of its letters a word may differ, in three at most; of equals, the one with the same first letter.
  const std::size_t most = std::clamp<std::size_t>((a.size() + 1) / 3, 1, 3);
  std::pair best_distance{most + 1, false};
  for (const std::string& candidate : candidates) {
    const std::string b = plain(candidate);
    // Optimal string alignment: two neighbours exchanged are one mistake.
    std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
      row[0] = i;
      for (std::size_t j = 1; j <= b.size(); ++j) {
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
      std::swap(before, last);
      std::swap(last, row);
    }
    const std::pair distance{last[b.size()], !b.starts_with(a.substr(0, 1))};
    if (distance < best_distance && distance.first < b.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::optional<Address> read_address(std::string_view text) {
  Address address;
  if (text.starts_with("unix:")) {
    address.unix_path = text.substr(5);
    address.loopback = true;
    // The kernel's limit, with the zero at its end.
    if (!address.unix_path.starts_with('/') || address.unix_path.size() > 107) return std::nullopt;
    return address;
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const std::optional<int> port = read_port(text.substr(colon + 1));
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (!port || bracketed != (host.find(':') != std::string_view::npos) || !is_ip_or_localhost(host))
    return std::nullopt;
  address.host = host;
  address.port = *port;
  address.loopback = is_loopback(host);
  return address;
}

std::expected<Url, std::string> read_url(std::string_view text) {
  constexpr std::string_view kForm = "must be a URL such as https://api.example.com";
  const auto bad = [&](std::string_view why) {
    return std::unexpected(std::string{kForm}.append(" (").append(why).append(")"));
  };
  Url url;
  url.https = text.starts_with("https://");
  if (!url.https && !text.starts_with("http://")) return bad("begin it with https:// or http://");
  text.remove_prefix(url.https ? 8 : 7);
  const bool odd = std::ranges::any_of(text, [](char c) { return c <= ' ' || c > '~' || c == '\\' || c == '"'; });
  if (odd) return bad("it has a space or another character that does not belong there");
  if (text.find('@') != std::string_view::npos) return bad("it must not carry a user name or password");
  if (text.find_first_of("?#") != std::string_view::npos) return bad("without ? and #");
  const std::size_t slash = std::min(text.find('/'), text.size());
  std::string_view host = text.substr(0, slash);
  url.path = text.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  if (colon != std::string_view::npos) {
    const std::optional<int> port = read_port(host.substr(colon + 1));
    if (!port || *port == 0) return bad("its port must be a number from 1 to 65535");
    host = host.substr(0, colon);
  }
  const bool v6 = host.starts_with('[') && host.ends_with(']') && is_ip_or_localhost(host.substr(1, host.size() - 2));
  const bool name = !host.empty() && std::ranges::all_of(host, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  });
  if (!v6 && !name) return bad("its host cannot be read");
  url.host = host;
  url.loopback = is_loopback(host);
  return url;
}

std::optional<double> read_rate(std::string_view text) {
  constexpr double kMost = 1e6;
  if (text.size() < 3 || text[text.size() - 2] != '/') return std::nullopt;
  const char unit = text.back();
  const double seconds = unit == 's' ? 1 : unit == 'm' ? 60 : unit == 'h' ? 3600 : 0;
  text.remove_suffix(2);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (seconds == 0 || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if (!(number > 0) || number > kMost) return std::nullopt;
  return number / seconds;
}

std::optional<std::int64_t> read_duration(std::string_view text) {
  const auto value =
      read_value(Key{.path = "duration", .type = Type::Duration},
                 {.text = std::string{text}, .said = std::string{text}, .quoted = false, .untyped = true});
  return value ? std::optional{value->number} : std::nullopt;
}
std::string say_duration(std::int64_t milliseconds) { return say_in_units(milliseconds, kDurationUnits, 1); }
std::string say_size(std::int64_t bytes) { return say_in_units(bytes, kSizeUnits, 0); }

std::string form_of(const Key& key) {
  std::string words = joined(words_of(key.words), "or");
  if (key.type == Type::Word) return "must be " + words;
  if (!words.empty()) words += " or ";
  switch (key.type) {
    case Type::Flag:
      return "must be true or false";
    case Type::Integer:
      return "must be a whole number";
    case Type::Number:
      return "must be a number such as 0.5";
    case Type::Duration:
      return "must be " + words + "a duration such as 250ms, 30s or 5m";
    case Type::Size:
      return "must be " + words + "a size such as 65536, 64KiB or 1GiB";
    case Type::Money:
      return "must be an amount in US dollars such as \"12.50\"";
    case Type::Address:
      return "must be an address such as 127.0.0.1:4600, [::1]:4600 or unix:/run/callgate.sock";
    case Type::Url:
      return "must be a URL such as https://api.example.com";
    case Type::Secret:
      return "must be {file: /path}, {env: NAME} or {credential: NAME}";
    case Type::Texts:
      return "must be a list such as [a, b]";
    case Type::List:
      return "must be a list";
    case Type::Map:
      return "must be a map of keys";
    default:
      return "must be text";
  }
}

std::string range_of(const Key& key) {
  const bool low = key.range.low != Range{}.low;
  const bool high = key.range.high != Range{}.high;
  if (low && high) {
    return "between " + say_in_unit(key.type, key.range.low) + " and " + say_in_unit(key.type, key.range.high);
  }
  if (low) return "at least " + say_in_unit(key.type, key.range.low);
  if (high) return "at most " + say_in_unit(key.type, key.range.high);
  return {};
}

std::vector<std::string> words_of(std::string_view words) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const std::size_t end = std::min(words.find('|'), words.size());
    out.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return out;
}

bool is_variable_name(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

std::string say(std::string_view text) {
  constexpr std::size_t kMost = 60;
  const bool plain = !text.empty() && text.size() <= kMost && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) ||
           std::string_view{"._-+:/[]*"}.find(c) != std::string_view::npos;
  });
  if (plain) return std::string{text};
  std::string out;
  append_json(out, text, kMost);
  return out;
}

std::string yaml_text(std::string_view text) {
  const bool plain = is_text(text) && !text.ends_with(':') &&
                     (std::isalnum(static_cast<unsigned char>(text.front())) || text.front() == '/') &&
                     std::ranges::all_of(text, [](char c) {
                       return std::isalnum(static_cast<unsigned char>(c)) ||
                              std::string_view{"._-+:/*"}.find(c) != std::string_view::npos;
                     });
  if (plain) return std::string{text};
  std::string out;
  append_json(out, text, text.size());
  return out;
}

}  // namespace gateway
