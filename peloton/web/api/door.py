"""The routes of the JSON door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import grpc
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from peloton.offload import run_by_size
from peloton.web.api.caller import Caller
from peloton.web.api.codec import dump, encode, parse
from peloton.web.api.failures import HTTP_STATUS, CallFailure
from peloton.web.api.listing import services, wants_html
from peloton.web.api.methods import Method, public_methods
from peloton.web.api.openapi import document
from peloton.web.api.request import (
    JSON,
    check_origin_and_type,
    in_cluster,
    read_body,
    timeout_of,
    trace_of,
    user_of,
)
from peloton.web.metrics import DOOR_CALLS

T = TypeVar("T")
ListPage = Callable[[Request, list[dict[str, Any]]], Response]
LINES = "application/x-ndjson"
TIMEOUT = 20.0
"""Seconds for a call with one answer that gives no time-out."""
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_CALLS, MAX_STREAMS = 64, 256
"""Calls and streams at once."""
UNKNOWN = "unknown"
"""The method of a call that names none of ours."""


class Door:
    """Takes calls in JSON and makes them with a caller."""

    def __init__(
        self,
        caller: Caller,
        page: ListPage,
        max_body_bytes: int = MAX_BODY_BYTES,
        max_calls: int = MAX_CALLS,
        max_streams: int = MAX_STREAMS,
    ) -> None:
        """`page` renders the list of services, as `services` gives it."""
        self.also: Mapping[str, Any] = {}
        """What is added to the list in JSON."""
        self._caller = caller
        self._page = page
        self._max_body_bytes = max_body_bytes
        self._calls = _Places(max_calls, "calls")
        self._streams = _Places(max_streams, "streams")

    def routes(self) -> list[Route]:
        """Return the routes, all below /api."""
        return [
            Route("/api", self.list, methods=["GET"]),
            Route("/api/", self.list, methods=["GET"]),
            Route("/api/openapi.json", _describe, methods=["GET"]),
            Route("/api/{service}/{method}", self._answer, methods=["POST"]),
        ]

    async def list(self, request: Request) -> Response:
        """List the services: as a page, or in JSON, which is also what /api says to clients of Kubernetes."""
        if wants_html(request.headers.get("accept", "")):
            response = self._page(request, services())
        else:
            response = JSONResponse({**self.also, "openapi": "/api/openapi.json", "services": services()})
        response.headers["vary"] = "Accept"
        return response

    async def _answer(self, request: Request) -> Response:
        name = UNKNOWN
        try:
            method = _method(request.path_params["service"], request.path_params["method"])
            name = method.path.removeprefix("/")
            response = await self._called(request, method)
        except CallFailure as failure:
            _count(name, failure.code)
            return failure.response()
        except ClientDisconnect:
            _count(name, grpc.StatusCode.CANCELLED)
            return Response(status_code=HTTP_STATUS[grpc.StatusCode.CANCELLED])  # nobody reads it
        if not method.streams:
            _count(name, grpc.StatusCode.OK)  # a stream is counted when it ends
        return response

    async def _called(self, request: Request, method: Method) -> Response:
        check_origin_and_type(request)
        method = in_cluster(method, request)
        metadata, timeout = user_of(request) + trace_of(request), timeout_of(request)
        body = await read_body(request, self._max_body_bytes)
        message = await run_by_size(len(body), lambda: parse(method, body))
        if method.streams:
            self._streams.take()
            return await _Lines.begun(
                self._caller.stream(method, message, metadata, timeout), method, self._streams
            )
        self._calls.take()
        try:
            call = self._caller.call(method, message, metadata, timeout or TIMEOUT)
            answer = await _unless_gone(request.receive, call)
        finally:
            self._calls.give_back()
        return Response(await run_by_size(len(answer), lambda: encode(dump(method, answer))), media_type=JSON)


class _Places:
    """A bound on what is under way at once."""

    def __init__(self, most: int, what: str) -> None:
        self._free = self._most = most
        self._what = what

    def take(self) -> None:
        """Take a place. Raises CallFailure where none is free."""
        if not self._free:
            text = f"{self._most} {self._what} are under way already: try again later"
            raise CallFailure(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._free -= 1

    def give_back(self) -> None:
        self._free += 1


class _Lines(Response):
    """A stream of messages, one on a line. It ends, and cancels the call, when the client goes.

    A line is `{"result": MESSAGE}`; one that tells why the call failed, `{"error": FAILURE}`, is the last.
    """

    media_type = LINES

    def __init__(
        self, first: bytes | None, rest: AsyncIterator[bytes], method: Method, stack: AsyncExitStack
    ):
        super().__init__()
        del self.headers["content-length"]
        self._first = first
        self._rest = rest
        self._method = method
        self._stack = stack

    @classmethod
    async def begun(cls, opening: Any, method: Method, places: _Places) -> _Lines:
        """Return the response once the first message is there. Raises CallFailure where none comes."""
        async with AsyncExitStack() as stack:
            stack.callback(places.give_back)
            answers = await stack.enter_async_context(opening)
            first = await anext(answers, None)
            return cls(first, answers, method, stack.pop_all())
        raise AssertionError("the stack swallows no exception")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        code = grpc.StatusCode.CANCELLED
        try:
            async with self._stack:
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                code = await _unless_gone(receive, self._send_all(send))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except ClientDisconnect:
            pass  # counted as CANCELLED
        finally:
            _count(self._method.path.removeprefix("/"), code)

    async def _send_all(self, send: Send) -> grpc.StatusCode:
        """Send all lines; return the code with which the call ended."""

        async def line(of: dict[str, Any]) -> None:
            await send({"type": "http.response.body", "body": encode(of) + b"\n", "more_body": True})

        try:
            if self._first is not None:
                await line({"result": dump(self._method, self._first)})
            async for answer in self._rest:
                await line({"result": dump(self._method, answer)})
        except CallFailure as failure:
            await line({"error": failure.as_dict()})
            return failure.code
        return grpc.StatusCode.OK


def _count(method: str, code: grpc.StatusCode) -> None:
    DOOR_CALLS.labels(method, code.name).inc()


def _method(service: str, name: str) -> Method:
    """Find a method. Raises CallFailure."""
    method = public_methods().get((service, name))
    if method is None:
        text = f"/{service}/{name} is no public method; GET /api lists them"
        raise CallFailure(grpc.StatusCode.UNIMPLEMENTED, text, http=404)
    return method


async def _unless_gone(receive: Receive, work: Awaitable[T]) -> T:
    """Await `work`; where the client goes first, cancel it and raise ClientDisconnect."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _describe(request: Request) -> Response:
    return JSONResponse(document())
