"""Load scores: from a Prometheus and from a file, and the order of hosts by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from hostmgr.config import LoadSettings
from hostmgr.core.agents.load_scores import Scores
from hostmgr.core.claims.lifecycle import ClaimLimits
from hostmgr.core.hosts.all_hosts import HostLimits, Hosts
from hostmgr.core.state.host_filter import HostFilter, Ranking
from hostmgr.core.state.table import HostTable
from hostmgr.drivers.load_scores import LoadScores
from hostmgr.drivers.load_sources import prometheus, score_file, scores_from_query
from peloton.clock import ManualClock
from peloton.errors import Unavailable
from tests.unit.hostmgr.hosts import agent, cluster, ids, offer


def vector(*elements: tuple[dict[str, str], object]) -> bytes:
    result = [{"metric": metric, "value": [1.0, value]} for metric, value in elements]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def order(hosts: Hosts, **filters: Any) -> list[str]:
    return [claim.hostname for claim in hosts.claims.acquire(HostFilter(**filters), ids(), 0.0).claims]


def released(hosts: Hosts, ranking: Ranking, count: int = 0) -> list[str]:
    acquired = hosts.claims.acquire(HostFilter(ranking=ranking, max_hosts=count), ids(), 0.0)
    for claim in acquired.claims:
        hosts.claims.release(claim.id)
    return [claim.hostname for claim in acquired.claims]


# The order.


def test_the_least_loaded_host_comes_first_and_an_unknown_one_counts_100() -> None:
    hosts = cluster(4)
    hosts.table.set_loads({"host1": 5, "host2": 0, "host3": 99.5, "unknown": 1})
    assert order(hosts, ranking=Ranking.LOAD_AWARE) == ["host2", "host1", "host3", "host0"]


def test_the_order_is_the_configured_one_unless_a_hint_says_otherwise() -> None:
    for configured in Ranking:
        hosts = Hosts(HostTable(), HostLimits(ClaimLimits(configured)))
        for host, cpu in enumerate((3, 1, 2)):
            hosts.add_offer(offer(host, host, cpu=cpu), 0.0)
        hosts.table.set_loads({"host0": 2, "host1": 3, "host2": 1})
        expected = {
            Ranking.FIRST_FIT: ["host0", "host1", "host2"],
            Ranking.DEFRAG: ["host1", "host2", "host0"],
            Ranking.LOAD_AWARE: ["host2", "host0", "host1"],
        }
        assert order(hosts) == expected[configured]


def test_engines_do_not_compete_for_hosts_of_equal_load() -> None:
    hosts = cluster(3)
    assert [released(hosts, Ranking.LOAD_AWARE, 1) for _ in range(3)] == [["host0"], ["host1"], ["host2"]]


def test_scores_are_of_hosts_that_come_later_too_and_are_replaced_as_a_whole() -> None:
    hosts = cluster(1)
    hosts.table.set_loads({"host0": 50, "host1": 10})
    hosts.set_agents([agent(0), agent(1)])
    hosts.add_offer(offer(1, 1), 0.0)
    assert released(hosts, Ranking.LOAD_AWARE) == ["host1", "host0"]
    hosts.table.set_loads({"host0": 50})
    assert released(hosts, Ranking.LOAD_AWARE) == ["host0", "host1"]
    hosts.remove_agent("S0")
    hosts.add_offer(offer(2, 2), 0.0)
    assert set(released(hosts, Ranking.LOAD_AWARE)) == {"host1", "host2"}, "a row that is used again"


# Sources.


def test_scores_are_by_the_label_without_a_port() -> None:
    body = vector(
        ({"instance": "a:9100"}, "12.5"),
        ({"instance": "b"}, "200"),
        ({"instance": "c"}, "NaN"),
        ({"job": "d"}, "3"),
        ({"instance": "a:9200"}, "40"),
        ({"instance": "e"}, "-3"),
    )
    assert scores_from_query(body, "instance", "p") == {"a": 40, "b": 100, "e": 0}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "the answer is not one of Prometheus"),
        (b"[]", "the answer is not one of Prometheus"),
        (b'{"status": "error", "error": "bad"}', "the answer is not one of Prometheus"),
        (json.dumps({"data": {"resultType": "matrix"}}).encode(), "the answer is a matrix, not an instant"),
    ],
)
def test_an_answer_that_is_none(body: bytes, text: str) -> None:
    with pytest.raises(Unavailable, match=text):
        scores_from_query(body, "instance", "p")


@asynccontextmanager
async def answering(respond: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """Serve HTTP; yield the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        writer.write(respond(head + await reader.readexactly(length)))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def response(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def test_a_prometheus_is_queried() -> None:
    asked: list[bytes] = []

    def respond(request: bytes) -> bytes:
        asked.append(request)
        return response(vector(({"host": "a"}, "7")))

    async with answering(respond) as address:
        assert await prometheus(f"{address}/", "up == 1", "host", 60.0, 10_000)() == {"a": 7}
    assert asked[0].startswith(b"POST /api/v1/query HTTP/1.1") and asked[0].endswith(b"query=up+%3D%3D+1")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (response(b"no such query", "400 Bad Request"), "400 no such query"),
        (response(b"x" * 2000), "the answer has more than load.max_bytes, 1024, bytes"),
        (b"", "api/v1/query: "),
    ],
)
async def test_a_prometheus_that_answers_otherwise(answer: bytes, text: str) -> None:
    async with answering(lambda _: answer) as address:
        with pytest.raises(Unavailable, match=text):
            await prometheus(address, "up", "host", 60.0, 1024)()
    with pytest.raises(Unavailable, match="api/v1/query: "):
        await prometheus(address, "up", "host", 60.0, 1024)()


async def test_a_file_of_scores(tmp_path: Path) -> None:
    path = tmp_path / "scores.yaml"
    source = score_file(path, 1024)
    with pytest.raises(Unavailable, match="No such file"):
        await source()
    path.write_text("a: 3\nb: busy\nc: 101\n")
    assert await source() == {"a": 3, "c": 100}
    path.write_text(json.dumps({"a": 4}))
    assert await source() == {"a": 4}
    for text, reason in (
        ("- a", "not a mapping"),
        ("{", "while parsing"),
        ("a" * 2000, "more than load.max"),
    ):
        path.write_text(text)
        with pytest.raises(Unavailable, match=reason):
            await source()


# The driver.


async def test_failures_wait_longer_and_old_scores_are_forgotten() -> None:
    clock, table = ManualClock(), cluster(2).table
    answers: list[Scores | None] = [{"host1": 3}, None, None, None, {"host1": 4}]

    async def source() -> Scores:
        answer = answers.pop(0)
        if answer is None:
            raise Unavailable("away")
        return answer

    scores = LoadScores(table, source, 30.0, 100.0, clock.monotonic)

    def first() -> str:
        rows = table.ranked(table.alive(), HostFilter(), Ranking.LOAD_AWARE)
        return table.hostnames[int(rows[0])]

    pauses, firsts = [], []
    for _ in range(5):
        pauses.append(await scores.read())
        firsts.append(first())
        clock.advance(40.0)
    assert pauses == [30.0, 30.0, 60.0, 120.0, 30.0]
    assert firsts == ["host1", "host1", "host1", "host0", "host1"]


def test_settings_name_one_source() -> None:
    with pytest.raises(ValidationError, match="give prometheus or file, not both"):
        LoadSettings(prometheus="http://p:9090", file=Path("scores"))
    with pytest.raises(ValidationError, match="'p:9090' is not http://HOST:PORT"):
        LoadSettings(prometheus="p:9090")
