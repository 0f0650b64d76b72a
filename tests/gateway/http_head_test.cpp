#include "gateway/http_head.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace http_head_test {

using namespace std::string_literals;
using gateway::HeadScan;
using Seen = gateway::HeadScan::Seen;

const std::vector<std::string> kHosts = {"localhost", "127.0.0.1", "[::1]"};

std::expected<gateway::RequestHead, gateway::RefusedRequest> read(const std::string& head) {
  const gateway::HostRule rule{kHosts, false};
  return gateway::read_head(head, rule);
}

TEST(HeadScan, finds_the_end_at_every_split) {
  const std::string head = "POST /a HTTP/1.1\r\nHost: x\r\nA:\tb\r\n\r\n";
  const std::string more = head + "GET / HTTP/1.1\r\n\r\n";
  for (std::size_t cut = 0; cut <= more.size(); ++cut) {
    HeadScan scan;
    const Seen first = scan.look(std::string_view{more}.substr(0, cut));
    ASSERT_EQ(first, cut < head.size() ? Seen::Incomplete : Seen::Complete) << cut;
    if (first == Seen::Incomplete) {
      ASSERT_EQ(scan.look(more), Seen::Complete) << cut;
    }
    ASSERT_EQ(scan.size(), head.size()) << cut;
  }
}

TEST(HeadScan, refuses_what_can_never_become_a_head_at_its_first_byte) {
  const struct {
    std::string what;
    std::size_t seen_after;  // So many bytes tell it.
  } kCases[] = {
      {"GET / HTTP/1.1\nHost: x\n\n", 15},
      {"GET / HTTP/1.1\rHost: x", 16},
      {"GET / HTTP/1.1\r\r\n", 16},
      {"\r\nGET / HTTP/1.1\r\n", 2},
      {" GET / HTTP/1.1\r\n", 1},
      {"GET / HTTP/1.1\r\nA: b\r\n c\r\n", 23},
      {"GET / HTTP/1.1\r\nA: b\r\n\tc\r\n", 23},
      {"GET / HTTP/1.1\r\nA: b\0c\r\n"s, 21},
      {"GET / HTTP/1.1\r\nA: b\x0b", 21},
      {"GET / HTTP/1.1\r\nA: b\x7f", 21},
      {"\x16\x03\x01\x02", 1},  // TLS.
      {"GET /\x01 HTTP/1.1", 6},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(testing::PrintToString(c.what));
    HeadScan scan;
    EXPECT_EQ(scan.look(std::string_view{c.what}.substr(0, c.seen_after - 1)), Seen::Incomplete);
    EXPECT_EQ(scan.look(std::string_view{c.what}.substr(0, c.seen_after)), Seen::Malformed);
    EXPECT_FALSE(scan.fault().empty());
  }
}

TEST(ReadHead, keeps_all_fields_in_order_but_those_of_the_connection) {
  const auto head = read(
      "POST /openai/v1/chat/completions?x=1 HTTP/1.1\r\nHost: LocalHost:4600\r\nX-One: 1\r\ncookie: \r\n"
      "Connection: keep-alive, X-Named, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: "
      "AAMAAABkAAQAAP__\r\n"
      "x-named: gone\r\nKeep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
      "Proxy-Authenticate: Basic\r\nTE: trailers\r\nTrailer: X\r\nX-One: 2\r\nAuthorization: Bearer \t k \t\r\n"
      "Content-Length: 3\r\nExpect: 100-Continue\r\n\r\n");
  ASSERT_TRUE(head.has_value()) << head.error().message;
  EXPECT_EQ(head->method, "POST");
  EXPECT_EQ(head->target, "/openai/v1/chat/completions?x=1");
  const classifier::Headers want = {{"X-One", "1"}, {"cookie", ""}, {"X-One", "2"}, {"Authorization", "Bearer \t k"}};
  EXPECT_EQ(head->headers, want);
  EXPECT_EQ(head->length, 3u);
  EXPECT_FALSE(head->chunked);
  EXPECT_TRUE(head->expects_continue);
  EXPECT_TRUE(head->keep_alive);
}

TEST(ReadHead, knows_whether_the_connection_is_kept) {
  const struct {
    std::string version, connection;
    bool kept;
  } kCases[] = {
      {"1.1", "", true},
      {"1.1", "Connection: close\r\n", false},
      {"1.1", "Connection: Keep-Alive\r\nConnection: foo, CLOSE\r\n", false},
      {"1.0", "", false},
      {"1.0", "Connection: keep-alive\r\n", true},
      {"1.0", "Proxy-Connection: keep-alive\r\n", false},
      {"1.0", "Connection: keep-alive, close\r\n", false},
  };
  for (const auto& c : kCases) {
    const auto head = read("GET / HTTP/" + c.version + "\r\nHost: localhost\r\n" + c.connection + "\r\n");
    ASSERT_TRUE(head.has_value());
    EXPECT_EQ(head->keep_alive, c.kept) << c.version << " " << c.connection;
  }
}

