"""The terminal of a task whose agent takes no more of what is typed, with a stand-in agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from peloton.client.agent_calls import Nested, typed
from peloton.errors import PelotonError, Unavailable
from peloton.web.agent_terminal import AgentTerminal
from tests.servers.shell_agent import Answer, StandIn, answer, ends, refuses

SECONDS = 60.0
"""Within this a terminal ends, where it does."""
CALL_SECONDS = 2.0
"""Time-out of calls: how long an agent may take to tell that the shell has ended."""


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

    async def write(stream: str, data: bytes) -> None:
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

    async def write(stream: str, data: bytes) -> None: ...

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
