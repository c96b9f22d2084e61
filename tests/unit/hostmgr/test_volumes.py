"""Persistent volumes in hostmgr: taken from offers, created with a launch, destroyed."""

from __future__ import annotations

from typing import Any

import pytest

from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offers import DISK, Entry, InsufficientOffers, Need, Offer, free, take
from mesos.v1 import mesos_pb2
from peloton.errors import InvalidArgument, NotFound, Refused, Unavailable
from peloton.mesos.stream import Event
from peloton.model.resources import Resources
from peloton.model.volume import VolumeMount
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.launch import launch_from, volume_to
from tests.unit.hostmgr.test_manager import JOB, Fixture

RESERVED_DISK, VOLUME = 31, 32
RUN = f"{JOB}-0-1"
Operation = mesos_pb2.Offer.Operation


def mount(create: bool, size: int = 100_000, name: str = "v") -> VolumeMount:
    return VolumeMount(name, size, "data", create)


def need(volume: VolumeMount, disk: float = 0) -> Need:
    return Need("a", Resources.of(disk=disk), volume=volume)


def entry(amount: float, template: int = 11, reserved: bool = False, volume: str = "") -> Entry:
    return Entry(DISK, template, reserved, amount=round(amount * 1000), volume=volume)


def host(*entries: Entry) -> Offer:
    return Offer("O1", "S0", "host0", entries)


# Taken from offers.


def test_a_volume_is_no_free_disk() -> None:
    assert free([host(entry(10), entry(500, VOLUME, True, "v"))]).normal == Resources.of(disk=10)


def test_an_existing_volume_is_taken_whole_by_its_task_alone() -> None:
    (taken,) = take([host(entry(10), entry(500, VOLUME, True, "v"))], [need(mount(create=True), disk=8)])
    assert [(each.template, each.amount) for each in taken] == [(VOLUME, 500_000), (11, 8000)]
    assert taken[0].volume == mount(create=False)
    with pytest.raises(InsufficientOffers, match="needs 12 MB disk, and the host's offers have 10 MB"):
        take([host(entry(10), entry(500, VOLUME, True, "v"))], [Need("a", Resources.of(disk=12))])


def test_a_volume_that_must_be_there_is_not_created() -> None:
    with pytest.raises(InsufficientOffers, match="a: volume v is not in the host's offers"):
        take([host(entry(1000))], [need(mount(create=False))])


def test_a_new_volume_takes_disk_of_one_kind_unreserved_first() -> None:
    offers = [host(entry(150, RESERVED_DISK, True), entry(150))]
    one, two = take(offers, [need(mount(create=True)), need(mount(create=True, name="w"))])
    assert [(each.template, each.reserved) for each in (*one, *two)] == [(11, False), (RESERVED_DISK, True)]
    with pytest.raises(InsufficientOffers, match="a volume of 200 MB is larger than each piece of disk left"):
        take(offers, [need(mount(create=True, size=200_000))])


def test_two_tasks_do_not_take_one_volume() -> None:
    with pytest.raises(InsufficientOffers, match="volume v is not"):
        take([host(entry(500, VOLUME, True, "v"))], [need(mount(False)), need(mount(False))])


# Calls.


class Volumes(Fixture):
    """A host manager with an offer that holds disk, and perhaps a volume."""

    def __init__(self) -> None:
        super().__init__()
        self.backend._principal = "peloton"

    def offer_disk(self, volume: str = "", static: bool = False, label: str = "") -> None:
        event = Event(type=Event.OFFERS)
        wire = event.offers.offers.add(hostname="host0")
        wire.id.value, wire.agent_id.value, wire.framework_id.value = "O1", "S0", "f-0000"
        for name, value in (("cpus", 4.0), ("mem", 1024.0), ("disk", 1000.0)):
            resource = wire.resources.add(name=name, type=mesos_pb2.Value.SCALAR, role="*")
            resource.scalar.value = value
            resource.allocation_info.role = "peloton"
        if static:
            wire.resources[2].role = "peloton"
        if volume:
            resource = wire.resources.add(name="disk", type=mesos_pb2.Value.SCALAR, role="peloton")
            resource.scalar.value = 100
            resource.allocation_info.role = "peloton"
            resource.disk.persistence.id = volume
            if label:
                resource.reservation.labels.labels.add(key="peloton.volume_id", value=label)
        self.backend.on_events([event])

    def launch_with(self, volume: VolumeMount) -> Any:
        request = hostsvc_pb2.LaunchTasksRequest()
        task = request.tasks.add()
        task.taskId.value = RUN
        task.config.resource.cpuLimit = 1
        task.config.command.value = "true"
        task.volume.CopyFrom(volume_to(volume))
        self.manager.launch(self.claim(), "host0", "", [RUN], map(launch_from, request.tasks))
        return self.driver.calls[-1].accept.operations


