"""The private MonitoringService: figures of pools and of the cluster, now and over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.clock import NANOSECONDS, rfc3339
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.resources import KINDS, MILLI
from peloton.model.states import TaskState
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.private.resmgr.monitoring import monitoring_pb2_grpc
from peloton.wire.pool import pool_config
from resmgr.core.monitoring.figures import (
    CLUSTER_SERIES,
    MOST_EXAMINED,
    POOL_SERIES,
    InfeasibleJob,
    PoolFigures,
    Queue,
    QueuedGang,
    allocation,
    infeasible_jobs,
    oversized_jobs,
    pool_figures,
    queues,
)
from resmgr.core.monitoring.history import Samples
from resmgr.core.planning.pools import PoolEffect, plan_pool
from resmgr.core.state.amounts import Vector, total
from resmgr.core.state.pending_reasons import Common
from resmgr.core.state.pool import Pool
from resmgr.drivers.loop import Driver
from resmgr.drivers.preemption_log import RECENT, Preempted
from resmgr.drivers.sampling import CLUSTER, Sampler
from resmgr.drivers.stored_history import MOST_DAYS

GANGS, MOST_GANGS = 50, 500
"""Gangs of each queue in an answer: by default, and at most."""
PREEMPTIONS = 50
SHOWN_JOBS = 20
NEW_POOL = "new"
"""The id of a planned pool: no pool has it, they have UUIDs."""


class MonitoringService(monitoring_pb2_grpc.MonitoringServiceServicer):
    """Report figures. Changes nothing."""

    def __init__(self, driver: Driver, sampler: Sampler) -> None:
        self._driver = driver
        self._sampler = sampler

    async def GetCluster(self, request: pb.GetClusterRequest, context: Any) -> pb.GetClusterResponse:
        """Return the capacity, and the tasks by state."""
        scheduler = self._driver.scheduler
        registry, capacity = scheduler.registry, scheduler.tree.capacity
        started, ended = self._sampler.rates()
        return pb.GetClusterResponse(
            capacity=_amounts(capacity.values()) if capacity is not None else None,
            slack_capacity=_amounts(scheduler.tree.slack_capacity.values()),
            tasks=[
                pb.TaskCount(state=task_pb2.TaskState.ValueType(state), count=registry.states[state])
                for state in TaskState
                if registry.states[state]
            ],
            started=registry.started,
            ended=registry.ended,
            started_per_second=started,
            ended_per_second=ended,
            infeasible=len(scheduler.infeasible),
            infeasible_jobs=map(_infeasible, infeasible_jobs(scheduler, SHOWN_JOBS)),
            oversized_jobs=map(_infeasible, oversized_jobs(scheduler, SHOWN_JOBS)),
        )

    async def ListPools(self, request: pb.ListPoolsRequest, context: Any) -> pb.ListPoolsResponse:
        """Return all pools."""
        found = pool_figures(self._driver.scheduler)
        short = self._sampler.short_seconds
        return pb.ListPoolsResponse(pools=[_pool(each, short(each.pool.id)) for each in found])

    async def GetHistory(self, request: pb.GetHistoryRequest, context: Any) -> pb.GetHistoryResponse:
        """Return the samples of a pool, or of the cluster; none where there are none yet."""
        if request.pool_id:
            pool, history = self._pool(request.pool_id), self._sampler.pools
            key, names = pool.id, [(name, kind) for name in POOL_SERIES for kind in KINDS]
        else:
            key, history = CLUSTER, self._sampler.cluster
            names = [("capacity", kind) for kind in KINDS] + [(name, "") for name in CLUSTER_SERIES]
        if request.days > MOST_DAYS:
            raise InvalidArgument("days", request.days, f"at most {MOST_DAYS}")
        if request.days:
            samples = await self._sampler.days(key, request.days)
        else:
            samples = history.hour(key) if request.hour else history.day(key)
        return _history(samples, names) if samples is not None else pb.GetHistoryResponse()

    async def GetQueues(self, request: pb.GetQueuesRequest, context: Any) -> pb.GetQueuesResponse:
        """Return the gangs in a leaf's queues."""
        limit = request.limit or GANGS
        if limit > MOST_GANGS:
            raise InvalidArgument("limit", limit, f"at most {MOST_GANGS}")
        if request.offset > MOST_EXAMINED:
            raise InvalidArgument("offset", request.offset, f"at most {MOST_EXAMINED}")
        pool = self._pool(request.pool_id)
        found = queues(self._driver.scheduler, pool, request.offset, limit)
        return pb.GetQueuesResponse(queues=map(self._queue, found))

    async def GetPreemptions(
        self, request: pb.GetPreemptionsRequest, context: Any
    ) -> pb.GetPreemptionsResponse:
        """Return what was preempted last."""
        path = self._pool(request.pool_id).path if request.pool_id else "/"
        limit = request.limit or PREEMPTIONS
        if limit > RECENT:
            raise InvalidArgument("limit", limit, f"at most {RECENT}")

        def wanted(gang: Preempted) -> bool:
            return _below(gang.pool, path) or _below(gang.benefits, path)

        found = await self._driver.preempted.last(wanted, limit, request.before)
        return pb.GetPreemptionsResponse(preemptions=map(_preemption, found))

    async def PlanPool(self, request: pb.PlanPoolRequest, context: Any) -> pb.PlanPoolResponse:
        """Return what a new or changed pool would do to the entitlement of all. Raises as the change."""
        tree = self._driver.scheduler.tree
        if tree.capacity is None:
            raise Unavailable(Common.CAPACITY_UNKNOWN)
        pool_id = self._pool(request.pool_id).id if request.pool_id else NEW_POOL
        effects = plan_pool(tree, pool_config(pool_id, request.config))
        return pb.PlanPoolResponse(pools=[_planned(each, tree.find(each.id)) for each in effects])

    def _pool(self, pool_id: str) -> Pool:
        """Return a pool. Raises NotFound."""
        return self._driver.scheduler.tree.get(pool_id)

    def _queue(self, queue: Queue) -> pb.Queue:
        return pb.Queue(name=queue.name, length=queue.length, gangs=map(self._gang, queue.gangs))

    def _gang(self, queued: QueuedGang) -> pb.QueuedGang:
        gang, first = queued.gang, queued.gang.tasks[0]
        charge = gang.charge
        return pb.QueuedGang(
            position=queued.position,
            job_id=peloton_pb2.JobID(value=first.job.id),
            instance=first.instance,
            size=len(gang.tasks),
            priority=gang.priority,
            asks=_amounts(total(part for part in (charge.firm, charge.slack) if part is not None)),
            since=rfc3339(self._driver.wall(first.enqueued)) if first.enqueued else "",
            why=queued.why,
        )


