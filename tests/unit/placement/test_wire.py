"""The ports over gRPC, against servicers in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import RemoteFailure
from peloton.membership.interface import Address, Role
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.model.resources import Resources
from peloton.model.shortage import Lack, Shortage
from peloton.model.states import PlacementStrategy, TaskType
from peloton.private.hostmgr.feasibility import feasibility_pb2, feasibility_pb2_grpc
from peloton.private.hostmgr.hostsvc import hostsvc_pb2, hostsvc_pb2_grpc
from peloton.private.hostmgr.reservations import reservations_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.placing import placing_pb2, placing_pb2_grpc
from peloton.private.resmgrsvc import resmgrsvc_pb2, resmgrsvc_pb2_grpc
from peloton.rpc.client import Channels, LeaderClient
from peloton.wire.constraint import constraint_from, constraint_to
from peloton.wire.feasibility import shortage_to
from placement.clients import HostmgrClient, ResmgrClient
from placement.core.events import ReservationAnswer
from placement.core.instructions import Claim, ReservationReport
from placement.core.model import Host, HostClass, HostPlacement, Needs, Shape, Unplaced
from placement.core.reservation_reasons import Reserved
from placement.wire import compare_request, gangs_from, progress_from, wish_to
from tests.unit.placement.samples import JOB, gang, needs, task

CONSTRAINT = task_pb2.Constraint(
    type=task_pb2.Constraint.LABEL_CONSTRAINT,
    labelConstraint=task_pb2.LabelConstraint(
        kind=task_pb2.LabelConstraint.HOST,
        condition=task_pb2.LabelConstraint.CONDITION_EQUAL,
        label=peloton_pb2.Label(key="rack", value="r1"),
        requirement=1,
    ),
)


class Resmgr(resmgrsvc_pb2_grpc.ResourceManagerServiceServicer):
    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.dequeued = resmgrsvc_pb2.DequeueGangsResponse()
        self.failure = resmgrsvc_pb2.SetPlacementsFailure()

    async def DequeueGangs(self, request: Any, context: Any) -> resmgrsvc_pb2.DequeueGangsResponse:
        self.requests.append(request)
        return self.dequeued

    async def SetPlacements(self, request: Any, context: Any) -> resmgrsvc_pb2.SetPlacementsResponse:
        self.requests.append(request)
        answer = resmgrsvc_pb2.SetPlacementsResponse()
        if self.failure.failed:
            answer.error.failure.CopyFrom(self.failure)
        return answer

    async def GetLabelsOnHosts(self, request: Any, context: Any) -> placing_pb2.GetLabelsOnHostsResponse:
        self.requests.append(request)
        answer = placing_pb2.GetLabelsOnHostsResponse()
        label = placing_pb2.LabelCount(key="app", value="db", count=2)
        answer.hosts.add(hostname="host-1", labels=[label])
        return answer

    async def ReportReservations(self, request: Any, context: Any) -> placing_pb2.ReportReservationsResponse:
        self.requests.append(request)
        return placing_pb2.ReportReservationsResponse(gone=[1])

    async def GiveBack(self, request: Any, context: Any) -> placing_pb2.GiveBackResponse:
        self.requests.append(request)
        return placing_pb2.GiveBackResponse()


class Hostmgr(hostsvc_pb2_grpc.InternalHostServiceServicer):
    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.acquired = hostsvc_pb2.AcquireHostOffersResponse()
        self.compared = feasibility_pb2.CheckGangsResponse()
        self.found = feasibility_pb2.FindHostsResponse()

    async def AcquireHostOffers(self, request: Any, context: Any) -> hostsvc_pb2.AcquireHostOffersResponse:
        self.requests.append(request)
        return self.acquired

    async def ReleaseHostOffers(self, request: Any, context: Any) -> hostsvc_pb2.ReleaseHostOffersResponse:
        self.requests.append(request)
        return hostsvc_pb2.ReleaseHostOffersResponse()

    async def GetHostGains(self, request: Any, context: Any) -> feasibility_pb2.GetHostGainsResponse:
        raise NotImplementedError

    async def FindHosts(self, request: Any, context: Any) -> feasibility_pb2.FindHostsResponse:
        self.requests.append(request)
        return self.found

    async def CheckGangs(self, request: Any, context: Any) -> feasibility_pb2.CheckGangsResponse:
        self.requests.append(request)
        return self.compared


class OneLeader:
    """A membership that knows one address."""

    def __init__(self, port: int) -> None:
        self._address = Address("here", "127.0.0.1", 0, port)

    def leader(self, role: Role, cluster: str) -> Address:
        return self._address


@asynccontextmanager
async def clients(
    role: Role, servicer: object, *services: Callable[[Any, Any], None]
) -> AsyncIterator[LeaderClient]:
    """Serve services, given by how each is added to a server."""
    server = grpc.aio.server()
    for add in services:
        add(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channels = Channels()
    try:
        leader: Any = OneLeader(port)
        yield LeaderClient(leader, channels, role, ())
    finally:
        await channels.close()
        await server.stop(None)


@pytest.fixture
async def resmgr() -> AsyncIterator[tuple[Resmgr, ResmgrClient]]:
    servicer = Resmgr()
    async with clients(
        Role.RESMGR,
        servicer,
        resmgrsvc_pb2_grpc.add_ResourceManagerServiceServicer_to_server,
        placing_pb2_grpc.add_PlacingServiceServicer_to_server,
    ) as client:
        yield servicer, ResmgrClient(client, TaskType.BATCH)


@pytest.fixture
async def hostmgr() -> AsyncIterator[tuple[Hostmgr, HostmgrClient]]:
    servicer = Hostmgr()
    async with clients(
        Role.HOSTMGR,
        servicer,
        hostsvc_pb2_grpc.add_InternalHostServiceServicer_to_server,
        feasibility_pb2_grpc.add_FeasibilityServiceServicer_to_server,
    ) as client:
        yield servicer, HostmgrClient(client)


def wire_task(instance: int, **fields: Any) -> resmgr_pb2.Task:
    return resmgr_pb2.Task(
        id=peloton_pb2.TaskID(value=f"{JOB}-{instance}"),
        jobId=peloton_pb2.JobID(value=JOB),
        taskId=mesos_pb2.TaskID(value=f"{JOB}-{instance}-1"),
        resource=task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=64),
        **fields,
    )


async def test_dequeued_gangs(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    spread = job_pb2.PLACEMENT_STRATEGY_SPREAD_JOB
    servicer.dequeued.gangs.add(tasks=[wire_task(0, numPorts=2, constraint=CONSTRAINT, revocable=True)])
    servicer.dequeued.gangs.add(
        tasks=[wire_task(1, placementStrategy=spread), wire_task(2, placementTimeoutSeconds=60)]
    )
    servicer.dequeued.gangs.add(tasks=[wire_task(3, readyForHostReservation=True, desiredHost="h7")])
    first, second, third = await queue.take(100, 1.5)

    (request,) = servicer.requests
    assert (request.limit, request.timeout, request.type) == (100, 1500, resmgr_pb2.BATCH)
    asked = first.tasks[0].needs
    assert asked.resources == Resources.of(0.5, 64)
    assert (asked.ports, asked.revocable) == (2, True)
    assert task_pb2.Constraint.FromString(asked.host_class.constraint) == CONSTRAINT
    assert [one.run_id for one in second.tasks] == [f"{JOB}-1-1", f"{JOB}-2-1"]
    assert second.strategy is PlacementStrategy.SPREAD_JOB
    assert second.tasks[0].needs is second.tasks[1].needs, "shared"
    assert third.wants_reservation
    assert (first.desired_host, third.desired_host) == ("", "h7")
    assert (first.job_id, first.wants_reservation) == (JOB, False)


async def test_an_empty_queue_and_a_failing_one(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    servicer.dequeued.error.timedout.message = "nothing came"
    assert list(await queue.take(1, 0)) == []
    servicer.dequeued.error.failure.message = "in disorder"
    with pytest.raises(RemoteFailure, match="in disorder"):
        await queue.take(1, 0)


async def test_placements(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    tasks = (task(needs(ports=1)), task(needs(ports=1)))
    placement = HostPlacement(Host("h1", "a1", "o1", HostClass()), tasks, (31000, 31001))
    servicer.failure.failed.add(
        message="the run is not known",
        placement=resmgr_pb2.Placement(
            hostOfferID=peloton_pb2.HostOfferID(value="o1"),
            taskIDs=[resmgr_pb2.Placement.Task(mesosTaskID=mesos_pb2.TaskID(value=tasks[0].run_id))],
        ),
    )
    (rejection,) = await queue.report([placement])
    assert (rejection.offer_id, rejection.run_id) == ("o1", tasks[0].run_id)
    assert rejection.message == "the run is not known"

    (request,) = servicer.requests
    (placement,) = request.placements
    assert (placement.hostname, placement.agentId.value, placement.hostOfferID.value) == ("h1", "a1", "o1")
    assert list(placement.ports) == [31000, 31001]
    assert [each.mesosTaskID.value for each in placement.taskIDs] == [one.run_id for one in tasks]
    assert [each.pelotonTaskID.value for each in placement.taskIDs] == [one.id for one in tasks]
    assert placement.type == resmgr_pb2.BATCH


async def test_returned_gangs(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    busy, never = gang(), gang(needs(), needs())
    lacking = Shortage(Lack.RESOURCE, "cpu", 5000, 4000, 3)
    counts = {"match": 1, "insufficient_resources": 3}
    await queue.give_back([Unplaced(busy, "no host fits"), Unplaced(never, "no host", counts, lacking)])
    (request,) = servicer.requests
    first, second = request.gangs
    assert [run.value for run in first.runs] == [busy.tasks[0].run_id]
    assert (first.reason, first.HasField("shortage"), dict(first.hosts)) == ("no host fits", False, {})
    assert [run.value for run in second.runs] == [task.run_id for task in never.tasks]
    assert dict(second.hosts) == {"insufficient_resources": 3}
    assert second.shortage.lack == feasibility_pb2.Shortage.LACK_RESOURCE
    assert (second.shortage.kind, second.shortage.needed, second.shortage.largest) == ("cpu", 5, 4)
    assert second.shortage.text == lacking.explained


async def test_lease_renewal(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    await queue.show_life()
    assert servicer.requests == [resmgrsvc_pb2.SetPlacementsRequest()]


def test_labels_that_the_own_constraint_counts_are_among_the_needs() -> None:
    """Tasks whose other labels differ have equal needs."""
    away = constraint_to(LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("app", "web"), 1))
    wire = resmgrsvc_pb2.Gang()
    for app, version in (("web", "1"), ("web", "2"), ("db", "1")):
        task = wire.tasks.add(constraint=away)
        task.labels.labels.add(key="app", value=app)
        task.labels.labels.add(key="version", value=version)
    [decoded] = gangs_from([wire])
    first, second, third = (task.needs for task in decoded.tasks)
    assert first is second and first.own_labels == (("app", "web"),)
    assert third.own_labels == () and third.host_class is first.host_class
    request = compare_request([Shape(decoded.shape, False)])
    assert sorted(
        (each.count, [label.value for label in each.labels]) for each in request.gangs[0].members
    ) == [
        (1, []),
        (2, ["web"]),
    ]


def test_the_owner_of_a_gang_is_known() -> None:
    wires = [resmgrsvc_pb2.Gang(owner="jobmgr/a"), resmgrsvc_pb2.Gang()]
    for wire in wires:
        wire.tasks.add()
    assert [gang.owner for gang in gangs_from(wires)] == ["jobmgr/a", ""]


async def test_gangs_are_compared_with_empty_hosts(hostmgr: tuple[Hostmgr, HostmgrClient]) -> None:
    servicer, claims = hostmgr
    lacking = Shortage(Lack.ROOM, "", 12_000, 6_000, 3)
    servicer.compared.verdicts.add()
    servicer.compared.verdicts.add(shortage=shortage_to(lacking))
    some = gang(needs(cpu=2), needs(cpu=2), needs(ports=1))
    constrained = Needs(Resources.of(1), 0, True, HostClass(CONSTRAINT.SerializeToString()))
    shapes = [Shape(some.shape, False), Shape(((constrained, 12),), True)]
    assert await claims.compare(shapes) == [None, lacking]
    (request,) = servicer.requests
    first, second = request.gangs
    assert [(each.count, each.filter.resourceConstraint.minimum.cpuLimit) for each in first.members] == [
        (2, 2),
        (1, 1),
    ]
    assert (first.spread, second.spread) == (False, True)
    (member,) = second.members
    assert (member.count, member.filter.resourceConstraint.revocable) == (12, True)
    assert member.filter.schedulingConstraint == CONSTRAINT


def scalar(name: str, amount: float, **more: Any) -> mesos_pb2.Resource:
    return mesos_pb2.Resource(
        name=name, type=mesos_pb2.Value.SCALAR, scalar=mesos_pb2.Value.Scalar(value=amount), **more
    )


async def test_claiming_and_releasing_hosts(hostmgr: tuple[Hostmgr, HostmgrClient]) -> None:
    servicer, claims = hostmgr
    volume = mesos_pb2.Resource.DiskInfo(persistence=mesos_pb2.Resource.DiskInfo.Persistence(id="v"))
    servicer.acquired.hostOffers.add(
        hostname="h1",
        agentId=mesos_pb2.AgentID(value="a1"),
        id=peloton_pb2.HostOfferID(value="o1"),
        resources=[
            scalar("cpus", 1.5),
            scalar("cpus", 0.5, role="peloton"),
            scalar("cpus", 3, revocable=mesos_pb2.Resource.RevocableInfo()),
            scalar("mem", 512),
            scalar("disk", 100),
            scalar("disk", 900, disk=volume),
            scalar("frobs", 7),
            mesos_pb2.Resource(
                name="ports",
                type=mesos_pb2.Value.RANGES,
                ranges=mesos_pb2.Value.Ranges(
                    range=[
                        mesos_pb2.Value.Range(begin=32000, end=32001),
                        mesos_pb2.Value.Range(begin=31000, end=31000),
                    ]
                ),
            ),
        ],
    )
    servicer.acquired.filterResultCounts.update({"match": 1, "no_offer": 2})
    asked = needs(cpu=0.5, memory=64, ports=1)
    constrained = type(asked)(asked.resources, 1, True, HostClass(CONSTRAINT.SerializeToString()))
    answer = await claims.claim(Claim(constrained, 7))
    assert answer.counts == {"match": 1, "no_offer": 2}
    (host,) = answer.hosts
    ports = ((31000, 31000), (32000, 32001))
    assert host == Host("h1", "a1", "o1", constrained.host_class, Resources.of(2, 512, 100), 3000, ports)
    wanted = servicer.requests[0].filter
    assert (wanted.resourceConstraint.minimum.cpuLimit, wanted.resourceConstraint.minimum.memLimitMb) == (
        0.5,
        64,
    )
    assert (wanted.resourceConstraint.numPorts, wanted.resourceConstraint.revocable) == (1, True)
    assert wanted.schedulingConstraint == CONSTRAINT
    assert wanted.quantity.maxHosts == 7

    await claims.release([host])
    (released,) = servicer.requests[1].hostOffers
    assert (released.hostname, released.agentId.value, released.id.value) == ("h1", "a1", "o1")


@pytest.mark.parametrize("constraint", [None, CONSTRAINT])
async def test_claiming_hosts_by_name(
    hostmgr: tuple[Hostmgr, HostmgrClient], constraint: task_pb2.Constraint | None
) -> None:
    servicer, claims = hostmgr
    given = HostClass(CONSTRAINT.SerializeToString()) if constraint else HostClass()
    named = {"h1": ["t1", "t2"], "h2": ["t3"]}
    await claims.claim(Claim(Needs(Resources.of(1, 64), host_class=given), 2, named))
    wanted = constraint_from(servicer.requests[0].filter.schedulingConstraint)
    text = "(host hostname=h1 = 1 or host hostname=h2 = 1)"
    assert str(wanted) == (f"({text} and host rack=r1 = 1)" if constraint else text)
    hints = servicer.requests[0].filter.hint.hostHint
    assert [(hint.hostname, hint.taskID.value) for hint in hints] == [
        ("h1", "t1"),
        ("h1", "t2"),
        ("h2", "t3"),
    ]


async def test_a_refused_claim(hostmgr: tuple[Hostmgr, HostmgrClient]) -> None:
    servicer, claims = hostmgr
    servicer.acquired.error.failure.message = "not now"
    with pytest.raises(RemoteFailure, match="not now"):
        await claims.claim(Claim(needs(), 1))


async def test_the_tasks_on_hosts(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    assert await queue.labels_on(["host-1", "host-2"]) == {"host-1": {("app", "db"): 2}}
    assert servicer.requests[0].hostnames == ["host-1", "host-2"]


async def test_reservations_are_reported(resmgr: tuple[Resmgr, ResmgrClient]) -> None:
    servicer, queue = resmgr
    first, second = gang(), gang()
    reports = [ReservationReport(first, "soon", 12.5), ReservationReport(second, "who knows", None)]
    assert await queue.report_reservations(reports) == [second]
    [soon, later] = servicer.requests[0].gangs
    assert (soon.reason, soon.start_seconds, later.reason) == ("soon", 12.5, "who knows")
    assert [run.value for run in soon.runs] == [first.tasks[0].run_id] and not later.HasField("start_seconds")


def test_the_progress_of_a_reservation() -> None:
    shape = Shape(gang(needs(2, gpu=1), needs(1)).shape, spread=True)
    wish = wish_to("run-1", shape)
    assert (wish.id, wish.gang.spread, len(wish.gang.members)) == ("run-1", True, 2)
    assert progress_from(reservations_pb2.Progress(ahead=2), shape) == ReservationAnswer(
        Reserved(ahead=2), []
    )
    wire = reservations_pb2.Progress(reserved=2, free=1, hostnames=["a"], start_seconds=3, members=[1, 0])
    wire.claims.add(hostname="a")
    wire.claims.add(hostname="b")
    found = progress_from(wire, shape)
    assert found.reserved == Reserved(2, 1, ("a",), 3.0)
    assert [(host.hostname, host.host_class) for host in found.hosts] == [
        ("a", shape.members[1][0].host_class),
        ("b", shape.members[0][0].host_class),
    ]
