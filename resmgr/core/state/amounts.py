"""Amounts of the four resource kinds: vectors in thousandths, and what a gang adds to a pool's sums."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from peloton.model.host_class import ANY_HOST, HostClass

Vector = tuple[int, int, int, int]
"""Thousandths by kind, in the order of `peloton.model.resources.KINDS`."""
NOTHING: Vector = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Charge:
    """What a gang (or a task) adds to a pool's sums; None where it adds nothing."""

    firm: Vector | None
    """Of tasks that are not revocable."""
    slack: Vector | None
    """Of revocable tasks; its cpu is slack cpu."""
    non_preemptible: Vector | None
    controller: Vector | None
    asked: HostClass = ANY_HOST
    """The hosts that it asks for; of a mixed gang, those of its first part."""
    mixed: tuple[Charge, ...] = ()
    """The parts of a gang whose tasks ask for different hosts; empty where they ask for the same."""
    entitled: Vector = field(init=False)
    """What it takes of the pool's entitlement: everything except the slack cpu."""

    def __post_init__(self) -> None:
        slack = (0, *self.slack[1:]) if self.slack is not None else None
        entitled = total(part for part in (self.firm, slack) if part is not None)
        object.__setattr__(self, "entitled", entitled)

    @property
    def asked_in_all(self) -> Vector:
        """Return what all its tasks ask for, slack cpu included."""
        return total(part for part in (self.firm, self.slack) if part is not None)

    def parts(self) -> tuple[Charge, ...]:
        """Return what it adds for each of the hosts that it asks for."""
        return self.mixed or (self,)

    def times(self, count: int) -> Charge:
        """Return the charge of `count` equal ones."""

        def scaled(amounts: Vector | None) -> Vector | None:
            if amounts is None:
                return None
            cpu, memory, disk, gpu = amounts
            return cpu * count, memory * count, disk * count, gpu * count

        return Charge(
            scaled(self.firm),
            scaled(self.slack),
            scaled(self.non_preemptible),
            scaled(self.controller),
            self.asked,
            tuple([part.times(count) for part in self.mixed]),
        )


def total_charge(charges: Sequence[Charge]) -> Charge:
    """Return the sum of at least one charge."""
    if len(charges) == 1:
        return charges[0]
    asked = dict.fromkeys(charge.asked for charge in charges)
    return Charge(
        firm=_optional_total(charge.firm for charge in charges),
        slack=_optional_total(charge.slack for charge in charges),
        non_preemptible=_optional_total(charge.non_preemptible for charge in charges),
        controller=_optional_total(charge.controller for charge in charges),
        asked=charges[0].asked,
        mixed=()
        if len(asked) == 1
        else tuple(total_charge([charge for charge in charges if charge.asked == each]) for each in asked),
    )


def vector(amounts: Iterable[int]) -> Vector:
    """Return four amounts as a vector."""
    cpu, memory, disk, gpu = amounts
    return cpu, memory, disk, gpu


def total(parts: Iterable[Vector]) -> Vector:
    """Return the sum of the parts."""
    cpu = memory = disk = gpu = 0
    for part in parts:
        cpu += part[0]
        memory += part[1]
        disk += part[2]
        gpu += part[3]
    return cpu, memory, disk, gpu


def less(amounts: Iterable[int], parts: Iterable[Vector | Sequence[int] | None]) -> Vector:
    """Subtract the parts that are not None."""
    cpu, memory, disk, gpu = amounts
    for part in parts:
        if part is not None:
            cpu, memory, disk, gpu = cpu - part[0], memory - part[1], disk - part[2], gpu - part[3]
    return cpu, memory, disk, gpu


def plus(one: Vector, other: Iterable[int]) -> Vector:
    """Add two vectors."""
    cpu, memory, disk, gpu = other
    return one[0] + cpu, one[1] + memory, one[2] + disk, one[3] + gpu


def percent_of(amounts: Vector, percent: float) -> Vector:
    """Return that percentage of each amount, rounded down."""
    return vector(int(amount * percent / 100) for amount in amounts)


def add_to(sums: list[int], amounts: Vector) -> None:
    """Add to sums in place."""
    sums[0] += amounts[0]
    sums[1] += amounts[1]
    sums[2] += amounts[2]
    sums[3] += amounts[3]


def subtract_from(sums: list[int], amounts: Vector) -> None:
    """Subtract from sums in place. They have the amounts in them: no sum gets negative."""
    sums[0] -= amounts[0]
    sums[1] -= amounts[1]
    sums[2] -= amounts[2]
    sums[3] -= amounts[3]
    # Not min(): this is called for each gang.
    assert sums[0] >= 0 <= sums[1] and sums[2] >= 0 <= sums[3], f"{sums} is left without {amounts}"


def _optional_total(parts: Iterable[Vector | None]) -> Vector | None:
    present = [part for part in parts if part is not None]
    return total(present) if present else None