def _planned(effect: PoolEffect, pool: Pool | None) -> pb.PlannedPool:
    """Return what a change does to a pool; None for one that there is not yet."""
    return pb.PlannedPool(
        id="" if effect.id == NEW_POOL else effect.id,
        path=effect.path,
        before=None if effect.before is None else _amounts(effect.before),
        after=_amounts(effect.after),
        allocation=None if pool is None else _amounts(allocation(pool)),
    )


def _infeasible(job: InfeasibleJob) -> pb.InfeasibleJob:
    return pb.InfeasibleJob(
        job_id=peloton_pb2.JobID(value=job.job_id), pool=job.pool.path, gangs=job.gangs, why=job.why
    )


def _below(path: str, above: str) -> bool:
    """Return whether a pool is another one, or below it."""
    return bool(path) and (above in ("/", path) or path.startswith(f"{above}/"))


def _amounts(amounts: Sequence[float]) -> pb.Amounts:
    cpu, memory, disk, gpu = (amount / MILLI for amount in amounts)
    return pb.Amounts(cpu=cpu, memory=memory, disk=disk, gpu=gpu)


def _present(amounts: Vector) -> pb.Amounts | None:
    """Return amounts, none where all are zero, which readers take it for: of a thousand pools most are."""
    return _amounts(amounts) if any(amounts) else None


def _pool(found: PoolFigures, short_seconds: float) -> pb.Pool:
    pool = found.pool
    shares = [pool.config.kind(kind).share for kind in KINDS]
    return pb.Pool(
        id=pool.id,
        path=pool.path,
        parent=pool.parent.id if pool.parent is not None else "",
        leaf=pool.leaf,
        tasks=found.tasks,
        waiting=found.waiting,
        reservation=_present(pool.reservation),
        limit=_present(pool.limit),
        share=pb.Amounts(**dict(zip(KINDS, shares, strict=True))),
        entitlement=_present(pool.usable()),
        allocation=_present(found.allocation),
        slack=_present(found.slack),
        demand=_present(found.demand),
        short_seconds=short_seconds,
    )


def _history(samples: Samples, names: Sequence[tuple[str, str]]) -> pb.GetHistoryResponse:
    return pb.GetHistoryResponse(
        start=samples.start * 60,
        step=samples.step * 60,
        series=[
            pb.Series(name=name, kind=kind, values=samples.values[:, column].tolist())
            for column, (name, kind) in enumerate(names)
        ],
    )


def _preemption(found: Preempted) -> pb.Preemption:
    return pb.Preemption(
        time=rfc3339(round(found.at * NANOSECONDS)),
        pool=found.pool,
        benefits=found.benefits,
        policy=found.policy,
        reason=found.reason,
        job_id=peloton_pb2.JobID(value=found.job_id),
        instances=found.instances,
        size=found.size,
    )
