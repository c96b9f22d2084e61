"""The scheduler's mutable records: tasks, gangs, placements and holders of leases, which refer to each other.

They are slotted, because a million of them live here. Only the parts of the scheduler change them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState, TaskType
from resmgr.core.state.amounts import total_charge
from resmgr.core.state.needs import ABOVE_ALL, Needs, Shape
from resmgr.core.state.placements import NO_HOSTS, Handover
from resmgr.core.state.pool import Pool


class GangContainer(Protocol):
    """What a gang can be in: a queue, or the gangs set aside."""

    name: str

    def __iter__(self) -> Iterator[Gang]: ...

    def remove(self, gang: Gang) -> None:
        """Remove a gang. Raises KeyError where it is not in there."""
        ...


class JobTasks:
    """The current run of each instance of one job."""

    __slots__ = ("gangs", "id", "tasks")

    def __init__(self, job_id: JobId) -> None:
        self.id = job_id
        self.tasks: dict[int, Task] = {}
        self.gangs: dict[int, int] = {}
        """Instances that belong to a gang of several, also once they run: the same number for one gang."""


class Reported(NamedTuple):
    """The newest delta of a task. Tasks with the same one share it: there may be a million of them."""

    reason: str = ""
    at: float = 0.0
    """When a change of the reason was written last, in seconds on the monotonic clock; 0: never."""


NOT_REPORTED = Reported()


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
        "placement",
        "pool",
        "reason",
        "reported",
        "run",
        "since",
        "state",
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
        """When the run was enqueued; 0 where that is not known."""
        self.deadline = 0.0
        """Set by `Deadlines` only; 0: none."""
        self.host = ""
        self.desired_host = desired_host
        self.reason = ""
        """Why it waits, for a human."""
        self.reported = NOT_REPORTED
        self.placement: Placement | None = None
        self.holder: Holder | None = None
        """The process that it is leased to."""

    @property
    def key(self) -> Run:
        """Return the run's id."""
        return Run(self.job.id, self.instance, self.run)

    @property
    def orphan(self) -> bool:
        """Return whether a newer run has replaced it: it is not the run that its job has of its instance."""
        return self.job.tasks.get(self.instance) is not self

    def __repr__(self) -> str:
        return f"<{self.job.id}-{self.instance}-{self.run} {self.state.name}>"


class Attempts(NamedTuple):
    """What became of the tries to place a gang."""

    tries: int = 0
    """Failed placements since the last admission."""
    returns: int = 0
    """How often it returned to its pool's queue."""
    failed_at: float = 0.0
    """When it failed first; 0: never."""
    starts_at: float = 0.0
    """When it was expected to start, as its reservation had it first; 0: not known."""
    failure: str = ""
    """The reason of the last failed placement."""
    hosts: Mapping[str, int] = NO_HOSTS
    """The hosts examined then, by finding."""


NOT_TRIED = Attempts()


class Gang:
    """Tasks that are admitted, placed and sent back together. Members leave it when they reach a host."""

    __slots__ = (
        "admitted_from",
        "attempts",
        "charge",
        "deadline",
        "place",
        "pool",
        "queue",
        "tasks",
    )

    def __init__(self, pool: Pool, tasks: tuple[Task, ...]) -> None:
        self.pool = pool
        self.tasks = tasks
        needs = tasks[0].needs
        self.charge = needs.charge if len(tasks) == 1 else total_charge([task.needs.charge for task in tasks])
        self.place = needs.place
        """By the rank of its first task when it came: it stays when tasks leave."""
        self.queue: GangContainer | None = None
        self.admitted_from = ""
        """Name of the queue that it was admitted from last; empty: none."""
        self.attempts = NOT_TRIED
        self.deadline = 0.0
        """Set by `Deadlines` only; 0: none."""
        for task in tasks:
            task.gang = self

    @property
    def rank(self) -> int:
        """Return the rank of its first task when it came."""
        return -self.place[0]

    @property
    def type(self) -> TaskType:
        """Return the task type, which all members share."""
        return self.tasks[0].needs.type

    @property
    def priority(self) -> int:
        """Return the priority of its first task when it came."""
        return self.rank - ABOVE_ALL if self.type is TaskType.DAEMON else self.rank

    @property
    def shape(self) -> Shape:
        """Return what it requires of hosts."""
        needs = self.tasks[0].needs
        if len(self.tasks) == 1:
            return Shape(frozenset({(needs.fit, 1)}), needs.spread)
        counts = Counter(task.needs.fit for task in self.tasks)
        return Shape(frozenset(counts.items()), needs.spread)

    @property
    def preemptible(self) -> bool:
        """Return whether all members are preemptible."""
        return self.charge.non_preemptible is None

    @property
    def controller(self) -> bool:
        """Return whether a member is a controller."""
        return self.charge.controller is not None

    @property
    def revocable(self) -> bool:
        """Return whether a member is revocable."""
        return self.charge.slack is not None

    def leave(self, task: Task) -> None:
        """Remove a member; the others remain a smaller gang."""
        task.gang = None
        self.tasks = tuple(other for other in self.tasks if other is not task)
        if self.tasks:
            self.charge = total_charge([task.needs.charge for task in self.tasks])


