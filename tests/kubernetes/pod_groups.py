"""The kind PodGroup of the coscheduling plugin, so far as Peloton reads it, and its objects."""

from __future__ import annotations

from typing import Any

GROUP = "scheduling.x-k8s.io"
KINDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SPEC = {"type": "object", "properties": {"minMember": {"type": "integer", "format": "int32", "minimum": 1}}}
_SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}}
KIND: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"podgroups.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "podgroups",
            "singular": "podgroup",
            "kind": "PodGroup",
            "listKind": "PodGroupList",
        },
        "versions": [{"name": "v1alpha1", "served": True, "storage": True, "schema": _SCHEMA}],
    },
}


def path_of(namespace: str) -> str:
    """Return the path of the PodGroups of a namespace."""
    return f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/podgroups"


def pod_group(name: str, least: int) -> dict[str, Any]:
    """Return a PodGroup."""
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": least},
    }
