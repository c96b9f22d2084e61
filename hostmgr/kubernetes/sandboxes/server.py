"""The server of sandboxes: to clients it is a Mesos agent that has all runs of the cluster.

A run's sandbox holds `stdout`, which is the log of its container, and `stderr`, which is empty: Kubernetes
has one log for both streams. While the container runs, it holds the files of the pod's sandbox besides.
Clients, pages and the job manager read it, and run commands, as they do at an agent.

What an agent has no answer for is told so: WITHHELD with the reason why a file cannot be shown, and a listing
whose header LEFT_OUT says why it has the log alone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from hostmgr.kubernetes.sandboxes.files import Files
from hostmgr.kubernetes.sandboxes.logs import PIECE_BYTES, Logs
from hostmgr.kubernetes.sandboxes.sessions import LONGEST_ID, Session, Sessions, Wanted
from hostmgr.kubernetes.sandboxes.shell import Entry, NoFile, inner_path
from peloton.config.agents import AgentAccess
from peloton.errors import AlreadyExists, NotFound, PelotonError, Refused, Unavailable
from peloton.kubernetes.client import ApiError
from peloton.plainjson import parse_json
from peloton.recordio import RECORDIO, MalformedStream, RecordParser, frame
from peloton.withheld import LEFT_OUT, WITHHELD, header_text

LOG, EMPTY = "stdout", "stderr"
LOGS = (LOG, EMPTY)
FILE_MODE = "-rw-------"
BYTES = "application/octet-stream"
MOST_WORDS, LONGEST_CALL_BYTES = 1000, 256 * 1024
LONGEST_INPUT_BYTES = 4 * 1024 * 1024
_PLACE = re.compile(r".*/executors/([^/]+)/runs/[^/]+(/.*)?")
_LAUNCH, _WAIT = "LAUNCH_NESTED_CONTAINER_SESSION", "WAIT_NESTED_CONTAINER"
_ATTACH = "ATTACH_CONTAINER_INPUT"
Endpoint = Callable[[Request], Awaitable[Response]]


class BadCall(PelotonError):
    """A call is not what an agent takes."""


class SandboxServer:
    """The application."""

    def __init__(
        self,
        logs: Logs,
        files: Files,
        sessions: Sessions,
        framework: Callable[[], str],
        access: AgentAccess,
    ) -> None:
        """Ask callers for the credentials of `access`, if it has some. `framework()`: its present id."""
        self._logs = logs
        self._files = files
        self._sessions = sessions
        self._framework = framework
        self._wanted = access.headers.get("Authorization", "")
        self.app = Starlette(
            routes=[
                Route("/state", self._answering(self._state)),
                Route("/files/browse", self._answering(self._browse)),
                Route("/files/read", self._answering(self._read)),
                Route("/files/download", self._answering(self._download)),
                Route("/api/v1", self._answering(self._call), methods=["POST"]),
            ]
        )

    def _answering(self, endpoint: Endpoint) -> Endpoint:
        """Refuse callers without credentials, and answer errors by their kind."""

        async def answer(request: Request) -> Response:
            if self._wanted and not _same(request.headers.get("authorization", ""), self._wanted):
                return PlainTextResponse("", 401, {"www-authenticate": 'Basic realm="peloton"'})
            try:
                return await endpoint(request)
            except NotFound as error:
                return PlainTextResponse(str(error), 404)
            except (BadCall, NoFile, AlreadyExists) as error:
                return PlainTextResponse(str(error), 400)
            except Refused as error:
                return PlainTextResponse(str(error), WITHHELD)
            except Unavailable as error:
                return PlainTextResponse(str(error), 503)
            except ApiError as error:
                return PlainTextResponse(str(error), 404 if error.status == 404 else 500)
            except PelotonError as error:
                return PlainTextResponse(str(error), 500)

        return answer

    async def _state(self, request: Request) -> Response:
        """Name the framework, from which callers know where the sandboxes are."""
        return JSONResponse({"frameworks": [{"id": self._framework(), "executors": []}], "flags": {}})

    async def _browse(self, request: Request) -> Response:
        run, inner = self._place(request)
        folder = f"/frameworks/{self._framework()}/executors/{run}/runs/{run}"
        if inner:
            listed = await self._files.browse(run, inner)
            return JSONResponse([_told(each, f"{folder}/{inner}") for each in listed])
        size, (found, left_out) = await asyncio.gather(self._logs.size(run), self._beside_log(run))
        logs = (Entry(EMPTY, FILE_MODE, 1, "", "", 0, time.time()),
                Entry(LOG, FILE_MODE, 1, "", "", size, time.time()))  # fmt: skip
        headers = {LEFT_OUT: header_text(left_out)} if left_out else {}
        return JSONResponse([_told(each, folder) for each in (*found, *logs)], headers=headers)

    async def _beside_log(self, run: str) -> tuple[list[Entry], str]:
        """Return the files at the top of a sandbox, and why there are none to be seen."""
        try:
            return [each for each in await self._files.browse(run, "") if each.name not in LOGS], ""
        except PelotonError as error:
            return [], str(error)

    async def _read(self, request: Request) -> Response:
        run, name = self._file(request)
        offset, length = (_number(request, name) for name in ("offset", "length"))
        if offset is None:  # an agent tells the size then
            return JSONResponse({"data": "", "offset": await self._size(run, name)})
        data = await self._data(
            run, name, offset, min(PIECE_BYTES if length is None else length, PIECE_BYTES)
        )
        text = json.dumps(
            {"data": data.decode("utf-8", "surrogateescape"), "offset": offset}, ensure_ascii=False
        )
        return Response(text.encode("utf-8", "surrogateescape"), media_type="application/json")

    async def _size(self, run: str, name: str) -> int:
        if name in LOGS:
            return await self._logs.size(run) if name == LOG else 0
        return await self._files.size(run, name)

    async def _data(self, run: str, name: str, offset: int, length: int) -> bytes:
        if name in LOGS:
            return await self._logs.read(run, offset, length) if name == LOG else b""
        return await self._files.read(run, name, offset, length)

    async def _download(self, request: Request) -> Response:
        run, name = self._file(request)
        if name == EMPTY:
            return Response(media_type=BYTES)
        if name == LOG:
            pieces = self._logs.download(run, await self._logs.size(run))
            return StreamingResponse(pieces, media_type=BYTES)
        pieces = self._files.download(run, name)
        first = await anext(pieces, b"")  # what is wrong shows before anything is answered
        return StreamingResponse(_joined(first, pieces), media_type=BYTES)

    def _file(self, request: Request) -> tuple[str, str]:
        run, inner = self._place(request)
        if not inner:
            raise NoFile("'.' cannot be read: it is a folder, or no plain file")
        return run, inner

    def _place(self, request: Request) -> tuple[str, str]:
        found = _PLACE.fullmatch(request.query_params.get("path", ""))
        if found is None or not self._logs.known(found[1]):
            raise NotFound("there is no such sandbox")
        return found[1], inner_path(found[2] or "")

    # Commands.

    async def _call(self, request: Request) -> Response:
        if request.headers.get("content-type") == RECORDIO:
            return await self._attach(request)
        call = await _body(request)
        kind = call.get("type")
        if kind == _LAUNCH:
            return await self._launch(_part(call, _LAUNCH.lower()), request)
        if kind == _WAIT:
            return await self._wait(_part(call, _WAIT.lower()))
        return PlainTextResponse(f"{kind} is not served here", 501)

    async def _launch(self, call: dict[str, Any], request: Request) -> Response:
        parent, name = _container(call)
        session = await self._sessions.launch(parent, name, _wanted(call))
        headers = {"message-content-type": "application/json"}
        return StreamingResponse(_records(session, request), media_type=RECORDIO, headers=headers)

    async def _wait(self, call: dict[str, Any]) -> Response:
        session = self._sessions.get(*_container(call))
        await session.ended.wait()
        known = {} if session.exit_code is None else {"exit_status": session.exit_code << 8}
        return JSONResponse({"type": _WAIT, _WAIT.lower(): known})

    async def _attach(self, request: Request) -> Response:
        records, session = RecordParser(LONGEST_INPUT_BYTES), None
        try:
            async for piece in request.stream():
                for record in records.feed(piece):
                    given = _part(_object(record), _ATTACH.lower())
                    if given.get("type") == "CONTAINER_ID":
                        session = self._sessions.get(*_container(given))
                    elif session is None:
                        raise BadCall("the id of a container comes first")
                    else:
                        await _pass_on(_part(given, "process_io"), session)
        except MalformedStream as error:
            raise BadCall(str(error)) from None
        except ClientDisconnect:
            if session is not None and not session.ended.is_set():
                await session.feed(b"")
        return Response()


def _told(entry: Entry, folder: str) -> dict[str, Any]:
    """Return a file as an agent lists it."""
    return {
        "path": f"{folder}/{entry.name}",
        "mode": entry.mode,
        "nlink": entry.links,
        "uid": entry.user,
        "gid": entry.group,
        "size": entry.size,
        "mtime": entry.modified,
    }


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece


async def _records(session: Session, request: Request) -> AsyncIterator[bytes]:
    watcher = asyncio.get_running_loop().create_task(_end_with_caller(session, request))
    try:
        async for stream, data in session.output():
            piece = {"type": stream, "data": base64.b64encode(data).decode()}
            yield frame(json.dumps({"type": "DATA", "data": piece}).encode())
    finally:
        watcher.cancel()


async def _end_with_caller(session: Session, request: Request) -> None:
    """End a session whose caller has gone, also while there is nothing to be sent."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    session.end()


