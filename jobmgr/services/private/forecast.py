"""ForecastService: the active jobs, as far as what is scheduled when depends on them."""

from __future__ import annotations

import asyncio

from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.engine import Engine
from peloton.clock import Clock
from peloton.errors import InvalidArgument, ResourceExhausted
from peloton.model.plural import plural
from peloton.private.jobmgr.forecast import forecast_pb2 as pb
from peloton.private.jobmgr.forecast import forecast_pb2_grpc
from peloton.wire.live_jobs import live_job_to

MOST_TASKS = 50_000
"""Instances of all jobs together that have not ended."""
TASKS_AT_ONCE = 1_000
"""Instances that are read before other work is done."""


class ForecastService(forecast_pb2_grpc.ForecastServiceServicer):
    """Tells what the simulator is run forward from."""

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock

    async def ListLiveJobs(self, request: pb.ListLiveJobsRequest, context: object) -> pb.ListLiveJobsResponse:
        """Return the active jobs. Raises InvalidArgument, ResourceExhausted."""
        most = request.most_tasks or MOST_TASKS
        if most > MOST_TASKS:
            raise InvalidArgument("most_tasks", most, f"at most {MOST_TASKS}")
        jobs = [job for job in self._engine.lanes.in_memory() if not _has_no_instances(job)]
        there = sum(_live(job) for job in jobs)
        if there > most:
            count = plural(there, "instance has", "instances have")
            raise ResourceExhausted(f"{count} not ended, which is more than {most}")
        answer, left = pb.ListLiveJobsResponse(now=self._clock.wall()), TASKS_AT_ONCE
        for job in jobs:
            answer.jobs.append(live_job_to(job.job_id, job.spec, job.runtime.creation_time, job.created()))
            left -= job.size + 1
            if left <= 0:
                left = TASKS_AT_ONCE
                await asyncio.sleep(0)
        return answer


def _live(job: CachedJob) -> int:
    return sum(count for state, count in job.counts.items() if not state.terminal)


def _has_no_instances(job: CachedJob) -> bool:
    """Return whether a job waits for others, or is a schedule."""
    return job.spec.schedule is not None or bool(job.runtime.unmet)
