"""Commands beside pods: `kubectl exec`, by the sessions that the terminal of the web UI uses, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from starlette.datastructures import QueryParams
from starlette.websockets import WebSocket, WebSocketDisconnect

from peloton.client.agent_calls import resized, typed
from peloton.errors import PelotonError
from peloton.model.amounts import duration
from peloton.web.config import TerminalSettings
from peloton.web.kube.core.channels import (
    STREAMS,
    check_command,
    ended,
    given,
    message_of,
    status_message,
)
from peloton.web.kube.core.objects import Held
from peloton.web.kube.core.refusals import Refusal, refusal_of
from peloton.web.kube.reading import Reader
from peloton.web.views.terminal.bridge import Check, Terminals
from peloton.web.views.terminal.session import CHECK_SECONDS, begun, first, may_not_go_on

USUAL_SIZE = (24, 80)
"""Rows and columns of a terminal until the client tells others."""
MOST_WAITING_BYTES = 256 * 1024
"""Bytes of input that wait for the command to read them; then no more is read of the client."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to run."""

    command: tuple[str, ...]
    stdin: bool
    tty: bool
    container: str

    @classmethod
    def of(cls, query: QueryParams) -> Wanted:
        """Read the parameters. Raises Refusal."""
        words = query.getlist("command")
        check_command(words)
        stdin, tty = (query.get(name) in ("true", "1") for name in ("stdin", "tty"))
        return cls(tuple(words), stdin, tty, query.get("container", ""))


async def place(reader: Reader, namespace: str, name: str, wanted: Wanted) -> tuple[Held, int]:
    """Return the job and the instance of a pod that runs. Raises Refusal."""
    pod = await reader.pod(namespace, name)
    if wanted.container not in ("", pod["spec"]["containers"][0].get("name")):
        raise Refusal(400, f"container {wanted.container[:100]} is not valid for pod {name}")
    if pod["status"]["phase"] != "Running":
        raise Refusal(400, f"pod {name} does not run: it is {pod['status']['phase']}")
    return await reader.instance(namespace, name)


async def serve(
    socket: WebSocket,
    version: str,
    reader: Reader,
    found: tuple[Held, int],
    wanted: Wanted,
    terminals: Terminals,
) -> None:
    """Run a command for the client at the other end, and tell it how it has ended."""
    job, instance = found
    calls = reader.calls
    user = calls.user or (socket.client.host if socket.client is not None else "")
    pool = await reader.pool(job.namespace)
    channel = _Channel(socket, version)
    try:
        terminals.take(user)
    except PelotonError as error:
        await channel.over(status_message(refusal_of(error).status()))
        return
    try:
        async with begun(calls, job.job_id, instance) as terminal:
            command = {"shell": False, "value": wanted.command[0], "arguments": [*wanted.command]}
            size = USUAL_SIZE if wanted.tty else None

            async def run() -> str:
                records = channel.records(wanted.stdin or wanted.tty)
                code = await terminal.run(size, records, channel.write, command)
                await channel.over(status_message(ended(code)))
                return ""

            async def check() -> str:
                return await may_not_go_on(calls, pool.path)

            text = await first(run(), channel.receive(), channel.watch(terminals.settings, check))
        if text:
            await channel.over(status_message(Refusal(400, text).status()))
    except PelotonError as error:
        await channel.over(status_message(refusal_of(error).status()))
    except WebSocketDisconnect:
        return
    finally:
        terminals.leave(user)


class _Channel:
    """The connection of one command."""

    def __init__(self, socket: WebSocket, version: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._socket = socket
        self._version = version
        self._clock = clock
        self._records: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._taken = asyncio.Event()
        self._last = clock()

    async def records(self, any_input: bool) -> AsyncIterator[bytes]:
        """Yield the input, and new sizes, as records for the agent."""
        if not any_input:
            yield typed(b"")
        while True:
            record = await self._records.get()
            self._waiting -= len(record)
            self._taken.set()
            yield record

    async def write(self, stream: str, data: bytes) -> None:
        """Send output."""
        self._last = self._clock()
        await self._socket.send_bytes(message_of(STREAMS[stream], data))

    async def receive(self) -> str:
        """Take what the client sends until it leaves; return why the command is to end."""
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                raise WebSocketDisconnect(message.get("code") or 1000)
            data = message.get("bytes")
            try:
                found = given(data if data is not None else message["text"].encode(), self._version)
            except ValueError as error:
                return f"a message cannot be read: {error}"
            if found is None:
                continue
            self._last = self._clock()
            self._put(typed(found) if isinstance(found, bytes) else resized(found))
            while self._waiting > MOST_WAITING_BYTES:
                self._taken.clear()
                await self._taken.wait()

    def _put(self, record: bytes) -> None:
        self._waiting += len(record)
        self._records.put_nowait(record)

    async def watch(self, settings: TerminalSettings, check: Check) -> str:
        """Return why the command is to end: nothing came or went for long, or the user may not go on."""
        while (left := self._last + settings.idle_seconds - self._clock()) > 0:
            await asyncio.sleep(min(left, CHECK_SECONDS))
            if why := await check():
                return why
        return f"nothing was typed or printed for {duration(settings.idle_seconds)}: the session is over"

    async def over(self, status: bytes) -> None:
        """Tell the client how it has ended, where it is still there."""
        try:
            await self._socket.send_bytes(status)
            await self._socket.close()
        except (WebSocketDisconnect, RuntimeError):  # it has left, or is closed already
            return
