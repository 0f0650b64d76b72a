// Goal: a stream is read the same at any split of its bytes, is passed on byte for byte, and its end, its errors, its
// first content and its usage are what the recorded streams in tests/fixtures/ show. Method: a table of recordings,
// each fed whole, byte by byte, and cut at seeded places.

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/dialect.h"
#include "tests/classifier/help.h"

namespace stream_test {

using classifier::Dialect;
using classifier::Headers;
using classifier::StreamReader;
using classifier::Transport;
using classifier_tests::fixture;
using classifier_tests::spelled;

struct Recording {
  std::string_view file;
  std::string_view path;
  std::string_view verdict;
  std::uint64_t content_at;  // The event with which content begins, 1 for the first; 0 for never.
  bool terminal;
  std::string_view usage;
};
constexpr std::string_view kChat = "/v1/chat/completions";
constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kMessages = "/v1/messages";
constexpr std::string_view kGenerate = "/v1beta/models/gemini-2.5-flash:streamGenerateContent";
constexpr std::string_view kConversation = "/v1/conversations";
constexpr std::string_view kCohere = "/v2/chat";
constexpr std::string_view kCohere1 = "/v1/chat";
constexpr std::string_view kOllama = "/api/chat";
constexpr std::string_view kOllamaGenerate = "/api/generate";
constexpr std::string_view kCut = "malformed_response retryable";

constexpr Recording kRecordings[] = {
    {"openai/chat_plain.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 14 0 0 0 9 0 stop"},
    {"openai/chat_plain_without_usage.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 unknown stop"},
    {"openai/chat_tools.sse", kChat, "none", 1, true, "gpt-4o-2024-08-06 85 0 0 0 31 0 tool_calls"},
    {"openai/chat_reasoning_with_comments.sse", kChat, "none", 2, true, "deepseek-reasoner 21 0 0 0 57 48 stop"},
    {"openai/chat_cjk_emoji.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 20 0 0 0 31 0 stop"},
    {"openai/chat_cjk_escaped.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 20 0 0 0 31 0 stop"},
    {"openai/chat_broken_utf8.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 7 0 0 0 1 0 stop"},
    {"openai/chat_crlf.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 14 0 0 0 9 0 stop"},
    {"openai/chat_cr.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 14 0 0 0 9 0 stop"},
    {"openai/chat_many_data_lines.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 14 0 0 0 4 0 stop"},
    {"openai/chat_two_choices.sse", kChat, "none", 3, true, "gpt-4o-2024-08-06 9 0 0 0 24 0 stop"},
    {"openai/chat_refusal.sse", kChat, "none", 2, true, "gpt-4o-2024-08-06 30 0 0 0 8 0 stop"},
    {"openai/chat_finished_without_done.sse", kChat, "none", 2, false, "gpt-4o-2024-08-06 14 0 0 0 9 0 stop"},
    {"openai/chat_one_of_two_choices_ended.sse", kChat, kCut, 3, false, "gpt-4o-2024-08-06 unknown unfinished"},
    {"openai/chat_cut_in_event.sse", kChat, kCut, 2, false, "gpt-4o-2024-08-06 unknown unfinished"},
    {"openai/chat_error_first.sse", kChat, "server_error retryable", 0, true, " unknown unfinished"},
    {"openai/chat_rate_limit_after_role.sse",
     kChat,
     "rate_limited retryable 2500 ms",
     0,
     true,
     "gpt-4o-2024-08-06 unknown unfinished"},
    {"openai/chat_error_mid.sse", kChat, "server_error retryable", 2, true, "gpt-4o-2024-08-06 unknown error"},
    {"openai/completions_plain.sse", "/v1/completions", "none", 2, true, "babbage-002 31 0 0 0 25 0 length"},
    {"openai/responses_plain.sse", kResponses, "none", 5, true, "gpt-5-2025-08-07 36 0 0 0 87 64 completed"},
    {"openai/responses_crlf.sse", kResponses, "none", 5, true, "gpt-5-2025-08-07 36 0 0 0 87 64 completed"},
    {"openai/responses_incomplete.sse",
     kResponses,
     "none",
     5,
     true,
     "gpt-5-2025-08-07 36 0 0 0 16 0 max_output_tokens"},
    {"openai/responses_reasoning_and_tool.sse",
     kResponses,
     "none",
     4,
     true,
     "gpt-5-2025-08-07 120 100 0 0 75 40 completed"},
    {"openai/responses_failed.sse",
     kResponses,
     "server_error retryable",
     5,
     true,
     "gpt-5-2025-08-07 36 0 0 0 12 4 failed"},
    {"openai/responses_error_first.sse",
     kResponses,
     "rate_limited retryable 1200 ms",
     0,
     true,
     "gpt-5-2025-08-07 unknown unfinished"},
    {"openai/responses_cut.sse", kResponses, kCut, 5, false, "gpt-5-2025-08-07 unknown unfinished"},

    {"anthropic/plain.sse", kMessages, "none", 4, true, "claude-sonnet-4-5-20250929 25 0 0 0 15 0 end_turn"},
    {"anthropic/crlf.sse", kMessages, "none", 3, true, "claude-sonnet-4-5-20250929 25 0 0 0 15 0 end_turn"},
    {"anthropic/cjk_emoji.sse", kMessages, "none", 3, true, "claude-sonnet-4-5-20250929 25 0 0 0 33 0 end_turn"},
    {"anthropic/tools.sse", kMessages, "none", 3, true, "claude-sonnet-4-5-20250929 425 400 0 0 89 0 tool_use"},
    {"anthropic/tool_first.sse", kMessages, "none", 3, true, "claude-sonnet-4-5-20250929 25 0 0 0 20 0 tool_use"},
    {"anthropic/thinking.sse", kMessages, "none", 3, true, "claude-sonnet-4-5-20250929 25 0 0 0 120 90 end_turn"},
    {"anthropic/refusal.sse", kMessages, "none", 3, true, "claude-sonnet-4-5-20250929 25 0 0 0 9 0 refusal"},
    {"anthropic/error_first.sse",
     kMessages,
     "overloaded retryable",
     0,
     true,
     "claude-sonnet-4-5-20250929 25 0 0 0 1 0 unfinished"},
    {"anthropic/error_mid.sse",
     kMessages,
     "server_error retryable",
     3,
     true,
     "claude-sonnet-4-5-20250929 25 0 0 0 1 0 unfinished"},
    {"anthropic/cut_in_event.sse", kMessages, kCut, 4, false, "claude-sonnet-4-5-20250929 25 0 0 0 1 0 unfinished"},
    {"anthropic/cut_between_events.sse",
     kMessages,
     kCut,
     4,
     false,
     "claude-sonnet-4-5-20250929 25 0 0 0 1 0 unfinished"},

    {"gemini/plain.sse", kGenerate, "none", 1, true, "gemini-2.5-flash 8 0 0 0 42 31 STOP"},
    {"gemini/lf.sse", kGenerate, "none", 1, true, "gemini-2.5-flash 8 0 0 0 42 31 STOP"},
    {"gemini/cjk_emoji.sse", kGenerate, "none", 1, true, "gemini-2.5-flash 8 0 0 0 33 0 STOP"},
    {"gemini/thinking.sse", kGenerate, "none", 2, true, "gemini-2.5-flash 8 0 0 0 119 117 STOP"},
    {"gemini/tools.sse", kGenerate, "none", 1, true, "gemini-2.5-flash 44 0 0 0 18 0 STOP"},
    {"gemini/usage_after_finish.sse", kGenerate, "none", 1, true, "gemini-2.5-flash 8 0 0 0 43 40 STOP"},
    {"gemini/blocked.sse",
     kGenerate,
     "content_policy final",
     0,
     true,
     "gemini-2.5-flash 14 0 0 0 0 0 PROHIBITED_CONTENT"},
    {"gemini/safety_without_content.sse",
     kGenerate,
     "content_policy final",
     0,
     true,
     "gemini-2.5-flash 14 0 0 0 0 0 SAFETY"},
    {"gemini/error_first.sse", kGenerate, "rate_limited retryable 4200 ms", 0, true, " unknown unfinished"},
    {"gemini/error_mid.sse", kGenerate, "overloaded retryable", 1, true, "gemini-2.5-flash 8 0 0 0 0 0 unfinished"},
    {"gemini/cut_in_event.sse", kGenerate, kCut, 1, false, "gemini-2.5-flash 8 0 0 0 2 0 unfinished"},

    {"mistral/chat_plain.sse", kChat, "none", 2, true, "mistral-small-2506 11 4 0 0 80 0 stop"},
    {"mistral/chat_thinking.sse", kChat, "none", 2, true, "mistral-small-2506 11 4 0 0 80 0 stop"},
    {"mistral/chat_tools.sse", kChat, "none", 2, true, "mistral-small-2506 11 4 0 0 80 0 tool_calls"},
    {"mistral/chat_error_mid.sse", kChat, "overloaded retryable", 2, true, "mistral-small-2506 unknown unfinished"},
    {"mistral/chat_error_first.sse", kChat, "rate_limited retryable", 0, true, " unknown unfinished"},
    {"mistral/chat_finish_error.sse", kChat, "server_error retryable", 2, true, "mistral-small-2506 unknown error"},
    {"mistral/conversation_plain.sse", kConversation, "none", 2, true, "mistral-medium-2505 18 0 0 0 3 0 unfinished"},
    {"mistral/conversation_error.sse", kConversation, "server_error retryable", 0, true, " unknown unfinished"},

    {"cohere/chat_plain.sse", kCohere, "none", 3, true, " 7 0 0 0 12 0 COMPLETE"},
    {"cohere/chat_plain_crlf.sse", kCohere, "none", 3, true, " 7 0 0 0 12 0 COMPLETE"},
    {"cohere/chat_tools.sse", kCohere, "none", 2, true, " 7 0 0 0 12 0 TOOL_CALL"},
    {"cohere/chat_error_end.sse", kCohere, "server_error retryable", 3, true, " 7 0 0 0 12 0 ERROR"},
    {"cohere/chat_error_first.sse", kCohere, "timeout retryable", 0, true, " 7 0 0 0 12 0 TIMEOUT"},
    {"cohere/chat_finished_without_done.sse", kCohere, "none", 3, false, " 7 0 0 0 12 0 MAX_TOKENS"},
    {"cohere/chat_cut_in_event.sse", kCohere, kCut, 3, false, " unknown unfinished"},
    {"cohere/chat1_plain.ndjson", kCohere1, "none", 2, true, " 4 0 0 0 3 0 COMPLETE"},
    {"cohere/chat1_toxic.ndjson", kCohere1, "content_policy final", 2, true, " 4 0 0 0 3 0 ERROR_TOXIC"},

    {"ollama/chat_plain.ndjson", kOllama, "none", 1, true, "llama3.2 26 0 0 0 282 0 stop"},
    {"ollama/chat_crlf.ndjson", kOllama, "none", 1, true, "llama3.2 26 0 0 0 282 0 stop"},
    {"ollama/chat_no_last_newline.ndjson", kOllama, "none", 1, true, "llama3.2 26 0 0 0 282 0 length"},
    {"ollama/chat_thinking.ndjson", kOllama, "none", 2, true, "llama3.2 26 0 0 0 282 0 stop"},
    {"ollama/chat_tools.ndjson", kOllama, "none", 1, true, "llama3.2 26 0 0 0 282 0 stop"},
    {"ollama/chat_error_first.ndjson", kOllama, "not_found final", 0, true, " unknown unfinished"},
    {"ollama/chat_error_mid.ndjson", kOllama, "server_error retryable", 1, true, "llama3.2 unknown unfinished"},
    {"ollama/chat_cut_between_lines.ndjson", kOllama, kCut, 1, false, "llama3.2 unknown unfinished"},
    {"ollama/chat_cut_in_line.ndjson", kOllama, kCut, 1, false, "llama3.2 unknown unfinished"},
    {"ollama/generate_plain.ndjson", kOllamaGenerate, "none", 1, true, "llama3.2 26 0 0 0 282 0 stop"},
    {"ollama/generate_cached_prompt.ndjson", kOllamaGenerate, "none", 1, true, "llama3.2 0 0 0 0 282 0 stop"},
    {"ollama/generate_blank_lines.ndjson", kOllamaGenerate, "none", 1, true, "llama3.2 26 0 0 0 282 0 stop"},
};

const Headers kEventStream = {{"Content-Type", "text/event-stream; charset=utf-8"}};
const Headers kLines = {{"Content-Type", "application/x-ndjson"}};

std::unique_ptr<StreamReader> reader_for(std::string_view file, std::string_view path, bool hide_usage = false) {
  const Dialect& dialect = *classifier::find_dialect(file.substr(0, file.find('/')));
  const Headers& head = file.ends_with(".ndjson") ? kLines : kEventStream;
  return dialect.stream_reader(dialect.endpoint("POST", path), {.stream = true}, head, hide_usage);
}

/// All that can be seen of a reader, and what it passed on.
struct Seen {
  std::string verdict;
  std::string usage;
  std::string passed;
  std::string forward;
  std::string tail;
  std::string error_body;
  int error_status = 0;
  bool content = false;
  bool terminal = false;
  bool complete = false;
  std::uint64_t events = 0;
  bool operator==(const Seen&) const = default;
};

Seen feed(StreamReader& reader, const std::vector<std::string_view>& pieces, std::optional<Transport> transport) {
  Seen seen;
  for (const std::string_view piece : pieces) {
    // A buffer of its own, as long as the call: nothing may point into it afterwards.
    const std::string bytes{piece};
    reader.feed(bytes);
    seen.forward += std::exchange(reader.forward(), {});
  }
  seen.verdict = spelled(reader.finish(transport));
  seen.forward += reader.forward();
  seen.tail = reader.tail();
  seen.passed = seen.forward + seen.tail;
  seen.usage = spelled(reader.usage());
  seen.error_body = reader.error_body();
  seen.error_status = reader.error_status();
  seen.content = reader.content();
  seen.terminal = reader.terminal();
  seen.complete = reader.complete();
  seen.events = reader.events();
  return seen;
}

std::vector<std::string_view> split_at_random(std::string_view bytes, std::mt19937& chance, std::size_t piece_max) {
  std::vector<std::string_view> pieces;
  std::uniform_int_distribution<std::size_t> length{1, piece_max};
  while (!bytes.empty()) {
    const std::size_t taken = std::min(length(chance), bytes.size());
    pieces.push_back(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
  }
  return pieces;
}

TEST(Stream, recordings_are_read_as_they_are) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.file);
    const std::string bytes = fixture(recording.file);
    ASSERT_FALSE(bytes.empty());
    const auto reader = reader_for(recording.file, recording.path);
    std::uint64_t content_at = 0;
    for (const char& byte : bytes) {
      reader->feed({&byte, 1});
      if (reader->content() && content_at == 0) content_at = reader->events();
    }
    const std::string verdict = spelled(reader->finish(std::nullopt));
    EXPECT_EQ(verdict, recording.verdict);
    EXPECT_EQ(content_at, recording.content_at);
    EXPECT_EQ(reader->terminal(), recording.terminal);
    EXPECT_EQ(spelled(reader->usage()), recording.usage);
  }
}

