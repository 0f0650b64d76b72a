#include "gateway/addressing.h"

#include <gtest/gtest.h>

#include "gateway/call_id.h"

namespace gateway {
namespace {

Directory directory() {
  Directory directory;
  for (const char* name : {"openai", "anthropic", "gemini", "cohere", "ollama"}) {
    auto target = std::make_shared<Target>();
    target->config.name = name;
    target->dialect = classifier::find_dialect(name);
    directory.upstreams[name] = target;
    directory.default_upstream[name] = name;
  }
  auto eu = std::make_shared<Target>(*directory.upstreams["openai"]);
  eu->config.name = "openai-eu";
  directory.upstreams["openai-eu"] = eu;
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
    const auto found = address(all, "POST", c.target);
    ASSERT_TRUE(found.has_value()) << found.error().message;
    EXPECT_EQ(found->to->config.name, c.upstream);
    EXPECT_EQ(found->target, c.sent);
  }
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
                                               {"/openai/v1/chat#x", 400},
                                               {"/openai/v1\\..\\x", 400},
                                               {"/openai/a b", 400},
                                               {"/openai/\x7f", 400},
                                               {"/openai/v1/..", 400}};
  for (const auto& [target, status] : cases) {
    SCOPED_TRACE(target);
    const auto found = address(all, "POST", target);
    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().status, status);
    EXPECT_FALSE(found.error().message.empty());
  }
  EXPECT_NE(address(all, "POST", "/unknown/x").error().message.find("/openai/"), std::string::npos)
      << "names what there is";
}

TEST(Addressing, says_errors_in_the_words_of_the_dialect_that_was_meant) {
  const Directory all = directory();
  EXPECT_EQ(dialect_for(all, "/anthropic/v1/nonsense").name(), "anthropic");
  EXPECT_EQ(dialect_for(all, "/v1/messages").name(), "anthropic");
  EXPECT_EQ(dialect_for(all, "").name(), "openai");
}

TEST(CallId, is_a_uuid_of_version_7_that_sorts_by_time) {
  const WallTime now{std::chrono::milliseconds{0x0123456789AB}};
  EXPECT_EQ(new_call_id(now, 0xFFFFFFFFFFFFFFFF, 0), "01234567-89ab-7fff-8000-000000000000");
  EXPECT_EQ(new_call_id(now, 0, 0xFFFFFFFFFFFFFFFF), "01234567-89ab-7000-bfff-ffffffffffff");
  EXPECT_LT(new_call_id(now, ~0ULL, ~0ULL), new_call_id(now + std::chrono::milliseconds{1}, 0, 0));
}

}  // namespace
}  // namespace gateway
