"""The calls of ``/api/v1`` of an agent that this one serves: those of sessions beside a task.

Source: recording ``13-agent-sandbox``. Its bodies are JSON; input comes as RecordIO of JSON.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.sessions import Session, Sessions, Terminal
from minicluster.mesos.common.http import JSON, Body, Connection, Request, Response, refuse, render
from peloton.mesos import json as mesos_json
from peloton.recordio import RECORDIO, MalformedStream, RecordParser

LAUNCH, WAIT, INPUT = "LAUNCH_NESTED_CONTAINER_SESSION", "WAIT_NESTED_CONTAINER", "ATTACH_CONTAINER_INPUT"
_LONGEST_INPUT = 4 * 1024 * 1024
_OK = Response(200)
Json = dict[str, Any]


class SessionApi:
    """Answers the calls of one agent."""

    def __init__(self, sessions: Sessions, in_docker: Callable[[str], bool]) -> None:
        """``in_docker`` tells whether docker runs the task of a container."""
        self._sessions = sessions
        self._in_docker = in_docker
        self._waiting: set[asyncio.Task[None]] = set()

    def handle(self, request: Request, connection: Connection) -> Response | None:
        """Answer a call, or take the connection for the stream of a session."""
        if request.method != "POST":
            return refuse(405, f"Expecting one of {{ 'POST' }}, but received '{request.method}'")
        kind = request.headers.get("content-type")
        if kind is None:
            return refuse(400, "Expecting 'Content-Type' to be present")
        if kind != JSON:  # a web page of another site may send other types without asking
            return refuse(415, f"Expecting 'Content-Type' of {JSON}")
        try:
            return self._call(mesos_json.loads(request.body), request, connection)
        except (mesos_json.JsonError, KeyError, TypeError, ValueError) as error:
            return refuse(400, f"Failed to parse body into Call: {error}")

    def _call(self, call: Json, request: Request, connection: Connection) -> Response | None:
        kind = call.get("type") if isinstance(call, dict) else None
        if not isinstance(kind, str):
            return refuse(400, "Failed to validate agent::Call: Expecting 'type' to be present")
        if kind == LAUNCH:
            return self._launch(call[LAUNCH.lower()], request, connection)
        if kind == WAIT:
            return self._wait(call[WAIT.lower()], request, connection)
        return refuse(501, f"{kind} is not served by this agent")

    # --- LAUNCH_NESTED_CONTAINER_SESSION ---

    def _launch(self, call: Json, request: Request, connection: Connection) -> Response | None:
        parent, name = _ids(call)
        if self._in_docker(parent):
            return refuse(501, "Sessions in containers of docker are not served by this agent")
        if self._sessions.full:
            return refuse(503, "Too many sessions run on this agent")
        if self._sessions.get(parent, name) is not None:
            return refuse(400, f"Container {parent}.{name} is there already")
        body = json.dumps(call.get("command", {})).encode()
        command = mesos_json.decode(body, mesos.CommandInfo, "CommandInfo")
        tty = call.get("container", {}).get("tty_info")
        output = _Stream(connection, "recordio" in request.headers.get("accept", ""))
        terminal = None if tty is None else _terminal(tty)
        session = self._sessions.begin(parent, name, command, output, terminal)
        if session is None:
            return refuse(404, f"Container {parent}.{name} cannot be found")
        connection.on_lost = session.kill
        return None

    # --- WAIT_NESTED_CONTAINER ---

    def _wait(self, call: Json, request: Request, connection: Connection) -> Response | None:
        parent, name = _ids(call)
        session = self._sessions.get(parent, name)
        if session is None:
            return refuse(404, f"Container {parent}.{name} cannot be found")
        if session.ended.is_set():
            return _waited(session)
        job = asyncio.get_running_loop().create_task(_answer_at_end(session, request, connection))
        self._waiting.add(job)
        job.add_done_callback(self._waiting.discard)
        return None

    # --- ATTACH_CONTAINER_INPUT ---

    def streamed(self, request: Request, connection: Connection) -> Body | None:
        """Take the input of a session as it comes."""
        if request.method != "POST" or request.headers.get("content-type") != RECORDIO:
            return None
        return _Input(self._sessions, connection)


class _Stream:
    """The output of a session as records of a chunked reply."""

    def __init__(self, connection: Connection, recordio: bool) -> None:
        self._connection = connection
        self._recordio = recordio

    def begin(self) -> None:
        """Send the head of the reply."""
        if self._recordio:
            self._connection.start_stream(RECORDIO, (("Message-Content-Type", JSON),))
        else:
            self._connection.start_stream(JSON)

    def write(self, stream: str, data: bytes) -> None:
        """Send one record."""
        record = {"type": "DATA", "data": {"type": stream, "data": base64.b64encode(data).decode()}}
        self._connection.send_records([json.dumps(record, separators=(",", ":")).encode()])

    async def writable(self) -> None:
        """Wait while the client reads slowly."""
        await self._connection.writable()

    def end(self) -> None:
        """End the reply."""
        self._connection.on_lost = None
        self._connection.end_stream()


class _Input:
    """The standard input of a session, record by record."""

    def __init__(self, sessions: Sessions, connection: Connection) -> None:
        self._sessions = sessions
        self._connection = connection
        self._records = RecordParser(_LONGEST_INPUT)
        self._session: Session | None = None
        self._refusal: Response | None = None
        self._holding: asyncio.Task[None] | None = None

    def feed(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self._refusal is not None:
            return
        try:
            for record in self._records.feed(data):
                self._take(mesos_json.loads(record)["attach_container_input"])
        except (MalformedStream, mesos_json.JsonError, KeyError, TypeError, ValueError) as error:
            self._refusal = refuse(400, f"Failed to parse body into Call: {error}")
        if self._session is not None and self._session.crowded and self._holding is None:
            self._connection.hold(True)
            self._holding = asyncio.get_running_loop().create_task(self._release(self._session))

    def end(self) -> Response:
        """Answer when all input has come."""
        if self._session is not None:
            self._session.feed(b"")
        return self._refusal or _OK

    async def _release(self, session: Session) -> None:
        await session.drained()
        self._holding = None
        self._connection.hold(False)

    def _take(self, call: Json) -> None:
        if call["type"] == "CONTAINER_ID":
            parent, name = _ids(call)
            self._session = self._sessions.get(parent, name)
            if self._session is None:
                self._refusal = refuse(404, f"Container {parent}.{name} cannot be found")
            return
        if self._session is None:
            raise ValueError("Expecting 'container_id' in the first record")
        message = call["process_io"]
        if message["type"] == "DATA":
            self._session.feed(base64.b64decode(message["data"].get("data", ""), validate=True))
        elif message["control"]["type"] == "TTY_INFO":
            self._session.resize(_terminal(message["control"]["tty_info"]))


async def _answer_at_end(session: Session, request: Request, connection: Connection) -> None:
    await session.ended.wait()
    connection.write(render(_waited(session), request))
    if not connection.keeps_alive():
        connection.close()


def _waited(session: Session) -> Response:
    status = {} if session.status is None else {"exit_status": session.status}
    answer = {"type": WAIT, WAIT.lower(): status}
    return Response(200, json.dumps(answer, separators=(",", ":")).encode(), JSON)


def _ids(call: Json) -> tuple[str, str]:
    """Return the ids of the task's container and of the session in it."""
    container = call["container_id"]
    return str(container.get("parent", {}).get("value", "")), str(container["value"])


def _terminal(tty: Json) -> Terminal:
    size = tty.get("window_size", {})
    found = Terminal(**{name: int(size[name]) for name in ("rows", "columns") if name in size})
    if not (0 < found.rows < 1 << 16 and 0 < found.columns < 1 << 16):
        raise ValueError(f"'window_size' of {found.rows} rows and {found.columns} columns")
    return found
