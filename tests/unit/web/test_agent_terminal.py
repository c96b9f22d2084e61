"""The terminal of a task whose agent takes no more of what is typed, with a stand-in agent."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from peloton.client.agent_calls import Nested, typed
from peloton.errors import PelotonError, Unavailable
from peloton.recordio import RECORDIO, frame
from peloton.web.agent_terminal import AgentTerminal

SECONDS = 10.0
"""Within this a terminal ends, where it does."""
CALL_SECONDS = 0.3
"""Time-out of calls: how long an agent may take to tell that the shell has ended."""
Answer = Callable[["StandIn", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class StandIn:
    """An agent whose shell shows a prompt and goes on until `ended`."""

    on_input: Answer
    """Answers the request that carries what is typed, whose head has been read."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    last_words: bytes = b""
    """What the shell still shows when it has ended."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request of a connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            if f"\r\ncontent-type: {RECORDIO}" in head:
                await self.on_input(self, reader, writer)
                return
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            call = json.loads(await reader.readexactly(length))
            await (self._launch if "LAUNCH" in call["type"] else self._wait)(writer)
        finally:
            writer.close()

    async def _launch(self, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {RECORDIO}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode() + chunk(shown(b"$ ")))
        await self.ended.wait()
        writer.write((chunk(shown(self.last_words)) if self.last_words else b"") + b"0\r\n\r\n")

    async def _wait(self, writer: asyncio.StreamWriter) -> None:
        await self.ended.wait()
        body = json.dumps({"wait_nested_container": {"exit_status": 3 << 8}})
        writer.write(answer(200, body))


def answer(status: int, body: str) -> bytes:
    return f"HTTP/1.1 {status} Any\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def shown(data: bytes) -> bytes:
    piece = {"type": "DATA", "data": {"type": "STDOUT", "data": base64.b64encode(data).decode()}}
    return frame(json.dumps(piece).encode())


async def ends(agent: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End the connection when the first record has come."""
    await reader.readuntil(b"CONTAINER_ID")


def refuses(status: int, text: str) -> Answer:
    async def refuse(agent: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer before the request has ended, and leave the connection open."""
        writer.write(answer(status, text))
        await reader.read()

    return refuse


@asynccontextmanager
async def terminal(agent: StandIn) -> AsyncIterator[AgentTerminal]:
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        try:
            yield AgentTerminal("127.0.0.1", port, Nested("session", "container"), CALL_SECONDS)
        finally:
            agent.ended.set()


async def one_key() -> AsyncIterator[bytes]:
    """Type once, and wait."""
    yield typed(b"x")
    await asyncio.Event().wait()


async def run(agent: StandIn) -> tuple[int, bytes]:
    """Run a terminal; return the exit code of its shell, and what it showed."""
    output = bytearray()

    async def write(data: bytes) -> None:
        output.extend(data)

    async with terminal(agent) as made, asyncio.timeout(SECONDS):
        return await made.run((24, 80), one_key(), write), bytes(output)


@pytest.mark.parametrize(
    ("on_input", "kind", "why"),
    [
        (ends, Unavailable, "the connection has ended"),
        (refuses(404, "Container cannot be found"), Unavailable, "Container cannot be found"),
        (refuses(503, ""), Unavailable, "status 503"),
        (refuses(200, ""), Unavailable, "it was answered early"),
        (refuses(401, ""), PelotonError, "asks for credentials"),
    ],
)
async def test_it_ends_where_what_is_typed_no_longer_arrives(
    on_input: Answer, kind: type[PelotonError], why: str
) -> None:
    with pytest.raises(kind) as caught:
        await run(StandIn(on_input))
    assert why in str(caught.value)


async def test_it_ends_where_no_second_connection_is_taken() -> None:
    agent = StandIn(ends)

    async def only_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.close()
        await agent.serve(reader, writer)

    server = await asyncio.start_server(only_one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = AgentTerminal("127.0.0.1", port, Nested("session", "container"), CALL_SECONDS)

    async def write(data: bytes) -> None: ...

    with pytest.raises(Unavailable, match="cannot be reached"):
        async with asyncio.timeout(SECONDS):
            await made.run((24, 80), one_key(), write)
    agent.ended.set()


async def test_the_end_of_the_shell_is_no_failure_of_its_input() -> None:
    async def when_ended(agent: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PROCESS_IO")
        agent.ended.set()
        writer.write(answer(200, ""))

    assert await run(StandIn(when_ended, last_words=b"bye")) == (3, b"$ bye")
