// Goal: a request for one model becomes the same request for another, wherever its dialect names it, and no other
// byte changes; what is broken is left alone. Method: tables, and seeded bodies compared with what nlohmann reads.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "classifier/dialect.h"
#include "classifier/json.h"
#include "tests/classifier/help.h"

namespace rename_test {

using classifier::Dialect;
using classifier_tests::padded;
using Json = nlohmann::json;

struct Asked {
  std::string path;
  std::string body;
  bool operator==(const Asked&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Asked& asked) { return out << asked.path << " " << asked.body; }

std::optional<Asked> renamed(std::string_view dialect, std::string_view path, std::string_view body,
                             std::string_view model) {
  const std::string bytes = padded(body);
  const auto change = classifier::find_dialect(dialect)->with_model(path, bytes, model);
  if (!change) return std::nullopt;
  return Asked{change->path, classifier::edited(bytes, change->body)};
}

std::string model_asked(std::string_view dialect, std::string_view path, std::string_view body) {
  const Dialect& d = *classifier::find_dialect(dialect);
  const std::string bytes = padded(body);
  return d.read_request(d.endpoint("POST", path), path, "", bytes).model;
}

constexpr std::string_view kChat = "/v1/chat/completions";

TEST(Rename, of_a_body_changes_its_top_level_models_alone) {
  const struct {
    std::string_view body;
    std::optional<std::string> want;
  } kCases[] = {
      {R"({"model":"gpt-5"})", R"({"model":"new"})"},
      {"\xEF\xBB\xBF\n{ \"a\" : 1 , \"model\" : \"gpt-5\" \n}\n",
       "\xEF\xBB\xBF\n{ \"a\" : 1 , \"model\" : \"new\" \n}\n"},
      {R"({"model":"a","model":"b","model":null,"model":"new"})",
       R"({"model":"new","model":"new","model":null,"model":"new"})"},
      {R"({"model":"a","metadata":{"model":"a"},"messages":[{"model":"a"}]})",
       R"({"model":"new","metadata":{"model":"a"},"messages":[{"model":"a"}]})"},
      {R"({"model":"q\"\\\u00e9 日本"})", R"({"model":"new"})"},
      {R"({"\u006dodel":"a"})", R"({"\u006dodel":"new"})"},
      // Of Google's bodies only.
      {R"({"requests":[{"model":"a"}]})", std::nullopt},
      {R"({"model":"models/a"})", R"({"model":"new"})"},
      // Nothing to change.
      {R"({"model":"new"})", std::nullopt},
      {R"({"model\u0041":"a","model\"":"a"})", std::nullopt},
      {R"({"model":null})", std::nullopt},
      {R"({"model":{"model":"a"}})", std::nullopt},
      {R"({"input_file_id":"f","endpoint":"/v1/chat/completions"})", std::nullopt},
      {"{}", std::nullopt},
      {"", std::nullopt},
      {"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nwhisper-1\r\n--b--\r\n", std::nullopt},
      // Broken, each in its own way.
      {R"({"model":"a")", std::nullopt},
      {R"({"model":"a"}})", std::nullopt},
      {R"({"model":"a"} {"model":"b"})", std::nullopt},
      {R"([{"model":"a"}])", std::nullopt},
      {R"({"model":"a",})", std::nullopt},
      {R"({"model":"a","x":[1,,2]})", std::nullopt},
      {R"({"model":"a","x":tru})", std::nullopt},
      {R"({"model":"a","x":01})", std::nullopt},
      {R"({"model":"a","x":[1}]})", std::nullopt},
      {R"({"model":"a\q"})", std::nullopt},
      {"{\"model\":\"a\",\"x\":\"\n\"}", std::nullopt},
      {"{\"model\":\"a\",\"x\":\"\xff\"}", std::nullopt},
  };
  for (const auto& c : kCases) {
    const auto got = renamed("openai", kChat, c.body, "new");
    const auto want = c.want ? std::optional{Asked{std::string{kChat}, *c.want}} : std::nullopt;
    EXPECT_EQ(got, want) << c.body;
  }
}