@pytest.fixture
async def it() -> Volumes:
    made = Volumes()
    await made.subscribe()
    return made


async def test_a_new_volume_is_reserved_created_and_mounted_in_one_call(it: Volumes) -> None:
    it.offer_disk()
    reserve, create, launch = it.launch_with(mount(create=True))
    (disk,) = reserve.reserve.resources
    assert (disk.role, disk.scalar.value, disk.reservation.principal) == ("peloton", 100, "peloton")
    assert disk.allocation_info.role == "peloton" and not disk.HasField("disk")
    (label,) = disk.reservation.labels.labels
    assert (label.key, label.value) == ("peloton.volume_id", "v")
    (volume,) = create.create.volumes
    assert (volume.disk.persistence.id, volume.disk.persistence.principal) == ("v", "peloton")
    assert (volume.disk.volume.container_path, volume.disk.volume.mode) == ("data", mesos_pb2.Volume.RW)
    assert volume.reservation == disk.reservation
    assert launch.launch.task_infos[0].resources[0] == volume


async def test_disk_that_is_reserved_for_the_role_is_not_reserved_again(it: Volumes) -> None:
    it.offer_disk(static=True)
    create, launch = it.launch_with(mount(create=True))
    (volume,) = create.create.volumes
    assert volume.role == "peloton" and not volume.HasField("reservation")
    assert launch.launch.task_infos[0].resources[0] == volume


async def test_an_existing_volume_is_launched_with_at_the_path_of_the_task(it: Volumes) -> None:
    it.offer_disk("v", label="v")
    (launch,) = it.launch_with(VolumeMount("v", 100_000, "elsewhere", create=False))
    volume = launch.launch.task_infos[0].resources[0]
    assert (volume.disk.persistence.id, volume.disk.volume.container_path) == ("v", "elsewhere")


@pytest.mark.parametrize("label", ["v", "another", ""])
async def test_a_volume_is_destroyed_with_the_reservation_made_for_it(it: Volumes, label: str) -> None:
    it.offer_disk("v", label=label)
    it.manager.destroy_volume("v")
    destroy, *rest = it.driver.calls[-1].accept.operations
    assert destroy.destroy.volumes[0].disk.persistence.id == "v"
    assert [each.type for each in rest] == ([Operation.UNRESERVE] if label == "v" else [])
    if rest:
        (disk,) = rest[0].unreserve.resources
        assert disk.reservation == destroy.destroy.volumes[0].reservation
        assert not disk.HasField("disk")
    assert list(it.manager.hosts.offers) == [], "the offer is used up"


async def test_only_volumes_that_are_offered_and_free_are_destroyed(it: Volumes) -> None:
    with pytest.raises(NotFound, match="no agent has the volume v"):
        it.manager.destroy_volume("v")
    it.manager.hosts.set_agents([Agent("S0", "host0", volumes=frozenset({"v"}))])
    with pytest.raises(Refused, match="volume v is in use, or not offered"):
        it.manager.destroy_volume("v")
    it.offer_disk("v")
    claim = it.claim()
    with pytest.raises(Unavailable, match="host0 is claimed"):
        it.manager.destroy_volume("v")
    it.manager.hosts.claims.release(claim)
    it.backend.on_disconnected("gone")
    with pytest.raises(Unavailable, match="not subscribed"):
        it.manager.destroy_volume("v")
    assert it.driver.calls == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda volume: volume.ClearField("id"), "volume.id"),
        (lambda volume: volume.ClearField("containerPath"), "volume.containerPath"),
        (lambda volume: volume.resource.ClearField("scalar"), "volume.resource.scalar"),
    ],
)
def test_incomplete_volumes_are_refused(change: Any, field: str) -> None:
    task = hostsvc_pb2.LaunchableTask(volume=volume_to(mount(create=True)))
    task.taskId.value = RUN
    change(task.volume)
    with pytest.raises(InvalidArgument, match=field):
        launch_from(task)