TEST(Stream, any_split_of_the_bytes_gives_the_same) {
  constexpr unsigned kSeeds = 40;
  for (const Recording& recording : kRecordings) {
    const std::string bytes = fixture(recording.file);
    for (const bool hide : {false, true}) {
      const auto whole_reader = reader_for(recording.file, recording.path, hide);
      const Seen whole = feed(*whole_reader, {bytes}, std::nullopt);
      for (unsigned seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(std::string{recording.file} + " seed " + std::to_string(seed));
        std::mt19937 chance{seed};
        const auto pieces = split_at_random(bytes, chance, seed == 0 ? 1 : 1U << (seed % 10U));
        const auto reader = reader_for(recording.file, recording.path, hide);
        ASSERT_TRUE(feed(*reader, pieces, std::nullopt) == whole);
      }
    }
  }
}

TEST(Stream, what_is_passed_on_is_what_came_wherever_it_is_cut) {
  for (const Recording& recording : kRecordings) {
    const std::string bytes = fixture(recording.file);
    for (std::size_t length = 0; length <= bytes.size(); ++length) {
      SCOPED_TRACE(std::string{recording.file} + " cut at " + std::to_string(length));
      const auto reader = reader_for(recording.file, recording.path);
      const Seen seen = feed(*reader, {std::string_view{bytes}.substr(0, length)}, Transport::Reset);
      const std::string came = bytes.substr(0, length);
      ASSERT_TRUE(came.starts_with(seen.passed)) << seen.passed;
      const std::string_view end = recording.file.ends_with(".ndjson") ? "\n" : "\n\n";
      ASSERT_EQ(came.substr(seen.passed.size()).find(end), std::string::npos)
          << "only an unfinished event is dropped";
      ASSERT_TRUE(seen.terminal || seen.verdict == "none" || seen.verdict == "network retryable") << seen.verdict;
    }
  }
}

