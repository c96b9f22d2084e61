"""The job manager's core: events in, changes and instructions out.

A cycle takes a batch of events and decides what to store. Once that is stored, `commit` brings the cache up
to it, and then the cycle's instructions are carried out. A cycle begins after the commit of the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import assert_never

from jobmgr.core.job import daemon, gangs
from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.dependencies import on_dependency_seen, on_pause_asked, on_schedule_moved
from jobmgr.core.job.dispatch import dispatch
from jobmgr.core.job.evictions import on_draining, on_preempted
from jobmgr.core.job.releases import on_release_requested, on_reuse_requested
from jobmgr.core.job.relocation import on_relocation_requested
from jobmgr.core.job.requests import (
    on_job_goal_requested,
    on_job_updated,
    on_restart_requested,
    on_start_requested,
    on_stop_requested,
    on_volume_deletion_requested,
)
from jobmgr.core.job.suspension import on_suspension_asked
from jobmgr.core.job.sweeps import compare, create, evaluate
from jobmgr.core.launching import (
    advance_elastic,
    on_deadline,
    on_launch_refused,
    on_launch_uncertain,
    on_launched,
    on_placed,
    on_secret_missing,
    start_gathered,
)
from jobmgr.core.resmgr_events import (
    on_compared,
    on_enqueue_refused,
    on_enqueued,
    on_pending_reasons,
    on_resmgr_changed,
    on_withdrawn,
)
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle, Reply
from jobmgr.core.state.events import (
    Compared,
    DependencySeen,
    Draining,
    Enqueued,
    EnqueueRefused,
    Event,
    HostsMatched,
    JobEvent,
    JobGoalRequested,
    JobUpdated,
    Launched,
    LaunchRefused,
    LaunchUncertain,
    Now,
    PauseAsked,
    PendingReasons,
    Placed,
    Preempted,
    ReleaseRequested,
    RelocationRequested,
    ResmgrChanged,
    RestartRequested,
    ReuseRequested,
    Sampled,
    ScheduleMoved,
    SecretMissing,
    StartRequested,
    Statuses,
    StopRequested,
    SuspensionAsked,
    VolumeDeletionRequested,
    Withdrawn,
    WorkflowRepeated,
    WorkflowRequested,
    WorkflowSteered,
)
from jobmgr.core.state.instructions import (
    Compare,
    DestroyVolume,
    Enqueue,
    Kill,
    Prune,
    Reconcile,
    Retire,
    Withdraw,
)
from jobmgr.core.state.limits import Limits
from jobmgr.core.status_updates import on_sampled, on_statuses
from jobmgr.core.task.deadlines import GATHERING
from jobmgr.core.task.returns import hold_instructions
from jobmgr.core.workflow import requests as workflow_requests
from jobmgr.core.workflow import rounds
from peloton.model.cluster import cluster_of
from peloton.model.ids import JobId, Run
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, JobType
from peloton.model.workflow import WHOLE_WORKFLOW, Workflow

DUE_PER_CYCLE = 2000
"""Deadlines."""


class Core:
    """The core of one lane. One caller at a time calls its methods."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.active = ActiveJobs(limits or Limits())
        self.rollouts = rounds.Rollouts()
        self.daemons = daemon.Daemons()

    def run_cycle(self, events: Sequence[Event], now: Now, most: int | None = None) -> Cycle:
        """Decide what follows from events, in their order, and from deadlines that have passed.

        `most`: of deadlines, and of tasks that are created or evaluated, fewer than the usual number.
        """
        self.active.actions.set_now(now)
        cycle = Cycle(now)
        for event in events:
            cycle.replies.append(self._answer(cycle, event))
        self._handle_deadlines(cycle, DUE_PER_CYCLE if most is None else min(most, DUE_PER_CYCLE))
        rows = self.active.actions.limits.rows_per_cycle
        self._advance(cycle, rows if most is None else min(most, rows))
        daemon.advance(self.active, self.daemons, cycle)
        rounds.advance(self.active, self.rollouts, cycle)
        self._advance_elastic(cycle)
        self._close(cycle)
        return cycle

    def commit(self, cycle: Cycle) -> list[CachedJob]:
        """Bring the cache up to a cycle that is stored; remove and return the jobs that have ended."""
        # A later cycle has seen the cache without this one's changes, and would be stored over them.
        newest = self.active.actions.now
        assert cycle.now is newest, f"the cycle of {cycle.now} is not the newest, which is of {newest}"
        ended = []
        for change in cycle.changes.values():
            change.commit()
            if change.job.runtime.state.terminal and not change.incomplete and not change.lives_on:
                ended.append(change.job)
                self.forget(change.job_id)
        return ended

    def recover(self, job: CachedJob) -> None:
        """Take an active job that was read from the store, with the workflow that runs."""
        self.active.recover(job)
        self._wake(job)

    def refresh(self, job: CachedJob) -> None:
        """Take what was read from the store of a job that is known."""
        self.active.refresh(job)
        self._wake(job)

    def create(self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, workflow: Workflow | None) -> None:
        """Take a job that was just stored, with the workflow that adds its instances, if any."""
        self.active.create(job_id, spec, runtime, workflow)
        if workflow is not None:
            self.rollouts.wake(job_id)
        if spec.type is JobType.DAEMON:
            self.daemons.wake(job_id)

    def forget(self, job_id: JobId) -> None:
        """Let go of a job."""
        self.active.remove(job_id)
        self.rollouts.forget(job_id)
        self.daemons.forget(job_id)

    def _wake(self, job: CachedJob) -> None:
        if job.spec.type is JobType.DAEMON:
            self.daemons.wake(job.job_id)
        self.rollouts.forget(job.job_id)
        if job.workflow is not None and not job.workflow.state.terminal:
            self.rollouts.wake(job.job_id)

    def _answer(self, cycle: Cycle, event: Event) -> Reply:
        """Have an event handled. Returns what its sender is answered."""
        match event:
            case WorkflowRequested():
                return workflow_requests.asked(self.active, self.rollouts, cycle, event)
            case WorkflowSteered():
                return workflow_requests.steered(self.active, self.rollouts, cycle, event)
            case WorkflowRepeated():
                return workflow_requests.repeated(self.active, cycle, event)
            case HostsMatched():
                if event.job_id in self.active.jobs:
                    self.daemons.take(event)
                return None
            case _:
                return _handle(self.active, cycle, event)

    def idle_until(self) -> float | None:
        """Return when the next cycle is due without an event, in monotonic seconds; None: never."""
        if self.active.unfinished or self.rollouts.pending or self.daemons.pending:
            return self.active.actions.now.monotonic
        return self.active.actions.deadlines.next()

    def _handle_deadlines(self, cycle: Cycle, most: int) -> None:
        keys = self.active.actions.deadlines.due(cycle.now.monotonic, most)
        for job_id, instance in keys:
            if instance == WHOLE_WORKFLOW:
                self.rollouts.wake(job_id)
                continue
            change = self.active.change(cycle, job_id)
            if change is None:
                continue
            if instance == GATHERING:
                start_gathered(self.active, cycle, change)
            else:
                on_deadline(self.active, cycle, change, instance)
        cycle.more = len(keys) == most

    def _advance(self, cycle: Cycle, share: int) -> None:
        """Create, evaluate and compare tasks, up to a share."""
        unfinished = self.active.unfinished
        while share > 0 and unfinished:
            job_id = next(iter(unfinished))
            change = self.active.change(cycle, job_id)
            if change is None:
                del unfinished[job_id]
                continue
            share -= create(change, share)
            share -= max(evaluate(self.active, change, share), compare(change, share))
            if (change.incomplete and not change.waits) or change.in_flight.unfinished:
                break
            del unfinished[job_id]
        if unfinished:
            first = next(iter(unfinished))
            unfinished[first] = unfinished.pop(first)
            cycle.more = True

    def _advance_elastic(self, cycle: Cycle) -> None:
        """Advance the elastic gangs among the jobs that change.

        A placement with which one starts may hold runs of other jobs: these then change, too.
        """
        seen = 0
        while seen < len(cycle.changes):
            further = tuple(islice(cycle.changes.values(), seen, None))
            seen += len(further)
            for change in further:
                if change.spec.workload.elastic:
                    gangs.advance(self.active, change)
                    advance_elastic(self.active, cycle, change)

    def _close(self, cycle: Cycle) -> None:
        """Compute the runtimes of jobs, and gather the instructions."""
        kills = {cluster: list(runs) for cluster, runs in cycle.orphans.items()}
        held: dict[str, list[tuple[Run, str]]] = {}
        for job_id, change in cycle.changes.items():
            if change.in_flight.gang_due:
                gangs.advance(self.active, change)
            dispatch(self.active.actions, change)
            change.close()
            self._instruct(cycle, job_id, change)
            cycle.instructions += hold_instructions(change)
            for cluster, runs in change.kills.items():
                kills.setdefault(cluster, []).extend(Run(job_id, *run) for run in runs)
            for run, host in change.held:
                held.setdefault(cluster_of(host), []).append((Run(job_id, *run), host))
        for cluster, killed in kills.items():
            cycle.instructions.append(Kill(tuple(killed), tuple(held.get(cluster, ())), cluster))
        for cluster, unclear in cycle.reconcile.items():
            cycle.instructions.append(Reconcile(tuple(unclear), cluster))

    def _instruct(self, cycle: Cycle, job_id: JobId, change: Change) -> None:
        instructions = cycle.instructions
        if change.gangs:
            instructions.append(Enqueue(job_id, tuple(change.gangs)))
        if change.gangs_again:
            instructions.append(Enqueue(job_id, tuple(change.gangs_again), again=True))
        if change.spans:
            instructions.append(Compare(job_id, tuple(change.spans)))
            change.in_flight.comparing += 1
            self.active.comparing += 1
        if change.withdrawals:
            instructions.append(Withdraw(job_id, tuple(change.withdrawals)))
        state = change.job.runtime.state if change.runtime is None else change.runtime.state
        if state.terminal and not change.incomplete and not change.lives_on:
            instructions.append(Retire(job_id, delete=change.goal is JobState.DELETED))
        instructions += (DestroyVolume(each) for each in change.volumes.values() if each.to_destroy)
        before, workflow = change.job.workflow, change.workflow
        if before is not None and workflow is not None and workflow.id != before.id:
            instructions.append(Prune(job_id, workflow.id))


