"""The private JobManagerService, for operators."""

from __future__ import annotations

import asyncio
import fnmatch
from typing import Any

from jobmgr.core.job.availability import instance_availability
from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.job_info import cached_job
from jobmgr.services.common.view import JOB_NOT_FOUND, YIELD_EVERY, view
from peloton.api.v1alpha import peloton_pb2
from peloton.errors import NotFound
from peloton.model.ids import JobId, is_uuid
from peloton.model.states import JobState, JobType
from peloton.private.jobmgrsvc import jobmgrsvc_pb2, jobmgrsvc_pb2_grpc
from peloton.wire.v1alpha.pod_status import pod_name


class JobManagerService(jobmgrsvc_pb2_grpc.JobManagerServiceServicer):
    """Answers the calls of JobManagerService."""

    def __init__(self, engine: Engine, workflows: Workflows) -> None:
        self._engine = engine
        self._workflows = workflows

    async def RefreshJob(
        self, request: jobmgrsvc_pb2.RefreshJobRequest, context: Any
    ) -> jobmgrsvc_pb2.RefreshJobResponse:
        """Read a job from the store again."""
        if not is_uuid(request.job_id.value):
            raise NotFound(JOB_NOT_FOUND)
        await self._engine.refresh(request.job_id.value)
        return jobmgrsvc_pb2.RefreshJobResponse()

    async def QueryJobCache(
        self, request: jobmgrsvc_pb2.QueryJobCacheRequest, context: Any
    ) -> jobmgrsvc_pb2.QueryJobCacheResponse:
        """Return the active jobs that match."""
        answer = jobmgrsvc_pb2.QueryJobCacheResponse()
        for job_id in self._engine.active_jobs():
            job = self._engine.job(job_id)
            if job is not None and _matches(job, request.spec):
                held = answer.result.add(name=job.spec.name)
                held.job_id.CopyFrom(peloton_pb2.JobID(value=job_id))
        return answer

    async def GetThrottledPods(
        self, request: jobmgrsvc_pb2.GetThrottledPodsRequest, context: Any
    ) -> jobmgrsvc_pb2.GetThrottledPodsResponse:
        """Return the pods of services that failed and wait before their next run, by job and instance."""
        answer = jobmgrsvc_pb2.GetThrottledPodsResponse()
        for number, job_id in enumerate(sorted(self._engine.active_jobs()), 1):
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
            job = await self._service(job_id)
            for instance in sorted(job.throttled) if job is not None else ():
                answer.throttled_pods.append(pod_name(job_id, instance))
        return answer

    async def GetJobCache(
        self, request: jobmgrsvc_pb2.GetJobCacheRequest, context: Any
    ) -> jobmgrsvc_pb2.GetJobCacheResponse:
        """Return a job as it is in memory. Raises NotFound for one that has ended."""
        spec, status = await cached_job(self._engine, self._workflows, request.job_id.value)
        return jobmgrsvc_pb2.GetJobCacheResponse(spec=spec, status=status)

    async def GetInstanceAvailabilityInfoForJob(
        self, request: jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobRequest, context: Any
    ) -> jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobResponse:
        """Return the class of the named instances; without names, of all that the job has or is removing.

        INVALID stands for an instance that the job does not have, or has no row of yet. Raises NotFound.
        """
        job = await view(self._engine, request.job_id.value)
        rows = {instance: task async for instance, task in job.tasks()}
        answer = jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobResponse()
        for instance in request.instances or {*range(job.spec.instance_count), *rows}:
            found = instance_availability(job.runtime.goal, rows.get(instance))
            answer.instance_availability_map[instance] = found.name
        return answer

    async def _service(self, job_id: JobId) -> CachedJob | None:
        """Return a job if it is a service that shall run; one that is not in memory yet is read first."""
        job = self._engine.job(job_id)
        if job is None:
            try:
                job = await self._engine.find(job_id)
            except NotFound:  # deleted since
                return None
        if job is None or job.spec.type is JobType.BATCH or job.runtime.goal is not JobState.RUNNING:
            return None
        return job


def _matches(job: CachedJob, spec: jobmgrsvc_pb2.QueryJobCacheRequest.CacheQuerySpec) -> bool:
    """Return whether a job has all labels and the name, which may have the wildcards `*` and `?`."""
    held = set(job.spec.labels)
    return all((label.key, label.value) in held for label in spec.labels) and (
        not spec.name or fnmatch.fnmatchcase(job.spec.name, spec.name)
    )
