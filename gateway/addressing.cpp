#include "gateway/addressing.h"

#include <cassert>
#include <optional>

namespace gateway {
namespace {

using classifier::Dialect;

constexpr std::string_view kReserved = "callgate";

/// "." and ".." segments, also as %2e: somebody below us might resolve them against another path than we saw.
bool has_dot_segment(std::string_view path) {
  std::size_t at = 0;
  while (at <= path.size()) {
    const std::size_t slash = std::min(path.find_first_of("/\\", at), path.size());
    std::string segment;
    for (std::size_t i = at; i < slash; ++i) {
      if (path[i] == '%' && i + 2 < path.size() && path[i + 1] == '2' && (path[i + 2] == 'e' || path[i + 2] == 'E')) {
        segment += '.';
        i += 2;
      } else {
        segment += path[i];
      }
      if (segment.size() > 2) break;
    }
    if (segment == "." || segment == "..") return true;
    at = slash + 1;
  }
  return false;
}

bool has_odd_byte(std::string_view target) {
  for (const char c : target) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte == 127 || c == '#' || c == '\\') return true;
  }
  return false;
}

std::string names_of(const Directory& directory) {
  std::string names;
  for (const auto& [name, upstream] : directory.upstreams) {
    if (!names.empty()) names += ", ";
    names += "/" + name + "/";
  }
  return names;
}

/// The default upstream of the one dialect whose path this is; nothing if it is nobody's or several dialects'.
const std::shared_ptr<const Target>* by_path(const Directory& directory, std::string_view method,
                                             std::string_view path) {
  const std::shared_ptr<const Target>* found = nullptr;
  for (const auto& [dialect, name] : directory.default_upstream) {
    const auto upstream = directory.upstreams.find(name);
    if (upstream == directory.upstreams.end()) continue;
    const classifier::Endpoint endpoint = upstream->second->dialect->endpoint(method, path);
    if (!endpoint.understood || endpoint.borrowed) continue;
    if (found) return nullptr;
    found = &upstream->second;
  }
  return found;
}

}  // namespace

std::expected<Addressed, Unaddressed> address(const Directory& directory, std::string_view method,
                                              std::string_view target) {
  if (target.empty() || target.front() != '/') {
    return std::unexpected(Unaddressed{400, "callgate_bad_target", "the request target must begin with a slash"});
  }
  if (has_odd_byte(target)) {
    return std::unexpected(
        Unaddressed{400, "callgate_bad_target", "the request target has a character that must be percent-encoded"});
  }
  const std::size_t mark = target.find('?');
  const std::string_view path = target.substr(0, mark);
  const std::string_view query = mark == std::string_view::npos ? std::string_view{} : target.substr(mark + 1);
  if (has_dot_segment(path)) {
    return std::unexpected(Unaddressed{400, "callgate_bad_target", "the request path has a \".\" or \"..\" segment"});
  }

  const std::size_t slash = path.find('/', 1);
  const std::string_view name = path.substr(1, slash == std::string_view::npos ? slash : slash - 1);
  Addressed found;
  found.query = query;
  if (const auto upstream = directory.upstreams.find(name); upstream != directory.upstreams.end()) {
    found.to = upstream->second;
    found.path = slash == std::string_view::npos ? std::string_view{"/"} : path.substr(slash);
  } else if (name == kReserved) {
    return std::unexpected(
        Unaddressed{404, "callgate_unknown_path", "callgate's own API has no such path in this version"});
  } else if (const auto* upstream_of_path = by_path(directory, method, path)) {
    found.to = *upstream_of_path;
    found.path = path;
  } else {
    return std::unexpected(
        Unaddressed{404,
                    "callgate_unknown_upstream",
                    "no upstream is named in the path; it must begin with one of " + names_of(directory)});
  }
  found.target = found.path;
  if (mark != std::string_view::npos) found.target.append("?").append(query);
  return found;
}

const Dialect& dialect_for(const Directory& directory, std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path.size() > 1) {
    const std::size_t slash = path.find('/', 1);
    const std::string_view name = path.substr(1, slash == std::string_view::npos ? slash : slash - 1);
    if (const auto upstream = directory.upstreams.find(name); upstream != directory.upstreams.end()) {
      return *upstream->second->dialect;
    }
    for (const Dialect* dialect : classifier::dialects()) {
      if (dialect->endpoint("POST", path).understood) return *dialect;
    }
  }
  assert(!classifier::dialects().empty());
  return *classifier::dialects().front();
}

}  // namespace gateway
