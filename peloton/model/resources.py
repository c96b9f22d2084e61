"""Amounts of cpu, memory, disk and gpu.

Amounts are integers in thousandths (milli-cores, thousandths of a MB, …). Mesos keeps its scalars to
three decimals too, and whole numbers make sums exact: what was allocated and freed again is zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from peloton.errors import InvalidArgument
from peloton.fast_init import fast_init
from peloton.model.amounts import plain

MILLI = 1000
KINDS = ("cpu", "memory", "disk", "gpu")
"""Names of the kinds as resource pools and operators know them, in the order of `Resources`."""


MAX_AMOUNT = 1e12
"""Bound of an amount in units: finite, and exact in thousandths."""


def milli(amount: float) -> int:
    """Convert an amount to thousandths, to the nearest one.

    Raises InvalidArgument for an amount that is not finite, or too large for sums of it to be exact. For
    amounts of requests use `checked_milli`.
    """
    if not -MAX_AMOUNT <= amount <= MAX_AMOUNT:  # also where it is not a number
        raise InvalidArgument("amount", amount, f"a number from -{MAX_AMOUNT:.0f} to {MAX_AMOUNT:.0f}")
    return round(amount * MILLI)


def checked_milli(path: str, amount: float, most: float = MAX_AMOUNT) -> int:
    """Convert an amount of a request, in the field at `path`, to thousandths.

    Raises InvalidArgument unless it is from 0 to `most`.
    """
    if not 0 <= amount <= most:  # also where it is not a number
        raise InvalidArgument(path, amount, f"a number from 0 to {most:.0f}")
    return milli(amount)


@dataclass(frozen=True, slots=True)
class Resources:
    """Amounts in thousandths: CPU cores, MB of memory, MB of disk, GPUs. Differences may be negative."""

    cpu: int = 0
    memory: int = 0
    disk: int = 0
    gpu: int = 0

    @classmethod
    def of(cls, cpu: float = 0, memory: float = 0, disk: float = 0, gpu: float = 0) -> Resources:
        """Make resources of cores, MB, MB and GPUs."""
        return cls(milli(cpu), milli(memory), milli(disk), milli(gpu))

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu + other.cpu, self.memory + other.memory, self.disk + other.disk, self.gpu + other.gpu
        )

    def __sub__(self, other: Resources) -> Resources:
        return Resources(
            self.cpu - other.cpu, self.memory - other.memory, self.disk - other.disk, self.gpu - other.gpu
        )

    def times(self, factor: int) -> Resources:
        """Multiply all amounts."""
        return Resources(self.cpu * factor, self.memory * factor, self.disk * factor, self.gpu * factor)

    def fits(self, room: Resources) -> bool:
        """Return whether no amount exceeds that of `room`."""
        return (
            self.cpu <= room.cpu
            and self.memory <= room.memory
            and self.disk <= room.disk
            and self.gpu <= room.gpu
        )

    def values(self) -> tuple[int, int, int, int]:
        """Return thousandths in the order of KINDS."""
        return self.cpu, self.memory, self.disk, self.gpu

    def units(self) -> dict[str, float]:
        """Return amounts in units (cores, MB, MB, GPUs) by kind."""
        return {kind: value / MILLI for kind, value in zip(KINDS, self.values(), strict=True)}

    def __str__(self) -> str:
        return " ".join(f"{kind}:{plain(value)}" for kind, value in self.units().items())


fast_init(Resources)
ZERO = Resources()


def total(amounts: Iterable[Resources]) -> Resources:
    """Add resources up."""
    cpu = memory = disk = gpu = 0
    for amount in amounts:
        cpu += amount.cpu
        memory += amount.memory
        disk += amount.disk
        gpu += amount.gpu
    return Resources(cpu, memory, disk, gpu)
