"""Names of jobs, for pages that know their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from urllib.parse import urlencode

from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls.web import GET_JOB_V1ALPHA, QUERY_JOBS
from peloton.errors import NotFound, PelotonError, shown
from peloton.web.cluster import Calls
from peloton.web.naming import jobs_in

NAME_AGE = 30.0
"""How old the name of a job may be, in seconds."""


async def address_of(calls: Calls, reference: str) -> str:
    """Return the address of the job of a name, or whose id begins so; of the list of them for several.

    Raises NotFound where there is none, PelotonError.
    """
    spec = job_pb2.QuerySpec(reference=reference, pagination=query_pb2.PaginationSpec(limit=2))
    answer = await calls.read(QUERY_JOBS, job_pb2.QueryRequest(spec=spec, summaryOnly=True))
    if len(answer.results) > 1:
        return f"/jobs?{urlencode({'name': reference})}"
    for job in answer.results:
        return f"/jobs/{job.id.value}"
    raise NotFound(f"no job has the name {shown(reference)}, or an id that begins so")


async def names_in(calls: Calls, texts: Iterable[str]) -> dict[str, str]:
    """Return the names of the jobs that texts name by their ids."""
    return await job_names(calls, jobs_in(texts))


async def job_names(calls: Calls, job_ids: Iterable[str]) -> dict[str, str]:
    """Return the names of jobs, as far as they can be read."""

    async def one(job_id: str) -> str:
        request = stateless_svc_pb2.GetJobRequest(job_id=peloton_pb2.JobID(value=job_id), summary_only=True)
        try:
            answer = await calls.read(GET_JOB_V1ALPHA, request, NAME_AGE)
        except PelotonError:
            return ""
        return str(answer.summary.name)

    ids = sorted(set(job_ids))
    return dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))
