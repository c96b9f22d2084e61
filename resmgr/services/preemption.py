"""The private PreemptionService: why tasks are preempted."""

from __future__ import annotations

from typing import Any

from peloton.errors import InvalidArgument
from peloton.model.ids import parse_mesos_task_id
from peloton.private.resmgr.preemption import preemption_pb2 as pb
from peloton.private.resmgr.preemption import preemption_pb2_grpc
from peloton.rpc.claimed import divided, refusal, shards
from resmgr.drivers.loop import Driver

MOST_RUNS = 10_000


class PreemptionService(preemption_pb2_grpc.PreemptionServiceServicer):
    """Report the reasons of preemptions."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def GetReasons(self, request: pb.GetReasonsRequest, context: Any) -> pb.GetReasonsResponse:
        """Return why runs are being preempted."""
        if len(request.mesos_task_ids) > MOST_RUNS:
            raise InvalidArgument("mesos_task_ids", len(request.mesos_task_ids), f"at most {MOST_RUNS} ids")
        answer = pb.GetReasonsResponse()
        for run in request.mesos_task_ids:
            victim = self._driver.preemptor.why(parse_mesos_task_id(run))
            if victim is not None:
                answer.reasons.add(
                    mesos_task_id=run,
                    pool=victim.pool,
                    benefits=victim.benefits,
                    policy=victim.policy,
                    reason=victim.reason,
                )
        return answer

    async def KeepRuns(self, request: pb.KeepRunsRequest, context: Any) -> pb.KeepRunsResponse:
        """Spare runs that stay because of the SLA of their services, of the caller's jobs.

        Raises InvalidArgument.
        """
        if len(request.mesos_task_ids) > MOST_RUNS:
            raise InvalidArgument("mesos_task_ids", len(request.mesos_task_ids), f"at most {MOST_RUNS} ids")
        mine, named = shards(context), [parse_mesos_task_id(run) for run in request.mesos_task_ids]
        runs, _ = divided(mine, named, lambda run: refusal(mine, run.job_id))
        return pb.KeepRunsResponse(spared=self._driver.keep(runs))
