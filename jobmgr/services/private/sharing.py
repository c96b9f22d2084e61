"""SharingService: what job managers that share the work ask each other, and who owns which jobs."""

from __future__ import annotations

from collections.abc import Callable

from jobmgr.engine.engine import Engine
from jobmgr.engine.schedule_runs import create_run
from jobmgr.services.common.crash_loops import explained, looping_here
from jobmgr.services.private.elsewhere import RUNTIME
from jobmgr.services.private.found_jobs import find_jobs, find_losses, found_jobs
from peloton.errors import Fenced, InvalidArgument, NotFound, Refused
from peloton.membership.shard_registry import Shards
from peloton.model.shard import shard_of
from peloton.private.jobmgr.sharing import sharing_pb2 as pb
from peloton.private.jobmgr.sharing import sharing_pb2_grpc
from peloton.sharding.claims import ranges_of

LAST_SECOND = 253_402_300_799
"""The end of the year 9999, in seconds since 1970."""


class SharingService(sharing_pb2_grpc.SharingServiceServicer):
    """Answers for the shards of this instance, and tells of the table of all."""

    def __init__(self, engine: Engine, seen: Callable[[], Shards], shared: bool) -> None:
        """Get the table and the sessions by `seen`. `shared`: whether several instances may own shards."""
        self._engine = engine
        self._shared = shared
        self._seen = seen

    async def ListOwners(self, request: pb.ListOwnersRequest, context: object) -> pb.ListOwnersResponse:
        """Return the sessions that live, with the shards of each."""
        seen = self._seen()
        shards = seen.table.shards
        answer = pb.ListOwnersResponse(generation=seen.table.generation, shared=self._shared)
        for name, info in sorted(seen.sessions.items()):
            owned = sorted(seen.table.owned(name))
            answer.owners.add(
                session=name,
                address=info.address.target,
                shards=",".join(ranges_of(owned)),
                count=len(owned),
                going=sum(1 for number in owned if shards[number].successor),
                leaving=info.leaving,
            )
        answer.without_owner = sum(1 for shard in shards if shard.owner not in seen.sessions)
        return answer

    async def StartRun(self, request: pb.StartRunRequest, context: object) -> pb.StartRunResponse:
        """Create the run of a time of a schedule.

        Raises NotFound, InvalidArgument, Unavailable for another's job, and Fenced where another owner of the
        schedule has come after the caller: it has started this run, and may have deleted it by now.
        """
        if not 0 < request.time <= LAST_SECOND:
            raise InvalidArgument("time", request.time, "seconds since 1970, up to the end of the year 9999")
        if request.term and self._seen().table.shards[shard_of(request.job_id)].term > request.term:
            raise Fenced(f"job {request.job_id} has another owner since term {request.term}")
        job = await self._engine.summary(request.job_id)
        await create_run(self._engine, job.job_id, job.spec, request.time)
        return pb.StartRunResponse()

    async def StopRun(self, request: pb.StopRunRequest, context: object) -> pb.StopRunResponse:
        """Stop a run of a schedule, unless it has ended. Raises Unavailable for another's job."""
        try:
            if await self._engine.find(request.job_id) is not None:
                await self._engine.stop_run(request.job_id, request.reason)
        except NotFound:
            pass  # it is deleted, and so has ended
        return pb.StopRunResponse()

    async def DeleteRun(self, request: pb.DeleteRunRequest, context: object) -> pb.DeleteRunResponse:
        """Delete a run of a schedule, unless it lives. Raises Unavailable for another's job."""
        try:
            await self._engine.delete(request.job_id)
        except NotFound:
            pass  # it was deleted already
        except Refused as error:
            return pb.DeleteRunResponse(kept=str(error))
        return pb.DeleteRunResponse()

    async def FindJobs(self, request: pb.FindJobsRequest, context: object) -> pb.FindJobsResponse:
        """Return the keys of jobs of this instance that match a query. Raises InvalidArgument."""
        return await find_jobs(self._engine.store.jobs, request)

    async def GetFoundJobs(self, request: pb.GetFoundJobsRequest, context: object) -> pb.GetFoundJobsResponse:
        """Return jobs of this instance, without those that are deleted or have moved."""
        return await found_jobs(self._engine.store.jobs, request)

    async def FindLosses(self, request: pb.FindLossesRequest, context: object) -> pb.FindLossesResponse:
        """Return what jobs of this instance have lost since checkpoints."""
        return await find_losses(self._engine.store.jobs)

    async def ListCrashLooping(
        self, request: pb.ListCrashLoopingRequest, context: object
    ) -> pb.ListCrashLoopingResponse:
        """Return the jobs of this instance that crash-loop. Raises Unavailable while jobs are read."""
        found = looping_here(self._engine)
        return pb.ListCrashLoopingResponse(shards=sorted(found.shards), job_ids=sorted(found.jobs))

    async def GetRuntimes(self, request: pb.GetRuntimesRequest, context: object) -> pb.GetRuntimesResponse:
        """Return the runtimes of those of some jobs that are in memory."""
        jobs = (self._engine.job(job_id) for job_id in request.job_ids)
        limits = self._engine.limits
        return pb.GetRuntimesResponse(
            runtimes={
                job.job_id: RUNTIME.dump_json(explained(job, limits)) for job in jobs if job is not None
            }
        )
