"""The host manager in one process, between the bytes of a Mesos master and those of its clients.

    python -m benchmarks.hostmgr [--hosts 50000] [--statuses 50000] [--claims 200]

What Mesos sends is fed as the driver reads it, from HTTP chunks on; calls are written as HTTP and answered.
Placement engines, jobmgr and resmgr call the services over gRPC on the loopback device. Prints, one per line:

    offers round seconds: N             50,000 agents are offered for the first time
    offers round again seconds: N       the same after a new subscription: the hosts are known
    agents read seconds: N              the map of agents is taken for the first time
    acquire 1000 hosts p50 ms: N        AcquireHostOffers of 1,000 of them, from the call to its answer
    acquire 1000 hosts p99 ms: N
    statuses per second: N              taken, deduplicated (one in ten comes twice), passed on to both
                                        clients, and acknowledged

Seconds are of the process's CPU, so that other programs do not count; the time of a call is the clock's.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this folder has a hostmgr too

import grpc

from hostmgr.__main__ import COLLECTION
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term
from hostmgr.drivers.agents import FollowedAgents
from hostmgr.drivers.framework import FrameworkRecord
from hostmgr.drivers.manager import HostManager
from hostmgr.drivers.status_updates import CLIENTS, HOLDER, Entry, StatusUpdates
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.services.events import EventStream
from hostmgr.services.internal import InternalHosts
from hostmgr.services.watches import Watches
from mesos.v1 import mesos_pb2
from mesos.v1.master import master_pb2
from mesos.v1.scheduler import scheduler_pb2
from peloton.clock import SystemClock
from peloton.eventstream import EventRing
from peloton.mesos.call_pipeline import CallPipeline
from peloton.mesos.calls import Call
from peloton.mesos.codec import codec
from peloton.mesos.connection import MesosDriver
from peloton.mesos.detector import MasterAddress
from peloton.mesos.http import READ_BYTES, Requests
from peloton.mesos.operator import OperatorClient
from peloton.mesos.session import Session
from peloton.mesos.stream import EventDecoder, split_offers
from peloton.model.shard import SHARDS
from peloton.private.eventstream import eventstream_pb2
from peloton.private.eventstream.eventstream_pb2_grpc import add_EventStreamServiceServicer_to_server
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import add_InternalHostServiceServicer_to_server
from peloton.rpc.server import OPTIONS, RpcServer, service

MASTER = MasterAddress("127.0.0.1", 5050)
WIRE = codec("protobuf")
HEAD = b"HTTP/1.1 200 OK\r\nMesos-Stream-Id: s\r\nTransfer-Encoding: chunked\r\n\r\n"
ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
SCALARS = (("cpus", 32.0), ("mem", 131072.0), ("disk", 1048576.0))
CLAIMED = 1000
PER_READ = 10_000
STATES = (mesos_pb2.TASK_STARTING, mesos_pb2.TASK_RUNNING, mesos_pb2.TASK_FINISHED)
Event = scheduler_pb2.Event


class Master:
    """The other end of the driver: a stream of events, and answers to calls."""

    def __init__(self) -> None:
        self.backend: MesosBackend | None = None
        self.acknowledged = 0
        self._reader = asyncio.StreamReader()
        self.ready = True
        self._pipeline = CallPipeline(
            Requests(MASTER, "/api/v1/scheduler", {"Content-Type": WIRE.content_type}),
            self._reader,
            cast(asyncio.StreamWriter, self),
            lambda *_: None,
            time.monotonic,
        )

    def send(self, *calls: Call) -> None:
        """Write calls as the driver does."""
        self.send_each(calls)

    def send_each(self, calls: Iterable[Call]) -> None:
        """Write calls as the driver does, each before the next one is made."""
        encoded = [(Call.Type.Name(each.type), WIRE.encode(each)) for each in calls]
        self._pipeline.send([name for name, _ in encoded], [body for _, body in encoded])

    def write(self, data: bytes) -> None:
        """Take the bytes of calls, and answer each."""
        count = data.count(b"POST /api")
        self.acknowledged += count
        self._reader.feed_data(ACCEPTED * count)

    def is_closing(self) -> bool:
        """Return that the connection is open."""
        return False

    async def drain(self) -> None:
        """Wait for room in the pipeline, of which this is the writer too."""
        await self._pipeline._room.wait()

    async def answer(self) -> None:
        """Read the answers."""
        await self._pipeline.run()

    async def subscribe(self) -> Callable[[bytes], Awaitable[None]]:
        """Begin a subscription; return what takes the bytes of its events."""
        assert self.backend is not None
        session = Session(None)
        session.connect(time.monotonic())
        decoder = EventDecoder(WIRE, session, 512 * 1024 * 1024)
        subscribed = Event(type=Event.SUBSCRIBED)
        subscribed.subscribed.framework_id.value = "f"
        decoder.feed(HEAD + chunk(subscribed), time.monotonic())
        await self.backend.on_subscribed("f", MASTER, "m")
        backend = self.backend

        async def take(data: bytes) -> None:
            for start in range(0, len(data), READ_BYTES):
                events = decoder.feed(data[start : start + READ_BYTES], time.monotonic())
                for part in split_offers(events):
                    backend.on_events(part)
                    await asyncio.sleep(0)

        return take


class Store:
    """The part of the store that holds the framework id."""

    @property
    def hosts(self) -> Store:
        """Return the part itself."""
        return self

    async def write_framework_id(self, name: str, framework_id: str) -> None:
        """Keep nothing."""


class Bench:
    """A host manager with its services, and a channel to them."""

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts
        self.listed = self._agents()
        self.master = Master()
        driver, store = cast(MesosDriver, self.master), cast(Any, Store())
        self.reader = AgentReader(cast(OperatorClient, self), "peloton")
        backend = MesosBackend(lambda _: driver, self.reader, cast(Any, None))
        self.master.backend = backend
        clock = SystemClock()
        core, ring = Term(HostTable()), EventRing[Entry](str(uuid.uuid4()), CLIENTS, HOLDER, shards=SHARDS)
        updates = StatusUpdates(ring, core.statuses, clock.monotonic)
        self.manager = HostManager(core, backend, FrameworkRecord(store, "Peloton"), updates, clock)
        self.cluster = FollowedAgents(
            backend, self.manager.hosts, self.manager.core.reconciler, 10.0, clock.monotonic
        )
        watches = Watches(self.manager.status_updates, self.manager.hosts)
        internal = InternalHosts(self.manager, self.cluster.sight, cast(Any, None), watches, cast(Any, None))
        self.services = (
            service(add_InternalHostServiceServicer_to_server, internal),
            service(add_EventStreamServiceServicer_to_server, EventStream(self.manager.status_updates)),
        )

    # The operator API.

    async def agents(self) -> master_pb2.Response.GetAgents:
        """Return the agents as GET_AGENTS does."""
        return master_pb2.Response.GetAgents.FromString(self.listed)

    def _agents(self) -> bytes:
        answer = master_pb2.Response.GetAgents()
        for number in range(self.hosts):
            agent = answer.agents.add(active=True, version="1.12.0", pid="slave(1)@10.0.0.1:5051")
            agent.agent_info.id.value = f"agent-{number:05d}"
            agent.agent_info.hostname = f"host-{number:05d}"
            agent.agent_info.attributes.extend(attributes(number))
            agent.total_resources.extend(resources())
            agent.agent_info.resources.extend(resources())
        return answer.SerializeToString()

    async def quotas(self) -> tuple[()]:
        """Return that there are no quotas."""
        return ()


def chunk(event: Event) -> bytes:
    """Return an event as a record in an HTTP chunk."""
    body = event.SerializeToString()
    record = b"%d\n%b" % (len(body), body)
    return b"%x\r\n%b\r\n" % (len(record), record)


def resources() -> Iterator[mesos_pb2.Resource]:
    """Iterate over the resources of a host."""
    for name, value in SCALARS:
        yield mesos_pb2.Resource(
            name=name,
            type=mesos_pb2.Value.SCALAR,
            scalar=mesos_pb2.Value.Scalar(value=value),
            role="*",
            allocation_info=mesos_pb2.Resource.AllocationInfo(role="peloton"),
        )
    ports = mesos_pb2.Resource(name="ports", type=mesos_pb2.Value.RANGES, role="*")
    ports.allocation_info.role = "peloton"
    ports.ranges.range.add(begin=31000, end=32000)
    yield ports


def attributes(number: int) -> Iterator[mesos_pb2.Attribute]:
    """Iterate over the attributes of a host."""
    for name, value in (("rack", f"r{number % 500}"), ("zone", f"z{number % 3}")):
        yield mesos_pb2.Attribute(
            name=name, type=mesos_pb2.Value.TEXT, text=mesos_pb2.Value.Text(value=value)
        )


def offers(hosts: int, round_: int) -> bytes:
    """Return one event with an offer of each host."""
    event = Event(type=Event.OFFERS)
    for number in range(hosts):
        offer = event.offers.offers.add(hostname=f"host-{number:05d}")
        offer.id.value = f"5f4ac2b6-55f4-4b1c-9b5c-7cdb2a1d7f43-O{round_}{number:06d}"
        offer.agent_id.value = f"agent-{number:05d}"
        offer.framework_id.value = "f"
        offer.resources.extend(resources())
        offer.attributes.extend(attributes(number))
        offer.allocation_info.role = "peloton"
    return chunk(event)


def statuses(count: int) -> list[bytes]:
    """Return the statuses as reads of PER_READ; every tenth status comes twice."""
    job, reads = str(uuid.uuid4()), []
    for first in range(0, count, PER_READ):
        part = bytearray()
        for number in range(first, min(first + PER_READ, count)):
            event = Event(type=Event.UPDATE)
            status = event.update.status
            status.state = STATES[number % len(STATES)]
            status.task_id.value = f"{job}-{number // len(STATES)}-1"
            status.agent_id.value = f"agent-{number % 5000:05d}"
            status.uuid = uuid.uuid4().bytes
            status.timestamp, status.source = 1.7e9, mesos_pb2.TaskStatus.SOURCE_EXECUTOR
            status.executor_id.value = status.task_id.value
            encoded = chunk(event)
            part += encoded if number % 10 else encoded * 2
        reads.append(bytes(part))
    return reads


async def cpu(work: Awaitable[None]) -> float:
    """Return the CPU seconds of some work."""
    gc.collect()
    begun = time.process_time()
    await work
    return time.process_time() - begun


async def measure(hosts: int, count: int, claims: int) -> None:
    """Print the figures."""
    bench = Bench(hosts)
    answering = asyncio.create_task(bench.master.answer())
    server = RpcServer(lambda: "")
    server.activate(bench.services)
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        await measure_offers(bench)
        await measure_claims(bench, channel, claims)
        await measure_statuses(bench, channel, count)
    answering.cancel()
    await server.stop(0)


async def measure_offers(bench: Bench) -> None:
    """Print the figures of offers and agents."""
    for round_, name in enumerate(("offers round", "offers round again")):
        bench.master.backend.on_disconnected("next round")  # type: ignore[union-attr]
        take, data = await bench.master.subscribe(), offers(bench.hosts, round_)
        seconds = await cpu(take(data))
        assert len(list(bench.manager.hosts.offers)) == bench.hosts
        print(f"{name} seconds: {seconds:.2f}", flush=True)
        if not round_:
            agents = await cpu(bench.cluster.read())
            print(f"agents read seconds: {agents:.2f}", flush=True)


async def measure_claims(bench: Bench, channel: grpc.aio.Channel, claims: int) -> None:
    """Print the figures of AcquireHostOffers. Answers are left encoded: decoding is the engine's."""
    path = "/peloton.private.hostmgr.hostsvc.InternalHostService"
    acquire, release = (
        channel.unary_unary(f"{path}/{name}HostOffers", bytes, bytes) for name in ("Acquire", "Release")
    )
    request = hostsvc_pb2.AcquireHostOffersRequest()
    request.filter.quantity.maxHosts = min(CLAIMED, bench.hosts)
    request.filter.resourceConstraint.minimum.cpuLimit = 1
    milliseconds = []
    for _ in range(claims):
        begun = time.perf_counter()
        encoded = await acquire(request.SerializeToString())
        milliseconds.append(1000 * (time.perf_counter() - begun))
        answer = hostsvc_pb2.AcquireHostOffersResponse.FromString(encoded)
        assert len(answer.hostOffers) == request.filter.quantity.maxHosts
        given = hostsvc_pb2.ReleaseHostOffersRequest()
        for offer in answer.hostOffers:
            given.hostOffers.add(id=offer.id)
        await release(given.SerializeToString())
    milliseconds.sort()
    for percent in (50, 99):
        index = min(len(milliseconds) * percent // 100, len(milliseconds) - 1)
        print(f"acquire {CLAIMED} hosts p{percent} ms: {milliseconds[index]:.1f}", flush=True)


async def measure_statuses(bench: Bench, channel: grpc.aio.Channel, count: int) -> None:
    """Print the figure of statuses. Answers are left encoded: decoding is jobmgr's and resmgr's."""
    take = await bench.master.subscribe()
    reads = statuses(count)
    updates = bench.manager.status_updates
    acknowledging = asyncio.create_task(updates.acknowledge(bench.manager.backend))
    before = bench.master.acknowledged

    async def all_passed() -> None:
        clients = [asyncio.create_task(pull(updates.ring, channel, name, count)) for name in CLIENTS]
        for data in reads:
            await take(data)
        await asyncio.gather(*clients)
        while bench.master.acknowledged - before < count:  # noqa: ASYNC110 - the master gives no notice
            await asyncio.sleep(0.001)

    seconds = await cpu(all_passed())
    acknowledging.cancel()
    print(f"statuses per second: {count / seconds:.0f}", flush=True)


async def pull(ring: EventRing[Any], channel: grpc.aio.Channel, client: str, count: int) -> None:
    """Read and pass all events, as a client of the stream does."""
    wait = channel.unary_unary("/peloton.private.eventstream.EventStreamService/WaitForEvents", bytes, bytes)
    begin, first = ring.first, ring.first
    while True:
        request = eventstream_pb2.WaitForEventsRequest(
            clientName=client, streamID=ring.stream_id, beginOffset=begin, purgeOffset=begin, limit=2000,
            timeoutMs=1000 if begin < first + count else 0,
        )  # fmt: skip
        before = ring.end
        await wait(request.SerializeToString())
        if begin == first + count:
            return
        # What was answered is what was there, up to the limit: the offsets need not be decoded.
        begin = min(begin + 2000, max(before, ring.first)) if before > begin else begin


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=int, default=50_000)
    parser.add_argument("--statuses", type=int, default=50_000)
    parser.add_argument("--claims", type=int, default=200)
    options = parser.parse_args()
    gc.set_threshold(*COLLECTION)
    asyncio.run(measure(options.hosts, options.statuses, options.claims))
    return 0


if __name__ == "__main__":
    sys.exit(main())
