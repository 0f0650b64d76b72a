#!/usr/bin/env python3
"""Goal: whatever a manifest looks like, `callgate inject` adds what it should and changes nothing else that it means.

Method: seeded manifests in the styles that people and programs write. What was added is taken out again, and what is left
must be what went in; in block style every old line must still be there, too. A failure prints its seed.

Usage: inject_test.py CALLGATE [SEEDS [FIRST]]
"""
import copy
import json
import random
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml")
    sys.exit(77)

WORDS = ["true", "1", "x: y", "multi\nline\n", "# no", "", "null", "0x1", "é", 'a"b\\c', "it's", " lead", "- a", "&a",
         "*b", "!t", "%p", "@q", "{x}", "[a]", "yes", "1.0"]  # fmt: skip
APIS = {"Deployment": "apps/v1", "StatefulSet": "apps/v1", "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
        "Pod": "v1", "Service": "v1", "ConfigMap": "v1"}  # fmt: skip
ENV = ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL"]
VOLUMES = ["callgate-config", "callgate-state", "callgate-tmp"]
LOCAL = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"


def shuffled(r, entries):
    names = list(entries)
    r.shuffle(names)
    return {name: entries[name] for name in names}


def container(r, number):
    one = {"name": f"c{number}", "image": "a:1"}
    if r.random() < 0.5:
        one["env"] = [{"name": f"E{i}", "value": r.choice(WORDS)} for i in range(r.randint(0, 3))]
    if r.random() < 0.5:
        one["args"] = [r.choice(WORDS) for _ in range(r.randint(0, 3))]
    if r.random() < 0.3:
        one["resources"] = {"limits": {"memory": "1Gi"}, "requests": {}}
    return shuffled(r, one)


def pod_spec(r):
    spec = {"containers": [container(r, i) for i in range(r.randint(1, 3))]}
    if r.random() < 0.4:
        spec["initContainers"] = [container(r, 10 + i) for i in range(r.randint(0, 2))]
    if r.random() < 0.4:
        spec["volumes"] = [{"name": "v", "emptyDir": {}} for _ in range(r.randint(0, 1))]
    if r.random() < 0.4:
        spec["terminationGracePeriodSeconds"] = 60
    return shuffled(r, spec)


def metadata(r):
    made = {}
    if r.random() < 0.6:
        made["labels"] = {key: "x" for key in r.sample(["app", "on", "a.b/c", "1"], r.randint(0, 3))}
    if r.random() < 0.4:
        made["annotations"] = {key: r.choice(WORDS) for key in r.sample(["p", "q.r/s"], r.randint(0, 2))}
    return made


def document(r):
    kind = r.choice(list(APIS))
    made = {"apiVersion": APIS[kind], "kind": kind, "metadata": {"name": "n"}}
    if kind in ("Service", "ConfigMap"):
        return {**made, "data": {"x": "y"}}
    if kind == "Pod":
        made["metadata"].update(metadata(r))
        return {**made, "spec": pod_spec(r)}
    template = {"spec": pod_spec(r)}
    if r.random() < 0.7:
        template["metadata"] = metadata(r)
    template = shuffled(r, template)
    if kind == "CronJob":
        return {**made, "spec": {"schedule": "1 * * * *", "jobTemplate": {"spec": {"template": template}}}}
    return {**made, "spec": shuffled(r, {"template": template, "minReadySeconds": 2})}


def pod_of(doc):
    if doc["kind"] in ("Service", "ConfigMap"):
        return None
    if doc["kind"] == "Pod":
        return doc
    return (doc["spec"]["jobTemplate"]["spec"] if doc["kind"] == "CronJob" else doc["spec"])["template"]


def flat(docs):
    return [one for doc in docs for one in (doc["items"] if doc["kind"] == "List" else [doc])]


