"""What the pages about pools read, shared by all who look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.calls.web import GET_POOL, GET_PREEMPTIONS, GET_QUEUES, LIST_LOSSES, LIST_POOLS, QUERY_JOBS
from peloton.errors import NotFound
from peloton.model.amounts import amount_of, plain
from peloton.model.plural import plural
from peloton.model.resources import KINDS
from peloton.model.spans import spans
from peloton.present.losses import loss_text, summed
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.web.cluster import Calls
from peloton.web.formats import seconds_of
from peloton.web.views.jobs.names import job_names
from peloton.web.views.jobs.search import JobRow, job_row
from peloton.web.views.pools.rows import PoolRow, pool_rows
from peloton.web.views.shared.lines import lines, near

if TYPE_CHECKING:
    from peloton.private.resmgr.monitoring.monitoring_pb2 import Amounts, Preemption, QueuedGang

ROWS_AGE = 1.2
"""How old the rows of all pools may be, in seconds: a thousand cost the resource manager something."""
CONFIG_AGE = 2.0
LOSSES_AGE = 10.0
"""Seconds: the job manager goes through all jobs for them."""
GANGS = 50
"""Gangs of each queue on a page."""
RUNNING_JOBS = 20
PREEMPTIONS = 50
SHOWN_SPANS = 8
POLICIES = {"PriorityFIFO": "by priority, then first come, first served"}


async def all_pools(calls: Calls) -> tuple[PoolRow, ...]:
    """Return all pools as a tree. Raises PelotonError."""
    return await calls.cluster.shared.get(("pools", calls.auth), ROWS_AGE, lambda: _all_pools(calls))


async def _all_pools(calls: Calls) -> tuple[PoolRow, ...]:
    answer = await calls.call(LIST_POOLS, pb.ListPoolsRequest())
    # A thousand pools take some tens of milliseconds: others are not to wait for it.
    return await asyncio.to_thread(pool_rows, answer.pools)


@dataclass(frozen=True, slots=True)
class GangRow:
    """A gang in a queue."""

    position: int
    job_id: str
    job: str
    """Its name, or its id."""
    instance: int
    size: int
    priority: int
    asks: str
    since: float
    """Seconds since 1970; 0 where that is not known."""
    why: str
    count: int = 1
    """Gangs of the line: they wait one behind the other, and ask for the same for the same reason."""

    @property
    def last_position(self) -> int:
        """Return the position of the last gang."""
        return self.position + self.count - 1

    @property
    def instances(self) -> str:
        """Return which instances of the job they are."""
        if self.count > 1:
            return f"instances {self.instance}–{self.instance + self.count * self.size - 1}"
        return f"instance {self.instance}" if self.size == 1 else f"{self.size:,} from {self.instance} on"


@dataclass(frozen=True, slots=True)
class QueueView:
    """A queue of a pool, a page of it."""

    name: str
    length: int
    gangs: tuple[GangRow, ...]


async def queues_of(calls: Calls, pool_id: str, offset: int) -> tuple[QueueView, ...]:
    """Return the queues of a pool, in the order in which admission tries them. Raises PelotonError."""
    request = pb.GetQueuesRequest(pool_id=pool_id, offset=offset, limit=GANGS)
    answer = await calls.read(GET_QUEUES, request)
    names = await job_names(calls, (gang.job_id.value for queue in answer.queues for gang in queue.gangs))
    return tuple(
        QueueView(queue.name, queue.length, _gangs([_gang(gang, names) for gang in queue.gangs]))
        for queue in answer.queues
    )


def _gangs(rows: Sequence[GangRow]) -> tuple[GangRow, ...]:
    return tuple(replace(each[0], count=len(each)) for each in lines(rows, _wait_alike))


def _wait_alike(one: GangRow, other: GangRow) -> bool:
    """Return whether a gang waits right behind another one of its job as that one does."""
    before = replace(
        other, position=other.position - 1, instance=other.instance - other.size, since=one.since
    )
    return one == before and near(one.since, other.since)


def _gang(gang: QueuedGang, names: dict[str, str]) -> GangRow:
    job_id = gang.job_id.value
    return GangRow(
        gang.position,
        job_id,
        names.get(job_id) or job_id,
        gang.instance,
        gang.size,
        gang.priority,
        in_words(gang.asks),
        seconds_of(gang.since),
        gang.why,
    )


def in_words(amounts: Amounts) -> str:
    """Return amounts as text: 2 cores, 512 MB memory, 1 GB disk."""
    found = [amount_of(value, kind) for kind in KINDS if (value := getattr(amounts, kind)) > 0]
    return ", ".join(found) or "nothing"


@dataclass(frozen=True, slots=True)
class PreemptionRow:
    """A gang that was preempted."""

    time: float
    pool: str
    benefits: str
    """Path of the pool that gets what it freed; empty where none waited for it."""
    policy: str
    reason: str
    job_id: str
    job: str
    instances: str
    gangs: int = 1
    """Gangs of the job that were preempted together, for one reason."""


async def preemptions_of(calls: Calls, pool_id: str) -> tuple[PreemptionRow, ...]:
    """Return what was preempted of a pool or for it, the newest first. Raises PelotonError."""
    request = pb.GetPreemptionsRequest(pool_id=pool_id, limit=PREEMPTIONS)
    found = (await calls.read(GET_PREEMPTIONS, request)).preemptions
    names = await job_names(calls, (each.job_id.value for each in found))
    return tuple(_preemption(each, names) for each in lines(found, _for_one_reason))


def _for_one_reason(one: Preemption, other: Preemption) -> bool:
    """Return whether two gangs of a job were preempted together."""
    about = ("job_id", "pool", "benefits", "policy", "reason")
    alike = all(getattr(one, name) == getattr(other, name) for name in about)
    return alike and near(seconds_of(one.time), seconds_of(other.time))


def _preemption(gangs: Sequence[Preemption], names: dict[str, str]) -> PreemptionRow:
    found = gangs[0]
    job_id = found.job_id.value
    instances = [instance for gang in gangs for instance in gang.instances]
    return PreemptionRow(
        seconds_of(found.time),
        found.pool,
        found.benefits,
        found.policy.replace("_", " "),
        found.reason,
        job_id,
        names.get(job_id) or job_id,
        _instances(instances, sum(gang.size for gang in gangs)),
        len(gangs),
    )


def _instances(instances: Sequence[int], size: int) -> str:
    """Return instances as spans: `0–4, 7`; of more than SHOWN_SPANS the first, and how many there are."""
    parts = spans(instances).replace("-", "–").split(", ")
    shown = ", ".join(parts[:SHOWN_SPANS])
    left_out = len(parts) > SHOWN_SPANS or size > len(instances)
    return f"{shown}, … ({plural(size, 'instance')})" if left_out else shown


async def running_jobs(calls: Calls, path: str) -> tuple[tuple[JobRow, ...], int]:
    """Return the newest running jobs of a pool, and how many run. Raises PelotonError."""
    page = query_pb2.PaginationSpec(limit=RUNNING_JOBS)
    page.orderBy.add(order=query_pb2.OrderBy.DESC).property.value = "creation_time"
    spec = job_pb2.QuerySpec(
        jobStates=[job_pb2.RUNNING], respool=respool_pb2.ResourcePoolPath(value=path), pagination=page
    )
    answer = await calls.read(QUERY_JOBS, job_pb2.QueryRequest(spec=spec, summaryOnly=True))
    return tuple(job_row(job, {}) for job in answer.results), answer.pagination.total


async def lost_in(calls: Calls, row: PoolRow, rows: Sequence[PoolRow]) -> str:
    """Return how much work the jobs of a pool and of those below have lost; empty for none.

    Raises PelotonError.
    """
    answer = await calls.read(LIST_LOSSES, usage_pb2.ListLossesRequest(), LOSSES_AGE)
    own = {each.pool_id.value: each.seconds for each in answer.losses}
    return loss_text(summed(own, {each.id: each.path for each in rows})[row.path])


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """What a pool is configured to be, beside its amounts."""

    description: str = ""
    team: str = ""
    policy: str = ""
    controller_limit: str = ""
    slack_limit: str = ""


async def config_of(calls: Calls, pool_id: str) -> PoolConfig:
    """Return the config of a pool. Raises NotFound, PelotonError."""
    request = respool_pb2.GetRequest(id=v0_peloton.ResourcePoolID(value=pool_id))
    answer = await calls.read(GET_POOL, request, CONFIG_AGE)
    config = answer.poolinfo.config
    if not answer.HasField("poolinfo"):
        raise NotFound(f"no resource pool has the id {pool_id!r}")
    controller, slack = (
        f"{plain(getattr(config, name).maxPercent)}% of the reservation" if config.HasField(name) else ""
        for name in ("controllerLimit", "slackLimit")
    )
    policy = respool_pb2.SchedulingPolicy.Name(config.policy)
    return PoolConfig(config.description, config.owningTeam, POLICIES.get(policy, ""), controller, slack)