@dataclass(slots=True, eq=False)
class Placement:
    """An accepted proposal that jobmgr has not taken yet. Tasks that return, end or are killed leave it."""

    host: str
    agent_id: str
    offer_id: str
    type: TaskType
    tasks: dict[Task, tuple[int, ...]] = field(default_factory=dict)
    """Each task with its ports."""
    owner: str = ""
    """Who owns the jobs of its tasks; empty where one job manager owns all jobs."""

    def handover(self) -> Handover:
        """Return it as jobmgr receives it."""
        return Handover(
            self.host,
            self.agent_id,
            self.offer_id,
            self.type,
            tuple(task.key for task in self.tasks),
            tuple(port for ports in self.tasks.values() for port in ports),
            tuple(map(len, self.tasks.values())),
        )


class Calls(NamedTuple):
    """The calls for gangs of a type that a process has made."""

    newest: int = 0
    """Number of the newest one."""
    handed: Sequence[Gang] = ()
    """The gangs that it got; it is not known yet whether they have arrived."""


NO_CALLS = Calls()


class Holder:
    """A process that dequeued gangs or took placements.

    `name` is `<role>/<id>`; `term` is the term of its leadership, 0 for a process without election.
    """

    __slots__ = ("_handovers", "_offers", "calls", "last_seen", "name", "tasks", "term")

    def __init__(self, name: str, term: int, now: float) -> None:
        self.name = name
        self.term = term
        self.last_seen = now
        self.tasks: dict[Task, None] = {}
        self.calls: dict[TaskType, Calls] = {}
        """Its calls for gangs, where it numbers them."""
        self._handovers: dict[str, Handover] = {}
        """Placements that it took, by the id of the host offer, oldest first."""
        self._offers: dict[Run, str] = {}
        """The placement of each of their runs that it may still launch."""

    def keep(self, given: Iterable[Handover]) -> None:
        """Record the placements that it took.

        Drop older ones of which no task is leased any more, in order: it has used or released their claims.
        """
        held = {task.key for task in self.tasks}
        while self._handovers and held.isdisjoint((first := next(iter(self._handovers.values()))).runs):
            self.drop(first)
        for each in given:
            self._handovers[each.offer_id] = each
            self._offers.update(dict.fromkeys(each.runs, each.offer_id))

    def given(self, run: Run) -> Handover | None:
        """Return the placement of a run that it may still launch."""
        return self._handovers.get(self._offers.get(run, ""))

    def launched(self, run: Run) -> None:
        """Drop the run's placement: the launch has used its claim."""
        given = self.given(run)
        if given is not None:
            self.drop(given)

    def drop(self, given: Handover) -> None:
        """Drop a placement that it took."""
        self._handovers.pop(given.offer_id, None)
        for run in given.runs:
            self._offers.pop(run, None)

    def lose(self, given: Handover, runs: Iterable[Run]) -> bool:
        """Note that runs of a placement that it took have another owner; drop it and return whether all have.

        They may get others one after the other: a dead owner's shards are divided.
        """
        for run in runs:
            self._offers.pop(run, None)
        if any(run in self._offers for run in given.runs):
            return False
        self.drop(given)
        return True

    def unused(self) -> list[Handover]:
        """Return the placements that it took and that are not known to be used.

        Their runs may have ended nevertheless: a successor finds them in the store, and Mesos does not know
        them.
        """
        return list(self._handovers.values())
