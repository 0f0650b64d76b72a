#include "gateway/ways.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace gateway {
namespace ways_test {

std::shared_ptr<Target> target(const std::string& name, std::vector<CredentialConfig> credentials = {}) {
  auto made = std::make_shared<Target>();
  made->config.name = name;
  made->config.credentials = std::move(credentials);
  return made;
}

Call call_over(std::vector<RouteTarget> steps, const std::string& run = "run", const std::string& tenant = "t") {
  auto route = std::make_shared<Route>();
  route->steps = std::move(steps);
  Call call;
  call.route = route;
  call.facts.model = "m";
  call.run_id = run;
  call.tenant = tenant;
  return call;
}

/// "a/one b/two"
std::string order_of(Call call) {
  choose_ways(call, "");
  EXPECT_EQ(call.candidates.size(), call.ways.size());
  std::string text;
  for (std::size_t i = 0; i < call.candidates.size(); ++i) {
    EXPECT_EQ(call.ways[i].to->config.name, call.candidates[i].upstream) << "side by side";
    text += (text.empty() ? "" : " ") + call.candidates[i].upstream + "/" + call.candidates[i].credential;
  }
  return text;
}

/// How many of 1000 runs begin with what.
std::map<std::string, int> firsts(const std::vector<RouteTarget>& steps) {
  std::map<std::string, int> count;
  for (int run = 0; run < 1'000; ++run) {
    const std::string order = order_of(call_over(steps, "run-" + std::to_string(run)));
    ++count[order.substr(0, order.find(' '))];
  }
  return count;
}

TEST(Ways, steps_without_weights_keep_their_order) {
  for (int run = 0; run < 50; ++run) {
    EXPECT_EQ(order_of(call_over({{target("b"), {}, {}}, {target("a"), {}, {}}, {target("c"), {}, {}}},
                                 std::to_string(run))),
              "b/ a/ c/");
  }
}

TEST(Ways, weights_share_the_runs_among_neighbours_only) {
  const std::vector<RouteTarget> steps = {
      {target("a"), 3, {}}, {target("b"), 1, {}}, {target("mid"), {}, {}}, {target("c"), 100, {}}};
  auto count = firsts(steps);
  EXPECT_NEAR(count["a/"], 750, 60);
  EXPECT_NEAR(count["b/"], 250, 60);
  EXPECT_EQ(count.size(), 2u) << "nothing overtakes a step without a weight";
  EXPECT_TRUE(order_of(call_over(steps)).ends_with("mid/ c/"));
}

TEST(Ways, credentials_share_by_weight_and_what_weighs_nothing_comes_last) {
  const std::vector<RouteTarget> steps = {{target("a", {{"one", {}, 1}, {"spare", {}, 0}, {"two", {}, 3}}), {}, {}}};
  auto count = firsts(steps);
  EXPECT_NEAR(count["a/one"], 250, 60);
  EXPECT_NEAR(count["a/two"], 750, 60);
  EXPECT_TRUE(order_of(call_over(steps)).ends_with("a/spare"));
}

TEST(Ways, a_run_of_a_tenant_stays_and_moves_only_when_its_own_place_goes) {
  const std::vector<CredentialConfig> three = {{"one", {}, 1}, {"two", {}, 1}, {"three", {}, 1}};
  const std::vector<CredentialConfig> turned = {{"three", {}, 1}, {"one", {}, 1}, {"two", {}, 1}};
  const std::vector<CredentialConfig> less = {{"one", {}, 1}, {"two", {}, 1}};
  int of_tenants = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string run = std::to_string(i);
    const std::string order = order_of(call_over({{target("a", three), {}, {}}}, run));
    EXPECT_EQ(order_of(call_over({{target("a", turned), {}, {}}}, run)), order) << "whatever the file's order";
    const std::string first = order.substr(0, order.find(' '));
    if (first != "a/three") {
      EXPECT_TRUE(order_of(call_over({{target("a", less), {}, {}}}, run)).starts_with(first));
    }
    of_tenants += order != order_of(call_over({{target("a", three), {}, {}}}, run, "other")) ? 1 : 0;
  }
  EXPECT_GT(of_tenants, 50);
}

TEST(Ways, model_and_group_are_those_of_the_step) {
  struct Case {
    const char* name;
    std::map<std::string, std::string, std::less<>> models, groups;
    const char *renamed, *model, *group;
  };
  for (const Case& c : {Case{"as asked", {}, {}, "", "m", "m"},
                        {"another name there", {{"m", "m-eu"}}, {}, "m-eu", "m-eu", "m-eu"},
                        {"another model's name", {{"n", "n-eu"}}, {}, "", "m", "m"},
                        {"a group of its own name", {}, {{"m", "all"}}, "", "m", "all"},
                        {"a group of its name there", {{"m", "m-eu"}}, {{"m-eu", "eu"}}, "m-eu", "m-eu", "eu"},
                        {"not of the name here", {{"m", "m-eu"}}, {{"m", "all"}}, "m-eu", "m-eu", "m-eu"}}) {
    SCOPED_TRACE(c.name);
    const auto to = target("a", {{"one", {}, 1}});
    to->group_of = c.groups;
    Call call = call_over({{to, {}, c.models}});
    choose_ways(call, "");
    EXPECT_EQ(call.ways.at(0).model, c.renamed);
    EXPECT_EQ(call.candidates.at(0).model, c.model);
    EXPECT_EQ(call.candidates.at(0).group, c.group);
  }
}

TEST(Ways, only_without_a_key_of_ours_the_callers_counts) {
  Call call = call_over({{target("ours", {{"one", {}, 1}}), {}, {}}, {target("theirs"), {}, {}}});
  call.request.headers = {{"Authorization", "Bearer mine"}};
  choose_ways(call, "");
  EXPECT_TRUE(call.candidates.at(0).configured);
  EXPECT_EQ(call.candidates.at(0).credential, "one");
  EXPECT_FALSE(call.candidates.at(1).configured);
  EXPECT_EQ(call.candidates.at(1).credential.size(), 32u);
  EXPECT_EQ(call.candidates.at(1).credential.find("mine"), std::string::npos);
}

}  // namespace ways_test
}  // namespace gateway
