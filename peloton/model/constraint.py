"""Placement constraints: a tree of label constraints joined by AND and OR.

A leaf counts how often its label stands on the host (kind HOST: agent attributes and `hostname`) or
on the tasks that the host runs (kind TASK) and compares that count with `requirement`. `= 1` on a
task label is affinity, `< 1` anti-affinity, `< n` a host limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import islice


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


def contradiction(constraint: Constraint | None) -> tuple[LabelConstraint, ...]:
    """Return leaves of which no host can meet all, whatever its labels and tasks; none where a host could.

    Every way to meet the constraint is tried, up to a bound: beyond it nothing is returned.
    """
    if constraint is None:
        return ()
    first: tuple[LabelConstraint, ...] = ()
    branches = list(islice(_branches(constraint), _MOST_BRANCHES + 1))
    if len(branches) > _MOST_BRANCHES:
        return ()
    for leaves in branches:
        conflict = _conflict(leaves)
        if not conflict:
            return ()
        first = first or conflict
    return first


_MOST_BRANCHES = 1000
"""Choices among the parts of ORs that are compared."""


def _branches(constraint: Constraint) -> Iterator[tuple[LabelConstraint, ...]]:
    """Iterate over sets of leaves, each of which is enough to meet the constraint."""
    if isinstance(constraint, LabelConstraint):
        yield (constraint,)
    elif isinstance(constraint, OrConstraint):
        for part in constraint.parts:
            yield from _branches(part)
    elif not constraint.parts:
        yield ()
    else:
        for first in _branches(constraint.parts[0]):
            for rest in _branches(AndConstraint(constraint.parts[1:])):
                yield first + rest


def _conflict(leaves: tuple[LabelConstraint, ...]) -> tuple[LabelConstraint, ...]:
    """Return the leaves on one label that bound its number from both sides so that none is left."""
    least: dict[tuple[Kind, Label], tuple[int, LabelConstraint | None]] = {}
    most: dict[tuple[Kind, Label], tuple[int, LabelConstraint]] = {}
    for leaf in leaves:
        key, count = (leaf.kind, leaf.label), leaf.requirement
        if leaf.condition is not Condition.LESS_THAN:
            low = count + (leaf.condition is Condition.GREATER_THAN)
            if low > least.get(key, (0, None))[0]:
                least[key] = (low, leaf)
        if leaf.condition is not Condition.GREATER_THAN:
            high = count - (leaf.condition is Condition.LESS_THAN)
            if key not in most or high < most[key][0]:
                most[key] = (high, leaf)
    for key, (high, upper) in most.items():
        low, lower = least.get(key, (0, None))
        if high < low:
            return (upper,) if lower is None else (lower, upper)
    return ()


def without(constraint: Constraint | None, kind: Kind, key: str) -> Constraint | None:
    """Return the constraint without what it asks of the labels with a key; None where nothing is left.

    Raises ValueError where a part of an OR is about them: what is left would mean something else.
    """
    if isinstance(constraint, AndConstraint):
        parts = [left for part in constraint.parts if (left := without(part, kind, key)) is not None]
        return parts[0] if len(parts) == 1 else AndConstraint(tuple(parts)) if parts else None
    if isinstance(constraint, OrConstraint) and mentions(constraint, kind, key):
        raise ValueError(f"{constraint} is about {key}")
    return None if mentions(constraint, kind, key) else constraint


def both(one: Constraint | None, other: Constraint | None) -> Constraint | None:
    """Return that two constraints hold; None: anything does."""
    if one is None or other is None:
        return one or other
    parts = one.parts if isinstance(one, AndConstraint) else (one,)
    return AndConstraint((*parts, *(other.parts if isinstance(other, AndConstraint) else (other,))))