TEST(Stream, the_end_waits_in_the_tail_and_nothing_else_does) {
  const struct {
    std::string_view file;
    std::string_view path;
    std::string_view tail_begins;
  } kEnds[] = {
      {"openai/chat_plain.sse", kChat, "data: [DONE]"},
      {"openai/chat_error_mid.sse", kChat, "data: {\"id\":\"gen-1\""},
      {"openai/responses_plain.sse", kResponses, "event: response.completed"},
      {"openai/responses_failed.sse", kResponses, "event: response.failed"},
      {"openai/responses_error_first.sse", kResponses, "event: error"},
      {"anthropic/plain.sse", kMessages, "event: message_stop"},
      {"anthropic/error_mid.sse", kMessages, "event: error"},
      {"gemini/error_mid.sse", kGenerate, "data: {\"error\""},
      {"mistral/chat_plain.sse", kChat, "data: [DONE]"},
      {"mistral/chat_error_mid.sse", kChat, "data: {\"object\":\"error\""},
      {"cohere/chat_plain.sse", kCohere, "data: [DONE]"},
      {"cohere/chat_error_end.sse", kCohere, "event: message-end"},
      {"cohere/chat1_plain.ndjson", kCohere1, "{\"is_finished\":true"},
      {"ollama/chat_plain.ndjson",
       kOllama,
       R"({"model":"llama3.2","created_at":"2026-05-01T08:52:19.385406Z","message":{"role":"assistant","content":""})"},
      {"ollama/chat_error_mid.ndjson", kOllama, "{\"error\""},
  };
  for (const auto& end : kEnds) {
    SCOPED_TRACE(end.file);
    const auto reader = reader_for(end.file, end.path);
    const Seen seen = feed(*reader, {fixture(end.file)}, std::nullopt);
    EXPECT_TRUE(seen.tail.starts_with(end.tail_begins)) << seen.tail;
    EXPECT_EQ(seen.forward.find(end.tail_begins), std::string::npos);
  }
}

