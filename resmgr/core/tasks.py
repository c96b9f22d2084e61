"""Tasks and gangs as the resource manager holds them, and the table of their states.

Both are slotted and mutable, because a million of them live here; only `scheduler` changes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from peloton.model.ids import JobId, Run
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TaskType
from peloton.statemachine import StateMachine

if TYPE_CHECKING:
    from resmgr.core.infeasible import Infeasible
    from resmgr.core.leases import Holder
    from resmgr.core.placements import Placement
    from resmgr.core.pools import Pool
    from resmgr.core.queues import GangQueue, ReadyQueue

Vector = tuple[int, int, int, int]
"""Thousandths by kind, in the order of `peloton.model.resources.KINDS`."""
NO_HOSTS: Mapping[str, int] = MappingProxyType({})


class Event(StrEnum):
    """What happens to a task in the resource manager."""

    ADMIT = "admit"
    DEQUEUE = "dequeue"
    RESERVE = "reserve"
    PLACE = "place"
    HAND_OVER = "hand over"
    RETRY = "retry"
    """Back to the ready queue, its allocation kept."""
    RETURN = "return"
    """Back to its pool's queue, its allocation freed."""
    TAKE_BACK = "take back"
    """The answer that handed it out did not reach the caller."""
    LAUNCHED = "launched"
    STARTING = "starting"
    RUNNING = "running"
    KILL = "kill"
    PREEMPT = "preempt"
    SPARE = "spare"
    """Nobody took it from the preemption queue in time."""
    END = "end"


_S = TaskState
_ON_ITS_WAY = (_S.PENDING, _S.READY, _S.PLACING, _S.PLACED, _S.LAUNCHING, _S.RESERVED)
_ON_HOST = (_S.LAUNCHED, _S.STARTING, _S.RUNNING, _S.KILLING, _S.PREEMPTING)

STATES: StateMachine[TaskState, Event] = StateMachine(
    "resmgr task",
    {
        (_S.PENDING, Event.ADMIT): _S.READY,
        (_S.READY, Event.DEQUEUE): _S.PLACING,
        (_S.READY, Event.RESERVE): _S.RESERVED,
        (_S.PLACING, Event.RESERVE): _S.RESERVED,
        (_S.PLACING, Event.PLACE): _S.PLACED,
        (_S.RESERVED, Event.PLACE): _S.PLACED,
        (_S.PLACED, Event.HAND_OVER): _S.LAUNCHING,
        # A gang goes back whole, from wherever its members are.
        (_S.READY, Event.RETRY): _S.READY,
        (_S.PLACING, Event.RETRY): _S.READY,
        (_S.RESERVED, Event.RETRY): _S.READY,
        (_S.PLACED, Event.RETRY): _S.READY,
        (_S.LAUNCHING, Event.RETRY): _S.READY,
        (_S.READY, Event.RETURN): _S.PENDING,
        (_S.PLACING, Event.RETURN): _S.PENDING,
        (_S.RESERVED, Event.RETURN): _S.PENDING,
        (_S.PLACED, Event.RETURN): _S.PENDING,
        (_S.LAUNCHING, Event.RETURN): _S.PENDING,
        (_S.PLACING, Event.TAKE_BACK): _S.READY,
        (_S.LAUNCHING, Event.TAKE_BACK): _S.PLACED,
        # A status says that the run is on a host: true whatever was thought before, and never a step back.
        **{(state, Event.LAUNCHED): _S.LAUNCHED for state in (*_ON_ITS_WAY, _S.LAUNCHED)},
        **{(state, Event.STARTING): _S.STARTING for state in (*_ON_ITS_WAY, _S.LAUNCHED, _S.STARTING)},
        **{
            (state, Event.RUNNING): _S.RUNNING
            for state in (*_ON_ITS_WAY, _S.LAUNCHED, _S.STARTING, _S.RUNNING)
        },
        (_S.STARTING, Event.LAUNCHED): _S.STARTING,
        (_S.RUNNING, Event.LAUNCHED): _S.RUNNING,
        (_S.RUNNING, Event.STARTING): _S.RUNNING,
        **{
            (state, event): state
            for state in (_S.KILLING, _S.PREEMPTING)
            for event in (Event.LAUNCHED, Event.STARTING, Event.RUNNING)
        },
        **{(state, Event.KILL): _S.KILLING for state in (_S.LAUNCHING, *_ON_HOST)},
        (_S.RUNNING, Event.PREEMPT): _S.PREEMPTING,
        (_S.PREEMPTING, Event.SPARE): _S.RUNNING,
        **{(state, Event.END): _S.DELETED for state in (*_ON_ITS_WAY, *_ON_HOST)},
    },
)
"""Behaviour 7.4. PENDING is the only state without allocation; DELETED is forgotten at once."""

