"""What an engine asks of the owners of other jobs, by their SharingService."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Any

from pydantic import TypeAdapter

from jobmgr.core.found_jobs import whole
from jobmgr.engine.elsewhere import Looping
from peloton.calls.jobmgr import DELETE_RUN, GET_RUNTIMES, LIST_CRASH_LOOPING, START_RUN, STOP_RUN
from peloton.calls.rpc import Rpc
from peloton.errors import Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.schedule import run_id
from peloton.model.shard import shard_of
from peloton.private.jobmgr.sharing import sharing_pb2 as pb
from peloton.rpc.caller import Metadata
from peloton.rpc.peers import Owner, PassedFailure, Peers

SECONDS = 10.0
RUNTIME_SECONDS = 1.0
"""How long runtimes are waited for: without them, a list tells what is stored."""
PATIENCE_SECONDS = 5.0
"""How long owners are asked again who crash-loops, where shards move."""
PAUSE_SECONDS = 0.2
RUNTIME: TypeAdapter[JobRuntime] = TypeAdapter(JobRuntime)
"""A runtime with what is not stored of it."""


class OtherOwners:
    """The port `jobmgr.engine.elsewhere.Elsewhere`. What fails is asked again by who asks."""

    def __init__(self, peers: Peers, metadata: Metadata, fence: Callable[[int], int]) -> None:
        """Call with the metadata of this daemon.

        `fence` returns the term in which a shard is owned, and raises Fenced or Unavailable where it is not.
        """
        self._peers = peers
        self._metadata = metadata
        self._fence = fence

    async def start_run(self, job_id: JobId, time: int) -> None:
        """Have the run of a time created by the owner of its shard."""
        request = pb.StartRunRequest(job_id=job_id, time=time, term=self._fence(shard_of(job_id)))
        await self._of_run(run_id(job_id, time), START_RUN, request, pb.StartRunResponse)

    async def stop_run(self, run: JobId, by: str) -> None:
        """Have a run stopped by the owner of its shard."""
        await self._of_run(run, STOP_RUN, pb.StopRunRequest(job_id=run, reason=by), pb.StopRunResponse)

    async def delete_run(self, run: JobId) -> str:
        """Have a run deleted by the owner of its shard; return why it is kept, if it is."""
        request = pb.DeleteRunRequest(job_id=run)
        answer: pb.DeleteRunResponse = await self._of_run(run, DELETE_RUN, request, pb.DeleteRunResponse)
        return answer.kept

    async def _of_run(self, run: JobId, rpc: Rpc[Any, Any], request: Any, answer: type[Any]) -> Any:
        owner = self._peers.owner(shard_of(run))
        if owner is None:
            raise Unavailable(f"job {run} is of shard {shard_of(run)}, which nobody owns now")
        try:
            return await self._call(owner, rpc, request, answer, SECONDS)
        except PassedFailure as failure:
            raise Unavailable(f"{owner.target} {rpc.name}: {failure.text}") from None

    async def crash_looping(self, own: Callable[[], Looping]) -> frozenset[JobId]:
        """Return the jobs of all owners that crash-loop. Raises Unavailable while jobs move, or are read."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PATIENCE_SECONDS
        while True:
            trouble = "jobs are moving between job managers"
            try:
                parts = [own(), *await asyncio.gather(*map(self._looping, self._peers.others()))]
                if whole(part.shards for part in parts):
                    return frozenset(chain.from_iterable(part.jobs for part in parts))
            except (Unavailable, PassedFailure) as error:
                trouble = str(error)
            if loop.time() >= deadline:
                raise Unavailable(f"which services crash-loop is not known: {trouble}: try again")
            await self._peers.changed(PAUSE_SECONDS)

    async def _looping(self, owner: Owner) -> Looping:
        request = pb.ListCrashLoopingRequest()
        answer: pb.ListCrashLoopingResponse = await self._call(
            owner, LIST_CRASH_LOOPING, request, pb.ListCrashLoopingResponse, SECONDS
        )
        return Looping(frozenset(answer.shards), frozenset(answer.job_ids))

    async def runtimes(self, jobs: Collection[JobId]) -> Mapping[JobId, JobRuntime]:
        """Return runtimes of jobs of others as their owners have them, of those that tell in time."""
        asked: defaultdict[Owner, list[JobId]] = defaultdict(list)
        for job_id in jobs:
            if (owner := self._peers.owner(shard_of(job_id))) is not None:
                asked[owner].append(job_id)
        told = await asyncio.gather(*(self._runtimes(owner, ids) for owner, ids in asked.items()))
        return {job_id: runtime for part in told for job_id, runtime in part.items()}

    async def _runtimes(self, owner: Owner, jobs: Sequence[JobId]) -> Mapping[JobId, JobRuntime]:
        request = pb.GetRuntimesRequest(job_ids=jobs)
        try:
            answer: pb.GetRuntimesResponse = await self._call(
                owner, GET_RUNTIMES, request, pb.GetRuntimesResponse, RUNTIME_SECONDS
            )
        except PassedFailure:
            return {}
        return {job_id: RUNTIME.validate_json(text) for job_id, text in answer.runtimes.items()}

    async def _call(
        self, owner: Owner, rpc: Rpc[Any, Any], request: Any, answer: type[Any], seconds: float
    ) -> Any:
        return await self._peers.call(owner, rpc.path, request, answer, self._metadata, seconds)
