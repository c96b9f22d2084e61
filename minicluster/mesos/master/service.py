"""The master as a process: HTTP in and out, links to agents, one timer.

All decisions are in ``core``; this module turns bytes into calls, and queued messages into bytes. Whether
this master leads, and which one does otherwise, is one value (``leadership``) that an election changes. A
master that does not lead redirects to the leader.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import agent_link
from minicluster.mesos.common.basic_auth import Credentials, principal_of
from minicluster.mesos.common.http import Connection, Server
from minicluster.mesos.common.http_messages import JSON, NOT_FOUND, Request, Response, refuse
from minicluster.mesos.master.core import agents, allocator, frameworks, operations, simulated_usage, tasks
from minicluster.mesos.master.core.simulated_agents import Simulation, SimulationConfig, registrations
from minicluster.mesos.master.core.state import Agent, Master, MasterConfig, Outbox
from minicluster.mesos.master.endpoints import Endpoints, no_files
from minicluster.mesos.master.event_streams import EventStreams
from minicluster.mesos.master.history import History
from minicluster.mesos.master.leadership import Leadership
from minicluster.mesos.master.operator_api import OperatorApi
from minicluster.mesos.master.registry import recover, snapshot
from minicluster.mesos.master.scheduler_api import (
    Subscription,
    handle,
    unauthorized,
)
from peloton.mesos import json as mesos_json

_NO_LEADER = refuse(503, "No leader elected")


@dataclass(frozen=True, slots=True)
class Stream:
    """A framework's open subscription."""

    connection: Connection
    content_type: str


class AgentLink:
    """The master's end of the link to one agent."""

    def __init__(self, service: MasterService, connection: Connection, ip: str) -> None:
        self._service = service
        self._connection = connection
        self._decoder = agent_link.Decoder()
        self.ip = ip
        self.agent_id: str | None = None

    def data_received(self, data: bytes) -> None:
        """Take frames from the agent."""
        try:
            for message in self._decoder.feed(data):
                self._service.from_link(self, message)
        except agent_link.LinkError:
            self._connection.close()

    def connection_lost(self) -> None:
        """Learn that the agent is gone or cannot be reached."""
        self._service.link_lost(self)

    def send(self, data: bytes) -> None:
        """Send frames to the agent."""
        self._connection.write(data)

    def close(self) -> None:
        """Break the link."""
        self._connection.close()


