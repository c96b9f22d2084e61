"""Gangs to be placed, the hosts claimed for them, and placements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from peloton.fast_init import fast_init
from peloton.model.constraint import Constraint, Kind, Label, of_kind
from peloton.model.ids import JobId, MesosTaskId, TaskId
from peloton.model.resources import ZERO, Resources
from peloton.model.shortage import Shortage
from peloton.model.states import PlacementStrategy

UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class HostClass:
    """The conditions, apart from amounts, that a host must meet.

    A host claimed for one class is used for no other.
    """

    constraint: bytes = b""
    """The serialised constraint, for hostmgr, which evaluates its terms about hosts. Empty: any host."""
    gpu: bool = False
    """Whether hosts with GPUs are needed; they take only tasks that request GPUs."""
    tree: Constraint | None = field(default=None, compare=False)
    """The same constraint; None: any host, or one that is opaque here and left to hostmgr."""

    @property
    def depends_on_tasks(self) -> bool:
        """Whether the constraint is also about the tasks on a host."""
        return bool(of_kind(self.tree, Kind.TASK))


@dataclass(frozen=True, slots=True)
class Needs:
    """The needs of a task on its host."""

    resources: Resources
    ports: int = 0
    """Number of dynamic ports."""
    revocable: bool = False
    """Its CPU comes from the host's slack."""
    host_class: HostClass = HostClass()
    own_labels: tuple[Label, ...] = ()
    """Those of its labels that its own constraint counts, so that such tasks may be in each other's way."""


Missing = tuple[tuple[Needs, int], ...]
"""Needs of a gang, each with the number of tasks that found no room."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run to be placed."""

    id: TaskId
    run_id: MesosTaskId
    needs: Needs
    desired_host: str = ""
    """Name of the host that it should return to; empty: none."""
    labels: tuple[Label, ...] = ()
    """Its labels, which constraints of kind TASK count."""


fast_init(Task)


@dataclass(frozen=True, slots=True)
class Shape:
    """The needs of a gang, apart from its identity."""

    members: tuple[tuple[Needs, int], ...]
    """As `Gang.shape`."""
    spread: bool


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """Tasks of one job that are placed together or not at all. Compared by identity."""

    job_id: JobId
    tasks: tuple[Task, ...]
    """At least one."""
    strategy: PlacementStrategy = PlacementStrategy.PACK_HOST
    wants_reservation: bool = False
    """Whether its tries failed often enough for it to need a reserved host."""
    time_out: float = 0.0
    """Seconds that placing may take; 0: no bound of its own."""
    owner: str = ""
    """Who owns the job; empty where one job manager owns all jobs."""
    shape: tuple[tuple[Needs, int], ...] = field(init=False)
    """Distinct needs, each with the number of tasks, the largest first."""

    def __post_init__(self) -> None:
        counts: dict[Needs, int] = {}
        for task in self.tasks:
            counts[task.needs] = counts.get(task.needs, 0) + 1
        shape = counts.items() if len(counts) == 1 else sorted(counts.items(), key=_size, reverse=True)
        object.__setattr__(self, "shape", tuple(shape))

    @property
    def desired_host(self) -> str:
        """The host that its only task should return to; empty: none."""
        return self.tasks[0].desired_host if len(self.tasks) == 1 else ""

    def without_desired_host(self) -> Gang:
        """Return the gang as one that may be placed anywhere."""
        return replace(self, tasks=tuple(replace(task, desired_host="") for task in self.tasks))


def _size(part: tuple[Needs, int]) -> tuple[int, ...]:
    cpu, memory, disk, gpu = part[0].resources.values()
    return gpu, cpu, memory, disk


@dataclass(frozen=True, slots=True)
class Host:
    """A host with its free resources, claimed for one placement or, in a dry run, as it is."""

    hostname: str
    agent_id: str
    offer_id: str
    """Id of the claim."""
    host_class: HostClass | None
    """The class that it was claimed for, and whose conditions it meets but those on tasks. None: not claimed;
    the plan examines all conditions."""
    free: Resources = ZERO
    slack_cpu: int = 0
    """Revocable CPU, in thousandths of a core."""
    ports: tuple[tuple[int, int], ...] = ()
    """Free ports, as ranges with both ends inside."""
    volumes_of: frozenset[TaskId] = frozenset()
    """Tasks whose persistent volumes are on the host and not in use."""
    launches: int = UNBOUNDED
    """Number of tasks that may be launched on it now. Gangs of several tasks may exceed it, as they may be
    larger than the bound ever is."""
    labels: tuple[Label, ...] = ()
    """Its attributes, without `hostname`."""
    has_gpu: bool = False
    """Whether it has GPUs, free or not."""


fast_init(Host)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A gang without a place, and why."""

    gang: Gang
    reason: str
    counts: Mapping[str, int] = field(default_factory=dict)
    """Hosts by the lower-case name of their match result."""
    shortage: Shortage | None = None
    """Set where the gang would not fit on empty hosts either."""


TasksOnHosts = Mapping[str, Mapping[Label, int]]
"""The labels of the tasks that are placed or running on each host, by hostname, with their numbers."""
NO_TASKS: TasksOnHosts = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class HostPlacement:
    """The tasks that are placed on one host."""

    host: Host
    tasks: tuple[Task, ...]
    ports: tuple[int, ...]
    """Ports of all tasks, in the order of `tasks`."""