TEST(ReadHead, takes_the_targets_that_clients_send) {
  const struct {
    std::string sent, want;
  } kCases[] = {
      {"/", "/"},
      {"//evil/../%2e%2e/x?y=http://z", "//evil/../%2e%2e/x?y=http://z"},
      {"http://127.0.0.1:4600/v1/models?limit=2", "/v1/models?limit=2"},  // As HTTP_PROXY makes Python send it.
      {"HTTP://[::1]:4600", "/"},
      {"http://localhost?a=b", "/?a=b"},
  };
  for (const auto& c : kCases) {
    const auto head = read("GET " + c.sent + " HTTP/1.1\r\nHost: 127.0.0.1:4600\r\n\r\n");
    ASSERT_TRUE(head.has_value()) << c.sent;
    EXPECT_EQ(head->target, c.want);
  }
}

TEST(ReadHead, asks_no_name_of_a_caller_on_a_unix_socket) {
  const gateway::HostRule rule{kHosts, true};
  EXPECT_TRUE(gateway::read_head("GET / HTTP/1.1\r\nHost: anything\r\n\r\n", rule).has_value());
  EXPECT_EQ(gateway::read_head("GET / HTTP/1.1\r\n\r\n", rule).error().status, 400);
  EXPECT_EQ(gateway::read_head("GET / HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\n\r\n", rule).error().status, 403);
}

TEST(ReadHead, has_a_bound_on_the_number_of_fields) {
  std::string head = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 256; ++i) head += "a: b\r\n";
  EXPECT_TRUE(read(head + "\r\n").has_value());
  EXPECT_EQ(read(head + "a: b\r\n\r\n").error().status, 431);
}

TEST(TargetIn, tells_the_target_of_what_will_be_refused) {
  EXPECT_EQ(gateway::target_in("GET /a?b HTTP/1.1\nHost"), "/a?b");
  EXPECT_EQ(gateway::target_in("GET http://other/a HTTP/3.0\r\n"), "/a");
  EXPECT_EQ(gateway::target_in("GET /a"), "");
  EXPECT_EQ(gateway::target_in("GET /\x1b[31m HTTP/1.1\r\n"), "");
  EXPECT_EQ(gateway::target_in("PRI * HTTP/2.0\r\n"), "");
  EXPECT_EQ(gateway::target_in(""), "");
}

using Got = gateway::ChunkReader::Got;
constexpr std::uint64_t kNoLimit = 1 << 30;

struct Unchunked {
  Got got = Got::More;
  std::string body{};
  std::string left{};
};
Unchunked unchunk(std::string_view wire, std::size_t piece, std::uint64_t limit = kNoLimit) {
  gateway::ChunkReader reader{limit};
  Unchunked result;
  while (!wire.empty() && result.got == Got::More) {
    result.left.append(wire.substr(0, piece));
    wire.remove_prefix(std::min(piece, wire.size()));
    result.got = reader.feed(result.left, result.body);
  }
  result.left.append(wire);
  return result;
}

TEST(ChunkReader, unframes_at_any_split) {
  const std::string wire =
      "5\r\nhello\r\n1;a=b;c=\"d e\"\r\n \r\n00b\r\nbrave\r\nwor\n\r\n2 ; x\r\nld\r\n000;last\r\nTrailer: x\r\nB: "
      "y\r\n\r\n";
  for (std::size_t piece = 1; piece <= wire.size(); ++piece) {
    const Unchunked result = unchunk(wire + "GET /", piece);
    ASSERT_EQ(result.got, Got::End) << piece;
    ASSERT_EQ(result.body, "hello brave\r\nwor\nld") << piece;
    ASSERT_TRUE(std::string_view{"GET /"}.starts_with(result.left) || result.left == "GET /") << piece;
  }
  for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
    gateway::ChunkReader reader{kNoLimit};
    std::string body, bytes = wire.substr(0, cut);
    const Got first = reader.feed(bytes, body);
    ASSERT_EQ(first, cut < wire.size() ? Got::More : Got::End) << cut;
    bytes += wire.substr(cut);
    if (first == Got::More) {
      ASSERT_EQ(reader.feed(bytes, body), Got::End) << cut;
    }
    ASSERT_EQ(body, "hello brave\r\nwor\nld") << cut;
    ASSERT_EQ(bytes, "") << cut;
  }
}

TEST(ChunkReader, takes_an_empty_body_at_any_split) {
  for (std::size_t piece = 1; piece <= 5; ++piece) EXPECT_EQ(unchunk("0\r\n\r\n", piece).got, Got::End) << piece;
}

