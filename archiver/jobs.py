"""jobmgr as the archiver sees it: which jobs have ended, and their deletion."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.calls.archiver import DELETE_JOB, QUERY_JOBS
from peloton.calls.rpc import Caller
from peloton.errors import NotFound, PelotonError
from peloton.model.ids import JobId
from peloton.model.states import TERMINAL_JOB_STATES

PAGE = 100
"""Most jobs that jobmgr returns at once."""
TIMEOUT = 60.0


class EndedJobs(Protocol):
    """Jobs that have ended."""

    def ended(self, before: int) -> AsyncIterator[JobId]:
        """Yield jobs that ended before a time (nanoseconds since 1970), the oldest first, each once.

        The caller may delete what it gets. Raises PelotonError.
        """
        ...

    async def delete(self, job_id: JobId) -> None:
        """Delete a job that has ended; nothing happens where it is gone. Raises PelotonError."""
        ...


class JobmgrJobs:
    """Ended jobs by calls of jobmgr's leader, which has their index, and deletes within its term."""

    def __init__(self, jobmgr: Caller) -> None:
        """`jobmgr` calls its JobManager."""
        self._jobmgr = jobmgr

    async def ended(self, before: int) -> AsyncIterator[JobId]:
        """Yield jobs that ended before a time, the oldest first, each once."""
        seen: set[JobId] = set()
        offset = 0
        while True:
            answer = await self._jobmgr.call(QUERY_JOBS, _query(before, offset), timeout=TIMEOUT)
            if answer.HasField("error"):
                raise PelotonError(f"jobmgr's Query: {answer.error}")
            page = [each.id.value for each in answer.results]
            for job_id in page:
                if job_id not in seen:
                    seen.add(job_id)
                    yield job_id
            if len(page) < PAGE:
                return
            offset = await self._kept(before, offset, page)

    async def _kept(self, before: int, offset: int, page: list[JobId]) -> int:
        """Return the offset behind those of a page that are still there: the others moved up."""
        answer = await self._jobmgr.call(QUERY_JOBS, _query(before, offset), timeout=TIMEOUT)
        still = {each.id.value for each in answer.results}
        return offset + sum(job_id in still for job_id in page)

    async def delete(self, job_id: JobId) -> None:
        """Delete a job that has ended; nothing happens where it is gone."""
        request = job_pb2.DeleteRequest(id=peloton_pb2.JobID(value=job_id))
        try:
            await self._jobmgr.call(DELETE_JOB, request, timeout=TIMEOUT)
        except NotFound:
            return


def _query(before: int, offset: int) -> job_pb2.QueryRequest:
    request = job_pb2.QueryRequest(summaryOnly=True)
    spec = request.spec
    spec.jobStates.extend(job_pb2.JobState.ValueType(state) for state in sorted(TERMINAL_JOB_STATES))
    spec.completionTimeRange.max.FromNanoseconds(before)
    spec.pagination.offset = offset
    spec.pagination.limit = PAGE
    by = spec.pagination.orderBy.add(order=query_pb2.OrderBy.ASC)
    by.property.value = "completion_time"
    return request
