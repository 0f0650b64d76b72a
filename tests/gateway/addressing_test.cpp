#include "gateway/addressing.h"

#include <gtest/gtest.h>

#include "gateway/call_id.h"

namespace gateway {
namespace addressing_test {

std::shared_ptr<const Route> route_to(std::shared_ptr<const Target> target) {
  auto route = std::make_shared<Route>();
  route->name = target->config.name;
  route->steps.push_back({.to = std::move(target), .weight = {}, .models = {}});
  return route;
}

Directory directory() {
  Directory directory;
  for (const char* name : {"openai", "anthropic", "gemini", "cohere", "ollama"}) {
    auto target = std::make_shared<Target>();
    target->config.name = name;
    target->dialect = classifier::find_dialect(name);
    directory.routes[name] = route_to(target);
    directory.default_upstream[name] = name;
  }
  auto eu = std::make_shared<Target>(directory.routes["openai"]->first());
  eu->config.name = "openai-eu";
  directory.routes["openai-eu"] = route_to(eu);
  return directory;
}

TEST(Addressing, finds_the_upstream_by_the_paths_first_part) {
  const Directory all = directory();
  struct Case {
    const char* target;
    const char* upstream;
    const char* sent;
  };
  const Case cases[] = {
      {"/openai/v1/chat/completions", "openai", "/v1/chat/completions"},
      {"/openai-eu/v1/models?limit=2", "openai-eu", "/v1/models?limit=2"},
      {"/openai", "openai", "/"},
      {"/openai?x=1", "openai", "/?x=1"},
      {"/openai//evil.example/v1", "openai", "//evil.example/v1"},
      {"/gemini/v1beta/models/g:streamGenerateContent?alt=sse",
       "gemini",
       "/v1beta/models/g:streamGenerateContent?alt=sse"},
      {"/openai/v1/files/a%2Fb", "openai", "/v1/files/a%2Fb"},
      {"/v1/chat/completions", "openai", "/v1/chat/completions"},
      {"/v1/messages", "anthropic", "/v1/messages"},
      {"/v1beta/models/g:generateContent", "gemini", "/v1beta/models/g:generateContent"},
      {"/v2/chat", "cohere", "/v2/chat"},
      {"/api/chat", "ollama", "/api/chat"},
      {"/ollama/v1/chat/completions", "ollama", "/v1/chat/completions"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.target);
    const auto found = address(all, c.target, {});
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(found->route->first().config.name, c.upstream);
    EXPECT_EQ(found->target, c.sent);
  }
}

Directory with(const std::string& name, const char* url, bool complete) {
  Directory all = directory();
  auto target = std::make_shared<Target>();
  target->config.name = name;
  target->config.url = url;
  target->dialect = classifier::find_dialect("openai");
  target->url_is_complete = complete;
  all.routes[name] = route_to(target);
  return all;
}

TEST(Addressing, forgives_a_version_that_is_missing_or_there_twice) {
  const Directory all = directory();
  struct Case {
    const char* target;
    const char* upstream;
    const char* sent;
  };
  const Case cases[] = {
      {"/openai/chat/completions", "openai", "/v1/chat/completions"},
      {"/openai/v1/v1/chat/completions", "openai", "/v1/chat/completions"},
      {"/openai/files/f-1/content", "openai", "/v1/files/f-1/content"},
      {"/openai/v1/v1/nobody/knows?x=1", "openai", "/v1/nobody/knows?x=1"},
      {"/openai/nobody/knows", "openai", "/nobody/knows"},
      {"/openai/v1//chat/completions", "openai", "/v1/chat/completions"},
      {"/openai//v1/chat/completions", "openai", "/v1/chat/completions"},
      {"/openai/%761/ch%61t/completions", "openai", "/v1/chat/completions"},
      {"/openai/v1/files//a%2Fb", "openai", "/v1/files//a%2Fb"},
      {"/openai//nobody//knows%41", "openai", "//nobody//knows%41"},
      {"/openai/modelsx", "openai", "/modelsx"},
      {"/chat/completions", "openai", "/v1/chat/completions"},
      {"/responses", "openai", "/v1/responses"},
      {"/v1/responses/r-1?x=1", "openai", "/v1/responses/r-1?x=1"},
      {"/v1/audio/transcriptions", "openai", "/v1/audio/transcriptions"},
      {"/messages", "anthropic", "/v1/messages"},
      {"/v1/v1/messages", "anthropic", "/v1/messages"},
      {"/anthropic/messages/count_tokens", "anthropic", "/v1/messages/count_tokens"},
      {"/anthropic/v1/messages/batches/b-1", "anthropic", "/v1/messages/batches/b-1"},
      {"/gemini/models/g:generateContent", "gemini", "/v1beta/models/g:generateContent"},
      {"/models/g:streamGenerateContent?alt=sse", "gemini", "/v1beta/models/g:streamGenerateContent?alt=sse"},
      {"/v1/models/g:generateContent", "gemini", "/v1/models/g:generateContent"},
      {"/v1beta/models", "gemini", "/v1beta/models"},
      {"/v1beta/openai/chat/completions", "gemini", "/v1beta/openai/chat/completions"},
      {"/upload/v1beta/files", "gemini", "/upload/v1beta/files"},
      {"/cohere/chat", "cohere", "/v2/chat"},
      {"/cohere/v1/chat", "cohere", "/v1/chat"},
      {"/v1/rerank", "cohere", "/v1/rerank"},
      {"/cohere/v2/v2/embed", "cohere", "/v2/embed"},
      // Fronts that stand beside the versions forgive the same.
      {"/cohere/v1/v1/chat", "cohere", "/v1/chat"},
      {"/cohere/v2/v1/chat", "cohere", "/v1/chat"},
      {"/ollama/v1/api/chat", "ollama", "/api/chat"},
      {"/ollama/api/api/chat", "ollama", "/api/chat"},
      {"/gemini/v1beta/upload/v1beta/files", "gemini", "/upload/v1beta/files"},
      {"/api/generate", "ollama", "/api/generate"},
      {"/api/tags", "ollama", "/api/tags"},
      {"/ollama/chat/completions", "ollama", "/v1/chat/completions"},
      {"/gemini/upload/v1beta/files?upload_id=1", "gemini", "/upload/v1beta/files?upload_id=1"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.target);
    const auto found = address(all, c.target, {});
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(found->route->first().config.name, c.upstream);
    EXPECT_EQ(found->target, c.sent);
  }
}

TEST(Addressing, knows_the_path_of_the_upstreams_own_url) {
  struct Case {
    const char* url;
    bool complete;
    const char* asked;
    const char* sent;  // Below the URL.
  };
  const Case cases[] = {
      // groq's own SDK has "/openai" in its paths, and so has the built-in URL.
      {"https://api.groq.com/openai", false, "/openai/v1/chat/completions", "/v1/chat/completions"},
      {"https://api.groq.com/openai", false, "/v1/chat/completions", "/v1/chat/completions"},
      {"https://api.groq.com/openai", false, "/chat/completions", "/v1/chat/completions"},
      {"https://api.groq.com/openai", false, "/openaix/v1", "/openaix/v1"},
      // Whoever writes the version into the URL means well.
      {"https://one.example/v1", true, "/v1/chat/completions", "/chat/completions"},
      {"https://one.example/v1", true, "/chat/completions", "/chat/completions"},
      {"https://one.example/v1", true, "/v1/nobody/knows", "/nobody/knows"},
      {"https://one.example/api/paas/v4", true, "/v1/chat/completions", "/chat/completions"},
      {"https://one.example/api/paas/v4", true, "/v1/nobody/knows", "/nobody/knows"},
      {"https://one.example/api/paas/v4", true, "/v4/chat/completions", "/chat/completions"},
      {"https://one.example/api/paas/v4", true, "/api/paas/v4/chat/completions", "/chat/completions"},
      // No version anywhere: so it is.
      {"https://one.example/inference", true, "/chat/completions", "/chat/completions"},
      {"https://one.example/inference", true, "/v1/chat/completions", "/v1/chat/completions"},
      {"https://one.example", false, "/chat/completions", "/v1/chat/completions"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string{c.url} + " " + c.asked);
    const auto found = address(with("x", c.url, c.complete), std::string{"/x"} + c.asked, {});
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(found->target, c.sent);
  }
}

TEST(Addressing, tells_apis_with_the_same_path_apart_by_the_kind_of_key) {
  const Directory all = directory();
  using classifier::Headers;
  const std::pair<Headers, const char*> cases[] = {
      {{{"Authorization", "Bearer k"}}, "openai"},
      {{{"x-api-key", "k"}, {"anthropic-version", "2023-06-01"}}, "anthropic"},
      {{{"X-Api-Key", "k"}}, "anthropic"},
      {{{"authorization", "Bearer k"}, {"anthropic-version", "2026-10-21"}}, "anthropic"},
      {{{"x-goog-api-key", "k"}}, "gemini"},
  };
  for (const auto& [headers, upstream] : cases) {
    SCOPED_TRACE(headers.front().name);
    for (const char* target : {"/v1/models", "/models", "/v1/models/m-1", "/v1/files"}) {
      const auto found = address(all, target, headers);
      if (std::string_view{target} == "/v1/files" && std::string_view{upstream} == "gemini") continue;
      ASSERT_TRUE(found.has_value()) << target << ": " << found.error().message;
      EXPECT_EQ(found->route->first().config.name, upstream) << target;
    }
  }
  const auto by_query = address(all, "/v1/models?pageSize=1&key=k", {});
  ASSERT_TRUE(by_query.has_value());
  EXPECT_EQ(by_query->route->first().config.name, "gemini");

  const auto unknown = address(all, "/v1/models", {});
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().status, 404);
  EXPECT_FALSE(address(all, "/v1/nobody", {{"Authorization", "Bearer k"}}).has_value());
  EXPECT_NE(unknown.error().message.find("/anthropic/"), std::string::npos) << "names the prefixes";
}

TEST(Addressing, refuses_what_it_does_not_know_or_what_two_might_read_differently) {
  const Directory all = directory();
  const std::pair<const char*, int> cases[] = {{"/unknown/v1/chat", 404},
                                               {"/", 404},
                                               {"/callgate/v1/runs", 404},
                                               {"", 400},
                                               {"*", 400},
                                               {"/openai/../anthropic/v1/messages", 400},
                                               {"/openai/%2e%2e/x", 400},
                                               {"/openai/.%2E/x", 400},
                                               {"/openai/./x", 400},
                                               {"/openai/v1/..%2fx", 400},
                                               {"/openai/v1/x%2F%2e%2E%2fy", 400},
                                               {"/openai/v1/%5c..%5Cy", 400},
                                               {"/openai/v1/chat#x", 400},
                                               {"/openai/v1\\..\\x", 400},
                                               {"/openai/a b", 400},
                                               {"/openai/\x7f", 400},
                                               {"/openai/v1/..", 400}};
  for (const auto& [target, status] : cases) {
    SCOPED_TRACE(target);
    const auto found = address(all, target, {});
    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().status, status);
    EXPECT_FALSE(found.error().message.empty());
  }
  EXPECT_NE(address(all, "/unknown/x", {}).error().message.find("/openai/"), std::string::npos)
      << "names what there is";
}

