#include "gateway/addressing.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <vector>

namespace gateway {
namespace {

using classifier::Dialect;

constexpr std::string_view kReserved = "callgate";

/// What "%2e", "%2f" and "%5c" stand for; all else as it is.
char dot_or_slash(std::string_view path, std::size_t& at) {
  const auto encoded = [&](std::string_view code) {
    return path.size() >= at + 3 && classifier::same_name(path.substr(at, 3), code);
  };
  char found = path[at];
  if (encoded("%2e")) found = '.';
  if (encoded("%2f")) found = '/';
  if (encoded("%5c")) found = '\\';
  at += found == path[at] ? 1 : 3;
  return found;
}

/// "." and ".." segments, however they are written: somebody below us might resolve them against another path than we
/// saw.
bool has_dot_segment(std::string_view path) {
  std::string segment;
  for (std::size_t at = 0; at < path.size();) {
    const char c = dot_or_slash(path, at);
    if (c != '/' && c != '\\') {
      if (segment.size() < 3) segment += c;
      continue;
    }
    if (segment == "." || segment == "..") return true;
    segment.clear();
  }
  return segment == "." || segment == "..";
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
  for (const auto& [name, upstream] : directory.routes) {
    if (!names.empty()) names += ", ";
    names += "/" + name + "/";
  }
  return names;
}

using Known = classifier::ApiPath::Known;

Known known_by(const Dialect& dialect, std::string_view path) { return dialect.read_path(path).known; }

/// Default upstreams of the dialects that know this path best.
std::vector<std::shared_ptr<const Route>> knowing(const Directory& directory, std::string_view path) {
  std::vector<std::shared_ptr<const Route>> found;
  Known best = Known::Beside;
  for (const auto& [dialect, name] : directory.default_upstream) {
    const auto upstream = directory.routes.find(name);
    if (upstream == directory.routes.end()) continue;
    const Known known = known_by(*upstream->second->first().dialect, path);
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
std::shared_ptr<const Route> meant_of(const std::vector<std::shared_ptr<const Route>>& candidates,
                                      const classifier::Headers& headers, std::string_view query) {
  if (candidates.size() == 1) return candidates.front();
  std::shared_ptr<const Route> meant;
  for (const auto& candidate : candidates) {
    if (!speaks_as(*candidate->first().dialect, headers, query)) continue;
    // Of several that take a bearer's key, the one whose form the others have copied.
    if (!meant || candidate->first().dialect->name() == "openai") meant = candidate;
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

bool is_hex(char c) { return (c >= '0' && c <= '9') || (classifier::lower(c) >= 'a' && classifier::lower(c) <= 'f'); }

/// The path without empty segments, and with letters and digits as themselves ("%76" is "v"; RFC 3986 §6.2.2.2): what
/// a provider's router makes of it.
std::string plain(std::string_view path) {
  std::string out;
  for (std::size_t at = 0; at < path.size(); ++at) {
    char c = path[at];
    if (c == '%' && at + 2 < path.size() && is_hex(path[at + 1]) && is_hex(path[at + 2])) {
      const auto code = static_cast<char>(std::stoi(std::string{path.substr(at + 1, 2)}, nullptr, 16));
      const bool tame =
          (code >= '0' && code <= '9') || (classifier::lower(code) >= 'a' && classifier::lower(code) <= 'z');
      if (tame) {
        c = code;
        at += 2;
      }
    }
    if (c != '/' || out.empty() || out.back() != '/') out += c;
  }
  return out;
}

/// Takes `front` away if the path begins with it.
void remove_front(std::string_view& path, std::string_view front) {
  if (!front.empty() && path.starts_with(front) && path.substr(front.size()).starts_with('/')) {
    path.remove_prefix(front.size());
  }
}

}  // namespace

std::string providers_path(const Target& to, std::string_view path) {
  const std::string_view base = path_of_url(to.config.url);
  remove_front(path, base);
  const std::string_view last = base.substr(std::min(base.rfind('/'), base.size()));
  const bool base_has_version = last.starts_with('/') && is_version(last.substr(1));
  if (base_has_version) remove_front(path, last);
  classifier::ApiPath read = to.dialect->read_path(path);
  std::string simple;
  if (read.known == Known::No) {
    // Written oddly, it would not be understood, and a cut stream could pass for a whole one.
    simple = plain(path);
    if (to.dialect->read_path(simple).known != Known::No) {
      path = simple;
      read = to.dialect->read_path(path);
    }
  }
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
  if (const auto upstream = directory.routes.find(name); upstream != directory.routes.end()) {
    found.route = upstream->second;
    found.asked = slash == std::string_view::npos ? std::string_view{"/"} : path.substr(slash);
  } else if (name == kReserved) {
    return std::unexpected(
        Unaddressed{404, "callgate_unknown_path", "callgate's own API has no such path in this version"});
  } else {
    const auto candidates = knowing(directory, path);
    found.route = meant_of(candidates, headers, query);
    if (!found.route) {
      const std::string why = candidates.empty() ? "no upstream is named in the path"
                                                 : "several APIs have such a path, and the request has no key by "
                                                   "which to tell whose it is";
      return std::unexpected(Unaddressed{
          404, "callgate_unknown_upstream", why + "; it should begin with one of " + names_of(directory)});
    }
    found.asked = path;
  }
  found.path = providers_path(found.route->first(), found.asked);
  found.target = found.path;
  if (mark != std::string_view::npos) found.target.append("?").append(query);
  return found;
}

const Dialect& dialect_for(const Directory& directory, std::string_view target) {
  const std::string_view path = target.substr(0, target.find('?'));
  if (path.size() > 1) {
    const std::size_t slash = path.find('/', 1);
    const std::string_view name = path.substr(1, slash == std::string_view::npos ? slash : slash - 1);
    if (const auto upstream = directory.routes.find(name); upstream != directory.routes.end()) {
      return *upstream->second->first().dialect;
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
