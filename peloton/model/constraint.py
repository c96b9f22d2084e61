"""Placement constraints: a tree of label constraints joined by AND and OR.

A leaf counts how often its label stands on the host (kind HOST: agent attributes and `hostname`) or
on the tasks that the host runs (kind TASK) and compares that count with `requirement`. `= 1` on a
task label is affinity, `< 1` anti-affinity, `< n` a host limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum


class Kind(IntEnum):
    TASK = 1
    HOST = 2


class Condition(IntEnum):
    LESS_THAN = 1
    EQUAL = 2
    GREATER_THAN = 3


Label = tuple[str, str]
"""Key and value."""


@dataclass(frozen=True, slots=True)
class LabelConstraint:
    kind: Kind
    condition: Condition
    label: Label
    requirement: int

    def __str__(self) -> str:
        sign = {Condition.LESS_THAN: "<", Condition.EQUAL: "=", Condition.GREATER_THAN: ">"}[self.condition]
        return f"{self.kind.name.lower()} {self.label[0]}={self.label[1]} {sign} {self.requirement}"


@dataclass(frozen=True, slots=True)
class AndConstraint:
    parts: tuple[Constraint, ...]

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True, slots=True)
class OrConstraint:
    parts: tuple[Constraint, ...]

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.parts)) + ")"


Constraint = LabelConstraint | AndConstraint | OrConstraint


def satisfied(
    constraint: Constraint | None, host_labels: Mapping[Label, int], task_labels: Mapping[Label, int]
) -> bool:
    """Whether a host with these label counts may take the task. No constraint, or an empty AND: yes; an empty
    OR: no."""
    if constraint is None:
        return True
    if isinstance(constraint, AndConstraint):
        return all(satisfied(part, host_labels, task_labels) for part in constraint.parts)
    if isinstance(constraint, OrConstraint):
        return any(satisfied(part, host_labels, task_labels) for part in constraint.parts)
    counts = host_labels if constraint.kind is Kind.HOST else task_labels
    count = counts.get(constraint.label, 0)
    if constraint.condition is Condition.LESS_THAN:
        return count < constraint.requirement
    if constraint.condition is Condition.EQUAL:
        return count == constraint.requirement
    return count > constraint.requirement


def mentions(constraint: Constraint | None, kind: Kind, key: str) -> bool:
    """Whether a leaf of this kind names a label with this key."""
    if constraint is None:
        return False
    if isinstance(constraint, LabelConstraint):
        return constraint.kind is kind and constraint.label[0] == key
    return any(mentions(part, kind, key) for part in constraint.parts)