TEST(Stream, is_complete_at_its_marker_but_never_with_an_error_and_at_gemini_only_at_the_end) {
  for (const Recording& recording : kRecordings) {
    SCOPED_TRACE(recording.file);
    const auto reader = reader_for(recording.file, recording.path);
    reader->feed(fixture(recording.file) + "\n");
    const bool gemini = recording.file.starts_with("gemini");
    EXPECT_EQ(reader->complete(), recording.terminal && !reader->error() && !gemini);
    (void)reader->finish(std::nullopt);
    EXPECT_EQ(reader->complete(), recording.terminal && !reader->error());
  }
}

TEST(Stream, a_usage_chunk_that_only_we_asked_for_is_read_and_left_out) {
  const std::string bytes = fixture("openai/chat_plain.sse");
  const std::size_t from = bytes.find("data: {", bytes.find("\"finish_reason\":\"stop\""));
  const std::size_t to = bytes.find("data: [DONE]");
  ASSERT_NE(bytes.substr(from, to - from).find("\"choices\":[],\"usage\":{"), std::string::npos);
  const auto reader = reader_for("openai/chat_plain.sse", kChat, true);
  const Seen seen = feed(*reader, {bytes}, std::nullopt);
  EXPECT_EQ(seen.passed, bytes.substr(0, from) + bytes.substr(to));
  EXPECT_EQ(seen.usage, "gpt-4o-2024-08-06 14 0 0 0 9 0 stop");
}

TEST(Stream, usage_in_a_chunk_with_choices_is_never_left_out) {
  const std::string bytes = fixture("openai/chat_reasoning_with_comments.sse");
  const auto reader = reader_for("openai/chat_reasoning_with_comments.sse", kChat, true);
  EXPECT_EQ(feed(*reader, {bytes}, std::nullopt).passed, bytes);
}

