"""What the core tells the backend to do, and what a node has free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hostmgr.kubernetes.core.pods import Key
from hostmgr.kubernetes.core.ports import PortRange
from hostmgr.kubernetes.core.states import RunStatus
from peloton.model.ids import MesosTaskId
from peloton.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Create:
    """Create the pod of a run. Answered by `created`, `refused` or `dropped`."""

    run: MesosTaskId


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind the pod of somebody else to a node. Answered by `bound`, `refused` or `dropped`."""

    run: MesosTaskId
    pod: Key
    uid: str
    node: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the pod of a run, if it is still the one with this uid. Its end is seen by the watch."""

    run: MesosTaskId
    uid: str
    grace: int | None = None
    """Seconds; None: as the pod says; 0: at once, without its node."""
    pod: Key | None = None
    """None: the one that is named as the run."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Delete the pod of a run where no PodDisruptionBudget forbids it, if it is still the one with this uid.

    Answered by `evicted` or `eviction_refused`.
    """

    run: MesosTaskId
    uid: str
    pod: Key | None = None
    """None: the one that is named as the run."""


@dataclass(frozen=True, slots=True)
class DeleteSecret:
    """Delete the secrets of a run that needs them no more."""

    run: MesosTaskId


@dataclass(frozen=True, slots=True)
class DeleteVolume:
    """Delete a PersistentVolumeClaim with its data, if it is still the one with this uid.

    Its end is seen by the watch; `volume_kept` answers where it was refused.
    """

    name: str
    uid: str


Instruction: TypeAlias = Create | Bind | Delete | Evict | DeleteSecret | DeleteVolume


@dataclass(frozen=True, slots=True)
class Room:
    """What a node has free for tasks."""

    id: str
    node: str
    free: Resources
    ports: tuple[PortRange, ...]
    volumes: tuple[tuple[str, int], ...] = ()
    """Persistent volumes that nobody uses: id, and size in thousandths of a MB, which `free` is without."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What follows from the events since the last turn."""

    withdrawn: tuple[str, ...] = ()
    """Ids of rooms that do not stand any more."""
    lost: tuple[str, ...] = ()
    """Nodes that are gone."""
    rooms: tuple[Room, ...] = ()
    statuses: tuple[RunStatus, ...] = ()
    instructions: tuple[Instruction, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.withdrawn or self.lost or self.rooms or self.statuses or self.instructions)
