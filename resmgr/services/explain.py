"""The private ExplainService: where tasks are, and why."""

from __future__ import annotations

import asyncio
from operator import attrgetter
from typing import Any

from peloton.api.v0.task import task_pb2
from peloton.clock import rfc3339
from peloton.errors import NotFound
from peloton.model.ids import mesos_task_id, task_id
from peloton.model.resources import KINDS, MILLI
from peloton.private.resmgr.explain import explain_pb2 as pb
from peloton.private.resmgr.explain import explain_pb2_grpc
from peloton.wire.feasibility import shortage_to
from resmgr.core.admission.checks import FailedCheck
from resmgr.core.explain.outlook import Excess
from resmgr.core.explain.pool_shares import Share
from resmgr.core.explain.queue_positions import Position
from resmgr.core.explain.queue_reasons import Explanation, Tries, explain
from resmgr.core.explain.waiting_groups import Group, Grouping
from resmgr.core.state.amounts import Vector
from resmgr.drivers.loop import Driver
from resmgr.services.scope import require_job

_AT_ONCE = 10_000
"""Tasks of a job that are examined before other work runs."""


class ExplainService(explain_pb2_grpc.ExplainServiceServicer):
    """Explain single tasks, and groups of a job's tasks."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def ExplainTask(self, request: pb.ExplainTaskRequest, context: Any) -> pb.ExplainTaskResponse:
        """Explain one task. Raises NotFound."""
        scheduler, job_id = self._driver.scheduler, request.job_id.value
        task = scheduler.registry.current(job_id, request.instance)
        if task is None:
            raise NotFound(f"no task {task_id(job_id, request.instance)} is known here")
        require_job(task.pool)
        [found] = explain(scheduler, [task])
        return pb.ExplainTaskResponse(explanation=self._explanation(found))

    async def ExplainJob(self, request: pb.ExplainJobRequest, context: Any) -> pb.ExplainJobResponse:
        """Explain a job's tasks in groups of the same state and cause."""
        scheduler = self._driver.scheduler
        job = scheduler.registry.jobs.get(request.job_id.value)
        held = job.tasks if job is not None else {}
        tasks = [held[instance] for instance in sorted(held)]
        for pool in set(map(attrgetter("pool"), tasks)):
            require_job(pool)
        grouping = Grouping(scheduler)
        for at in range(0, len(tasks), _AT_ONCE):
            grouping.add(tasks[at : at + _AT_ONCE])
            await asyncio.sleep(0)
        return pb.ExplainJobResponse(groups=[self._group(group) for group in grouping.finish()])

    def _group(self, group: Group) -> pb.Group:
        return pb.Group(
            count=group.count,
            instances=group.instances,
            first=self._explanation(group.first),
            last_position=group.last_position,
        )

    def _explanation(self, found: Explanation) -> pb.Explanation:
        return pb.Explanation(
            mesos_task_id=mesos_task_id(*found.run),
            state=task_pb2.TaskState.ValueType(found.state),
            since=self._time(found.since),
            cause=found.cause,
            pool_id=found.pool.id,
            pool=found.pool.path,
            gang_size=found.gang_size,
            position=_position(found.position) if found.position else None,
            check=_check(found.check) if found.check else None,
            head_check=_check(found.head_check) if found.head_check else None,
            tries=_tries(found.tries) if found.tries else None,
            until=self._time(found.until) if found.until else "",
            holder=found.holder,
            host=found.host,
            reason=found.reason,
            shares=map(_share, found.shares),
            excesses=map(self._excess, found.excesses),
            shortage=shortage_to(found.shortage) if found.shortage else None,
        )

    def _excess(self, found: Excess) -> pb.Excess:
        return pb.Excess(
            pool=found.pool,
            kind=found.kind,
            slack=found.slack,
            allocation=found.allocation / MILLI,
            entitlement=found.entitlement / MILLI,
            checks=found.checks or 0,
            due=self._time(found.due) if found.due else "",
            leaving=found.leaving,
            hosts=found.hosts,
        )

    def _time(self, moment: float) -> str:
        return rfc3339(self._driver.wall(moment))


def _position(found: Position) -> pb.Position:
    return pb.Position(
        queue=found.queue, position=found.position, length=found.length, ahead=_amounts(found.ahead)
    )


def _amounts(amounts: Vector) -> list[pb.Amount]:
    return [
        pb.Amount(kind=kind, amount=amount / MILLI)
        for kind, amount in zip(KINDS, amounts, strict=True)
        if amount
    ]


def _check(refused: FailedCheck) -> pb.Check:
    return pb.Check(
        check=refused.check.value[1],
        kind=refused.kind,
        held=refused.allocation / MILLI,
        gang=refused.gang / MILLI,
        bound=refused.bound / MILLI,
        pool=refused.path,
        text=str(refused),
        hosts=refused.hosts,
    )


def _tries(found: Tries) -> pb.Tries:
    return pb.Tries(
        failed=found.failed,
        most=found.most,
        returns=found.returns,
        reason=found.reason,
        hosts=found.hosts,
    )


def _share(found: Share) -> pb.Share:
    return pb.Share(
        pool=found.pool,
        kind=found.kind,
        slack=found.slack,
        allocation=found.allocation / MILLI,
        entitlement=found.entitlement / MILLI,
        demand=found.demand / MILLI,
        reservation=found.reservation / MILLI,
        limit=found.limit / MILLI,
        hosts=found.hosts,
    )
