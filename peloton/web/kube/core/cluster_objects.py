"""Pools as v1 Namespace, hosts as v1 Node, and what happened to pods as v1 Event."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from peloton import __version__
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS
from peloton.web.kube.core.names import Pool
from peloton.web.kube.core.objects import timestamp
from peloton.web.kube.core.quantities import cores_text, megabytes_text
from peloton.web.kube.core.values import Object

POOL_PATH = "peloton/pool"
QUOTA_NAME = "pool"
QUOTAS = {
    "cpu": ("cpu", cores_text),
    "memory": ("memory", megabytes_text),
    "disk": ("ephemeral-storage", megabytes_text),
    "gpu": ("nvidia.com/gpu", cores_text),
}
"""Of each kind its name in quotas, and how an amount of it is written."""
_WARNINGS = ("FAILED", "LOST", "PREEMPTING")
_REASONS = {
    "INITIALIZED": "Created",
    "PENDING": "Queued",
    "READY": "Admitted",
    "PLACING": "Placing",
    "PLACED": "Scheduled",
    "RESERVED": "Reserved",
    "LAUNCHING": "Launching",
    "LAUNCHED": "Launched",
    "STARTING": "Starting",
    "RUNNING": "Started",
    "SUCCEEDED": "Completed",
    "FAILED": "Failed",
    "LOST": "NodeLost",
    "PREEMPTING": "Preempting",
    "KILLING": "Killing",
    "KILLED": "Killed",
}


def namespace_object(pool: Pool) -> Object:
    """Return the namespace of a pool."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": pool.namespace,
            "uid": pool.id,
            "labels": {"kubernetes.io/metadata.name": pool.namespace},
            "annotations": {POOL_PATH: pool.path},
            "creationTimestamp": time_of(pool.info.config.changeLog.createdAt),
        },
        "spec": {},
        "status": {"phase": "Active"},
    }


def priority_class_object(name: str, priority: int, description: str) -> Object:
    """Return a priority class. Its name is its uid: the settings of jobmgr have it."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "uid": f"priority-class-{name}", "creationTimestamp": None},
        "value": priority,
        "globalDefault": False,
        "description": description,
        "preemptionPolicy": "PreemptLowerPriority",
    }


def quota_object(pool: Pool) -> Object:
    """Return reservation (requests) and limit (limits) of a pool, with what is allocated of it."""
    hard, used = {}, {}
    allocated = {each.kind: each.allocation + each.slack for each in pool.info.usage}
    for each in sorted(pool.info.config.resources, key=lambda each: each.kind):
        name, text = QUOTAS.get(each.kind, ("", cores_text))
        if not name:
            continue
        for part, amount in (("requests", each.reservation), ("limits", each.limit)):
            hard[f"{part}.{name}"] = text(amount)
            used[f"{part}.{name}"] = text(allocated.get(each.kind, 0.0))
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {
            "name": QUOTA_NAME,
            "namespace": pool.namespace,
            "uid": f"quota-{pool.id}",
            "annotations": {POOL_PATH: pool.path},
            "creationTimestamp": time_of(pool.info.config.changeLog.createdAt),
        },
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }


def time_of(nanoseconds: int) -> str | None:
    """Return a time since 1970 as Kubernetes writes it; None for none."""
    if not nanoseconds:
        return None
    return datetime.fromtimestamp(nanoseconds // NANOSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_object(
    name: str, state: str, labels: Iterable[tuple[str, str]], amounts: Mapping[str, tuple[float, float]]
) -> Object:
    """Return the node of a host. `amounts`: by kind, what is allocated and what there is."""
    ready = state in ("UP", "DRAINING")
    capacity = _amounts({kind: there for kind, (_, there) in amounts.items()})
    free = {kind: there for kind, (_, there) in amounts.items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": f"host-{hashlib.sha256(name.encode()).hexdigest()[:32]}",
            "labels": {"kubernetes.io/hostname": name, **{key: text for key, text in labels if key}},
            "creationTimestamp": None,
        },
        "spec": {} if state == "UP" else {"unschedulable": True},
        "status": {
            "capacity": capacity,
            "allocatable": _amounts(free),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True" if ready else "False",
                    "reason": "HostIsUp" if ready else "HostIsNotUp",
                    "message": f"the host is {state}",
                    "lastHeartbeatTime": None,
                    "lastTransitionTime": None,
                }
            ],
            "addresses": [{"type": "Hostname", "address": name}],
            "nodeInfo": {
                **dict.fromkeys(
                    (
                        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage",
                        "containerRuntimeVersion", "kubeProxyVersion", "operatingSystem", "architecture",
                    ),
                    "",
                ),
                "kubeletVersion": f"peloton-{__version__}",
            },
        },
    }  # fmt: skip


def _amounts(given: Mapping[str, float]) -> dict[str, str]:
    found = {
        "cpu": cores_text(given.get("cpu", 0.0)),
        "memory": megabytes_text(given.get("memory", 0.0)),
        "ephemeral-storage": megabytes_text(given.get("disk", 0.0)),
    }
    if given.get("gpu"):
        found["nvidia.com/gpu"] = cores_text(given["gpu"])
    return found


def event_objects(pod: Mapping[str, Any], found: Iterable[task_pb2.PodEvent]) -> list[Object]:
    """Return what happened to the run of a pod, oldest first."""
    uid, metadata = pod["metadata"]["uid"], pod["metadata"]
    own = sorted((each for each in found if each.taskId.value == uid), key=lambda each: each.timestamp)
    events = []
    for each in own:
        digest = hashlib.sha256(f"{uid} {each.timestamp} {each.actualState}".encode()).hexdigest()[:16]
        when = timestamp(each.timestamp)
        words = [each.message, each.reason] if each.reason != each.message else [each.message]
        text = ": ".join(word for word in words if word) or each.actualState
        if each.actualState in ("PLACED", "LAUNCHED", "RUNNING") and each.hostname:
            text = f"{text} (host {each.hostname})"
        events.append(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{metadata['name']}.{digest}",
                    "namespace": metadata["namespace"],
                    "uid": f"event-{digest}-{uid}",
                    "creationTimestamp": when,
                },
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": metadata["name"],
                    "namespace": metadata["namespace"],
                    "uid": uid,
                },
                "type": "Warning" if each.actualState in _WARNINGS else "Normal",
                "reason": _REASONS.get(each.actualState, each.actualState.title()),
                "message": text,
                "source": {"component": "peloton", "host": each.hostname},
                "firstTimestamp": when,
                "lastTimestamp": when,
                "count": 1,
                "reportingComponent": "peloton",
                "reportingInstance": "",
            }
        )
    return events
