"""The calls of ``/api/v1`` that this agent serves: files of sandboxes, sessions beside a task, containers.

Source: recording ``13-agent-sandbox``.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.agent import agent_pb2 as agent
from minicluster.mesos.agent import calls
from minicluster.mesos.agent.calls import CallError, MediaTypes
from minicluster.mesos.agent.container_usage import Container
from minicluster.mesos.agent.sandbox_files import Files
from minicluster.mesos.agent.session_streams import Streams, described, terminal_of
from minicluster.mesos.agent.sessions import Session, Sessions
from minicluster.mesos.common.http import Body, Connection
from minicluster.mesos.common.http_messages import Request, Response, refuse, render
from peloton.recordio import RECORDIO, MalformedStream, RecordParser

Call, Reply = agent.Call, agent.Response
VERSION = "1.12.0"
_LONGEST_INPUT_BYTES = 4 * 1024 * 1024
_OK = Response(200)


class Containers(Protocol):
    """What is to be known of the containers of an agent."""

    def running_in(self, container_id: str) -> object | None:
        """Return the run in a container whose task is running."""
        ...

    def containers(self) -> list[Container]:
        """Return the containers whose tasks run, and what they use."""
        ...


class SessionApi:
    """Answers the calls of one agent."""

    def __init__(self, sessions: Sessions, files: Files, containers: Containers) -> None:
        self._sessions = sessions
        self._files = files
        self._containers = containers
        self._waiting: set[asyncio.Task[None]] = set()

    def handle(self, request: Request, connection: Connection) -> Response | None:
        """Answer a call, or take the connection for the stream of a session."""
        media = calls.negotiate(request)
        if isinstance(media, Response):
            return media
        try:
            call = calls.parse(request.body, media.content)
        except CallError as error:
            return refuse(400, str(error))
        refusal = calls.streaming_error(call, media)
        return refusal or self._dispatch(call, media, request, connection)

    def _dispatch(
        self, call: agent.Call, media: MediaTypes, request: Request, connection: Connection
    ) -> Response | None:
        if call.type == Call.LAUNCH_NESTED_CONTAINER_SESSION:
            return self._launch(call.launch_nested_container_session, media, connection)
        if call.type == Call.ATTACH_CONTAINER_OUTPUT:
            return self._attach(call.attach_container_output.container_id, media, connection)
        if call.type in (Call.WAIT_NESTED_CONTAINER, Call.WAIT_CONTAINER):
            return self._wait(call, media, request, connection)
        if call.type in (Call.LIST_FILES, Call.READ_FILE):
            return self._read(call, media)
        if call.type == Call.GET_CONTAINERS:
            found = Reply.GetContainers(containers=self._containers.containers())
            return calls.answer(Reply(type=Reply.GET_CONTAINERS, get_containers=found), media)
        if call.type == Call.GET_HEALTH:
            healthy = Reply.GetHealth(healthy=True)
            return calls.answer(Reply(type=Reply.GET_HEALTH, get_health=healthy), media)
        if call.type == Call.GET_VERSION:
            version = Reply.GetVersion(version_info=mesos.VersionInfo(version=VERSION))
            return calls.answer(Reply(type=Reply.GET_VERSION, get_version=version), media)
        return refuse(501, f"{Call.Type.Name(call.type)} is not served by this agent")

    def _read(self, call: agent.Call, media: MediaTypes) -> Response:
        if call.type == Call.LIST_FILES:
            found = self._files.list_files(call.list_files.path)
            kind = Reply.LIST_FILES
            return (
                found
                if isinstance(found, Response)
                else calls.answer(Reply(type=kind, list_files=found), media)
            )
        read = self._files.read_file(call.read_file)
        kind = Reply.READ_FILE
        return read if isinstance(read, Response) else calls.answer(Reply(type=kind, read_file=read), media)

    # --- LAUNCH_NESTED_CONTAINER_SESSION ---

    def _launch(
        self, call: agent.Call.LaunchNestedContainerSession, media: MediaTypes, connection: Connection
    ) -> Response | None:
        parent, name = call.container_id.parent.value, call.container_id.value
        if self._sessions.full:
            return refuse(503, "Too many sessions run on this agent")
        if self._sessions.get(parent, name) is not None:
            return refuse(400, f"Container {parent}.{name} is there already")
        has_terminal = call.container.HasField("tty_info")
        try:
            terminal = terminal_of(call.container.tty_info) if has_terminal else None
        except ValueError as error:
            return refuse(400, str(error))
        session = self._sessions.begin(parent, name, call.command, Streams(connection, media), terminal)
        if session is None:
            return refuse(404, f"Container {parent}.{name} cannot be found")
        connection.on_lost = session.kill
        return None

    # --- ATTACH_CONTAINER_OUTPUT ---

    def _attach(
        self, container: mesos.ContainerID, media: MediaTypes, connection: Connection
    ) -> Response | None:
        if not container.HasField("parent") and self._containers.running_in(container.value):
            return refuse(500, "I/O switchboard server was disabled for this container")
        session = self._session(container)
        if session is None or session.ended.is_set() or not isinstance(session.output, Streams):
            return _not_found(container)
        session.output.attach(connection, media)
        return None

    def _session(self, container: mesos.ContainerID) -> Session | None:
        return self._sessions.get(container.parent.value, container.value)

    # --- WAIT_NESTED_CONTAINER, WAIT_CONTAINER ---

    def _wait(
        self, call: agent.Call, media: MediaTypes, request: Request, connection: Connection
    ) -> Response | None:
        nested = call.type == Call.WAIT_NESTED_CONTAINER
        container = (call.wait_nested_container if nested else call.wait_container).container_id
        session = self._session(container)
        if session is None:
            return _not_found(container)
        if session.ended.is_set():
            return calls.answer(_waited(session, nested), media)
        job = asyncio.get_running_loop().create_task(
            _answer_at_end(session, nested, media, request, connection)
        )
        self._waiting.add(job)
        job.add_done_callback(self._waiting.discard)
        return None

    # --- ATTACH_CONTAINER_INPUT ---

    def streamed(self, request: Request, connection: Connection) -> Body | None:
        """Take the input of a session as it comes."""
        if request.method != "POST" or request.headers.get("content-type") != RECORDIO:
            return None
        return _Input(self._sessions, connection, request)


class _Input:
    """The standard input of a session, record by record. A refusal does not wait for the end of the input."""

    def __init__(self, sessions: Sessions, connection: Connection, request: Request) -> None:
        self._sessions = sessions
        self._connection = connection
        self._request = request
        self._media = calls.negotiate(request)
        self._records = RecordParser(_LONGEST_INPUT_BYTES)
        self._session: Session | None = None
        self._refusal = self._media if isinstance(self._media, Response) else None
        self._holding: asyncio.Task[None] | None = None

    def feed(self, data: bytes) -> None:
        """Take a piece of the body."""
        if self._refusal is not None or isinstance(self._media, Response):
            return
        try:
            for record in self._records.feed(data):
                self._take(record, self._media)
                if self._refusal is not None:
                    break
        except (MalformedStream, ValueError) as error:  # CallError is a ValueError
            self._refusal = refuse(400, str(error))
        if self._refusal is not None:
            self._connection.write(render(self._refusal, self._request))
            self._connection.close()
        elif self._session is not None and self._session.crowded and self._holding is None:
            self._connection.hold(True)
            self._holding = asyncio.get_running_loop().create_task(self._release(self._session))

    def end(self) -> Response:
        """Answer when all input has come."""
        if self._session is not None:
            self._session.feed(b"")
        if self._refusal is None and self._session is None:
            return refuse(400, "Received EOF while reading request body")
        return self._refusal or _OK

    async def _release(self, session: Session) -> None:
        await session.drained()
        self._holding = None
        self._connection.hold(False)

    def _take(self, record: bytes, media: MediaTypes) -> None:
        call = calls.parse(record, media.message_content or media.content)
        self._refusal = calls.streaming_error(call, media)
        if self._refusal is not None:
            return
        given = call.attach_container_input
        if given.type == given.CONTAINER_ID:
            container = given.container_id
            self._session = self._sessions.get(container.parent.value, container.value)
            self._refusal = _not_found(container) if self._session is None else None
        elif self._session is None:
            raise ValueError("Expecting 'attach_container_input.container_id' to be present")
        elif given.process_io.type == agent.ProcessIO.DATA:
            self._session.feed(given.process_io.data.data)
        elif given.process_io.control.type == agent.ProcessIO.Control.TTY_INFO:
            self._session.resize(terminal_of(given.process_io.control.tty_info))


async def _answer_at_end(
    session: Session, nested: bool, media: MediaTypes, request: Request, connection: Connection
) -> None:
    await session.ended.wait()
    connection.write(render(calls.answer(_waited(session, nested), media), request))
    if not connection.keeps_alive():
        connection.close()


def _waited(session: Session, nested: bool) -> agent.Response:
    if nested:
        return Reply(
            type=Reply.WAIT_NESTED_CONTAINER,
            wait_nested_container=Reply.WaitNestedContainer(exit_status=session.status),
        )
    waited = Reply.WaitContainer(exit_status=session.status)
    return Reply(type=Reply.WAIT_CONTAINER, wait_container=waited)


def _not_found(container: mesos.ContainerID) -> Response:
    return refuse(404, f"Container {described(container)} cannot be found")