class MasterService:
    """One running master."""

    def __init__(
        self,
        config: MasterConfig,
        flags: dict[str, str],
        credentials: Credentials | None = None,
        simulation: SimulationConfig | None = None,
        history: History | None = None,
    ) -> None:
        self._history = history
        self._offset = time.time() - time.monotonic()
        self.cluster = Master(config)
        self.leadership = Leadership()
        self._credentials = credentials
        self._save: Callable[[bytes], None] | None = None
        self._holds: Callable[[], bool] = lambda: True
        self._endpoints = Endpoints(self.cluster, flags, self.now())
        self._operator = OperatorApi(self.cluster, flags, self.now(), self._figures)
        self._event_streams = EventStreams(self.cluster, self.now)
        self._simulation = Simulation(simulation) if simulation is not None else None
        self._simulation_config = simulation
        self._simulated: dict[str, Agent] = {}
        """The simulated agents by the path at which each tells what its tasks use."""
        self._streams: dict[str, Stream] = {}
        self._links: dict[str, AgentLink] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self.server = Server(self._handle, self._after)

    def now(self) -> float:
        """Return seconds since the epoch, of a clock that never goes back."""
        return time.monotonic() + self._offset

    def _figures(self) -> dict[str, float]:
        return self._endpoints.figures(self.now(), self.leadership.leads)

    def start(
        self,
        registry: bytes = b"",
        save: Callable[[bytes], None] | None = None,
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """Lead: recover the registry, let simulated agents in, begin to allocate.

        ``save`` is given the registry whenever it changes. From when leadership no longer ``holds``, nothing
        is taken and nothing goes out. Raise RegistryError.
        """
        now = self.now()
        if self._history is not None:
            self._history.began(now)
        recover(self.cluster, registry, now)
        self._save, self._holds = save, holds
        self.leadership = Leadership(True, f"{self.cluster.config.hostname}:{self.cluster.config.port}", True)
        config = self._simulation_config
        if config is not None:
            found = registrations(config, self.cluster.config.ip, self.cluster.config.port)
            for number, message in enumerate(found, 1):
                agent = agents.register(self.cluster, message, now, simulated=number)
                if isinstance(agent, Agent):  # a machine that is down is refused
                    self._simulated[f"/{agent.process}/containers"] = agent
                    if self._history is not None:
                        self._history.registered(now, _with_resources(agent.info, message.info))
        self.cluster.outbox.agents.clear()
        allocator.run_periodically(self.cluster, now)
        self._after()

    # --- HTTP ---

    def _handle(self, request: Request, connection: Connection) -> Response | None:
        path = request.path.removeprefix("/master") or "/"
        if path.startswith("/api/v1/scheduler") and path[17:18] in ("", "/"):
            return self._scheduler(request, connection)
        if request.path == agent_link.UPGRADE_PATH:
            return self._upgrade(request, connection)
        return self._other(path, request, connection)

    def _not_serving(self, request: Request) -> Response | None:
        """Return the reply of a master that cannot serve a request; None where it can."""
        if not self._holds():
            return _NO_LEADER
        if self.leadership.leads:
            calls = "/api/" in request.path or request.path == agent_link.UPGRADE_PATH
            unready = calls and not self.leadership.recovered
            return refuse(503, "Master has not finished recovery") if unready else None
        if self.leadership.leader is None:
            return _NO_LEADER
        path = request.path if request.path.startswith("/master/") else "/master" + request.path
        query = f"?{request.query}" if request.query else ""
        return Response(307, headers=(("Location", f"//{self.leadership.leader}{path}{query}"),))

    def _scheduler(self, request: Request, connection: Connection) -> Response | None:
        refusal = self._not_serving(request)
        if refusal is not None:
            return refusal
        result = handle(self.cluster, request, self._credentials, self.now())
        if isinstance(result, Response):
            return result
        self._subscribe(result, connection)
        return None

    def _subscribe(self, subscription: Subscription, connection: Connection) -> None:
        stream = str(uuid.uuid4())
        self._streams[stream] = Stream(connection, subscription.content_type)
        connection.start_stream(subscription.content_type, (("Mesos-Stream-Id", stream),))
        connection.on_lost = lambda: self._stream_lost(stream)
        frameworks.subscribe(self.cluster, subscription.call, stream, self.now())

    def _stream_lost(self, stream: str) -> None:
        if self._streams.pop(stream, None) is not None:
            frameworks.disconnected(self.cluster, stream, self.now())

    def _other(self, path: str, request: Request, connection: Connection) -> Response | None:
        if path == "/health":
            return Response(200)
        if path in self._simulated:
            return self._of_simulated(self._simulated[path], request)
        if path == "/version":
            return self._operator.version()
        if path == "/redirect":
            leader = self.leadership.leader
            return Response(307, headers=(("Location", f"//{leader}"),)) if leader else _NO_LEADER
        if path in ("/metrics/snapshot", "/flags") or path.startswith("/files/"):
            return self._of_this_process(path, request)
        return self._not_serving(request) or self._guarded(path, request, connection)

    def _guarded(self, path: str, request: Request, connection: Connection) -> Response | None:
        if not (path.startswith("/api/v1") or path == "/teardown" or self._endpoints.serves(path)):
            return NOT_FOUND
        denied = self._denied(request, "readonly" if self._endpoints.reads(path, request) else "readwrite")
        if denied is not None:
            return denied
        if self._endpoints.serves(path):
            return self._endpoints.handle(path, request, self.now())
        if path == "/teardown":
            return self._operator.teardown(request, self.now())
        result = self._operator.handle(request, self.now())
        if isinstance(result, Response):
            return result
        self._event_streams.add(connection, result.content_type)
        return None

    def _denied(self, request: Request, realm: str) -> Response | None:
        allowed = self._credentials is None or principal_of(request, self._credentials) is not None
        return None if allowed else unauthorized(realm)

    def _of_simulated(self, agent: Agent, request: Request) -> Response:
        """Answer a request to a simulated agent."""
        if request.method not in ("GET", "HEAD"):
            return NOT_FOUND
        told = simulated_usage.containers(agent, self.now())
        return Response(200, json.dumps(told, separators=(",", ":")).encode(), JSON)

    def _of_this_process(self, path: str, request: Request) -> Response:
        """Answer a request that each master serves, whether it leads or not."""
        denied = self._denied(request, "readonly")
        if denied is not None:
            return denied
        if path == "/metrics/snapshot":
            return self._endpoints.snapshot(request, self.now(), self.leadership.leads)
        if path == "/flags":
            return self._endpoints.handle(path, request, self.now())
        return no_files(path.removeprefix("/files/").removesuffix(".json"), request)

    # --- agents ---

    def _upgrade(self, request: Request, connection: Connection) -> Response | None:
        if request.headers.get("upgrade") != agent_link.UPGRADE_NAME:
            return NOT_FOUND
        refusal = self._not_serving(request)
        if refusal is not None:
            return refusal
        headers = f"Connection: Upgrade\r\nUpgrade: {agent_link.UPGRADE_NAME}\r\n"
        reply = f"HTTP/1.1 101 Switching Protocols\r\n{headers}\r\n"
        connection.upgrade(AgentLink(self, connection, connection.peer), reply.encode())
        return None

    def from_link(self, source: AgentLink, message: object) -> None:
        """Take a message of a real agent."""
        if not self._holds():
            source.close()
        elif isinstance(message, agent_link.Register):
            self._register(source, message)
        elif source.agent_id is not None:
            agent = self.cluster.agents.get(source.agent_id)
            if agent is not None and self._links.get(agent.id) is source:
                self._from_agent(agent, message)
            else:
                source.close()  # removed meanwhile: it has to register again

    def _register(self, source: AgentLink, message: agent_link.Register) -> None:
        result = agents.register(self.cluster, message, self.now())
        if isinstance(result, str):
            source.send(agent_link.encode(agent_link.Refused(result, True)))
            source.close()
            return
        old = self._links.get(result.id)
        self._links[result.id] = source
        source.agent_id = result.id
        if self._history is not None:
            self._history.registered(self.now(), _with_resources(result.info, message.info))
        if old is not None and old is not source:
            old.close()

    def _from_agent(self, agent: Agent, message: object) -> None:
        if isinstance(message, agent_link.Update):
            if self._history is not None:
                self._history.updated(self.now(), agent.id, message)
            tasks.status_update(self.cluster, agent, message)
        elif isinstance(message, agent_link.Pong):
            agents.pong(agent)
        elif isinstance(message, agent_link.OperationApplied):
            operation = (message.framework_id, message.operation_id, message.uuid)
            operations.applied(self.cluster, agent, *operation)
        elif isinstance(message, agent_link.Unregister):
            agents.unregister(self.cluster, agent, self.now())
            self._links.pop(agent.id).close()

    def link_lost(self, source: AgentLink) -> None:
        """Learn that a link broke."""
        if source.agent_id is None or self._links.get(source.agent_id) is not source:
            return
        del self._links[source.agent_id]
        if self._history is not None:
            self._history.cut(self.now(), source.agent_id)
        agent = self.cluster.agents.get(source.agent_id)
        if agent is not None:
            agents.disconnected(self.cluster, agent, self.now())

    # --- output ---

    def _after(self) -> None:
        """Send what the core queued, and arm the timer."""
        if not self._holds():
            self.cluster.outbox = Outbox()
            return
        now = self.now()
        if self._history is not None:
            self._record(now, self._history)
        self._to_agents(now)
        self._to_frameworks()
        self._event_streams.flush()
        self._save_if_changed()
        self._arm(now)

    def _save_if_changed(self) -> None:
        if self.cluster.registry_changed and self._save is not None:
            self._save(snapshot(self.cluster))
        self.cluster.registry_changed = False

    def _record(self, now: float, history: History) -> None:
        outbox = self.cluster.outbox
        history.to_agents(now, ((to, message, self._reaches(to)) for to, message in outbox.agents))
        for stream, event in outbox.events:
            if event is not None and stream in self._streams:
                history.to_framework(now, event)
        history.flush()

    def _reaches(self, agent_id: str) -> bool:
        agent = self.cluster.agents.get(agent_id)
        return agent_id in self._links or (agent is not None and agent.simulated)

    def _to_agents(self, now: float) -> None:
        outbox = self.cluster.outbox
        while outbox.agents:
            batch, outbox.agents = outbox.agents, []
            frames: dict[str, list[bytes]] = {}
            for agent_id, message in batch:
                if agent_id in self._links:
                    frames.setdefault(agent_id, []).append(agent_link.encode(message))
                elif self._simulation is not None:
                    self._answers(self._simulation.handle(agent_id, message, now))
            for agent_id, parts in frames.items():
                self._links[agent_id].send(b"".join(parts))

    def _answers(self, answers: list[tuple[str, agent_link.AgentMessage]]) -> None:
        for agent_id, message in answers:
            agent = self.cluster.agents.get(agent_id)
            if agent is not None:
                self._from_agent(agent, message)

    def _to_frameworks(self) -> None:
        outbox = self.cluster.outbox
        if not outbox.events:
            return
        batch, outbox.events = outbox.events, []
        records: dict[str, list[bytes]] = {}
        for stream_id, event in batch:
            stream = self._streams.get(stream_id)
            if stream is None:
                continue
            if event is not None:
                records.setdefault(stream_id, []).append(_encode(event, stream.content_type))
                continue
            stream.connection.send_records(records.pop(stream_id, []))
            del self._streams[stream_id]
            stream.connection.on_lost = None
            stream.connection.end_stream()
        for stream_id, parts in records.items():
            self._streams[stream_id].connection.send_records(parts)

    # --- time ---

    def _arm(self, now: float) -> None:
        due = self.cluster.deadlines.next()
        if self._simulation is not None:
            simulated = self._simulation.next_due()
            if simulated is not None and (due is None or simulated < due):
                due = simulated
        if due is None or (self._timer is not None and self._timer_at <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = asyncio.get_running_loop().call_later(max(due - now, 0.001), self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self.now()
        self.cluster.deadlines.run(now)
        if self._simulation is not None:
            self._answers(self._simulation.due(now))
        self._after()


def _with_resources(agent: mesos.AgentInfo, registered: mesos.AgentInfo) -> mesos.AgentInfo:
    """Return the agent with all resources that it registered, revocable ones included."""
    info = mesos.AgentInfo()
    info.CopyFrom(agent)
    del info.resources[:]
    info.resources.extend(registered.resources)
    return info


def _encode(event: scheduler.Event, content_type: str) -> bytes:
    return mesos_json.encode(event) if content_type == JSON else event.SerializeToString()
