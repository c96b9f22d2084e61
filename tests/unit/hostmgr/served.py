"""The services for hosts on a real gRPC server, over a host manager whose Mesos is stood in for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from hostmgr.core.cluster_manager.events import OffersMade
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offers import Offer
from hostmgr.drivers.agents import FollowedAgents
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.internal import InternalHosts
from hostmgr.services.leases import Leases
from hostmgr.services.watches import Watches
from mesos.v1 import mesos_pb2
from peloton.mesos.stream import Event
from peloton.private.hostmgr.hostsvc import hostsvc_pb2_grpc
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2_grpc
from peloton.rpc.server import RpcServer, Service, service
from tests.unit.hostmgr.test_manager import Fixture

SECONDS = 60


class Served(Fixture):
    """A host manager with its services, and stubs of them."""

    v0: Any
    v1alpha: Any
    channel: Any

    def __init__(self) -> None:
        super().__init__()
        self.located: list[str] = []

        async def locate(runs: Sequence[str]) -> None:
            self.located += runs

        reconciliation = cast(Reconciliation, SimpleNamespace(locate=locate))
        self.cluster = FollowedAgents(
            self.backend, self.manager.hosts, self.manager.core.reconciler, 10.0, self.clock.monotonic
        )
        self.watches = Watches(self.manager.status_updates, self.manager.hosts, gather=0.01)
        self.services: tuple[Service, ...] = (
            service(
                hostsvc_pb2_grpc.add_InternalHostServiceServicer_to_server,
                InternalHosts(
                    self.manager, self.cluster.sight, reconciliation, self.watches, cast(Any, None)
                ),
            ),
            service(
                hostmgr_svc_pb2_grpc.add_HostManagerServiceServicer_to_server,
                Leases(self.manager, self.cluster.sight, reconciliation),
            ),
        )

    def put(self, *offers: Offer) -> None:
        """Offer resources of hosts."""
        self.manager.on_events([OffersMade(offers)])

    def list_agents(self, *agents: Agent, quota: dict[str, int] | None = None) -> None:
        """Give the map of agents."""
        self.manager.hosts.set_agents(agents)
        self.cluster.sight.agents = {agent.id: agent for agent in agents}
        self.cluster.sight.quota = quota or {}
        self.cluster.sight.known = True

    def status(self, run: str, state: mesos_pb2.TaskState.ValueType, uuid: bytes = b"", **more: Any) -> None:
        """Report a status of a run."""
        event = Event(type=Event.UPDATE)
        wire = event.update.status
        wire.MergeFrom(mesos_pb2.TaskStatus(state=state, uuid=uuid, timestamp=1.5, **more))
        wire.task_id.value, wire.agent_id.value = run, "S0"
        self.backend.on_events([event])


@asynccontextmanager
async def serving(made: Served | None = None) -> AsyncIterator[Served]:
    """Serve a host manager that is subscribed."""
    it = made or Served()
    await it.subscribe()
    server = RpcServer(lambda: "nobody leads")
    server.activate(it.services)
    port = await server.start("127.0.0.1", 0)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        it.channel = channel
        it.v0 = hostsvc_pb2_grpc.InternalHostServiceStub(channel)
        it.v1alpha = hostmgr_svc_pb2_grpc.HostManagerServiceStub(channel)
        try:
            yield it
        finally:
            it.watches.close()
            await server.stop(0)


@contextmanager
def refused(code: grpc.StatusCode, text: str = "") -> Iterator[None]:
    """Require that the call ends with a status whose text contains `text`."""
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        yield
    assert failure.value.code() is code, failure.value
    assert text in (failure.value.details() or "")


async def following(call: Any) -> Any:
    """Return the next message of a stream, which must not end."""
    async with asyncio.timeout(SECONDS):
        answer = await call.read()
    assert answer is not grpc.aio.EOF
    return answer


async def the_end(call: Any) -> None:
    """Read a stream to its end."""
    async with asyncio.timeout(SECONDS):
        while await call.read() is not grpc.aio.EOF:
            pass
