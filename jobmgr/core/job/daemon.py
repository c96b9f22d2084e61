"""Daemon jobs: one instance on each host that matches, as hosts come and go (docs/behaviour/jobs.md).

An instance is for one host, which its runtime keeps as the desired host of all its runs. The row of an
instance that is removed stays, so that its runs go on counting; it is used again, for the same host if that
comes back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import NamedTuple

from jobmgr.core.job.active_jobs import ActiveJobs
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import HostsMatched
from jobmgr.core.state.instructions import FollowHosts
from jobmgr.core.task.creation import come_back, first_runtime
from peloton.model.host import HostMatch
from peloton.model.ids import JobId
from peloton.model.states import JobState, JobType, TaskState
from peloton.model.task import TaskRuntime

_NO_ROW = frozenset({TaskState.UNKNOWN, TaskState.DELETED})


class Coverage(NamedTuple):
    """What brings the instances of a daemon job to its hosts."""

    adds: tuple[tuple[int, str], ...] = ()
    """Instances to add, each with its host: new ones, removed ones, and ones that are being removed."""
    removes: tuple[int, ...] = ()


def plan(match: HostMatch, tasks: Iterable[tuple[int, TaskRuntime]]) -> Coverage:
    """Return what is missing on the hosts that match, and what is on other hosts.

    `tasks` are all instances, those that were removed among them. A host whose agent is disconnected keeps
    its instance, and so does any host while it is not known which ones are gone. A host gets the instance
    back that it had; else the lowest number that is free.
    """
    held: set[str] = set()
    leaving: dict[str, int] = {}
    removed: dict[int, str] = {}
    removes: list[int] = []
    size = 0
    for instance, task in tasks:
        host, size = task.desired_host, max(size, instance + 1)
        if task.state in _NO_ROW:
            removed[instance] = host
        elif task.goal is TaskState.DELETED:
            leaving[host] = instance
        elif host in held or match.excludes(host):
            removes.append(instance)
        else:
            held.add(host)
    return Coverage(_adds(match.hosts - held, leaving, removed, size), tuple(removes))


def _adds(
    hosts: frozenset[str], leaving: dict[str, int], removed: dict[int, str], size: int
) -> tuple[tuple[int, str], ...]:
    """Return an instance for each host: its own one, else one that was removed, else a new one."""
    own = {host: instance for instance, host in reversed(removed.items()) if host in hosts} | leaving
    taken = {own[host] for host in hosts if host in own}
    numbers = chain((instance for instance in removed if instance not in taken), count(size))
    return tuple(sorted((own[host] if host in own else next(numbers), host) for host in sorted(hosts)))


@dataclass(frozen=True, slots=True)
class _Followed:
    """What is known of the hosts of a job."""

    asked: int = 0
    """The version of the config whose hosts were asked for."""
    match: HostMatch | None = None
    version: int = 0
    """The version that the match is of."""


class Daemons:
    """The hosts of each daemon job."""

    def __init__(self) -> None:
        self.pending: dict[JobId, None] = {}
        """Jobs that are brought to their hosts in the next cycle."""
        self._followed: dict[JobId, _Followed] = {}

    def wake(self, job_id: JobId) -> None:
        """Bring the job to its hosts in the next cycle."""
        self.pending[job_id] = None

    def forget(self, job_id: JobId) -> None:
        """Let go of a job."""
        self.pending.pop(job_id, None)
        self._followed.pop(job_id, None)

    def take(self, event: HostsMatched) -> None:
        """Take the hosts of a job as they are now."""
        before = self._followed.get(event.job_id, _Followed())
        self._followed[event.job_id] = replace(before, match=event.match, version=event.version)
        self.wake(event.job_id)

    def ask(self, job_id: JobId, version: int) -> bool:
        """Return whether the hosts of this version of the config are still to be asked for, now."""
        before = self._followed.get(job_id, _Followed())
        self._followed[job_id] = replace(before, asked=version)
        return before.asked != version

    def match(self, job_id: JobId, version: int) -> HostMatch | None:
        """Return the hosts for a version of the config; None while they are not known."""
        found = self._followed.get(job_id, _Followed())
        return found.match if found.version == version else None


def advance(active: ActiveJobs, daemons: Daemons, cycle: Cycle) -> None:
    """Bring the jobs to their hosts whose hosts, goal or config has changed."""
    concerned = [job_id for job_id, change in cycle.changes.items() if _concerns(change)]
    for job_id in dict.fromkeys([*daemons.pending, *concerned]):
        daemons.pending.pop(job_id, None)
        change = active.change(cycle, job_id)
        if change is not None and change.follows_hosts and change.goal is not JobState.DELETED:
            _follow(active, daemons, cycle, change)
    cycle.more = cycle.more or bool(daemons.pending)


def _concerns(change: Change) -> bool:
    other = change.goal is not change.job.runtime.goal or change.spec is not change.job.spec
    return other and change.spec.type is JobType.DAEMON


def _follow(active: ActiveJobs, daemons: Daemons, cycle: Cycle, change: Change) -> None:
    version = change.spec.version
    if daemons.ask(change.job_id, version):
        cycle.instructions.append(FollowHosts(change.job_id))
    match = daemons.match(change.job_id, version)
    if match is None:
        return
    found = plan(match, ((instance, change.task(instance)) for instance in range(change.size)))
    adds = () if change.goal is JobState.KILLED else found.adds
    limit = active.actions.limits.rows_per_cycle
    for instance in found.removes[:limit]:
        _remove(active, change, instance)
    left = limit - len(found.removes)
    for instance, host in adds[: max(left, 0)]:
        _add(active, change, instance, host)
    if len(adds) > left or left < 0:
        daemons.wake(change.job_id)


def _add(active: ActiveJobs, change: Change, instance: int, host: str) -> None:
    task = change.task(instance)
    if task is NOT_CREATED:
        change.create([instance], replace(first_runtime(change, instance, stopped=False), desired_host=host))
    elif task.state is TaskState.DELETED:
        come_back(change, instance, task, change.spec.version, desired_host=host)
    else:
        version = change.spec.version
        change.revise(
            instance, goal=TaskState.RUNNING, desired_run=task.run + 1, desired_config_version=version
        )
        active.actions.evaluate(change, instance)
        return
    change.in_flight.mark_ready(instance)


def _remove(active: ActiveJobs, change: Change, instance: int) -> None:
    change.revise(instance, goal=TaskState.DELETED, desired_run=change.task(instance).run)
    active.actions.evaluate(change, instance)