TEST(Rename, writes_any_name_as_json) {
  for (const std::string_view name : {"a\"b\\c", "line\nfeed\x01", "日本", "accounts/x/models/y:z@1"}) {
    const auto got = renamed("openai", kChat, R"({"model":"m","n":1})", name);
    ASSERT_TRUE(got);
    EXPECT_EQ(Json::parse(got->body), (Json{{"model", name}, {"n", 1}}));
  }
}

TEST(Rename, changes_the_path_where_that_names_the_model) {
  const struct {
    std::string_view dialect;
    std::string_view path;
    std::string_view body;
    std::string_view model;
    std::optional<Asked> want;
  } kCases[] = {
      {"gemini",
       "/v1beta/models/m-1:generateContent",
       R"({"contents":[]})",
       "m-2",
       Asked{"/v1beta/models/m-2:generateContent", R"({"contents":[]})"}},
      {"gemini",
       "/v1beta/models/m-1:streamGenerateContent",
       "broken",
       "models/m-2",
       Asked{"/v1beta/models/m-2:streamGenerateContent", "broken"}},
      {"gemini", "/v1beta/models/m-1:generateContent", "{}", "m-1", std::nullopt},
      // What the body repeats must agree with the path.
      {"gemini",
       "/v1beta/models/e:batchEmbedContents",
       R"({"requests":[{"model":"models/e","content":{"model":"models/e"}},{"model":"models/other"}]})",
       "e-eu",
       Asked{"/v1beta/models/e-eu:batchEmbedContents",
             R"({"requests":[{"model":"models/e-eu","content":{"model":"models/e"}},{"model":"models/other"}]})"}},
      {"gemini",
       "/v1beta/models/e:embedContent",
       R"({"model":"models/e"})",
       "e-eu",
       Asked{"/v1beta/models/e-eu:embedContent", R"({"model":"models/e-eu"})"}},
      {"gemini",
       "/v1beta/models/e:countTokens",
       R"({"generateContentRequest":{"model":"models/e"}})",
       "f",
       Asked{"/v1beta/models/f:countTokens", R"({"generateContentRequest":{"model":"models/f"}})"}},
      {"gemini",
       "/v1beta/openai/chat/completions",
       R"({"model":"models/e"})",
       "f",
       Asked{"/v1beta/openai/chat/completions", R"({"model":"models/f"})"}},
      // These are no models, whatever verb stands behind them.
      {"gemini", "/v1beta/corpora/c:query", "{}", "f", std::nullopt},
      {"gemini", "/v1beta/fileSearchStores/s:importFile", "{}", "f", std::nullopt},
      {"vertex",
       "/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
       "{}",
       "n",
       Asked{"/v1/projects/p/locations/l/publishers/google/models/n:generateContent", "{}"}},
      {"vertex",
       "/v1/publishers/anthropic/models/c@1:streamRawPredict",
       R"({"anthropic_version":"x"})",
       "c@2",
       Asked{"/v1/publishers/anthropic/models/c@2:streamRawPredict", R"({"anthropic_version":"x"})"}},
      {"vertex",
       "/v1/publishers/anthropic/models/count-tokens:rawPredict",
       R"({"model":"c"})",
       "d",
       Asked{"/v1/publishers/anthropic/models/count-tokens:rawPredict", R"({"model":"d"})"}},
      {"vertex",
       "/v1/publishers/mistralai/models/m:rawPredict",
       R"({"model":"m"})",
       "n",
       Asked{"/v1/publishers/mistralai/models/n:rawPredict", R"({"model":"n"})"}},
      {"vertex",
       "/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
       R"({"model":"google/g"})",
       "google/h",
       Asked{"/v1/projects/p/locations/l/endpoints/openapi/chat/completions", R"({"model":"google/h"})"}},
      {"bedrock",
       "/model/us.anthropic.c-v1%3A0/converse",
       "{}",
       "eu.anthropic.c-v1:0",
       Asked{"/model/eu.anthropic.c-v1%3A0/converse", "{}"}},
      {"bedrock",
       "/model/arn:aws:bedrock:r:1:p/x/invoke",
       R"({"model":"y"})",
       "arn:aws:bedrock:r:1:p/z",
       Asked{"/model/arn%3Aaws%3Abedrock%3Ar%3A1%3Ap%2Fz/invoke", R"({"model":"y"})"}},
      {"bedrock",
       "/openai/v1/chat/completions",
       R"({"model":"y"})",
       "z",
       Asked{"/openai/v1/chat/completions", R"({"model":"z"})"}},
      {"azure",
       "/openai/deployments/gpt%2D5/chat/completions",
       R"({"model":"gpt-5o"})",
       "gpt 5/eu",
       Asked{"/openai/deployments/gpt%205%2Feu/chat/completions", R"({"model":"gpt-5o"})"}},
      {"azure",
       "/openai/v1/chat/completions",
       R"({"model":"a"})",
       "b",
       Asked{"/openai/v1/chat/completions", R"({"model":"b"})"}},
      {"azure", "/openai/deployments/a/chat/completions", "{}", "..", std::nullopt},
      {"openai", "/v1/files", "{}", "b", std::nullopt},
      {"openai", kChat, R"({"model":"a"})", "", std::nullopt},
      {"anthropic", "/v1/messages", R"({"model":"a"})", "b", Asked{"/v1/messages", R"({"model":"b"})"}},
      {"cohere", "/v2/chat", R"({"model":"a"})", "b", Asked{"/v2/chat", R"({"model":"b"})"}},
      {"ollama", "/api/chat", R"({"model":"a:7b"})", "b:7b", Asked{"/api/chat", R"({"model":"b:7b"})"}},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(renamed(c.dialect, c.path, c.body, c.model), c.want) << c.dialect << " " << c.path << " " << c.body;
  }
}

