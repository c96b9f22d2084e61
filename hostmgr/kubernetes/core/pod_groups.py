"""PodGroups, by which the coscheduling plugin of Kubernetes knows gangs: how many pods are one.

Kubernetes SIGs: scheduler-plugins, `scheduling.x-k8s.io/v1alpha1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hostmgr.kubernetes.core.foreign import MOST_MEMBERS, size_missing
from hostmgr.kubernetes.core.pods import Key
from peloton.model.foreign_pod import ForeignPod


@dataclass(frozen=True, slots=True)
class PodGroups:
    """The PodGroups of a cluster."""

    installed: bool = False
    """Whether the cluster has the kind, and hostmgr may read it."""
    least: Mapping[Key, int] = field(default_factory=dict)
    """`spec.minMember` of each, by namespace and name; 0 where that is none."""


def least_of(wire: Mapping[str, Any]) -> tuple[Key, int]:
    """Return namespace and name of a PodGroup of the API, and its `minMember`."""
    metadata, least = wire["metadata"], (wire.get("spec") or {}).get("minMember")
    return (metadata["namespace"], metadata["name"]), least if isinstance(least, int) else 0


def grouped(pod: ForeignPod, group: str, groups: PodGroups) -> ForeignPod:
    """Return a pod that names a PodGroup with the size of its gang, or why it cannot be queued.

    Without the kind a gang needs the annotation of its size, and the earlier label means nothing.
    """
    if not groups.installed:
        return replace(pod, refusal=pod.refusal or size_missing(pod.gang)) if pod.gang else pod
    least = groups.least.get((pod.namespace, group))
    if least is None:
        why = f"there is no PodGroup {group!r} in namespace {pod.namespace}, which its label names: make it"
    elif not 1 <= least <= MOST_MEMBERS:
        why = f"spec.minMember of PodGroup {group} is {least}: give a number from 1 to {MOST_MEMBERS}"
    else:
        why = ""
    return replace(pod, gang=group, gang_size=least or 0, grows=True, refusal=pod.refusal or why)
