#include "gateway/tenants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace gateway {
namespace tenants_test {

using classifier::Headers;

const std::string kKeyOfA = "cg_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const std::string kKeyOfB = "cg_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
const std::string kNobodys = "cg_ccccccccccccccccccccccccccccccccccccccccccc";

Config with_tenants(bool refuse, const std::string& data = "127.0.0.1:4600") {
  Config config;
  config.listen.data = data;
  config.refuse_unknown = refuse;
  config.tenants = {{.name = "a", .keys = {text_of(digest_of_key(kKeyOfA))}},
                    {.name = "b", .keys = {text_of(digest_of_key("cg_old")), text_of(digest_of_key(kKeyOfB))}},
                    {.name = "default"},
                    {.name = "keyless"}};
  return config;
}

/// The tenant's name, or status and code.
std::string who(const Tenants& tenants, const std::vector<std::string>& keys, std::string_view name) {
  const auto tenant = tenants.who(keys, name);
  return tenant ? (*tenant)->name : std::to_string(tenant.error().status) + " " + tenant.error().code;
}

TEST(Tenants, are_told_by_key_or_name) {
  const Tenants open{with_tenants(false)};
  const Tenants strict{with_tenants(true)};
  const Tenants reachable{with_tenants(true, "0.0.0.0:4600")};
  const Tenants socket{with_tenants(true, "unix:/run/x.sock")};
  const std::string other = "403 callgate_other_tenant";
  const std::string unknown = "403 callgate_unknown_tenant";
  const std::string demanded = "401 callgate_key_required";
  const struct {
    const char* what;
    std::vector<std::string> keys;
    std::string name;
    std::string by_default, refused, reached;
  } cases[] = {
      {"nothing", {}, "", "default", unknown, demanded},
      {"a name", {}, "keyless", "keyless", "keyless", demanded},
      {"the default's name", {}, "default", "default", "default", demanded},
      {"a name that has keys", {}, "a", "a", demanded, demanded},
      {"a name that nobody has", {}, "nobody", "default", unknown, demanded},
      {"in other letters it is another name", {}, "A", "default", unknown, demanded},
      {"a key", {kKeyOfA}, "", "a", "a", "a"},
      {"the second of two keys", {kKeyOfB}, "", "b", "b", "b"},
      {"a key and its own name", {kKeyOfA}, "a", "a", "a", "a"},
      {"a key and another's name", {kKeyOfA}, "b", other, other, other},
      {"a key and a name that nobody has", {kKeyOfA}, "nobody", other, other, other},
      {"a key twice", {kKeyOfA, kKeyOfA}, "", "a", "a", "a"},
      {"two tenants' keys", {kKeyOfA, kKeyOfB}, "", other, other, other},
      {"nobody's key",
       {kNobodys},
       "a",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key"},
      {"a key and nobody's",
       {kKeyOfA, kNobodys},
       "",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key"},
      {"no key at all",
       {"cg_"},
       "",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key"},
      {"a digest for a key",
       {text_of(digest_of_key(kKeyOfA))},
       "",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key",
       "401 callgate_unknown_key"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    EXPECT_EQ(who(open, c.keys, c.name), c.by_default);
    EXPECT_EQ(who(strict, c.keys, c.name), c.refused);
    EXPECT_EQ(who(socket, c.keys, c.name), c.refused);
    EXPECT_EQ(who(reachable, c.keys, c.name), c.reached);
  }
  // No message repeats a key, nor tells who else there is.
  for (const auto& c : cases) {
    const auto refused = strict.who(c.keys, c.name);
    if (refused) continue;
    for (const std::string& key : c.keys) {
      if (key.size() > 10) {
        EXPECT_EQ(refused.error().message.find(key), std::string::npos);
      }
    }
    EXPECT_EQ(refused.error().message.find("keyless"), std::string::npos);
  }
}

TEST(Tenants, without_a_configuration_there_is_the_default_one) {
  EXPECT_EQ(who(Tenants{Config{}}, {}, "x"), "default");
}

TEST(IssuedKeys, are_taken_out_of_wherever_a_provider_s_key_may_stand) {
  const struct {
    const char* what;
    Headers headers;
    std::string query;
    std::vector<std::string> keys;
    Headers left;
    std::string query_left;
  } cases[] = {
      {"a bearer's", {{"Authorization", "Bearer cg_1"}}, "", {"cg_1"}, {}, ""},
      {"in any letters, with blanks", {{"AUTHORIZATION", " bearer   cg_1 "}}, "", {"cg_1"}, {}, ""},
      {"without a scheme", {{"authorization", "cg_1"}}, "", {"cg_1"}, {}, ""},
      {"in quotes, as shells leave them", {{"x-api-key", "\"cg_1\""}}, "", {"cg_1"}, {}, ""},
      {"anthropic's and azure's and google's",
       {{"x-api-key", "cg_1"}, {"api-key", "cg_2"}, {"x-goog-api-key", "cg_3"}, {"Accept", "cg_4"}},
       "",
       {"cg_1", "cg_2", "cg_3"},
       {{"Accept", "cg_4"}},
       ""},
      {"in the query", {}, "alt=sse&key=cg_1&x=1", {"cg_1"}, {}, "alt=sse&x=1"},
      {"in the query, written otherwise", {}, "%6bey=%63g_1;Key=cg%5f2", {"cg_1", "cg_2"}, {}, ""},
      {"a provider's keys stay as they are",
       {{"Authorization", "Bearer sk-cg_1"}, {"x-api-key", "sk-2"}},
       "key=AIza&&b",
       {},
       {{"Authorization", "Bearer sk-cg_1"}, {"x-api-key", "sk-2"}},
       "key=AIza&&b"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.what);
    Headers headers = c.headers;
    std::string query = c.query;
    EXPECT_EQ(take_issued_keys(headers, query), c.keys);
    EXPECT_EQ(headers, c.left);
    EXPECT_EQ(query, c.query_left);
  }
}

TEST(IssuedKeys, are_long_and_never_the_same) {
  std::set<std::string> keys;
  std::set<char> letters;
  for (int i = 0; i < 200; ++i) {
    const std::string key = new_issued_key();
    EXPECT_EQ(key.size(), 46U);
    EXPECT_EQ(issued_key_in("Bearer " + key), key);
    letters.insert(key.begin() + 3, key.end());
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), 200U);
  EXPECT_EQ(letters.size(), 62U);
}

TEST(IssuedKeys, have_the_digest_that_other_programs_compute) {
  EXPECT_EQ(text_of(digest_of_key("cg_test")).size(), 64U);
  // printf '' | sha256sum
  EXPECT_EQ(text_of(digest_of_key("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(key_digest_of("E3B0C44298FC1C149AFBF4C8996FB92427AE41E4649B934CA495991B7852B855"), digest_of_key(""));
  EXPECT_EQ(key_digest_of("e3b0"), std::nullopt);
  EXPECT_EQ(key_digest_of(std::string(64, 'g')), std::nullopt);
  EXPECT_FALSE(same_digest(digest_of_key("a"), digest_of_key("b")));
}

TEST(ModelPatterns, have_stars_and_nothing_else) {
  const struct {
    const char* pattern;
    const char* model;
    bool fits;
  } cases[] = {{"gpt-5", "gpt-5", true},
               {"gpt-5", "gpt-5-mini", false},
               {"gpt-5*", "gpt-5-mini", true},
               {"gpt-5*", "gpt-5", true},
               {"gpt-5*", "gpt-4", false},
               {"*-mini", "gpt-5-mini", true},
               {"*-mini", "gpt-5-minis", false},
               {"*5*m*", "gpt-5-mini", true},
               {"*", "", true},
               {"", "", true},
               {"", "x", false},
               {"a.c", "abc", false},
               {"GPT-5", "gpt-5", false},
               {"a**b", "ab", true},
               {"a*b*c", "a-b-b-c", true},
               {"*aab", "aaaab", true}};
  for (const auto& c : cases) EXPECT_EQ(matches_pattern(c.pattern, c.model), c.fits) << c.pattern << " " << c.model;
  // Not exponential.
  const std::string hostile(200'000, 'a');
  EXPECT_FALSE(matches_pattern("*a*a*a*a*b", hostile));
}

TEST(ModelPatterns, decide_who_may_use_what) {
  const TenantConfig all{.name = "all"};
  const TenantConfig some{.name = "some", .models = {"gpt-5*", "o3"}};
  EXPECT_TRUE(may_use(all, "POST", "anything"));
  EXPECT_TRUE(may_use(all, "POST", ""));
  EXPECT_TRUE(may_use(some, "POST", "gpt-5-mini"));
  EXPECT_TRUE(may_use(some, "POST", "o3"));
  EXPECT_TRUE(may_use(some, "GET", "")) << "a list of models";
  const auto not_that = may_use(some, "POST", "o3-pro\nx");
  ASSERT_FALSE(not_that);
  EXPECT_EQ(not_that.error().status, 403);
  EXPECT_EQ(not_that.error().code, "callgate_model_not_allowed");
  EXPECT_EQ(not_that.error().message,
            "tenant some may not use model \"o3-pro\\u000ax\"; tenants.some.models.allow has no pattern for it");
  const auto none = may_use(some, "POST", "");
  ASSERT_FALSE(none) << "a batch, or a form, names none that we see";
  EXPECT_EQ(none.error().code, "callgate_model_not_allowed");
}

}  // namespace tenants_test
}  // namespace gateway
