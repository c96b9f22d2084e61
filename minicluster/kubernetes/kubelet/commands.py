"""A command that is run beside the process of a pod, for an API server that has opened streams for it.

Source: Kubernetes' remote commands, protocol v4.channel.k8s.io: a stream of its own for standard input,
output and error, for sizes of the terminal, and for the status at the end.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import parse_qs

from mesos.v1 import mesos_pb2 as mesos
from minicluster.kubernetes.kubelet.pod_status import exit_code_of
from minicluster.kubernetes.kubelet.processes import Process
from minicluster.kubernetes.kubelet.spdy import SpdyConnection
from minicluster.mesos.agent.sessions import Output, Session, Terminal
from minicluster.mesos.agent.task_commands import Companions
from minicluster.mesos.common.http import Connection

PROTOCOL = "v4.channel.k8s.io"
"""Each client that speaks SPDY offers it, since Kubernetes 1.4; a proxy of an API server needs no other."""
ACCEPTED = (
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
    f"X-Stream-Protocol-Version: {PROTOCOL}\r\n\r\n"
).encode()
_INPUT, _OUTPUT, _ERROR, _STATUS, _RESIZE = "stdin", "stdout", "stderr", "error", "resize"
_STREAMS = {"STDOUT": _OUTPUT, "STDERR": _ERROR}


class Wanted:
    """What the query of a request asks for."""

    def __init__(self, query: str) -> None:
        found = parse_qs(query, keep_blank_values=True)
        self.command: Sequence[str] = found.get("command", [])
        self.terminal = found.get("tty") == ["1"]
        names = ((_INPUT, "input"), (_OUTPUT, "output"), (_ERROR, "error"))
        self.streams = {name for name, key in names if found.get(key) == ["1"]} | {_STATUS}
        if self.terminal:
            self.streams = self.streams - {_ERROR} | {_RESIZE}


class RemoteCommand(Output):
    """One command, from its streams to its end."""

    def __init__(
        self,
        connection: Connection,
        wanted: Wanted,
        process: Process,
        companions: Companions,
        ended: Callable[[], None],
    ) -> None:
        """Call `ended` at the end."""
        self._connection = connection
        self._wanted = wanted
        self._process = process
        self._companions = companions
        self._ended = ended
        self._numbers: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._sizes = b""
        self._holding: asyncio.Task[None] | None = None
        command = mesos.CommandInfo(shell=False, value=wanted.command[0], arguments=wanted.command)
        terminal = Terminal() if wanted.terminal else None
        self.session = Session(process.uid, str(uuid.uuid4()), command, self, terminal)
        self._work: asyncio.Task[None] | None = None
        self._spdy = SpdyConnection(connection, self)

    def accept(self) -> None:
        """Take the connection over."""
        self._process.companions.add(self.session.kill)
        self._connection.upgrade(self._spdy, ACCEPTED)

    # The streams.

    def on_stream(self, stream: int, headers: Mapping[str, str]) -> None:
        """Begin once all streams are there."""
        name = headers.get("streamtype", "")
        self._numbers[name], self._names[stream] = stream, name
        if self._work is None and self._wanted.streams <= set(self._numbers):
            self._work = asyncio.get_running_loop().create_task(self._run())

    def on_data(self, stream: int, data: bytes, last: bool) -> None:
        """Pass input on, and sizes of the terminal."""
        name = self._names.get(stream)
        if name == _INPUT:
            if data:
                self.session.feed(data)
            if last:
                self.session.feed(b"")
            if self.session.crowded and self._holding is None:
                self._connection.hold(True)
                self._holding = asyncio.get_running_loop().create_task(self._release())
        elif name == _RESIZE:
            self._resize(data)

    async def _release(self) -> None:
        await self.session.drained()
        self._holding = None
        self._connection.hold(False)

    def _resize(self, data: bytes) -> None:
        *lines, self._sizes = (self._sizes + data).split(b"\n")
        self._sizes = self._sizes[:1000]
        for line in lines:
            size = json.loads(line)
            self.session.resize(Terminal(int(size["Height"]), int(size["Width"])))

    def on_lost(self) -> None:
        """End the command with its connection."""
        self.session.kill()
        if self._work is None:
            self._over()

    def _over(self) -> None:
        self._process.companions.discard(self.session.kill)
        self._ended()

    # The command.

    async def _run(self) -> None:
        try:
            await self.session.run(self._process, self._companions)
        finally:
            self._over()
        for name in self._wanted.streams & {_OUTPUT, _ERROR}:
            self._spdy.send(self._numbers[name], b"", last=True)
        status = json.dumps(status_of(self.session.status)).encode()
        self._spdy.send(self._numbers[_STATUS], status)
        self._spdy.send(self._numbers[_STATUS], b"", last=True)
        self._connection.close()

    def begin(self) -> None:
        """Begin: nothing is to be told."""

    def write(self, stream: str, data: bytes) -> None:
        """Send a piece of output."""
        number = self._numbers.get(_STREAMS[stream])
        if number is not None:
            self._spdy.send(number, data)

    async def writable(self) -> None:
        """Wait while the reader is slow."""
        await self._connection.writable()

    def end(self) -> None:
        """End: `_run` tells it."""


def status_of(status: int | None) -> dict[str, object]:
    """Return the Status by which an API server is told how a command has ended."""
    if status is None:
        return {"status": "Failure", "reason": "InternalError", "message": "the pod has ended", "code": 500}
    code = exit_code_of(status)
    if not code:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
