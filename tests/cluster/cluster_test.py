#!/usr/bin/env python3
"""Goal: what only a kubelet can show. In a namespace with Pod Security `restricted`, the sidecar is ready before the
worker's first instruction and ends after its last; a pod's end cuts no stream; a Job completes, and what it spent can be
read; changed keys and configuration hold without a restart or a failed call; names that are numbers are taken.

Method: the example chart (helm/examples/worker) and `callgate inject` against the fake provider, in whatever cluster
kubectl's current context names. The namespace callgate-test is made and, in the end, removed.

Usage: cluster_test.py --image CALLGATE --test-image IMAGE [--helm FILE] [--callgate FILE]
The cluster has to know both images (packaging/Dockerfile, tests/cluster/Dockerfile) by these names, tags included.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKER, STANDALONE = ROOT / "helm/examples/worker", ROOT / "helm/callgate"
NAMESPACE = "callgate-test"
KUBELET = 180  # Seconds; it looks at Secrets and ConfigMaps about once a minute.
PATIENCE = 60
OPTIONS = argparse.Namespace()
RESTRICTED = ('{runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, '
              'seccompProfile: {type: RuntimeDefault}}')  # fmt: skip

PROVIDER = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: provider}}
spec:
  selector: {{matchLabels: {{app: provider}}}}
  template:
    metadata: {{labels: {{app: provider}}}}
    spec:
      containers:
        - name: provider
          image: IMAGE
          command: [/usr/bin/fake_provider, --listen, "0.0.0.0:8080", --control, "127.0.0.1:8081", --no-stdin-watch]
          securityContext: {RESTRICTED}
---
apiVersion: v1
kind: Service
metadata: {{name: provider}}
spec: {{selector: {{app: provider}}, ports: [{{port: 8080}}]}}
"""

# MODE and COUNT: "calls" makes so many and ends, "streams" so many at once and ends, "load" calls until it is told to end.
PROGRAM = """
import http.client, json, os, signal, sys, threading, time
mode, count = sys.argv[1], int(sys.argv[2])
told = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: told.set())
def get(port, path):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    c.request("GET", path)
    return c.getresponse().status
whole, bad = [], []
def call(stream):
    c = http.client.HTTPConnection("127.0.0.1", 4600, timeout=120)
    body = {"model": "gpt-5-mini", "stream": stream, "messages": [{"role": "user", "content": "hi"}]}
    try:
        c.request("POST", "/openai/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json",
                  "Authorization": "Bearer " + os.environ.get("OPENAI_API_KEY", "sk-mine")})
        answer = c.getresponse()
        text = answer.read()
        good = answer.status == 200 and (not stream or text.rstrip().endswith(b"[DONE]"))
    except Exception as error:
        good, text = False, repr(error)
    whole.append(1) if good else bad.append(str(text)[:200])
def say(**what): print(json.dumps(what), flush=True)
say(ready=get(4601, "/readyz"))
if mode == "calls":
    for _ in range(count): call(False)
elif mode == "streams":
    threads = [threading.Thread(target=call, args=(True,)) for _ in range(count)]
    for one in threads: one.start()
    for one in threads: one.join()
else:
    while not told.wait(0.02): call(False)
say(told=told.is_set(), whole=len(whole), bad=bad)
told.wait(0 if mode != "streams" else 120)
"""


def run(*words, text=None, good=True, patience=PATIENCE):
    done = subprocess.run([str(w) for w in words], input=text, capture_output=True, text=True, timeout=patience + 10)
    if good and done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def kubectl(*words, **more):
    return run("kubectl", "-n", NAMESPACE, *words, **more)


def values(*args, **callgate):
    repository, _, tag = OPTIONS.image.rpartition(":")
    config = {"upstreams": {"openai": {"url": OPTIONS.url}}, **callgate.pop("config", {})}
    return {"image": OPTIONS.test_image, "args": [PROGRAM, *args],
            "callgate": {"image": {"repository": repository, "tag": tag}, "config": config, **callgate}}  # fmt: skip


def script(rules):
    program = ("import sys, urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:8081/script', "
               "sys.argv[1].encode(), method='PUT'))")  # fmt: skip
    kubectl("exec", "deploy/provider", "--", "/usr/bin/python3", "-c", program, json.dumps(rules))


