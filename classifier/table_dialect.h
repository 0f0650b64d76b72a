#pragma once
// How does one table make a whole dialect? All that providers differ in is data here; the reading is shared.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "classifier/dialect.h"
#include "classifier/reading.h"
#include "classifier/rules.h"

namespace classifier {

/// One path below the version: "chat/completions". "*" stands for one segment, or for the part of a segment before
/// a colon: "models/*:generateContent"; "**" for whatever may stand there, slashes or nothing.
struct PathRow {
  std::string_view path;
  Operation operation = Operation::Other;
  bool replay_safe = false;
  bool understood = false;
  const Family* family = nullptr;  // Null: as its operation is read everywhere, else as the dialect's others.
  bool borrowed = false;           // Another dialect's: by it alone no upstream is told from another.
};

struct StatusOf {
  Class cls;
  int status;
};

/// A provider's word for errors of a class.
struct TypeOf {
  Class cls;
  std::string_view type;
};
[[nodiscard]] std::string_view type_of(std::span<const TypeOf> types, Class cls, std::string_view otherwise);

struct DialectTable {
  std::string_view name;
  std::span<const std::string_view> versions;  // Path prefixes that may be there, twice, or missing: then the first.
  std::span<const PathRow> paths;              // POST only; what is not here passes through.
  std::span<const Rule> rules;                 // Before those that all dialects share.
  std::span<const StatusOf> statuses;          // Where this provider's differ from the usual ones.
  std::string_view request_id_header;
  const Family* family;  // Of operations that do not name one by themselves.
  /// What else is there, as fronts of paths, below a version: "files" stands for "files/…", too.
  std::span<const std::string_view> resources{};
  std::span<const std::string_view> unversioned{};  // Fronts of those paths that stand beside the versions.
  KeyHeader key{.name = "authorization", .scheme = "Bearer "};
  /// The part of a path that names the model, as it stands there; empty if none does. Null: bodies name it.
  std::string_view (*model_in_path)(std::string_view path) = nullptr;
  std::string_view model_front{};  // May stand before a model's name and is no part of it: "models/".
  bool usage_unasked = false;      // Its streams report usage anyway, and it may refuse a request that asks for it.
  std::string (*error_document)(std::string_view event, const SaidError& said) = nullptr;  // Null: its family's.
  std::string (*error_body)(const OwnError& error);
  std::string (*error_event)(const Endpoint& endpoint, const OwnError& error);
  std::string_view (*heartbeat)(const Endpoint& endpoint);
  Headers (*error_headers)(const OwnError& error) = nullptr;  // Null: none.
  /// What path and query say of a request, after its body was read. Null: nothing but the model.
  void (*read_target)(std::string_view path, std::string_view query, RequestFacts& facts) = nullptr;
  /// What the head of a good answer reports, after its body was read. Null: nothing.
  void (*read_head)(const Headers& head, Reading& into) = nullptr;
};

/// Of a table's model_in_path and read_target.
[[nodiscard]] std::string_view value_in_query(std::string_view query, std::string_view name);
/// Google's "…/models/NAME:verb", below one of those resources.
[[nodiscard]] std::string_view name_before_verb(std::string_view path, std::span<const std::string_view> resources);

class TableDialect final : public Dialect {
 public:
  explicit TableDialect(const DialectTable& table) : table_(table) {}

  [[nodiscard]] std::string_view name() const override { return table_.name; }
  [[nodiscard]] Endpoint endpoint(std::string_view method, std::string_view path) const override;
  [[nodiscard]] ApiPath read_path(std::string_view path) const override;
  [[nodiscard]] KeyHeader key_header() const override { return table_.key; }
  [[nodiscard]] RequestFacts read_request(const Endpoint& endpoint, std::string_view path, std::string_view query,
                                          std::string_view body) const override;
  [[nodiscard]] std::optional<Edit> ask_for_usage(const Endpoint& endpoint, std::string_view body) const override;
  [[nodiscard]] std::optional<Renamed> with_model(std::string_view path, std::string_view body,
                                                  std::string_view model) const override;
  [[nodiscard]] Judged read(const Endpoint& endpoint, const ProviderAnswer& answer) const override;
  [[nodiscard]] bool is_stream(const Endpoint& endpoint, const RequestFacts& facts,
                               const Headers& head) const override;
  [[nodiscard]] std::unique_ptr<StreamReader> stream_reader(const Endpoint& endpoint, const RequestFacts& facts,
                                                            const Headers& head, bool hide_usage,
                                                            std::span<const ExtraRule> rules) const override;
  [[nodiscard]] std::string error_body(const OwnError& error) const override;
  [[nodiscard]] Headers error_headers(const OwnError& error) const override;
  [[nodiscard]] std::string error_event(const Endpoint& endpoint, const OwnError& error) const override;
  [[nodiscard]] std::string_view heartbeat(const Endpoint& endpoint) const override;
  [[nodiscard]] int status_of(Class cls) const override;
  [[nodiscard]] std::string_view request_id_header() const override { return table_.request_id_header; }

 private:
  /// A 2xx whose body matters.
  [[nodiscard]] Judged read_good(const Endpoint& endpoint, const ProviderAnswer& answer) const;
  [[nodiscard]] ApiPath without_versions(std::string_view path) const;
  [[nodiscard]] const PathRow* row_of(std::string_view rest) const;
  [[nodiscard]] const Family& family_of(const Endpoint& endpoint) const;
  /// The part of a path that names the model, or nothing.
  [[nodiscard]] std::string_view model_in(std::string_view path) const;
  /// Its streams report usage only when asked.
  [[nodiscard]] bool usage_on_request(const Endpoint& endpoint) const;

  const DialectTable& table_;
};

}  // namespace classifier
