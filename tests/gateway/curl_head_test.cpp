#include "gateway/curl_head.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace gateway {
namespace curl_head_test {

using classifier::Headers;

struct Case {
  const char* name;
  std::vector<std::string> lines;
  bool complete;
  int status;
  Headers headers;
  std::optional<std::uint64_t> length;
  std::string refusal;  // Empty: every line is accepted.
  bool head_request = false;
};

const std::string kLongLine = "X: " + std::string(100'000, 'x') + "\r\n";

const Case kCases[] = {
    {"a plain head",
     {"HTTP/1.1 200 OK\r\n", "A: 1\r\n", "b:2\r\n", "\r\n"},
     true,
     200,
     {{"A", "1"}, {"b", "2"}},
     {},
     ""},
    {"no reason phrase", {"HTTP/1.1 204\r\n", "\r\n"}, true, 204, {}, 0, ""},
    {"no status", {"HTTP/1.1\r\n"}, false, 0, {}, {}, "the answer is not HTTP"},
    {"an empty reason phrase", {"HTTP/1.1 204 \r\n", "\r\n"}, true, 204, {}, 0, ""},
    {"HTTP/2 as libcurl shows it", {"HTTP/2 200 \r\n", "a: 1\r\n", "\r\n"}, true, 200, {{"a", "1"}}, {}, ""},
    {"bare line feeds", {"HTTP/1.1 200 OK\n", "A: 1\n", "\n"}, true, 200, {{"A", "1"}}, {}, ""},
    {"blanks around a value", {"HTTP/1.1 200 OK\r\n", "A: \t 1 2 \t\r\n", "\r\n"}, true, 200, {{"A", "1 2"}}, {}, ""},
    {"an empty value", {"HTTP/1.1 200 OK\r\n", "A:\r\n", "\r\n"}, true, 200, {{"A", ""}}, {}, ""},
    {"colons in a value", {"HTTP/1.1 200 OK\r\n", "A: b:c\r\n", "\r\n"}, true, 200, {{"A", "b:c"}}, {}, ""},
    {"a folded line",
     {"HTTP/1.1 200 OK\r\n", "A: 1\r\n", "  2\r\n", "\t3\r\n", "\r\n"},
     true,
     200,
     {{"A", "1 2 3"}},
     {},
     ""},
    {"folding before any field",
     {"HTTP/1.1 200 OK\r\n", " 2\r\n"},
     false,
     200,
     {},
     {},
     "the answer's head is malformed"},
    {"no colon", {"HTTP/1.1 200 OK\r\n", "what\r\n"}, false, 200, {}, {}, "the answer's head is malformed"},
    {"no name", {"HTTP/1.1 200 OK\r\n", ": 1\r\n"}, false, 200, {}, {}, "the answer's head is malformed"},
    {"heads of 1xx are passed over",
     {"HTTP/1.1 100 Continue\r\n",
      "A: 1\r\n",
      "\r\n",
      "HTTP/1.1 103 Hints\r\n",
      "\r\n",
      "HTTP/1.1 200 OK\r\n",
      "B: 2\r\n",
      "\r\n"},
     true,
     200,
     {{"B", "2"}},
     {},
     ""},
    {"another protocol",
     {"HTTP/1.1 101 Switching\r\n", "\r\n"},
     false,
     101,
     {},
     {},
     "the answer switches to another protocol"},
    {"trailers are passed over", {"HTTP/1.1 200 OK\r\n", "\r\n", "T: 1\r\n"}, true, 200, {}, {}, ""},
    {"a length",
     {"HTTP/1.1 200 OK\r\n", "content-length: 7\r\n", "\r\n"},
     true,
     200,
     {{"content-length", "7"}},
     7,
     ""},
    {"the same length twice",
     {"HTTP/1.1 200 OK\r\n", "Content-Length: 7\r\n", "Content-Length: 7\r\n", "\r\n"},
     true,
     200,
     {{"Content-Length", "7"}, {"Content-Length", "7"}},
     7,
     ""},
    {"two lengths",
     {"HTTP/1.1 200 OK\r\n", "Content-Length: 7\r\n", "Content-Length: 8\r\n"},
     false,
     200,
     {{"Content-Length", "7"}, {"Content-Length", "8"}},
     7,
     "the answer's length is contradictory"},
    {"a length that is none",
     {"HTTP/1.1 200 OK\r\n", "Content-Length: 7, 8\r\n"},
     false,
     200,
     {{"Content-Length", "7, 8"}},
     {},
     "the answer's length is contradictory"},
    {"a negative length",
     {"HTTP/1.1 200 OK\r\n", "Content-Length: -1\r\n"},
     false,
     200,
     {{"Content-Length", "-1"}},
     {},
     "the answer's length is contradictory"},
    {"a length beside chunks",
     {"HTTP/1.1 200 OK\r\n", "Content-Length: 7\r\n", "Transfer-Encoding: chunked\r\n", "\r\n"},
     true,
     200,
     {{"Content-Length", "7"}, {"Transfer-Encoding", "chunked"}},
     {},
     ""},
    {"304 has no body",
     {"HTTP/1.1 304 Not Modified\r\n", "Content-Length: 7\r\n", "\r\n"},
     true,
     304,
     {{"Content-Length", "7"}},
     0,
     ""},
    {"an answer to HEAD has no body",
     {"HTTP/1.1 200 OK\r\n", "Content-Length: 7\r\n", "\r\n"},
     true,
     200,
     {{"Content-Length", "7"}},
     0,
     "",
     true},
    {"not HTTP", {"SSH-2.0 OpenSSH\r\n"}, false, 0, {}, {}, "the answer is not HTTP"},
    {"a status of two digits", {"HTTP/1.1 20 OK\r\n"}, false, 0, {}, {}, "the answer has no valid status"},
    {"a status of letters", {"HTTP/1.1 abc OK\r\n"}, false, 0, {}, {}, "the answer has no valid status"},
    {"a name with a blank is passed over, with what is folded under it",
     {"HTTP/1.1 200 OK\r\n", "A: 1\r\n", "Content Length: 7\r\n", " 8\r\n", "B\t: 2\r\n", "C@: 3\r\n", "\r\n"},
     true,
     200,
     {{"A", "1"}, {"B", "2"}},
     {},
     ""},
    {"256 KiB are enough",
     {"HTTP/1.1 200 OK\r\n", kLongLine, kLongLine, kLongLine},
     false,
     200,
     {{"X", std::string(100'000, 'x')}, {"X", std::string(100'000, 'x')}},
     {},
     "the answer's head is too large"},
    {"also in 1xx",
     {"HTTP/1.1 100 OK\r\n",
      kLongLine,
      "\r\n",
      "HTTP/1.1 100 OK\r\n",
      kLongLine,
      "\r\n",
      "HTTP/1.1 100 OK\r\n",
      kLongLine},
     false,
     100,
     {},
     {},
     "the answer's head is too large"},
};

TEST(AnswerHeadReader, reads) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    AnswerHeadReader head;
    head.begin(c.head_request);
    bool accepted = true;
    for (const std::string& line : c.lines) accepted = accepted && head.line(line);
    EXPECT_EQ(accepted, c.refusal.empty());
    EXPECT_EQ(head.refusal(), c.refusal);
    EXPECT_EQ(head.complete(), c.complete);
    EXPECT_EQ(head.status(), c.status);
    EXPECT_EQ(head.headers(), c.headers);
    EXPECT_EQ(head.body_length(), c.length);
  }
}

}  // namespace curl_head_test
}  // namespace gateway
