"""The job manager's core: events in, changes and instructions out.

A turn takes a batch of events and works out what is to be stored. Once that is stored, `commit` brings the
cache up to it, and only then are the turn's instructions carried out. Turns follow one another: the next
begins after the last one's commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobmgr.core import asking, feed, launching, reports
from jobmgr.core.cache import UNBORN, CachedJob
from jobmgr.core.change import Change, Stamps
from jobmgr.core.events import (
    Enqueued,
    EnqueueRefused,
    Event,
    JobUpdated,
    Launched,
    LaunchRefused,
    LaunchUncertain,
    Now,
    Placed,
    Preempted,
    ResmgrChanged,
    RestartAsked,
    StartAsked,
    Statuses,
    StopAsked,
    WaitingTold,
    Withdrawn,
)
from jobmgr.core.instructions import Enqueue, Instruction, Kill, Reconcile, Retire, Withdraw
from jobmgr.core.steering import LONGEST_MESSAGE, NO_PORTS, Limits, Steering
from jobmgr.core.work import Busy, Work
from peloton.model.ids import JobId, Run
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, Termination

DUE_PER_TURN = 2000
_BEFORE_LAUNCH = frozenset({TaskState.INITIALIZED, TaskState.PENDING})


@dataclass(slots=True)
class Turn:
    """What one turn decided."""

    now: Now
    changes: dict[JobId, Change] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    replies: list[Any] = field(default_factory=list)
    """What each event is answered with; a PelotonError where it was refused."""
    reconcile: list[tuple[Run, str]] = field(default_factory=list)
    orphans: list[Run] = field(default_factory=list)
    more: bool = False
    """Whether the next turn has something to do even without an event."""


class Core:
    """All active jobs. Its methods are called by one shell, one at a time."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.jobs: dict[JobId, Work] = {}
        self.steering = Steering(limits or Limits())
        self.orphans = reports.Orphans()
        self._stamps = Stamps()
        self._busy_jobs: dict[JobId, None] = {}
        """Jobs with rows to be created or tasks to be looked at, oldest first."""
        self._handlers: Mapping[type, Callable[[Turn, Any], Any]] = {
            JobUpdated: lambda turn, event: asking.updated(self, turn, event),
            StopAsked: lambda turn, event: asking.stop(self, turn, event),
            StartAsked: lambda turn, event: asking.start(self, turn, event),
            RestartAsked: lambda turn, event: asking.restart(self, turn, event),
            Statuses: lambda turn, event: reports.received(self, turn, event),
            Placed: lambda turn, event: launching.placed(self, turn, event),
            Launched: lambda turn, event: launching.launched(self, turn, event),
            LaunchRefused: lambda turn, event: launching.refused(self, turn, event),
            LaunchUncertain: lambda turn, event: launching.uncertain(self, turn, event),
            WaitingTold: self._waiting,
            Preempted: self._preempted,
            ResmgrChanged: self._resmgr_changed,
            Enqueued: self._enqueued,
            EnqueueRefused: self._enqueue_refused,
            Withdrawn: self._withdrawn,
        }

    # Turns.

    def turn(self, events: Sequence[Event], now: Now) -> Turn:
        """Work out what the events lead to, in their order, and what has fallen due."""
        self.steering.now = now
        turn = Turn(now)
        for event in events:
            turn.replies.append(self._handlers[type(event)](turn, event))
        self._due(turn)
        self._advance(turn)
        self._close(turn)
        return turn

    def commit(self, turn: Turn) -> list[CachedJob]:
        """The turn's changes are stored. Returns the jobs that have ended and are let go of."""
        ended = []
        for change in turn.changes.values():
            change.commit()
            if change.job.runtime.state.terminal and not change.unborn:
                ended.append(change.job)
                self.forget(change.job_id)
        return ended

    def idle_until(self) -> float | None:
        """When the next turn is due without an event; None: never."""
        if self._busy_jobs:
            return self.steering.now.monotonic
        return self.steering.deadlines.next()

    def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime) -> None:
        """Take a job that was just stored; its tasks follow in the turns to come."""
        if job_id in self.jobs:
            return
        self.jobs[job_id] = Work(CachedJob(job_id, spec, runtime))
        self.create_rows(job_id)

    def recover(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
    ) -> None:
        """Take an active job from the store; its tasks are looked at in the turns that follow."""
        self.forget(job_id)
        self.jobs[job_id] = Work(_cached(job_id, spec, runtime, rows), recovered=True)
        self.sweep(job_id)

    def refresh(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
    ) -> None:
        """Take what the store holds of a job that is known; what is under way for it goes on."""
        work = self.jobs[job_id]
        job = _cached(job_id, spec, runtime, rows)
        job.waiting = work.job.waiting
        work.job, work.unborn = job, 0
        self.sweep(job_id)

    def forget(self, job_id: JobId) -> None:
        """Let go of a job."""
        work = self.jobs.pop(job_id, None)
        self._busy_jobs.pop(job_id, None)
        if work is not None:
            for instance in range(len(work.job.tasks)):
                self.steering.deadlines.cancel((job_id, instance))

    # For the handlers.

    def change(self, turn: Turn, job_id: JobId) -> Change | None:
        """What this turn changes about a job; None where it is not active."""
        change = turn.changes.get(job_id)
        if change is None:
            work = self.jobs.get(job_id)
            if work is None:
                return None
            change = turn.changes[job_id] = Change(work, self._stamps, turn.now.wall)
        return change

    def sweep(self, job_id: JobId) -> None:
        """Look at all of a job's tasks anew, in this turn and those that follow."""
        self.jobs[job_id].sweep_anew()
        self._busy_jobs[job_id] = None

    def create_rows(self, job_id: JobId) -> None:
        self._busy_jobs[job_id] = None

    # Events.

    def _waiting(self, turn: Turn, event: WaitingTold) -> None:
        for run, state, reason in event.deltas:
            work = self.jobs.get(run.job_id)
            if work is not None:
                work.job.told(run.instance, run.run, state, reason)

    def _preempted(self, turn: Turn, event: Preempted) -> None:
        for run, reason in event.runs:
            change = self.change(turn, run.job_id)
            if change is not None and change.task(run.instance).run == run.run:
                self.steering.evict(change, run.instance, f"preempted: {reason}"[:LONGEST_MESSAGE])

    def _resmgr_changed(self, turn: Turn, event: ResmgrChanged) -> None:
        for job_id in self.jobs:
            change = self.change(turn, job_id)
            if change is not None and change.counts.get(TaskState.PENDING):
                instances = range(change.spec.instance_count)
                change.work.escaped.update(i for i in instances if change.task(i).state is TaskState.PENDING)

    def _enqueued(self, turn: Turn, event: Enqueued) -> None:
        change = self.change(turn, event.job_id)
        if change is None:
            return
        current = [i for i, run in event.runs if change.task(i).run == run]
        for instance in current:
            change.work.free(instance, Busy.ENQUEUE)
        fresh = [i for i in current if change.task(i).state is TaskState.INITIALIZED]
        change.move_all(fresh, state=TaskState.PENDING, reason="")
        for instance in current:
            self.steering.evaluate(change, instance)

    def _enqueue_refused(self, turn: Turn, event: EnqueueRefused) -> None:
        change = self.change(turn, event.job_id)
        if change is None:
            return
        for instance, run in event.runs:
            if change.task(instance).run == run and change.work.busy.get(instance) is Busy.ENQUEUE:
                self.steering.pause(change, instance, event.message)

    def _withdrawn(self, turn: Turn, event: Withdrawn) -> None:
        change = self.change(turn, event.job_id)
        if change is None:
            return
        for instance, run in event.runs:
            task = change.task(instance)
            if task.run != run:
                continue
            change.work.free(instance, Busy.WITHDRAW)
            if task.state in _BEFORE_LAUNCH:
                self.steering.end_unlaunched(change, instance, "stopped before it was launched")
            else:
                self.steering.evaluate(change, instance)

    # Time.

    def _due(self, turn: Turn) -> None:
        keys = self.steering.deadlines.due(turn.now.monotonic, DUE_PER_TURN)
        for job_id, instance in keys:
            change = self.change(turn, job_id)
            if change is not None:
                launching.due(self, turn, change, instance)
        turn.more = len(keys) == DUE_PER_TURN

    def _advance(self, turn: Turn) -> None:
        """Create rows and look at tasks, up to a turn's share."""
        share = self.steering.limits.rows_per_turn
        while share > 0 and self._busy_jobs:
            job_id = next(iter(self._busy_jobs))
            change = self.change(turn, job_id)
            if change is None:
                del self._busy_jobs[job_id]
                continue
            share -= self._create(change, share)
            if share > 0:
                share -= self._look(change, share)
            if change.unborn or change.work.sweep is not None:
                break
            del self._busy_jobs[job_id]
        if self._busy_jobs:
            first = next(iter(self._busy_jobs))
            self._busy_jobs[first] = self._busy_jobs.pop(first)
            turn.more = True

    def _create(self, change: Change, share: int) -> int:
        """Give the next instances that have no row theirs; how many were looked at."""
        work, count = change.work, change.spec.instance_count
        if work.unborn >= count or not change.unborn:
            work.unborn = count
            return 0
        end = min(work.unborn + share, count)
        born = [i for i in range(work.unborn, end) if change.task(i) is UNBORN]
        looked, work.unborn = end - work.unborn, end
        stopped = change.goal in (JobState.KILLED, JobState.DELETED)
        change.bear(born, _first_runtime(change, stopped))
        if not stopped:
            for instance in born:
                work.offer(instance)
        return looked

    def _look(self, change: Change, share: int) -> int:
        work = change.work
        if work.sweep is None:
            return 0
        first, count = work.sweep, change.spec.instance_count
        end = min(first + share, count)
        for instance in range(first, end):
            if change.task(instance) is not UNBORN:
                launching.resume(self, change, instance)
        work.sweep = None if end == count else end
        return end - first

    def _close(self, turn: Turn) -> None:
        kills: list[Run] = list(turn.orphans)
        for job_id, change in turn.changes.items():
            feed.feed(change)
            change.close()
            if change.gangs:
                turn.instructions.append(Enqueue(job_id, tuple(change.gangs)))
            if change.withdrawals:
                turn.instructions.append(Withdraw(job_id, tuple(change.withdrawals)))
            kills += (Run(job_id, instance, run) for instance, run in change.kills)
            state = change.job.runtime.state if change.runtime is None else change.runtime.state
            if state.terminal and not change.unborn:
                turn.instructions.append(Retire(job_id))
        if kills:
            turn.instructions.append(Kill(tuple(kills)))
        if turn.reconcile:
            turn.instructions.append(Reconcile(tuple(turn.reconcile)))


def _cached(
    job_id: JobId, spec: JobSpec, runtime: JobRuntime, rows: Iterable[Mapping[int, TaskRuntime]]
) -> CachedJob:
    job = CachedJob(job_id, spec, runtime)
    for page in rows:
        for instance, task in page.items():
            if instance < spec.instance_count:
                job.put(instance, task)
    return job


def _first_runtime(change: Change, stopped: bool) -> TaskRuntime:
    """What a new instance starts with; one of a job that is being stopped ends at once."""
    version, now = change.spec.version, change.stamp()
    return TaskRuntime(
        state=TaskState.KILLED if stopped else TaskState.INITIALIZED,
        goal=TaskState.KILLED if stopped else TaskState.SUCCEEDED,
        run=1,
        config_version=version,
        desired_config_version=version,
        desired_run=1,
        ports=NO_PORTS,
        completion_time=now if stopped else 0,
        termination=Termination(TerminationReason.KILLED_ON_REQUEST) if stopped else None,
        message="stopped before it was enqueued" if stopped else "",
        created_at=now,
        updated_at=now,
    )