TEST(Stream, an_error_becomes_a_body_and_a_status_that_sdks_know) {
  const struct {
    std::string_view file;
    std::string_view path;
    int status;
    std::string_view body;
  } kErrors[] = {
      {"openai/chat_error_first.sse",
       kChat,
       500,
       R"({"error":{"message":"The server had an error while processing your request. Sorry about that!","type":"server_error","param":null,"code":null}})"},
      {"openai/chat_rate_limit_after_role.sse",
       kChat,
       429,
       R"({"error":{"message":"Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2.5s.","type":"tokens","param":null,"code":"rate_limit_exceeded"}})"},
      {"openai/chat_error_mid.sse",
       kChat,
       502,
       R"({"error":{"code":502,"message":"Provider disconnected unexpectedly","metadata":{"error_type":"provider_unavailable"}}})"},
      {"openai/responses_failed.sse",
       kResponses,
       500,
       R"({"error":{"code":"server_error","message":"An error occurred while processing your request."}})"},
      {"openai/responses_error_first.sse",
       kResponses,
       429,
       R"({"error":{"message":"Rate limit reached for gpt-5. Please try again in 1.2s.","param":null,"code":"rate_limit_exceeded","type":"rate_limit_exceeded"}})"},
      {"anthropic/error_first.sse",
       kMessages,
       529,
       R"({"type":"error","error":{"details":null,"type":"overloaded_error","message":"Overloaded"},"request_id":"req_011C"})"},
      {"anthropic/error_mid.sse",
       kMessages,
       500,
       R"({"type":"error","error":{"type":"api_error","message":"Internal server error"}})"},
      {"gemini/error_mid.sse",
       kGenerate,
       503,
       R"({"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}})"},
      {"mistral/chat_error_mid.sse",
       kChat,
       503,
       R"({"object":"error","message":"Service tier capacity exceeded for this model.","type":"invalid_request_error","param":null,"code":"3505"})"},
      {"mistral/conversation_error.sse",
       kConversation,
       500,
       R"({"object":"error","message":"Internal server error","type":"conversation.response.error","param":null,"code":null})"},
      {"cohere/chat_error_end.sse", kCohere, 500, R"({"message":"internal failure"})"},
      {"cohere/chat_error_first.sse", kCohere, 504, R"({"message":"the answer ended with TIMEOUT"})"},
      {"ollama/chat_error_first.ndjson",
       kOllama,
       404,
       R"({"error":"model \"llama9\" not found, try pulling it first"})"},
  };
  for (const auto& error : kErrors) {
    SCOPED_TRACE(error.file);
    const auto reader = reader_for(error.file, error.path);
    const Seen seen = feed(*reader, {fixture(error.file)}, std::nullopt);
    EXPECT_EQ(seen.error_status, error.status);
    EXPECT_EQ(seen.error_body, error.body);
    EXPECT_TRUE(nlohmann::json::accept(seen.error_body));
  }
}

TEST(Stream, the_heads_own_hint_serves_an_error_inside_it) {
  const Dialect& dialect = *classifier::find_dialect("openai");
  std::unique_ptr<StreamReader> reader;
  {
    const Headers head = {{"content-type", "text/event-stream"}, {"retry-after", "3"}, {"X-Should-Retry", "false"}};
    reader = dialect.stream_reader(dialect.endpoint("POST", kChat), {.stream = true}, head, false);
  }
  reader->feed(fixture("openai/chat_error_first.sse"));
  EXPECT_EQ(spelled(reader->finish(std::nullopt)), "server_error final");
}

TEST(Stream, generated_text_that_quotes_an_error_is_content) {
  const std::string_view event =
      "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"data: "
      "{\\\"error\\\":{\\\"code\\\":\\\"insufficient_quota\\\"}}"
      "\\n\\nevent: error\\n\\ndata: [DONE]\\n\\n\"},\"finish_reason\":null}]}\n\n";
  const auto reader = reader_for("openai/", kChat);
  reader->feed(event);
  EXPECT_TRUE(reader->content());
  EXPECT_FALSE(reader->error());
  EXPECT_FALSE(reader->terminal());
  EXPECT_EQ(reader->forward(), event);
}

TEST(Stream, between_events_only_where_a_heartbeat_may_stand) {
  const auto reader = reader_for("anthropic/", kMessages);
  EXPECT_TRUE(reader->between_events());
  reader->feed("event: ping\n");
  EXPECT_FALSE(reader->between_events());
  reader->feed("data: {\"type\": \"ping\"}\n");
  EXPECT_FALSE(reader->between_events());
  reader->feed("\n");
  EXPECT_TRUE(reader->between_events());
  reader->feed(": half a com");
  EXPECT_FALSE(reader->between_events());
  reader->feed("ment\n");
  EXPECT_TRUE(reader->between_events());
  EXPECT_EQ(reader->events(), 1U);
}

TEST(Stream, comments_go_on_at_once_and_are_no_events) {
  const auto reader = reader_for("openai/", kChat);
  reader->feed(": keep-alive\n\n");
  EXPECT_EQ(reader->forward(), ": keep-alive\n\n");
  EXPECT_EQ(reader->events(), 0U);
  EXPECT_FALSE(reader->content());
}

TEST(Stream, nothing_at_all_is_no_answer) {
  for (const std::string_view bytes : {"", "\n\n", ": keep-alive\n\n: keep-alive\n\n"}) {
    const auto reader = reader_for("openai/", kChat);
    EXPECT_EQ(feed(*reader, {bytes}, std::nullopt).verdict, kCut);
  }
}