async def _pass_on(message: dict[str, Any], session: Session) -> None:
    if message.get("type") == "DATA":
        try:
            data = base64.b64decode(str(_part(message, "data").get("data") or ""), validate=True)
        except binascii.Error as error:
            raise BadCall(str(error)) from None
        await session.feed(data)
    else:
        await session.resize(*_size(_part(_part(message, "control"), "tty_info")))


def _wanted(call: dict[str, Any]) -> Wanted:
    command = _part(call, "command")
    value, words = command.get("value"), command.get("arguments") or []
    if not isinstance(value, str) or not value or not isinstance(words, list) or len(words) > MOST_WORDS:
        raise BadCall("a command has a value, and arguments")
    tty = (call.get("container") or {}).get("tty_info")
    argv = ["/bin/sh", "-c", value] if command.get("shell", True) else [value, *map(str, words[1:])]
    return Wanted(argv, None if tty is None else _size(tty))


def _size(tty: dict[str, Any]) -> tuple[int, int]:
    """Return rows and columns."""
    size = tty.get("window_size") or {"rows": 24, "columns": 80}
    rows, columns = size.get("rows"), size.get("columns")
    if (
        isinstance(rows, int)
        and isinstance(columns, int)
        and 0 < min(rows, columns) <= max(rows, columns) < 1 << 16
    ):
        return rows, columns
    raise BadCall(f"'window_size': {rows} by {columns} is no size of a terminal")


def _container(call: dict[str, Any]) -> tuple[str, str]:
    """Return the pod, and the id of the session."""
    container = _part(call, "container_id")
    name, parent = container.get("value"), _part(container, "parent").get("value")
    if not isinstance(name, str) or not isinstance(parent, str) or not 0 < len(name) <= LONGEST_ID:
        raise BadCall("a session has an id, and its parent one")
    return parent, name


def _part(call: dict[str, Any], name: str) -> dict[str, Any]:
    part = call.get(name)
    if not isinstance(part, dict):
        raise BadCall(f"{name} is missing")
    return part


async def _body(request: Request) -> dict[str, Any]:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LONGEST_CALL_BYTES:
            raise BadCall(f"over {LONGEST_CALL_BYTES} bytes")
    return _object(bytes(body))


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except ValueError as error:
        raise BadCall(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadCall("no JSON object")
    return found


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    if text is None or text == "-1":
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise BadCall(f"{name}: {text!r} is no number")
    return int(text)


def _same(given: str, wanted: str) -> bool:
    return hmac.compare_digest(given.encode(), wanted.encode())
