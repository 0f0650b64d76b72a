#pragma once
// Where does a Kubernetes document have its pod, and how is something put into it without touching the rest?

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config_yaml.h"

namespace cli {

/// One document of a stream, as text: `lead` is the line with which it is separated from the one before.
struct ManifestPart {
  std::string lead{};
  std::string body{};
  int first_line = 1;  // Of the body, in the stream.
};
[[nodiscard]] std::vector<ManifestPart> parts_of(std::string_view stream);

/// May it have a pod? Told from its first words, so that what we do not know need not be readable for us.
[[nodiscard]] bool may_have_pod(std::string_view body);

[[nodiscard]] const gateway::YamlNode* find(const gateway::YamlNode* map, std::string_view key);
/// Its text; empty if there is none.
[[nodiscard]] std::string text_at(const gateway::YamlNode* map, std::string_view key);

struct PodPlace {
  std::string kind{};
  std::string name{};
  std::string space{};                       // Its namespace; empty: none is named.
  const gateway::YamlNode* owner = nullptr;  // Of metadata and spec: the pod's template, or the pod.
  const gateway::YamlNode* workload = nullptr;
  int limit = 0;  // The line before which `owner` has ended; 0: the text's end.
};
/// Of a document or a List.
[[nodiscard]] std::vector<PodPlace> pods_in(const gateway::YamlNode* root);

/// Something in it stands for what was said above it, so that a change there would be one here.
[[nodiscard]] bool has_alias(const gateway::YamlNode& root);
/// The same in block style, comments aside; without empty lists of env, volumes and the like, to which something
/// could not be added.
[[nodiscard]] std::string block_style(const gateway::YamlNode& root);

/// Collects what is added to a text of which the nodes were read.
class Additions {
 public:
  using Lines = std::vector<std::string>;
  explicit Additions(std::string_view body);
  /// In front of what is there. False: it is not written in block style.
  bool to_map(const gateway::YamlNode& map, const Lines& lines);
  bool to_list(const gateway::YamlNode& list, const Lines& item);
  /// To the list or map that stands under `key`, which is made if it is not there, or is empty.
  bool to_key(const gateway::YamlNode& map, const std::string& key, const Lines& lines);
  /// Behind what is there. `limit`: the line before which the list has ended; zero: the text's end.
  bool to_end_of_list(const gateway::YamlNode& list, const Lines& item, int limit);
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] bool in_flow(const gateway::YamlNode& node) const;
  bool to_empty(const gateway::YamlNode::Entry& entry, const Lines& lines);
  bool put(const gateway::YamlNode& first, bool in_list, const Lines& lines);
  std::vector<std::string> lines_{};  // With their ends.
  struct Added {
    std::string whole{};   // Lines in front of this one.
    std::string inside{};  // At `column` of it.
    std::size_t column = 0;
    std::string instead{};  // Of the line itself.
    std::string below{};    // Right behind it.
  };
  std::map<int, Added> added_{};
};

/// The line before which a value has ended, given that its map has ended before `limit` (0: the text's end).
[[nodiscard]] int limit_of(const gateway::YamlNode& map, std::string_view key, int limit);

}  // namespace cli
