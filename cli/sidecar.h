#pragma once
// What does a pod get that has callgate beside its application? As YAML, the same as by helm/callgate-sidecar, whose
// files/sidecar.yaml is part of the executable.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cli {

/// helm/callgate-sidecar/files/sidecar.yaml.
[[nodiscard]] std::string_view sidecar_text();

struct SidecarWishes {
  std::string image{};  // Empty: the chart's.
  bool native = true;   // An init container with restartPolicy Always; else a second container.
  std::string config_map{};
  std::string keys_secret{};                                // Empty: the application's own keys pass through.
  std::vector<std::pair<std::string, std::string>> keys{};  // Upstream, and the Secret's key.
};

/// Lines without a line end and without indentation of their own; those of `container` are one item of a list.
struct Sidecar {
  using Lines = std::vector<std::string>;
  Lines container{};
  std::vector<Lines> volumes{};
  std::vector<Lines> app_env{};
  Lines labels{};
  Lines annotations{};
  Lines config{};  // callgate's own configuration.
};
[[nodiscard]] Sidecar sidecar_of(const SidecarWishes& wishes);

/// A name of Kubernetes' as YAML: quoted where it would be read as a number or as true.
[[nodiscard]] std::string yaml_name(const std::string& name);

/// What stands behind "name: " in the item of a list; empty if nothing does.
[[nodiscard]] std::string name_in(const Sidecar::Lines& item);

}  // namespace cli
