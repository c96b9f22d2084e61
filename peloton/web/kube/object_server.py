"""What requests for objects are answered with."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocket

from peloton.errors import PelotonError
from peloton.web.cluster import Cluster
from peloton.web.kube import execs, logs
from peloton.web.kube.answers import refused
from peloton.web.kube.call import Call
from peloton.web.kube.changing import Changer
from peloton.web.kube.core import channels
from peloton.web.kube.core.kinds import POD
from peloton.web.kube.core.objects import scale_of
from peloton.web.kube.core.refusals import Refusal, refusal_of
from peloton.web.kube.core.tables import table
from peloton.web.kube.core.values import Object
from peloton.web.kube.paging import Asked
from peloton.web.kube.reading import Known, Reader
from peloton.web.kube.requests import Target, as_table, auth_of, target
from peloton.web.kube.watching import Collections, Selection, Watch, Watcher
from peloton.web.kube.writing import Writer
from peloton.web.live import Hub
from peloton.web.views.terminal.bridge import Terminals

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_OF_LISTS = ("resourceVersion", "continue")
_STREAM = {"cache-control": "no-store", "x-accel-buffering": "no"}


class ObjectServer:
    """Answers requests for objects, with what it remembers of them between requests."""

    def __init__(self, cluster: Cluster, hub: Hub, terminals: Terminals) -> None:
        self._cluster = cluster
        self._hub = hub
        self._terminals = terminals
        self._known = Known()
        self._collections = Collections()
        self._writer = Writer(self._known)
        self._changer = Changer(self._writer)

    async def close(self) -> None:
        """Leave off what is under way."""
        await self._writer.close()

    async def connect(self, socket: WebSocket) -> None:
        """Run a command for a WebSocket; what is refused before it begins is the answer to its request."""
        try:
            wanted = target("", "v1", socket.path_params["path"])
            version = channels.protocol(socket.scope["subprotocols"])
            if wanted.kind is not POD or wanted.subresource != "exec":
                raise Refusal(400, f"{wanted.kind.plural}/{wanted.subresource} is not served by WebSocket")
            reader = Reader(self._cluster.calls(auth_of(socket)), self._known)
            what = execs.Wanted.of(socket.query_params)
            place = await execs.place(reader, wanted.namespace, wanted.name, what)
        except Refusal as refusal:
            await socket.send_denial_response(refused(refusal))
            return
        except PelotonError as error:
            await socket.send_denial_response(refused(refusal_of(error)))
            return
        await socket.accept(subprotocol=version)
        await execs.serve(socket, version, reader, place, what, self._terminals)

    async def answer(self, request: Request) -> Response:
        """Answer a request. Raises Refusal and PelotonError."""
        parameters = request.path_params
        wanted = target(parameters.get("group", ""), parameters.get("version", "v1"), parameters["path"])
        reader = Reader(self._cluster.calls(auth_of(request)), self._known)
        if wanted.subresource == "exec":
            # What a WebSocket was refused for, kubectl is told here: it then tries SPDY.
            await execs.place(reader, wanted.namespace, wanted.name, execs.Wanted.of(request.query_params))
            raise Refusal(400, f"exec is served by WebSocket, {channels.V5}: use kubectl 1.31 or newer")
        call = Call(request, reader, wanted, self._collections)
        return await (self._read(call) if request.method == "GET" else self._changer.answer(call))

    async def _read(self, call: Call) -> Response:
        query, reader, wanted = call.request.query_params, call.reader, call.wanted
        if wanted.subresource == "log":
            pieces = await logs.pieces(reader, wanted.namespace, wanted.name, logs.Wanted.of(query))
            return StreamingResponse(self._hub.counted(pieces), media_type="text/plain", headers=_STREAM)
        if query.get("watch") in ("true", "1"):
            return self._watch(call)
        if wanted.subresource == "scale":
            job = await reader.job(wanted.kind, wanted.namespace, wanted.name)
            version = call.versioned(reader.shown(job))["metadata"]["resourceVersion"]
            return JSONResponse(scale_of(job, version))
        if wanted.name:
            found = call.versioned(await reader.one(wanted.kind, wanted.namespace, wanted.name))
            return _shown(call.request, wanted, [found], found)
        return await self._listed(call)

    async def _listed(self, call: Call) -> Response:
        query, kind = call.request.query_params, call.wanted.kind
        selection = Selection.of(kind, call.wanted.namespace, "", query)
        version, selected, token = await self._collections.listed(call.reader, selection, Asked.of(query))
        whole = {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": version, **({"continue": token} if token else {})},
            "items": selected,
        }
        return _shown(call.request, call.wanted, selected, whole)

    def _watch(self, call: Call) -> Response:
        query, wanted = call.request.query_params, call.wanted
        selection = Selection.of(wanted.kind, wanted.namespace, wanted.name, query)
        watch = Watch.of(query)
        watcher = Watcher(self._collections, call.reader, selection, watch, self._hub.poll_seconds)
        in_table = query.get("includeObject", "Metadata") if as_table(call.request) else ""
        lines: AsyncIterator[bytes] = self._hub.counted(watcher.lines(in_table, lambda: self._hub.closing))
        return StreamingResponse(lines, media_type="application/json", headers=_STREAM)


def _shown(request: Request, wanted: Target, found: Iterable[Object], whole: Object) -> Response:
    """Answer with objects, or with a table of them."""
    if not as_table(request):
        return JSONResponse(whole)
    include = request.query_params.get("includeObject", "Metadata")
    version = {key: text for key, text in whole["metadata"].items() if key in _OF_LISTS}
    shown = table(wanted.kind.plural, found, time.time(), version, include, True)
    return JSONResponse(shown, media_type=_TABLE)
