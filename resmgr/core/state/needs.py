"""What a run requests, and what decides which hosts can take it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from peloton.model.constraint import Label
from peloton.model.host_class import ANY_HOST, HostClass
from peloton.model.ids import JobId
from peloton.model.resources import Resources
from peloton.model.states import TaskType
from resmgr.core.state.amounts import Charge

ABOVE_ALL = 1 << 32
"""More than any priority, which has 32 bits."""


@dataclass(frozen=True, slots=True)
class Fit:
    """The part of a task's needs that decides which hosts can take it."""

    resources: Resources
    ports: int
    revocable: bool
    constraint: bytes
    host_pool: str = ""
    own_labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """What a gang requires of hosts."""

    members: frozenset[tuple[Fit, int]]
    """Each with the number of tasks that require it."""
    spread: bool
    """Whether each task goes on a host of its own."""


Place = tuple[int, float]
"""A place in a queue, lowest first: the negated rank, and the turn that an order has given."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Needs:
    """What a run requests. All tasks that request the same share one object."""

    resources: Resources
    priority: int = 0
    preemptible: bool = False
    controller: bool = False
    revocable: bool = False
    type: TaskType = TaskType.BATCH
    ports: int = 0
    """Number of dynamic ports."""
    payload: bytes = b""
    """The remaining fields of the wire's message, opaque here."""
    constraint: bytes = b""
    """The constraint on hosts, serialized and opaque here; empty: any host."""
    labels: tuple[Label, ...] = ()
    """Labels of the task, for constraints of others."""
    own_labels: tuple[Label, ...] = ()
    """Those of its labels that its own constraint counts, so that such tasks may be in each other's way."""
    host_pool: str = ""
    """The host pool that the task gets by its kind where host pools are on; empty: none."""
    spread: bool = False
    """Whether no two such tasks of a job may share a host."""
    asked: HostClass = ANY_HOST
    """The class of hosts that the task asks for. GPUs are added from the resources."""
    max_unavailable: int = 0
    """Instances of its service that may be unavailable at a time, by its SLA; 0: any number."""
    extra: bool = False
    """Whether it is a member of an elastic gang beyond its minimum."""
    charge: Charge = field(init=False)
    rank: int = field(init=False)
    """The order in queues, high first: tasks of daemon jobs are placed before all others."""
    place: Place = field(init=False)
    """The same as a place in a queue, lowest first."""

    def __post_init__(self) -> None:
        amount = self.resources.values()
        charge = Charge(
            firm=None if self.revocable else amount,
            slack=amount if self.revocable else None,
            non_preemptible=None if self.preemptible else amount,
            controller=amount if self.controller else None,
            asked=self.asked._replace(gpu=amount[3] > 0) if amount[3] else self.asked,
        )
        object.__setattr__(self, "charge", charge)
        above = ABOVE_ALL if self.type is TaskType.DAEMON else 0
        rank = self.priority + above
        object.__setattr__(self, "rank", rank)
        object.__setattr__(self, "place", (-rank, 0.0))

    @property
    def fit(self) -> Fit:
        """Return what decides which hosts can take it."""
        return Fit(
            self.resources, self.ports, self.revocable, self.constraint, self.host_pool, self.own_labels
        )


class NewTask(NamedTuple):
    """A run that requests resources, or that is found to hold them."""

    job_id: JobId
    instance: int
    run: int
    needs: Needs
    desired_host: str = ""
    gang_size: int = 1
    """The job's instances below this number are one gang; 1: none are."""
    host: str = ""
    """Where the run is already; empty: nowhere."""


@dataclass(frozen=True, slots=True)
class NewAlone:
    """New runs of different instances of one job that need the same, each a gang by itself; at least one."""

    job_id: JobId
    needs: Needs
    runs: Sequence[tuple[int, int, str]]
    """Instance, run and desired host of each."""

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self.runs)

    def each(self) -> Iterator[NewTask]:
        """Iterate over the runs."""
        for instance, run, desired_host in self.runs:
            yield NewTask(self.job_id, instance, run, self.needs, desired_host, 1)
