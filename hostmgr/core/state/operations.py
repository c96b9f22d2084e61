"""Operations on the resources of one host: reservations, persistent volumes and launches, in order.

What they take and give is known to the adapter of the cluster manager, which plans them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from peloton.model.constraint import Label
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of a scalar resource by its name in Mesos, in thousandths."""

    name: str
    amount: int
    labels: tuple[Label, ...] = ()
    """Of the reservation."""
    role: str = ""
    """The role that it is reserved for; empty: the own one."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """Reserve unreserved resources for the own role."""

    amounts: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class Unreserve:
    """End reservations: of these amounts, each with exactly these labels."""

    amounts: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class UnreserveLabel:
    """End all reservations with a label that has this value."""

    value: str


@dataclass(frozen=True, slots=True)
class CreateVolume:
    """Create a persistent volume; its disk is reserved first where it is not."""

    mount: VolumeMount


@dataclass(frozen=True, slots=True)
class DestroyVolume:
    """Destroy a persistent volume, and end the reservation that was made for it."""

    volume_id: str


@dataclass(frozen=True, slots=True)
class LaunchTasks:
    """Launch tasks."""

    launches: tuple[Launch, ...]


HostOperation: TypeAlias = Reserve | Unreserve | UnreserveLabel | CreateVolume | DestroyVolume | LaunchTasks


def launched_by(operations: Iterable[HostOperation]) -> list[Launch]:
    """Return what operations launch, in their order."""
    return [each for part in operations if isinstance(part, LaunchTasks) for each in part.launches]
