"""Why a job's instances wait: numbers, shares of pools, and what would help."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client.remedies import remedies
from peloton.client.texts import spans
from peloton.client.why import (
    ENDED,
    UNKNOWN_TO_RESMGR,
    Group,
    explanation_lines,
    not_enqueued,
    waiting_groups,
)
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.formats import KINDS, amount, seconds_of
from peloton.wire.job import job_spec

_RUN = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(\d+)-\d+")
"""A run, by the job's id, the instance and the number of the run."""
SHOWN = 20
"""Groups that a page shows."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """What a pool has of one kind, as texts, and as parts of the bar's whole."""

    pool: str
    kind: str
    allocation: str
    entitlement: str
    demand: str
    reservation: str
    limit: str
    held: float
    due: float
    wanted: float


@dataclass(frozen=True, slots=True)
class Waiting:
    """Instances that wait for one cause."""

    state: str
    cause: str
    count: int
    instances: str
    """As ranges."""
    since: float = 0.0
    """When the first of them began to wait, in seconds since 1970; 0 where that is not known."""
    lines: Sequence[str] = ()
    shares: Sequence[ShareRow] = ()
    helps: Sequence[str] = ()
    parts: Sequence[tuple[str, str]] = ()
    """The cause as texts, each with the address that it leads to, or none."""


def waiting(job: job_pb2.JobInfo, groups: Iterable[explain_pb2.Group], failure: str = "") -> list[Waiting]:
    """Return why a job's instances wait, the largest group first.

    `failure` says why the resource manager's groups are missing.
    """
    found = [_of(group, each.first) for each in groups for group in waiting_groups([each])]
    stats = job.runtime.taskStats
    missing = stats.get("PENDING", 0) - sum(each.count for each in found if each.state != "PREEMPTING")
    if missing > 0:
        found.append(Waiting("PENDING", failure or UNKNOWN_TO_RESMGR, missing, ""))
    if stats.get("INITIALIZED"):
        found.append(_not_enqueued(job, stats["INITIALIZED"]))
    return sorted(found, key=lambda each: -each.count)[:SHOWN]


def jobs_named(waits: Iterable[Waiting]) -> set[str]:
    """Return the ids of the jobs that causes name by their runs."""
    return {job_id for each in waits for job_id, _ in _RUN.findall(each.cause)}


def linked(each: Waiting, names: Mapping[str, str]) -> Waiting:
    """Name the runs in a cause as people do, with links to the instances. `names` are those of jobs."""
    parts: list[tuple[str, str]] = []
    end = 0
    for found in _RUN.finditer(each.cause):
        job_id, instance = found.groups()
        job = names.get(job_id) or f"job {job_id}"
        parts += [
            (each.cause[end : found.start()], ""),
            (f"instance {instance} of {job}", f"/jobs/{job_id}/instances/{instance}"),
        ]
        end = found.end()
    return replace(each, parts=[*parts, (each.cause[end:], "")])


def _of(group: Group, first: explain_pb2.Explanation) -> Waiting:
    more = ", …" if group.instances and len(group.instances) < group.count else ""
    return Waiting(
        group.state,
        group.cause,
        group.count,
        spans(group.instances) + more if group.instances else "",
        seconds_of(first.since),
        [line for line in group.lines if not line.startswith("since ")],
        [share_row(share) for share in group.shares],
        remedies(first),
    )


def share_row(share: explain_pb2.Share) -> ShareRow:
    """Return the row of a share; bars are relative to the larger of what is held and what is due.

    What waits may be many times that: its bar ends with the space.
    """
    whole = max(share.allocation, share.entitlement, 1e-9) * 1.25
    kind = share.kind
    return ShareRow(
        pool=share.pool,
        kind=f"{KINDS[kind].title}{', revocable' if share.slack else ''}",
        allocation=amount(share.allocation, kind),
        entitlement=amount(share.entitlement, kind),
        demand=amount(share.demand, kind),
        reservation=amount(share.reservation, kind),
        limit=amount(share.limit, kind),
        held=share.allocation / whole,
        due=share.entitlement / whole,
        wanted=min(share.demand / whole, 1 - share.allocation / whole),
    )


def _not_enqueued(job: job_pb2.JobInfo, count: int) -> Waiting:
    """Explain instances that are not with the resource manager, by what is alike for all of them."""
    runtime = explain_runtime(job)
    spec = job_spec(job.config, 0)
    cause = not_enqueued(runtime, spec.instance_count, job, spec)
    helps = []
    if job.runtime.goalState == job_pb2.KILLED:
        helps.append("start the job")
    elif "maximumRunningInstances" in cause:
        helps.append("raise sla.maximumRunningInstances, or wait until instances end")
    return Waiting("INITIALIZED", cause, count, "", helps=helps)


def explain_runtime(job: job_pb2.JobInfo) -> task_pb2.RuntimeInfo:
    """Return the runtime of an instance that is not enqueued, as its job has it."""
    runtime = task_pb2.RuntimeInfo(state=task_pb2.INITIALIZED)
    if job.runtime.goalState == job_pb2.KILLED:
        runtime.goalState = task_pb2.KILLED
    return runtime


def task_waiting(found: explain_pb2.Explanation | None, state: str, cause: str) -> Waiting | None:
    """Return why one instance waits; None for one that runs or has ended."""
    if state in (*ENDED, "RUNNING"):
        return None
    if found is None:
        return Waiting(state, cause, 1, "")
    group = Group(state, cause, 1, [], explanation_lines(found), list(found.shares))
    return _of(group, found)
