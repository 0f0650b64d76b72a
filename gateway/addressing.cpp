#include "gateway/addressing.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <vector>

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

using Known = classifier::ApiPath::Known;

Known known_by(const Dialect& dialect, std::string_view path) { return dialect.read_path(path).known; }

/// Default upstreams of the dialects that know this path best.
std::vector<std::shared_ptr<const Target>> knowing(const Directory& directory, std::string_view path) {
  std::vector<std::shared_ptr<const Target>> found;
  Known best = Known::Beside;
  for (const auto& [dialect, name] : directory.default_upstream) {
    const auto upstream = directory.upstreams.find(name);
    if (upstream == directory.upstreams.end()) continue;
    const Known known = known_by(*upstream->second->dialect, path);
    if (known < best) continue;
    if (known > best) found.clear();
    best = known;
    found.push_back(upstream->second);
  }
  return found;
}

bool query_has(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view pair = query.substr(0, end);
    if (pair.size() > name.size() && pair.starts_with(name) && pair[name.size()] == '=') return true;
    query.remove_prefix(std::min(end + 1, query.size()));
  }
  return false;
}

/// Does the caller's key come as this dialect's clients send it? New Anthropic clients send theirs as a bearer's.
bool speaks_as(const Dialect& dialect, const classifier::Headers& headers, std::string_view query) {
  const bool versioned = classifier::find(headers, "anthropic-version").has_value();
  if (dialect.name() == "anthropic" && versioned) return true;
  if (dialect.name() == "gemini" && query_has(query, "key")) return true;
  return !versioned && classifier::find(headers, dialect.key_header().name).has_value();
}

/// The one of them that is meant; null if that cannot be told.
std::shared_ptr<const Target> meant_of(const std::vector<std::shared_ptr<const Target>>& candidates,
                                       const classifier::Headers& headers, std::string_view query) {
  if (candidates.size() == 1) return candidates.front();
  std::shared_ptr<const Target> meant;
  for (const auto& candidate : candidates) {
    if (!speaks_as(*candidate->dialect, headers, query)) continue;
    // Of several that take a bearer's key, the one whose form the others have copied.
    if (!meant || candidate->dialect->name() == "openai") meant = candidate;
  }
  return meant;
}

/// "/openai" of "https://api.groq.com/openai".
std::string_view path_of_url(std::string_view url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string_view::npos) return {};
  const std::size_t slash = url.find('/', scheme + 3);
  return slash == std::string_view::npos ? std::string_view{} : url.substr(slash);
}

/// "v1", "v4", "v1beta": a segment that can only be a version.
bool is_version(std::string_view segment) {
  if (segment.size() < 2 || segment[0] != 'v' || segment[1] < '0' || segment[1] > '9') return false;
  segment.remove_prefix(std::min(segment.find_first_not_of("0123456789", 1), segment.size()));
  return segment.empty() || segment.starts_with("alpha") || segment.starts_with("beta");
}

/// The path as the provider has it.
std::string providers_path(const Target& to, std::string_view path) {
  const std::string_view base = path_of_url(to.config.url);
  if (!base.empty() && path.starts_with(base) && path.substr(base.size()).starts_with('/')) {
    path.remove_prefix(base.size());
  }
  const classifier::ApiPath read = to.dialect->read_path(path);
  const bool base_has_version = is_version(base.substr(base.rfind('/') + 1));
  std::string version{read.version};
  if (read.known == Known::No) {
    // We do not know what is there; but the same version twice is a mistake everywhere.
    const std::string_view whole = path.substr(0, path.size() - read.rest.size());
    const bool twice = !version.empty() && whole == "/" + version + "/" + version + "/";
    if (!twice && !(base_has_version && !version.empty())) return std::string{path};
  }
  if (version.empty() && !to.url_is_complete) version = read.home;
  std::string found{"/"};
  if (!version.empty() && !base_has_version) found.append(version).append("/");
  return found.append(read.rest);
}

}  // namespace

std::expected<Addressed, Unaddressed> address(const Directory& directory, std::string_view target,
                                              const classifier::Headers& headers) {
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
    found.path =
        providers_path(*found.to, slash == std::string_view::npos ? std::string_view{"/"} : path.substr(slash));
  } else if (name == kReserved) {
    return std::unexpected(
        Unaddressed{404, "callgate_unknown_path", "callgate's own API has no such path in this version"});
  } else {
    const auto candidates = knowing(directory, path);
    found.to = meant_of(candidates, headers, query);
    if (!found.to) {
      const std::string why = candidates.empty() ? "no upstream is named in the path"
                                                 : "several APIs have such a path, and the request has no key by "
                                                   "which to tell whose it is";
      return std::unexpected(Unaddressed{
          404, "callgate_unknown_upstream", why + "; it should begin with one of " + names_of(directory)});
    }
    found.path = providers_path(*found.to, path);
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
    const Dialect* best = nullptr;
    Known how_well = Known::No;
    for (const Dialect* dialect : classifier::dialects()) {
      const Known known = known_by(*dialect, path);
      if (known <= how_well) continue;
      best = dialect;
      how_well = known;
    }
    if (best) return *best;
  }
  assert(!classifier::dialects().empty());
  return *classifier::dialects().front();
}

}  // namespace gateway
