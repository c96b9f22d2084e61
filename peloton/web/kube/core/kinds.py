"""The kinds that are served."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind, as discovery names it."""

    group: str
    version: str
    kind: str
    plural: str
    verbs: tuple[str, ...]
    short: tuple[str, ...] = ()
    namespaced: bool = True
    categories: tuple[str, ...] = ()
    subresources: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    """Name, kind as `group/version/kind`, and verbs."""

    @property
    def api_version(self) -> str:
        """Return group and version as objects have them."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        """Return the name of one of them."""
        return self.kind.lower()


_READ = ("get", "list", "watch")
_ALL = ("create", "delete", "get", "list", "patch", "update", "watch")


def _status(kind: str) -> tuple[str, str, tuple[str, ...]]:
    """Return the subresource that is read as the object itself is."""
    return ("status", kind, ("get",))


JOB = Kind("batch", "v1", "Job", "jobs", _ALL, categories=("all",), subresources=(_status("batch/v1/Job"),))
CRON_JOB = Kind(
    "batch", "v1", "CronJob", "cronjobs", _ALL, ("cj",), categories=("all",),
    subresources=(_status("batch/v1/CronJob"),),
)  # fmt: skip
POD = Kind(
    "", "v1", "Pod", "pods", ("delete", *_READ), ("po",), categories=("all",),
    subresources=(("log", "/v1/Pod", ("get",)), ("exec", "/v1/PodExecOptions", ("create", "get")),
                  _status("/v1/Pod")),
)  # fmt: skip
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", _READ, ("ns",), namespaced=False)
NODE = Kind("", "v1", "Node", "nodes", _READ, ("no",), namespaced=False)
EVENT = Kind("", "v1", "Event", "events", _READ, ("ev",))
DEPLOYMENT = Kind(
    "apps", "v1", "Deployment", "deployments", _ALL, ("deploy",), categories=("all",),
    subresources=(
        ("scale", "autoscaling/v1/Scale", ("get", "patch", "update")), _status("apps/v1/Deployment"),
    ),
)  # fmt: skip
DAEMON_SET = Kind(
    "apps", "v1", "DaemonSet", "daemonsets", _ALL, ("ds",), categories=("all",),
    subresources=(_status("apps/v1/DaemonSet"),),
)  # fmt: skip
STATEFUL_SET = Kind(
    "apps", "v1", "StatefulSet", "statefulsets", _ALL, ("sts",), categories=("all",),
    subresources=(
        ("scale", "autoscaling/v1/Scale", ("get", "patch", "update")), _status("apps/v1/StatefulSet"),
    ),
)  # fmt: skip
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", _READ, ("rs",), categories=("all",))
CONTROLLER_REVISION = Kind("apps", "v1", "ControllerRevision", "controllerrevisions", _READ)
PRIORITY_CLASS = Kind(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", _READ, ("pc",), namespaced=False
)
RESOURCE_QUOTA = Kind("", "v1", "ResourceQuota", "resourcequotas", ("patch", "update", *_READ), ("quota",))
SECRET = Kind("", "v1", "Secret", "secrets", _ALL)
KINDS = (
    JOB, CRON_JOB, POD, NAMESPACE, NODE, EVENT, DEPLOYMENT, DAEMON_SET, STATEFUL_SET, REPLICA_SET,
    CONTROLLER_REVISION, PRIORITY_CLASS, RESOURCE_QUOTA, SECRET,
)  # fmt: skip
WORKLOADS = {kind.kind: kind for kind in (JOB, CRON_JOB, DEPLOYMENT, DAEMON_SET, STATEFUL_SET)}
"""Kinds that are jobs of ours, by their names."""


def find(group: str, version: str, plural: str) -> Kind | None:
    """Return the kind of a path; None for one that is not served."""
    for kind in KINDS:
        if (kind.group, kind.version, kind.plural) == (group, version, plural):
            return kind
    return None
