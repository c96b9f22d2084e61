"""The private JobManagerService, for operators."""

from __future__ import annotations

import fnmatch
from typing import Any

from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.engine import Engine
from jobmgr.services.common.view import JOB_NOT_FOUND
from peloton.api.v1alpha import peloton_pb2
from peloton.errors import NotFound
from peloton.model.ids import is_uuid
from peloton.private.jobmgrsvc import jobmgrsvc_pb2, jobmgrsvc_pb2_grpc

NOT_BUILT = "is about services, which this server does not run yet"


class JobManagerService(jobmgrsvc_pb2_grpc.JobManagerServiceServicer):
    """Answers the calls of JobManagerService."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

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
        """Refuse: services are not served yet."""
        raise NotImplementedError("GetThrottledPods " + NOT_BUILT)

    async def GetJobCache(
        self, request: jobmgrsvc_pb2.GetJobCacheRequest, context: Any
    ) -> jobmgrsvc_pb2.GetJobCacheResponse:
        """Refuse: services are not served yet."""
        raise NotImplementedError("GetJobCache " + NOT_BUILT + "; for batch jobs ask JobManager.GetCache")

    async def GetInstanceAvailabilityInfoForJob(
        self, request: jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobRequest, context: Any
    ) -> jobmgrsvc_pb2.GetInstanceAvailabilityInfoForJobResponse:
        """Refuse: services are not served yet."""
        raise NotImplementedError("GetInstanceAvailabilityInfoForJob " + NOT_BUILT)


def _matches(job: CachedJob, spec: jobmgrsvc_pb2.QueryJobCacheRequest.CacheQuerySpec) -> bool:
    """Return whether a job has all labels and the name, which may have the wildcards `*` and `?`."""
    held = set(job.spec.labels)
    return all((label.key, label.value) in held for label in spec.labels) and (
        not spec.name or fnmatch.fnmatchcase(job.spec.name, spec.name)
    )
