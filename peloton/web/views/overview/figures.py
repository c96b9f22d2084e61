"""Figures of the whole cluster: amounts, jobs and tasks by state, and what they say is wrong."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.web import GET_CLUSTER, LIST_PROBLEMS, QUERY_HOSTS, QUERY_JOBS, RoleRpc
from peloton.errors import PelotonError, Unauthenticated, Unimplemented
from peloton.model.plural import plural
from peloton.model.problems import NAMED, Problem, worst_first
from peloton.model.resources import KINDS
from peloton.present.problems import (
    capacity_problems,
    crash_loops,
    infeasible_jobs,
    named_jobs,
    oversized_jobs,
    short_pools,
    told_problems,
)
from peloton.private.problems import problems_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.web.cluster import Calls
from peloton.web.views.hosts.rows import LOST
from peloton.web.views.jobs.counts import ORDER
from peloton.web.views.jobs.names import job_names
from peloton.web.views.pools.reads import all_pools
from peloton.web.views.pools.rows import Bar, PoolRow, bar_of, used_kinds

if TYPE_CHECKING:
    from peloton.private.resmgr.monitoring.monitoring_pb2 import GetClusterResponse

JOB_STATES = ("RUNNING", "PENDING", "INITIALIZED", "KILLING", "SUCCEEDED", "FAILED", "KILLED")
"""States of jobs, in the order of the bar. Of those that have ended, the server counts the last week."""
JOBS_AGE = 1.8
"""How old the numbers of jobs may be, in seconds: each is a query."""
TOLD_AGE = 4.0
"""How old what the daemons tell may be, in seconds: they look at their store and at all tasks for it."""
FAILED_SECONDS = 3600
MAINTENANCE = ("DRAINING", "DRAINED", "DOWN")
_WHY = re.compile(r"^`peloton job why [^`]*` tells\b")


@dataclass(frozen=True, slots=True)
class Amount:
    """What the cluster has of a kind, and what of it is in use."""

    kind: str
    capacity: float
    entitlement: float
    allocation: float
    slack: float
    """The part of the allocation that revocable tasks hold."""
    demand: float
    bar: Bar | None


@dataclass(frozen=True, slots=True)
class Figures:
    """What the resource manager knows of the cluster."""

    root: PoolRow | None = None
    amounts: tuple[Amount, ...] = ()
    tasks: tuple[tuple[str, int], ...] = ()
    started: float = 0.0
    """Runs that start in a second."""
    ended: float = 0.0
    pools: int = 0
    problems: tuple[Problem, ...] = ()
    """The worst first."""
    trouble: str = ""


async def read_figures(calls: Calls) -> Figures:
    """Return the figures, or why they are not known."""
    try:
        cluster, pools = await asyncio.gather(
            calls.read(GET_CLUSTER, pb.GetClusterRequest()), all_pools(calls)
        )
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return Figures(trouble=f"the figures of the pools and the tasks are not known: {error}")
    return figures_of(cluster, pools, await job_names(calls, named_jobs(cluster)))


def figures_of(cluster: GetClusterResponse, pools: Sequence[PoolRow], names: Mapping[str, str]) -> Figures:
    """Return the figures of a cluster. `names`: of jobs, by their ids, as far as they are known."""
    root = pools[0] if pools else None
    problems = [
        *capacity_problems(cluster, len(pools)),
        *short_pools(pools),
        *infeasible_jobs(cluster, names),
        *oversized_jobs(cluster, names),
    ]
    counts = {task_pb2.TaskState.Name(each.state): each.count for each in cluster.tasks}
    return Figures(
        root,
        _amounts(cluster, root, used_kinds(pools) if root else KINDS),
        tuple((state, counts[state]) for state in ORDER if state in counts),
        cluster.started_per_second,
        cluster.ended_per_second,
        len(pools),
        tuple(problems),
    )


def _amounts(cluster: GetClusterResponse, root: PoolRow | None, kinds: Iterable[str]) -> tuple[Amount, ...]:
    """Return the amounts of the kinds that the cluster has or somebody wants; of all where it has none."""
    found = tuple(_amount(kind, cluster, root) for kind in kinds)
    return tuple(each for each in found if each.capacity or each.allocation or each.demand) or found


def _amount(kind: str, cluster: GetClusterResponse, root: PoolRow | None) -> Amount:
    capacity = float(getattr(cluster.capacity, kind))
    if root is None:
        return Amount(kind, capacity, 0.0, 0.0, 0.0, 0.0, None)
    own = root.of(kind)
    found = {name: getattr(own, name) for name in ("entitlement", "allocation", "slack", "demand")}
    bar = bar_of(kind, {**found, "limit": capacity, "reservation": 0.0}, capacity)
    return Amount(kind, capacity, **found, bar=bar)


@dataclass(frozen=True, slots=True)
class Jobs:
    """Jobs by state."""

    counts: tuple[tuple[str, int], ...] = ()
    failed: int = 0
    """Within the last hour."""
    loops: tuple[Problem, ...] = ()
    """Services whose instances fail again and again."""
    trouble: str = ""


async def read_jobs(calls: Calls, now: float) -> Jobs:
    """Return the numbers of jobs, or why they are not known. `now` in seconds since 1970."""
    # To the minute: the requests of a minute are alike, and share an answer.
    since = int(now - FAILED_SECONDS) // 60 * 60
    specs = [job_pb2.QuerySpec(jobStates=[job_pb2.JobState.Value(state)]) for state in JOB_STATES]
    failed = job_pb2.QuerySpec(jobStates=[job_pb2.FAILED])
    failed.completionTimeRange.min.FromSeconds(since)
    failed.completionTimeRange.max.FromSeconds(since + 2 * FAILED_SECONDS)
    try:
        totals, looping = await asyncio.gather(
            asyncio.gather(*(_total(calls, spec) for spec in (*specs, failed))), _crash_looping(calls)
        )
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return Jobs(trouble=f"the numbers of jobs are not known: {error}")
    loops = crash_loops(looping.results, looping.pagination.total)
    return Jobs(tuple(zip(JOB_STATES, totals, strict=False)), totals[-1], tuple(loops))


async def _crash_looping(calls: Calls) -> job_pb2.QueryResponse:
    page = query_pb2.PaginationSpec(limit=NAMED)
    spec = job_pb2.QuerySpec(crashLooping=True, pagination=page)
    return await calls.read(QUERY_JOBS, job_pb2.QueryRequest(spec=spec, summaryOnly=True), JOBS_AGE)


async def _total(calls: Calls, spec: job_pb2.QuerySpec) -> int:
    spec.pagination.CopyFrom(query_pb2.PaginationSpec(limit=1))
    answer = await calls.read(QUERY_JOBS, job_pb2.QueryRequest(spec=spec, summaryOnly=True), JOBS_AGE)
    return answer.pagination.total


@dataclass(frozen=True, slots=True)
class Maintenance:
    """Hosts that are in maintenance or lost, by state."""

    counts: Mapping[str, int]
    trouble: str = ""


async def read_hosts(calls: Calls) -> Maintenance:
    """Return how many hosts are in maintenance and how many are lost, or why that is not known."""
    states = [host_pb2.HostState.Value(f"HOST_STATE_{state}") for state in MAINTENANCE]
    try:
        answer = await calls.read(
            QUERY_HOSTS, host_svc_pb2.QueryHostsRequest(host_states=states, include_lost=True)
        )
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return Maintenance({}, f"it is not known which hosts are in maintenance or lost: {error}")
    found = dict.fromkeys((LOST, *MAINTENANCE), 0)
    for host in answer.host_infos:
        state = host_pb2.HostState.Name(host.state).removeprefix("HOST_STATE_")
        found[LOST if host.HasField("lost") else state] += 1
    return Maintenance({state: number for state, number in found.items() if number})


async def read_problems(calls: Calls) -> list[Problem]:
    """Return what the daemons tell is wrong, or which of them cannot be asked."""
    found = await asyncio.gather(*(_told(calls, rpc) for rpc in LIST_PROBLEMS))
    return [problem for told in found for problem in told]


async def _told(
    calls: Calls, rpc: RoleRpc[problems_pb2.ListProblemsRequest, problems_pb2.ListProblemsResponse]
) -> list[Problem]:
    try:
        return told_problems([await calls.read(rpc, problems_pb2.ListProblemsRequest(), TOLD_AGE)])
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except Unimplemented:
        return []  # it is older than this program
    except PelotonError as error:
        return [Problem("note", f"It is not known what the {rpc.role} sees that is wrong: {error}")]


def _remedy_of_lost(number: int) -> str:
    return "start its agent, or forget it" if number == 1 else "start their agents, or forget them"


def for_page(problem: Problem) -> Problem:
    """Return a problem as a page tells it: the job that it leads to says what `peloton job why` says."""
    if problem.link.startswith("/jobs/"):
        return replace(problem, remedy=_WHY.sub("its page tells", problem.remedy))
    return problem


def problems_of(
    figures: Figures, jobs: Jobs, hosts: Maintenance, history: str = "", told: Sequence[Problem] = ()
) -> list[Problem]:
    """Return what is wrong, the worst first.

    `history`: why it cannot be read, empty where it can; `told`: what the daemons tell.
    """
    troubles = (figures.trouble, jobs.trouble, hosts.trouble, history)
    found = [Problem("bad", f"{text[0].upper()}{text[1:]}") for text in troubles if text]
    away = [
        Problem(
            "warn" if state == LOST else "note",
            f"{plural(number, 'host')} {state.lower()}",
            f"/hosts?state={state}",
            _remedy_of_lost(number) if state == LOST else "",
        )
        for state, number in hosts.counts.items()
    ]
    found += [*figures.problems, *jobs.loops, *away, *told]
    if jobs.failed:
        link = f"/jobs?{urlencode({'state': 'FAILED', 'ended': '1h'})}"
        found.append(Problem("warn", f"{plural(jobs.failed, 'job')} failed within the last hour", link))
    return [for_page(problem) for problem in worst_first(found)]
