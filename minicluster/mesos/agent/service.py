"""The agent as a process: the link to the master, its own HTTP, and the runs between them."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.cleanup import end_unknown
from minicluster.mesos.agent.container_usage import containers_json, statistics_json
from minicluster.mesos.agent.launcher import Launcher
from minicluster.mesos.agent.layout import Layout, read_json, write_json
from minicluster.mesos.agent.metrics import snapshot
from minicluster.mesos.agent.runs import Runs
from minicluster.mesos.agent.sandbox_files import Files
from minicluster.mesos.agent.session_api import VERSION, SessionApi
from minicluster.mesos.agent.sessions import Sessions
from minicluster.mesos.agent.state_json import state
from minicluster.mesos.agent.volumes import Volumes
from minicluster.mesos.common import agent_link
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.basic_auth import Credentials, principal_of, unauthorized
from minicluster.mesos.common.http import Body, Connection, Server
from minicluster.mesos.common.http_messages import JSON, NOT_FOUND, Request, Response
from minicluster.mesos.common.launch_costs import NO_COSTS, LaunchCosts
from minicluster.mesos.common.server_process import CannotRun, machine_figures, tell
from minicluster.mesos.common.status_updates import FIRST_RETRY_SECONDS
from peloton.errors import Unavailable
from peloton.mesos.detector import Elected, MasterAddress, MasterDetector
from peloton.mesos.json import dumps

_BACKOFF_SECONDS = (0.1, 0.2, 0.5, 1.0)
_CONNECT_SECONDS = 10.0
_PINGS_MISSED = 6


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Settings of an agent. ``resources`` and ``attributes`` as they were written on the command line."""

    ip: str
    port: int
    hostname: str
    resources: res.Bundle
    attributes: tuple[mesos.Attribute, ...]
    devices: tuple[str, ...] = ()
    """The GPUs, as CUDA names them: as many as the resources have."""
    first_retry: float = FIRST_RETRY_SECONDS
    costs: LaunchCosts = NO_COSTS
    flags: Mapping[str, str] = field(default_factory=dict)
    master_tls: ssl.SSLContext | None = None
    """What encrypts the link to the master; None: nothing does."""
    credentials: Credentials | None = None
    """Of those who may read files and run commands; None: everybody may."""


class _Ended(Exception):
    """The master does not want this agent (any more)."""


