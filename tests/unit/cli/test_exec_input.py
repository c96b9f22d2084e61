"""`peloton task exec -i` whose agent takes no more of what is typed, with a stand-in agent."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from peloton.client.agent_calls import command_info
from peloton.client.agent_session import AgentSession
from peloton.client.sandbox import Agent, AgentUnreachable
from peloton.errors import PelotonError
from tests.servers.shell_agent import Answer, StandIn, answer, ends, refuses

SECONDS = 60.0
"""Within this a command ends, where it does."""
CALL_SECONDS = 2.0
"""Time-out of calls: how long an agent may take to tell that the command has ended."""


@contextmanager
def served(agent: StandIn) -> Iterator[AgentSession]:
    """Yield a session of an agent that is served by another thread."""
    ready, loop, over = threading.Event(), asyncio.new_event_loop(), asyncio.Event()
    place: list[tuple[str, int]] = []

    async def serve() -> None:
        server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
        async with server:
            place.append(server.sockets[0].getsockname()[:2])
            ready.set()
            await over.wait()
            agent.ended.set()

    def work() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=work)
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield AgentSession(Agent(*place[0], CALL_SECONDS), "container")
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(SECONDS)


def run(agent: StandIn, keys: Callable[[], bytes]) -> tuple[int, bytes]:
    """Run a command; return its exit code, and what it showed."""
    output = bytearray()
    with served(agent) as session:
        return session.run(command_info(["sh"]), lambda _, data: output.extend(data), keys), bytes(output)


class Keys:
    """Types on until the test is over."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def __call__(self) -> bytes:
        return b"" if self.over.wait(0.01) else b"x"


@pytest.fixture
def keys() -> Iterator[Keys]:
    made = Keys()
    yield made
    made.over.set()


@pytest.mark.timeout(3 * SECONDS)
@pytest.mark.parametrize(
    ("on_input", "kind", "why"),
    [
        (ends, AgentUnreachable, "over: Remote end closed connection"),
        (refuses(404, "Container cannot be found"), PelotonError, "Container cannot be found"),
        (refuses(503, ""), AgentUnreachable, "takes no more input"),
        (refuses(200, ""), AgentUnreachable, "it was answered early"),
        (refuses(401, ""), PelotonError, "--agentAuth"),
    ],
)
def test_it_ends_where_the_input_no_longer_arrives(
    keys: Keys, on_input: Answer, kind: type[PelotonError], why: str
) -> None:
    with pytest.raises(kind) as caught:
        run(StandIn(on_input), keys)
    assert why in str(caught.value)


@pytest.mark.timeout(3 * SECONDS)
def test_the_end_of_the_command_is_no_failure_of_its_input(keys: Keys) -> None:
    async def when_ended(agent: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"PROCESS_IO")
        agent.ended.set()
        writer.write(answer(200, ""))

    assert run(StandIn(when_ended, last_words=b"bye"), keys) == (3, b"$ bye")
