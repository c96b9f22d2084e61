"""The methods of JobService that change nothing (docs/behaviour/jobs.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.crash_loops import crash_looping
from jobmgr.services.common.job_info import cached_job, spec_message, status_message, summary_message
from jobmgr.services.common.ranges import bounds
from jobmgr.services.common.reach import limited
from jobmgr.services.common.secrets import shown_v1alpha
from jobmgr.services.common.task_find import NameOf, Naming, find
from jobmgr.services.common.task_query import Batch
from jobmgr.services.common.view import JOB_NOT_FOUND, in_memory, view
from jobmgr.services.v1alpha.pod_info import Pods
from jobmgr.services.v1alpha.queries import applied, pod_query, v1alpha_job_query
from jobmgr.services.v1alpha.workflow_reads import WorkflowReads
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.api.v1alpha.query import query_pb2
from peloton.clock import Clock
from peloton.errors import InvalidArgument, NotFound
from peloton.model.ids import is_uuid, task_id
from peloton.model.job import JobQuery, JobSummary, TimeRange
from peloton.model.workflow import EntityVersion
from peloton.rpc.pages import Room, parts_of, taken_by

PODS_PER_MESSAGE = 500
JOBS_PER_MESSAGE = 200
MAX_JOBS_BY_NAME = 1000
OLDEST_FIRST = (("creation_time", False),)


class JobReads(WorkflowReads):
    """Answers from memory where a job is active, else from the store. Raises NotFound for unknown jobs."""

    def __init__(self, engine: Engine, workflows: Workflows, clock: Clock) -> None:
        super().__init__(engine, workflows)
        self._clock = clock

    async def GetJob(self, request: pb.GetJobRequest, context: Any) -> pb.GetJobResponse:
        """Return a job with its last workflow, or its summary; the spec is of the version that is wanted.

        Raises NotFound for a version that is not stored, InvalidArgument for a text that is none.
        """
        job = await view(self._engine, request.job_id.value)
        workflow = await self._last_workflow(job)
        if request.summary_only:
            summary = JobSummary(job.job_id, job.spec, job.runtime)
            return pb.GetJobResponse(
                summary=summary_message(summary, workflow), secrets=shown_v1alpha(job.spec.payload.secrets)
            )
        spec = job.spec
        if request.version.value:
            spec = await job.version(EntityVersion.parse(request.version.value).config)
        info = stateless_pb2.JobInfo(
            job_id=request.job_id, spec=spec_message(spec, job.runtime), status=status_message(job, workflow)
        )
        return pb.GetJobResponse(
            job_info=info,
            secrets=shown_v1alpha(spec.payload.secrets),
            workflow_info=await self._workflow_info(workflow),
        )

    async def GetJobIDFromJobName(
        self, request: pb.GetJobIDFromJobNameRequest, context: Any
    ) -> pb.GetJobIDFromJobNameResponse:
        """Return the jobs of exactly this name, newest first. Raises NotFound where there is none."""
        if not request.job_name:
            raise InvalidArgument("job_name", "", "the name of a job")
        query = await limited(JobQuery(exact_name=request.job_name, limit=MAX_JOBS_BY_NAME), self._engine)
        found = (await self._engine.find_jobs(query)).jobs
        if not found:
            raise NotFound(f"no job has the name {request.job_name!r}")
        return pb.GetJobIDFromJobNameResponse(job_id=[peloton_pb2.JobID(value=job.job_id) for job in found])

    async def GetJobCache(self, request: pb.GetJobCacheRequest, context: Any) -> pb.GetJobCacheResponse:
        """Return a job as it is in memory. Raises NotFound for one that has ended."""
        spec, status = await cached_job(self._engine, self._workflows, request.job_id.value)
        return pb.GetJobCacheResponse(spec=spec, status=status)

    async def ListPods(self, request: pb.ListPodsRequest, context: Any) -> AsyncIterator[pb.ListPodsResponse]:
        """Send the pods of a job, or of a range of it, in order."""
        job = await view(self._engine, request.job_id.value)
        first, end = 0, job.size
        if request.HasField("range"):
            first, end = bounds(request.range, end)
        pods, answer, room = Pods(job), pb.ListPodsResponse(), Room()
        async for instance, runtime in job.tasks(first, end):
            summary = await pods.summary(instance, runtime)
            if len(answer.pods) == PODS_PER_MESSAGE or not room.takes(summary):
                yield answer
                answer, room = pb.ListPodsResponse(), Room()
                room.takes(summary)
            answer.pods.append(summary)
        if answer.pods:
            yield answer

    async def QueryPods(self, request: pb.QueryPodsRequest, context: Any) -> pb.QueryPodsResponse:
        """Find pods by state, name and host."""
        job = await view(self._engine, request.job_id.value)
        query = pod_query(request.pagination if request.HasField("pagination") else None, request.spec)
        rows, total = await find(job, query, _naming(job.job_id))
        pods = Pods(job)
        answer, room, limit = pb.QueryPodsResponse(), Room(taken_by(context)), query.page.limit
        for row in rows:
            found = await pods.info(row.instance, row.runtime, request.summary_only)
            if not room.takes(found):
                limit = len(answer.pods)
                break
            answer.pods.append(found)
        page = query_pb2.Pagination(offset=query.page.offset, limit=limit, total=total)
        answer.pagination.CopyFrom(page)
        return answer

    async def QueryJobs(self, request: pb.QueryJobsRequest, context: Any) -> pb.QueryJobsResponse:
        """Find jobs of all types; an empty spec finds all."""
        query = v1alpha_job_query(request.spec, await self._engine.store.pools.all(), self._clock.wall())
        query = await limited(query, self._engine)
        if request.spec.crash_looping:
            query = await crash_looping(query, self._engine)
        page = await self._engine.find_jobs(query)
        answer, limit = pb.QueryJobsResponse(spec=applied(request.spec, query)), query.limit
        found = map(summary_message, await in_memory(self._engine, page.jobs))
        if not Room(taken_by(context)).fill(answer.records, found):
            limit = len(answer.records)
        answer.pagination.CopyFrom(query_pb2.Pagination(offset=query.offset, limit=limit, total=page.total))
        return answer

    async def ListJobs(self, request: pb.ListJobsRequest, context: Any) -> AsyncIterator[pb.ListJobsResponse]:
        """Send summaries of all jobs, oldest first. Jobs created meanwhile come last."""
        since, sent = 0, 0
        while True:
            query = JobQuery(
                created=TimeRange(start=since), order=OLDEST_FIRST, offset=sent, limit=JOBS_PER_MESSAGE
            )
            query = await limited(query, self._engine)
            jobs = (await self._engine.find_jobs(query)).jobs
            if not jobs:
                return
            found = [summary_message(job) for job in await in_memory(self._engine, jobs)]
            for part in parts_of(pb.ListJobsResponse(jobs=found)):
                yield part
            last = jobs[-1].runtime.creation_time
            again = sum(1 for job in jobs if job.runtime.creation_time == last)
            sent = again + (sent if last == since else 0)
            since = last

    async def RefreshJob(self, request: pb.RefreshJobRequest, context: Any) -> pb.RefreshJobResponse:
        """Read the job from the store again, and evaluate it."""
        if not is_uuid(request.job_id.value):
            raise NotFound(JOB_NOT_FOUND)
        await self._engine.refresh(request.job_id.value)
        return pb.RefreshJobResponse()


def _naming(job_id: str) -> Naming:
    """Return what names the pods of a job."""

    async def naming(batch: Batch) -> NameOf:
        return lambda instance, runtime: task_id(job_id, instance)

    return naming