TEST(ChunkReader, refuses_what_two_readers_could_read_in_two_ways) {
  const std::string kBad[] = {
      "5\nhello\r\n0\r\n\r\n",
      "5\r\nhello\n0\r\n\r\n",
      "5\r\nhelloX\r\n0\r\n\r\n",
      "0x5\r\nhello\r\n0\r\n\r\n",
      "+5\r\nhello\r\n0\r\n\r\n",
      "-5\r\nhello\r\n0\r\n\r\n",
      " 5\r\nhello\r\n0\r\n\r\n",
      "\r\n5\r\nhello\r\n0\r\n\r\n",
      "5;\r\nhello\r\n0\r\n\r\n",
      "5;a=\r\nhello\r\n0\r\n\r\n",
      "5 hello\r\n0\r\n\r\n",
      "g\r\nhello\r\n0\r\n\r\n",
      "10000000000000000\r\nhello\r\n0\r\n\r\n",
      "5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
      "5\r\nhello\r\n0\r\nbad trailer\r\n\r\n",
      "5\r\rhello\r\n0\r\n\r\n",
  };
  for (const std::string& wire : kBad) {
    SCOPED_TRACE(testing::PrintToString(wire));
    EXPECT_EQ(unchunk(wire, wire.size()).got, Got::Malformed);
    EXPECT_EQ(unchunk(wire, 1).got, Got::Malformed);
  }
}

TEST(ChunkReader, has_bounds) {
  EXPECT_EQ(unchunk("5\r\nhello\r\n0\r\n\r\n", 100, 5).got, Got::End);
  EXPECT_EQ(unchunk("3\r\nhel\r\n3\r\nlo!\r\n", 100, 5).got, Got::TooLarge);
  EXPECT_EQ(unchunk("ffffffffffffffff\r\n", 100, 5).got, Got::TooLarge);
  EXPECT_EQ(unchunk("5;" + std::string(20'000, 'a'), 1'000).got, Got::Malformed);
  EXPECT_EQ(unchunk("0\r\nA: " + std::string(20'000, 'a'), 1'000).got, Got::Malformed);
}

std::string written(const gateway::AnswerHead& head, gateway::Framing framing, std::optional<std::uint64_t> length,
                    gateway::Persistence persistence = gateway::Persistence::Kept) {
  std::string text;
  gateway::write_head(text, head, framing, length, persistence);
  return text;
}

TEST(WriteHead, leaves_out_what_belongs_to_the_other_connection_or_breaks_out_of_its_line) {
  gateway::AnswerHead head;
  head.status = 429;
  head.headers = {{"Content-Type", "application/json"},
                  {"Transfer-Encoding", "chunked"},
                  {"content-length", "7"},
                  {"Connection", "close, X-Hop"},
                  {"x-hop", "1"},
                  {"Keep-Alive", "timeout=1"},
                  {"Alt-Svc", "h3=\":443\""},
                  {"Upgrade", "h2"},
                  {"Trailer", "x"},
                  {"TE", "x"},
                  {"Proxy-Authenticate", "x"},
                  {"x-request-id", "r1"},
                  {"X-Bad", "a\r\nSet-Cookie: b"},
                  {"X-Bad\n", "a"},
                  {"x-empty", ""}};
  EXPECT_EQ(written(head, gateway::Framing::Length, 7),
            "HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nx-request-id: r1\r\nx-empty: \r\n"
            "Content-Length: 7\r\n\r\n");
}

TEST(WriteHead, says_how_the_end_is_known) {
  using gateway::Framing;
  using gateway::Persistence;
  const struct {
    int status;
    Framing framing;
    std::optional<std::uint64_t> length;
    Persistence persistence;
    std::string want;
  } kCases[] = {
      {200, Framing::Length, 0, Persistence::Kept, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
      {200,
       Framing::Chunked,
       {},
       Persistence::Closing,
       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"},
      {200, Framing::UntilClose, {}, Persistence::Closing, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"},
      {204, Framing::NoBody, 0, Persistence::Kept, "HTTP/1.1 204 No Content\r\n\r\n"},
      {304, Framing::NoBody, {}, Persistence::Kept, "HTTP/1.1 304 Not Modified\r\n\r\n"},
      {200,
       Framing::NoBody,
       9,
       Persistence::KeptIfSaid,
       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\n"},
      {529, Framing::Length, 1, Persistence::Kept, "HTTP/1.1 529 Overloaded\r\nContent-Length: 1\r\n\r\n"},
      {799, Framing::Length, 1, Persistence::Kept, "HTTP/1.1 799 Unknown Status\r\nContent-Length: 1\r\n\r\n"},
  };
  for (const auto& c : kCases) {
    gateway::AnswerHead head;
    head.status = c.status;
    EXPECT_EQ(written(head, c.framing, c.length, c.persistence), c.want);
  }
}

}  // namespace http_head_test
