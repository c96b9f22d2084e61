"""What is wrong with a cluster now, and what to do about it, for CLI, web UI and MCP. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from peloton.model.amounts import duration
from peloton.model.plural import plural
from peloton.model.problems import LEVELS, NAMED, Problem
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary
    from peloton.private.problems.problems_pb2 import ListProblemsResponse
    from peloton.private.resmgr.monitoring.monitoring_pb2 import GetClusterResponse, InfeasibleJob

SHORT_SECONDS = 30.0
"""For how long a pool may have less than its reservation until it is told: preemption needs some time."""


def capacity_problems(cluster: GetClusterResponse, pools: int) -> list[Problem]:
    """Return why nothing at all can run. `pools`: their number, with the root."""
    if not cluster.HasField("capacity"):
        text = "The resource manager does not know the cluster's capacity, and admits nothing"
        return [Problem("bad", text, remedy="see whether a host manager leads")]
    amounts = cluster.capacity
    if not any((amounts.cpu, amounts.memory, amounts.disk, amounts.gpu)):
        text = "The cluster has no capacity, since no agent is registered"
        return [Problem("bad", text, "/hosts", "start agents, and see their logs")]
    if pools == 1:
        remedy = "create one with `peloton respool create`"
        return [Problem("warn", "There is no resource pool yet, and jobs need one", "/pools", remedy)]
    return []


class ShortPool(Protocol):
    """A pool, as resmgr or a page has it."""

    @property
    def id(self) -> str:
        """The id."""
        ...

    @property
    def path(self) -> str:
        """The path."""
        ...

    @property
    def short_seconds(self) -> float:
        """For how long it has had less than its reservation, while a gang waits that would fit into it."""
        ...


def short_pools(pools: Iterable[ShortPool]) -> list[Problem]:
    """Return the pools that have had less than their reservation for long, while a gang waits for it."""
    short = [pool for pool in pools if pool.short_seconds >= SHORT_SECONDS]
    return [
        Problem(
            "bad",
            f"Pool {clean(pool.path)} has had less than its reservation for {duration(pool.short_seconds)}, "
            "while a gang waits that would fit into it",
            f"/pools/{pool.id}",
            "`peloton job why` of a job that waits there tells who holds it; hosts may be lost, or tasks "
            "of others may not be preemptible",
        )
        for pool in sorted(short, key=lambda pool: -pool.short_seconds)
    ]


def infeasible_jobs(cluster: GetClusterResponse, names: Mapping[str, str]) -> list[Problem]:
    """Return the jobs with gangs that no host could take, even when empty. `names`: of jobs, by their ids."""
    named = cluster.infeasible_jobs[:NAMED]
    found = [_infeasible(job, names) for job in named]
    rest = cluster.infeasible - sum(job.gangs for job in named)
    if rest > 0:
        found.append(
            Problem("warn", f"{plural(rest, 'gang')} of further jobs wait since no host can take them")
        )
    return found


def _infeasible(job: InfeasibleJob, names: Mapping[str, str]) -> Problem:
    job_id = job.job_id.value
    name = clean(names.get(job_id) or f"job {job_id}")
    text = f"No host can take {plural(job.gangs, 'gang')} of {name} in {clean(job.pool)}: {clean(job.why)}"
    return Problem("warn", text, f"/jobs/{job_id}", f"`peloton job why {job_id}` tells what would help")


def oversized_jobs(cluster: GetClusterResponse, names: Mapping[str, str]) -> list[Problem]:
    """Return the jobs with gangs that are larger than what their pool may ever give them."""
    return [_oversized(job, names) for job in cluster.oversized_jobs[:NAMED]]


def _oversized(job: InfeasibleJob, names: Mapping[str, str]) -> Problem:
    job_id = job.job_id.value
    text = f"Job {clean(names.get(job_id) or job_id)} can never run as its pool is now: {clean(job.why)}"
    remedy = "ask for less, make the job preemptible, or raise the bound of the pool"
    return Problem("warn", text, f"/jobs/{job_id}", remedy)


def told_problems(answers: Iterable[ListProblemsResponse]) -> list[Problem]:
    """Return what daemons tell, each once: two of them may see the same."""
    found = (
        Problem(
            each.level if each.level in LEVELS else LEVELS[0],
            clean(each.text),
            each.link,
            clean(each.remedy),
        )
        for answer in answers
        for each in answer.problems
    )
    return list(dict.fromkeys(found))


def named_jobs(cluster: GetClusterResponse) -> list[str]:
    """Return the ids of the jobs that the problems name."""
    named = (*cluster.infeasible_jobs[:NAMED], *cluster.oversized_jobs[:NAMED])
    return list(dict.fromkeys(job.job_id.value for job in named))


def crash_loops(jobs: Sequence[JobSummary], total: int) -> list[Problem]:
    """Return services whose instances fail again and again. `total`: how many there are."""
    found = [
        Problem(
            "warn",
            f"Service {clean(job.name)} is {clean(job.runtime.reason) or 'crash-looping'}",
            f"/jobs/{job.id.value}",
            f"`peloton job why {job.id.value}` tells how they end",
        )
        for job in jobs[:NAMED]
    ]
    if total > len(found):
        found.append(Problem("warn", f"{plural(total - len(found), 'further service')} crash-looping"))
    return found
