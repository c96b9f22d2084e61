"""ForeignPodService: pods of others that Peloton queues and binds."""

from __future__ import annotations

from typing import Any

from hostmgr.backend.interface import Backend
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.foreign_pod import PodChanges
from peloton.model.plural import plural
from peloton.private.hostmgr.foreign import foreign_pb2 as pb
from peloton.private.hostmgr.foreign import foreign_pb2_grpc
from peloton.waking import Signal
from peloton.wire.foreign_pods import changes_to, told_from

MOST_SECONDS = 60.0
MOST_TOLD = 1000


class ForeignPodService(foreign_pb2_grpc.ForeignPodServiceServicer):
    """Serve the pods of others that a backend follows, where it does."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def WaitForPods(self, request: pb.WaitForPodsRequest, context: Any) -> pb.WaitForPodsResponse:
        """Return what has become of pods. Raises InvalidArgument, and Unavailable without a connection."""
        wait, source = request.wait_seconds, self._backend.foreign
        if not 0 <= wait <= MOST_SECONDS:
            raise InvalidArgument("wait_seconds", wait, f"0 to {MOST_SECONDS:.0f}")
        if source is None or not source.enabled:
            await Signal().wait(wait)
            return changes_to(PodChanges("", 0, True, enabled=False))
        if not self._backend.ready:
            raise Unavailable("the pods are not known: no connection with the API server of Kubernetes")
        return changes_to(await source.changes(request.stream_id, request.after, wait))

    async def TellOwners(self, request: pb.TellOwnersRequest, context: Any) -> pb.TellOwnersResponse:
        """Tell owners of pods what becomes of them. Raises InvalidArgument for too many."""
        if len(request.told) > MOST_TOLD:
            raise InvalidArgument("told", plural(len(request.told), "Event"), f"at most {MOST_TOLD}")
        source = self._backend.foreign
        if source is not None and source.enabled:
            source.tell(told_from(request))
        return pb.TellOwnersResponse()
