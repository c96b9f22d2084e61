"""The private WaitingService: reasons for waiting, as deltas."""

from __future__ import annotations

import uuid
from typing import Any

from peloton.api.v0.task import task_pb2
from peloton.model.ids import mesos_task_id
from peloton.model.shard import shard_of
from peloton.private.resmgr.waiting import waiting_pb2 as pb
from peloton.private.resmgr.waiting import waiting_pb2_grpc
from peloton.rpc.claimed import shards
from resmgr.drivers.loop import Driver

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000


class PendingReasonsService(waiting_pb2_grpc.WaitingServiceServicer):
    """Serve the stream of reasons."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    async def WaitForDeltas(self, request: pb.WaitForDeltasRequest, context: Any) -> pb.WaitForDeltasResponse:
        """Return deltas after a position, waiting for the next ones if necessary.

        A new caller receives the stream's id at once: another id means another leader, which may have missed
        what was just enqueued.
        """
        driver, reasons = self._driver, self._driver.scheduler.reasons
        after = request.after if request.stream_id else 0
        mine = shards(context)
        if not reasons.holds(request.stream_id, after):
            if not reasons.holds("", 0):  # else another caller has just begun this stream
                reasons.restart(uuid.uuid4().hex, driver.scheduler.registry.iterate_in_steps())
            after = 0
        stream = reasons.stream_id
        if request.stream_id == stream:
            await driver.poll(
                None,
                driver.reasons,
                lambda: reasons.more(after) or reasons.stream_id != stream,
                request.timeout_ms,
            )
        if reasons.stream_id != stream or not reasons.holds(stream, after):
            return pb.WaitForDeltasResponse(stream_id=stream, last=after, leader_id=driver.leader_id)
        deltas = reasons.read(after, min(request.limit or DEFAULT_LIMIT, MAX_LIMIT))
        return pb.WaitForDeltasResponse(
            stream_id=stream,
            leader_id=driver.leader_id,
            last=after + len(deltas),
            deltas=[
                pb.TaskDelta(
                    mesos_task_id=mesos_task_id(*delta.run),
                    state=task_pb2.TaskState.ValueType(delta.state),
                    reason=delta.reason,
                )
                for delta in deltas
                if mine is None or shard_of(delta.run.job_id) in mine
            ],
        )
