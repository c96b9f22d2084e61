"""What clusters say to tasks, over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.clients.answers import CALL_SECONDS
from peloton.calls.jobmgr import TRY_TASKS
from peloton.calls.rpc import Caller
from peloton.private.hostmgr.launching import launching_pb2


class TrialsClient:
    """Trials of tasks by host managers: `jobmgr.ports.hostmgr.Trials`."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def try_tasks(self, configs: Sequence[bytes]) -> Sequence[str]:
        """Return for each config why no cluster takes it."""
        request = launching_pb2.TryTasksRequest(configs=configs)
        answer = await self._client.call(TRY_TASKS, request, timeout=CALL_SECONDS, retry=False)
        return answer.refusals
