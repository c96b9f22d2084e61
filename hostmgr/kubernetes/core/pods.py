"""Pods: which run one is, what it takes of its node, and what its containers do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hostmgr.kubernetes.core.quantities import requested
from peloton.errors import InvalidArgument
from peloton.model.foreign_pod import SCHEDULER, may_be_of
from peloton.model.ids import MesosTaskId, parse_mesos_task_id
from peloton.model.pod_template import CONTAINER, MANAGED_BY
from peloton.model.resources import ZERO, Resources

PELOTON = "peloton"
"""The value of the label of pods that are runs (Kubernetes: "Recommended Labels")."""
RUN, GANG, GANG_SIZE = "peloton/run", "peloton/gang", "peloton/gang-size"
"""Annotations of pods of others: the run by which one was bound to its node, its gang, that gang's size."""
POD_GROUP = "scheduling.x-k8s.io/pod-group"
"""The label with the PodGroup of a pod (Kubernetes SIGs: coscheduling)."""
EARLIER_POD_GROUP = "pod-group.scheduling.sigs.k8s.io"
"""The label that it had before: it counts where there are PodGroups only."""
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
    bound_by: MesosTaskId = ""
    """The run by which the pod of somebody else was bound to its node; it is ours, too, then."""

    @property
    def foreign(self) -> bool:
        """Whether somebody else has made it, and Peloton has bound it."""
        return bool(self.bound_by)

    @property
    def run(self) -> MesosTaskId:
        """Return the run of a pod that is ours: its name, unless it was only bound."""
        return self.bound_by or self.name

    @property
    def key(self) -> Key:
        """Return what identifies it at any time."""
        return self.namespace, self.name

    @property
    def over(self) -> bool:
        """Whether it has ended and uses nothing any more."""
        return self.phase in _OVER


def pod_of(wire: Mapping[str, Any], namespace: str, foreign: bool = False) -> Pod:
    """Return a pod of the API; ours are in `namespace`. Raises ValueError for an amount that is none.

    With `foreign` those of others that were bound by a run are ours, too.
    """
    metadata, spec, status = wire["metadata"], wire.get("spec") or {}, wire.get("status") or {}
    labels = metadata.get("labels") or {}
    made = metadata["namespace"] == namespace and labels.get(MANAGED_BY) == PELOTON
    bound_by = _bound_by(wire) if foreign and is_foreign(wire, namespace) else ""
    ours = made or bool(bound_by)
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
        _container(status.get("containerStatuses") or (), made) if ours else Container(),
        made and metadata["name"] in _secrets(spec),
        frozenset(_claims(spec)) if made else frozenset(),
        bound_by,
    )


def is_foreign(wire: Mapping[str, Any], namespace: str) -> bool:
    """Return whether somebody else has made a pod for Peloton to bind. `namespace` has only pods of ours."""
    scheduler = (wire.get("spec") or {}).get("schedulerName")
    return bool(scheduler == SCHEDULER and wire["metadata"]["namespace"] != namespace)


def gang_of(wire: Mapping[str, Any]) -> str:
    """Return the name of the gang that a pod of somebody else is of; empty: it stands alone."""
    metadata = wire["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    return str(annotations.get(GANG) or labels.get(POD_GROUP) or "")


def group_of(wire: Mapping[str, Any]) -> str:
    """Return the PodGroup that says the size of a pod's gang; empty where an annotation does it, or none."""
    metadata = wire["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    if annotations.get(GANG) or GANG_SIZE in annotations:
        return ""
    return str(labels.get(POD_GROUP) or labels.get(EARLIER_POD_GROUP) or "")


def _bound_by(wire: Mapping[str, Any]) -> MesosTaskId:
    """Return the run by which a pod was bound; empty where it was not, or where it cannot be of that run."""
    metadata = wire["metadata"]
    run = (metadata.get("annotations") or {}).get(RUN, "")
    if not run or not (wire.get("spec") or {}).get("nodeName"):
        return ""
    try:
        job_id = parse_mesos_task_id(run).job_id
    except InvalidArgument:
        return ""
    gang = gang_of(wire) or (metadata.get("labels") or {}).get(EARLIER_POD_GROUP, "")
    return run if may_be_of(job_id, metadata["uid"], metadata["namespace"], gang) else ""


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


def _container(statuses: Iterable[Mapping[str, Any]], made: bool) -> Container:
    """Return the container of a pod that we have made, or the one of another that tells most of its end."""
    named = (each for each in statuses if each.get("name") == CONTAINER)
    found = next(named, None) if made else max(statuses, key=_telling, default=None)
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


def _telling(status: Mapping[str, Any]) -> int:
    """Return how much a container tells of the end of its pod: most, where it has failed."""
    ended = (status.get("state") or {}).get("terminated")
    return 0 if ended is None else 2 if ended.get("exitCode") else 1
