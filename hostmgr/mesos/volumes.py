"""Messages of persistent volumes: the operations that create and destroy them, and what a task is given.

A volume is created on disk that is reserved for the framework's role. Where the disk is not reserved, a
dynamic reservation of the volume's own is made, which ends with the volume; its label names the volume.
Offers, and so these messages, have the form of frameworks without RESERVATION_REFINEMENT: `role` and
`reservation`.
"""

from __future__ import annotations

from hostmgr.core.state.offers import Taken
from mesos.v1 import mesos_pb2
from peloton.model.volume import VolumeMount

VOLUME_LABEL = "peloton.volume_id"
Operation = mesos_pb2.Offer.Operation
Resource = mesos_pb2.Resource


def created(disk: Resource, taken: Taken, principal: str) -> list[Operation]:
    """Return the operations that create a volume on `disk`, which has its size."""
    create = Operation(type=Operation.CREATE)
    create.create.volumes.append(mounted(disk, taken, principal))
    if taken.reserved:
        return [create]
    reserve = Operation(type=Operation.RESERVE)
    reserve.reserve.resources.append(_reserved(disk, _mount(taken), principal))
    return [reserve, create]


def mounted(resource: Resource, taken: Taken, principal: str) -> Resource:
    """Return a volume as a task uses it. `resource` is the volume, or the disk that it is created on."""
    mount = _mount(taken)
    volume = Resource()
    volume.CopyFrom(resource)
    if mount.create:
        if not taken.reserved:
            volume = _reserved(resource, mount, principal)
        volume.disk.persistence.id = mount.id
        if principal:
            volume.disk.persistence.principal = principal
    volume.disk.volume.container_path = mount.container_path
    volume.disk.volume.mode = mesos_pb2.Volume.RW
    return volume


def destroyed(volume: Resource) -> list[Operation]:
    """Return the operations that destroy a volume and end the reservation that was made for it."""
    destroy = Operation(type=Operation.DESTROY)
    destroy.destroy.volumes.append(volume)
    if not _has_own_reservation(volume):
        return [destroy]
    unreserve = Operation(type=Operation.UNRESERVE)
    unreserve.unreserve.resources.append(without_volume(volume))
    return [destroy, unreserve]


def without_volume(volume: Resource) -> Resource:
    """Return the disk that a volume was made of."""
    disk = Resource()
    disk.CopyFrom(volume)
    disk.disk.ClearField("persistence")
    disk.disk.ClearField("volume")
    if not disk.disk.HasField("source"):
        disk.ClearField("disk")
    return disk


def _mount(taken: Taken) -> VolumeMount:
    if taken.volume is None:
        raise TypeError(f"{taken} is not a volume")
    return taken.volume


def _reserved(disk: Resource, mount: VolumeMount, principal: str) -> Resource:
    resource = Resource()
    resource.CopyFrom(disk)
    resource.role = disk.allocation_info.role
    resource.reservation.labels.labels.add(key=VOLUME_LABEL, value=mount.id)
    if principal:
        resource.reservation.principal = principal
    return resource


def _has_own_reservation(volume: Resource) -> bool:
    labels = {label.key: label.value for label in volume.reservation.labels.labels}
    return labels.get(VOLUME_LABEL) == volume.disk.persistence.id
