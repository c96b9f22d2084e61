"""Which agents are asked when what their runs use, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from hostmgr.core.agents.sampling import LONGEST_PAUSE, Sampling, SamplingLimits
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.state.columns import Agent
from hostmgr.drivers import sampling as driver
from hostmgr.drivers.sampling import Sampler
from hostmgr.mesos.agent_statistics import AgentStatistics
from hostmgr.services.sampling import SamplingService
from mesos.v1.master import master_pb2
from peloton.errors import InvalidArgument, Unavailable
from peloton.mesos.agent_usage import ContainerUsage
from peloton.model.usage import BYTES_PER_MB
from peloton.private.hostmgr.sampling import sampling_pb2 as pb
from storage.histories.courses import Kept, StoredCourses
from tests.unit.blocks import Blocks

SECOND = 1_000_000_000
HOUR = 3600


def drive(sampling: Sampling, agents: int, seconds: float, step: float = 0.5) -> Counter[str]:
    """Answer each request at once; return how often each agent was asked."""
    names = [f"S{number}" for number in range(agents)]
    asked: Counter[str] = Counter()
    for tick in range(round(seconds / step)):
        now = tick * step
        if tick % 10 == 0:
            sampling.follow(names, now)
        while due := sampling.due(now):
            for agent in due:
                asked[agent] += 1
                sampling.answered(agent, now)
    return asked


def test_each_agent_is_asked_once_in_an_interval() -> None:
    asked = drive(Sampling(SamplingLimits(interval=10, most=1000)), agents=50, seconds=100)
    assert len(asked) == 50 and set(asked.values()) <= {9, 10}


def test_fifty_thousand_agents_are_asked_at_the_rate_that_is_allowed() -> None:
    sampling = Sampling(SamplingLimits(interval=30, most=200, concurrent=16))
    asked = drive(sampling, agents=50_000, seconds=300, step=1.0)
    assert sampling.interval == 250
    assert asked.total() == pytest.approx(200 * 300, rel=0.05)
    assert len(asked) == 50_000


def test_requests_are_spread_over_the_interval() -> None:
    sampling = Sampling(SamplingLimits(interval=100, most=1e6, concurrent=10_000))
    sampling.follow([f"S{number}" for number in range(1000)], 0)
    counts = [len(sampling.due(now)) for now in range(0, 101, 10)]
    assert counts[0] < 10 and all(60 < count < 140 for count in counts[1:]) and sum(counts) == 1000


def test_no_more_are_under_way_than_allowed() -> None:
    sampling = Sampling(SamplingLimits(interval=1, concurrent=3))
    sampling.follow("abcdef", 0)
    assert len(sampling.due(5)) == 3 and sampling.due(5) == [] and sampling.rest(5) is None
    with pytest.raises(AssertionError):
        sampling.answered("z", 5)


def test_one_that_does_not_answer_is_asked_less_and_less() -> None:
    sampling = Sampling(SamplingLimits(interval=10))
    sampling.follow(["a"], 0)
    now, pauses = 10.0, []
    for _ in range(6):
        assert sampling.due(now) == ["a"]
        sampling.failed("a", now)
        rest = sampling.rest(now)
        assert rest is not None
        pauses.append(rest)
        now += rest
    assert pauses == [20, 40, 80, 100, 100, 100] and LONGEST_PAUSE == 10
    assert sampling.due(now) == ["a"]
    sampling.answered("a", now)
    assert sampling.rest(now) == 10


def test_one_that_is_gone_is_not_asked_and_one_that_is_back_is_asked_once() -> None:
    sampling = Sampling(SamplingLimits(interval=10))
    sampling.follow(["a"], 0)
    assert sampling.due(10) == ["a"]
    sampling.follow([], 10)
    sampling.answered("a", 11)
    assert sampling.due(1000) == []
    sampling.follow(["a"], 1000)
    sampling.follow([], 1000)
    sampling.follow(["a"], 1000)
    assert sampling.due(1010) == ["a"] and sampling.due(1010) == []


# --- the driver ---


def used(cpu: float, memory: int, at: float) -> ContainerUsage:
    return ContainerUsage(at, cpu, 1.0, 0.0, memory, memory + 1, 1000, 1)


def agent(number: int = 1, port: int = 5051) -> Agent:
    wire = master_pb2.Response.GetAgents.Agent(pid=f"slave(1)@127.0.0.1:{port}")
    wire.agent_info.hostname = f"h{number}"
    return Agent(f"S{number}", f"h{number}", wire=wire)


class Seconds:
    """A clock whose wall a test sets; the loop's time goes on."""

    def __init__(self, at: float) -> None:
        self.at = at

    def wall(self) -> int:
        return round(self.at * SECOND)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


