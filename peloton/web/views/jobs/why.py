"""Why a job's instances wait: numbers, shares of pools, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.amounts import amount
from peloton.model.spans import spans
from peloton.present.remedies import remedies, remedies_before_resmgr
from peloton.present.unused import lacking
from peloton.present.why import ENDED, Group, Why, waiting_of_job
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.formats import KINDS, seconds_of
from peloton.web.naming import jobs_in, named

NO_HINTS: Mapping[str, Sequence[str]] = {}
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


def waiting(
    job: job_pb2.JobInfo,
    groups: Iterable[explain_pb2.Group],
    failure: str = "",
    initialized: Iterable[task_pb2.TaskInfo] = (),
    hints: Mapping[str, Sequence[str]] = NO_HINTS,
) -> list[Waiting]:
    """Return why a job's instances wait, the largest group first: what `job why` says of them.

    `failure` says why the resource manager's groups are missing; `initialized` are the instances that it was
    not given yet. `hints` are said, by kind, where that is what is missing.
    """
    found = [_of(group, job, hints) for group in waiting_of_job(job, groups, failure, initialized)]
    return sorted(found, key=lambda each: -each.count)[:SHOWN]


def jobs_named(waits: Iterable[Waiting]) -> set[str]:
    """Return the ids of the jobs that causes name by their runs."""
    return jobs_in(each.cause for each in waits)


def linked(each: Waiting, names: Mapping[str, str]) -> Waiting:
    """Name the runs in a cause as people do, with links to the instances. `names` are those of jobs."""
    return replace(each, parts=named(each.cause, names))


def _of(group: Group, job: job_pb2.JobInfo, hints: Mapping[str, Sequence[str]] = NO_HINTS) -> Waiting:
    first = group.first
    helps = remedies_before_resmgr(job, group.cause) if first is None else remedies(first)
    more = ", …" if group.instances and len(group.instances) < group.count else ""
    return Waiting(
        group.state,
        group.cause,
        group.count,
        spans(group.instances) + more if group.instances else "",
        0.0 if first is None else seconds_of(first.since),
        [line for line in group.lines if not line.startswith("since ")],
        [share_row(share) for share in group.shares],
        [*helps, *hints.get(lacking(first), ())],
    )


def share_row(share: explain_pb2.Share) -> ShareRow:
    """Return the row of a share; bars are relative to the larger of what is held and what is due.

    What waits may be many times that: its bar ends with the space.
    """
    whole = max(share.allocation, share.entitlement, 1e-9) * 1.25
    kind = share.kind
    return ShareRow(
        pool=share.pool,
        kind=KINDS[kind].title + (", revocable" if share.slack else "") + _on(share.hosts),
        allocation=amount(share.allocation, kind),
        entitlement=_due(share.entitlement, kind),
        demand=amount(share.demand, kind),
        reservation=amount(share.reservation, kind),
        limit=amount(share.limit, kind),
        held=share.allocation / whole,
        due=share.entitlement / whole,
        wanted=min(share.demand / whole, 1 - share.allocation / whole),
    )


def _due(entitlement: float, kind: str) -> str:
    """Return an entitlement: shares of memory and disk are no whole numbers of MB, and are shown as such."""
    return amount(round(entitlement) if kind in ("memory", "disk") else entitlement, kind)


def _on(hosts: str) -> str:
    return f" on {hosts}" if hosts else ""


def task_waiting(why: Why, found: explain_pb2.Explanation | None, job: job_pb2.JobInfo) -> Waiting | None:
    """Return why one instance waits; None for one that runs or has ended."""
    if why.state in (*ENDED, "RUNNING"):
        return None
    shares = [] if found is None else list(found.shares)
    return _of(Group(why.state, why.cause, 1, [], why.lines, shares, found), job)
