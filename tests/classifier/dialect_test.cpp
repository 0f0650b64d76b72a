// Goal: each dialect knows its paths however clients write them, and speaks its own errors so that SDKs raise.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "classifier/dialect.h"
#include "classifier/json.h"

namespace dialect_test {

using classifier::Class;
using classifier::Dialect;
using classifier::Endpoint;
using classifier::OwnError;
using Json = nlohmann::json;

const Dialect& spoken(std::string_view name) { return *classifier::find_dialect(name); }

TEST(Dialects, are_listed_and_found_by_name) {
  for (const Dialect* dialect : classifier::dialects()) EXPECT_EQ(classifier::find_dialect(dialect->name()), dialect);
  EXPECT_EQ(classifier::dialects().size(), 17U);
  EXPECT_EQ(classifier::find_dialect("nobody"), nullptr);
}

// A reader that follows every level runs out of stack, and a provider's answer must not end the process.
TEST(Dialects, what_is_nested_too_deeply_is_read_as_text) {
  constexpr std::size_t kDeep = 200'000;
  std::string objects;
  for (std::size_t i = 0; i < kDeep; ++i) objects += R"({"error":)";
  objects += "1" + std::string(kDeep, '}');
  const std::string arrays = std::string(kDeep, '[') + std::string(kDeep, ']');
  const std::string documents[] = {arrays,
                                   objects,
                                   R"({"error":)" + arrays + "}",
                                   R"({"type":"error","error":{"message":"x","details":)" + arrays + "}}",
                                   Json{{"error", {{"message", arrays}}}}.dump(),
                                   "data: " + objects + "\n\n"};
  for (const Dialect* dialect : classifier::dialects()) {
    for (const std::string& document : documents) {
      const std::string body = document + std::string(classifier::kBodyPadding, ' ');
      const Endpoint endpoint = dialect->endpoint("POST", "/v1/chat/completions");
      const classifier::Headers headers{{"content-type", "application/json"}};
      for (const int status : {200, 400, 429, 500}) {
        classifier::ProviderAnswer answer;
        answer.status = status;
        answer.headers = &headers;
        answer.body = std::string_view{body}.substr(0, document.size());
        const classifier::Verdict verdict = dialect->judge(endpoint, answer);
        EXPECT_TRUE(status == 200 || verdict.cls != Class::None) << dialect->name() << ' ' << status;
      }
      const classifier::RequestFacts facts = dialect->read_request(
          endpoint, "/v1/chat/completions", "", std::string_view{body}.substr(0, document.size()));
      const classifier::Headers head{{"content-type", "text/event-stream"}};
      const auto reader = dialect->stream_reader(endpoint, facts, head, false);
      if (reader) {
        reader->feed("data: " + document + "\n\n");
        (void)reader->finish(std::nullopt);
      }
    }
  }
}

TEST(Endpoint, is_known_by_its_path_with_and_without_a_version) {
  const struct {
    std::string_view dialect;
    std::string_view method;
    std::string_view path;
    std::string_view want;  // Operation, then what may be done with it.
  } kCases[] = {
      {"openai", "POST", "/v1/chat/completions", "chat safe understood"},
      {"openai", "POST", "/chat/completions", "chat safe understood"},
      {"openai", "POST", "/v1/v1/chat/completions/", "chat safe understood"},
      {"openai", "POST", "/v1/completions", "completions safe understood"},
      {"openai", "POST", "/v1/responses", "responses safe understood"},
      {"openai", "POST", "/v1/embeddings", "embeddings safe understood"},
      {"openai", "POST", "/v1/moderations", "moderation safe understood"},
      {"openai", "POST", "/v1/images/generations", "other safe understood"},
      {"openai", "POST", "/v1/files", "other"},
      {"openai", "POST", "/v1/batches", "other"},
      {"openai", "POST", "/v1/uploads/u1/parts", "other"},
      {"openai", "POST", "/v1/responses/r1/cancel", "other"},
      {"openai", "GET", "/v1/models", "other safe"},
      {"openai", "GET", "/v1/chat/completions", "other safe"},
      {"openai", "DELETE", "/v1/files/f1", "other"},
      {"openai", "POST", "/v1/messages", "other"},
      {"openai", "POST", "", "other"},
      {"openai", "POST", "/v1chat/completions", "other"},
      {"anthropic", "POST", "/v1/messages", "messages safe understood"},
      {"anthropic", "POST", "/messages", "messages safe understood"},
      {"anthropic", "POST", "/v1/v1/messages", "messages safe understood"},
      {"anthropic", "POST", "/v1/messages/count_tokens", "count_tokens safe understood"},
      {"anthropic", "POST", "/v1/messages/batches", "other"},
      {"anthropic", "HEAD", "/v1/models", "other safe"},
      {"gemini", "POST", "/v1beta/models/gemini-2.5-pro:generateContent", "generate_content safe understood"},
      {"gemini", "POST", "/v1/models/gemini-2.5-pro:streamGenerateContent", "generate_content safe understood"},
      {"gemini", "POST", "/models/gemini-2.5-pro:generateContent", "generate_content safe understood"},
      {"gemini", "POST", "/v1beta/tunedModels/mine:generateContent", "generate_content safe understood"},
      {"gemini", "POST", "/v1beta/models/e:embedContent", "embeddings safe understood"},
      {"gemini", "POST", "/v1beta/models/e:batchEmbedContents", "embeddings safe understood"},
      {"gemini", "POST", "/v1beta/models/m:countTokens", "count_tokens safe understood"},
      {"gemini", "POST", "/v1beta/openai/chat/completions", "chat safe understood"},
      {"gemini", "POST", "/v1beta/models/a/b:generateContent", "other"},
      {"gemini", "POST", "/v1beta/models/:generateContent", "other"},
      {"gemini", "POST", "/v1beta/models/m:predictLongRunning", "other"},
      {"gemini", "POST", "/upload/v1beta/files", "other"},
      {"anthropic", "POST", "/v1/files", "other"},
      {"mistral", "POST", "/v1/chat/completions", "chat safe understood"},
      {"mistral", "POST", "/chat/completions", "chat safe understood"},
      {"mistral", "POST", "/v1/fim/completions", "completions safe understood"},
      {"mistral", "POST", "/v1/agents/completions", "chat safe understood"},
      {"mistral", "POST", "/v1/embeddings", "embeddings safe understood"},
      {"mistral", "POST", "/v1/chat/moderations", "moderation safe understood"},
      {"mistral", "POST", "/v1/ocr", "other safe understood"},
      {"mistral", "POST", "/v1/conversations", "responses understood"},
      {"mistral", "POST", "/v1/conversations/conv_1", "responses understood"},
      {"mistral", "POST", "/v1/conversations/conv_1/restart", "responses understood"},
      {"mistral", "POST", "/v1/fine_tuning/jobs", "other"},
      {"cohere", "POST", "/v2/chat", "chat safe understood"},
      {"cohere", "POST", "/v1/chat", "chat safe understood"},
      {"cohere", "POST", "/chat", "chat safe understood"},
      {"cohere", "POST", "/v2/embed", "embeddings safe understood"},
      {"cohere", "POST", "/v1/rerank", "other safe understood"},
      {"cohere", "POST", "/v1/classify", "other safe understood"},
      {"cohere", "POST", "/v1/tokenize", "count_tokens safe understood"},
      {"cohere", "POST", "/compatibility/v1/chat/completions", "chat safe understood"},
      {"cohere", "POST", "/v1/chat/completions", "other"},
      {"cohere", "POST", "/v1/embed-jobs", "other"},
      {"cohere", "GET", "/v1/models", "other safe"},
      {"ollama", "POST", "/api/chat", "chat safe understood"},
      {"ollama", "POST", "/api/generate", "completions safe understood"},
      {"ollama", "POST", "/api/embed", "embeddings safe understood"},
      {"ollama", "POST", "/api/embeddings", "embeddings safe understood"},
      {"ollama", "POST", "/v1/chat/completions", "chat safe understood borrowed"},
      {"ollama", "POST", "/v1/embeddings", "embeddings safe understood borrowed"},
      {"ollama", "POST", "/api/pull", "other"},
      {"ollama", "GET", "/api/tags", "other safe"},
      {"groq", "POST", "/openai/v1/chat/completions", "other"},
      {"groq", "POST", "/v1/chat/completions", "chat safe understood"},
      {"groq", "POST", "/v1/audio/speech", "other safe"},
      {"groq", "POST", "/v1/batches", "other"},
      {"deepseek", "POST", "/chat/completions", "chat safe understood"},
      {"deepseek", "POST", "/v1/responses", "responses safe understood"},
      {"deepseek", "POST", "/beta/completions", "completions safe understood"},
      {"deepseek", "POST", "/anthropic/v1/messages", "messages safe understood borrowed"},
      {"deepseek", "POST", "/v1/messages", "other"},
      {"xai", "POST", "/v1/responses", "responses safe understood"},
      {"xai", "POST", "/v1/tokenize-text", "count_tokens safe understood"},
      {"xai", "POST", "/v1/videos/generations", "other"},
      {"together", "POST", "/v1/rerank", "other safe understood"},
      {"together", "POST", "/v1/fine-tunes", "other"},
      {"fireworks", "POST", "/v1/completions", "completions safe understood"},
      {"fireworks", "POST", "/v1/accounts/a/models", "other"},
      {"openrouter", "POST", "/v1/chat/completions", "chat safe understood"},
      {"openrouter", "POST", "/v1/messages", "messages safe understood borrowed"},
      {"openrouter", "POST", "/v1/keys", "other"},
      {"vllm", "POST", "/tokenize", "count_tokens safe understood"},
      {"vllm", "POST", "/v1/rerank", "other safe understood"},
      {"vllm", "POST", "/v2/rerank", "other safe understood"},
      {"vllm", "POST", "/v1/load_lora_adapter", "other"},
      {"llamacpp", "POST", "/completion", "completions safe"},
      {"llamacpp", "POST", "/v1/chat/completions", "chat safe understood"},
      {"llamacpp", "POST", "/slots/0", "other"},
  };
  for (const auto& c : kCases) {
    const Endpoint endpoint = spoken(c.dialect).endpoint(c.method, c.path);
    std::string got{name_of(endpoint.operation)};
    if (endpoint.replay_safe) got += " safe";
    if (endpoint.understood) got += " understood";
    if (spoken(c.dialect).read_path(c.path).known == classifier::ApiPath::Known::Borrowed) got += " borrowed";
    EXPECT_EQ(got, c.want) << c.dialect << ' ' << c.path;
  }
}

const OwnError kError{.status = 429,
                      .cls = Class::LocalLimit,
                      .message = "too \"many\"\n",
                      .code = "callgate_queue_full",
                      .call_id = "id1"};

TEST(OwnErrors, have_the_dialects_form) {
  EXPECT_EQ(
      spoken("openai").error_body(kError),
      R"({"error":{"message":"too \"many\"\n","type":"rate_limit_error","param":null,"code":"callgate_queue_full"}})");
  EXPECT_EQ(
      Json::parse(spoken("anthropic").error_body(kError)),
      Json::parse(
          R"({"type":"error","error":{"type":"rate_limit_error","message":"too \"many\"\n","details":{"error_code":"callgate_queue_full"}},"request_id":"id1"})"));
  const Json gemini = Json::parse(spoken("gemini").error_body(kError));
  EXPECT_EQ(gemini["error"]["code"], 429);
  EXPECT_EQ(gemini["error"]["status"], "RESOURCE_EXHAUSTED");
  EXPECT_EQ(gemini["error"]["message"], kError.message);
  EXPECT_EQ(
      Json::parse(spoken("mistral").error_body(kError)),
      Json::parse(
          R"({"object":"error","message":"too \"many\"\n","type":"rate_limited","param":null,"code":"callgate_queue_full"})"));
  EXPECT_EQ(Json::parse(spoken("cohere").error_body(kError)),
            Json::parse(R"({"id":"id1","message":"too \"many\"\n"})"));
  EXPECT_EQ(spoken("ollama").error_body(kError), R"({"error":"too \"many\"\n"})");
  for (const char* name : {"groq", "deepseek", "xai", "together", "fireworks"}) {
    EXPECT_EQ(spoken(name).error_body(kError), spoken("openai").error_body(kError)) << name;
  }
  EXPECT_EQ(
      spoken("openrouter").error_body(kError),
      R"({"error":{"code":429,"message":"too \"many\"\n","metadata":{"error_type":"rate_limit_exceeded","reason":"callgate_queue_full"}}})");
  EXPECT_EQ(
      spoken("vllm").error_body(kError),
      R"({"error":{"code":429,"message":"too \"many\"\n","type":"RateLimitError","param":null,"reason":"callgate_queue_full"}})");
  EXPECT_EQ(
      spoken("llamacpp").error_body(kError),
      R"({"error":{"code":429,"message":"too \"many\"\n","type":"rate_limit_error","param":null,"reason":"callgate_queue_full"}})");
}

