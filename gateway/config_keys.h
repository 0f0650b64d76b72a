#pragma once
// Which configuration keys exist, and what may stand there?
//
// One table. The validator, `callgate config show | schema | docs` and docs/configuration.md all read it, so they
// cannot disagree.

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gateway/config.h"

namespace gateway {

enum class Type : std::uint8_t {
  Map,    // Keys below.
  List,   // Items below ("[]" in the path).
  Texts,  // A list of texts.
  Text,
  Flag,
  Integer,
  Number,
  Duration,  // In milliseconds.
  Size,      // In bytes.
  Money,     // In nano-USD; a decimal string.
  Word,      // One of `words`.
  Address,   // host:port, [v6]:port, unix:/path
  Url,       // Base URL of an upstream.
  Secret,    // {file: path}, {env: NAME} or {credential: NAME}, never the secret itself.
  Anything,  // Not looked into.
};

/// A value that was understood.
struct Value {
  std::string shown{};  // As one would write it.
  std::string text{};
  std::int64_t number = 0;  // In the type's unit; of a word its index.
  double real = 0;          // Number only.
  std::vector<std::string> texts{};
  /// Means the same, however it was written: 60s is 1m.
  bool same_as(const Value& other) const {
    return text == other.text && number == other.number && real == other.real && texts == other.texts;
  }
};

struct Range {
  double low = std::numeric_limits<double>::lowest();
  double high = std::numeric_limits<double>::max();
};

struct Key {
  std::string_view path;  // "upstreams.*.timeouts.connect"; "*": any name, "[]": the items of a list.
  Type type = Type::Text;
  std::string_view standard{};  // The default as one would write it; empty: absent.
  std::string_view meaning{};
  Range range{};               // In the type's unit; of Texts how many.
  std::string_view words{};    // "json|text": all there is for Word; for other types words besides their own.
  std::string_view example{};  // Empty: the default is example enough.
  std::string_view later{};    // Not in this version: what is missing, in a word or two. Empty: it is there.
  /// `name` is what stands at the path's "*".
  void (*apply)(Config& config, const std::string& name, const Value& value) = nullptr;
};

/// In the order of the documentation; groups come before what they hold.
[[nodiscard]] std::span<const Key> config_keys();

/// Entries of named groups that are there without being written.
struct BuiltIn {
  std::string_view path;  // "upstreams.openai.url"
  std::string_view value;
};
[[nodiscard]] std::span<const BuiltIn> built_in_settings();

/// What no upstream or route can be called: callers' paths begin with it when they name no upstream.
[[nodiscard]] std::span<const std::string_view> reserved_names();

/// The table as a tree. A place may have a row of its own *and* keys below it (a text, or a map that says more).
struct Branch {
  const Key* key = nullptr;
  std::vector<std::pair<std::string_view, std::unique_ptr<Branch>>> named{};  // In the table's order.
  std::unique_ptr<Branch> any{};                                              // "*"
  std::unique_ptr<Branch> items{};                                            // "[]"
  [[nodiscard]] const Branch* find(std::string_view name) const;              // Named, else any, else null.
  [[nodiscard]] bool group() const { return any || items || !named.empty(); }
};
[[nodiscard]] const Branch& config_tree();

using Path = std::vector<std::string>;
/// "upstreams.openai.url"; a name with a dot in it is quoted.
[[nodiscard]] std::string text_of(const Path& path);
/// The other way round, without list items; empty if it cannot be read.
[[nodiscard]] Path path_of(std::string_view text);
[[nodiscard]] bool is_built_in(const Path& path);

}  // namespace gateway
