// Goal: a provider's answer that is cut anywhere, HTTP framing included, is never a silent success, and what arrives
// is exact. Method: recorded answers, cut at every byte offset, by FIN and by RST in turn.

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/harness.h"

namespace cut_test {

using Json = nlohmann::json;
using support::Response;

struct Recorded {
  const char* name;
  const char* path;
  const char* request;
  const char* answer;    // For the script; the provider fills in the dialect.
  const char* finished;  // With this in it a stream's content is whole, though its end marker may be missing.
};

const Recorded kRecorded[] = {
    {"openai stream",
     "/openai/v1/chat/completions",
     R"({"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]})",
     R"({"say": ["Grüße ", "世界🦀"]})",
     "\"finish_reason\":\"stop\""},
    {"openai stream whose usage only we asked for",
     "/openai/v1/chat/completions",
     R"({"model":"m","stream":true,"messages":[]})",
     R"({"say": ["hel", "lo"]})",
     "\"finish_reason\":\"stop\""},
    {"responses stream",
     "/openai/v1/responses",
     R"({"model":"m","stream":true,"input":"hi"})",
     R"({"say": ["hel"]})",
     "response.completed"},
    {"anthropic stream",
     "/anthropic/v1/messages",
     R"({"model":"m","stream":true,"max_tokens":5,"messages":[]})",
     R"({"say": ["hel", "lo"]})",
     "\"stop_reason\":\"end_turn\""},
    {"gemini stream",
     "/gemini/v1beta/models/g:streamGenerateContent?alt=sse",
     R"({"contents":[]})",
     R"({"say": ["hel", "lo"]})",
     "finishReason"},
    {"unary, chunked",
     "/openai/v1/chat/completions",
     R"({"model":"m","messages":[]})",
     R"({"say": ["hello"], "framing": "chunked"})",
     nullptr},
    {"unary, with a length",
     "/openai/v1/chat/completions",
     R"({"model":"m","messages":[]})",
     R"({"say": ["hello"]})",
     nullptr},
    {"another body, with a length",
     "/openai/v1/files/f/content",
     "",
     R"({"headers": [["content-type", "text/plain"]], "body": "0123456789abcdef"})",
     nullptr},
    {"another body, chunked",
     "/openai/v1/files/f/content",
     "",
     R"({"headers": [["content-type", "text/plain"]], "body": "0123456789abcdef", "framing": "chunked"})",
     nullptr},
};

/// The provider numbers its answers in twelve digits; apart from that they are all the same.
std::string same_numbers(std::string body) {
  std::size_t digits = 0;
  for (std::size_t i = 0; i <= body.size(); ++i) {
    const bool digit = i < body.size() && body[i] >= '0' && body[i] <= '9';
    if (!digit && digits == 12) std::fill_n(body.begin() + static_cast<std::ptrdiff_t>(i - 12), 12, '0');
    digits = digit ? digits + 1 : 0;
  }
  return body;
}

TEST(Cut, a_cut_answer_is_never_a_silent_success) {
  support::FakeProvider provider;
  support::Callgate callgate{
      "listen: {data: 127.0.0.1:0, health: 127.0.0.1:0}\n"
      "upstreams:\n"
      "  openai: {url: " +
      provider.url() +
      "}\n"
      "  anthropic: {url: " +
      provider.url() +
      "}\n"
      "  gemini: {url: " +
      provider.url() +
      "}\n"
      "retry: {bulk: {attempts: 1}}\nmemo: {final_failure: 0s}\nbreaker: {min_calls: 1000000, consecutive: 1000000}\n"
      ""};
  const std::string everything = "{\"match\": {}, \"answer\": ";
  for (const Recorded& recorded : kRecorded) {
    SCOPED_TRACE(recorded.name);
    const std::string answer = recorded.answer;
    const auto ask = [&] {
      const bool get = std::string{recorded.request}.empty();
      Response got = support::http(get ? "GET" : "POST", callgate.data_url() + recorded.path, recorded.request);
      got.body = same_numbers(std::move(got.body));
      return got;
    };
    provider.reset();
    provider.script("[" + everything + answer + "}]");
    const Response whole = ask();
    ASSERT_EQ(whole.status, 200);
    ASSERT_EQ(whole.end, Response::End::Complete);
    provider.wait("open_requests=0");
    const auto size = provider.seen().at(0).at("ended").at("answered_bytes").get<std::size_t>();
    ASSERT_GT(size, 50u);

    std::size_t failed = 0;
    for (std::size_t at = 0; at < size; ++at) {
      SCOPED_TRACE("cut at " + std::to_string(at) + " of " + std::to_string(size));
      const std::string how = at % 2 == 0 ? "fin" : "rst";
      provider.script("[" + everything + answer.substr(0, answer.size() - 1) + ", \"cut_at\": " + std::to_string(at) +
                      ", \"cut_by\": \"" + how + "\"}}]");
      const Response got = ask();
      if (got.end == Response::End::Complete && got.status == 200) {
        if (recorded.finished) {
          EXPECT_NE(got.body.find(recorded.finished), std::string::npos)
              << "a short stream looks whole: " << got.body;
          EXPECT_TRUE(whole.body.starts_with(got.body)) << got.body;
        } else {
          EXPECT_EQ(got.body.size(), whole.body.size());
        }
        continue;
      }
      ++failed;
      if (got.status == 200) {
        // What came is a beginning of the truth; only a visible error event, which is shorter than 240 bytes, may
        // follow it.
        const std::size_t event = std::min(got.body.find("callgate_stream_broken"), got.body.size());
        const std::size_t same = static_cast<std::size_t>(
            std::mismatch(got.body.begin(), got.body.end(), whole.body.begin(), whole.body.end()).first -
            got.body.begin());
        EXPECT_GE(same + 240, event) << got.body;
      } else {
        EXPECT_EQ(got.status, 502) << got.body;
        EXPECT_EQ(got.end, Response::End::Complete) << "our own answer is whole";
        EXPECT_FALSE(got.body.empty());
      }
      if (HasFailure()) return;
    }
    EXPECT_GT(failed, size / 3) << "most cuts must be seen as such";
  }
}

}  // namespace cut_test
