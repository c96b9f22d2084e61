"""What a resource manager may rely on at hostmgr: at its services over gRPC, and at the one of unit tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, Protocol, cast

import pytest

from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.events import EventStream
from hostmgr.services.internal import InternalHosts
from mesos.v1 import mesos_pb2
from peloton.membership.interface import Role
from peloton.model.ids import Run
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.private.eventstream.eventstream_pb2_grpc import add_EventStreamServiceServicer_to_server
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import add_InternalHostServiceServicer_to_server
from peloton.rpc.clusters import ALONE
from peloton.rpc.server import service
from resmgr.clients import HostmgrsClient
from resmgr.ports import Hostmgrs, StreamLost
from tests.contract.ports.leading import leading
from tests.unit.hostmgr import served
from tests.unit.hostmgr.hosts import agent
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.resmgr import shell

WAIT = 0.05
NO_POOLS = SimpleNamespace(hosts=SimpleNamespace(in_use=False, capacities=dict))


class Neighbour(Protocol):
    """The hostmgr of a cluster with one agent of 4 CPUs, behind the port."""

    port: Hostmgrs

    def run(self, state: mesos_pb2.TaskState.ValueType) -> None:
        """Let Mesos report a state of the run."""


class StandIn:
    """The hostmgr of resmgr's own tests."""

    def __init__(self) -> None:
        self._hostmgr = shell.Hostmgr()
        self._hostmgr.capacity, self._hostmgr.hosts = Resources.of(4, 1024, 1000, 0), ["host0"]
        self.port: Hostmgrs = HostmgrsClient(self._hostmgr)

    def run(self, state: mesos_pb2.TaskState.ValueType) -> None:
        self._hostmgr.status(f"{JOB}-0-1", state)


class Served:
    """hostmgr's services over gRPC."""

    def __init__(self, made: served.Served, port: Hostmgrs) -> None:
        self._made = made
        self.port = port

    def run(self, state: mesos_pb2.TaskState.ValueType) -> None:
        self._made.status(f"{JOB}-0-1", state, b"1")


@asynccontextmanager
async def serving() -> AsyncIterator[Served]:
    made = served.Served()
    await made.subscribe()
    made.list_agents(agent(0))
    reconciliation = cast(Reconciliation, None)
    internal = InternalHosts(
        made.manager, made.cluster.sight, reconciliation, made.watches, cast(Any, None), cast(Any, NO_POOLS)
    )
    services = [
        service(add_InternalHostServiceServicer_to_server, internal),
        service(add_EventStreamServiceServicer_to_server, EventStream(made.manager.status_updates)),
    ]
    async with leading(Role.HOSTMGR, Role.RESMGR, services) as client:
        try:
            yield Served(made, HostmgrsClient(client))
        finally:
            made.watches.close()


@pytest.fixture(params=["stand-in", "services"])
async def hostmgr(request: pytest.FixtureRequest) -> AsyncIterator[Neighbour]:
    if request.param == "stand-in":
        yield StandIn()
        return
    async with serving() as made:
        yield made


async def test_the_capacity_of_one_cluster(hostmgr: Neighbour) -> None:
    assert tuple(hostmgr.port.clusters()) == ALONE
    amount = await hostmgr.port.capacity(10.0)
    assert (amount.normal, amount.slack.cpu, amount.pooled) == (Resources.of(4, 1024, 1000, 0), 0, False)
    assert (await hostmgr.port.of("").capacity(10.0, retry=False)).normal == amount.normal


async def test_states_come_from_the_stream_that_is_open(hostmgr: Neighbour) -> None:
    stream, begin = await hostmgr.port.of("").open_stream(10.0)
    events = hostmgr.port.of("")
    assert await events.states(stream, begin, 10, WAIT) is None
    hostmgr.run(mesos_pb2.TASK_RUNNING)
    batch = await events.states(stream, begin, 10, 10.0)
    assert batch is not None
    assert (batch.size, batch.end, [*batch.states]) == (
        1,
        begin + 1,
        [(Run(JOB, 0, 1), TaskState.RUNNING)],
    )
    assert await events.states(stream, batch.end, 10, WAIT) is None
    with pytest.raises(StreamLost):
        await events.states("another", begin, 10, WAIT)