class AgentService:
    """One running agent."""

    def __init__(self, config: AgentConfig, layout: Layout, launcher: Launcher) -> None:
        self._config = config
        self._layout = layout
        self._files = Files(layout)
        self._started = time.time()
        self._writer: asyncio.StreamWriter | None = None
        self._master: MasterAddress | None = None
        self._moved = asyncio.Event()
        self._silence = 90.0
        self._leaving = False
        self._volumes = Volumes(layout)
        how = (config.first_retry, config.costs, config.devices)
        self.runs = Runs(layout, launcher, config.ip, self._send, *how)
        self._sessions = Sessions(self.runs.running_in, self.runs.companions)
        self.runs.on_end = self._sessions.end_of
        self._session_api = SessionApi(self._sessions, self._files, self.runs)
        self.agent_id: str | None = None
        self.server = Server(self._handle, lambda: None, self._streamed)

    # --- identity ---

    def _described(self) -> dict[str, Any]:
        attributes = [json.dumps(str(item)) for item in self._config.attributes]
        return {"resources": res.text(self._config.resources), "attributes": attributes}

    def recover(self) -> None:
        """Take up what an earlier agent process left in the work directory.

        Raise CannotRun when this one was started with other resources or attributes.
        """
        self._volumes.recover()
        saved = read_json(self._layout.agent_file)
        if saved is not None:
            self._recover_as(saved)
        known = {run.place.container_id for run in self.runs.live.values()}
        if ended := end_unknown(self._layout, known):
            tell("agent", f"ended {ended} tasks of which nothing is known any more")

    def _recover_as(self, saved: dict[str, Any]) -> None:
        for name, now in self._described().items():
            if saved.get(name) != now:
                raise CannotRun(
                    f"--{name} changed: agent {saved.get('id')} in {self._layout.work_dir} has "
                    f"{saved.get(name)!r}, not {now!r}; start it with what it had, or stop it in order first"
                )
        self._identify(saved["id"])
        self.runs.recover()

    def _identify(self, agent_id: str) -> None:
        self.agent_id = self.runs.agent_id = self._files.agent_id = agent_id

    def _info(self) -> mesos.AgentInfo:
        config = self._config
        info = mesos.AgentInfo(hostname=config.hostname, port=config.port)
        info.resources.extend(res.to_messages(config.resources))
        info.attributes.extend(config.attributes)
        if self.agent_id is not None:
            info.id.value = self.agent_id
        return info

    # --- the link ---

    def _send(self, message: agent_link.AgentMessage) -> None:
        """Send a message, unless the link is broken: what needs an answer is sent again over the next one."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(agent_link.encode(message))

    def master_seen(self, elected: Elected | None) -> None:
        """Break the link to a master that does not lead any more.

        A master that is frozen, or whose machine is gone, does not break the link itself.
        """
        if elected is not None and elected.address != self._master:
            self._moved.set()

    async def stay_connected(self, masters: MasterDetector, registered: Callable[[str], None]) -> str:
        """Keep a link to the leading master until a master ends this agent; return why.

        ``registered`` is called with the agent's id after each registration.
        """
        failures = 0
        while True:
            try:
                self._master, self._moved = await masters.master(), asyncio.Event()
                await _unless(self._moved, self._one_link(self._master, registered))
                failures = 0
            except _Ended as ended:
                return str(ended)
            except (Unavailable, OSError, agent_link.LinkError, asyncio.IncompleteReadError):
                failures += 1
            finally:
                self._drop_link()
            if self._leaving:
                return "left"
            await asyncio.sleep(_BACKOFF_SECONDS[min(failures, len(_BACKOFF_SECONDS) - 1)])

    def _drop_link(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    async def _one_link(self, master: MasterAddress, registered: Callable[[str], None]) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            tls = self._config.master_tls
            name = (master.name or master.host) if tls is not None else None
            reader, writer = await asyncio.open_connection(
                master.host, master.port, ssl=tls, server_hostname=name
            )
        try:
            writer.write(
                f"POST {agent_link.UPGRADE_PATH} HTTP/1.1\r\nHost: {master}\r\nConnection: Upgrade\r\n"
                f"Upgrade: {agent_link.UPGRADE_NAME}\r\nContent-Length: 0\r\n\r\n".encode()
            )
            async with asyncio.timeout(10):
                head = await reader.readuntil(b"\r\n\r\n")
            if b" 101 " not in head.split(b"\r\n", 1)[0]:
                raise agent_link.LinkError("the master does not take agents")
            writer.write(agent_link.encode(self._registration()))
        except BaseException:
            writer.close()
            raise
        self._writer = writer
        await self._listen(reader, registered)

    def _registration(self) -> agent_link.Register:
        info = self._info()
        frameworks, tasks = self.runs.frameworks(), self.runs.report()
        kept = self._volumes.resources
        return agent_link.Register(info, self._config.ip, VERSION, frameworks, tasks, kept)

    async def _listen(self, reader: asyncio.StreamReader, registered: Callable[[str], None]) -> None:
        decoder = agent_link.Decoder()
        while data := await self._read(reader):
            for message in decoder.feed(data):
                if isinstance(message, agent_link.Registered):
                    self._silence = max(message.ping_seconds * _PINGS_MISSED, 1.0)
                    self._on_registered(message.agent_id)
                    registered(message.agent_id)
                else:
                    self._handle_message(message)
                    # A master may send hundreds of launches at once. Those that are made start meanwhile.
                    await asyncio.sleep(0)

    async def _read(self, reader: asyncio.StreamReader) -> bytes:
        async with asyncio.timeout(self._silence):
            return await reader.read(1 << 16)

    def _on_registered(self, agent_id: str) -> None:
        if self.agent_id is None:
            self._identify(agent_id)
            write_json(self._layout.agent_file, {"id": agent_id, **self._described()})

    def _handle_message(self, message: object) -> None:
        runs = self.runs
        if isinstance(message, agent_link.Ping):
            self._send(agent_link.Pong())
        elif isinstance(message, agent_link.Launch):
            runs.launch(message.framework, message.task)
        elif isinstance(message, agent_link.Acknowledge):
            runs.acknowledge((message.framework_id, message.task_id), message.uuid)
        elif isinstance(message, agent_link.Kill):
            runs.kill((message.framework_id, message.task_id), message.grace_seconds, message.draining)
        elif isinstance(message, agent_link.ShutdownExecutor):
            runs.shutdown((message.framework_id, message.executor_id))
        elif isinstance(message, agent_link.ShutdownFramework):
            runs.shutdown_framework(message.framework_id)
        elif isinstance(message, agent_link.ResendUpdates):
            runs.resend(message.framework_id)
        elif isinstance(message, agent_link.ApplyResources):
            self._apply(message)
        elif isinstance(message, agent_link.Refused):
            raise _Ended(message.reason)

    def _apply(self, message: agent_link.ApplyResources) -> None:
        self._volumes.apply(message.resources)
        if message.operation_id:
            done = (message.framework_id, message.operation_id, uuid.uuid4().bytes)
            self._send(agent_link.OperationApplied(*done))

    # --- leaving ---

    async def leave(self, link_task: asyncio.Task[str]) -> None:
        """Unregister, end all tasks, and forget the id: the next start is a new agent."""
        self._leaving = True
        if self._writer is not None:
            self._send(agent_link.Unregister())
            await asyncio.wait({link_task}, timeout=2.0)
        link_task.cancel()
        await self.end_tasks()
        self._layout.agent_file.unlink(missing_ok=True)

    async def end_tasks(self) -> None:
        """End all tasks and break the link; the agent's id stays."""
        self._drop_link()
        await self._sessions.stop()
        await self.runs.stop()

    # --- HTTP ---

    def _handle(self, request: Request, connection: Connection) -> Response | None:
        path = request.path.removeprefix("/slave(1)") or "/"
        if path != "/health" and not self._may(request):
            return unauthorized("mesos-agent-readonly")
        if path == "/api/v1":
            return self._session_api.handle(request, connection)
        if request.method not in ("GET", "HEAD"):
            return NOT_FOUND
        if path == "/health":
            return Response(200)
        if path == "/version":
            return Response(200, json.dumps({"version": VERSION}, separators=(",", ":")).encode(), JSON)
        if path in ("/state", "/state.json"):
            return Response(200, self._state(), JSON)
        if path == "/metrics/snapshot":
            return Response(200, dumps(self._figures()), JSON)
        if path in ("/containers", "/containers.json"):
            return _json_of(containers_json(self.runs.containers()))
        if path in ("/monitor/statistics", "/monitor/statistics.json"):
            return _json_of(statistics_json(self.runs.containers()))
        if path == "/flags":
            return Response(200, dumps({"flags": self._config.flags}), JSON)
        if path.startswith("/files/"):
            return self._files.handle(path.removeprefix("/files/").removesuffix(".json"), request)
        return NOT_FOUND

    def _may(self, request: Request) -> bool:
        credentials = self._config.credentials
        return credentials is None or principal_of(request, credentials) is not None

    def _streamed(self, request: Request, connection: Connection) -> Body | None:
        return self._session_api.streamed(request, connection) if self._may(request) else None

    def _figures(self) -> dict[str, float]:
        registered, uptime = self._writer is not None, time.time() - self._started
        return {**snapshot(self.runs, self._config.resources, registered, uptime), **machine_figures()}

    def _state(self) -> bytes:
        live, completed = self.runs.live.values(), self.runs.completed
        value = state(self._info(), self._config.ip, self._started, VERSION, live, completed)
        return json.dumps(value, separators=(",", ":")).encode()


def _json_of(value: list[dict[str, Any]]) -> Response:
    return Response(200, json.dumps(value, separators=(",", ":")).encode(), JSON)


async def _unless(event: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run the work until it ends or the event is set. Raise what the work raises."""
    triggered, working = asyncio.ensure_future(event.wait()), asyncio.ensure_future(work)
    try:
        await asyncio.wait({triggered, working}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        triggered.cancel()
        working.cancel()
        await asyncio.gather(triggered, working, return_exceptions=True)
