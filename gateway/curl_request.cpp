#include "gateway/curl_request.h"

#include <algorithm>
#include <array>

#include "gateway/token.h"

namespace gateway {
namespace {

using classifier::same_name;

// The wire's own business: libcurl writes them, and a second one would be another request's beginning.
constexpr std::array<std::string_view, 4> kOfTheWire = {"host", "content-length", "transfer-encoding", "expect"};

bool of_the_wire(std::string_view name) {
  return std::ranges::any_of(kOfTheWire, [&](std::string_view ours) { return same_name(name, ours); });
}

bool is_target(std::string_view text) {
  return text.starts_with('/') &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; });
}

bool breaks_line(std::string_view value) {
  return std::ranges::any_of(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

bool blank(std::string_view value) { return value.find_first_not_of(" \t\v\f") == std::string_view::npos; }

bool on_this_machine(std::string_view host) {
  return same_name(host, "localhost") ||
         (host.size() > 10 && same_name(host.substr(host.size() - 10), ".localhost")) || host.starts_with("127.") ||
         host == "[::1]";
}

std::string_view host_of(std::string_view authority) {
  authority.remove_prefix(authority.find('@') == std::string_view::npos ? 0 : authority.find('@') + 1);
  if (authority.starts_with('[')) return authority.substr(0, authority.find(']') + 1);
  return authority.substr(0, authority.find(':'));
}

}  // namespace

Destination destination(std::string_view base_url, const std::function<std::string(const char*)>& environment) {
  Destination to;
  const auto scheme_end = base_url.find("://");
  const auto authority = scheme_end == std::string_view::npos ? 0 : scheme_end + 3;
  const auto path = std::min(base_url.find('/', authority), base_url.size());
  to.origin = std::string{base_url.substr(0, path)} + "/";
  to.path = base_url.substr(path);
  to.tls = same_name(base_url.substr(0, scheme_end), "https");
  if (on_this_machine(host_of(base_url.substr(authority, path - authority)))) return to;

  // libcurl does not look at HTTP_PROXY, which a CGI's caller could set; nothing runs us as a CGI.
  constexpr std::array<const char*, 4> kForHttp = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
  constexpr std::array<const char*, 4> kForHttps = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
  for (const char* name : to.tls ? kForHttps : kForHttp) {
    if (to.proxy = environment(name); !to.proxy.empty()) break;
  }
  if (to.no_proxy = environment("no_proxy"); to.no_proxy.empty()) to.no_proxy = environment("NO_PROXY");
  return to;
}

void write_header_lines(const Outbound& request, bool sends_body, HeaderLines& lines) {
  lines.text.clear();
  lines.offsets.clear();
  const auto add = [&](std::string_view name, std::string_view between, std::string_view value) {
    lines.offsets.push_back(lines.text.size());
    lines.text.append(name).append(between).append(value).push_back('\0');
  };
  // "Name:" without a value tells libcurl to leave its own away.
  add("Expect", ":", "");
  if (!classifier::find(request.headers, "accept")) add("Accept", ":", "");
  if (sends_body && !classifier::find(request.headers, "content-type")) add("Content-Type", ":", "");
  for (const auto& [name, value] : request.headers) {
    if (of_the_wire(name)) continue;
    if (blank(value)) {
      add(name, ";", "");  // libcurl's way to say that an empty value is meant.
    } else {
      add(name, ": ", value);
    }
  }
}

std::string_view unsendable(const Outbound& request) {
  if (!request.wire) return "no upstream is given";
  if (!is_token(request.method)) return "the method cannot be sent";
  if (!is_target(request.target)) return "the path cannot be sent";
  for (const auto& [name, value] : request.headers) {
    if (!is_token(name) || breaks_line(value)) return "a header cannot be sent";
  }
  return {};
}

bool sends_body(const Outbound& request) {
  if (request.method == "HEAD") return false;
  // These mean a body; without a length of 0 some servers wait for one.
  constexpr std::array<std::string_view, 3> kExpectOne = {"POST", "PUT", "PATCH"};
  return request.body != nullptr || std::ranges::find(kExpectOne, request.method) != kExpectOne.end();
}

}  // namespace gateway