OBSERVED = {
    _S.LAUNCHED: Event.LAUNCHED,
    _S.STARTING: Event.STARTING,
    _S.RUNNING: Event.RUNNING,
    _S.KILLING: Event.KILL,
    _S.SUCCEEDED: Event.END,
    _S.FAILED: Event.END,
    _S.LOST: Event.END,
    _S.KILLED: Event.END,
    _S.DELETED: Event.END,
}
"""What a state means that Mesos or jobmgr reports of a run."""

BEFORE_LAUNCH = frozenset(_ON_ITS_WAY)
IN_ENGINE = frozenset({_S.PLACING, _S.RESERVED})
ON_HOST = frozenset(_ON_HOST)


@dataclass(frozen=True, slots=True)
class Charge:
    """What a gang (or a task) adds to a pool's sums; None where it adds nothing."""

    firm: Vector | None
    """Of tasks that are not revocable."""
    slack: Vector | None
    """Of revocable tasks; its cpu is slack cpu."""
    non_preemptible: Vector | None
    controller: Vector | None
    entitled: Vector = field(init=False)
    """What it takes of the pool's entitlement: all of it but the slack cpu."""

    def __post_init__(self) -> None:
        slack = (0, *self.slack[1:]) if self.slack is not None else None
        entitled = together(part for part in (self.firm, slack) if part is not None)
        object.__setattr__(self, "entitled", entitled)


@dataclass(frozen=True, slots=True)
class Fit:
    """What decides which hosts could take a task."""

    resources: Resources
    ports: int
    revocable: bool
    constraint: bytes


