#pragma once
// Is a payload as its queue's contract says?
//
// A subset of JSON Schema 2020-12 (docs/queues.md lists it). A keyword that is not in it is refused when the schema
// is read, never passed over. Schema and payload may be anybody's: depth, count and work are bounded.

#include <cstddef>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gateway {

class JsonTree;

inline constexpr std::size_t kMostPayloadFaults = 20;  // Told of one payload.
inline constexpr std::size_t kMostSchemaProblems = 20;

/// Why a schema cannot be used.
struct SchemaProblem {
  std::string pointer{};  // "/properties/a"; empty: the whole.
  std::string message{};
  int line = 1;
  int column = 1;
};

/// What a payload should be and is not. Nothing of its values is in it, only names of members.
struct PayloadFault {
  std::string pointer{};   // "/items/3/price"; empty: the whole.
  std::string expected{};  // "must be a number"
  bool operator==(const PayloadFault&) const = default;
};
/// "/items/3/price must be a number", "the body must be an object"
[[nodiscard]] std::string text_of(const PayloadFault& fault);

class JsonSchema {
 public:
  [[nodiscard]] static std::expected<std::shared_ptr<const JsonSchema>, std::vector<SchemaProblem>> read(
      std::string text);
  ~JsonSchema();

  /// Empty: it fits. Never throws for what stands in it.
  [[nodiscard]] std::vector<PayloadFault> check(std::string_view body) const;
  [[nodiscard]] std::vector<PayloadFault> check(const JsonTree& body) const;
  /// What it was read from.
  [[nodiscard]] const std::string& source() const { return source_; }

 private:
  class Impl;
  JsonSchema(std::string source, std::unique_ptr<const Impl> impl);
  std::string source_;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace gateway
