"""The routes of this API."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from peloton.errors import PelotonError
from peloton.web.cluster import Cluster
from peloton.web.kube import discovering
from peloton.web.kube.answers import refused
from peloton.web.kube.core.refusals import Refusal, refusal_of
from peloton.web.kube.discovering import Answer
from peloton.web.live import Hub
from peloton.web.views.terminal.bridge import Terminals

if TYPE_CHECKING:
    from peloton.web.kube.object_server import ObjectServer

log = logging.getLogger(__name__)
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class KubernetesDoor:
    """Answers clients of Kubernetes. What serves objects is large: the first such request imports it."""

    def __init__(self, cluster: Cluster, hub: Hub, terminals: Terminals) -> None:
        self._parts = (cluster, hub, terminals)
        self._served: ObjectServer | None = None

    def routes(self, listing: Answer) -> list[BaseRoute]:
        """Return the routes; `listing` answers at /api for others than clients of Kubernetes."""
        objects = self._guarded(self._object)
        return [
            *discovering.routes(listing, self._guarded),
            Route("/api/v1/{path:path}", objects, methods=_METHODS),
            WebSocketRoute("/api/v1/{path:path}", self._connect),
            Route("/apis/{group}/{version}/{path:path}", objects, methods=_METHODS),
        ]

    async def close(self) -> None:
        """Leave off what is under way."""
        if self._served is not None:
            await self._served.close()

    @property
    def _objects(self) -> ObjectServer:
        from peloton.web.kube.object_server import ObjectServer

        if self._served is None:
            self._served = ObjectServer(*self._parts)
        return self._served

    async def _object(self, request: Request) -> Response:
        return await self._objects.answer(request)

    async def _connect(self, socket: WebSocket) -> None:
        await self._objects.connect(socket)

    def _guarded(self, answer: Answer) -> Answer:
        """Return a handler whose refusals are answered by Status objects."""

        async def guarded(request: Request) -> Response:
            try:
                return await answer(request)
            except Refusal as error:
                return refused(error)
            except PelotonError as error:
                return refused(refusal_of(error))
            except Exception:
                log.exception("%s %s", request.method, request.url.path)
                return refused(Refusal(500, "peloton-web has a defect here; its log says more"))

        return guarded