TEST(Rename, is_what_the_request_then_says_and_can_be_undone) {
  const struct {
    std::string_view dialect;
    std::string_view front;
    std::string_view back;
  } kPaths[] = {
      {"gemini", "/v1beta/models/", ":generateContent"},
      {"vertex", "/v1/projects/p/locations/l/publishers/google/models/", ":streamGenerateContent"},
      {"bedrock", "/model/", "/invoke-with-response-stream"},
      {"azure", "/openai/deployments/", "/embeddings"},
  };
  for (unsigned seed = 0; seed < 2'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 chance{seed};
    std::string name;
    for (auto i = chance() % 20 + 1; i > 0; --i) name += static_cast<char>('!' + chance() % ('~' - '!' + 1));
    if (name == "." || name == ".." || name == "gpt-5") continue;
    for (const auto& row : kPaths) {
      const std::string path = std::string{row.front} + "gpt-5" + std::string{row.back};
      const auto there = renamed(row.dialect, path, "{}", name);
      ASSERT_TRUE(there) << row.dialect << " " << name;
      EXPECT_EQ(model_asked(row.dialect, there->path, "{}"), name) << there->path;
      EXPECT_EQ(renamed(row.dialect, there->path, "{}", "gpt-5"), (Asked{path, "{}"})) << name;
    }
    const auto body = renamed("openai", kChat, R"({"model":"gpt-5"})", name);
    ASSERT_TRUE(body);
    EXPECT_EQ(model_asked("openai", kChat, body->body), name);
  }
}

/// A body as some client may write it: any order, any spacing, models at every depth. `body` notes where its own
/// stand.
struct Writer {
  std::mt19937 chance;
  std::vector<std::pair<std::size_t, std::size_t>> models{};  // Offset and length of each top-level value.