@dataclass(frozen=True, slots=True)
class Shape:
    """What a gang asks of hosts."""

    members: frozenset[tuple[Fit, int]]
    """With the number of its tasks that ask for that."""
    spread: bool
    """Each of its tasks goes on a host of its own."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Needs:
    """What a run asks for: shared by all tasks that ask for the same."""

    resources: Resources
    priority: int = 0
    preemptible: bool = False
    controller: bool = False
    revocable: bool = False
    type: TaskType = TaskType.BATCH
    ports: int = 0
    """Number of dynamic ports."""
    payload: bytes = b""
    """What the wire says beyond that, opaque here."""
    constraint: bytes = b""
    """Which hosts will do, serialised and opaque here; empty: any."""
    spread: bool = False
    """No two such tasks of a job go on one host."""
    charge: Charge = field(init=False)

    def __post_init__(self) -> None:
        amount = self.resources.values()
        charge = Charge(
            firm=None if self.revocable else amount,
            slack=amount if self.revocable else None,
            non_preemptible=None if self.preemptible else amount,
            controller=amount if self.controller else None,
        )
        object.__setattr__(self, "charge", charge)

    @property
    def fit(self) -> Fit:
        return Fit(self.resources, self.ports, self.revocable, self.constraint)


class JobTasks:
    """The current run of each instance of one job."""

    __slots__ = ("gangs", "id", "tasks")

    def __init__(self, job_id: JobId) -> None:
        self.id = job_id
        self.tasks: dict[int, Task] = {}
        self.gangs: dict[int, int] = {}
        """Instances that belong to a gang of several, also once they run: the same number for one gang."""


class Task:
    """One run of one instance."""

    __slots__ = (
        "deadline",
        "desired_host",
        "enqueued",
        "gang",
        "holder",
        "host",
        "instance",
        "job",
        "needs",
        "orphan",
        "placement",
        "pool",
        "reason",
        "run",
        "since",
        "state",
        "told",
        "told_at",
    )

    def __init__(
        self,
        job: JobTasks,
        instance: int,
        run: int,
        needs: Needs,
        pool: Pool,
        state: TaskState,
        now: float,
        desired_host: str = "",
    ) -> None:
        self.job = job
        self.instance = instance
        self.run = run
        self.needs = needs
        self.pool = pool
        self.gang: Gang | None = None
        """None once it is on a host."""
        self.state = state
        self.since = now
        self.enqueued = now
        """When the run came; 0 where that is not known."""
        self.deadline = 0.0
        self.host = ""
        self.desired_host = desired_host
        self.reason = ""
        """Why it is where it is, for a human."""
        self.told = ""
        """The reason that was last told to whoever listens."""
        self.told_at = 0.0
        self.placement: Placement | None = None
        self.holder: Holder | None = None
        """Whom it is leased to."""
        self.orphan = False
        """Whether a newer run has taken its place."""

    @property
    def key(self) -> Run:
        return Run(self.job.id, self.instance, self.run)

    def __repr__(self) -> str:
        return f"<{self.job.id}-{self.instance}-{self.run} {self.state.name}>"


class Gang:
    """Tasks that are admitted, placed and sent back together. Members leave it when they reach a host."""

    __slots__ = (
        "charge",
        "cycles",
        "deadline",
        "failure",
        "hosts",
        "pool",
        "priority",
        "queue",
        "tasks",
        "tries",
    )

    def __init__(self, pool: Pool, tasks: tuple[Task, ...]) -> None:
        self.pool = pool
        self.tasks = tasks
        self.charge = charge_of(tasks)
        self.priority = tasks[0].needs.priority
        self.queue: GangQueue | ReadyQueue | Infeasible | None = None
        self.tries = 0
        """Failed placements since it was last admitted."""
        self.cycles = 0
        """How often it was sent back to its pool's queue."""
        self.failure = ""
        """What was said of the last placement that failed."""
        self.hosts: Mapping[str, int] = NO_HOSTS
        """The hosts that were looked at then, by what was found about them."""
        self.deadline = 0.0
        for task in tasks:
            task.gang = self

    @property
    def type(self) -> TaskType:
        return self.tasks[0].needs.type

    @property
    def shape(self) -> Shape:
        """What it asks of hosts."""
        needs = self.tasks[0].needs
        if len(self.tasks) == 1:
            return Shape(frozenset({(needs.fit, 1)}), needs.spread)
        counts = Counter(task.needs.fit for task in self.tasks)
        return Shape(frozenset(counts.items()), needs.spread)

    @property
    def preemptible(self) -> bool:
        return self.charge.non_preemptible is None

    @property
    def controller(self) -> bool:
        return self.charge.controller is not None

    @property
    def revocable(self) -> bool:
        return self.charge.slack is not None

    def leave(self, task: Task) -> None:
        """Take a member out; what is left is a smaller gang."""
        task.gang = None
        self.tasks = tuple(other for other in self.tasks if other is not task)
        if self.tasks:
            self.charge = charge_of(self.tasks)


def charge_of(tasks: Sequence[Task]) -> Charge:
    """What the tasks add together."""
    if len(tasks) == 1:
        return tasks[0].needs.charge
    charges = [task.needs.charge for task in tasks]
    return Charge(
        firm=_together(charge.firm for charge in charges),
        slack=_together(charge.slack for charge in charges),
        non_preemptible=_together(charge.non_preemptible for charge in charges),
        controller=_together(charge.controller for charge in charges),
    )


def _together(parts: Iterable[Vector | None]) -> Vector | None:
    there = [part for part in parts if part is not None]
    return together(there) if there else None


def together(parts: Iterable[Vector]) -> Vector:
    """Their sum."""
    cpu = memory = disk = gpu = 0
    for part in parts:
        cpu += part[0]
        memory += part[1]
        disk += part[2]
        gpu += part[3]
    return cpu, memory, disk, gpu
