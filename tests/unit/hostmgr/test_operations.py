"""Reservations, persistent volumes and operations on a claim, as InternalHostService carries them out."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import grpc
import pytest

from hostmgr.core.state.columns import Agent
from mesos.v1 import mesos_pb2
from peloton.mesos.stream import Event
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from tests.unit.hostmgr.served import Served, refused, serving
from tests.unit.hostmgr.test_manager import JOB

INVALID, FAILED = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION
RUN = f"{JOB}-0-1"
Kind = pb.OfferOperation
Operation = mesos_pb2.Offer.Operation


def scalar(name: str, value: float, **labels: str) -> mesos_pb2.Resource:
    resource = mesos_pb2.Resource(name=name, type=mesos_pb2.Value.SCALAR)
    resource.scalar.value = value
    for key, text in labels.items():
        resource.reservation.labels.labels.add(key=key, value=text)
    return resource


def volume(name: str = "v", size: float = 100, path: str = "data") -> mesos_pb2.Resource:
    resource = scalar("disk", size)
    resource.disk.persistence.id = name
    if path:
        resource.disk.volume.container_path = path
        resource.disk.volume.mode = mesos_pb2.Volume.RW
    return resource


class Operating(Served):
    def __init__(self) -> None:
        super().__init__()
        self.backend._principal = "peloton"

    def offer_host(self, host: int = 0, *further: mesos_pb2.Resource, cpu: float = 4) -> None:
        event = Event(type=Event.OFFERS)
        wire = event.offers.offers.add(hostname=f"host{host}")
        wire.id.value, wire.agent_id.value, wire.framework_id.value = f"O{host}", f"S{host}", "f-0000"
        for each in (scalar("cpus", cpu), scalar("mem", 1024), scalar("disk", 1000), *further):
            resource = wire.resources.add()
            resource.CopyFrom(each)
            resource.allocation_info.role = "peloton"
            resource.role = "peloton" if each.HasField("reservation") else "*"
        self.backend.on_events([event])

    def accepted(self) -> tuple[list[str], Sequence[Operation]]:
        """Return the offers and the operations of the last call."""
        accept = self.driver.calls[-1].accept
        return [each.value for each in accept.offer_ids], accept.operations

    async def operate(self, *operations: Kind, claim: str, host: str = "host0") -> pb.OfferOperationsResponse:
        request = pb.OfferOperationsRequest(hostname=host, operations=operations)
        request.id.value = claim
        answer: pb.OfferOperationsResponse = await self.v0.OfferOperations(request)
        return answer


@pytest.fixture
async def it() -> AsyncIterator[Any]:
    async with serving(Operating()) as made:
        yield made


# Reservations.


async def test_resources_are_reserved_on_one_unclaimed_host_that_has_them(it: Operating) -> None:
    it.offer_host(0, cpu=1)
    it.offer_host(1)
    request = pb.ReserveResourcesRequest(resources=[scalar("cpus", 2, team="a"), scalar("mem", 100)])
    await it.v0.ReserveResources(request)
    offers, (reserve,) = it.accepted()
    assert offers == ["O1"] and reserve.type == Operation.RESERVE
    cpu, memory = reserve.reserve.resources
    assert (cpu.name, cpu.scalar.value, cpu.role, cpu.reservation.principal) == (
        "cpus",
        2,
        "peloton",
        "peloton",
    )
    assert [(each.key, each.value) for each in cpu.reservation.labels.labels] == [("team", "a")]
    assert memory.HasField("reservation") and not memory.reservation.labels.labels
    with refused(FAILED, "none of 1 unclaimed host with offers can do it; of the last one: the host offers"):
        await it.v0.ReserveResources(request)


async def test_hosts_that_are_claimed_are_left_alone(it: Operating) -> None:
    it.offer_host()
    it.claim()
    with refused(FAILED, "none of 0 unclaimed hosts with offers can do it"):
        await it.v0.ReserveResources(pb.ReserveResourcesRequest(resources=[scalar("cpus", 1)]))
    assert not it.driver.calls


async def test_reserved_resources_are_not_reserved_again_and_freed_by_their_labels(it: Operating) -> None:
    it.offer_host(0, scalar("gpus", 2, team="a"))
    wanted = [scalar("gpus", 1, team="a")]
    with refused(FAILED, "the host offers less than 1 GPU that is not reserved"):
        await it.v0.ReserveResources(pb.ReserveResourcesRequest(resources=wanted))
    other = [scalar("gpus", 1, team="b")]
    with refused(FAILED, "the host offers less than 1 GPU that is reserved with the labels: team=b"):
        await it.v0.UnreserveResources(pb.UnreserveResourcesRequest(resources=other))
    await it.v0.UnreserveResources(pb.UnreserveResourcesRequest(resources=wanted))
    _, (unreserve,) = it.accepted()
    (resource,) = unreserve.unreserve.resources
    assert (resource.role, resource.scalar.value) == ("peloton", 1)
    assert [each.value for each in resource.reservation.labels.labels] == ["a"]


@pytest.mark.parametrize("method", ["ReserveResources", "UnreserveResources"])
@pytest.mark.parametrize(
    ("resources", "text"),
    [
        ([], "resources: '[]' is not at least one resource"),
        ([scalar("shoes", 1)], "resources[0].name: 'shoes' is not one of cpus, mem, disk, gpus"),
        ([scalar("cpus", 1), scalar("mem", 0)], "resources[1].scalar.value: 0.0 is not a number of 0.001"),
        ([scalar("cpus", -1)], "resources[0].scalar.value: -1.0 is not a number from 0"),
        ([volume()], "resources[0]: 'disk' is not a resource that is not revocable, shared or a volume"),
    ],
)
async def test_wrong_resources_are_invalid(
    it: Operating, method: str, resources: list[mesos_pb2.Resource], text: str
) -> None:
    it.offer_host()
    with refused(INVALID, text):
        await getattr(it.v0, method)(getattr(pb, f"{method}Request")(resources=resources))


@pytest.mark.parametrize(
    ("method", "request_"),
    [
        ("ReserveResources", pb.ReserveResourcesRequest(resources=[scalar("cpus", 1)])),
        ("UnreserveResources", pb.UnreserveResourcesRequest(resources=[scalar("cpus", 1)])),
        ("CreateVolumes", pb.CreateVolumesRequest(volumes=[volume()])),
    ],
)
async def test_nothing_is_done_without_a_connection(it: Operating, method: str, request_: Any) -> None:
    it.offer_host()
    it.driver.ready = False
    with refused(grpc.StatusCode.UNAVAILABLE, "not subscribed with the Mesos master"):
        await getattr(it.v0, method)(request_)


# Volumes.


async def test_volumes_are_created_once(it: Operating) -> None:
    it.offer_host(0)
    it.offer_host(1)
    request = pb.CreateVolumesRequest(volumes=[volume("v"), volume("w", 900)])
    await it.v0.CreateVolumes(request)
    calls = [call.accept for call in it.driver.calls]
    assert [[each.type for each in call.operations] for call in calls] == [
        [Operation.RESERVE, Operation.CREATE]
    ] * 2
    assert calls[0].operations[1].create.volumes[0].disk.persistence.id == "v"
    with refused(grpc.StatusCode.ALREADY_EXISTS, "there is a volume v already"):
        await it.v0.CreateVolumes(request)
    it.clock.advance(60.0)
    it.list_agents(Agent("S0", "host0", volumes=frozenset({"v"})))
    with refused(grpc.StatusCode.ALREADY_EXISTS, "there is a volume v already"):
        await it.v0.CreateVolumes(request)
    it.list_agents()
    with refused(FAILED, "none of 0 unclaimed hosts"):
        await it.v0.CreateVolumes(request)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (None, "volumes: '[]' is not at least one volume"),
        (scalar("mem", 1), "volumes[0].name: 'mem' is not disk"),
        (scalar("disk", 1), "volumes[0].disk.persistence.id: '' is not the id of a volume"),
        (volume(path=""), "volumes[0].disk.volume.container_path: '' is not the path"),
        (volume(size=0), "volumes[0].scalar.value: 0.0 is not a number of 0.001"),
    ],
)
async def test_wrong_volumes_are_invalid(it: Operating, given: Any, text: str) -> None:
    it.offer_host()
    with refused(INVALID, text):
        await it.v0.CreateVolumes(pb.CreateVolumesRequest(volumes=[given] if given else []))
    assert not it.driver.calls


async def test_a_volume_that_no_host_has_room_for_is_refused(it: Operating) -> None:
    it.offer_host()
    with refused(FAILED, "a volume of 2,000 MB is larger than each piece of disk left"):
        await it.v0.CreateVolumes(pb.CreateVolumesRequest(volumes=[volume(size=2000)]))
    await it.v0.CreateVolumes(pb.CreateVolumesRequest(volumes=[volume()]))


# Operations on a claim.


def reserve(*resources: mesos_pb2.Resource, **labels: str) -> Kind:
    operation = Kind(type=Kind.RESERVE, reserve=Kind.Reserve(resources=resources))
    for key, value in labels.items():
        operation.reservationLabels.labels.add(key=key, value=value)
    return operation


def unreserve(label: str) -> Kind:
    return Kind(type=Kind.UNRESERVE, unreserve=Kind.Unreserve(label=label))


def create(name: str = "v", size: float = 100) -> Kind:
    made = pb.Volume(containerPath="data", resource=scalar("disk", size))
    made.id.value = name
    return Kind(type=Kind.CREATE, create=Kind.Create(volume=made))


def destroy(name: str = "v") -> Kind:
    return Kind(type=Kind.DESTROY, destroy=Kind.Destroy(volumeID=name))


def launch(run: str = RUN, cpu: float = 1, use: str = "") -> Kind:
    operation = Kind(type=Kind.LAUNCH)
    task = operation.launch.tasks.add()
    task.taskId.value = run
    task.config.resource.cpuLimit = cpu
    task.config.command.value = "true"
    if use:
        task.volume.id.value, task.volume.containerPath = use, "data"
    return operation


async def test_each_operation_can_use_what_the_ones_before_it_made(it: Operating) -> None:
    it.offer_host()
    claim = it.claim()
    operations = reserve(scalar("disk", 300), team="a"), create("v"), create("w"), launch(use="v")
    for _ in range(2):
        assert not (await it.operate(*operations, claim=claim)).HasField("error")
    (call,) = it.driver.calls
    kinds = [each.type for each in call.accept.operations]
    assert kinds[0] == Operation.RESERVE and kinds[-1] == Operation.LAUNCH
    assert kinds.count(Operation.CREATE) == 2
    (task,) = call.accept.operations[-1].launch.task_infos
    assert {each.disk.persistence.id for each in task.resources if each.HasField("disk")} == {"v"}
    assert it.manager.runs.agent(RUN) == "S0" and it.manager.hosts.claims.get(claim) is None
    answer = await it.operate(launch(f"{JOB}-1-1"), claim=claim)
    assert "was used for other tasks" in answer.error.invalidOffers.message


async def test_what_is_freed_can_be_used_again(it: Operating) -> None:
    it.offer_host(0, scalar("disk", 500, team="a"))
    operations = unreserve("a"), reserve(scalar("disk", 1400), team="b")
    assert not (await it.operate(*operations, claim=it.claim())).HasField("error")
    _, (freed, taken) = it.accepted()
    assert freed.unreserve.resources[0].scalar.value == 500
    assert sum(each.scalar.value for each in taken.reserve.resources) == 1400


async def test_a_destroyed_volume_leaves_its_disk_to_the_next_operation(it: Operating) -> None:
    made = volume("v", 100)
    made.reservation.labels.labels.add(key="peloton.volume_id", value="v")
    it.offer_host(0, made)
    operations = destroy("v"), reserve(scalar("disk", 1100))
    assert not (await it.operate(*operations, claim=it.claim())).HasField("error")
    _, planned = it.accepted()
    assert [each.type for each in planned] == [Operation.DESTROY, Operation.UNRESERVE, Operation.RESERVE]


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ((reserve(scalar("cpus", 5)),), "the host offers less than 5 cores that is not reserved"),
        ((unreserve("a"),), "the host offers nothing that is reserved with a label a"),
        ((create(size=5000),), "a volume of 5,000 MB is larger than each piece of disk left"),
        ((create(), create()), "volume v is on the host already"),
        ((destroy(),), "volume v is not in the host's offers"),
        (
            (reserve(scalar("cpus", 1)), launch(cpu=9)),
            "needs 9 cores, and the host's offers have 4",
        ),
    ],
)
async def test_operations_that_the_host_has_not_enough_for_end_the_claim(
    it: Operating, operations: tuple[Kind, ...], text: str
) -> None:
    it.offer_host()
    claim = it.claim()
    it.clock.advance(60.0)
    answer = await it.operate(*operations, claim=claim)
    assert text in answer.error.invalidOffers.message, answer
    assert not it.driver.calls and it.manager.hosts.claims.get(claim) is None


@pytest.mark.parametrize(
    ("operations", "text"),
    [
        ((), "operations: '[]' is not at least one operation"),
        ((Kind(),), "operations[0].type: 0 is not one of LAUNCH (1), RESERVE (2)"),
        ((launch(), create()), "operations[0].type: 'LAUNCH' is not another operation; only the last one"),
        ((Kind(type=Kind.LAUNCH),), "operations[0].launch.tasks: '[]' is not at least one task"),
        ((reserve(),), "operations[0].reserve.resources: '[]' is not at least one resource"),
        ((unreserve(""),), "operations[0].unreserve.label: '' is not the value of a label"),
        ((create(""),), "operations[0].create.volume.id: '' is not the id of a volume"),
        ((destroy(""),), "operations[0].destroy.volumeID: '' is not the id of a volume"),
    ],
)
async def test_wrong_operations_are_invalid(it: Operating, operations: tuple[Kind, ...], text: str) -> None:
    it.offer_host()
    answer = await it.operate(*operations, claim=it.claim())
    assert text in answer.error.invalidArgument.message, answer
    assert not it.driver.calls


async def test_operations_need_the_claim_of_their_host_and_a_connection(it: Operating) -> None:
    it.offer_host()
    claim = it.claim()
    answer = await it.operate(create(), claim="another")
    assert "no claim another on host0" in answer.error.invalidOffers.message
    answer = await it.operate(create(), claim=claim, host="host1")
    assert "is of host0 (agent S0), not of host1" in answer.error.invalidOffers.message
    it.driver.ready = False
    answer = await it.operate(create(), claim=claim)
    assert "not subscribed with the Mesos master" in answer.error.failure.message
    it.driver.ready = True
    assert not (await it.operate(create(), claim=claim)).HasField("error")
