// Goal: of a request's body the few members that matter are read, whatever else stands there; and the one splice that
// asks for usage changes nothing else. Method: tables, and seeded bodies compared with what nlohmann reads.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/dialect.h"
#include "tests/classifier/help.h"

namespace request_test {

using classifier::Dialect;
using classifier::Edit;
using classifier::Endpoint;
using classifier::RequestFacts;
using classifier_tests::padded;
using Json = nlohmann::json;

const Dialect& spoken(std::string_view name) { return *classifier::find_dialect(name); }

RequestFacts facts_of(std::string_view dialect, std::string_view path, std::string_view body,
                      std::string_view query = "") {
  const Dialect& d = spoken(dialect);
  const std::string bytes = padded(body);
  return d.read_request(d.endpoint("POST", path), path, query, bytes);
}

std::string shown(const RequestFacts& facts) {
  std::string out = facts.model.empty() ? "-" : facts.model;
  out += facts.stream ? " stream" : " unary";
  out += facts.max_output_tokens ? " " + std::to_string(*facts.max_output_tokens) : " -";
  out += facts.usage_asked ? " usage" : " no-usage";
  out += facts.unreadable ? " unreadable" : "";
  return out;
}

TEST(ReadRequest, takes_what_it_needs_and_passes_over_the_rest) {
  const struct {
    std::string_view dialect;
    std::string_view path;
    std::string_view body;
    std::string_view want;
  } kCases[] = {
      {"openai",
       "/v1/chat/completions",
       R"({"model":"gpt-5","messages":[{"role":"user","content":"hi"}]})",
       "gpt-5 unary - usage"},
      {"openai", "/v1/chat/completions", R"({"model":"gpt-5","stream":true})", "gpt-5 stream - no-usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"stream":true,"model":"gpt-5","stream_options":{"include_usage":true}})",
       "gpt-5 stream - usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"stream":true,"model":"gpt-5","stream_options":{"include_usage":false}})",
       "gpt-5 stream - no-usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"stream":true,"model":"gpt-5","stream_options":null})",
       "gpt-5 stream - no-usage"},
      {"openai", "/v1/completions", R"({"stream":true,"model":"babbage-002"})", "babbage-002 stream - no-usage"},
      {"openai",
       "/v1/responses",
       R"({"stream":true,"model":"gpt-5","max_output_tokens":500})",
       "gpt-5 stream 500 usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"model":"m","max_tokens":5,"max_completion_tokens":7})",
       "m unary 7 usage"},
      {"openai", "/v1/chat/completions", R"({"model":"m","max_tokens":100,"n":3})", "m unary 300 usage"},
      {"openai", "/v1/chat/completions", R"({"model":"m","max_tokens":"100","stream":"true"})", "m unary 100 usage"},
      {"openai", "/v1/chat/completions", R"({"model":"m","max_tokens":5,"n":"3"})", "m unary 15 usage"},
      {"openai", "/v1/chat/completions", R"({"model":"m","max_tokens":9,"max_output_tokens":1})", "m unary 9 usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"max_tokens":9,"options":{"num_predict":1},"generationConfig":{"maxOutputTokens":1},"model":"m"})",
       "m unary 9 usage"},
      {"openai", "/v1/completions", R"({"model":"m","max_tokens":5,"prompt":["a","b","c"]})", "m unary 15 usage"},
      {"openai",
       "/v1/completions",
       R"({"model":"m","max_tokens":5,"prompt":[[1],[2]],"n":2,"best_of":4})",
       "m unary 40 usage"},
      {"openai", "/v1/completions", R"({"model":"m","max_tokens":5,"prompt":[1,2,3]})", "m unary 5 usage"},
      {"openai", "/v1/completions", R"({"model":"m","max_tokens":5,"prompt":"a"})", "m unary 5 usage"},
      {"openai", "/v1/chat/completions", R"({"model":"m","max_tokens":-1})", "m unary - usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"model":"m","max_tokens":9223372036854775807,"n":9223372036854775807})",
       "m unary 9007199254740992 usage"},
      {"openai", "/v1/chat/completions", R"({"model":"m","max_tokens":1e400})", "m unary 9007199254740992 usage"},
      {"openai",
       "/v1/chat/completions",
       "{\n  \"messages\": [{\"model\": \"decoy\", \"stream\": true, \"content\": \"{\\\"model\\\": "
       "\\\"x\\\"}\"}],\n  \"model\": \"real\",\n  \"stream\": false\n}\n",
       "real unary - usage"},
      {"openai",
       "/v1/chat/completions",
       R"({"model":"first","stream":true,"stream":false,"model":"last"})",
       "last unary - usage"},
      {"openai", "/v1/chat/completions", "\xEF\xBB\xBF{\"model\":\"m\"}", "m unary - usage"},
      {"openai", "/v1/chat/completions", R"({"model":7})", "- unary - usage"},
      {"openai", "/v1/chat/completions", "", "- unary - usage"},
      {"openai", "/v1/chat/completions", "{", "- unary - usage unreadable"},
      {"openai", "/v1/chat/completions", R"({"model":"m")", "- unary - usage unreadable"},
      {"openai", "/v1/chat/completions", R"(["model"])", "- unary - usage unreadable"},
      {"openai", "/v1/chat/completions", "model=gpt-5", "- unary - usage unreadable"},
      {"openai",
       "/v1/audio/transcriptions",
       "--boundary\r\nContent-Disposition: form-data",
       "- unary - usage unreadable"},
      {"anthropic",
       "/v1/messages",
       R"({"model":"claude-sonnet-5","max_tokens":64,"stream":true})",
       "claude-sonnet-5 stream 64 usage"},
      {"gemini",
       "/v1beta/models/gemini-2.5-pro:generateContent",
       R"({"contents":[],"generationConfig":{"maxOutputTokens":256,"candidateCount":2}})",
       "gemini-2.5-pro unary 512 usage"},
      {"gemini",
       "/v1beta/models/gemini-2.5-pro:generateContent",
       R"({"generation_config":{"max_output_tokens":9}})",
       "gemini-2.5-pro unary 9 usage"},
      {"gemini",
       "/v1beta/models/gemini-embedding-001:embedContent",
       R"({"model":"models/gemini-embedding-001"})",
       "gemini-embedding-001 unary - usage"},
      {"gemini",
       "/v1beta/openai/chat/completions",
       R"({"model":"gemini-2.5-pro","stream":true})",
       "gemini-2.5-pro stream - no-usage"},
      {"mistral",
       "/v1/chat/completions",
       R"({"model":"mistral-small","stream":true})",
       "mistral-small stream - usage"},
      {"cohere", "/v2/chat", R"({"model":"command-a","stream":true,"max_tokens":9})", "command-a stream 9 usage"},
      {"cohere", "/v2/chat", R"({"model":"command-a"})", "command-a unary - usage"},
      {"cohere", "/compatibility/v1/chat/completions", R"({"stream":true})", "- stream - no-usage"},
      {"ollama", "/api/chat", R"({"model":"llama3","options":{"num_predict":50}})", "llama3 stream 50 usage"},
      {"ollama", "/api/chat", R"({"model":"llama3","options":{"num_predict":-1}})", "llama3 stream - usage"},
      {"ollama", "/api/chat", R"({"model":"llama3","stream":false})", "llama3 unary - usage"},
      {"ollama", "/api/generate", R"({"model":"llama3","stream":null})", "llama3 stream - usage"},
      {"ollama", "/api/embed", R"({"model":"llama3"})", "llama3 unary - usage"},
      {"ollama", "/v1/chat/completions", R"({"model":"llama3"})", "llama3 unary - usage"},
      {"ollama", "/v1/chat/completions", R"({"stream":true})", "- stream - no-usage"},
  };
  for (const auto& c : kCases) {
    const std::string got = shown(facts_of(c.dialect, c.path, c.body));
    // Of an unreadable body only that is said.
    const bool unreadable = c.want.ends_with("unreadable");
    EXPECT_TRUE(unreadable ? got.ends_with("unreadable") : got == c.want) << c.body << "\n" << got << "\n" << c.want;
  }
}

TEST(ReadRequest, a_gemini_stream_is_one_by_path_and_query) {
  const std::string_view path = "/v1beta/models/gemini-2.5-pro:streamGenerateContent";
  EXPECT_TRUE(facts_of("gemini", path, "{}", "alt=sse").stream);
  EXPECT_TRUE(facts_of("gemini", path, "{}", "key=x&alt=sse").stream);
  EXPECT_FALSE(facts_of("gemini", path, "{}", "alt=json").stream) << "one array of chunks is no event stream";
  EXPECT_FALSE(
      facts_of("gemini", "/v1beta/models/gemini-2.5-pro:generateContent", R"({"stream":true})", "alt=sse").stream);
}

TEST(ReadRequest, a_model_name_is_bounded) {
  const std::string body = R"({"model":")" + std::string(1'000, 'm') + R"("})";
  EXPECT_EQ(facts_of("openai", "/v1/chat/completions", body).model, std::string(128, 'm'));
}

TEST(ReadRequest, junk_is_unreadable_or_read_but_never_breaks) {
  constexpr std::string_view kBits[] = {"{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"model\"",
                                        ":",
                                        ",",
                                        "\"stream\"",
                                        "true",
                                        "null",
                                        "\"stream_options\"",
                                        "1e999",
                                        "\"\\u00",
                                        "\xff",
                                        "\"include_usage\"",
                                        "-0",
                                        "\\",
                                        " "};
  for (unsigned seed = 0; seed < 5'000; ++seed) {
    std::mt19937 chance{seed};
    std::string junk = "{";
    for (auto i = chance() % 30; i > 0; --i) junk += kBits[chance() % std::size(kBits)];
    const std::string body = padded(junk);
    const Dialect& openai = spoken("openai");
    const Endpoint chat = openai.endpoint("POST", "/v1/chat/completions");
    (void)openai.read_request(chat, "", "", body);
    if (const auto edit = openai.ask_for_usage(chat, body)) {
      ASSERT_LE(edit->offset + edit->length, body.size()) << "seed " << seed;
    }
  }
}

std::string edited(std::string body, const Edit& edit) { return body.replace(edit.offset, edit.length, edit.text); }

std::optional<std::string> asked(std::string_view body, std::string_view dialect = "openai",
                                 std::string_view path = "/v1/chat/completions") {
  const Dialect& d = spoken(dialect);
  const std::string bytes = padded(body);
  const auto edit = d.ask_for_usage(d.endpoint("POST", path), bytes);
  if (!edit) return std::nullopt;
  return edited(bytes, *edit);
}

TEST(AskForUsage, splices_one_member_and_leaves_all_other_bytes) {
  const struct {
    std::string_view body;
    std::optional<std::string> want;
  } kCases[] = {
      {R"({"model":"m","stream":true})", R"({"stream_options":{"include_usage":true},"model":"m","stream":true})"},
      {"\n{ \"stream\" : true }\n", "\n{\"stream_options\":{\"include_usage\":true}, \"stream\" : true }\n"},
      {"\xEF\xBB\xBF{\"stream\":true}", "\xEF\xBB\xBF{\"stream_options\":{\"include_usage\":true},\"stream\":true}"},
      {R"({"stream":true,"stream_options":{}})", R"({"stream":true,"stream_options":{"include_usage":true}})"},
      {R"({"stream":true,"stream_options": { } })", R"({"stream":true,"stream_options": {"include_usage":true } })"},
      {R"({"stream_options":{"include_obfuscation":false},"stream":true})",
       R"({"stream_options":{"include_usage":true,"include_obfuscation":false},"stream":true})"},
      {R"({"stream":true,"stream_options":{"include_usage":false}})",
       R"({"stream":true,"stream_options":{"include_usage":true}})"},
      {R"({"stream":true,"stream_options":{"include_usage": null , "x":1}})",
       R"({"stream":true,"stream_options":{"include_usage": true , "x":1}})"},
      {"{\"stream\":true,\"stream_options\":null\n}",
       "{\"stream\":true,\"stream_options\":{\"include_usage\":true}\n}"},
      {R"({"stream":true,"stream_options":{"include_usage":false},"stream_options":null})",
       R"({"stream":true,"stream_options":{"include_usage":false},"stream_options":{"include_usage":true}})"},
      {R"({"messages":[{"stream_options":{"include_usage":true},"stream":false}],"stream":true})",
       R"({"stream_options":{"include_usage":true},"messages":[{"stream_options":{"include_usage":true},"stream":false}],"stream":true})"},
      // There already, no stream, or such that the provider will say what is wrong.
      {R"({"stream":true,"stream_options":{"include_usage":true}})", std::nullopt},
      {R"({"stream":false})", std::nullopt},
      {R"({"stream":true,"stream":false})", std::nullopt},
      {R"({"messages":[{"stream":true}]})", std::nullopt},
      {R"({"stream":true,"stream_options":"yes"})", std::nullopt},
      {R"({"stream":true,"stream_options":{"include_usage":"yes"}})", std::nullopt},
      {R"({"stream":true,"stream_options":{"include_usage":{}}})", std::nullopt},
      {R"({"stream":true)", std::nullopt},
      {"{\"stream\":true,\"user\":\"\xff\"}", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& c : kCases) EXPECT_EQ(asked(c.body), c.want) << c.body;
}

TEST(AskForUsage, only_where_usage_must_be_asked_for) {
  const std::string_view body = R"({"stream":true})";
  EXPECT_TRUE(asked(body, "openai", "/v1/completions"));
  EXPECT_FALSE(asked(body, "openai", "/v1/responses"));
  EXPECT_FALSE(asked(body, "openai", "/v1/embeddings"));
  EXPECT_FALSE(asked(body, "anthropic", "/v1/messages"));
  EXPECT_FALSE(asked(body, "gemini", "/v1beta/models/m:streamGenerateContent"));
  EXPECT_TRUE(asked(body, "ollama", "/v1/chat/completions"));
  for (const auto& [dialect, path] :
       {std::pair{"mistral", "/v1/chat/completions"}, {"cohere", "/v2/chat"}, {"ollama", "/api/chat"}}) {
    EXPECT_FALSE(asked(body, dialect, path)) << dialect << " tells it unasked, and may refuse what it does not know";
  }
}

/// A body as some client may write it: any order, any spacing, decoys at depth.
struct Writer {
  std::mt19937 chance;

  std::string space() {
    constexpr std::string_view kSpaces[] = {"", "", " ", "\n  ", "\t", "\r\n"};
    return std::string{kSpaces[chance() % std::size(kSpaces)]};
  }
  std::string scalar() {
    constexpr std::string_view kScalars[] = {"null",
                                             "true",
                                             "false",
                                             "0",
                                             "-1.5e3",
                                             "\"\"",
                                             "\"stream_options\"",
                                             "\"a\\\"{}[]\"",
                                             "\"\\u00e9\\ud83d\\ude00\"",
                                             "\"日本\"",
                                             "{}",
                                             "[]"};
    return std::string{kScalars[chance() % std::size(kScalars)]};
  }
  std::string value(int depth) {
    if (depth == 0) return scalar();
    switch (chance() % 4) {
      case 0:
        return object(depth - 1, {"stream_options", "include_usage", "stream", "content"});
      case 1:
        return "[" + space() + value(depth - 1) + space() + "," + value(depth - 1) + "]";
      default:
        return scalar();
    }
  }
  std::string object(int depth, std::vector<std::string> keys) {
    std::ranges::shuffle(keys, chance);
    keys.resize(chance() % (keys.size() + 1));
    std::string out = "{" + space();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      out += (i > 0 ? "," + space() : "") + "\"" + keys[i] + "\"" + space() + ":" + space() + value(depth) + space();
    }
    return out + "}";
  }
  std::string body() {
    std::string options =
        "{" + space() +
        (chance() % 2 == 0 ? "\"include_usage\":" + space() + (chance() % 2 == 0 ? "false" : "null") : "");
    if (chance() % 2 == 0)
      options += std::string{options.size() > 20 ? "," : ""} + space() + "\"include_obfuscation\":false";
    if (options.find("include_usage") == std::string::npos && options.ends_with(",")) options.pop_back();
    options += space() + "}";
    std::vector<std::string> members = {
        "\"stream\":" + space() + "true", "\"messages\":" + value(4), "\"model\":\"m\"", "\"tools\":" + value(3)};
    if (chance() % 3 != 0)
      members.push_back("\"stream_options\":" + space() + (chance() % 4 == 0 ? "null" : options));
    std::ranges::shuffle(members, chance);
    std::string out = space() + "{" + space();
    for (std::size_t i = 0; i < members.size(); ++i) out += (i > 0 ? "," + space() : "") + members[i] + space();
    return out + "}" + space();
  }
};

TEST(AskForUsage, means_the_same_otherwise_whatever_the_body) {
  int bodies = 0;
  for (unsigned seed = 0; seed < 4'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Writer writer{std::mt19937{seed}};
    const std::string body = writer.body();
    Json want = Json::parse(body, nullptr, false);
    if (want.is_discarded()) continue;
    ++bodies;
    const auto got = asked(body);
    ASSERT_TRUE(got) << body;
    if (!want.contains("stream_options") || want["stream_options"].is_null()) want["stream_options"] = Json::object();
    want["stream_options"]["include_usage"] = true;
    ASSERT_EQ(Json::parse(*got), want) << body << "\n" << *got;
    EXPECT_TRUE(facts_of("openai", "/v1/chat/completions", *got).usage_asked);
  }
  EXPECT_GT(bodies, 3'000);
}

}  // namespace request_test
