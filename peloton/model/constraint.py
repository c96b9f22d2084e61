"""Placement constraints: a tree of label constraints joined by AND and OR.

A leaf counts how often its label stands on the host (kind HOST: agent attributes and `hostname`) or
on the tasks that the host runs (kind TASK) and compares that count with `requirement`. `= 1` on a
task label is affinity, `< 1` anti-affinity, `< n` a host limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    """Whose labels a constraint counts."""

    TASK = 1
    HOST = 2


class Condition(IntEnum):
    """How the count compares with the requirement."""

    LESS_THAN = 1
    EQUAL = 2
    GREATER_THAN = 3


Label = tuple[str, str]
"""Key and value."""


@dataclass(frozen=True, slots=True)
class LabelConstraint:
    """A leaf: how often a label must occur."""

    kind: Kind
    condition: Condition
    label: Label
    requirement: int

    def __str__(self) -> str:
        sign = {Condition.LESS_THAN: "<", Condition.EQUAL: "=", Condition.GREATER_THAN: ">"}[self.condition]
        return f"{self.kind.name.lower()} {self.label[0]}={self.label[1]} {sign} {self.requirement}"


@dataclass(frozen=True, slots=True)
class AndConstraint:
    """All parts must hold; without parts it holds."""

    parts: tuple[Constraint, ...]

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class OrConstraint:
    """One of the parts must hold; without parts it does not."""

    parts: tuple[Constraint, ...]

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.parts)) + ")"


Constraint = LabelConstraint | AndConstraint | OrConstraint


def mentions(constraint: Constraint | None, kind: Kind, key: str) -> bool:
    """Return whether a leaf of this kind names a label with this key."""
    if constraint is None:
        return False
    if isinstance(constraint, LabelConstraint):
        return constraint.kind is kind and constraint.label[0] == key
    return any(mentions(part, kind, key) for part in constraint.parts)


def of_kind(constraint: Constraint | None, kind: Kind) -> frozenset[Label]:
    """Return the labels that the leaves of a kind count."""
    if constraint is None:
        return frozenset()
    if isinstance(constraint, LabelConstraint):
        return frozenset({constraint.label} if constraint.kind is kind else ())
    return frozenset().union(*(of_kind(part, kind) for part in constraint.parts))
