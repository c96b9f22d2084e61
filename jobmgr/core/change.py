"""What one turn changes about one job: laid over the cache until it is stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from operator import attrgetter
from typing import Unpack

from jobmgr.core.cache import UNBORN
from jobmgr.core.events import RunOf, Span
from jobmgr.core.in_flight import Work
from jobmgr.core.job.state import MACHINE, batch_cause
from jobmgr.core.task.moves import Cause, Details, state_after
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import PodEvent, TaskRuntime

_NAMES = tuple(each.name for each in fields(TaskRuntime))
_values = attrgetter(*_NAMES)
_SETTERS = {name: TaskRuntime.__dict__[name].__set__ for name in _NAMES}
_ALL_SETTERS = tuple(_SETTERS.values())
_set_state, _set_revision = _SETTERS["state"], _SETTERS["revision"]
_set_updated_at = _SETTERS["updated_at"]


def evolved(old: TaskRuntime, state: TaskState, updated_at: int, details: Details) -> TaskRuntime:
    """Return the next revision of a runtime. As `dataclasses.replace`, in half the time: every step of every
    run comes through here."""
    new: TaskRuntime = object.__new__(TaskRuntime)
    for put, value in zip(_ALL_SETTERS, _values(old), strict=True):
        put(new, value)
    for name, changed in details.items():
        _SETTERS[name](new, changed)
    _set_state(new, state)
    _set_revision(new, old.revision + 1)
    _set_updated_at(new, updated_at)
    return new


def pod_event(job_id: JobId, instance: int, task: TaskRuntime) -> PodEvent:
    """The task's last step, as its history keeps it."""
    return PodEvent(
        job_id,
        instance,
        task.run,
        task.state,
        task.goal,
        task.updated_at,
        task.config_version,
        task.desired_config_version,
        task.previous_run,
        task.desired_run,
        task.agent_id,
        task.host,
        task.message,
        task.reason,
        task.health,
    )