  std::string space() {
    constexpr std::string_view kSpaces[] = {"", "", " ", "\n  ", "\t", "\r\n"};
    return std::string{kSpaces[chance() % std::size(kSpaces)]};
  }
  std::string value(unsigned depth) {
    constexpr std::string_view kScalars[] = {"null",
                                             "true",
                                             "false",
                                             "0",
                                             "-1.5e3",
                                             "\"\"",
                                             "{}",
                                             "\"model\":",
                                             "\"\\\\\"",
                                             "[]",
                                             "1E-2",
                                             "\"日本\"",
                                             "\"\\u00e9\\n\"",
                                             "\"a\\\"{}[]\"",
                                             "\"model\""};
    std::string_view scalar = kScalars[chance() % std::size(kScalars)];
    if (scalar.ends_with(":")) scalar.remove_suffix(1);
    const auto kind = depth == 0 ? 9 : chance() % 4;
    if (kind == 0) return "[" + space() + value(depth - 1) + space() + "," + value(depth - 1) + "]";
    if (kind != 1) return std::string{scalar};
    return "{" + space() + "\"model\"" + space() + ":" + value(depth - 1) + space() + ",\"x\":" + value(depth - 1) +
           "}";
  }
  std::string body() {
    constexpr std::string_view kModels[] = {"\"m\"", "\"gpt-5\"", "\"a\\\"b\"", "\"\\u00e9\"", "\"\""};
    std::string out = space() + "{" + space();
    const auto members = chance() % 6 + 1;
    for (std::size_t i = 0; i < members; ++i) {
      if (i > 0) out += "," + space();
      if (chance() % 3 == 0) {
        out += "\"model\"" + space() + ":" + space();
        const std::string_view model = kModels[chance() % std::size(kModels)];
        models.emplace_back(out.size(), model.size());
        out += model;
      } else {
        out += "\"" + std::string(1, static_cast<char>('a' + chance() % 26)) + "\":" + space() + value(3);
      }
      out += space();
    }
    return out + "}" + space();
  }
};

TEST(Rename, touches_no_other_byte_whatever_the_body) {
  int changed = 0;
  for (unsigned seed = 0; seed < 5'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Writer writer{std::mt19937{seed}};
    const std::string body = writer.body();
    ASSERT_TRUE(Json::accept(body)) << body;
    EXPECT_TRUE(classifier::well_formed(body)) << body;
    std::string want = body;
    for (auto at = writer.models.rbegin(); at != writer.models.rend(); ++at)
      want.replace(at->first, at->second, "\"gpt-5-eu\"");
    const auto got = renamed("openai", kChat, body, "gpt-5-eu");
    ASSERT_EQ(got.has_value(), !writer.models.empty()) << body;
    if (!got) continue;
    ++changed;
    EXPECT_EQ(got->body, want) << body;
  }
  EXPECT_GT(changed, 2'000);
}

TEST(Rename, never_edits_a_broken_body) {
  constexpr std::string_view kBytes = "{}[]:,\"\\ 0-.eEtn\n\xff\x01u";
  int broken = 0;
  int whole = 0;
  for (unsigned seed = 0; seed < 30'000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Writer writer{std::mt19937{seed}};
    std::string body = writer.body();
    std::mt19937& chance = writer.chance;
    for (auto i = chance() % 3 + 1; i > 0 && !body.empty(); --i) {
      const std::size_t at = chance() % body.size();
      const char byte = kBytes[chance() % kBytes.size()];
      switch (chance() % 4) {
        case 0:
          body[at] = byte;
          break;
        case 1:
          body.insert(at, 1, byte);
          break;
        case 2:
          body.erase(at, 1 + chance() % 3);
          break;
        default:
          body.resize(at);
      }
    }
    const bool accepted = Json::accept(body);
    const bool well = classifier::well_formed(body) && classifier::utf8_whole(body);
    // nlohmann also looks at what escapes mean: half a pair of surrogates is no character to it.
    if (body.find("\\u") == std::string::npos) {
      EXPECT_EQ(well, accepted) << body;
    }
    ++(well ? whole : broken);
    const auto got = renamed("openai", kChat, body, "gpt-5-eu");
    if (!well) {
      EXPECT_FALSE(got) << body;
    }
    if (got) {
      EXPECT_TRUE(classifier::well_formed(got->body)) << body << "\n" << got->body;
    }
  }
  EXPECT_GT(broken, 10'000);
  EXPECT_GT(whole, 1'000);
}

}  // namespace rename_test