TEST(Stream, an_end_marker_behind_no_event_is_no_answer_and_promises_nothing) {
  const struct {
    std::string_view file;
    std::string_view path;
    std::string_view bytes;
  } kCases[] = {
      {"openai/", kChat, "data: [DONE]\n\n"},
      {"openai/", kChat, ": hi\n\ndata: [DONE]\n\n"},
      {"openai/", kChat, "data: {\"choices\":[{\n\ndata: <html>\n\ndata: [DONE]\n\n"},
      {"openai/", kResponses, "event: response.created\ndata: nothing\n\n"},
      {"anthropic/", kMessages, "event: message_start\ndata: {\"type\":\n\nevent: message_stop\ndata: {]\n\n"},
      {"gemini/", kGenerate, "data: {\"candidates\": [\r\n\r\n"},
      {"mistral/", kChat, "data: [DONE]\n\n"},
      {"cohere/", kCohere, "data: [DONE]\n\n"},
      {"ollama/.ndjson", kOllama, "done\n{\"done\":\n"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.bytes);
    const auto reader = reader_for(c.file, c.path);
    reader->feed(c.bytes);
    EXPECT_FALSE(reader->content() || reader->terminal() || reader->complete() || reader->error());
    EXPECT_EQ(spelled(reader->finish(std::nullopt)), kCut);
    EXPECT_FALSE(reader->complete());
  }
}

TEST(Stream, an_error_of_any_form_becomes_one_that_the_sdk_can_read) {
  const std::string_view kForms[] = {
      R"({"error":"the text"})",
      R"({"error":{"message":"the text"}})",
      R"({"error":{"code":503,"message":"the text"}})",
      R"({"error":{"error":{"message":"the text","type":"server_error"}}})",
      R"([{"error":{"code":503,"message":"the text","status":"UNAVAILABLE"}}])",
      R"({"error":[{"message":"the text"}]})",
      R"({"error":{"message":{"detail":"the text"}}})",
      R"({"type":"error","error":{"type":"overloaded_error","message":"the text"}})",
      R"({"type":"error","error":"the text"})",
      R"({"error":{"message":"{\"error\":{\"message\":\"the text\"}}"}})",
      R"({"error":"the text","message":"more"})",
      R"({"error":{"code":"none"}})",
      R"({"error":true})",
      "{\"error\":\"the text\xff\"}",
  };
  const struct {
    std::string_view file;
    std::string_view path;
    std::string_view message;  // Where its SDK looks for words.
  } kStreams[] = {{"openai/", kChat, "/error/message"},
                  {"openai/", kResponses, "/error/message"},
                  {"anthropic/", kMessages, "/error/message"},
                  {"gemini/", kGenerate, "/error/message"},
                  {"mistral/", kChat, "/message"},
                  {"cohere/", kCohere, "/message"},
                  {"ollama/.ndjson", kOllama, "/error"}};
  for (const auto& stream : kStreams) {
    for (const std::string_view form : kForms) {
      SCOPED_TRACE(std::string{stream.path} + " " + std::string{form});
      const bool lines = stream.file.ends_with(".ndjson");
      const auto reader = reader_for(stream.file, stream.path);
      reader->feed(lines ? std::string{form} + "\n" : "data: " + std::string{form} + "\n\n");
      ASSERT_TRUE(reader->error());
      EXPECT_GE(reader->error_status(), 400);
      const auto body = nlohmann::json::parse(reader->error_body(), nullptr, false);
      ASSERT_FALSE(body.is_discarded()) << reader->error_body();
      const auto message = body.value(nlohmann::json::json_pointer{std::string{stream.message}}, nlohmann::json{});
      ASSERT_TRUE(message.is_string()) << reader->error_body();
      EXPECT_FALSE(message.get<std::string>().empty());
      const bool has_text = form.find("the text") != std::string_view::npos;
      EXPECT_EQ(message.get<std::string>().find("the text") != std::string::npos, has_text) << reader->error_body();
    }
  }
}

TEST(Stream, an_error_inside_a_choice_or_a_response_becomes_one_that_the_sdk_can_read) {
  for (const std::string_view form : {R"({"choices":[{"index":0,"error":{"message":"the text","code":500}}]})",
                                      R"({"choices":[{"index":0,"error":"the text"}]})",
                                      R"({"type":"response.failed","response":{"error":{"message":"the text"}}})",
                                      R"({"type":"response.failed","response":{"error":"the text"}})",
                                      R"({"response":{"error":{"error":{"message":"the text"}}}})",
                                      R"({"object":"error","message":"the text","code":40303})",
                                      R"({"message":"the text"})",
                                      R"({"detail":"the text"})",
                                      R"({"detail":[{"loc":["body"],"msg":"the text"}]})",
                                      R"({"type":"error","code":"server_error","message":"the text"})"}) {
    SCOPED_TRACE(form);
    const auto reader = reader_for("openai/", kChat);
    reader->feed("data: " + std::string{form} + "\n\n");
    ASSERT_TRUE(reader->error());
    auto body = nlohmann::json::parse(reader->error_body(), nullptr, false);
    ASSERT_TRUE(body.is_object()) << reader->error_body();
    EXPECT_EQ(body["error"]["message"], "the text") << reader->error_body();
    EXPECT_FALSE(body["error"]["code"].is_array()) << reader->error_body();
  }
  const auto silent = reader_for("openai/", kResponses);
  silent->feed("data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":null}}\n\n");
  EXPECT_EQ(spelled(silent->finish(std::nullopt)), "server_error retryable");
  ASSERT_TRUE(silent->error());
  EXPECT_TRUE(nlohmann::json::parse(silent->error_body())["error"]["message"].is_string());
}