class InACluster(unittest.TestCase):
    def install(self, name, chart_values):
        path = pathlib.Path(OPTIONS.folder) / f"{name}.json"
        path.write_text(json.dumps(chart_values))
        run(OPTIONS.helm, "install", name, WORKER, "-n", NAMESPACE, "-f", path)
        self.addCleanup(run, OPTIONS.helm, "uninstall", name, "-n", NAMESPACE, good=False)

    def pod_of(self, name):
        label = f"callgate/instance={name}"
        self.await_(lambda: kubectl("get", "pod", "-l", label, "-o", "name"))
        return kubectl("get", "pod", "-l", label, "-o", "jsonpath={.items[0].metadata.name}")

    def await_(self, condition, patience=PATIENCE):
        until = time.monotonic() + patience
        while not (found := condition()):
            self.assertLess(time.monotonic(), until, "it has not come about")
            time.sleep(0.5)
        return found

    def await_log(self, pod, container, words, patience=PATIENCE):
        self.await_(lambda: words in kubectl("logs", pod, "-c", container, good=False), patience)

    def following(self, pod, container):
        one = subprocess.Popen(["kubectl", "-n", NAMESPACE, "logs", "-f", pod, "-c", container],
                               stdout=subprocess.PIPE, text=True)  # fmt: skip
        self.addCleanup(one.wait)
        self.addCleanup(one.kill)
        return one

    def test_a_pod_s_end_cuts_nothing(self):
        script([{"answer": {"stream": {"events": 100, "size": 50, "every_ms": 100}}}])
        for name, mode in (("native", "native"), ("second", "container")):
            with self.subTest(mode=mode):
                self.install(name, values("streams", "8", mode=mode))
                pod = self.pod_of(name)
                self.await_log(pod, "worker", '"ready": 200' if mode == "native" else '"ready"')
                worker, gate = self.following(pod, "worker"), self.following(pod, "callgate")
                kubectl("delete", "pod", pod)
                told = json.loads(worker.communicate(timeout=PATIENCE)[0].splitlines()[-1])
                self.assertEqual(told, {"told": True, "whole": 8, "bad": []})
                events = [json.loads(line) for line in gate.communicate(timeout=PATIENCE)[0].splitlines() if line[0] == "{"]
                self.assertEqual(events[-1]["event"], "stopped")
                self.assertEqual([e["in_flight"] for e in events if e["event"] == "draining"], [0])

    def test_a_job_completes_and_its_figures_can_be_read(self):
        script([])
        self.install("job", {"kind": "Job", **values("calls", "3", config={"shutdown": {"final_scrape": "30s"}})})
        pod = self.pod_of("job")
        self.await_log(pod, "callgate", "final_scrape_awaited")
        figures = run("kubectl", "get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}:4601/proxy/metrics")
        self.assertRegex(figures, r'callgate_calls_total\{.*outcome="answered".*\} 3\n')
        kubectl("wait", "--for=condition=complete", "job/job", f"--timeout={PATIENCE}s")

    def test_keys_and_configuration_change_under_load(self):
        script([])
        secret = ("create", "secret", "generic", "keys", "--dry-run=client", "-o", "yaml")
        kubectl("apply", "-f", "-", text=kubectl(*secret, "--from-literal=KEY=sk-old"))
        self.install("load", values("load", "0", keys={"secretName": "keys", "upstreams": {"openai": "KEY"}}))
        pod = self.pod_of("load")
        self.await_log(pod, "worker", '"ready": 200')
        self.assertNotIn("anybody can read", kubectl("logs", pod, "-c", "callgate"), "its mode is as the chart wants it")
        kubectl("apply", "-f", "-", text=kubectl(*secret, "--from-literal=KEY=sk-new"))
        config = kubectl("get", "configmap", "load-callgate", "-o", "yaml")
        kubectl("apply", "-f", "-", text=config.replace("max_bytes: 64MiB", "max_bytes: 48MiB"))
        self.await_log(pod, "callgate", '"event":"key_changed"', KUBELET)
        self.await_log(pod, "callgate", '"event":"reloaded"', KUBELET)
        worker = self.following(pod, "worker")
        kubectl("delete", "pod", pod)
        told = json.loads(worker.communicate(timeout=PATIENCE)[0].splitlines()[-1])
        self.assertEqual((told["told"], told["bad"]), (True, []))
        self.assertGreater(told["whole"], 100)

    def test_names_that_are_numbers_are_taken(self):
        for chart, more in ((WORKER, []), (STANDALONE, ["--set", "fullnameOverride=gate,networkPolicy.enabled=true"])):
            text = run(OPTIONS.helm, "template", "123", chart, "-n", NAMESPACE, *more)
            kubectl("apply", "--dry-run=server", "-f", "-", text=text)

    def test_what_inject_gives_is_taken(self):
        if not OPTIONS.callgate:
            self.skipTest("no --callgate named")
        plain = (f"apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: '42'\nspec:\n  template:\n    spec:\n      "
                 f"restartPolicy: Never\n      containers:\n      - name: worker\n        image: {OPTIONS.test_image}\n"
                 f"        args: ['print(1)']\n        securityContext: {RESTRICTED}\n")  # fmt: skip
        text = run(OPTIONS.callgate, "inject", "-f", "-", "--image", OPTIONS.image, text=plain)
        kubectl("apply", "-f", "-", text=text)
        kubectl("wait", "--for=condition=complete", "job/42", f"--timeout={PATIENCE}s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--image", required=True)
    parser.add_argument("--test-image", required=True)
    parser.add_argument("--helm", default="helm")
    parser.add_argument("--callgate", default="")
    _, rest = parser.parse_known_args(namespace=OPTIONS)
    with tempfile.TemporaryDirectory() as OPTIONS.folder:
        run(OPTIONS.helm, "dependency", "build", WORKER)
        run("kubectl", "create", "namespace", NAMESPACE)
        try:
            run("kubectl", "label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
            kubectl("apply", "-f", "-", text=PROVIDER.replace("IMAGE", OPTIONS.test_image))
            kubectl("rollout", "status", "deploy/provider", f"--timeout={PATIENCE}s")
            OPTIONS.url = f"http://{kubectl('get', 'service', 'provider', '-o', 'jsonpath={.spec.clusterIP}')}:8080"
            result = unittest.main(argv=[sys.argv[0], *rest], exit=False).result
        finally:
            run("kubectl", "delete", "namespace", NAMESPACE, patience=KUBELET)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
