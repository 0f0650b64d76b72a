#pragma once
// Does a file that holds a provider's key hold another one by now? (Secrets of Kubernetes, Vault agents, people.)

#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gateway/config.h"

namespace gateway {

struct KeySource {
  std::string name{};  // secret_name()
  SecretSource source{};
  bool operator==(const KeySource&) const = default;
};

/// A file may have changed: the key that it holds now, or why it cannot be used (nothing of the file is in that).
struct KeyChange {
  std::string name{};
  std::expected<std::string, std::string> key{};
};

/// Looks at each file's state twice a second, on a thread of its own; a file that changed is read after it has been
/// at rest for one look. Links are followed, so that the swap of a mounted Secret is seen.
class KeyFiles {
 public:
  /// `changed` is called on that thread.
  explicit KeyFiles(std::function<void(KeyChange)> changed);
  ~KeyFiles();  // Stops and joins.
  /// These from now on. Each is read and told of once, whatever it holds. Any thread.
  void watch(std::vector<KeySource> sources);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
