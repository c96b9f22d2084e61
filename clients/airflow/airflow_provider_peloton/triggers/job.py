"""The trigger: waits for the end of a job in Airflow's triggerer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_peloton.hooks.peloton import PelotonHook
from airflow_provider_peloton.waiting import outcome, progress, stop_request, timed_out
from peloton.client import CallError
from peloton.client.failures import CODES


class PelotonJobTrigger(BaseTrigger):
    """Fires once a job has ended, with its state. Also waits while no job manager leads.

    :param job_id: the job
    :param peloton_conn_id: the id of the connection
    :param end: when the job is stopped, in seconds since 1970; None: never
    :param stop_on_kill: whether the job is stopped where a user ends the task
    """

    def __init__(
        self, job_id: str, peloton_conn_id: str, end: float | None = None, stop_on_kill: bool = True
    ) -> None:
        super().__init__()
        self.job_id = job_id
        self.peloton_conn_id = peloton_conn_id
        self.end = end
        self.stop_on_kill = stop_on_kill

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what Airflow makes the trigger of again."""
        kwargs = {
            "job_id": self.job_id,
            "peloton_conn_id": self.peloton_conn_id,
            "end": self.end,
            "stop_on_kill": self.stop_on_kill,
        }
        return f"{type(self).__module__}.{type(self).__name__}", kwargs

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Wait for the end of the job, or of its time."""
        async with await PelotonHook(self.peloton_conn_id).aget_conn() as client:
            left = None if self.end is None else max(self.end - time.time(), 0.0)
            try:
                runtime = await client.jobs.wait(
                    self.job_id, left, lambda now: self.log.info("job %s is %s", self.job_id, progress(now))
                )
            except CallError as error:
                if left is None or error.code is not CODES.DEADLINE_EXCEEDED:
                    yield TriggerEvent(
                        {"job_id": self.job_id, "state": error.code.name, "reason": str(error)}
                    )
                    return
                await client.job_svc.Stop(stop_request(self.job_id))
                yield TriggerEvent(timed_out(self.job_id))
                return
        yield TriggerEvent(outcome(self.job_id, runtime))

    async def on_kill(self) -> None:
        """Stop the job, since a user has ended the task."""
        if not self.stop_on_kill:
            return
        self.log.info("stop job %s", self.job_id)
        async with await PelotonHook(self.peloton_conn_id).aget_conn() as client:
            await client.job_svc.Stop(stop_request(self.job_id))
