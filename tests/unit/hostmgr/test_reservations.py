"""Reservations of hosts over gRPC, and what their plans read from the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.states import ClaimState
from hostmgr.drivers.reservations import ReservationPlanner
from hostmgr.services.reservations import ReservationService
from peloton.clock import NANOSECONDS
from peloton.errors import NotFound
from peloton.model.resources import Resources
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.reservations import reservations_pb2 as pb
from peloton.private.hostmgr.reservations import reservations_pb2_grpc
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.rpc.server import service
from tests.interpreted import interpreted
from tests.unit.hostmgr.hosts import agent, offer
from tests.unit.hostmgr.served import Served, refused, serving
from tests.unit.hostmgr.test_manager import JOB


class Stored:
    """A store of one job whose tasks use 4 cpus, and of when its instances began to run."""

    def __init__(self, longest: int = 0) -> None:
        self.longest = longest
        self.began: dict[int, int] = {}
        """Nanoseconds by instance; 0: not yet."""
        self.jobs = self.tasks = self

    async def get(self, job_id: str, instance: int) -> Any:
        if instance not in self.began:
            raise NotFound("no such task")
        return SimpleNamespace(run=1, config_version=self.longest, start_time=self.began[instance])

    async def config(self, job_id: str, version: int) -> Any:
        return SimpleNamespace(
            sla=SimpleNamespace(max_running_time=self.longest),
            task=lambda instance: SimpleNamespace(resources=Resources.of(4, 100)),
            revocable=lambda instance: False,
        )


class Reserving(Served):
    """A host manager with reservations."""

    def __init__(self, longest: int = 0) -> None:
        super().__init__()
        self.stored = Stored(longest)
        store: Any = self.stored
        self.planner = ReservationPlanner(self.manager, store, self.clock)
        self.clock.advance(1000)
        added = service(
            reservations_pb2_grpc.add_ReservationServiceServicer_to_server,
            ReservationService(self.manager, self.planner),
        )
        self.services = (*self.services, added)

    def run(self, instance: int, host: int) -> None:
        """A run is on a host."""
        self.manager.runs.put(f"{JOB}-{instance}-1", f"S{host}")

    def statuses(self) -> list[ClaimState]:
        table = self.manager.hosts.table
        return [table.claim(row) for row in sorted(table.rows())]


def reservation(instance: int, *hosts: int, cpu: float = 4) -> hostsvc_pb2.ReserveHostsRequest:
    request = hostsvc_pb2.ReserveHostsRequest()
    for host in hosts:
        request.reservation.hosts.add(hostname=f"host{host}").agentId.value = f"S{host}"
    request.reservation.task.taskId.value = f"{JOB}-{instance}-1"
    request.reservation.task.resource.cpuLimit = cpu
    return request


def wishes(*sizes: int, cpu: float = 4) -> pb.ReserveForGangsRequest:
    """Gangs of so many tasks, each of which takes a host."""
    request = pb.ReserveForGangsRequest()
    for number, size in enumerate(sizes):
        wish = request.wishes.add(id=f"gang-{number}")
        wish.gang.members.add(count=size).filter.resourceConstraint.minimum.cpuLimit = cpu
    return request


async def test_the_host_with_the_fewest_tasks_is_reserved_until_its_offers_suffice() -> None:
    it = Reserving()
    async with serving(it):
        it.put(offer(0, 0, cpu=1), offer(1, 1, cpu=2), offer(2, 2))
        it.list_agents(*(agent(host) for host in range(3)))
        for instance, host in ((0, 0), (1, 0), (2, 1)):
            it.run(instance, host)
        answer = await it.v0.ReserveHosts(reservation(7, 0, 1))
        assert answer.host.hostname == "host1" and not answer.HasField("error")
        assert it.statuses() == [ClaimState.READY, ClaimState.RESERVED, ClaimState.READY]
        assert "S1" not in {claim.agent_id for claim in it.manager.acquire(HostFilter(), "").claims}
        again = await it.v0.ReserveHosts(reservation(7, 0, 1))
        assert "has a reserved host already" in again.error.alreadyExist.message
        other = await it.v0.ReserveHosts(reservation(8, 1))
        assert "reserved for others: 1 host," in other.error.hostAlreadyReserved.message
        none = await it.v0.ReserveHosts(reservation(8, 5, 0, cpu=9))
        assert "none of the 2 hosts" in none.error.hostUnavailable.message
        request = hostsvc_pb2.GetCompletedReservationRequest()
        waiting = await it.v0.GetCompletedReservations(request)
        assert waiting.error.notFound.message and not waiting.completedReservations
        it.manager.hosts.offers.remove("O1")
        it.put(offer(3, 1))
        [done] = (await it.v0.GetCompletedReservations(request)).completedReservations
        assert (done.host.hostname, done.task.taskId.value) == ("host1", f"{JOB}-7-1")
        assert it.manager.hosts.claims.get(done.hostOffer.id.value) is not None
        assert (await it.v0.GetCompletedReservations(request)).HasField("error"), "handed out once"


@pytest.mark.parametrize("missing", ["hosts", "task"])
async def test_an_incomplete_reservation_is_refused(missing: str) -> None:
    request = reservation(7, 0)
    request.reservation.ClearField(missing)  # type: ignore[arg-type]
    async with serving(Reserving()) as it:
        assert (await it.v0.ReserveHosts(request)).error.failed.message


async def test_a_reservation_by_name_ends_after_half_an_hour() -> None:
    it = Reserving()
    async with serving(it):
        it.put(offer(0, 0, cpu=1))
        it.list_agents(agent(0))
        assert not (await it.v0.ReserveHosts(reservation(7, 0))).HasField("error")
        it.clock.advance(1799)
        await it.planner.cycle()
        assert it.statuses() == [ClaimState.RESERVED]
        it.clock.advance(1)
        await it.planner.cycle()
        assert it.statuses() == [ClaimState.READY]


async def stub(it: Reserving) -> Any:
    return reservations_pb2_grpc.ReservationServiceStub(it.channel)


async def test_a_gang_gets_its_hosts_whole_and_once() -> None:
    it = Reserving()
    async with serving(it):
        it.put(offer(0, 0), offer(1, 1, cpu=1))
        it.list_agents(agent(0), agent(1))
        it.run(0, 1)
        reserve = (await stub(it)).ReserveForGangs
        [progress] = (await reserve(wishes(2))).progress
        assert (progress.reserved, progress.free, sorted(progress.hostnames)) == (2, 1, ["host0", "host1"])
        assert not progress.HasField("start_seconds") and not progress.claims
        assert it.statuses() == [ClaimState.RESERVED] * 2
        it.manager.runs.remove(f"{JOB}-0-1")
        it.manager.hosts.offers.remove("O1")
        it.put(offer(2, 1))
        it.clock.advance(1)
        [progress] = (await reserve(wishes(2))).progress
        assert sorted(claim.hostname for claim in progress.claims) == ["host0", "host1"]
        assert it.statuses() == [ClaimState.PLACING] * 2
        [again] = (await reserve(wishes(2))).progress
        assert again.claims == progress.claims, "an answer that was lost comes again"


async def test_a_new_leader_gives_no_host_away_before_reservations_are_renewed() -> None:
    it = Reserving()
    it.manager.postpone_claims(3)
    async with serving(it):
        it.put(offer(0, 0), offer(1, 1, cpu=1))
        it.list_agents(agent(0), agent(1))
        it.run(1, 1)
        anything = hostsvc_pb2.AcquireHostOffersRequest()
        with refused(
            grpc.StatusCode.UNAVAILABLE, "hosts are claimed in 3 s: reserved ones are not all known"
        ):
            await it.v0.AcquireHostOffers(anything)
        with refused(grpc.StatusCode.UNAVAILABLE):
            await it.v1alpha.AcquireHosts(hostmgr_svc_pb2.AcquireHostsRequest())
        await (await stub(it)).ReserveForGangs(wishes(2))
        assert it.statuses() == [ClaimState.RESERVED, ClaimState.RESERVED]
        it.clock.advance(3)
        assert not (await it.v0.AcquireHostOffers(anything)).hostOffers
        assert it.statuses() == [ClaimState.RESERVED, ClaimState.RESERVED]


async def test_the_younger_gang_waits_for_the_older_one() -> None:
    it = Reserving()
    async with serving(it):
        it.put(offer(0, 0, cpu=1), offer(1, 1, cpu=1))
        it.list_agents(agent(0), agent(1))
        it.run(0, 0)
        it.run(1, 1)
        service = await stub(it)
        await service.ReserveForGangs(wishes(2))
        it.clock.advance(1)
        first, second = (await service.ReserveForGangs(wishes(2, 1))).progress
        assert (first.reserved, second.reserved, second.ahead) == (2, 0, 1)
        await service.CancelReservations(pb.CancelReservationsRequest(ids=["gang-0", "unknown"]))
        assert it.statuses() == [ClaimState.READY] * 2
        it.clock.advance(1)
        request = wishes(2, 1)
        del request.wishes[0]
        [second] = (await service.ReserveForGangs(request)).progress
        assert (second.reserved, second.ahead) == (1, 0)


async def test_a_reservation_ends_without_renewals() -> None:
    it = Reserving()
    async with serving(it):
        it.put(offer(0, 0, cpu=1))
        it.list_agents(agent(0))
        await (await stub(it)).ReserveForGangs(wishes(1))
        it.clock.advance(14)
        await it.planner.cycle()
        assert it.statuses() == [ClaimState.RESERVED]
        it.clock.advance(1)
        await it.planner.cycle()
        assert it.statuses() == [ClaimState.READY]


async def test_incomplete_wishes_are_refused() -> None:
    it = Reserving()
    async with serving(it):
        service = await stub(it)
        nameless, empty = wishes(1), wishes(1)
        nameless.wishes[0].id = ""
        del empty.wishes[0].gang.members[:]
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "wishes[0].id"):
            await service.ReserveForGangs(nameless)
        with refused(grpc.StatusCode.INVALID_ARGUMENT, "wishes[0].gang.members"):
            await service.ReserveForGangs(empty)


@interpreted
async def test_tasks_that_end_in_time_use_reserved_hosts() -> None:
    """Host 1 is busy for 500 s more, so that host 0, which is free, is open to shorter tasks."""
    it = Reserving(longest=600)
    async with serving(it):
        it.put(offer(0, 0), offer(1, 1, cpu=0.5))
        it.list_agents(agent(0), agent(1))
        it.run(0, 1)
        it.stored.began = {0: it.clock.wall() - 100 * NANOSECONDS, 1: 0}
        service = await stub(it)
        request = pb.AcquireForBackfillRequest()
        request.filter.resourceConstraint.minimum.cpuLimit = 1
        request.filter.quantity.maxHosts = 1
        request.run.value = f"{JOB}-1-1"
        assert not (await service.AcquireForBackfill(request)).open
        await service.ReserveForGangs(wishes(2))
        await it.planner.cycle()
        [progress] = (await service.ReserveForGangs(wishes(2))).progress
        assert (progress.start_seconds, progress.next_seconds) == (500, 500)
        late = await service.AcquireForBackfill(request)
        assert late.open and not late.claims, "600 s is too long"
        it.stored.longest = 471
        assert not (await service.AcquireForBackfill(request)).claims, "the margin is 30 s"
        it.stored.longest = 470
        [claim] = (await service.AcquireForBackfill(request)).claims
        assert claim.hostname == "host0"
        [progress] = (await service.ReserveForGangs(wishes(2))).progress
        assert progress.start_seconds == 500, "the claim does not delay the gang"
        it.manager.hosts.claims.release(claim.id.value)
        it.stored.longest = 0
        assert not (await service.AcquireForBackfill(request)).claims, "a task without an end"
