"""Gangs that want a place, and hosts that were claimed for them."""

from __future__ import annotations

from dataclasses import dataclass, field

from peloton.model.ids import JobId, MesosTaskId, TaskId
from peloton.model.resources import ZERO, Resources
from peloton.model.states import PlacementStrategy

UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class HostClass:
    """What decides, apart from amounts, which hosts may take a task. A host that was claimed for one class is
    given to no other."""

    constraint: bytes = b""
    """The serialised constraint, opaque here: hostmgr has matched it. Empty: any host."""
    gpu: bool = False
    """Hosts with GPUs take only tasks that ask for some."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a task asks of its host."""

    resources: Resources
    ports: int = 0
    """Dynamic ones."""
    revocable: bool = False
    """Its CPU comes from the host's slack."""
    host_class: HostClass = HostClass()


@dataclass(frozen=True, slots=True)
class Task:
    id: TaskId
    run_id: MesosTaskId
    needs: Needs


@dataclass(frozen=True, slots=True)
class Shape:
    """What a gang asks of hosts."""

    members: tuple[tuple[Needs, int], ...]
    """As `Gang.shape`."""
    spread: bool


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """Tasks of one job that are placed all or none. Equal to itself only."""

    job_id: JobId
    tasks: tuple[Task, ...]
    """At least one."""
    strategy: PlacementStrategy = PlacementStrategy.PACK_HOST
    wants_reservation: bool = False
    """Enough tries failed: it asks for a reserved host."""
    time_out: float = 0.0
    """Seconds that placing may take; 0: no bound of its own."""
    shape: tuple[tuple[Needs, int], ...] = field(init=False)
    """Its distinct needs with the number of tasks that have each, the largest first."""

    def __post_init__(self) -> None:
        counts: dict[Needs, int] = {}
        for task in self.tasks:
            counts[task.needs] = counts.get(task.needs, 0) + 1
        shape = counts.items() if len(counts) == 1 else sorted(counts.items(), key=_size, reverse=True)
        object.__setattr__(self, "shape", tuple(shape))


def _size(part: tuple[Needs, int]) -> tuple[int, ...]:
    cpu, memory, disk, gpu = part[0].resources.values()
    return gpu, cpu, memory, disk


@dataclass(frozen=True, slots=True)
class Host:
    """A claimed host and what its offers hold. It is used for one placement."""

    hostname: str
    agent_id: str
    offer_id: str
    """The claim."""
    host_class: HostClass
    """What it was claimed for."""
    free: Resources = ZERO
    slack_cpu: int = 0
    """Revocable CPU, in thousandths of a core."""
    ports: tuple[tuple[int, int], ...] = ()
    """Free ports, as ranges with both ends inside."""
    launches: int = UNBOUNDED
    """How many tasks may be launched on it now. Gangs of several are not held to it: they may be larger than
    it ever is."""


@dataclass(frozen=True, slots=True)
class Use:
    """The tasks that go to one host."""

    host: Host
    tasks: tuple[Task, ...]
    ports: tuple[int, ...]
    """Each task's, in the order of `tasks`."""


@dataclass(frozen=True, slots=True)
class Filling:
    """What hosts and gangs come to."""

    uses: tuple[Use, ...]
    placed: tuple[Gang, ...]
    left: tuple[Gang, ...]
    """In the order in which they came."""
    missing: tuple[tuple[Needs, int], ...] = ()
    """For the first of `left`: its needs, with the number of its tasks that found no room."""
