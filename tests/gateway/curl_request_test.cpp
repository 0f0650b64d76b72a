#include "gateway/curl_request.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gateway {
namespace curl_request_test {

using Environment = std::map<std::string, std::string>;

struct Way {
  const char* name;
  const char* base_url;
  Environment environment;
  std::string origin;
  std::string path;
  bool tls;
  std::string proxy;
  std::string no_proxy;
};

const Way kWays[] = {
    {"a bare host", "https://api.example.com", {}, "https://api.example.com/", "", true, "", ""},
    {"a port and a path", "http://h:81/a/b", {}, "http://h:81/", "/a/b", false, "", ""},
    {"a proxy for https", "https://h", {{"HTTPS_PROXY", "http://p:1"}}, "https://h/", "", true, "http://p:1", ""},
    {"lower case goes first",
     "https://h",
     {{"HTTPS_PROXY", "http://p:1"}, {"https_proxy", "http://q:1"}},
     "https://h/",
     "",
     true,
     "http://q:1",
     ""},
    {"a proxy for http, in capitals too",
     "http://h",
     {{"HTTP_PROXY", "http://p:1"}},
     "http://h/",
     "",
     false,
     "http://p:1",
     ""},
    {"a proxy for the other scheme", "http://h", {{"HTTPS_PROXY", "http://p:1"}}, "http://h/", "", false, "", ""},
    {"a proxy for all", "https://h", {{"ALL_PROXY", "socks5h://p:1"}}, "https://h/", "", true, "socks5h://p:1", ""},
    {"exceptions",
     "https://h",
     {{"https_proxy", "http://p:1"}, {"NO_PROXY", ".local,h"}},
     "https://h/",
     "",
     true,
     "http://p:1",
     ".local,h"},
    {"never for localhost",
     "http://localhost:1",
     {{"http_proxy", "http://p:1"}},
     "http://localhost:1/",
     "",
     false,
     "",
     ""},
    {"never for a name below it",
     "http://a.LOCALHOST",
     {{"http_proxy", "http://p:1"}},
     "http://a.LOCALHOST/",
     "",
     false,
     "",
     ""},
    {"never for 127/8",
     "https://127.8.0.1:1/x",
     {{"https_proxy", "http://p:1"}},
     "https://127.8.0.1:1/",
     "/x",
     true,
     "",
     ""},
    {"never for ::1", "http://[::1]:1", {{"http_proxy", "http://p:1"}}, "http://[::1]:1/", "", false, "", ""},
    {"but for a name like it",
     "http://localhost.example",
     {{"http_proxy", "http://p:1"}},
     "http://localhost.example/",
     "",
     false,
     "http://p:1",
     ""},
};

TEST(Destination, is_found) {
  for (const Way& way : kWays) {
    SCOPED_TRACE(way.name);
    const Destination to = destination(way.base_url, [&](const char* name) {
      const auto found = way.environment.find(name);
      return found == way.environment.end() ? std::string{} : found->second;
    });
    EXPECT_EQ(to.origin, way.origin);
    EXPECT_EQ(to.path, way.path);
    EXPECT_EQ(to.tls, way.tls);
    EXPECT_EQ(to.proxy, way.proxy);
    EXPECT_EQ(to.no_proxy, way.no_proxy);
  }
}

Outbound request(std::string method, std::string target, classifier::Headers headers = {}) {
  return {std::move(method), std::move(target), std::move(headers), nullptr, std::make_shared<const WireOptions>()};
}

TEST(Unsendable, names_what_would_become_another_request) {
  const std::pair<Outbound, std::string> kCases[] = {
      {request("GET", "/"), ""},
      {request("GET", "/a?b=%00#c\xc3\xa4", {{"A", ""}, {"B", "\xff\t "}}), ""},
      {{}, "no upstream is given"},
      {request("", "/"), "the method cannot be sent"},
      {request("GET /", "/"), "the method cannot be sent"},
      {request("GET", ""), "the path cannot be sent"},
      {request("GET", "a"), "the path cannot be sent"},
      {request("GET", "/a b"), "the path cannot be sent"},
      {request("GET", "/a\r\nB: c"), "the path cannot be sent"},
      {request("GET", std::string("/a\0b", 4)), "the path cannot be sent"},
      {request("GET", "/", {{"A:", "b"}}), "a header cannot be sent"},
      {request("GET", "/", {{"", "b"}}), "a header cannot be sent"},
      {request("GET", "/", {{"A b", "c"}}), "a header cannot be sent"},
      {request("GET", "/", {{"A\r\nB", "c"}}), "a header cannot be sent"},
      {request("GET", "/", {{"A", "b\r\nC: d"}}), "a header cannot be sent"},
      {request("GET", "/", {{"A", "b\n"}}), "a header cannot be sent"},
      {request("GET", "/", {{"A", std::string("b\0c", 3)}}), "a header cannot be sent"},
  };
  for (const auto& [sent, why] : kCases) EXPECT_EQ(unsendable(sent), why) << sent.method << " " << sent.target;
}

}  // namespace curl_request_test
}  // namespace gateway
