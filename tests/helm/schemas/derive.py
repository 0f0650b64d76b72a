#!/usr/bin/env python3
"""Writes the JSON schemas beside this file: strict (no unknown field), for the kinds that the charts render.

Usage: derive.py KUBERNETES_SOURCE PROMETHEUS_OPERATOR_SOURCE

Both are Go modules, so the Go proxy has them: go mod download -json k8s.io/kubernetes@v1.33.0
github.com/prometheus-operator/prometheus-operator@v0.83.0. README.md says what is here.
"""
import json
import pathlib
import sys

import yaml

HERE = pathlib.Path(__file__).parent
KINDS = [
    ("", "v1", "ConfigMap"), ("", "v1", "Pod"), ("", "v1", "Service"), ("", "v1", "ServiceAccount"),
    ("", "v1", "List"),
    ("apps", "v1", "Deployment"), ("apps", "v1", "StatefulSet"), ("apps", "v1", "DaemonSet"),
    ("batch", "v1", "Job"), ("batch", "v1", "CronJob"),
    ("networking.k8s.io", "v1", "NetworkPolicy"), ("policy", "v1", "PodDisruptionBudget"),
]  # fmt: skip
CUSTOM = ["podmonitors", "servicemonitors", "prometheusrules"]


def strict(node):
    """Only what is asked of a document, and no field that is not named."""
    if isinstance(node, list):
        return [strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    if node.get("x-kubernetes-int-or-string") or node.get("format") == "int-or-string":
        return {"oneOf": [{"type": "string"}, {"type": "integer"}]}
    if node.get("description", "").startswith("Quantity is a fixed-point"):
        return {"oneOf": [{"type": "string"}, {"type": "number"}]}
    left = {}
    for key, value in node.items():
        if key in ("description", "format", "default", "example") and not isinstance(value, dict):
            continue
        if key.startswith("x-kubernetes"):
            continue
        if key in ("properties", "definitions"):
            left[key] = {name: strict(one) for name, one in value.items()}
        else:
            left[key] = strict(value)
    if "properties" in left and not node.get("x-kubernetes-preserve-unknown-fields"):
        left.setdefault("additionalProperties", False)
    return left


def refs(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].removeprefix("#/definitions/")
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


def write(group, version, kind, schema):
    schema["properties"]["apiVersion"] = {"const": f"{group}/{version}" if group else version}
    schema["properties"]["kind"] = {"const": kind}
    schema["required"] = sorted({*schema.get("required", []), "apiVersion", "kind"})
    short = group.split(".")[0]
    name = "-".join(part for part in (kind.lower(), short, version) if part)
    text = json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, sort_keys=True,
                      separators=(",", ":"))  # fmt: skip
    (HERE / f"{name}.json").write_text(text + "\n")


def kubernetes(root):
    definitions = json.loads((root / "api/openapi-spec/swagger.json").read_text())["definitions"]
    for group, version, kind in KINDS:
        wanted = {"group": group, "version": version, "kind": kind}
        if kind == "List":
            write(group, version, kind, {"type": "object", "properties": {"items": {"type": "array"},
                                         "metadata": {"type": "object"}}, "additionalProperties": False})  # fmt: skip
            continue
        (name,) = [n for n, d in definitions.items() if d.get("x-kubernetes-group-version-kind") == [wanted]]
        schema = strict(definitions[name])
        needed, todo = {}, list(refs(schema))
        while todo:
            one = todo.pop()
            if one not in needed:
                needed[one] = strict(definitions[one])
                todo.extend(refs(needed[one]))
        write(group, version, kind, {**schema, "definitions": needed})


def custom(root):
    for plural in CUSTOM:
        path = root / f"example/prometheus-operator-crd/monitoring.coreos.com_{plural}.yaml"
        spec = yaml.safe_load(path.read_text())["spec"]
        schema = strict(spec["versions"][0]["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        write(spec["group"], spec["versions"][0]["name"], spec["names"]["kind"], schema)


kubernetes(pathlib.Path(sys.argv[1]))
custom(pathlib.Path(sys.argv[2]))
