"""What clients of an HTTP port may take: connections, time and headers."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from peloton.config.limits import HttpLimitSettings
from peloton.daemon import descriptors
from peloton.daemon.http import HttpServer
from peloton.daemon.http_connections import MAX_HEADER_BYTES, SPARE, Limits, Phase, Seat, Seats
from peloton.daemon.http_server import limits_of
from peloton.rpc.tls import Tls
from tests.unit.identity.test_tls import authority

DEADLINE = 30.0
SHORT = HttpLimitSettings(header_seconds=0.5, body_seconds=0.5, idle_seconds=0.5)
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def serving(
    settings: HttpLimitSettings, tls: Tls | None = None, remark: str = ""
) -> AsyncIterator[int]:
    context = None if tls is None else tls.http()
    server = HttpServer(lambda: "", lambda: remark, tls=context, limits=settings)
    port = server.bind("127.0.0.1", 0)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(DEADLINE):
        while not await listens(port):  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    try:
        yield port
    finally:
        server.stop()
        async with asyncio.timeout(DEADLINE):
            await task


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.transport.abort()
    return True


async def opened(port: int, sent: bytes = b"") -> Pair:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Read until the server closes the connection."""
    async with asyncio.timeout(DEADLINE):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


async def get(port: int, path: str = "/health", headers: dict[str, str] | None = None) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=DEADLINE) as client:
        return await client.get(f"http://127.0.0.1:{port}{path}", headers=headers)


async def closed(pairs: list[Pair]) -> None:
    for _, writer in pairs:
        writer.transport.abort()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /health HTTP/1.1\r\nhost: x\r\n", b"GET /hea"],
    ids=["nothing", "half a header", "half a line"],
)
async def test_a_request_that_is_not_finished_in_time_loses_its_connection(sent: bytes) -> None:
    async with serving(SHORT) as port:
        reader, _ = await opened(port, sent)
        assert await rest_of(reader) == b""


async def test_bytes_that_come_slowly_give_a_request_no_more_time() -> None:
    async with serving(SHORT) as port:
        reader, writer = await opened(port, b"GET /health HTTP/1.1\r\n")

        async def trickle() -> None:
            while not writer.is_closing():
                writer.write(b"a: b\r\n")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        assert await rest_of(reader) == b""
        trickling.cancel()


async def test_a_body_that_does_not_come_loses_its_connection() -> None:
    async with serving(SHORT) as port:
        head = b"POST /logging-level?level=info HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
        reader, _ = await opened(port, head + b"abc")
        async with asyncio.timeout(DEADLINE):
            while await reader.read(1000):
                pass


async def test_a_connection_without_a_further_request_is_closed_and_serves_several_before() -> None:
    patient = SHORT.model_copy(update={"idle_seconds": 4.0})  # a pause may take longer on a busy machine
    async with serving(patient) as port:
        request = b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n"
        reader, writer = await opened(port, request)
        for _ in range(5):
            await asyncio.sleep(0.3)  # longer in all than the time of one request
            writer.write(request)
        answer = await rest_of(reader)
        assert answer.count(b"200 OK") == 6


async def test_endless_headers_are_not_kept() -> None:
    async with serving(HttpLimitSettings()) as port:
        _, writer = await opened(port, b"GET /health HTTP/1.1\r\nx: ")
        sent = 0
        with suppress(ConnectionError):
            async with asyncio.timeout(DEADLINE):
                while sent < 300 * 2**20:
                    writer.write(b"a" * 65536)
                    sent += 65536
                    await writer.drain()
        assert sent < 16 * 2**20  # what the sockets' buffers hold
        writer.transport.abort()


@pytest.mark.parametrize(
    "headers",
    [{"x": "a" * MAX_HEADER_BYTES}, {f"x{number}": "a" for number in range(101)}],
    ids=["size", "number"],
)
async def test_large_and_numerous_headers_are_refused(headers: dict[str, str]) -> None:
    async with serving(HttpLimitSettings()) as port:
        answer = await get(port, headers=headers)
        assert answer.status_code in (400, 431)
        assert (await get(port)).text == "OK"


async def test_health_and_metrics_answer_while_one_address_holds_all_its_connections() -> None:
    settings = HttpLimitSettings(connections=20, address_connections=10)
    async with serving(settings) as port:
        held = [await opened(port, b"GET /health HTTP/1.1\r\n") for _ in range(400)]
        for path in ("/health", "/metrics", "/version"):
            assert (await get(port, path)).status_code == 200
        refused = await get(port, "/nothing")
        assert refused.status_code == 503
        assert "only health, metrics and version" in refused.text
        await closed(held)


async def test_a_handshake_that_is_not_finished_loses_its_connection(tmp_path: Path) -> None:
    async with serving(SHORT, authority(tmp_path)) as port:
        reader, _ = await opened(port)
        assert await rest_of(reader) == b""


async def test_answers_that_nobody_takes_are_ended() -> None:
    """A few large answers, more than the sockets' buffers hold: many small ones take a slow machine long."""
    async with serving(SHORT, remark="x" * 2**20) as port:
        _, writer = await opened(port)
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n" * 64)
        async with asyncio.timeout(DEADLINE):
            while not writer.transport.is_closing():
                await asyncio.sleep(0.05)
                writer.write(b"\r\n")


def test_seats_are_counted_by_address_and_given_back() -> None:
    seats = Seats(Limits(3, 2, 10, 60))
    assert [seats.take("a") for _ in range(3)] == [Seat.ANY, Seat.ANY, Seat.PROBES]
    assert [seats.take("b") for _ in range(2)] == [Seat.ANY, Seat.PROBES]
    assert (seats.open, seats.spare) == (5, 2)
    seats.leave("a", Seat.ANY)
    assert seats.take("b") is Seat.ANY
    seats.leave("b", Seat.PROBES)
    assert seats.spare == 1


def test_answers_have_no_bound_in_time_and_spare_connections_have_little() -> None:
    limits = Limits(3, 2, 10, 60)
    assert limits.seconds(Seat.ANY, Phase.ANSWER) is None
    assert limits.seconds(Seat.ANY, Phase.HEADER) == 10
    assert limits.seconds(Seat.ANY, Phase.READER) == 60
    assert limits.seconds(Seat.PROBES, Phase.READER) == limits.seconds(Seat.PROBES, Phase.HEADER) == 2


def test_connections_take_a_quarter_of_the_descriptors_at_most() -> None:
    settings = HttpLimitSettings(connections=10**6)
    assert limits_of(settings).connections == descriptors.descriptor_limit() // 4
    assert SPARE < descriptors.FEW


def test_the_limit_of_descriptors_is_raised_and_told_where_it_is_low(
    caplog: pytest.LogCaptureFixture,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        assert descriptors.few_descriptors() == (
            "only 256 files and connections may be open: raise the limit (ulimit -n) to 4096 or more"
        )
        descriptors.raise_descriptor_limit()
        raised = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert raised == min(hard if hard != resource.RLIM_INFINITY else 65536, 65536)
        assert bool(caplog.records) == (raised < descriptors.FEW)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
