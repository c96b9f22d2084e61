"""The job manager's core: events in, changes and instructions out.

A turn takes a batch of events and works out what is to be stored. Once that is stored, `commit` brings the
cache up to it, and only then are the turn's instructions carried out. Turns follow one another: the next
begins after the last one's commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from jobmgr.core import launching, resmgr_events, status_updates
from jobmgr.core.job import dispatch, requests, sweeps
from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import UNBORN, CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Reply, Turn
from jobmgr.core.state.events import (
    Compared,
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
from jobmgr.core.state.instructions import Compare, Enqueue, Kill, Reconcile, Retire, Withdraw
from jobmgr.core.task.actions import Limits
from jobmgr.core.task.creation import first_runtime
from peloton.model.ids import Run
from peloton.model.states import JobState

DUE_PER_TURN = 2000


class Core:
    """All active jobs. Its methods are called by one shell, one at a time."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.active = ActiveJobs(limits or Limits())

    def turn(self, events: Sequence[Event], now: Now) -> Turn:
        """Work out what the events lead to, in their order, and what has fallen due."""
        self.active.steering.now = now
        turn = Turn(now)
        for event in events:
            turn.replies.append(_handle(self.active, turn, event))
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
                self.active.forget(change.job_id)
        return ended

    def idle_until(self) -> float | None:
        """When the next turn is due without an event; None: never."""
        if self.active.unfinished:
            return self.active.steering.now.monotonic
        return self.active.steering.deadlines.next()

    def _due(self, turn: Turn) -> None:
        keys = self.active.steering.deadlines.due(turn.now.monotonic, DUE_PER_TURN)
        for job_id, instance in keys:
            change = self.active.change(turn, job_id)
            if change is not None:
                launching.due(self.active, turn, change, instance)
        turn.more = len(keys) == DUE_PER_TURN

    def _advance(self, turn: Turn) -> None:
        """Create rows and look at tasks, up to a turn's share."""
        share = self.active.steering.limits.rows_per_turn
        while share > 0 and self.active.unfinished:
            job_id = next(iter(self.active.unfinished))
            change = self.active.change(turn, job_id)
            if change is None:
                del self.active.unfinished[job_id]
                continue
            share -= self._create(change, share)
            share -= max(sweeps.look(self.active, change, share), sweeps.compare(change, share))
            if change.unborn or change.work.unfinished:
                break
            del self.active.unfinished[job_id]
        if self.active.unfinished:
            first = next(iter(self.active.unfinished))
            self.active.unfinished[first] = self.active.unfinished.pop(first)
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
        if born:
            change.bear(born, first_runtime(change, born[0], stopped))
        if not stopped:
            for instance in born:
                work.offer(instance)
        return looked

    def _close(self, turn: Turn) -> None:
        kills: list[Run] = list(turn.orphans)
        for job_id, change in turn.changes.items():
            dispatch.feed(change)
            change.close()
            if change.gangs:
                turn.instructions.append(Enqueue(job_id, tuple(change.gangs)))
            if change.gangs_again:
                turn.instructions.append(Enqueue(job_id, tuple(change.gangs_again), again=True))
            if change.spans:
                turn.instructions.append(Compare(job_id, tuple(change.spans)))
                change.work.comparing += 1
                self.active.comparing += 1
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


def _handle(active: ActiveJobs, turn: Turn, event: Event) -> Reply:
    """Have an event handled. Returns what its sender is answered."""
    match event:
        case Statuses():
            return status_updates.received(active, turn, event)
        case JobUpdated():
            return requests.updated(active, turn, event)
        case StopAsked():
            return requests.stop(active, turn, event)
        case StartAsked():
            return requests.start(active, turn, event)
        case RestartAsked():
            return requests.restart(active, turn, event)
        case Placed() | Launched() | LaunchRefused() | LaunchUncertain():
            _handle_launch(active, turn, event)
        case (
            WaitingTold()
            | Preempted()
            | ResmgrChanged()
            | Compared()
            | Enqueued()
            | EnqueueRefused()
            | Withdrawn()
        ):
            _handle_resmgr(active, turn, event)
        case _:
            assert_never(event)
    return None


def _handle_launch(
    active: ActiveJobs, turn: Turn, event: Placed | Launched | LaunchRefused | LaunchUncertain
) -> None:
    match event:
        case Placed():
            launching.placed(active, turn, event)
        case Launched():
            launching.launched(active, turn, event)
        case LaunchRefused():
            launching.refused(active, turn, event)
        case LaunchUncertain():
            launching.uncertain(active, turn, event)
        case _:
            assert_never(event)


def _handle_resmgr(
    active: ActiveJobs,
    turn: Turn,
    event: WaitingTold | Preempted | ResmgrChanged | Compared | Enqueued | EnqueueRefused | Withdrawn,
) -> None:
    match event:
        case Enqueued():
            resmgr_events.enqueued(active, turn, event)
        case WaitingTold():
            resmgr_events.waiting(active, turn, event)
        case Preempted():
            resmgr_events.preempted(active, turn, event)
        case ResmgrChanged():
            resmgr_events.resmgr_changed(active, turn, event)
        case Compared():
            resmgr_events.compared(active, turn, event)
        case EnqueueRefused():
            resmgr_events.enqueue_refused(active, turn, event)
        case Withdrawn():
            resmgr_events.withdrawn(active, turn, event)
        case _:
            assert_never(event)
