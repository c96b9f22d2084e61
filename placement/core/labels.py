"""Constraints evaluated over all hosts at once.

Hosts with equal labels share a class. Tasks are counted by label in a column for each label that a constraint
counts. A constraint is a condition on the tasks that are on the host before the task that has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
    of_kind,
)
from peloton.model.host_class import EXCLUSIVE
from placement.core.model import Host, TasksOnHosts

HOSTNAME = "hostname"

Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]
Column = NDArray[np.int64]
_EVERY = slice(None)


class Labels:
    """The labels of hosts and of the tasks on them."""

    def __init__(self, hosts: Sequence[Host], tasks_on_hosts: TasksOnHosts) -> None:
        self._hosts = hosts
        self._tasks_on_hosts = tasks_on_hosts
        self._classes: dict[tuple[Label, ...], int] = {}
        self._class_of: Column | None = None
        self._of_leaf: dict[LabelConstraint, Mask] = {}
        self._tasks: dict[Label, Column] = {}

    def count(self, labels: Iterable[Label]) -> None:
        """Count tasks with these labels from now on."""
        for label in labels:
            if label not in self._tasks:
                self._tasks[label] = self._on_hosts(label)

    def counted(self, labels: Iterable[Label]) -> tuple[Label, ...]:
        """Return those of a task's labels that a constraint counts."""
        return tuple(label for label in labels if label in self._tasks) if self._tasks else ()

    def add(self, labels: Iterable[Label], rows: Rows | int, count: Column | int) -> None:
        """Add tasks with counted labels to rows."""
        for label in labels:
            self._tasks[label][rows] += count

    def exclusive(self) -> Mask:
        """Return the hosts that only tasks with a constraint on EXCLUSIVE may use."""
        of_class = np.array(
            [any(key == EXCLUSIVE for key, _ in labels) for labels in self._known()], dtype=bool
        )
        mask: Mask = of_class[self._class_of]
        return mask

    def holds(
        self,
        constraint: Constraint,
        rows: Rows | slice = _EVERY,
        more: Mapping[Label, int] | None = None,
    ) -> Mask:
        """Return where a constraint holds, as if each host had `more` tasks with these labels."""
        if isinstance(constraint, LabelConstraint):
            if constraint.kind is Kind.HOST:
                return self._host_leaf(constraint)[rows]
            held = self._tasks[constraint.label][rows]
            extra = more.get(constraint.label, 0) if more else 0
            return _compare(held, constraint.condition, constraint.requirement - extra)
        both = isinstance(constraint, AndConstraint)
        if not constraint.parts:
            return np.full(len(self._hosts), both, dtype=bool)[rows]
        masks = (self.holds(part, rows, more) for part in constraint.parts)
        return reduce(np.logical_and if both else np.logical_or, masks)

    def may_hold(self, constraint: Constraint) -> Mask:
        """Return where a constraint may hold, depending on the tasks there.

        A tree has no negation: terms about tasks count as satisfied.
        """
        if isinstance(constraint, LabelConstraint):
            if constraint.kind is Kind.HOST:
                return self._host_leaf(constraint)
            return np.ones(len(self._hosts), dtype=bool)
        both = isinstance(constraint, AndConstraint)
        mask = np.full(len(self._hosts), both, dtype=bool)
        for part in constraint.parts:
            found = self.may_hold(part)
            mask = mask & found if both else mask | found
        return mask

    def _host_leaf(self, leaf: LabelConstraint) -> Mask:
        mask = self._of_leaf.get(leaf)
        if mask is None:
            of_class = np.array([labels.count(leaf.label) for labels in self._known()], dtype=np.int64)
            held: Column = of_class[self._class_of]
            if leaf.label[0] == HOSTNAME:
                held = held + np.array(
                    [host.hostname == leaf.label[1] for host in self._hosts], dtype=np.int64
                )
            mask = self._of_leaf[leaf] = _compare(held, leaf.condition, leaf.requirement)
        return mask

    def _known(self) -> Iterable[tuple[Label, ...]]:
        """Return the distinct labels of hosts, in the order of their classes."""
        if self._class_of is None:
            number = self._classes
            self._class_of = np.array(
                [number.setdefault(host.labels, len(number)) for host in self._hosts], dtype=np.int64
            )
        return self._classes

    def _on_hosts(self, label: Label) -> Column:
        if not self._tasks_on_hosts:
            return np.zeros(len(self._hosts), dtype=np.int64)
        on = self._tasks_on_hosts
        counts = (on[host.hostname].get(label, 0) if host.hostname in on else 0 for host in self._hosts)
        return np.fromiter(counts, dtype=np.int64, count=len(self._hosts))


def about_tasks(constraint: Constraint | None) -> frozenset[Label]:
    """Return the labels of tasks that a constraint counts."""
    return of_kind(constraint, Kind.TASK)


def _compare(held: Column, condition: Condition, requirement: int) -> Mask:
    if condition is Condition.LESS_THAN:
        return np.less(held, requirement)
    if condition is Condition.EQUAL:
        return np.equal(held, requirement)
    return np.greater(held, requirement)