class Stamps:
    """Wall times that never repeat: an instance's history is kept by time."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self, wall: int) -> int:
        self.last = wall if wall > self.last else self.last + 1
        return self.last


class Change:
    """Reading gives what will be; writing stays here until `commit`."""

    __slots__ = (
        "_births",
        "_now",
        "_ran",
        "_stamps",
        "_usage",
        "counts",
        "events",
        "gangs",
        "gangs_again",
        "goal",
        "job",
        "kills",
        "runtime",
        "spans",
        "spec",
        "tasks",
        "withdrawals",
        "work",
    )

    def __init__(self, work: Work, stamps: Stamps, wall: int) -> None:
        job = work.job
        self.job = job
        self.work = work
        self.spec: JobSpec = job.spec
        self.goal: JobState = job.runtime.goal
        self.tasks: dict[int, TaskRuntime] = {}
        self.counts: dict[TaskState, int] = dict(job.counts)
        self.events: list[PodEvent] = []
        self.runtime: JobRuntime | None = None
        self.gangs: list[tuple[RunOf, ...]] = []
        self.gangs_again: list[tuple[RunOf, ...]] = []
        """Those that had been enqueued before."""
        self.spans: list[Span] = []
        """Runs of which it is asked whether resmgr holds them."""
        self.withdrawals: list[RunOf] = []
        self.kills: list[RunOf] = []
        self._usage: dict[str, float] = {}
        self._births: dict[int, int] = {}
        self._ran = False
        self._stamps = stamps
        self._now = wall

    @property
    def job_id(self) -> JobId:
        return self.job.job_id

    def task(self, instance: int) -> TaskRuntime:
        """UNBORN where there is no such instance, or no row yet."""
        held = self.tasks.get(instance)
        if held is not None:
            return held
        tasks = self.job.tasks
        return tasks[instance] if 0 <= instance < len(tasks) else UNBORN

    def stamp(self) -> int:
        """A wall time for what is made now."""
        return self._stamps.next(self._now)

    def bear(self, instances: Iterable[int], task: TaskRuntime) -> None:
        """Give these instances, which have no row, their first one, which they share."""
        version = task.config_version
        for instance in instances:
            self.tasks[instance] = task
            self._births[version] = self._births.get(version, 0) + 1
            self.events.append(pod_event(self.job_id, instance, task))
            self._count(task.state, 1)

    def move(self, instance: int, cause: Cause, **details: Unpack[Details]) -> TaskRuntime:
        """Take a task to the state that `cause` leads to; a step of its run becomes an event of its history.

        Raises IllegalTransition where the table of moves holds no such step."""
        old = self.task(instance)
        state = state_after(self.job_id, instance, old, cause)
        new = evolved(old, state, self.stamp(), details)
        self._put(instance, old, new)
        return new

    def move_all(self, instances: Iterable[int], cause: Cause, **details: Unpack[Details]) -> None:
        """As `move`; those that share a runtime go on sharing one."""
        stamp = self.stamp()
        made: dict[int, TaskRuntime] = {}
        for instance in instances:
            old = self.task(instance)
            new = made.get(id(old))
            if new is None:
                state = state_after(self.job_id, instance, old, cause)
                new = made[id(old)] = evolved(old, state, stamp, details)
            self._put(instance, old, new)

    def revise(self, instance: int, **details: Unpack[Details]) -> TaskRuntime:
        """Set fields of a task that stays in its state."""
        old = self.task(instance)
        new = evolved(old, old.state, self.stamp(), details)
        self._put(instance, old, new)
        return new

    def amend(self, instance: int, **details: Unpack[Details]) -> TaskRuntime:
        """Set fields of a task whose run has ended, from a status that came late. The event of its end, the
        task's last step, takes the new message and reason."""
        old = self.task(instance)
        new = self.tasks[instance] = evolved(old, old.state, old.updated_at, details)
        if new.start_time and not old.start_time:
            self._ran = True
        if not self.retell(instance, new.run, new.state, new.message, new.reason):
            self.events.append(pod_event(self.job_id, instance, new))
        return new

    def retell(self, instance: int, run: int, state: TaskState, message: str, reason: str) -> bool:
        """Give an event of this turn other words; whether there is one."""
        for at in range(len(self.events) - 1, -1, -1):
            event = self.events[at]
            if (event.instance, event.run, event.state) == (instance, run, state):
                self.events[at] = replace(event, message=message, reason=reason)
                return True
        return False

    def use(self, amounts: dict[str, float]) -> None:
        """Add to what the job has used, limit × seconds by kind."""
        for kind, amount in amounts.items():
            self._usage[kind] = self._usage.get(kind, 0.0) + amount

    def grow(self, spec: JobSpec) -> None:
        self.spec = spec

    @property
    def unborn(self) -> bool:
        """Whether there are instances without a row."""
        return sum(self.counts.values()) < self.spec.instance_count

    def close(self) -> None:
        """Work out the job's own runtime, where it changes."""
        old = self.job.runtime
        spec = self.spec
        controller = self.task(0).state if spec.controlled else None
        cause = batch_cause(self.counts, spec.instance_count, self.goal, controller)
        state = MACHINE.next(old.state, cause, self.job_id)
        if not self.tasks and state is old.state and self.goal is old.goal and spec is self.job.spec:
            return
        now = self.stamp()
        self.runtime = replace(
            old,
            state=state,
            goal=self.goal,
            config_version=spec.version,
            start_time=old.start_time or (now if self._ran else 0),
            completion_time=(old.completion_time or now) if state.terminal else 0,
            task_counts=self.counts,
            config_counts=self._config_counts(old),
            resource_usage=self._used(old),
            revision=old.revision + 1,
            updated_at=now,
        )

    def commit(self) -> None:
        """It is stored: the cache follows."""
        job = self.job
        if self.spec is not job.spec:
            job.grow(self.spec)
        tasks, waiting = job.tasks, job.waiting
        for instance, task in self.tasks.items():
            tasks[instance] = task
            if waiting and task.state is not TaskState.PENDING:
                waiting.pop(instance, None)
        job.counts = self.counts
        if self.runtime is not None:
            job.runtime = self.runtime

    @property
    def empty(self) -> bool:
        return not self.tasks and self.runtime is None

    def _put(self, instance: int, old: TaskRuntime, new: TaskRuntime) -> None:
        self.tasks[instance] = new
        if new.start_time and not old.start_time:
            self._ran = True
        if new.state is not old.state or new.run != old.run or new.health is not old.health:
            self.events.append(pod_event(self.job_id, instance, new))
        if new.state is not old.state:
            self._count(old.state, -1)
            self._count(new.state, 1)

    def _count(self, state: TaskState, step: int) -> None:
        count = self.counts.get(state, 0) + step
        if count:
            self.counts[state] = count
        else:
            del self.counts[state]

    def _config_counts(self, old: JobRuntime) -> dict[int, int]:
        counts = dict(old.config_counts)
        for version, births in self._births.items():
            counts[version] = counts.get(version, 0) + births
        return counts

    def _used(self, old: JobRuntime) -> dict[str, float]:
        used = dict(old.resource_usage)
        for kind, amount in self._usage.items():
            used[kind] = used.get(kind, 0.0) + amount
        return used