TEST(Stream, a_failure_without_its_cause_waits_for_the_event_that_names_it) {
  constexpr std::string_view kFailed =
      "event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"error\":null}}\n\n";
  constexpr std::string_view kChoiceFailed =
      "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"error\"}]}\n\n";
  constexpr std::string_view kCohereFailed =
      "event: message-end\ndata: {\"type\":\"message-end\",\"delta\":{\"finish_reason\":\"ERROR\"}}\n\n";
  const struct {
    std::string_view file;
    std::string_view path;
    std::string_view failed;
    std::string_view cause;
    std::string_view want;
  } kCases[] = {
      {"openai/",
       kResponses,
       kFailed,
       "event: error\ndata: {\"type\":\"error\",\"error\":{\"code\":\"rate_limit_exceeded\",\"message\":\"m\"}}\n\n",
       "rate_limited retryable"},
      {"openai/",
       kResponses,
       kFailed,
       "data: {\"type\":\"error\",\"code\":\"insufficient_quota\",\"message\":\"m\"}\n\n",
       "quota_exhausted final"},
      {"openai/",
       kChat,
       kChoiceFailed,
       "data: {\"error\":{\"message\":\"m\",\"code\":503}}\n\n",
       "overloaded retryable"},
      {"mistral/",
       kChat,
       kChoiceFailed,
       "data: {\"object\":\"error\",\"message\":\"m\",\"code\":429}\n\n",
       "rate_limited retryable"},
      {"cohere/", kCohere, kCohereFailed, "data: {\"message\":\"too many tokens\"}\n\n", "context_length final"},
      {"openai/", kResponses, kFailed, "", "server_error retryable"},
      {"openai/", kChat, kChoiceFailed, "data: [DONE]\n\n", "server_error retryable"},
      {"cohere/", kCohere, kCohereFailed, "data: [DONE]\n\n", "server_error retryable"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(std::string{c.failed} + std::string{c.cause});
    const auto reader = reader_for(c.file, c.path);
    reader->feed(c.failed);
    EXPECT_TRUE(reader->failing());
    EXPECT_TRUE(reader->terminal()) << "a bound to the wait, and nothing of it goes on before the ledger has heard";
    EXPECT_FALSE(reader->error());
    reader->feed(c.cause);
    EXPECT_EQ(reader->failing(), c.cause.empty());
    EXPECT_FALSE(reader->complete());
    EXPECT_EQ(spelled(reader->finish(std::nullopt)), c.want);
    ASSERT_TRUE(reader->error());
    EXPECT_EQ(spelled(*reader->error()), c.want);
    EXPECT_FALSE(reader->failing());
    EXPECT_EQ(reader->forward(), "");
    EXPECT_EQ(reader->tail(), std::string{c.failed} + std::string{c.cause});
  }
  const auto cut = reader_for("openai/", kResponses);
  cut->feed(kFailed);
  EXPECT_EQ(spelled(cut->finish(Transport::Reset)), "server_error retryable") << "it had failed before it broke off";
  const auto told_twice = reader_for("openai/", kResponses);
  told_twice->feed("data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"code\":\"invalid_prompt\"}}}\n\n");
  ASSERT_TRUE(told_twice->error()) << "which waits for nothing";
  told_twice->feed("data: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"m\"}\n\n");
  EXPECT_EQ(spelled(told_twice->finish(std::nullopt)), "content_policy final");
}

TEST(Stream, an_event_that_is_called_error_is_one_whatever_its_data_are) {
  for (const auto& [file, path] : {std::pair{"openai/", kChat}, {"anthropic/", kMessages}, {"openai/", kResponses}}) {
    for (const std::string_view data : {"data: upstream died", "data:", "data: {\"message\":\"m\"}", "data: [1]"}) {
      SCOPED_TRACE(std::string{path} + " " + std::string{data});
      const auto reader = reader_for(file, path);
      reader->feed("event: error\n" + std::string{data} + "\n\n");
      ASSERT_TRUE(reader->error());
      EXPECT_EQ(reader->error()->cls, classifier::Class::ServerError);
      const auto body = nlohmann::json::parse(reader->error_body(), nullptr, false);
      ASSERT_FALSE(body.is_discarded());
      EXPECT_TRUE(body["error"]["message"].is_string()) << reader->error_body();
      EXPECT_EQ(reader->error_status(), 500);
    }
  }
}

TEST(Stream, lines_end_with_their_newline_and_the_last_one_also_without) {
  const auto reader = reader_for("ollama/.ndjson", kOllama);
  reader->feed("{\"message\":{\"content\":\"a\"},");
  EXPECT_FALSE(reader->between_events());
  EXPECT_EQ(reader->forward(), "");
  reader->feed("\"done\":false}");
  EXPECT_FALSE(reader->content()) << "more of it may come";
  reader->feed("\n{\"do");
  EXPECT_TRUE(reader->content());
  EXPECT_EQ(std::exchange(reader->forward(), {}), "{\"message\":{\"content\":\"a\"},\"done\":false}\n");
  EXPECT_EQ(reader->held_bytes(), 4U);
  reader->feed("ne\":true}");
  EXPECT_FALSE(reader->terminal());
  EXPECT_EQ(spelled(reader->finish(std::nullopt)), "none");
  EXPECT_EQ(reader->tail(), "{\"done\":true}");
  const auto cut = reader_for("ollama/.ndjson", kOllama);
  cut->feed("{\"message\":{\"content\":\"a\"},\"done\":false}\n{\"done\":true}");
  EXPECT_EQ(spelled(cut->finish(Transport::Reset)), "network retryable");
  EXPECT_EQ(cut->tail(), "");
}

TEST(Stream, a_cut_after_the_marker_is_no_loss) {
  const auto reader = reader_for("openai/chat_plain.sse", kChat);
  EXPECT_EQ(feed(*reader, {fixture("openai/chat_plain.sse")}, Transport::Reset).verdict, "none");
  const auto finished = reader_for("openai/chat_plain.sse", kChat);
  EXPECT_EQ(feed(*finished, {fixture("openai/chat_finished_without_done.sse")}, Transport::Reset).verdict, "none");
  const auto late = reader_for("openai/chat_plain.sse", kChat);
  EXPECT_EQ(feed(*late, {fixture("openai/chat_cut_in_event.sse")}, Transport::Timeout).verdict, "timeout retryable");
}

TEST(Stream, an_event_beyond_eight_mebibytes_goes_on_in_pieces_and_memory_stays_bounded) {
  const std::string big = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1},\"x\":\"" +
                          std::string(std::size_t{9} << 20U, 'x') + "\"}\n\n";
  const std::string bytes = fixture("openai/chat_plain.sse");
  const std::string all = big + bytes;
  const auto reader = reader_for("openai/chat_plain.sse", kChat, true);
  std::string passed;
  std::size_t held_max = 0;
  for (std::size_t at = 0; at < all.size(); at += 60'000) {
    reader->feed(std::string_view{all}.substr(at, 60'000));
    passed += std::exchange(reader->forward(), {});
    held_max = std::max(held_max, reader->held_bytes());
  }
  EXPECT_EQ(spelled(reader->finish(std::nullopt)), "none");
  EXPECT_TRUE(passed.starts_with(big)) << "an event that was not read cannot be hidden";
  EXPECT_LT(held_max, (std::size_t{8} << 20U) + 70'000);
  EXPECT_EQ(spelled(reader->usage()), "gpt-4o-2024-08-06 14 0 0 0 9 0 stop");
}

TEST(Stream, junk_is_passed_on_and_never_breaks_the_reader) {
  constexpr unsigned kSeeds = 300;
  constexpr std::string_view kBits[] = {"data:",
                                        "event: error",
                                        "\n",
                                        "\r",
                                        "\n\n",
                                        "{\"error\":",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"choices\":",
                                        "\"usage\":{\"prompt_tokens\":1e400,",
                                        ": x",
                                        "\xff\xfe",
                                        "[DONE]",
                                        "null",
                                        "-1",
                                        "\"",
                                        "\\u12",
                                        "\"delta\":",
                                        ",",
                                        "\"candidates\":[{",
                                        "\"type\":\"message_start\",\"message\":"};
  for (unsigned seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 chance{seed};
    std::string bytes;
    std::uniform_int_distribution<std::size_t> pick{0, std::size(kBits) - 1};
    for (int i = 0; i < 60; ++i) bytes += kBits[pick(chance)];
    for (const auto& [file, path] : {std::pair{"openai/", kChat},
                                     {"anthropic/", kMessages},
                                     {"gemini/", kGenerate},
                                     {"mistral/", kChat},
                                     {"cohere/", kCohere},
                                     {"cohere/.ndjson", kCohere1},
                                     {"ollama/.ndjson", kOllama}}) {
      const auto whole = reader_for(file, path);
      const Seen seen = feed(*whole, {bytes}, std::nullopt);
      ASSERT_EQ(seen.passed, bytes);
      const auto split = reader_for(file, path);
      ASSERT_TRUE(feed(*split, split_at_random(bytes, chance, 5), std::nullopt) == seen) << file;
    }
  }
}

TEST(Stream, is_one_by_its_content_type_or_by_what_was_asked) {
  const Dialect& openai = *classifier::find_dialect("openai");
  const classifier::Endpoint chat = openai.endpoint("POST", kChat);
  EXPECT_TRUE(openai.is_stream(chat, {.stream = true}, kEventStream));
  EXPECT_TRUE(openai.is_stream(chat, {.stream = false}, kEventStream));
  EXPECT_TRUE(openai.is_stream(chat, {.stream = true}, {}));
  EXPECT_FALSE(openai.is_stream(chat, {.stream = false}, {}));
  EXPECT_FALSE(openai.is_stream(chat, {.stream = true}, {{"content-type", "application/json"}}));
  EXPECT_FALSE(openai.is_stream(
      chat, {.stream = true}, {{"content-type", "text/event-stream"}, {"content-encoding", "gzip"}}));
  EXPECT_TRUE(openai.is_stream(
      chat, {.stream = true}, {{"CONTENT-TYPE", "Text/Event-Stream"}, {"content-encoding", "identity"}}));
  EXPECT_FALSE(openai.is_stream(openai.endpoint("POST", "/v1/files"), {.stream = true}, kEventStream));
  const Dialect& ollama = *classifier::find_dialect("ollama");
  const classifier::Endpoint native = ollama.endpoint("POST", kOllama);
  EXPECT_TRUE(ollama.is_stream(native, {.stream = true}, kLines));
  EXPECT_TRUE(ollama.is_stream(native, {.stream = true}, {}));
  EXPECT_FALSE(ollama.is_stream(native, {.stream = false}, {{"content-type", "application/json; charset=utf-8"}}));
  const Dialect& cohere = *classifier::find_dialect("cohere");
  EXPECT_TRUE(cohere.is_stream(
      cohere.endpoint("POST", kCohere1), {.stream = true}, {{"content-type", "application/stream+json"}}));
}

}  // namespace stream_test
