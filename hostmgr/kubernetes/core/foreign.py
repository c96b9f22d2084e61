"""Pods of others that name Peloton as their scheduler: what they ask for, and what cannot be kept."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hostmgr.kubernetes.core.nodes import TAINT, Taint, Toleration
from hostmgr.kubernetes.core.pods import GANG_SIZE, gang_of, group_of, is_foreign, requests_of
from hostmgr.kubernetes.core.quantities import CPU, DISK, GPU, MEMORY
from peloton.model.cluster import LABEL
from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, Label, LabelConstraint
from peloton.model.foreign_pod import ForeignPod

POOL, PREEMPTIBLE = "peloton/pool", "peloton/preemptible"
"""Annotations of pods; beside them those of gangs."""
MOST_MEMBERS = 10_000
_RIGHT_SIZE = f"the number of its pods, from 1 to {MOST_MEMBERS}"
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_COUNTED = frozenset({CPU, MEMORY, DISK, GPU})
_OVER = ("Succeeded", "Failed")
_REPELLING = ("NoSchedule", "NoExecute")
_PATHS = {
    "nodeAffinity": "say by spec.nodeSelector which nodes will do",
    "podAffinity": "leave it out, or make it preferred",
    "podAntiAffinity": "leave it out, or make it preferred",
}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class ForeignRules:
    """Which pods of others are taken."""

    enabled: bool = False
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """The paths of the pools of pods that name none, by their namespaces."""
    cluster: str = ""


NO_PODS = ForeignRules()


def foreign_of(
    wire: Mapping[str, Any], own: str, rules: ForeignRules, taints: Iterable[Taint] = ()
) -> ForeignPod | None:
    """Return a pod of the API that Peloton is to bind; None for another one. `own`: the own namespace.

    Of a pod that names a PodGroup, `pod_groups.grouped` says the size of its gang.

    `taints` are those of nodes that are offered to tasks: they keep away pods that do not tolerate them.
    """
    metadata, spec = wire["metadata"], wire.get("spec") or {}
    if not rules.enabled or not is_foreign(wire, own):
        return None
    annotations = metadata.get("annotations") or {}
    phase = (wire.get("status") or {}).get("phase")
    held = spec.get("nodeName") or spec.get("schedulingGates") or metadata.get("deletionTimestamp")
    pool = annotations.get(POOL) or rules.namespaces.get(metadata["namespace"], "")
    size = annotations.get(GANG_SIZE, "")
    return ForeignPod(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata.get("creationTimestamp") or "",
        pool,
        gang_of(wire),
        int(size) if _NUMBER.fullmatch(size) else 0,
        max(0, int(spec.get("priority") or 0)),
        annotations.get(PREEMPTIBLE, "true") == "true",
        requests_of(spec),
        _constraint(spec, rules.cluster, taints),
        not held and phase not in _OVER,
        next(_refusals(wire, pool), ""),
        bound=_on_node(wire),
    )


def _on_node(wire: Mapping[str, Any]) -> bool:
    """Return whether a pod takes room of a node, and goes on to do so."""
    deleting = wire["metadata"].get("deletionTimestamp")
    over = (wire.get("status") or {}).get("phase") in _OVER
    return bool((wire.get("spec") or {}).get("nodeName")) and not deleting and not over


def _refusals(wire: Mapping[str, Any], pool: str) -> Iterator[str]:
    """Yield why a pod cannot be queued as it is."""
    metadata, spec = wire["metadata"], wire.get("spec") or {}
    if not pool:
        where = f"the setting kubernetes.foreign_pods.namespaces of hostmgr for {metadata['namespace']}"
        yield f"no pool is named: give the annotation {POOL}, such as /team/batch, or {where}"
    if gang_of(wire) and not group_of(wire) and GANG_SIZE not in (metadata.get("annotations") or {}):
        yield size_missing(gang_of(wire))
    yield from _wrong_annotations(metadata.get("annotations") or {}, gang_of(wire))
    yield from _not_counted(spec)
    yield from _not_kept(spec)
    if not any(requests_of(spec).values()):
        yield "it requests nothing: give spec.containers[0].resources.requests, at least cpu or memory"


def size_missing(gang: str) -> str:
    """Return why a pod of a gang cannot be queued whose size nobody says."""
    return f"it is of the gang {gang!r}, and the annotation {GANG_SIZE} is missing: give {_RIGHT_SIZE}"


def _wrong_annotations(annotations: Mapping[str, str], gang: str) -> Iterator[str]:
    size, preemptible = annotations.get(GANG_SIZE), annotations.get(PREEMPTIBLE, "true")
    if size is not None and not (_NUMBER.fullmatch(size) and int(size) <= MOST_MEMBERS):
        yield f"the annotation {GANG_SIZE} is {size!r}: give {_RIGHT_SIZE}"
    if size is not None and not gang:
        yield f"the annotation {GANG_SIZE} is {size!r} without a gang: name it by peloton/gang"
    if preemptible not in ("true", "false"):
        yield f"the annotation {PREEMPTIBLE} is {preemptible!r}: give true or false"


def _not_counted(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a pod requests that Peloton does not count."""
    for kind in ("containers", "initContainers"):
        for number, container in enumerate(spec.get(kind) or ()):
            for name, amount in ((container.get("resources") or {}).get("requests") or {}).items():
                if name not in _COUNTED:
                    path = f"spec.{kind}[{number}].resources.requests[{name}]"
                    yield f"{path} is {amount!r}: Peloton places by {', '.join(sorted(_COUNTED))} alone"


