"""Labels of many hosts, interned: hosts with equal attributes share one class, apart from their hostnames.

Constraints of kind TASK cannot be evaluated without the labels of tasks: here they count as satisfied. As a
tree has no negation, a host that is refused so would be refused with them too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
    OrConstraint,
    mentions,
)
from peloton.model.host_class import EXCLUSIVE

HOSTNAME = "hostname"

MANY = 1 << 32
"""No bound on the number of tasks."""

Mask = NDArray[np.bool_]


class LabelClasses:
    """Sets of labels by number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[Label, ...], int] = {}
        self._counts: list[Mapping[Label, int]] = []
        self._exclusive: list[bool] = []

    def number(self, labels: Iterable[Label]) -> int:
        """Return the class of a host with these attributes, a new one where there is none."""
        key = tuple(sorted(labels))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._counts)
            self._counts.append(Counter(key))
            self._exclusive.append(any(name == EXCLUSIVE for name, _ in key))
        return number

    def of(self, number: int) -> Iterable[Label]:
        """Return the labels of a class."""
        return self._counts[number]

    def eligible(
        self, constraint: Constraint | None, classes: NDArray[np.int32], rows_of: Mapping[str, list[int]]
    ) -> Mask:
        """Return the rows that a constraint allows, without exclusive hosts unless it names their key.

        `classes` holds each row's class, `rows_of` the rows by hostname.
        """
        mask = self.satisfying(constraint, classes, rows_of)
        if any(self._exclusive) and not mentions(constraint, Kind.HOST, EXCLUSIVE):
            mask &= ~np.array(self._exclusive, dtype=bool)[classes]
        return mask

    def satisfying(
        self, constraint: Constraint | None, classes: NDArray[np.int32], rows_of: Mapping[str, list[int]]
    ) -> Mask:
        """Return the rows that meet a constraint, exclusive hosts like others; arguments as of `eligible`."""
        if isinstance(constraint, LabelConstraint):
            return self._leaf(constraint, classes, rows_of)
        if isinstance(constraint, OrConstraint):
            mask = np.zeros(len(classes), dtype=bool)
            for part in constraint.parts:
                mask |= self.satisfying(part, classes, rows_of)
            return mask
        mask = np.ones(len(classes), dtype=bool)
        for part in constraint.parts if isinstance(constraint, AndConstraint) else ():
            mask &= self.satisfying(part, classes, rows_of)
        return mask

    def most_beside(
        self,
        constraint: Constraint | None,
        own: Mapping[Label, int],
        classes: NDArray[np.int32],
        rows_of: Mapping[str, list[int]],
    ) -> NDArray[np.int64]:
        """Return how many tasks with the constraint each row takes at most: each has the labels `own`.

        A task is counted by those that come after it. Tasks of others are such as the constraint needs; so
        this is an upper bound. The other arguments are as of `eligible`.
        """
        if isinstance(constraint, LabelConstraint):
            times = own.get(constraint.label, 0) if constraint.kind is Kind.TASK else 0
            if times and constraint.condition is not Condition.GREATER_THAN:
                most = constraint.requirement - (constraint.condition is Condition.LESS_THAN)
                return np.full(len(classes), min(MANY, most // times + 1), dtype=np.int64)
            return np.where(self._leaf(constraint, classes, rows_of), MANY, 0)
        either = isinstance(constraint, OrConstraint)
        bound = np.full(len(classes), 0 if either else MANY, dtype=np.int64)
        for part in constraint.parts if constraint is not None else ():
            of_part = self.most_beside(part, own, classes, rows_of)
            bound = np.maximum(bound, of_part) if either else np.minimum(bound, of_part)
        return bound

    def _leaf(
        self, leaf: LabelConstraint, classes: NDArray[np.int32], rows_of: Mapping[str, list[int]]
    ) -> Mask:
        if leaf.kind is Kind.TASK:
            return np.ones(len(classes), dtype=bool)
        of_class = np.array([counts.get(leaf.label, 0) for counts in self._counts], dtype=np.int64)
        held: NDArray[np.int64] = of_class[classes]
        if leaf.label[0] == HOSTNAME:
            held[rows_of.get(leaf.label[1], [])] += 1
        if leaf.condition is Condition.LESS_THAN:
            return np.less(held, leaf.requirement)
        if leaf.condition is Condition.EQUAL:
            return np.equal(held, leaf.requirement)
        return np.greater(held, leaf.requirement)
