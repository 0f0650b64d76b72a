// Goal: `callgate inject` adds to a manifest what a pod needs and leaves the rest as it stands, to the byte; twice is
// once; and what it cannot do it says. Method: small manifests in all the styles that people write; tests/helm
// compares with the chart.

#include "cli/inject.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <sstream>
#include <string>
#include <vector>

#include "gateway/config_yaml.h"

namespace inject_test {

using cli::Injected;
using cli::InjectWishes;
using gateway::YamlNode;
using Form = YamlNode::Form;

struct Said {
  int code = -1;
  std::string out{};
  std::string err{};
};
Said callgate(std::vector<std::string> words, const std::string& input) {
  std::istringstream in{input};
  std::ostringstream out;
  std::ostringstream err;
  cli::Terminal terminal{in, out, err};
  words.insert(words.begin(), {"inject", "-f", "-"});
  const int code = cli::run(words, terminal);
  return {code, out.str(), err.str()};
}

/// One value, by keys and by numbers of items: "spec.containers.0.name"; "(none)".
std::string at(const std::string& yaml, const std::string& path) {
  std::vector<gateway::Problem> problems;
  const gateway::YamlDocument document = gateway::read_yaml(yaml, problems);
  if (!problems.empty()) return "line " + std::to_string(problems[0].line) + ": " + problems[0].message;
  const YamlNode* node = document.root;
  std::istringstream steps{path};
  for (std::string step; node && std::getline(steps, step, '/');) {
    if (node->form == Form::List) {
      const std::size_t i = std::stoul(step);
      node = i < node->items.size() ? node->items[i] : nullptr;
    } else {
      const auto found = std::ranges::find(node->entries, step, &YamlNode::Entry::key);
      node = found == node->entries.end() ? nullptr : found->value;
    }
  }
  if (!node) return "(none)";
  return node->form == Form::Scalar ? node->text : "(more)";
}

/// The same without the lines that `more` has in addition; empty if lines were changed or lost.
bool only_added(const std::string& before, const std::string& after) {
  std::istringstream left{before};
  std::istringstream right{after};
  std::string wanted;
  bool open = static_cast<bool>(std::getline(left, wanted));
  for (std::string line; open && std::getline(right, line);) {
    if (line == wanted) open = static_cast<bool>(std::getline(left, wanted));
  }
  return !open;
}

constexpr std::string_view kDeployment = R"(# my worker
apiVersion: apps/v1
kind: Deployment
metadata:
  name: worker   # a name
spec:
  replicas: 2
  selector: {matchLabels: {app: worker}}
  template:
    metadata:
      labels:
        app: worker
    spec:
      # the one that works
      containers:
      - name: worker
        image: "example/worker:1"   # pinned
        env:
        - {name: QUEUE, value: jobs}
        command: [sh, -c, |
          run]
      - name: exporter
        image: example/exporter:2
)";

