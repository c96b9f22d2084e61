"""The tasks of Mesos that the daemons are, made from offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from deployer.core.placing import Need, PortRange, Room
from mesos.v1 import mesos_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import Refused

GRACE_SECONDS = 30
"""How long a daemon has to hand its leadership over, and to end."""
CONTAINER_PARAMETERS = {"read-only": "true", "tmpfs": "/tmp", "cap-drop": "ALL"}
_SMALL = 1e-6


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What is run."""

    id: str
    name: str
    command: str
    user: str
    environment: Mapping[str, str]
    image: str = ""
    mounts: tuple[str, ...] = ()
    """Files of the host that a container has, read-only."""


def room_of(offer: mesos_pb2.Offer) -> Room:
    """Return what an offer has for daemons."""
    amounts = {"cpus": 0.0, "mem": 0.0}
    for each in _scalars(offer.resources):
        amounts[each.name] += each.scalar.value
    return Room(
        offer.id.value,
        offer.hostname,
        amounts["cpus"],
        amounts["mem"],
        tuple(_ranges(offer.resources)),
        {each.name: _text(each) for each in offer.attributes},
    )


def address_of(offer: mesos_pb2.Offer) -> str:
    """Return the IP address of the host that is offered, its name where Mesos does not tell it."""
    return offer.url.address.ip or offer.hostname


class OfferRest:
    """What is left of an offer while tasks are made from it."""

    def __init__(self, offer: mesos_pb2.Offer) -> None:
        self.offer = offer
        self._left = [each for each in _copies(offer.resources) if _is_plain(each)]

    @property
    def room(self) -> Room:
        """Return what is left."""
        left = mesos_pb2.Offer()
        left.CopyFrom(self.offer)
        del left.resources[:]
        left.resources.extend(self._left)
        return room_of(left)

    def take(self, spec: TaskSpec, need: Need, ports: Sequence[int]) -> mesos_pb2.TaskInfo:
        """Return the task, with its resources. Raises Refused where they are not left."""
        taken = [
            *self._take_scalar("cpus", need.cpus),
            *self._take_scalar("mem", need.mem),
            *self._take_ports(ports),
        ]
        return _task_info(spec, self.offer.agent_id.value, taken)

    def _take_scalar(self, name: str, amount: float) -> Iterator[mesos_pb2.Resource]:
        for each in sorted(_scalars(self._left), key=lambda e: not _is_reserved(e)):
            if each.name != name or amount <= _SMALL:
                continue
            part = min(amount, each.scalar.value)
            if part <= _SMALL:
                continue
            amount -= part
            each.scalar.value -= part
            yield _part(each, part)
        if amount > _SMALL:
            raise Refused(f"the offer of {self.offer.hostname} lacks {amount:g} of {name}")

    def _take_ports(self, ports: Sequence[int]) -> Iterator[mesos_pb2.Resource]:
        for port in ports:
            for each in self._left:
                held = [(r.begin, r.end) for r in each.ranges.range] if each.name == "ports" else []
                if not any(begin <= port <= end for begin, end in held):
                    continue
                part = mesos_pb2.Resource()
                part.CopyFrom(each)
                _set_ranges(part, [(port, port)])
                _set_ranges(each, list(_without(held, port)))
                yield part
                break
            else:
                raise Refused(f"the offer of {self.offer.hostname} lacks port {port}")


def _copies(resources: Sequence[mesos_pb2.Resource]) -> Iterator[mesos_pb2.Resource]:
    for each in resources:
        copy = mesos_pb2.Resource()
        copy.CopyFrom(each)
        yield copy


def _is_plain(resource: mesos_pb2.Resource) -> bool:
    return not resource.HasField("revocable") and not resource.HasField("disk")


def _is_reserved(resource: mesos_pb2.Resource) -> bool:
    return bool(resource.reservations) or resource.role not in ("", "*")


def _scalars(resources: Sequence[mesos_pb2.Resource]) -> Iterator[mesos_pb2.Resource]:
    return (each for each in resources if each.name in ("cpus", "mem") and _is_plain(each))


def _ranges(resources: Sequence[mesos_pb2.Resource]) -> Iterator[PortRange]:
    for each in resources:
        if each.name == "ports" and _is_plain(each):
            yield from ((one.begin, one.end) for one in each.ranges.range)


def _set_ranges(resource: mesos_pb2.Resource, ranges: Sequence[PortRange]) -> None:
    del resource.ranges.range[:]
    for begin, end in ranges:
        resource.ranges.range.add(begin=begin, end=end)


def _without(ranges: Sequence[PortRange], port: int) -> Iterator[PortRange]:
    for begin, end in ranges:
        if not begin <= port <= end:
            yield begin, end
            continue
        if begin < port:
            yield begin, port - 1
        if port < end:
            yield port + 1, end


def _part(resource: mesos_pb2.Resource, amount: float) -> mesos_pb2.Resource:
    part = mesos_pb2.Resource()
    part.CopyFrom(resource)
    part.scalar.value = amount
    return part


def _text(attribute: mesos_pb2.Attribute) -> str:
    if attribute.type == mesos_pb2.Value.TEXT:
        return attribute.text.value
    return f"{attribute.scalar.value:g}" if attribute.type == mesos_pb2.Value.SCALAR else ""


def _task_info(spec: TaskSpec, agent: str, resources: Sequence[mesos_pb2.Resource]) -> mesos_pb2.TaskInfo:
    info = mesos_pb2.TaskInfo(name=spec.name, resources=resources)
    info.task_id.value, info.agent_id.value = spec.id, agent
    info.kill_policy.grace_period.nanoseconds = GRACE_SECONDS * NANOSECONDS
    command = info.command
    for name, value in spec.environment.items():
        command.environment.variables.add(name=name, value=value)
    command.shell = True
    command.value = spec.command
    if spec.image:
        _contain(info, spec)
    else:
        command.user = spec.user
    return info


def _contain(info: mesos_pb2.TaskInfo, spec: TaskSpec) -> None:
    container = info.container
    container.type = mesos_pb2.ContainerInfo.DOCKER
    container.docker.image = spec.image
    container.docker.network = mesos_pb2.ContainerInfo.DockerInfo.HOST
    for key, value in CONTAINER_PARAMETERS.items():
        container.docker.parameters.add(key=key, value=value)
    for file in spec.mounts:
        container.volumes.add(container_path=file, host_path=file, mode=mesos_pb2.Volume.RO)
