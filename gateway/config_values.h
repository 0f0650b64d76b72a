#pragma once
// What does one written value mean, and if it means nothing, how would it be right?

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/config_keys.h"

namespace gateway {

/// A single value as it was found.
struct Written {
  std::string text{};
  std::string said{};    // How to repeat it in a message.
  bool quoted = false;   // Cannot be a number or a flag.
  bool untyped = false;  // From a variable or the command line, where all is text.
};

struct Mistake {
  Problem::Kind kind = Problem::Kind::Type;
  std::string message{};
};

/// For every type that is one value (not Map, List, Texts, Secret, Anything).
[[nodiscard]] std::expected<Value, Mistake> read_value(const Key& key, const Written& written);
[[nodiscard]] std::expected<Value, Mistake> read_texts(const Key& key, const std::vector<Written>& items);
/// The table's own defaults and examples, where lists are written as "[a, b]".
[[nodiscard]] Value read_standard(const Key& key, std::string_view text);

/// ${env:NAME}, ${env:NAME:-default}, ${NAME}, $$; `any`: something was put in, so the text has lost its type.
struct Substituted {
  std::string text{};
  bool any = false;
};
[[nodiscard]] std::expected<Substituted, Mistake> substitute(std::string_view raw, const Environment& environment);

/// A class's name, also where it was named by another word that people have for it ("content_filter").
[[nodiscard]] std::string_view class_meant(std::string_view word);

/// The candidate that was probably meant, or empty.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "host:port", "[v6]:port" or "unix:/path".
struct Address {
  std::string host{};
  int port = 0;
  std::string unix_path{};
  bool loopback = false;  // Nobody but this machine; unix sockets included.
};
[[nodiscard]] std::optional<Address> read_address(std::string_view text);

/// "https://host[:port][/path]"; says what is wrong otherwise.
struct Url {
  bool https = false;
  std::string host{};
  std::string path{};  // Without a slash at the end.
  bool loopback = false;
};
[[nodiscard]] std::expected<Url, std::string> read_url(std::string_view text);

/// "5/s", "30/m", "0.5/h" per second, above 0; nothing: it is no rate.
[[nodiscard]] std::optional<double> read_rate(std::string_view text);
/// "90s", "1h" in milliseconds, as in the configuration; nothing: it is no duration.
[[nodiscard]] std::optional<std::int64_t> read_duration(std::string_view text);
[[nodiscard]] std::string say_duration(std::int64_t milliseconds);  // "90s"
[[nodiscard]] std::string say_size(std::int64_t bytes);             // "64KiB"
/// "must be a duration such as 250ms, 30s or 5m"
[[nodiscard]] std::string form_of(const Key& key);
/// "between 1ms and 1h", "at least 1", or empty.
[[nodiscard]] std::string range_of(const Key& key);
[[nodiscard]] std::vector<std::string> words_of(std::string_view words);
[[nodiscard]] bool is_variable_name(std::string_view text);
/// For messages: plain words as they are, else quoted, cut and without control characters.
[[nodiscard]] std::string say(std::string_view text);
/// For YAML: quoted only where it must be.
[[nodiscard]] std::string yaml_text(std::string_view text);

}  // namespace gateway
