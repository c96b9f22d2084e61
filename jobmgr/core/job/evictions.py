"""Evictions: runs that end for preemption or maintenance of their host, within the SLA of their service."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.job.availability import disruption
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import Draining, Preempted
from jobmgr.core.state.instructions import Keep
from jobmgr.core.task.status_rules import MAX_MESSAGE_CHARACTERS
from peloton.model.availability import Availability, availability_of
from peloton.model.ids import JobId, Run
from peloton.model.states import TerminationReason


class _Eviction(NamedTuple):
    instance: int
    done: str
    """The message of a run that is evicted."""
    kept: str
    """The beginning of the message of one that is not."""


def on_preempted(active: ActiveJobs, cycle: Cycle, event: Preempted) -> None:
    """Evict preempted runs that are current, as far as the SLA of their service allows.

    resmgr is told of those that are kept: it spares them, and may preempt them later.
    """
    by_job: defaultdict[JobId, list[_Eviction]] = defaultdict(list)
    for run, reason in event.runs:
        change = active.change(cycle, run.job_id)
        if change is not None and change.task(run.instance).run == run.run:
            texts = f"preempted: {reason}", f"was to be preempted ({reason})"
            by_job[run.job_id].append(_Eviction(run.instance, *texts))
    for job_id, evictions in by_job.items():
        change = active.change(cycle, job_id)
        if change is not None:
            kept = _evict(active, change, evictions, TerminationReason.PREEMPTED_RESOURCES)
            if kept:
                runs = [Run(job_id, instance, change.task(instance).run) for instance in kept]
                cycle.instructions.append(Keep(tuple(runs)))


def on_draining(active: ActiveJobs, cycle: Cycle, event: Draining) -> None:
    """Evict current runs on draining hosts, as far as the SLA of their service allows; kill the others.

    A daemon job leaves the host by itself: a draining host does not match. hostmgr reports the runs again
    until they have ended.
    """
    by_job: defaultdict[JobId, list[_Eviction]] = defaultdict(list)
    for run in event.runs:
        change = active.change(cycle, run.job_id)
        task = None if change is None else change.task(run.instance)
        if change is None or task is None or task.run != run.run:
            if task is None or run.run > task.run:
                cycle.unknown.add(run.job_id)
            if active.orphans.note_alive(run):
                cycle.orphans.setdefault(event.cluster, []).append(run)
        elif not change.follows_hosts:
            begun = event.maintenances.get(task.host, "")
            which = f"maintenance of {task.host}" + (f", {begun}" if begun else "")
            texts = which, f"to be moved for the {which}"
            by_job[run.job_id].append(_Eviction(run.instance, *texts))
    for job_id, evictions in by_job.items():
        change = active.change(cycle, job_id)
        if change is not None:
            _evict(active, change, evictions, TerminationReason.KILLED_HOST_MAINTENANCE)


def _evict(
    active: ActiveJobs, change: Change, evictions: Sequence[_Eviction], reason: TerminationReason
) -> list[int]:
    """Evict instances of one job, in order; keep those whose end would break its SLA, with the reason.

    Return those that are kept.
    """
    stay: list[int] = []
    before = disruption(change.spec, change.goal, map(change.task, range(change.size)), ())
    evicted = 0
    for instance, done, kept in evictions:
        if not active.actions.evictable(change, instance):
            continue
        serves = availability_of(change.task(instance)) is Availability.AVAILABLE
        effect = replace(before, unavailable=before.unavailable + evicted, added=int(serves))
        if effect.allowed:
            active.actions.evict(change, instance, reason, done[:MAX_MESSAGE_CHARACTERS])
            evicted += serves
            continue
        stay.append(instance)
        message = f"{kept}, but the SLA would break: {effect}"[:MAX_MESSAGE_CHARACTERS]
        if change.task(instance).message != message:
            change.revise(instance, message=message)
    return stay
