"""What an engine asks of the owners of other jobs, by their SharingService."""

from __future__ import annotations

from typing import Any

from peloton.calls.jobmgr import START_RUN, STOP_RUN
from peloton.calls.rpc import Rpc
from peloton.errors import Unavailable
from peloton.model.ids import JobId
from peloton.model.schedule import run_id
from peloton.model.shard import shard_of
from peloton.private.jobmgr.sharing import sharing_pb2 as pb
from peloton.rpc.caller import Metadata
from peloton.rpc.peers import PassedFailure, Peers

SECONDS = 10.0


class OtherOwners:
    """The port `jobmgr.engine.elsewhere.Elsewhere`. What fails is asked again by who asks."""

    def __init__(self, peers: Peers, metadata: Metadata) -> None:
        """Call with the metadata of this daemon."""
        self._peers = peers
        self._metadata = metadata

    async def start_run(self, job_id: JobId, time: int) -> None:
        """Have the run of a time created by the owner of its shard."""
        request = pb.StartRunRequest(job_id=job_id, time=time)
        await self._call(run_id(job_id, time), START_RUN, request, pb.StartRunResponse)

    async def stop_run(self, run: JobId, by: str) -> None:
        """Have a run stopped by the owner of its shard."""
        await self._call(run, STOP_RUN, pb.StopRunRequest(job_id=run, reason=by), pb.StopRunResponse)

    async def _call(self, job_id: JobId, rpc: Rpc[Any, Any], request: Any, answer: type[Any]) -> None:
        owner = self._peers.owner(shard_of(job_id))
        if owner is None:
            raise Unavailable(f"job {job_id} is of shard {shard_of(job_id)}, which nobody owns now")
        try:
            await self._peers.call(owner, rpc.path, request, answer, self._metadata, SECONDS)
        except PassedFailure as failure:
            raise Unavailable(f"{owner.target} {rpc.name}: {failure.text}") from None