def _handle(active: ActiveJobs, cycle: Cycle, event: JobEvent) -> Reply:
    """Handle an event that is not about a workflow; return the answer to its sender."""
    match event:
        case Statuses():
            return on_statuses(active, cycle, event)
        case Sampled():
            on_sampled(active, event)
        case JobUpdated():
            return on_job_updated(active, cycle, event)
        case ReleaseRequested():
            return on_release_requested(active, cycle, event)
        case RelocationRequested():
            return on_relocation_requested(active, cycle, event)
        case ReuseRequested():
            return on_reuse_requested(active, cycle, event)
        case StopRequested():
            return on_stop_requested(active, cycle, event)
        case StartRequested():
            return on_start_requested(active, cycle, event)
        case RestartRequested():
            return on_restart_requested(active, cycle, event)
        case JobGoalRequested():
            return on_job_goal_requested(active, cycle, event)
        case DependencySeen():
            on_dependency_seen(active, cycle, event)
        case PauseAsked():
            return on_pause_asked(active, cycle, event)
        case SuspensionAsked():
            return on_suspension_asked(active, cycle, event)
        case ScheduleMoved():
            return on_schedule_moved(active, cycle, event)
        case VolumeDeletionRequested():
            return on_volume_deletion_requested(active, cycle, event)
        case Placed() | Launched() | LaunchRefused() | LaunchUncertain() | SecretMissing():
            _handle_launch(active, cycle, event)
        case (
            PendingReasons()
            | Preempted()
            | Draining()
            | ResmgrChanged()
            | Compared()
            | Enqueued()
            | EnqueueRefused()
            | Withdrawn()
        ):
            _handle_resmgr(active, cycle, event)
        case _:
            assert_never(event)
    return None


