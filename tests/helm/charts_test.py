#!/usr/bin/env python3
"""Goal: what the charts render is what Kubernetes takes and what our rules want, it is the same as by `callgate inject`,
and callgate works with it.

Method: a table of values. With helm and kubeconform (tools.sh) every row is rendered and compared with its golden
file; everything else is read from the golden files, so that it holds on a machine without them, too. --write makes
golden files, files/sidecar.yaml and the tables of values in the READMEs anew.

Usage: charts_test.py [--write] [--tools FOLDER] [--callgate FILE --provider FILE] [-k NAME]
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
GOLDEN = HERE / "golden"
SCHEMAS = HERE / "schemas"
SIDECAR = ROOT / "helm/callgate-sidecar"
STANDALONE = ROOT / "helm/callgate"
WORKER = ROOT / "helm/examples/worker"
PATIENCE = 20
OPTIONS = argparse.Namespace(tools="", callgate="", provider="", write=False)

DIGEST = "0" * 63 + "1"
HELD = {"secretName": "llm", "upstreams": {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}}
JOB = yaml.safe_load((WORKER / "values-job.yaml").read_text())

# Name of the golden file; the chart; values.
CASES = {
    "worker-deployment": (WORKER, {}),
    "worker-job": (WORKER, {"kind": "Job", **JOB}),
    "worker-cronjob": (WORKER, {"kind": "CronJob", **JOB}),
    "worker-container": (WORKER, {"callgate": {"mode": "container"}}),
    "worker-keys": (WORKER, {"callgate": {"keys": HELD}}),
    "worker-everything": (WORKER, {"replicas": 3, "callgate": {
        "image": {"repository": "registry.example.com/callgate", "digest": "sha256:" + "a" * 64, "pullPolicy": "Always"},
        "config": {"tenants": {"default": {"budget": {"daily_usd": "5.00"}}}, "metrics": {"tenant_label": False},
                   "runs": {"enabled": True}},
        "rollOnConfigChange": True, "keys": {**HELD, "defaultMode": 288}, "ports": {"data": 5600, "health": 5601},
        "state": {"kind": "external"}, "resources": {"requests": None, "limits": None}, "readinessProbe": True,
        "extraEnv": [{"name": "REGION", "value": "eu"}], "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "metrics": {"annotations": True}}}),
    "worker-existing": (WORKER, {"callgate": {"existingConfigMap": "mine", "app": {"baseUrls": False},
                                              "state": {"sizeLimit": "2Gi"}}}),
    "standalone-default": (STANDALONE, {}),
    "standalone-shared": (STANDALONE, {
        "keys": {**HELD, "payloadKey": "PAYLOAD_KEY"}, "replicas": 1,
        "config": {"tenants": {"search": {"keys": [{"sha256": DIGEST}], "budget": {"daily_usd": "50.00"}}}}}),
    "standalone-everything": (STANDALONE, {
        "fullnameOverride": "gate", "imagePullSecrets": [{"name": "pull"}], "rollOnConfigChange": True,
        "image": {"digest": "sha256:" + "b" * 64}, "extraHosts": ["gate.example.com"], "keys": HELD,
        "config": {"tenants": {"search": {"keys": [{"sha256": DIGEST}]}}, "shutdown": {"drain": "2m"}},
        "persistence": {"storageClass": "fast", "accessMode": "ReadWriteOncePod", "size": "50Gi"},
        "service": {"annotations": {"a": "b"}}, "serviceAccount": {"name": "gate", "annotations": {"a": "b"}},
        "terminationGracePeriodSeconds": 150, "podLabels": {"team": "search"}, "podAnnotations": {"a": "b"},
        "nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "llm", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}}, "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        "priorityClassName": "high", "extraEnv": [{"name": "REGION", "value": "eu"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}], "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "networkPolicy": {"enabled": True, "workers": [{"podSelector": {"matchLabels": {"llm": "yes"}}}],
                          "monitoring": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}],
                          "extraEgress": [{"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]}]},
        "monitoring": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}}),
    "standalone-ephemeral": (STANDALONE, {
        "persistence": {"enabled": False, "size": "2Gi"}, "podDisruptionBudget": {"enabled": False},
        "serviceAccount": {"create": False}, "monitoring": {"podMonitor": {"enabled": True}},
        "networkPolicy": {"enabled": True}}),
}  # fmt: skip

# Names that YAML would take for something else; and so are those of the release and its namespace.
NUMBERS = [
    (WORKER, {"callgate": {"keys": {"secretName": "7", "upstreams": {"openai": "8"}}, "rollOnConfigChange": True,
                           "metrics": {"podMonitor": {"enabled": True}}}}),
    (WORKER, {"kind": "Job", "callgate": {"existingConfigMap": "9", "metrics": {"annotations": True}}}),
    (WORKER, {"kind": "CronJob"}),
    (STANDALONE, {"fullnameOverride": "null", "nameOverride": "6", "keys": {"secretName": "7"}, "priorityClassName": "8",
                  "persistence": {"storageClass": "9"}, "serviceAccount": {"name": "10"}, "rollOnConfigChange": True,
                  "networkPolicy": {"enabled": True}, "monitoring": {
                      "serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True},
                      "dashboard": {"enabled": True}}}),
    (STANDALONE, {"fullnameOverride": "on", "nameOverride": "6", "existingConfigMap": "7", "serviceAccount": {"create": False, "name": "8"},
                  "monitoring": {"podMonitor": {"enabled": True}}}),
]  # fmt: skip

# What a schema refuses: chart, values, a word of the refusal.
REFUSED = [
    (WORKER, {"callgate": {"mode": "webhook"}}, "mode"),
    (WORKER, {"callgate": {"image": {"tag": "latest"}}}, "tag"),
    (WORKER, {"callgate": {"nonsense": 1}}, "nonsense"),
    (WORKER, {"callgate": {"config": {"runs": {"enabled": True}}}}, "acceptEphemeral"),
    (WORKER, {"callgate": {"config": {"listen": {"data": "0.0.0.0:4600"}}}}, "listen"),
    (WORKER, {"callgate": {"metrics": {"annotations": True, "podMonitor": {"enabled": True}}}}, "metrics"),
    (STANDALONE, {"persistence": {"accessMode": "ReadWriteMany"}}, "accessMode"),
    (STANDALONE, {"persistence": {"enabled": False}, "config": {"runs": {"enabled": True}}}, "acceptEphemeral"),
    (STANDALONE, {"service": {"type": "LoadBalancer"}}, "type"),
    (STANDALONE, {"monitoring": {"annotations": True, "serviceMonitor": {"enabled": True}}}, "monitoring"),
    (STANDALONE, {"image": {"tag": "latest"}}, "tag"),
]  # fmt: skip

# What NOTES.txt says, and does not say: chart, values, said, not said.
NOTES = [
    (WORKER, {}, [], ["WARNING", "NOTE"]),
    (WORKER, {"replicas": 3}, [], ["WARNING"]),
    (WORKER, {"replicas": 3, "callgate": {"config": {"tenants": {"a": {"budget": {"daily_usd": "5.00"}}},
                                                     "idempotency": {"ttl": "1h"}}}},
     ["budgets, idempotency hold per callgate", "standalone instance"], ["runs hold"]),
    (WORKER, {"replicas": 2, "callgate": {"config": {"runs": {"enabled": True}}, "state": {"kind": "external"}}},
     ["WARNING: runs hold per callgate"], []),
    (WORKER, {"terminationGracePeriodSeconds": 29}, ["terminationGracePeriodSeconds 29 is less"], []),
    (WORKER, {"terminationGracePeriodSeconds": 100, "callgate": {"config": {"shutdown": {"drain": "2m"}}}},
     ["terminationGracePeriodSeconds 100 is less than shutdown.drain (2m)"], []),
    (WORKER, {"terminationGracePeriodSeconds": 50, **JOB}, ["shutdown.final_scrape (30s) and 5 s"], []),
    (WORKER, {"terminationGracePeriodSeconds": 60, **JOB}, [], ["WARNING"]),
    (WORKER, {"callgate": {"mode": "container"}}, ["20s (shutdown.linger); a Job does not complete"], []),
    (STANDALONE, {}, ["Other pods cannot call it yet", "callgate keys issue", "runs and replays are refused"],
     ["WARNING"]),
    (STANDALONE, {"replicas": 2}, ["WARNING: 2 replicas are 2 instances"], []),
    (STANDALONE, CASES["standalone-shared"][1], ["http://r-callgate.ns.svc:4600/openai/v1", "unencrypted"],
     ["WARNING", "cannot call", "refused"]),
    (STANDALONE, {"config": {"tenants": {"a": {"keys": [{"sha256": DIGEST}]}}}}, ["WARNING: issued keys work"], []),
    (STANDALONE, {"terminationGracePeriodSeconds": 20}, ["is less than shutdown.drain (25s)"], []),
]  # fmt: skip


# ---- Reading ----


def tool(name):
    """Where it is, or None."""
    if OPTIONS.tools and (pathlib.Path(OPTIONS.tools) / name).exists():
        return str(pathlib.Path(OPTIONS.tools) / name)
    return shutil.which(name) if os.environ.get("HELM_TOOLS") != "skip" else None


def golden(name):
    return (GOLDEN / f"{name}.yaml").read_text()


def documents(text):
    return [one for one in yaml.safe_load_all(text) if one]


def of_kind(docs, *kinds):
    return [one for one in docs if one["kind"] in kinds]


def pod_of(doc):
    """metadata and spec of the pod that a workload makes."""
    if doc["kind"] == "Pod":
        return doc
    spec = doc["spec"]
    return spec["jobTemplate"]["spec"]["template"] if doc["kind"] == "CronJob" else spec["template"]


def workload_of(docs):
    (one,) = of_kind(docs, "Deployment", "StatefulSet", "Job", "CronJob")
    return one


def callgate_of(docs):
    spec = pod_of(workload_of(docs))["spec"]
    (one,) = [c for c in spec.get("initContainers", []) + spec["containers"] if c["name"] == "callgate"]
    return one


def config_of(docs):
    return next((d["data"]["config.yaml"] for d in of_kind(docs, "ConfigMap") if "config.yaml" in d["data"]), None)


def block(text, head):
    """The item of a list that begins with this line, to the left, byte for byte."""
    lines = text.splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if line.strip() == head)
    indent = len(lines[at]) - len(lines[at].lstrip())
    end = at + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
        end += 1
    return "".join(line[indent:] for line in lines[at:end])


def bytes_of(text):
    number, unit = re.fullmatch(r"(\d+)([KMGT]i?B?|)", str(text)).groups()
    return int(number) * 1024 ** " KMGT".index(unit[0] if unit else " ")


# ---- Helm ----


class Charts:
    """Copies with their dependencies, since `helm dependency build` writes beside the chart."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        ignore = shutil.ignore_patterns("charts", "Chart.lock")
        shutil.copytree(ROOT / "helm", root / "helm", ignore=ignore)
        shutil.copytree(HERE / "reference", root / "tests/helm/reference", ignore=ignore)
        self.root = root
        files = root / "helm/callgate/files"
        files.mkdir(exist_ok=True)
        # The monitoring files have tests of their own; here it only matters that they come through unchanged.
        if not (files / "alerts.yaml").exists():
            (files / "alerts.yaml").write_text("groups:\n  - name: a\n    rules:\n      - alert: A\n        expr: up == 0\n"
                                               '        annotations: {summary: "{{ $labels.x }}"}\n')  # fmt: skip
        if not (files / "dashboard.json").exists():
            (files / "dashboard.json").write_text('{\n  "title": "{{x}}"\n}\n')
        for chart in (WORKER, HERE / "reference"):
            self.run("dependency", "build", str(self.of(chart)))

    def of(self, chart):
        return self.root / pathlib.Path(chart).relative_to(ROOT)

    def run(self, *words, good=True):
        home = self.root / "home"
        env = {**os.environ, "HELM_CACHE_HOME": str(home), "HELM_CONFIG_HOME": str(home), "HELM_DATA_HOME": str(home)}
        done = subprocess.run([tool("helm"), *words], capture_output=True, text=True, timeout=60, env=env)
        if good and done.returncode != 0:
            raise AssertionError(f"helm {' '.join(words)}\n{done.stderr}{done.stdout}")
        return done

    def template(self, chart, values, *more, release="r", namespace="ns", good=True):
        path = self.root / "values.yaml"
        path.write_text(yaml.safe_dump(values))
        return self.run("template", release, str(self.of(chart)), "-n", namespace, "-f", str(path), *more, good=good)

    def rendered(self, name):
        chart, values = CASES[name]
        return self.template(chart, values).stdout

    def sidecar_text(self):
        done = self.run("template", "reference", str(self.root / "tests/helm/reference"))
        body = done.stdout.split("sidecar.yaml\n", 1)[1]
        return ("# What the templates of this chart give; part of the callgate executable, for `callgate inject`. Made anew "
                "by\n# tests/helm/charts_test.py --write, and compared by the tests.\n" + body)  # fmt: skip