def without_empty(pod):
    """An empty list is as good as none."""
    about = pod.get("metadata") or {}
    for key in ("labels", "annotations"):
        if not about.get(key):
            about.pop(key, None)
    if not about:
        pod.pop("metadata", None)
    for key in ("initContainers", "volumes"):
        if not pod["spec"].get(key):
            pod["spec"].pop(key, None)
    for one in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
        if not one.get("env"):
            one.pop("env", None)


def taken_out(pod, mode):
    spec = pod["spec"]
    one = spec["initContainers"].pop(0) if mode == "native" else spec["containers"].pop()
    assert one["name"] == "callgate", one
    assert [v["name"] for v in spec["volumes"][:3]] == VOLUMES, spec["volumes"]
    del spec["volumes"][:3]
    for one in spec["containers"]:
        assert [e["name"] for e in one["env"][:3]] == ENV, one
        del one["env"][:3]
    assert pod["metadata"]["labels"].pop("callgate/sidecar") == "true"
    assert pod["metadata"]["annotations"].pop(LOCAL) == "callgate-state,callgate-tmp"


def written(r, docs, style):
    if style.startswith("json"):
        return json.dumps(docs[0], indent=r.choice([1, 2, 4]) if style == "json pretty" else None)
    flow = {"flow": True, "mixed": None}.get(style, False)
    text = yaml.safe_dump_all(docs, default_flow_style=flow, sort_keys=False, indent=4 if style == "wide" else 2,
                              allow_unicode=True, explicit_start=r.random() < 0.3, width=r.choice([40, 1000]))  # fmt: skip
    if not flow and style != "mixed":
        text = "\n".join(line + ("  # why" if r.random() < 0.1 and line.endswith(":") else "") for line in text.split("\n"))
    return text


def check(callgate, seed):
    r = random.Random(seed)
    docs = [document(r) for _ in range(r.randint(1, 3))]
    if r.random() < 0.2:
        docs = [{"apiVersion": "v1", "kind": "List", "items": docs}]
    style = r.choice(["block", "block", "block", "wide", "flow", "mixed", "json", "json pretty"])
    if style.startswith("json"):
        docs = docs[:1]
    text = written(r, docs, style)
    if r.random() < 0.2:
        text = text.rstrip("\n")
    before = flat(docs)
    jobs = any(one["kind"] in ("Job", "CronJob") for one in before)
    mode = "native" if jobs else r.choice(["native", "container"])

    def inject(what):
        return subprocess.run([callgate, "inject", "-f", "-", "--config-map", "m", "--mode", mode], input=what,
                              capture_output=True, text=True, timeout=20)  # fmt: skip

    done = inject(text)
    if not any(pod_of(one) for one in before):
        assert (done.returncode, done.stdout) == (4, ""), done
        return
    assert done.returncode == 0, done.stderr
    after = flat(yaml.safe_load_all(done.stdout))
    assert len(before) == len(after)
    for old, new in zip(copy.deepcopy(before), copy.deepcopy(after)):
        if pod_of(new):
            taken_out(pod_of(new), mode)
            without_empty(pod_of(old))
            without_empty(pod_of(new))
        assert old == new, f"{old}\n{new}"
    assert inject(done.stdout).stdout == done.stdout, "twice is once"
    if style in ("block", "wide") and "&" not in text and "*" not in text:
        assert "anew" not in done.stderr, done.stderr
        lines = iter(done.stdout.split("\n"))
        for line in text.rstrip("\n").split("\n"):
            # An empty list is written as one that has something; in front of an item's only key there is a dash.
            if line.endswith((": []", ": {}")) or line.lstrip().startswith("- "):
                continue
            assert any(line == one for one in lines), f"lost: {line}"


def main():
    callgate, count, first = sys.argv[1], int((sys.argv[2:] or ["80"])[0]), int((sys.argv[3:] or ["0"])[0])
    for seed in range(first, first + count):
        try:
            check(callgate, seed)
        except Exception as wrong:
            print(f"seed {seed}: {wrong!r}")
            sys.exit(1)
    print(f"{count} manifests")


main()
