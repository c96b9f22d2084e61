"""The operator API's client against masters that answer, redirect, refuse, or say nothing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mesos.v1.master import master_pb2
from peloton.errors import InvalidArgument, Unavailable
from peloton.mesos.codec import codec
from peloton.mesos.detector import MasterAddress, StaticMaster
from peloton.mesos.http import basic
from peloton.mesos.operator import OperatorClient
from tests.contract.mesos_driver import recordings


@asynccontextmanager
async def answering(answer: bytes, port: int = 0) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server that gives this answer to every request, and the heads of the requests."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        if not answer:
            await reader.read()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()


def http(status: str, body: bytes = b"", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def client(port: int, encoding: str = "protobuf", timeout: float = 5.0) -> OperatorClient:
    wire = codec("json" if encoding == "json" else "protobuf")
    return OperatorClient(StaticMaster(MasterAddress("127.0.0.1", port)), wire, timeout, basic("p", "s"))


def agents() -> bytes:
    response = master_pb2.Response(type=master_pb2.Response.GET_AGENTS)
    agent = response.get_agents.agents.add(active=True, version="1")
    agent.agent_info.hostname = "h"
    return response.SerializeToString()


async def test_agents_with_authorization() -> None:
    async with answering(http("200 OK", agents())) as (port, heads):
        found = await client(port).agents()
        assert [each.agent_info.hostname for each in found.agents] == ["h"]
    assert b"Authorization: Basic cDpz\r\n" in heads[0]
    assert base64.b64decode("cDpz") == b"p:s"


async def test_a_master_that_does_not_lead_redirects_to_the_leader() -> None:
    async with answering(http("200 OK", agents())) as (leader, _):
        location = f"Location: //127.0.0.1:{leader}/master/api/v1"
        async with answering(http("307 Temporary Redirect", b"", location)) as (port, _):
            assert len((await client(port).agents()).agents) == 1


async def test_masters_that_send_us_in_a_circle() -> None:
    async with answering(b"") as (port, _):
        circle = http("307 Temporary Redirect", b"", f"Location: //127.0.0.1:{port}/master/api/v1")
    async with answering(circle, port) as (port, heads):
        with pytest.raises(Unavailable, match="redirected 3 times, and then to"):
            await client(port).agents()
        assert len(heads) == 4


@pytest.mark.parametrize(
    "answer",
    [
        http("503 Service Unavailable", b"No leader elected"),
        http("307 Temporary Redirect"),
        http("200 OK", b"\xff\xff"),
        http("200 OK"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"nonsense\r\n\r\n",
    ],
    ids=["no leader", "nowhere", "no message", "nothing", "cut", "no http"],
)
async def test_what_is_no_answer_is_unavailable(answer: bytes) -> None:
    async with answering(answer) as (port, _):
        with pytest.raises(Unavailable, match="Mesos GET_AGENTS"):
            await client(port).agents()


async def test_silence_ends_with_the_time_out() -> None:
    async with answering(b"") as (port, _):
        with pytest.raises(Unavailable, match="TimeoutError"):
            await client(port, timeout=0.05).agents()


@recordings.needed
async def test_the_recorded_answers() -> None:
    replies: dict[str, Any] = {}
    called = ""
    for line in recordings.lines("12-operator"):
        if line["kind"] == "request" and line.get("encoding") == "json":
            called = str(line["body"].get("type", "")) if isinstance(line["body"], dict) else ""
        elif line["kind"] == "reply" and line.get("status") == 200 and line.get("body") and called:
            replies.setdefault(called, recordings.body_of(line))
    async with answering(http("200 OK", replies["GET_AGENTS"])) as (port, _):
        found = await client(port, "json").agents()
        assert {each.agent_info.hostname for each in found.agents} == {"agent-1", "agent-2"}
    async with answering(http("200 OK", replies["GET_QUOTA"])) as (port, _):
        await client(port, "json").quotas()


@pytest.mark.parametrize("text", ["", "host", "host:", ":5050", "host:0", "host:65536", "host:x"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(InvalidArgument, match="HOST:PORT"):
        MasterAddress.parse(text)