TEST(Inject, adds_to_a_deployment_and_touches_nothing_else) {
  std::string manifest{kDeployment};
  manifest.replace(manifest.find("        command: [sh, -c, |\n          run]\n"), 43, "");
  const Said said = callgate({"--image", "registry.example.com/callgate:1.2"}, manifest);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.err, "");
  EXPECT_TRUE(only_added(manifest, said.out)) << said.out;
  const std::string first = said.out.substr(0, said.out.find("---\n"));
  const std::string pod = "spec/template/spec/";
  EXPECT_EQ(at(first, pod + "initContainers/0/name"), "callgate") << first;
  EXPECT_EQ(at(first, pod + "initContainers/0/image"), "registry.example.com/callgate:1.2");
  EXPECT_EQ(at(first, pod + "initContainers/0/restartPolicy"), "Always");
  EXPECT_EQ(at(first, pod + "initContainers/1"), "(none)");
  EXPECT_EQ(at(first, pod + "containers/0/name"), "worker");
  EXPECT_EQ(at(first, pod + "containers/0/env/0/name"), "OPENAI_BASE_URL");
  EXPECT_EQ(at(first, pod + "containers/0/env/0/value"), "http://127.0.0.1:4600/openai/v1");
  EXPECT_EQ(at(first, pod + "containers/0/env/3/name"), "QUEUE");
  EXPECT_EQ(at(first, pod + "containers/1/env/1/name"), "ANTHROPIC_BASE_URL");
  EXPECT_EQ(at(first, pod + "containers/1/env/3"), "(none)") << "placeholders only for keys that callgate holds";
  EXPECT_EQ(at(first, pod + "volumes/0/name"), "callgate-config");
  EXPECT_EQ(at(first, pod + "volumes/0/configMap/name"), "worker-callgate") << "as the chart by its release";
  EXPECT_EQ(at(first, pod + "volumes/1/name"), "callgate-state");
  EXPECT_EQ(at(first, pod + "volumes/3"), "(none)");
  EXPECT_NE(first.find("        callgate/sidecar: \"true\"\n        app: worker\n"), std::string::npos);
  const std::string second = said.out.substr(first.size() + 4);
  EXPECT_EQ(at(second, "kind"), "ConfigMap");
  EXPECT_EQ(at(second, "metadata/name"), "worker-callgate");
  EXPECT_NE(at(second, "data/config.yaml").find("health: 0.0.0.0:4601"), std::string::npos);

  const Said again = callgate({"--image", "registry.example.com/callgate:1.2"}, said.out);
  EXPECT_EQ(again.code, 0);
  EXPECT_EQ(again.out, said.out) << "twice is once";
  EXPECT_NE(again.err.find("already"), std::string::npos);
}

TEST(Inject, knows_every_kind_of_workload_and_a_list_of_them) {
  struct Row {
    std::string api, kind, head, indent, pod;
  };
  const Row kRows[] = {
      {"apps/v1", "Deployment", "spec:\n  template:\n", "    ", "spec/template/spec/"},
      {"apps/v1", "StatefulSet", "spec:\n  template:\n", "    ", "spec/template/spec/"},
      {"apps/v1", "DaemonSet", "spec:\n  template:\n", "    ", "spec/template/spec/"},
      {"batch/v1", "Job", "spec:\n  template:\n", "    ", "spec/template/spec/"},
      {"batch/v1",
       "CronJob",
       "spec:\n  jobTemplate:\n    spec:\n      template:\n",
       "        ",
       "spec/jobTemplate/spec/template/spec/"},
      {"v1", "Pod", "", "", "spec/"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.kind);
    std::string manifest = "apiVersion: " + row.api + "\nkind: " + row.kind + "\n" + row.head;
    if (row.kind == "Pod") manifest += "metadata:\n  name: one\n";
    manifest += row.indent + "spec:\n" + row.indent + "  containers:\n" + row.indent + "    - name: app\n";
    const Said said = callgate({"--config-map", "mine"}, manifest);
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_EQ(at(said.out, row.pod + "initContainers/0/name"), "callgate") << said.out;
    EXPECT_EQ(at(said.out, row.pod + "containers/0/env/0/name"), "OPENAI_BASE_URL") << said.out;
    EXPECT_EQ(at(said.out, row.pod + "volumes/0/configMap/name"), "mine");
    EXPECT_EQ(said.out.find("ConfigMap\n"), std::string::npos) << "one that exists is not made";

    std::string list = "apiVersion: v1\nkind: List\nitems:\n";
    for (int i = 0; i < 2; ++i) {
      std::istringstream lines{manifest};
      std::string dash = "- ";
      for (std::string line; std::getline(lines, line); dash = "  ") list += dash + line + "\n";
    }
    const Said both = callgate({"--config-map", "mine"}, list);
    ASSERT_EQ(both.code, 0) << both.err;
    for (const std::string item : {"items/0/", "items/1/"})
      EXPECT_EQ(at(both.out, item + row.pod + "initContainers/0/name"), "callgate") << both.out;
  }
}

TEST(Inject, leaves_other_documents_as_they_are_even_where_it_could_not_read_them) {
  const std::string other =
      "# not YAML at all: {{ .Values.x }\nkind: Widget\n\tbroken: [\n---\n\n--- # nothing\n"
      "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nspec: {template: {spec: {containers: [{name: a}]}}}\n---\n";
  const std::string manifest = other + std::string{
                                           "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n"
                                           "  containers:\n  - name: app\n    image: a:1"};
  const Said said = callgate({"--config-map", "mine"}, manifest);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_TRUE(said.out.starts_with(other)) << said.out;
  EXPECT_TRUE(only_added(manifest, said.out)) << said.out;
}

