"""Which GPUs of an agent belong to which run: a device has one owner at a time. No effects.

Agents of Mesos give a task its devices by their isolator `gpu/nvidia`. Here a task is told which ones are its
own, by the variables that CUDA and the container runtime of NVIDIA read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.status_updates import Key

GPUS = "gpus"
VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"
OF_CONTAINERS = "NVIDIA_VISIBLE_DEVICES"
_BY_BUS = "PCI_BUS_ID"
"""The order in which `nvidia-smi` numbers devices; that of CUDA itself has the fastest first."""
_NO_DEVICE = "void"
"""What the container runtime takes for none. An empty value is the same for it, and images set `all`."""
_WHOLE = 1000


class DeviceError(ValueError):
    """Devices cannot be given as they are asked for; the text is for people."""


def devices_of(total: res.Bundle, listed: str = "") -> tuple[str, ...]:
    """Return the devices of an agent with these resources: those `listed`, else numbers from 0 on.

    `listed`: indices as `nvidia-smi` shows them, or UUIDs, with commas between them. Raise DeviceError.
    """
    count = _whole(res.scalars(total).get(GPUS, 0))
    if not listed:
        return tuple(map(str, range(count)))
    names = tuple(name.strip() for name in listed.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise DeviceError(f"{listed!r} is not a list of different devices, such as 0,1")
    if len(names) != count:
        raise DeviceError(f"{listed!r} has {len(names)} devices, the resources have gpus:{count}")
    return names


def wanted(task: mesos.TaskInfo) -> int:
    """Return how many devices a task asks for. Raise DeviceError."""
    if not any(resource.name == GPUS for resource in task.resources):
        return 0
    return _whole(res.scalars(res.from_messages(task.resources)).get(GPUS, 0))


def _whole(thousandths: int) -> int:
    if thousandths % _WHOLE:
        raise DeviceError(f"{thousandths / _WHOLE:g} is not a whole number of GPUs: a device has one owner")
    return thousandths // _WHOLE


def variables(devices: Sequence[str]) -> dict[str, str]:
    """Return what a process with these devices is told; one without any sees none."""
    if not devices:
        return {VISIBLE: ""}
    order = {ORDER: _BY_BUS} if all(name.isdecimal() for name in devices) else {}
    return {VISIBLE: ",".join(devices), **order}


def container_variables(devices: Sequence[str]) -> dict[str, str]:
    """Return the same for a container: the runtime of NVIDIA puts these devices in, numbered from 0 on."""
    if not devices:
        return {VISIBLE: "", OF_CONTAINERS: _NO_DEVICE}
    inside = [str(at) if name.isdecimal() else name for at, name in enumerate(devices)]
    return variables(inside) | {OF_CONTAINERS: ",".join(devices)}


class Devices:
    """The devices of an agent, their owners, and the runs that wait until devices are given back."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._names = tuple(names)
        self._owned: dict[Key, tuple[str, ...]] = {}
        self._waiting: dict[Key, int] = {}

    @property
    def free(self) -> list[str]:
        """The devices that belong to nobody, in their order."""
        owned = {name for names in self._owned.values() for name in names}
        return [name for name in self._names if name not in owned]

    def take(self, key: Key, count: int) -> tuple[str, ...] | None:
        """Give a run devices, the first ones that are free; None where it has to wait for its turn."""
        free = self.free
        first = next(iter(self._waiting), key)
        if count > len(free) or first != key:
            self._waiting.setdefault(key, count)
            return None
        self._waiting.pop(key, None)
        self._owned[key] = tuple(free[:count])
        return self._owned[key]

    def keep(self, key: Key, names: Sequence[str]) -> None:
        """Leave a run the devices that it has had."""
        if names:
            self._owned[key] = tuple(names)

    def give_back(self, key: Key) -> None:
        """Take the devices of a run back, and forget that it waits for some."""
        self._owned.pop(key, None)
        self._waiting.pop(key, None)

    def withdraw(self, key: Key) -> bool:
        """Let a run wait no more; return whether it has waited."""
        return self._waiting.pop(key, None) is not None

    def due(self) -> Iterator[Key]:
        """Yield the runs that need wait no more, as long as the one before has taken its devices."""
        while self._waiting:
            key, count = next(iter(self._waiting.items()))
            if count > len(self.free):
                return
            yield key
            self._waiting.pop(key, None)