class WithHelm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not tool("helm"):
            raise unittest.SkipTest("no helm here: tools.sh says why")
        cls.charts = Charts()
        cls.addClassCleanup(cls.charts.folder.cleanup)

    def test_lint_has_nothing_to_say(self):
        for chart in (SIDECAR, STANDALONE, WORKER):
            with self.subTest(chart=chart.name):
                self.charts.run("lint", "--strict", str(self.charts.of(chart)))

    def test_golden_files_are_what_is_rendered(self):
        for name in CASES:
            with self.subTest(name=name):
                self.assertEqual(golden(name), self.charts.rendered(name), "charts_test.py --write, and look at the diff")
        self.assertEqual({path.stem for path in GOLDEN.glob("*.yaml")}, set(CASES))

    def test_the_executable_s_text_is_what_the_templates_give(self):
        self.assertEqual((SIDECAR / "files/sidecar.yaml").read_text(), self.charts.sidecar_text())

    def test_values_that_cannot_be_meant_are_refused(self):
        for chart, values, word in REFUSED:
            with self.subTest(values=values):
                done = self.charts.template(chart, values, good=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(word, done.stderr)

    def test_notes_warn_of_what_fits_badly(self):
        # Helm shows them at an installation only, for which it wants a cluster; so here they are a document's text.
        charts = Charts()
        self.addCleanup(charts.folder.cleanup)
        for chart in (WORKER, STANDALONE):
            templates = charts.of(chart) / "templates"
            notes = (templates / "NOTES.txt").read_text()
            (templates / "notes.yaml").write_text('{{- define "test.notes" }}' + notes + "{{- end }}\nkind: Notes\n"
                                                  'text: {{ include "test.notes" . | quote }}\n')  # fmt: skip
        for chart, values, said, unsaid in NOTES:
            with self.subTest(values=values):
                done = charts.template(chart, values, "-s", "templates/notes.yaml")
                (text,) = [one["text"] for one in documents(done.stdout)]
                for words in said:
                    self.assertIn(words, text)
                for words in unsaid:
                    self.assertNotIn(words, text)

    def test_rules_and_dashboard_come_through_unchanged(self):
        values = {"monitoring": {"prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}}}
        docs = documents(self.charts.template(STANDALONE, values).stdout)
        files = self.charts.of(STANDALONE) / "files"
        (rule,) = of_kind(docs, "PrometheusRule")
        self.assertEqual(rule["spec"], yaml.safe_load((files / "alerts.yaml").read_text()))
        (board,) = [d for d in of_kind(docs, "ConfigMap") if "callgate.json" in d["data"]]
        self.assertEqual(json.loads(board["data"]["callgate.json"]), json.loads((files / "dashboard.json").read_text()))
        self.conforms(self.charts.template(STANDALONE, values).stdout)

    def test_the_readme_s_five_minutes_end_with_a_sidecar(self):
        blocks = re.findall(r"\*\*\d\.\*\*.*?```yaml\n(.*?)```", (SIDECAR / "README.md").read_text(), re.S)
        dependencies, pod, configuration, values = blocks[:4]
        chart = self.charts.root / "mine"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text("apiVersion: v2\nname: mine\nversion: 0.1.0\n" + re.sub(
            r"file://\S+", "file://../helm/callgate-sidecar", dependencies))  # fmt: skip
        (chart / "values.yaml").write_text(values)
        (chart / "templates/worker.yaml").write_text(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: worker\nspec:\n"
            "  selector: {matchLabels: {callgate/sidecar: \"true\"}}\n" + pod)  # fmt: skip
        (chart / "templates/callgate.yaml").write_text(configuration)
        self.charts.run("dependency", "build", str(chart))
        text = self.charts.run("template", "w", str(chart)).stdout
        self.conforms(text)
        self.assertEqual(callgate_of(documents(text))["image"], "registry.example.com/callgate:0.1.0")
        self.assertIn("ConfigMap", [one["kind"] for one in documents(text)])

    def test_a_name_that_looks_like_a_number_stays_a_name(self):
        for chart, values in NUMBERS:
            for release, namespace in (("123", "456"), ("1e3", "0x10"), ("true", "null")):
                with self.subTest(chart=chart.name, values=values, release=release):
                    text = self.charts.template(chart, values, release=release, namespace=namespace).stdout
                    self.conforms(text)
                    for doc in documents(text):
                        self.assertEqual(doc["metadata"]["namespace"], namespace)
                        for path, value in named(doc):
                            self.assertIsInstance(value, str, path)

    def test_a_service_whose_name_kubernetes_would_refuse_is_refused_at_once(self):
        done = self.charts.template(STANDALONE, {}, release="123", good=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("123-callgate", done.stderr)
        self.assertIn("fullnameOverride", done.stderr)

    def test_kubeconform_takes_every_document(self):
        if not tool("kubeconform"):
            self.skipTest("no kubeconform here: tools.sh says why")
        for name in CASES:
            with self.subTest(name=name):
                self.conforms(self.charts.rendered(name))
        with self.assertRaises(AssertionError):
            self.conforms(golden("worker-deployment").replace("restartPolicy: Always", "restartPolicyX: Always"))

    def conforms(self, text):
        if not tool("kubeconform"):
            return
        done = subprocess.run([tool("kubeconform"), "-strict", "-summary", "-schema-location",
                               str(SCHEMAS) + "/{{ .ResourceKind }}{{ .KindSuffix }}.json"],
                              input=text, capture_output=True, text=True, timeout=60)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Skipped: 0", done.stdout)


def named(node, path="", inside=""):
    """All that Kubernetes takes for a name, or for the value of a label or an annotation."""
    if isinstance(node, list):
        for one in node:
            yield from named(one, path, inside)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from named(value, f"{path}.{key}", key)
            label = inside in ("labels", "annotations", "matchLabels") or path == ".spec.selector"
            if not isinstance(value, (dict, list)) and (label or key.lower().endswith("name")):
                yield f"{path}.{key}", value


# ---- Always ----


def each(check):
    """The check is of one golden file."""

    def test(self):
        for name in CASES:
            with self.subTest(name=name):
                check(self, name, documents(golden(name)))

    return test


class Golden(unittest.TestCase):
    def test_every_document_has_the_shape_that_kubernetes_wants(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("no python3-jsonschema")
        for name in CASES:
            for doc in documents(golden(name)):
                group, _, version = doc["apiVersion"].rpartition("/")
                parts = [doc["kind"].lower(), *([group.split(".")[0]] if group else []), version]
                schema = json.loads((SCHEMAS / ("-".join(parts) + ".json")).read_text())
                jsonschema.validate(doc, schema)
        broken = yaml.safe_load(golden("worker-deployment").split("---\n")[2])
        self.assertEqual(broken["kind"], "Deployment")
        broken["spec"]["template"]["spec"]["initContainers"][0]["restartPolicyX"] = "Always"
        with self.assertRaises(jsonschema.ValidationError):
            jsonschema.validate(broken, json.loads((SCHEMAS / "deployment-apps-v1.json").read_text()))

    @each
    def test_the_container_is_restricted(self, name, docs):
        pod = pod_of(workload_of(docs))["spec"]
        one = callgate_of(docs)
        security = one["securityContext"]
        self.assertEqual((security["runAsNonRoot"], security["runAsUser"]), (True, 65532))
        self.assertEqual((security["allowPrivilegeEscalation"], security["privileged"]), (False, False))
        self.assertTrue(security["readOnlyRootFilesystem"])
        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
        self.assertEqual(security["seccompProfile"], {"type": "RuntimeDefault"})
        for key in ("hostNetwork", "hostPID", "hostIPC"):
            self.assertNotIn(key, pod)
        for volume in pod["volumes"]:
            self.assertNotIn("hostPath", volume)
        writable = {m["mountPath"] for m in one["volumeMounts"] if not m.get("readOnly")} - {"/more"}
        self.assertEqual(writable, {"/var/lib/callgate", "/tmp"})
        if "standalone" in name:
            self.assertIs(pod["automountServiceAccountToken"], False)
            for account in of_kind(docs, "ServiceAccount"):
                self.assertIs(account["automountServiceAccountToken"], False)

    @each
    def test_it_is_probed_sized_and_versioned(self, name, docs):
        one = callgate_of(docs)
        port = next(p for p in one["ports"] if p["name"] == "cg-metrics")
        config = yaml.safe_load(config_of(docs) or "{}")
        if config:
            self.assertEqual(config["listen"]["health"], f"0.0.0.0:{port['containerPort']}")
        for probe, path in (("startupProbe", "/readyz"), ("livenessProbe", "/livez")):
            self.assertEqual(one[probe]["httpGet"], {"path": path, "port": "cg-metrics"})
        self.assertNotIn("cpu", one.get("resources", {}).get("limits", {}))
        if name != "worker-everything":
            self.assertIn("memory", one["resources"]["limits"])
            self.assertEqual(set(one["resources"]["requests"]), {"cpu", "memory"})
        self.assertRegex(one["image"], r":\d+\.\d+\.\d+$|@sha256:[0-9a-f]{64}$")
        self.assertEqual(one["lifecycle"]["preStop"]["exec"]["command"][1:], ["drain", "--runs-only", "--no-wait"])
        # Not for other pods by accident.
        self.assertTrue(not config or config["listen"]["data"].startswith("127.0.0.1:") or name in
                        ("standalone-shared", "standalone-everything"), config.get("listen"))  # fmt: skip

    @each
    def test_native_and_container_stand_where_they_belong(self, name, docs):
        workload = workload_of(docs)
        spec = pod_of(workload)["spec"]
        if "standalone" in name:
            self.assertEqual(workload["kind"], "StatefulSet")
        elif name == "worker-container":
            self.assertNotIn("initContainers", spec)
            self.assertEqual([c["name"] for c in spec["containers"]], ["worker", "callgate"])
            self.assertNotIn("restartPolicy", callgate_of(docs))
        else:
            self.assertEqual([c["name"] for c in spec["initContainers"]], ["callgate"])
            self.assertEqual(callgate_of(docs)["restartPolicy"], "Always")

    @each
    def test_no_secret_is_in_an_environment_or_a_subpath(self, name, docs):
        spec = pod_of(workload_of(docs))["spec"]
        for one in spec.get("initContainers", []) + spec["containers"]:
            self.assertNotIn("envFrom", one)
            for entry in one.get("env", []):
                self.assertNotIn("secretKeyRef", json.dumps(entry))
            for mount in one.get("volumeMounts", []):
                self.assertNotIn("subPath", mount)
            if one["name"] != "callgate":
                self.assertNotIn("callgate-keys", [m["name"] for m in one.get("volumeMounts", [])])
        if name == "worker-keys":
            (worker,) = spec["containers"]
            env = {e["name"]: e["value"] for e in worker["env"]}
            self.assertEqual(env["OPENAI_API_KEY"], "held-by-callgate")
            self.assertNotIn("GEMINI_API_KEY", env)

    @each
    def test_every_mount_has_its_volume(self, name, docs):
        workload = workload_of(docs)
        spec = pod_of(workload)["spec"]
        claims = {c["metadata"]["name"] for c in workload["spec"].get("volumeClaimTemplates", [])}
        volumes = {v["name"] for v in spec["volumes"]} | claims
        # Those of the pod that includes it.
        if name == "worker-everything":
            volumes |= {"callgate-state", "more"}
        self.assertLessEqual({m["name"] for m in callgate_of(docs)["volumeMounts"]}, volumes)

    @each
    def test_what_may_be_held_fits_into_memory_and_disk(self, name, docs):
        """Sums of the configuration against the limits of the pod."""
        # As measured (README): at rest, and what connections take under load.
        rest, load = 24 * 1024**2, 24 * 1024**2
        # Log of the database before it is written back, and rows: the READMEs say how many those are.
        journal, rows = 64 * 1024**2, 512 * 1024**2
        one, text = callgate_of(docs), config_of(docs)
        limit = one.get("resources", {}).get("limits", {}).get("memory")
        if not text:
            return
        config = yaml.safe_load(text)
        answers = bytes_of(config["idempotency"]["max_bytes"])
        if limit:
            buffered = config.get("limits", {}).get("buffered_bytes", "auto")
            bodies = bytes_of(limit) * 0.4 if buffered == "auto" else bytes_of(buffered)
            runs = bodies / 4 if config.get("runs", {}).get("enabled", True) else 0
            self.assertLessEqual(rest + load + bodies + runs + answers, bytes_of(limit))
        state = [v for v in pod_of(workload_of(docs))["spec"]["volumes"] if v["name"] == "callgate-state"]
        claims = workload_of(docs)["spec"].get("volumeClaimTemplates", [])
        size = (state[0]["emptyDir"]["sizeLimit"] if state else
                claims[0]["spec"]["resources"]["requests"]["storage"] if claims else None)  # fmt: skip
        letters = bytes_of(config.get("dead_letters", {}).get("max_bytes", "256MiB"))
        if size:
            self.assertLessEqual(answers + letters + journal + rows, bytes_of(size))

    @each
    def test_a_data_port_is_offered_only_with_issued_keys(self, name, docs):
        for service in of_kind(docs, "Service"):
            ports = {p["name"] for p in service["spec"]["ports"]}
            config = yaml.safe_load(config_of(docs))
            keyed = any(t.get("keys") for t in config.get("tenants", {}).values())
            self.assertEqual("data" in ports, keyed)
            self.assertEqual(config["listen"]["data"], "0.0.0.0:4600" if keyed else "127.0.0.1:4600")
            if keyed:
                self.assertEqual(config["tenancy"]["unknown"], "refuse")
                self.assertIn(f"{service['metadata']['name']}.ns.svc", config["listen"]["hosts"])
            self.assertEqual(service["spec"]["type"], "ClusterIP")

    def test_versions_are_the_project_s(self):
        version = re.search(r"project\(callgate VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        for chart in (SIDECAR, STANDALONE):
            self.assertEqual(yaml.safe_load((chart / "Chart.yaml").read_text())["appVersion"], version)
            self.assertEqual(yaml.safe_load((chart / "values.yaml").read_text())["image"]["tag"], version)

    def test_values_and_schema_and_readme_say_the_same(self):
        for chart in (SIDECAR, STANDALONE):
            with self.subTest(chart=chart.name):
                schema = json.loads((chart / "values.schema.json").read_text())
                values = yaml.safe_load((chart / "values.yaml").read_text())
                for path, one in described(schema):
                    self.assertTrue(one.get("description"), path)
                for path in leaves(values):
                    self.assertIn(path, dict(described(schema)), path)
                self.assertIn(table_of(chart), (chart / "README.md").read_text(), "charts_test.py --write")


def described(schema, path=""):
    for name, one in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here, one
        if one.get("additionalProperties") is False:
            yield from described(one, here)


def leaves(values, path=""):
    for name, value in values.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, dict) and value and name not in ("resources", "labels"):
            yield from leaves(value, here)
        else:
            yield here


def table_of(chart):
    schema = json.loads((chart / "values.schema.json").read_text())
    values = yaml.safe_load((chart / "values.yaml").read_text())
    lines = ["| value | default | meaning |", "|---|---|---|"]
    for path, one in described(schema):
        if path in ("global", "enabled") or one.get("additionalProperties") is False and one.get("properties"):
            continue
        value = values
        for step in path.split("."):
            value = value[step]
        lines.append(f"| `{path}` | `{json.dumps(value, ensure_ascii=False)}` | {one['description']} |".replace("||", ""))
    return "\n".join(lines) + "\n"


# ---- With callgate ----


def run_callgate(*words, text="", env=None, code=0):
    done = subprocess.run([OPTIONS.callgate, *words], input=text, capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, **(env or {})})  # fmt: skip
    if done.returncode != code:
        raise AssertionError(f"callgate {' '.join(words)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done


class Room:
    """A pod's file system, for a configuration that was rendered for one."""

    def __init__(self, text, folder):
        self.root = pathlib.Path(folder)
        for part in ("etc", "keys", "state"):
            (self.root / part).mkdir()
        for name in re.findall(r"/etc/callgate-keys/(\S+)", text):
            key = self.root / "keys" / name
            key.write_text("a" * 64 + "\n" if name == "PAYLOAD_KEY" else "sk-held\n")
            key.chmod(0o640)
        for there, here in (("/etc/callgate-keys/", f"{self.root}/keys/"), ("/var/lib/callgate/", f"{self.root}/state/"),
                            ("0.0.0.0:4601", "127.0.0.1:0"), ("0.0.0.0:4600", "127.0.0.1:0"),
                            ("127.0.0.1:4600", "127.0.0.1:0")):  # fmt: skip
            text = text.replace(there, here)
        self.config = self.root / "etc/config.yaml"
        self.config.write_text(text)
        self.config.chmod(0o644)


class WithCallgate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not OPTIONS.callgate or not OPTIONS.provider:
            raise unittest.SkipTest("no --callgate and --provider named")

    def test_the_rendered_configuration_is_valid(self):
        for name in CASES:
            text = config_of(documents(golden(name)))
            if not text:
                continue
            with self.subTest(name=name), tempfile.TemporaryDirectory() as folder:
                # Off loopback there is a warning, and rightly: nothing is encrypted there.
                strict = [] if "0.0.0.0:4600" in text else ["--strict"]
                run_callgate("validate", *strict, str(Room(text, folder).config))

    def test_inject_gives_the_same_as_the_chart(self):
        plain = ("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: r\n  namespace: ns\nspec:\n  template:\n"
                 "    metadata:\n      labels:\n        app: worker\n    spec:\n      terminationGracePeriodSeconds: 630\n"
                 "      containers:\n      - name: worker\n        image: registry.example.com/worker:1.0.0\n")  # fmt: skip
        keys = ["--keys-secret", "llm", "--key", "openai=OPENAI_API_KEY", "--key", "anthropic=ANTHROPIC_API_KEY"]
        for name, words in (("worker-deployment", []), ("worker-container", ["--mode", "container"]), ("worker-keys", keys)):
            with self.subTest(name=name):
                chart = golden(name)
                ours = run_callgate("inject", "-f", "-", *words, text=plain).stdout
                self.assertEqual(block(ours, "- name: callgate"), block(chart, "- name: callgate"))
                left, right = documents(ours), documents(chart)
                self.assertEqual(config_of(left), config_of(right))
                mine, theirs = pod_of(workload_of(left)), pod_of(workload_of(right))
                self.assertEqual(mine["spec"]["volumes"], theirs["spec"]["volumes"])
                self.assertEqual(mine["spec"]["containers"][0]["env"], theirs["spec"]["containers"][0]["env"])
                self.assertEqual(mine["metadata"]["annotations"], theirs["metadata"]["annotations"])
                self.assertLessEqual({"callgate/sidecar": "true"}.items(), mine["metadata"]["labels"].items())
                self.assertLessEqual({"callgate/sidecar": "true"}.items(), theirs["metadata"]["labels"].items())
                if tool("kubeconform"):
                    WithHelm.conforms(self, ours.replace("  template:", "  selector: {matchLabels: {app: worker}}\n  template:"))

    def test_an_application_works_through_the_rendered_configuration_and_is_drained(self):
        docs = documents(golden("worker-keys"))
        (worker,) = pod_of(workload_of(docs))["spec"]["containers"]
        app_env = {e["name"]: e["value"] for e in worker["env"]}
        with contextlib.ExitStack() as stack:
            room = Room(config_of(docs), stack.enter_context(tempfile.TemporaryDirectory()))
            provider = stack.enter_context(running([OPTIONS.provider, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]))
            told = json.loads(provider.stdout.readline())
            env = {"CALLGATE_CONFIG": str(room.config), "CALLGATE_UPSTREAMS__OPENAI__URL": told["url"]}
            pod = callgate_of(docs)
            gate = stack.enter_context(running([OPTIONS.callgate, *pod["args"]], env))
            ports = listening(gate)
            for probe in ("startupProbe", "livenessProbe"):
                # As a kubelet asks: again until the threshold.
                for _ in range(pod[probe]["failureThreshold"]):
                    status = ask(ports["health"], "GET", pod[probe]["httpGet"]["path"])[0]
                    if status == 200:
                        break
                    time.sleep(pod[probe]["periodSeconds"])
                self.assertEqual(status, 200, probe)

            base = app_env["OPENAI_BASE_URL"].removeprefix("http://127.0.0.1:4600")
            body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "hi"}]})
            headers = {"Authorization": "Bearer " + app_env["OPENAI_API_KEY"], "Content-Type": "application/json"}
            status, answer = ask(ports["data"], "POST", base + "/chat/completions", body, headers)
            self.assertEqual(status, 200, answer)
            control = told["control"]
            seen = json.loads(ask(control, "GET", "/seen")[1])
            sent = dict((k.lower(), v) for k, v in seen[-1]["headers"])
            self.assertEqual(sent["authorization"], "Bearer sk-held", "the provider gets the key that callgate holds")
            # A call is counted when it has ended, which is after its caller has the answer.
            told_by = time.monotonic() + 10
            while "callgate_calls_total" not in (metrics := ask(ports["health"], "GET", "/metrics")[1]):
                self.assertLess(time.monotonic(), told_by, metrics)

            # What is in flight when the pod ends is answered, whatever the order of preStop and SIGTERM.
            ask(control, "PUT", "/script", '[{"answer": {"hold": "gate"}}]')
            late = []
            caller = threading.Thread(
                target=lambda: late.append(ask(ports["data"], "POST", base + "/chat/completions", body, headers)))
            caller.start()
            ask(control, "GET", f"/wait?held=1&timeout_ms={PATIENCE * 1000}")
            run_callgate(*pod["lifecycle"]["preStop"]["exec"]["command"][1:], env=env)
            self.assertEqual(ask(ports["health"], "GET", "/readyz")[0], 200, "its application still works")
            gate.send_signal(signal.SIGTERM)
            event(gate, "draining")
            ask(control, "POST", "/release?gate=gate")
            caller.join(PATIENCE)
            self.assertEqual([status for status, _ in late], [200])
            self.assertEqual(gate.wait(PATIENCE), 0)


    def test_a_job_redelivered_to_another_worker_of_one_instance_is_paid_once(self):
        issued = json.loads(run_callgate("keys", "issue", "--tenant", "search", "--json").stdout)
        text = config_of(documents(golden("standalone-shared"))).replace(DIGEST, issued["sha256"])
        with contextlib.ExitStack() as stack:
            room = Room(text, stack.enter_context(tempfile.TemporaryDirectory()))
            provider = stack.enter_context(running([OPTIONS.provider, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]))
            told = json.loads(provider.stdout.readline())
            env = {"CALLGATE_CONFIG": str(room.config), "CALLGATE_UPSTREAMS__OPENAI__URL": told["url"]}
            gate = stack.enter_context(running([OPTIONS.callgate, "serve"], env))
            data = listening(gate)["data"]
            body = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": "job 42"}]})

            def worker(key):
                return ask(data, "POST", "/openai/v1/chat/completions", body, {
                    "Authorization": "Bearer " + key, "Content-Type": "application/json",
                    "Host": "r-callgate.ns.svc:4600", "Idempotency-Key": "job-42"})  # fmt: skip

            first, second = worker(issued["key"]), worker(issued["key"])
            self.assertEqual(first[0], 200, first)
            self.assertEqual(second, first)
            self.assertEqual(json.loads(ask(told["control"], "GET", "/stats")[1])["requests"], 1)
            self.assertEqual(worker("sk-of-nobody")[0], 403, "without an issued key nobody gets in")
            # `callgate drain` comes back when the process has gone.
            run_callgate("drain", env=env)
            self.assertEqual(gate.wait(PATIENCE), 0)
            run_callgate("drain", env=env, code=5)


@contextlib.contextmanager
def running(command, env=None):
    one = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                           env={**os.environ, **(env or {})})  # fmt: skip
    guard = threading.Timer(3 * PATIENCE, one.kill)
    guard.start()
    try:
        yield one
    finally:
        guard.cancel()
        one.kill()
        one.wait()
        one.stdin.close()
        one.stdout.close()


def event(process, name):
    for line in process.stdout:
        told = json.loads(line)
        if told.get("event") == name:
            return told
    raise AssertionError(f"it ended and never said {name}")


def listening(gate):
    told = event(gate, "listening")
    return {name: told[name] for name in ("data", "health")}


def ask(address, method, path, body=None, headers=None):
    address = address.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def write():
    charts = Charts()
    (SIDECAR / "files/sidecar.yaml").write_text(charts.sidecar_text())
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.glob("*.yaml"):
        path.unlink()
    for name in CASES:
        (GOLDEN / f"{name}.yaml").write_text(charts.rendered(name))
    for chart in (SIDECAR, STANDALONE):
        readme = chart / "README.md"
        text = readme.read_text()
        begin = text.index("| value | default | meaning |")
        end = text.index("\n\n", begin) + 1 if "\n\n" in text[begin:] else len(text)
        readme.write_text(text[:begin] + table_of(chart) + text[end:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--tools", default="")
    parser.add_argument("--callgate", default="")
    parser.add_argument("--provider", default="")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    if OPTIONS.write:
        write()
        return 0
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
    for test, why in result.skipped:
        print(f"skipped: {test}: {why}")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
