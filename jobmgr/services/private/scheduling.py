"""SchedulingService: what jobs are ordered by, and which of them begin by a schedule."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.job_states import ENDING_JOB_GOALS
from jobmgr.engine.engine import Engine
from jobmgr.services.common.answering import LISTED_SCHEDULES
from jobmgr.services.common.reach import Paths, paths_of_pools, readable
from jobmgr.services.common.view import view
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument, NotFound, Refused, Unavailable
from peloton.model.ids import JobId
from peloton.model.priority import PriorityClasses, highest_first
from peloton.model.schedule import ScheduleState, run_id
from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb
from peloton.private.jobmgr.scheduling import scheduling_pb2_grpc
from peloton.wire.payload import job_config
from peloton.wire.schedule import next_times, status_to

MOST_LISTED = 1000
"""Schedules that are listed at most."""


class SchedulingService(scheduling_pb2_grpc.SchedulingServiceServicer):
    """Tells of the priority classes and of schedules, and pauses schedules."""

    def __init__(self, engine: Engine, classes: PriorityClasses) -> None:
        """Serve these classes."""
        self._engine = engine
        self._classes = classes

    async def ListPriorityClasses(
        self, request: pb.ListPriorityClassesRequest, context: object
    ) -> pb.ListPriorityClassesResponse:
        """Return the priority classes, the highest first."""
        return pb.ListPriorityClassesResponse(
            classes=[
                pb.PriorityClass(name=each.name, priority=each.priority, description=each.description)
                for each in highest_first(self._classes)
            ]
        )

    async def ListSchedules(
        self, request: pb.ListSchedulesRequest, context: object
    ) -> pb.ListSchedulesResponse:
        """Return the schedules that the caller may read. Raises InvalidArgument, NotFound, Unavailable."""
        if request.limit > MOST_LISTED:
            raise InvalidArgument("limit", request.limit, f"a number from 0 to {MOST_LISTED}")
        paths = await paths_of_pools(self._engine)
        if request.pool and request.pool not in paths.values():
            raise NotFound(f"there is no pool {request.pool}")
        jobs = [
            job for job in await self._followed() if _is_within(paths.get(job.spec.pool_id, ""), request.pool)
        ]
        shown = sorted(jobs, key=_next)[: request.limit or LISTED_SCHEDULES]
        states = await asyncio.gather(*map(self._last_state, shown))
        rows = [_row(job, paths, state) for job, state in zip(shown, states, strict=True)]
        return pb.ListSchedulesResponse(schedules=rows, total=len(jobs))

    async def PauseSchedule(
        self, request: pb.PauseScheduleRequest, context: object
    ) -> pb.PauseScheduleResponse:
        """Let a schedule begin no runs. Raises NotFound, Refused."""
        return pb.PauseScheduleResponse(status=await self._move(request.job_id.value, pause=True))

    async def ResumeSchedule(
        self, request: pb.ResumeScheduleRequest, context: object
    ) -> pb.ResumeScheduleResponse:
        """Let a paused schedule go on. Raises NotFound, Refused."""
        return pb.ResumeScheduleResponse(status=await self._move(request.job_id.value, pause=False))

    async def SuspendJob(self, request: pb.SuspendJobRequest, context: object) -> pb.SuspendJobResponse:
        """Stop the instances of a batch job until it is resumed. Raises NotFound, Refused."""
        job = await view(self._engine, request.job_id.value)
        await self._engine.suspend(job.job_id, suspend=True)
        return pb.SuspendJobResponse()

    async def ResumeJob(self, request: pb.ResumeJobRequest, context: object) -> pb.ResumeJobResponse:
        """Let a suspended job go on. Raises NotFound, Refused."""
        job = await view(self._engine, request.job_id.value)
        await self._engine.suspend(job.job_id, suspend=False)
        return pb.ResumeJobResponse()

    async def _move(self, job_id: JobId, pause: bool) -> scheduling_pb2.ScheduleStatus:
        job = await view(self._engine, job_id)
        if job.spec.schedule is None:
            raise Refused(f"job {job.spec.name} has no schedule; `peloton schedule list` has those that do")
        await self._engine.pause_schedule(job.job_id, pause)
        moved = await view(self._engine, job.job_id)
        return status_to(job.job_id, job.spec.schedule, moved.runtime.schedule_state)

    async def _followed(self) -> Sequence[CachedJob]:
        """Return the jobs with a schedule that is followed. Raises Unavailable while they are being read."""
        if unread := len(self._engine.lanes.unread):
            raise Unavailable(
                f"{unread:,} of the active jobs are not read yet, after a change of leaders: try again"
            )
        followed = [
            job
            for job in self._engine.lanes.in_memory()
            if job.spec.schedule is not None and job.runtime.goal not in ENDING_JOB_GOALS
        ]
        mine = set(await readable([job.job_id for job in followed], self._engine))
        return [job for job in followed if job.job_id in mine]

    async def _last_state(self, job: CachedJob) -> job_pb2.JobState.ValueType:
        last = job.runtime.schedule_state.last
        if not last:
            return job_pb2.UNKNOWN
        try:
            found = await self._engine.summary(run_id(job.job_id, last))
        except NotFound:
            return job_pb2.UNKNOWN
        return job_pb2.JobState.ValueType(found.runtime.state)


def _next(job: CachedJob) -> tuple[float, str]:
    schedule, state = job.spec.schedule, job.runtime.schedule_state
    times = next_times(schedule, state, 1) if schedule else []
    return (float(times[0]) if times else float("inf"), job.spec.name)


def _is_within(path: str, pool: str) -> bool:
    return not pool or path == pool or path.startswith(f"{pool.rstrip('/')}/")


def _row(job: CachedJob, paths: Paths, last_state: job_pb2.JobState.ValueType) -> pb.Schedule:
    state: ScheduleState = job.runtime.schedule_state
    assert job.spec.schedule is not None, f"job {job.job_id} has no schedule"
    return pb.Schedule(
        job_id=v0_peloton.JobID(value=job.job_id),
        name=job.spec.name,
        pool=paths.get(job.spec.pool_id, ""),
        owning_team=job.spec.owning_team,
        schedule=job_config(job.spec.payload).schedule,
        status=status_to(job.job_id, job.spec.schedule, state),
        last_state=last_state,
    )
