"""Pods on a cluster of Kubernetes that others have made, and Peloton queues and binds to nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

from peloton.model.constraint import Constraint
from peloton.model.ids import JobId
from peloton.model.resources import ZERO, Resources
from peloton.model.shard import shard_of

SCHEDULER = "peloton"
"""The `schedulerName` of pods that Peloton is to bind."""
_MEMBERS_DIGITS = 15
"""Those of a gang's job id that follow from its pods."""
_SPACE_CHARACTERS = 18
"""Those of a gang's job id that follow from its namespace and name alone."""


@dataclass(frozen=True, slots=True)
class PodRef:
    """Names a pod for ever."""

    cluster: str
    """The name of the cluster; empty for the one without."""
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ForeignPod:
    """A pod with `schedulerName: peloton`, as its cluster has it."""

    namespace: str
    name: str
    uid: str
    created: str = ""
    """A time of RFC 3339."""
    pool: str = ""
    """The path of a pool; empty: none is named."""
    gang: str = ""
    """In its namespace; empty: it stands alone."""
    gang_size: int = 0
    priority: int = 0
    preemptible: bool = True
    resources: Resources = ZERO
    constraint: Constraint | None = None
    waits: bool = True
    """Whether it is to be bound: it is not yet, and neither ended nor being deleted."""
    refusal: str = ""
    """Why it cannot be queued as it is; empty where it can."""
    grows: bool = False
    """Whether its gang is a PodGroup: once `gang_size` of its pods are on nodes, others are queued alone."""
    bound: bool = False
    """Whether it is on a node, and neither ended nor being deleted."""

    @property
    def home(self) -> JobId:
        """Return the id whose owner, among several job managers, decides about it: one for a whole gang."""
        return gang_home(self.namespace, self.gang) if self.gang else self.uid


@dataclass(frozen=True, slots=True)
class PodChanges:
    """What has become of the pods of a cluster since an earlier answer."""

    stream: str
    last: int
    """The last change."""
    whole: bool
    """Whether these are all pods: others are gone."""
    pods: tuple[ForeignPod, ...] = ()
    gone: tuple[str, ...] = ()
    """Uids."""
    enabled: bool = True
    """Whether pods of others are taken at all. Otherwise nothing is known of them."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the owner of a pod is told by an Event of Kubernetes."""

    uid: str
    reason: str
    """One word: a later Event with the same one replaces the earlier."""
    message: str
    warning: bool = False


def gang_job_id(namespace: str, gang: str, uids: Iterable[str]) -> JobId:
    """Return the id of the job that a gang of pods is; that of a single pod is its uid.

    It is a UUID of version 8 (RFC 9562), whose first half says which gang it is. All jobs of a gang are in
    the shard of its home, so that one job manager creates and has them.
    """
    shard, space = shard_of(gang_home(namespace, gang)), _space(namespace, gang)
    members = int(_digits("\n".join(sorted(uids)))[:_MEMBERS_DIGITS], 16)
    while shard_of(job_id := _in_space(space, members)) != shard:
        members = (members + 1) % 16**_MEMBERS_DIGITS
    return job_id


def gang_home(namespace: str, gang: str) -> JobId:
    """Return the id that stands for a gang before it is whole."""
    return _in_space(_space(namespace, gang), 0)


def _in_space(space: str, members: int) -> JobId:
    digits = f"{members:0{_MEMBERS_DIGITS}x}"
    return f"{space}-8{digits[:3]}-{digits[3:]}"


def may_be_of(job_id: JobId, uid: str, namespace: str, gang: str) -> bool:
    """Return whether a pod may be in a job: whoever can make pods chooses neither uid nor namespace."""
    own = job_id == uid
    return own or bool(gang and job_id[:_SPACE_CHARACTERS] == _space(namespace, gang))


def _space(namespace: str, gang: str) -> str:
    digits = _digits(f"{namespace}\n{gang}")
    return f"{digits[:8]}-{digits[8:12]}-8{digits[12:15]}"


def _digits(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()
