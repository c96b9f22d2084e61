from __future__ import annotations

import pytest

from deployer.core.placing import Need
from deployer.tasks import OfferRest, TaskSpec, room_of
from mesos.v1 import mesos_pb2
from peloton.errors import Refused

SPEC = TaskSpec("t.jobmgr.1", "peloton jobmgr", "exec peloton-jobmgr", "peloton", {"A": "b"})
NEED = Need(1.5, 300, 2)


def offer() -> mesos_pb2.Offer:
    made = mesos_pb2.Offer(hostname="host")
    made.id.value, made.agent_id.value = "offer", "agent"
    for name, free, reserved in (("cpus", 4.0, 1.0), ("mem", 4096.0, 256.0)):
        for amount, role in ((free, ""), (reserved, "peloton-deploy")):
            each = made.resources.add(name=name, type=mesos_pb2.Value.SCALAR)
            each.scalar.value = amount
            each.allocation_info.role = "peloton-deploy"
            if role:
                each.reservations.add(role=role, type=mesos_pb2.Resource.ReservationInfo.STATIC)
    slack = made.resources.add(name="cpus", type=mesos_pb2.Value.SCALAR)
    slack.scalar.value = 100
    slack.revocable.SetInParent()
    ports = made.resources.add(name="ports", type=mesos_pb2.Value.RANGES)
    ports.ranges.range.add(begin=31000, end=31003)
    made.attributes.add(name="rack", type=mesos_pb2.Value.TEXT).text.value = "r1"
    return made


def test_what_is_revocable_is_not_for_daemons() -> None:
    room = room_of(offer())
    assert (room.cpus, room.mem, room.ports) == (5.0, 4352.0, ((31000, 31003),))
    assert room.attributes == {"rack": "r1"}


def test_what_is_reserved_is_taken_first() -> None:
    rest = OfferRest(offer())
    task = rest.take(SPEC, NEED, (31001, 31002))
    taken = [(e.name, e.scalar.value, bool(e.reservations)) for e in task.resources if e.name != "ports"]
    assert taken == [("cpus", 1.0, True), ("cpus", 0.5, False), ("mem", 256.0, True), ("mem", 44.0, False)]
    assert all(e.allocation_info.role == "peloton-deploy" for e in task.resources if e.name != "ports")
    assert (rest.room.cpus, rest.room.mem) == (3.5, 4052.0)
    assert rest.room.ports == ((31000, 31000), (31003, 31003))
    assert (task.command.user, task.command.value, task.agent_id.value) == (
        "peloton",
        "exec peloton-jobmgr",
        "agent",
    )


def test_what_is_taken_is_not_there_again() -> None:
    rest = OfferRest(offer())
    rest.take(SPEC, NEED, (31001, 31002))
    with pytest.raises(Refused, match="lacks port 31001"):
        rest.take(SPEC, Need(0.1, 32, 1), (31001,))
    with pytest.raises(Refused, match=r"lacks 0\.6 of cpus"):
        rest.take(SPEC, Need(4, 32, 0), ())


def test_a_container_has_secrets_read_only_and_the_users_of_its_image() -> None:
    spec = TaskSpec("t", "n", "c", "root", {}, "peloton:1", ("/etc/peloton/zk",))
    task = OfferRest(offer()).take(spec, NEED, (31000, 31001))
    docker = task.container.docker
    assert (docker.image, docker.network) == ("peloton:1", mesos_pb2.ContainerInfo.DockerInfo.HOST)
    assert {each.key: each.value for each in docker.parameters} == {
        "read-only": "true", "tmpfs": "/tmp", "cap-drop": "ALL",
    }  # fmt: skip
    (volume,) = task.container.volumes
    assert (volume.host_path, volume.container_path, volume.mode) == (
        "/etc/peloton/zk", "/etc/peloton/zk", mesos_pb2.Volume.RO,
    )  # fmt: skip
    assert not task.command.user
