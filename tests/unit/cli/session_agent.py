"""An agent with one running task, beside which commands run: the sessions of the project's own agent."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.container_usage import Container
from minicluster.mesos.agent.isolation import NOTHING
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.run import Run as AgentRun
from minicluster.mesos.agent.sandbox_files import Files
from minicluster.mesos.agent.session_api import SessionApi
from minicluster.mesos.agent.sessions import Sessions
from minicluster.mesos.agent.task_commands import Companions
from minicluster.mesos.common.http import Server
from minicluster.mesos.common.server_process import listen
from peloton.client.agent_session import AgentSession
from peloton.client.sandbox import Agent

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
CONTAINER = "26e93be6-5472-402c-8803-adbe66691f42"
PATH = f"/slaves/S0/frameworks/F0/executors/{JOB}-0-1/runs/{CONTAINER}/stdout"
SECONDS = 60


class SessionAgent:
    """An agent with one running task, in a thread of its own."""

    def __init__(
        self,
        sandbox: Path,
        make_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._tls = tls
        # A shell reads files of its home; what they start would read what tests type.
        given = {"COLOUR": "green", "HOME": str(sandbox)}
        variables = [mesos.Environment.Variable(name=name, value=value) for name, value in given.items()]
        command = mesos.CommandInfo(environment=mesos.Environment(variables=variables))
        task = mesos.TaskInfo(task_id=mesos.TaskID(value=f"{JOB}-0-1"), command=command)
        self.run = AgentRun(RunLocation("S0", "F0", CONTAINER, sandbox), mesos.FrameworkInfo(), task)
        companions = Companions(Layout(sandbox), NOTHING)
        self.sessions = Sessions(lambda container: self.run if container == CONTAINER else None, companions)
        self.address = ("", 0)
        self._loop = make_loop()
        self._ready, self._over = threading.Event(), asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))
        self._thread.start()
        assert self._ready.wait(SECONDS)

    async def _serve(self) -> None:
        files = Files(Layout(self.run.place.sandbox))
        api = SessionApi(self.sessions, files, self)
        server, socket = Server(api.handle, lambda: None, api.streamed), listen("127.0.0.1", 0)
        await server.serve(socket, self._tls)
        self.address = socket.getsockname()
        self._ready.set()
        await self._over.wait()
        await self.sessions.stop()
        await server.stop()

    def running_in(self, container_id: str) -> AgentRun | None:
        return None

    def containers(self) -> list[Container]:
        return []

    def call(self, function: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(function)

    def stop(self) -> None:
        self.call(self._over.set)
        self._thread.join(SECONDS)
        self._loop.close()

    def session(self, size: tuple[int, int] | None = None) -> AgentSession:
        return AgentSession(Agent(*self.address, timeout=SECONDS), CONTAINER, size)