def _handle_launch(
    active: ActiveJobs,
    cycle: Cycle,
    event: Placed | Launched | LaunchRefused | LaunchUncertain | SecretMissing,
) -> None:
    match event:
        case Placed():
            on_placed(active, cycle, event)
        case Launched():
            on_launched(active, cycle, event)
        case LaunchRefused():
            on_launch_refused(active, cycle, event)
        case LaunchUncertain():
            on_launch_uncertain(active, cycle, event)
        case SecretMissing():
            on_secret_missing(active, cycle, event)
        case _:
            assert_never(event)


def _handle_resmgr(
    active: ActiveJobs,
    cycle: Cycle,
    event: PendingReasons
    | Preempted
    | Draining
    | ResmgrChanged
    | Compared
    | Enqueued
    | EnqueueRefused
    | Withdrawn,
) -> None:
    match event:
        case Enqueued():
            on_enqueued(active, cycle, event)
        case PendingReasons():
            on_pending_reasons(active, cycle, event)
        case Preempted():
            on_preempted(active, cycle, event)
        case Draining():
            on_draining(active, cycle, event)
        case ResmgrChanged():
            on_resmgr_changed(active, cycle, event)
        case Compared():
            on_compared(active, cycle, event)
        case EnqueueRefused():
            on_enqueue_refused(active, cycle, event)
        case Withdrawn():
            on_withdrawn(active, cycle, event)
        case _:
            assert_never(event)
