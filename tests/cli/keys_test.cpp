#include "cli/keys.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/config.h"
#include "gateway/issued_key.h"

namespace keys_test {

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};

Said keys(std::vector<std::string> words) {
  words.insert(words.begin(), "keys");
  std::istringstream in;
  std::ostringstream out;
  std::ostringstream err;
  cli::Terminal terminal{in, out, err};
  const int code = cli::run(words, terminal);
  return {code, out.str(), err.str()};
}

TEST(KeysIssue, prints_a_key_and_the_configuration_that_knows_it) {
  const Said said = keys({"issue", "--tenant", "search"});
  ASSERT_EQ(said.code, 0) << said.err;
  const std::string key = said.out.substr(0, said.out.find('\n'));
  EXPECT_TRUE(key.starts_with("cg_"));
  EXPECT_EQ(said.err.find(key), std::string::npos);
  const std::string yaml = said.out.substr(said.out.find("tenants:"));
  EXPECT_EQ(yaml.find(key), std::string::npos);
  const gateway::Loaded loaded = gateway::parse_config(yaml, "callgate.yaml");
  ASSERT_TRUE(loaded.usable());
  ASSERT_EQ(loaded.config.tenants.size(), 2U);
  EXPECT_EQ(loaded.config.tenants[1].name, "search");
  EXPECT_EQ(loaded.config.tenants[1].keys, std::vector{gateway::text_of(gateway::digest_of_key(key))});
  EXPECT_NE(keys({"issue", "--tenant", "search"}).out.substr(0, key.size()), key);
}

TEST(KeysIssue, speaks_json) {
  const Said said = keys({"issue", "--json", "--tenant", "search"});
  ASSERT_EQ(said.code, 0);
  EXPECT_EQ(said.err, "");
  const auto json = nlohmann::json::parse(said.out);
  EXPECT_EQ(json.at("tenant"), "search");
  const std::string digest = gateway::text_of(gateway::digest_of_key(json.at("key").get<std::string>()));
  EXPECT_EQ(json.at("sha256"), digest);
  EXPECT_EQ(json.at("yaml"), "keys: [{sha256: \"" + digest + "\"}]");
}

TEST(KeysIssue, wants_a_tenant_s_name) {
  EXPECT_EQ(keys({"issue"}).code, 2);
  EXPECT_NE(keys({"issue"}).err.find("needs --tenant NAME"), std::string::npos);
  const Said bad = keys({"issue", "--tenant", "A B"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.out, "");
  EXPECT_NE(bad.err.find("\"A B\" is no tenant's name"), std::string::npos);
}

}  // namespace keys_test
