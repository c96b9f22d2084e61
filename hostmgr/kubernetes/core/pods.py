"""Pods: which run one is, what it takes of its node, and what its containers do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hostmgr.kubernetes.core.quantities import requested
from peloton.model.pod_template import CONTAINER, MANAGED_BY
from peloton.model.resources import ZERO, Resources

PELOTON = "peloton"
"""The value of the label of pods that are runs (Kubernetes: "Recommended Labels")."""
_OVER = frozenset({"Succeeded", "Failed"})
Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True)
class Container:
    """The state of a run's container: waiting, running or terminated; empty before the kubelet knows it."""

    state: str = ""
    reason: str = ""
    message: str = ""
    exit_code: int = 0
    signal: int = 0
    at: str = ""
    """When it began to run, or ended: a time of RFC 3339."""
    ready: bool = False
    began: str = ""
    """When one that is terminated had begun to run, likewise; empty: it never did, or that is not known."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, ours or foreign."""

    namespace: str
    name: str
    uid: str
    node: str
    requests: Resources
    ports: frozenset[int]
    """Ports of the node that it uses."""
    ours: bool
    phase: str = ""
    reason: str = ""
    message: str = ""
    deleting: bool = False
    disrupted: bool = False
    """Whether Kubernetes ended it for reasons of the cluster (condition DisruptionTarget)."""
    checked: bool = False
    """Whether its health is checked."""
    container: Container = Container()
    secret: bool = False
    """Whether a Secret of its name was made for it."""
    claims: frozenset[str] = frozenset()
    """PersistentVolumeClaims that it uses."""

    @property
    def key(self) -> Key:
        """Return what identifies it at any time."""
        return self.namespace, self.name

    @property
    def over(self) -> bool:
        """Whether it has ended and uses nothing any more."""
        return self.phase in _OVER


def pod_of(wire: Mapping[str, Any], namespace: str) -> Pod:
    """Return a pod of the API; ours are in `namespace`. Raises ValueError for an amount that is none."""
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    labels = metadata.get("labels") or {}
    ours = metadata["namespace"] == namespace and labels.get(MANAGED_BY) == PELOTON
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return Pod(
        metadata["namespace"],
        metadata["name"],
        metadata.get("uid", ""),
        spec.get("nodeName") or "",
        requests_of(spec),
        _ports(spec),
        ours,
        status.get("phase") or "",
        status.get("reason") or "",
        status.get("message") or "",
        bool(metadata.get("deletionTimestamp")),
        conditions.get("DisruptionTarget") == "True",
        any("livenessProbe" in each for each in spec.get("containers") or ()),
        _container(status.get("containerStatuses") or ()) if ours else Container(),
        ours and metadata["name"] in _secrets(spec),
        frozenset(_claims(spec)) if ours else frozenset(),
    )


def _claims(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the PersistentVolumeClaims that a pod uses."""
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]


def _secrets(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the Secrets that a pod uses."""
    for volume in spec.get("volumes") or ():
        if "secret" in volume:
            yield volume["secret"].get("secretName") or ""
    for container in spec.get("containers") or ():
        for variable in container.get("env") or ():
            reference = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if reference:
                yield reference.get("name") or ""


def requests_of(spec: Mapping[str, Any]) -> Resources:
    """Return what a pod takes of its node (Kubernetes: "Resource sharing within containers").

    Init containers run one after the other before the others, but those that restart always stay; resources
    of the whole pod count in place of their sum.
    """
    running = _sum(_of_container(each) for each in spec.get("containers") or ())
    staying, most = ZERO, ZERO
    for each in spec.get("initContainers") or ():
        own = _of_container(each)
        if each.get("restartPolicy") == "Always":
            staying += own
            most = _larger(most, staying)
        else:
            most = _larger(most, staying + own)
    found = _larger(running + staying, most)
    whole = (spec.get("resources") or {}).get("requests") or {}
    if whole:
        kinds = zip(
            ("cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"),
            requested(whole).values(),
            found.values(),
            strict=True,
        )
        found = Resources(*(given if name in whole else summed for name, given, summed in kinds))
    return found + requested(spec.get("overhead") or {})


def _of_container(wire: Mapping[str, Any]) -> Resources:
    """Return what a container requests: the API server fills in requests from limits."""
    return requested((wire.get("resources") or {}).get("requests") or {})


def _sum(parts: Iterable[Resources]) -> Resources:
    return sum(parts, ZERO)


def _larger(one: Resources, other: Resources) -> Resources:
    return Resources(*map(max, one.values(), other.values()))


def _ports(spec: Mapping[str, Any]) -> frozenset[int]:
    on_host = bool(spec.get("hostNetwork"))
    ports = (port for each in spec.get("containers") or () for port in each.get("ports") or ())
    numbers = (port.get("hostPort") or (port.get("containerPort") if on_host else 0) for port in ports)
    return frozenset(number for number in numbers if number)


def _container(statuses: Iterable[Mapping[str, Any]]) -> Container:
    found = next((each for each in statuses if each.get("name") == CONTAINER), None)
    for state, body in ((found or {}).get("state") or {}).items():
        body = body or {}
        return Container(
            state,
            body.get("reason") or "",
            body.get("message") or "",
            int(body.get("exitCode") or 0),
            int(body.get("signal") or 0),
            body.get("finishedAt") or body.get("startedAt") or "",
            bool((found or {}).get("ready")),
            (body.get("startedAt") or "") if state == "terminated" else "",
        )
    return Container()