TEST(OwnErrors, end_a_stream_so_that_its_sdk_raises) {
  const auto event = [](std::string_view dialect, std::string_view path) {
    return spoken(dialect).error_event(spoken(dialect).endpoint("POST", path), kError);
  };
  EXPECT_EQ(event("openai", "/v1/chat/completions"), "data: " + spoken("openai").error_body(kError) + "\n\n");
  const std::string responses = event("openai", "/v1/responses");
  ASSERT_TRUE(responses.starts_with("event: error\ndata: "));
  const Json both = Json::parse(responses.substr(19));
  EXPECT_EQ(both["type"], "error");
  EXPECT_EQ(both["code"], "callgate_queue_full");
  EXPECT_EQ(both["message"], kError.message);
  EXPECT_EQ(both["error"]["message"], kError.message);
  EXPECT_TRUE(both.contains("sequence_number") && both.contains("param"));
  EXPECT_EQ(event("anthropic", "/v1/messages"),
            "event: error\ndata: " + spoken("anthropic").error_body(kError) + "\n\n");
  EXPECT_EQ(event("gemini", "/v1beta/models/m:streamGenerateContent"),
            "data: " + spoken("gemini").error_body(kError) + "\r\n\r\n");
  EXPECT_EQ(event("gemini", "/v1beta/openai/chat/completions"), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(event("ollama", "/api/chat"), spoken("ollama").error_body(kError) + "\n");
  EXPECT_EQ(event("ollama", "/v1/chat/completions"), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(event("cohere", "/compatibility/v1/chat/completions"), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(event("groq", "/v1/chat/completions"), event("openai", "/v1/chat/completions"));
  EXPECT_EQ(event("vllm", "/v1/chat/completions"), "data: " + spoken("vllm").error_body(kError) + "\n\n");
  EXPECT_EQ(event("vllm", "/v1/responses"), event("openai", "/v1/responses"));
  EXPECT_EQ(event("deepseek", "/anthropic/v1/messages"), event("anthropic", "/v1/messages"));
}

TEST(OwnErrors, are_left_to_the_cut_where_an_sdk_knows_no_error_event) {
  EXPECT_EQ(spoken("mistral").error_event(spoken("mistral").endpoint("POST", "/v1/chat/completions"), kError), "");
  EXPECT_EQ(spoken("cohere").error_event(spoken("cohere").endpoint("POST", "/v2/chat"), kError), "");
}

TEST(OwnErrors, are_read_back_as_what_they_are) {
  const struct {
    std::string_view dialect;
    std::string_view path;
  } kStreams[] = {{"openai", "/v1/chat/completions"},
                  {"openai", "/v1/responses"},
                  {"anthropic", "/v1/messages"},
                  {"gemini", "/v1beta/models/m:streamGenerateContent"},
                  {"groq", "/v1/chat/completions"},
                  {"deepseek", "/anthropic/v1/messages"},
                  {"openrouter", "/v1/chat/completions"},
                  {"vllm", "/v1/completions"},
                  {"llamacpp", "/v1/chat/completions"}};
  for (const auto& stream : kStreams) {
    const Dialect& dialect = spoken(stream.dialect);
    const Endpoint endpoint = dialect.endpoint("POST", stream.path);
    const auto reader = dialect.stream_reader(endpoint, {.stream = true}, {}, false);
    reader->feed(dialect.error_event(endpoint, kError));
    ASSERT_TRUE(reader->error()) << stream.path;
    EXPECT_EQ(reader->error()->cls, Class::RateLimited) << stream.path;
    EXPECT_EQ(reader->error_status(), 429) << stream.path;
  }
}

TEST(OwnErrors, are_valid_json_for_any_bytes) {
  for (unsigned seed = 0; seed < 3'000; ++seed) {
    std::mt19937 chance{seed};
    OwnError error = kError;
    error.message.clear();
    for (int i = 0; i < 24; ++i)
      error.message += static_cast<char>(chance() % 5 == 0 ? chance() % 32 : chance() % 256);
    error.code = error.message;
    error.call_id = error.message;
    for (const Dialect* dialect : classifier::dialects()) {
      const std::string body = dialect->error_body(error);
      ASSERT_TRUE(Json::accept(body)) << "seed " << seed << '\n' << body;
      ASSERT_EQ(body.find('\n'), std::string::npos) << "an event's data is one line";
    }
  }
}

TEST(Quoted, keeps_what_is_utf8_and_replaces_the_rest) {
  EXPECT_EQ(classifier::quoted("a\"\\\n\t\r\x01é日😀"), "\"a\\\"\\\\\\n\\t\\r\\u0001é日😀\"");
  EXPECT_EQ(classifier::quoted("\xC3"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(classifier::quoted("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"") << "a surrogate";
  EXPECT_EQ(classifier::quoted("\xC0\xAF"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"") << "overlong";
  EXPECT_EQ(classifier::quoted("\xF4\x90\x80\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"")
      << "above the last";
  for (unsigned seed = 0; seed < 3'000; ++seed) {
    std::mt19937 chance{seed};
    std::string text;
    for (int i = 0; i < 12; ++i) text += static_cast<char>(chance() % 256);
    const Json back = Json::parse(classifier::quoted(text), nullptr, false);
    ASSERT_FALSE(back.is_discarded()) << "seed " << seed;
    ASSERT_TRUE(back == text || !classifier::utf8_whole(text)) << "seed " << seed;
    ASSERT_TRUE(classifier::utf8_whole(classifier::as_utf8(text)));
  }
}

TEST(Heartbeats, are_those_that_no_client_breaks_on) {
  const auto beat = [](std::string_view dialect, std::string_view path) {
    return spoken(dialect).heartbeat(spoken(dialect).endpoint("POST", path));
  };
  EXPECT_EQ(beat("openai", "/v1/chat/completions"), ": ka\n");
  EXPECT_EQ(beat("openai", "/v1/responses"), ": ka\n");
  EXPECT_EQ(beat("anthropic", "/v1/messages"), "event: ping\ndata: {\"type\": \"ping\"}\n\n");
  EXPECT_EQ(beat("gemini", "/v1beta/models/m:streamGenerateContent"), "\n");
  EXPECT_EQ(beat("gemini", "/v1beta/openai/chat/completions"), ": ka\n");
  EXPECT_EQ(beat("mistral", "/v1/chat/completions"), ": ka\n");
  EXPECT_EQ(beat("cohere", "/v2/chat"), ": ka\n");
  EXPECT_EQ(beat("cohere", "/v1/chat"), "") << "lines of JSON, and each is read as such";
  EXPECT_EQ(beat("ollama", "/api/chat"), "");
  EXPECT_EQ(beat("ollama", "/v1/chat/completions"), ": ka\n");
  EXPECT_EQ(beat("openrouter", "/v1/chat/completions"), ": ka\n");
  EXPECT_EQ(beat("openrouter", "/v1/messages"), beat("anthropic", "/v1/messages"));
}

TEST(Statuses, are_how_the_provider_says_a_class) {
  EXPECT_EQ(spoken("openai").status_of(Class::Overloaded), 503);
  EXPECT_EQ(spoken("anthropic").status_of(Class::Overloaded), 529);
  EXPECT_EQ(spoken("gemini").status_of(Class::Overloaded), 503);
  EXPECT_EQ(spoken("openai").status_of(Class::RateLimited), 429);
  EXPECT_EQ(spoken("mistral").status_of(Class::QuotaExhausted), 402);
  EXPECT_EQ(spoken("cohere").status_of(Class::QuotaExhausted), 402);
  EXPECT_EQ(spoken("cohere").status_of(Class::ContentPolicy), 498);
  EXPECT_EQ(spoken("ollama").status_of(Class::Overloaded), 503);
  EXPECT_EQ(spoken("openai").status_of(Class::LocalBudget), 402);
  EXPECT_EQ(spoken("openai").status_of(Class::LocalDraining), 503);
  for (const Dialect* dialect : classifier::dialects()) {
    for (std::size_t i = 0; i < classifier::kClassNames.size(); ++i) {
      const auto cls = static_cast<Class>(i);
      const int status = dialect->status_of(cls);
      EXPECT_TRUE(cls == Class::None ? status == 200 : status >= 400 && status <= 599) << name_of(cls);
    }
    EXPECT_FALSE(dialect->request_id_header().empty());
  }
  EXPECT_EQ(spoken("anthropic").request_id_header(), "request-id");
  EXPECT_EQ(spoken("openai").request_id_header(), "x-request-id");
  EXPECT_EQ(spoken("mistral").request_id_header(), "x-kong-request-id");
  EXPECT_EQ(spoken("cohere").request_id_header(), "x-debug-trace-id");
}

}  // namespace dialect_test
