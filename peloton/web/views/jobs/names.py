"""Names of jobs, for pages that know their ids."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls.web import GET_JOB_V1ALPHA
from peloton.errors import PelotonError
from peloton.web.cluster import Calls

NAME_AGE = 30.0
"""How old the name of a job may be, in seconds."""


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
