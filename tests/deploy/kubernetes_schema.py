"""Generate `kubernetes.schema.json`: the fields that Kubernetes knows, and no others.

    pip install kubernetes==31.0.0 && python tests/deploy/kubernetes_schema.py

Its source are the models of Kubernetes' Python client (Apache License 2.0), which are made from the OpenAPI document of
Kubernetes. Unlike a server without strict validation, this schema refuses a field that does not exist. The
ScaledObject of KEDA (Apache License 2.0) is written here by hand, with the fields that matter.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

TARGET = Path(__file__).with_name("kubernetes.schema.json")
KINDS = {
    ("v1", "Namespace"): "V1Namespace",
    ("v1", "ConfigMap"): "V1ConfigMap",
    ("v1", "Secret"): "V1Secret",
    ("v1", "Service"): "V1Service",
    ("apps/v1", "Deployment"): "V1Deployment",
    ("apps/v1", "StatefulSet"): "V1StatefulSet",
    ("batch/v1", "Job"): "V1Job",
    ("policy/v1", "PodDisruptionBudget"): "V1PodDisruptionBudget",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "V2HorizontalPodAutoscaler",
    ("networking.k8s.io/v1", "NetworkPolicy"): "V1NetworkPolicy",
}
LEFT_OUT = {"status", "managed_fields"}
"""What the server writes."""
SIMPLE: dict[str, dict[str, Any]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "bool": {"type": "boolean"},
    "float": {"type": "number"},
    "datetime": {"type": "string", "format": "date-time"},
    # A number or a string, such as a port, a quantity or a percentage.
    "object": {},
}
WHOLE = {"type": "integer", "minimum": 0}
TEXT = {"type": "string", "minLength": 1}
SCALED_OBJECT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "properties": {
        "apiVersion": {"const": "keda.sh/v1alpha1"},
        "kind": {"const": "ScaledObject"},
        "metadata": {"$ref": "#/$defs/V1ObjectMeta"},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["scaleTargetRef", "triggers"],
            "properties": {
                "scaleTargetRef": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["name"],
                    "properties": {"apiVersion": TEXT, "kind": TEXT, "name": TEXT},
                },
                "pollingInterval": WHOLE,
                "cooldownPeriod": WHOLE,
                "minReplicaCount": WHOLE,
                "maxReplicaCount": WHOLE,
                "fallback": {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["failureThreshold", "replicas"],
                    "properties": {"failureThreshold": WHOLE, "replicas": WHOLE},
                },
                "triggers": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["type", "metadata"],
                        "properties": {
                            "type": {"const": "prometheus"},
                            "name": TEXT,
                            "metricType": {"enum": ["AverageValue", "Value"]},
                            "metadata": {
                                "type": "object",
                                "required": ["serverAddress", "query", "threshold"],
                                # KEDA reads strings here.
                                "additionalProperties": {"type": "string"},
                            },
                        },
                    },
                },
            },
        },
    },
}


def schema() -> dict[str, Any]:
    definitions: dict[str, Any] = {}
    for model in KINDS.values():
        _add(model, definitions)
    choices = []
    for (version, kind), model in KINDS.items():
        constants = {"apiVersion": {"const": version}, "kind": {"const": kind}}
        choices.append(
            {
                "if": {"properties": constants, "required": ["apiVersion", "kind"]},
                "then": {"$ref": f"#/$defs/{model}"},
            }
        )
    keda = {"apiVersion": {"const": "keda.sh/v1alpha1"}, "kind": {"const": "ScaledObject"}}
    choices.append({"if": {"properties": keda, "required": ["kind"]}, "then": SCALED_OBJECT})
    versions = sorted({version for version, _ in KINDS} | {"keda.sh/v1alpha1"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {
            "apiVersion": {"enum": versions},
            "kind": {"enum": sorted({kind for _, kind in KINDS} | {"ScaledObject"})},
        },
        "allOf": choices,
        "$defs": dict(sorted(definitions.items())),
    }


def _add(name: str, definitions: dict[str, Any]) -> None:
    if name in definitions:
        return
    definitions[name] = {}
    model = getattr(importlib.import_module("kubernetes.client.models"), name)
    source = Path(importlib.import_module(model.__module__).__file__ or "").read_text(encoding="utf-8")
    required = set(re.findall(r"Invalid value for `(\w+)`, must not be `None`", source))
    properties = {}
    for field, kind in model.openapi_types.items():
        if field not in LEFT_OUT:
            properties[model.attribute_map[field]] = _type(kind, definitions)
    definitions[name] = {
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "required": sorted(model.attribute_map[field] for field in required - LEFT_OUT),
    }


def _type(kind: str, definitions: dict[str, Any]) -> dict[str, Any]:
    if kind in SIMPLE:
        return SIMPLE[kind]
    if inner := re.fullmatch(r"list\[(.+)\]", kind):
        return {"type": "array", "items": _type(inner[1], definitions)}
    if inner := re.fullmatch(r"dict\(str, (.+)\)", kind):
        # Quantities are strings for the client; YAML may write them as numbers.
        values = {"type": ["string", "number"]} if inner[1] == "str" else _type(inner[1], definitions)
        return {"type": "object", "additionalProperties": values}
    _add(kind, definitions)
    return {"$ref": f"#/$defs/{kind}"}


if __name__ == "__main__":
    TARGET.write_text(json.dumps(schema(), sort_keys=True, separators=(",", ":")) + "\n", encoding="utf-8")