class Scene:
    """Two agents whose answers a test sets, and a sampler."""

    def __init__(self, blocks: Blocks | None = None, at: float = 100.0) -> None:
        self.runs = Runs()
        self.blocks = Blocks() if blocks is None else blocks
        self.clock = Seconds(at)
        self.answers: dict[str, Callable[[], Mapping[str, ContainerUsage]]] = {}
        self.sight = SimpleNamespace(agents={"S1": agent(1), "S2": agent(2)})
        limits = SamplingLimits(interval=0.02)
        kept = Kept("hosts", driver.COLUMNS, driver.FINE_KEEP, hours=True)
        self.stored = StoredCourses(self.blocks, kept)
        self.sampler = Sampler(self.read, self.sight, self.runs, limits, self.clock, self.stored)  # type: ignore[arg-type]
        self.service = SamplingService(self.sampler)

    async def read(self, which: Agent) -> Mapping[str, ContainerUsage]:
        return self.answers[which.id]()

    async def wait(self, begin: int = 0, stream: str = "", limit: int = 0) -> pb.WaitForReadingsResponse:
        request = pb.WaitForReadingsRequest(stream_id=stream, begin=begin, limit=limit, wait_seconds=5)
        return await self.service.WaitForReadings(request, None)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    running = asyncio.create_task(made.sampler.run())
    try:
        yield made
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_readings_of_own_runs_come_with_their_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FOLLOW_SECONDS", 0.02)
    told = [used(1.0, 100, 50.0), used(5.0, 200, 52.0)]
    async with scene() as it:
        it.runs.put("j-0-1", "S1")
        it.answers["S1"] = lambda: {"j-0-1": told[0], "somebody else's": told[0]}
        first = await it.wait()
        assert (list(first.runs), list(first.at), list(first.cpu)) == (["j-0-1"], [50 * SECOND], [SECOND])
        assert (list(first.memory), list(first.peak)) == ([100], [101])
        it.answers["S1"] = lambda: {"j-0-1": told[1]}
        async with asyncio.timeout(60):
            following = first.next
            while True:
                answer = await it.wait(following, first.stream_id)
                following = answer.next
                if answer.cpu[-1] == 5 * SECOND:
                    break
        (host,) = (await it.service.ListHosts(pb.ListHostsRequest(hostnames=["h1", "h2"]), None)).hosts
        assert (host.hostname, host.memory_bytes, host.tasks) == ("h1", 200, 1)
        again = await it.wait(following + 10_000, "another stream", limit=1)
        assert len(again.runs) == 1 and again.stream_id == first.stream_id


async def test_a_host_has_what_it_used_over_time() -> None:
    it = Scene()
    it.runs.put("j-0-1", "S1")
    for at, cpu in ((10, 5), (20, 10), (40, 40)):
        it.sampler._take(agent(1), {"j-0-1": used(cpu, 100 * BYTES_PER_MB, at)})
    request = pb.ListHostsRequest(hostnames=["h1"], with_course=True)
    (host,) = (await it.service.ListHosts(request, None)).hosts
    assert host.course_begin == 10
    assert [(each.until, each.cores, each.memory_mb) for each in host.course] == [
        (20, 0.5, 100),
        (40, 1.5, 100),
    ]
    (plain,) = (await it.service.ListHosts(pb.ListHostsRequest(hostnames=["h1"]), None)).hosts
    assert not plain.course
    with pytest.raises(InvalidArgument, match="for one host only"):
        await it.service.ListHosts(pb.ListHostsRequest(with_course=True), None)