TEST(Inject, says_that_what_is_no_manifest_is_none) {
  std::string noise =
      "\x7f"
      "ELF\x02\x01\xff\xfe";
  for (int i = 1; i < 2'000; ++i) noise += static_cast<char>(i * 7'919 % 251);
  const Said said = callgate({}, noise);
  EXPECT_EQ(said.code, 3) << said.err;
  EXPECT_NE(said.err.find("line 1: there is a byte here that is no text"), std::string::npos) << said.err;
  EXPECT_EQ(callgate({}, "a: [\n").code, 3);
  EXPECT_EQ(callgate({}, "apiVersion: v1\nkind: Service\n").code, 4);
}

TEST(Inject, takes_as_long_as_the_file_is) {
  const auto seconds = [](int documents) {
    std::string manifest;
    for (int i = 0; i < documents; ++i) {
      const std::string name = std::to_string(i);
      manifest += "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: p" + name + "\n  namespace: n" + name +
                  "\nspec:\n  terminationGracePeriodSeconds: 1\n  containers:\n  - name: app\n    image: a:1\n";
    }
    const auto begin = std::clock();  // Of this process: others may be busy.
    const Said said = callgate({"--config-map", "mine"}, manifest);
    EXPECT_EQ(said.code, 0) << said.err.substr(0, 400);
    EXPECT_EQ(std::ranges::count(said.err, '\n'), documents) << "a note each";
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  const double few = seconds(1'000);
  EXPECT_LT(seconds(8'000), 20 * few) << few;
}

TEST(Inject, what_leaves_no_place_is_written_anew_and_means_the_same) {
  struct Row {
    std::string what, manifest;
  };
  const Row kRows[] = {
      {"JSON", R"({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"on": "yes"}},
 "spec": {"containers": [{"name": "app", "image": "a:1", "args": ["1", "two\nlines", "null"], "env": []}],
          "terminationGracePeriodSeconds": 60, "volumes": null}})"},
      {"JSON over many lines",
       "{\n  \"apiVersion\": \"v1\",\n  \"kind\": \"Pod\",\n  \"metadata\": {\n    \"name\": \"p\",\n"
       "    \"labels\": {\"on\": \"yes\"}\n  },\n  \"spec\": {\n    \"containers\": [\n      {\n        \"name\": "
       "\"app\",\n"
       "        \"image\": \"a:1\",\n        \"args\": [\"1\", \"two\\nlines\", \"null\"]\n      }\n    ],\n"
       "    \"terminationGracePeriodSeconds\": 60\n  }\n}\n"},
      {"flow in block",
       "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: {\"on\": \"yes\"}}\nspec:\n"
       "  terminationGracePeriodSeconds: 60\n  containers:\n  - {name: app, image: 'a:1', args: ['1', "
       "\"two\\nlines\", \"null\"]}\n"},
      {"an alias",
       "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  annotations: &same\n    \"on\": \"yes\"\n"
       "  labels: *same\nspec:\n  terminationGracePeriodSeconds: 60\n  containers:\n  - name: app\n    image: a:1\n"
       "    args:\n    - \"1\"\n    - |-\n      two\n      lines\n    - \"null\"\n"},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.what);
    const Said said = callgate({"--config-map", "mine"}, row.manifest);
    ASSERT_EQ(said.code, 0) << said.err;
    EXPECT_NE(said.err.find("is written anew"), std::string::npos) << said.err;
    EXPECT_EQ(at(said.out, "spec/initContainers/0/name"), "callgate") << said.out;
    EXPECT_EQ(at(said.out, "spec/containers/0/env/0/name"), "OPENAI_BASE_URL") << said.out;
    EXPECT_EQ(at(said.out, "spec/terminationGracePeriodSeconds"), "60");
    EXPECT_NE(said.out.find("\"on\": \"yes\""), std::string::npos) << said.out;
    EXPECT_NE(said.out.find("- \"1\"\n"), std::string::npos) << "text stays text: " << said.out;
    EXPECT_EQ(at(said.out, "spec/containers/0/args/1"), "two\nlines");
    EXPECT_NE(said.out.find("- \"null\"\n"), std::string::npos);
    EXPECT_EQ(callgate({"--config-map", "mine"}, said.out).out, said.out);
  }
}

TEST(Inject, fills_what_is_empty_where_it_stands) {
  const std::string manifest =
      "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {}\n  labels:\n  name: p\nspec:\n  containers:\n"
      "  - env: []  # none yet\n    name: app\n  volumes: null\n  initContainers: []";
  const Said said = callgate({"--config-map", "mine"}, manifest);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(said.err, "");
  EXPECT_NE(said.out.find("  annotations:\n    cluster-autoscaler"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  labels:\n    callgate/sidecar: \"true\"\n  name: p\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("  - env: # none yet\n      - name: OPENAI_BASE_URL\n"), std::string::npos) << said.out;
  EXPECT_EQ(at(said.out, "spec/containers/0/name"), "app");
  EXPECT_EQ(at(said.out, "spec/initContainers/0/name"), "callgate");
  EXPECT_EQ(at(said.out, "spec/volumes/2/name"), "callgate-tmp");
}

TEST(Inject, holds_keys_only_where_it_is_told_and_only_for_those) {
  const std::string manifest =
      "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: app\n"
      "    env:\n    - name: OPENAI_API_KEY\n      value: sk\n  - name: side\n";
  const Said said =
      callgate({"--keys-secret", "llm", "--key", "openai=OPENAI_API_KEY", "--key", "lab=LAB"}, manifest);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(
      said.err,
      "callgate inject: Pod p: container app sets OPENAI_API_KEY itself, which is kept; callgate holds that key, "
      "so it can go\n"
      "callgate inject: the upstream lab is not built in: callgate starts only when the ConfigMap gives it a dialect "
      "and "
      "a url\n");
  EXPECT_NE(said.out.find("secretName: llm\n"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("mountPath: /etc/callgate-keys\n"), std::string::npos);
  EXPECT_NE(said.out.find("    upstreams:\n      lab:\n        credentials:\n        - key:\n"
                          "            file: /etc/callgate-keys/LAB\n          name: main\n      openai:\n"),
            std::string::npos)
      << said.out;
  EXPECT_EQ(said.out.find("ANTHROPIC_API_KEY"), std::string::npos);
  const Said without = callgate({}, manifest);
  EXPECT_EQ(without.out.find("callgate-keys"), std::string::npos);
  EXPECT_EQ(without.out.find("held-by-callgate"), std::string::npos);
}

TEST(Inject, tells_of_what_would_not_work) {
  const std::string pod =
      "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: app\n"
      "    env:\n    - name: HTTP_PROXY\n      value: http://proxy:3128\n";
  const Said said = callgate({"--keys-secret", "llm", "--key", "opnai=K"}, pod);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.err.find("did you mean openai?"), std::string::npos) << said.err;
  EXPECT_NE(said.err.find("NO_PROXY=127.0.0.1,localhost"), std::string::npos) << said.err;
  const Said told = callgate({}, pod + "    - name: NO_PROXY\n      value: 127.0.0.1\n");
  EXPECT_EQ(told.err.find("PROXY"), std::string::npos) << told.err;
  const Said own = callgate({"--keys-secret", "llm", "--key", "opnai=K", "--config-map", "mine"}, pod);
  EXPECT_EQ(own.err.find("opnai"), std::string::npos) << own.err;
}

TEST(Inject, as_a_second_container_stands_last_and_refuses_jobs) {
  const std::string pod =
      "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: app\n"
      "    args:\n    - |\n      # not a comment\n\n  # about the account\n  serviceAccountName: x\n";
  const Said said = callgate({"--mode", "container", "--config-map", "mine"}, pod);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_EQ(at(said.out, "spec/containers/0/name"), "app") << said.out;
  EXPECT_EQ(at(said.out, "spec/containers/1/name"), "callgate") << said.out;
  EXPECT_EQ(at(said.out, "spec/containers/1/restartPolicy"), "(none)");
  EXPECT_EQ(at(said.out, "spec/containers/0/args/0"), "# not a comment\n");
  EXPECT_EQ(at(said.out, "spec/serviceAccountName"), "x");
  const std::string job =
      "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\nspec:\n  template:\n    spec:\n"
      "      containers:\n      - name: app\n";
  const Said refused = callgate({"--mode", "container"}, job);
  EXPECT_EQ(refused.code, 3);
  EXPECT_EQ(refused.out, "");
  EXPECT_EQ(refused.err,
            "callgate inject: standard input: Job j would never complete with --mode container; use native\n");
}

TEST(Inject, keeps_what_is_there_and_says_so) {
  const std::string manifest =
      "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: s\n  namespace: n\nspec:\n  template:\n    spec:\n"
      "      terminationGracePeriodSeconds: 10\n      containers:\n      - env:\n        - name: OPENAI_BASE_URL\n"
      "          value: http://elsewhere\n        name: app\n      - name: other\n"
      "  volumeClaimTemplates:\n  - metadata:\n      name: callgate-state\n";
  const Said said = callgate({"--container", "app"}, manifest);
  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_NE(said.err.find("container app sets OPENAI_BASE_URL itself, which is kept; such calls do not go through"),
            std::string::npos)
      << said.err;
  EXPECT_NE(said.err.find("terminationGracePeriodSeconds 10 is less"), std::string::npos);
  const std::string pod = "spec/template/spec/";
  const std::string first = said.out.substr(0, said.out.find("---\n"));
  EXPECT_EQ(at(first, pod + "containers/0/env/2/value"), "http://elsewhere") << first;
  EXPECT_EQ(at(first, pod + "containers/1/env"), "(none)") << "not asked for";
  EXPECT_EQ(at(first, pod + "volumes/1/name"), "callgate-tmp") << "the claim is the volume: " << first;
  EXPECT_NE(said.out.find("-callgate\n  namespace: \"n\"\n"), std::string::npos);
}

TEST(Inject, says_what_is_wrong_and_writes_nothing_then) {
  struct Row {
    std::vector<std::string> words;
    std::string manifest, err;
    int code;
  };
  const std::string pod = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\nspec:\n  containers:\n  - name: app\n";
  const Row kRows[] = {
      {{},
       "kind: Service\napiVersion: v1\n",
       "there is no Deployment, StatefulSet, DaemonSet, Job, CronJob or Pod in",
       4},
      {{}, "", "there is no Deployment", 4},
      {{}, "a: 1\n---\napiVersion: v1\nkind: Pod\n  bad: [\n", "standard input: line 5: ", 3},
      {{}, "apiVersion: v1\nkind: Pod\nspec: {}\n", "Pod without a name has no containers", 3},
      {{"--container", "ap"}, pod, "no workload has a container named ap", 3},
      {{"--mode", "webhook"}, pod, "--mode must be native or container", 2},
      {{"--image", "a b"}, pod, "--image must be", 2},
      {{"--config-map", "A\nb"}, pod, "--config-map must be", 2},
      {{"--keys-secret", "s"}, pod, "belong together", 2},
      {{},
       "apiVersion: v1\nkind: Pod\nmetadata: {name: m}\nbase: &b {image: y}\nspec: {containers: [{<<: *b, name: "
       "a}]}\n",
       "merge key",
       3},
      {{"--key", "openai=K"}, pod, "belong together", 2},
      {{"--keys-secret", "s", "--key", "openai"}, pod, "--key must be UPSTREAM=KEY", 2},
      {{"--keys-secret", "s", "--key", "o=../k"}, pod, "--key must be UPSTREAM=KEY", 2},
      {{"--keys-secret", "s", "--key", "o=k", "--key", "o=l"}, pod, "--key names o twice", 2},
  };
  for (const Row& row : kRows) {
    SCOPED_TRACE(row.err);
    const Said said = callgate(row.words, row.manifest);
    EXPECT_EQ(said.code, row.code) << said.err;
    EXPECT_NE(said.err.find(row.err), std::string::npos) << said.err;
    EXPECT_EQ(said.out, "");
  }
}

}  // namespace inject_test
