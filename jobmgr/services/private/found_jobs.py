"""Queries for jobs where each owner has the index of its own: all are asked, and their findings are merged.

A page is given by its place in the result, so that it is found whoever owns the jobs by then.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from jobmgr.core.found_jobs import merged, summed, whole
from peloton.calls.jobmgr import FIND_JOBS, FIND_LOSSES, GET_FOUND_JOBS
from peloton.errors import InvalidArgument
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobKey, JobKeys, JobLosses, JobPage, JobQuery, JobSummary
from peloton.model.shard import shard_of
from peloton.private.jobmgr.sharing import sharing_pb2 as pb
from peloton.rpc.caller import Metadata
from peloton.rpc.peers import Owner, PassedFailure, Peers
from peloton.wire.payload import spec_from_payload
from storage.codec import JOB_RUNTIME, decode_payload, encode_payload
from storage.interface import Jobs

PATIENCE_SECONDS = 5.0
"""How long owners are asked again where shards move, or their jobs are still read."""
PAUSE_SECONDS = 0.2
CALL_SECONDS = 10.0
Own = TypeVar("Own")
Found = TypeVar("Found")
_QUERY: TypeAdapter[JobQuery] = TypeAdapter(JobQuery)
_KEYS: TypeAdapter[tuple[JobKey, ...]] = TypeAdapter(tuple[JobKey, ...])


class FoundJobs:
    """Queries over the jobs of all owners."""

    def __init__(self, jobs: Jobs, peers: Peers, metadata: Metadata) -> None:
        """Ask with the metadata of this daemon."""
        self._jobs = jobs
        self._peers = peers
        self._metadata = metadata

    async def query(self, query: JobQuery) -> JobPage:
        """Return the jobs that the query matches. Raises as the store does.

        Where the owners cannot tell within some seconds, the store reads all jobs for it.
        """
        return await self._of_owners(
            lambda: self._jobs.find_keys(query),
            lambda own: self._page(query, own),
            lambda: self._jobs.query(query),
        )

    async def lost_seconds(self) -> Mapping[PoolId, float]:
        """Return the seconds of work that jobs have lost since checkpoints, by pool; likewise."""
        return await self._of_owners(self._jobs.find_losses, self._losses, self._jobs.lost_seconds)

    async def _of_owners(
        self,
        own: Callable[[], Awaitable[Own | None]],
        of_all: Callable[[Own], Awaitable[Found | None]],
        of_store: Callable[[], Awaitable[Found]],
    ) -> Found:
        """Return what all owners find; None stands for what is not known, since jobs move."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while loop.time() < deadline:
            mine = await own()
            if mine is None:
                break
            found = await of_all(mine)
            if found is not None:
                return found
            await self._peers.changed(PAUSE_SECONDS)
        return await of_store()

    async def _page(self, query: JobQuery, own: JobKeys) -> JobPage | None:
        others = self._peers.others()
        try:
            parts = [own, *await asyncio.gather(*(self._keys(owner, query) for owner in others))]
            if not whole(part.shards for part in parts):
                return None
            job_ids, total = merged(query, parts)
            found = await self._summaries(job_ids, parts[1:], others)
        except PassedFailure:
            return None
        jobs = (found.get(job_id) for job_id in job_ids)
        return JobPage(tuple(job for job in jobs if job is not None), total)

    async def _losses(self, own: JobLosses) -> Mapping[PoolId, float] | None:
        try:
            parts = [own, *await asyncio.gather(*map(self._losses_of, self._peers.others()))]
        except PassedFailure:
            return None
        return summed(parts) if whole(part.shards for part in parts) else None

    async def _losses_of(self, owner: Owner) -> JobLosses:
        answer: pb.FindLossesResponse = await self._peers.call(
            owner,
            FIND_LOSSES.path,
            pb.FindLossesRequest(),
            pb.FindLossesResponse,
            self._metadata,
            CALL_SECONDS,
        )
        return JobLosses(frozenset(answer.shards), dict(answer.seconds))

    async def _keys(self, owner: Owner, query: JobQuery) -> JobKeys:
        request = pb.FindJobsRequest(query=_QUERY.dump_json(query))
        answer: pb.FindJobsResponse = await self._peers.call(
            owner, FIND_JOBS.path, request, pb.FindJobsResponse, self._metadata, CALL_SECONDS
        )
        return JobKeys(frozenset(answer.shards), _KEYS.validate_json(answer.keys), answer.total)

    async def _summaries(
        self, job_ids: Sequence[JobId], parts: Sequence[JobKeys], others: Sequence[Owner]
    ) -> dict[JobId, JobSummary]:
        """Return jobs by their ids, without those that are deleted since, or that have moved."""
        where = {shard: place for place, part in enumerate(parts) for shard in part.shards}
        asked: defaultdict[int, list[JobId]] = defaultdict(list)
        for job_id in job_ids:
            asked[where.get(shard_of(job_id), len(parts))].append(job_id)
        own = asked.pop(len(parts), [])
        told = await asyncio.gather(*(self._ask(others[place], ids) for place, ids in asked.items()))
        mine = await self._jobs.summaries(own) if own else ()
        return {job.job_id: job for job in chain(mine, *told)}

    async def _ask(self, owner: Owner, job_ids: Sequence[JobId]) -> Iterable[JobSummary]:
        request = pb.GetFoundJobsRequest(job_ids=job_ids)
        answer: pb.GetFoundJobsResponse = await self._peers.call(
            owner, GET_FOUND_JOBS.path, request, pb.GetFoundJobsResponse, self._metadata, CALL_SECONDS
        )
        return [_job_from(wire) for wire in answer.jobs]


async def find_jobs(jobs: Jobs, request: pb.FindJobsRequest) -> pb.FindJobsResponse:
    """Answer for the shards of this instance; for none where the store has no index of them.

    Raises InvalidArgument for what is no query.
    """
    try:
        query = _QUERY.validate_json(request.query)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_context=False)[0]["msg"]
        raise InvalidArgument("query", request.query, f"a query for jobs as JSON: {wrong}") from None
    found = await jobs.find_keys(query)
    if found is None:
        return pb.FindJobsResponse(keys=_KEYS.dump_json(()))
    return pb.FindJobsResponse(
        shards=sorted(found.shards), keys=_KEYS.dump_json(found.keys), total=found.total
    )


async def find_losses(jobs: Jobs) -> pb.FindLossesResponse:
    """Answer for the shards of this instance, as `find_jobs` does."""
    found = await jobs.find_losses()
    if found is None:
        return pb.FindLossesResponse()
    return pb.FindLossesResponse(shards=sorted(found.shards), seconds=found.seconds)


async def found_jobs(jobs: Jobs, request: pb.GetFoundJobsRequest) -> pb.GetFoundJobsResponse:
    """Return those of some jobs of this instance that are there."""
    return pb.GetFoundJobsResponse(jobs=[_job_to(job) for job in await jobs.summaries(request.job_ids)])


def _job_to(job: JobSummary) -> pb.FoundJob:
    return pb.FoundJob(
        job_id=job.job_id,
        version=job.spec.version,
        spec=encode_payload(job.spec.payload),
        runtime=JOB_RUNTIME.encode(job.runtime),
    )


def _job_from(wire: pb.FoundJob) -> JobSummary:
    spec = spec_from_payload(decode_payload(wire.spec), wire.version)
    return JobSummary(wire.job_id, spec, JOB_RUNTIME.decode(wire.runtime))