TEST(Addressing, says_errors_in_the_words_of_the_dialect_that_was_meant) {
  const Directory all = directory();
  EXPECT_EQ(dialect_for(all, "/anthropic/v1/nonsense").name(), "anthropic");
  EXPECT_EQ(dialect_for(all, "/v1/messages").name(), "anthropic");
  EXPECT_EQ(dialect_for(all, "/messages").name(), "anthropic");
  EXPECT_EQ(dialect_for(all, "/v1beta/models/g").name(), "gemini");
  EXPECT_EQ(dialect_for(all, "").name(), "openai");
}

TEST(CallId, is_a_uuid_of_version_7_that_sorts_by_time) {
  const WallTime now{std::chrono::milliseconds{0x0123456789AB}};
  EXPECT_EQ(new_call_id(now, 0xFFFFFFFFFFFFFFFF, 0), "01234567-89ab-7fff-8000-000000000000");
  EXPECT_EQ(new_call_id(now, 0, 0xFFFFFFFFFFFFFFFF), "01234567-89ab-7000-bfff-ffffffffffff");
  EXPECT_LT(new_call_id(now, ~0ULL, ~0ULL), new_call_id(now + std::chrono::milliseconds{1}, 0, 0));
}

}  // namespace addressing_test
}  // namespace gateway