async def test_the_next_leader_shows_what_a_host_used_before(begin: int = 500_000 * HOUR) -> None:
    first = Scene(at=begin + 400)
    first.runs.put("j-0-1", "S1")
    for at, cpu in ((0, 0), (300, 150)):
        first.sampler._take(agent(1), {"j-0-1": used(cpu, 100 * BYTES_PER_MB, begin + at)})
    await first.stored.write(begin + 400)
    second = Scene(first.blocks, begin + 2 * HOUR)
    request = pb.ListHostsRequest(hostnames=["h1"], with_course=True)
    (host,) = (await second.service.ListHosts(request, None)).hosts
    assert (host.hostname, host.tasks, host.course_begin) == ("h1", 0, begin)
    assert [(each.until, each.cores, each.memory_mb) for each in host.course] == [(begin + 300, 0.5, 100)]
    second.runs.put("j-0-2", "S1")
    for at, cpu in ((7200, 0), (7260, 120)):
        second.sampler._take(agent(1), {"j-0-2": used(cpu, 50 * BYTES_PER_MB, begin + at)})
    second.clock.at = begin + 7300
    (host,) = (await second.service.ListHosts(request, None)).hosts
    assert host.tasks == 1
    assert [(each.until - begin, each.cores) for each in host.course] == [(300, 0.5), (7200, 0), (7260, 2)]
    weeks = pb.ListHostsRequest(hostnames=["h1"], with_course=True, days=7)
    (host,) = (await second.service.ListHosts(weeks, None)).hosts
    assert [each.cores for each in host.course] == [0.5, 0, 2]
    assert not (
        await second.service.ListHosts(pb.ListHostsRequest(hostnames=["h2"], with_course=True), None)
    ).hosts
    for wrong in (
        pb.ListHostsRequest(days=7),
        pb.ListHostsRequest(hostnames=["h1"], with_course=True, days=36),
    ):
        with pytest.raises(InvalidArgument, match="days"):
            await second.service.ListHosts(wrong, None)


async def test_one_that_fails_is_counted_and_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "FOLLOW_SECONDS", 0.02)

    def fails() -> Mapping[str, ContainerUsage]:
        raise Unavailable("agent S2 is on fire")

    async with scene() as it:
        it.answers = {"S1": lambda: {"j-0-1": used(1, 1, 1)}, "S2": fails}
        it.runs.put("j-0-1", "S1")
        it.runs.put("j-1-1", "S2")
        assert list((await it.wait()).runs) == ["j-0-1"]
        async with asyncio.timeout(60):
            while not it.sampler.silent:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)
        listed = await it.service.ListHosts(pb.ListHostsRequest(), None)
        assert (listed.silent, [each.hostname for each in listed.hosts]) == (1, ["h1"])
        it.runs.remove("j-1-1")
        async with asyncio.timeout(60):
            while it.sampler.silent:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(0.01)


async def test_the_oldest_readings_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MOST_RUNS", 3)
    it = Scene()
    for number in range(5):
        it.runs.put(f"j-{number}-1", "S1")
        it.sampler._take(agent(1), {f"j-{number}-1": used(1, number, number + 1)})
    answer = await it.wait()
    assert list(answer.runs) == ["j-2-1", "j-3-1", "j-4-1"] and answer.next == 5


async def test_requests_out_of_bounds_are_refused() -> None:
    it = Scene()
    for request in (pb.WaitForReadingsRequest(limit=10_001), pb.WaitForReadingsRequest(wait_seconds=61)):
        with pytest.raises(InvalidArgument):
            await it.service.WaitForReadings(request, None)


# --- the HTTP of agents ---

BODY = (
    b'[{"executor_id":"s-1","framework_id":"f","source":"s-1","statistics":{"cpus_soft_limit":0.2,'
    b'"cpus_system_time_secs":0.04,"cpus_user_time_secs":0.16000000000000003,"mem_limit_bytes":67108864,'
    b'"mem_rss_bytes":423219200,"mem_soft_limit_bytes":67108864,"timestamp":1795213573.883059},"status":{}}]'
)
"""As a real agent of Apache Mesos answered."""


@asynccontextmanager
async def serving(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    requests: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], requests


def response(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


async def test_an_agent_of_apache_mesos_is_read() -> None:
    async with serving(response(BODY)) as (port, requests):
        found = await AgentStatistics().read(agent(port=port))
    assert requests[0].startswith(b"GET /slave(1)/containers HTTP/1.1\r\n")
    reading = found["s-1"].reading
    assert (reading.cpu, reading.memory, reading.peak) == (200_000_000, 423_219_200, 0)
    assert reading.at == pytest.approx(1795213573.883059 * SECOND, abs=1000)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (response(b"", "503 Service Unavailable"), "answered 503"),
        (response(b"{"), "not JSON"),
        (response(b'[{"executor_id":"s","statistics":{}}]'), "unknown form"),
        (response(b"[")[:-1], "cut short"),
        (b"what?\r\n\r\n", "no HTTP response"),
    ],
)
async def test_other_answers_are_unavailable(answer: bytes, text: str) -> None:
    async with serving(answer) as (port, _):
        with pytest.raises(Unavailable, match=text):
            await AgentStatistics().read(agent(port=port))


async def test_one_that_hangs_or_is_gone_is_unavailable() -> None:
    async with serving(b"") as (port, _):
        pass
    with pytest.raises(Unavailable, match="does not tell"):
        await AgentStatistics().read(agent(port=port))

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match="does not tell"):
            await AgentStatistics(timeout=0.05).read(agent(port=port))