def _not_kept(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield what Kubernetes' own scheduler would keep, and Peloton does not."""
    for kind, remedy in _PATHS.items():
        if ((spec.get("affinity") or {}).get(kind) or {}).get(_REQUIRED):
            yield f"spec.affinity.{kind}.{_REQUIRED} is not kept: {remedy}"
    for number, each in enumerate(spec.get("topologySpreadConstraints") or ()):
        if each.get("whenUnsatisfiable") == "DoNotSchedule":
            yield f"spec.topologySpreadConstraints[{number}] is not kept: make it ScheduleAnyway"
    for number, volume in enumerate(spec.get("volumes") or ()):
        for kind in ("persistentVolumeClaim", "ephemeral"):
            if kind in volume:
                yield f"spec.volumes[{number}].{kind} is not kept: Peloton binds no claims of such pods"
    if spec.get("resourceClaims"):
        yield "spec.resourceClaims is not kept: Peloton allocates no devices by claims"
    for number, container in enumerate(spec.get("containers") or ()):
        for place, port in enumerate(container.get("ports") or ()):
            if port.get("hostPort"):
                path = f"spec.containers[{number}].ports[{place}].hostPort"
                yield f"{path} is {port['hostPort']}: Peloton takes no ports of nodes for such pods"


def _constraint(spec: Mapping[str, Any], cluster: str, taints: Iterable[Taint]) -> Constraint | None:
    """Return which nodes will do, by labels that hosts have."""
    wanted = [(LABEL, cluster)] if cluster else []
    wanted += sorted((spec.get("nodeSelector") or {}).items())
    tolerations = [_toleration(each) for each in spec.get("tolerations") or ()]
    repelled = {
        (TAINT + taint.key, taint.value)
        for taint in taints
        if taint.effect in _REPELLING and not any(each.tolerates(taint) for each in tolerations)
    }
    parts = [_times(label, 1) for label in wanted] + [_times(label, 0) for label in sorted(repelled)]
    return None if not parts else parts[0] if len(parts) == 1 else AndConstraint(tuple(parts))


def _times(label: Label, count: int) -> LabelConstraint:
    return LabelConstraint(Kind.HOST, Condition.EQUAL, label, count)


def _toleration(wire: Mapping[str, Any]) -> Toleration:
    value = "" if wire.get("operator") == "Exists" else wire.get("value") or ""
    return Toleration(wire.get("key") or "", value, wire.get("effect") or "")
