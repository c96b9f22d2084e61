"""Translation of operations on hosts. `Resource` is the message of Mesos that the internal API carries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hostmgr.core.state.offers import DISK, SCALARS
from hostmgr.core.state.operations import (
    Amount,
    CreateVolume,
    DestroyVolume,
    HostOperation,
    LaunchTasks,
    Reserve,
    UnreserveLabel,
)
from peloton.errors import InvalidArgument
from peloton.model.constraint import Label
from peloton.model.resources import checked_milli
from peloton.model.volume import VolumeMount
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.wire.launch import launch_from

Resource = Any
_UNRESERVED = "*"
_BODIES = {
    pb.OfferOperation.LAUNCH: "launch",
    pb.OfferOperation.RESERVE: "reserve",
    pb.OfferOperation.UNRESERVE: "unreserve",
    pb.OfferOperation.CREATE: "create",
    pb.OfferOperation.DESTROY: "destroy",
}


def amounts_from(
    resources: Sequence[Resource], path: str, labels: tuple[Label, ...] = ()
) -> tuple[Amount, ...]:
    """Translate amounts of resources; `labels` are added to those of each. Raises InvalidArgument."""
    if not resources:
        raise InvalidArgument(path, "[]", "at least one resource")
    return tuple(_amount(each, f"{path}[{i}]", labels) for i, each in enumerate(resources))


def _amount(wire: Resource, path: str, labels: tuple[Label, ...]) -> Amount:
    if wire.name not in SCALARS:
        raise InvalidArgument(f"{path}.name", wire.name, f"one of {', '.join(SCALARS)}")
    if wire.HasField("revocable") or wire.HasField("shared") or wire.disk.HasField("persistence"):
        raise InvalidArgument(path, wire.name, "a resource that is not revocable, shared or a volume")
    own = wire.reservations[-1] if wire.reservations else wire.reservation
    given = tuple((each.key, each.value) for each in own.labels.labels)
    role = (wire.reservations[-1].role if wire.reservations else wire.role).removeprefix(_UNRESERVED)
    return Amount(wire.name, _positive(wire.scalar.value, f"{path}.scalar.value"), (*given, *labels), role)


def volume_from(wire: Resource, path: str) -> CreateVolume:
    """Translate a volume to create, as Mesos describes one. Raises InvalidArgument."""
    if wire.name != DISK:
        raise InvalidArgument(f"{path}.name", wire.name, DISK)
    return _volume(
        wire.disk.persistence.id,
        wire.disk.volume.container_path,
        wire.scalar.value,
        (f"{path}.disk.persistence.id", f"{path}.disk.volume.container_path", f"{path}.scalar.value"),
    )


def _volume(volume_id: str, container_path: str, size: float, paths: tuple[str, str, str]) -> CreateVolume:
    if not volume_id:
        raise InvalidArgument(paths[0], "", "the id of a volume")
    if not container_path:
        raise InvalidArgument(paths[1], "", "the path of the volume in the container")
    return CreateVolume(VolumeMount(volume_id, _positive(size, paths[2]), container_path, create=True))


def _positive(amount: float, path: str) -> int:
    found = checked_milli(path, amount)
    if not found:
        raise InvalidArgument(path, amount, "a number of 0.001 or more")
    return found


def operations_from(wires: Sequence[pb.OfferOperation]) -> list[HostOperation]:
    """Translate operations on a claimed host. Raises InvalidArgument."""
    if not wires:
        raise InvalidArgument("operations", "[]", "at least one operation")
    for i, wire in enumerate(wires[:-1]):
        if wire.type == pb.OfferOperation.LAUNCH:
            raise InvalidArgument(
                f"operations[{i}].type", "LAUNCH", "another operation; only the last one launches"
            )
    return [_operation(wire, f"operations[{i}]") for i, wire in enumerate(wires)]


def _operation(wire: pb.OfferOperation, path: str) -> HostOperation:
    body = _BODIES.get(wire.type)
    if body is None:
        kinds = ", ".join(f"{each.upper()} ({number})" for number, each in _BODIES.items())
        raise InvalidArgument(f"{path}.type", wire.type, f"one of {kinds}")
    if body == "launch":
        return LaunchTasks(_launches(wire.launch.tasks, f"{path}.launch.tasks"))
    if body == "reserve":
        labels = tuple((each.key, each.value) for each in wire.reservationLabels.labels)
        return Reserve(amounts_from(wire.reserve.resources, f"{path}.reserve.resources", labels))
    if body == "unreserve":
        if not wire.unreserve.label:
            raise InvalidArgument(f"{path}.unreserve.label", "", "the value of a label of the reservation")
        return UnreserveLabel(wire.unreserve.label)
    if body == "create":
        volume, at = wire.create.volume, f"{path}.create.volume"
        return _volume(
            volume.id.value,
            volume.containerPath,
            volume.resource.scalar.value,
            (f"{at}.id", f"{at}.containerPath", f"{at}.resource.scalar.value"),
        )
    if not wire.destroy.volumeID:
        raise InvalidArgument(f"{path}.destroy.volumeID", "", "the id of a volume")
    return DestroyVolume(wire.destroy.volumeID)


def _launches(tasks: Iterable[pb.LaunchableTask], path: str) -> tuple[Any, ...]:
    launches = tuple(map(launch_from, tasks))
    if not launches:
        raise InvalidArgument(path, "[]", "at least one task")
    return launches
