"""Classes of hosts by what may run there (docs/behaviour/pools.md, Classes of hosts).

Some hosts repel tasks that do not ask for them: hosts with GPUs, exclusive hosts and, with host pools, the
hosts of other pools. What such a host has is no capacity for the tasks that it repels. Hosts that repel the
same tasks are one class. The same three values say what a task asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, Label, LabelConstraint
from peloton.model.host_pool import HOST_POOL

EXCLUSIVE = "peloton/exclusive"
"""The key of the host label that repels tasks without a host constraint on that key."""


class HostClass(NamedTuple):
    """A class of hosts, or the hosts that a task asks for."""

    gpu: bool = False
    """Whether the hosts have GPUs, which are scarce; of a task, whether it requests some."""
    exclusive: str = ""
    """The values of the label `EXCLUSIVE`, sorted, joined by commas; of a task, the value that it names."""
    pool: str = ""
    """The host pool; of a task, the one that it gets or names. Empty: pools are off, or any pool."""

    def named(self, beside: Collection[HostClass]) -> str:
        """Return words for it among all classes: what none of them has is not named."""
        words = f"hosts in host pool {self.pool}" if self.pool else "hosts"
        if self.gpu:
            words += " with GPUs"
        elif any(each.gpu for each in beside):
            words += " without GPUs"
        if self.exclusive:
            words += f" exclusive to {self.exclusive}"
        return words


ANY_HOST = HostClass()


def class_of_host(labels: Iterable[Label], gpu: bool) -> HostClass:
    """Return the class of a host with these labels; `gpu`: whether it has GPUs and GPUs are scarce."""
    exclusive, pool = set[str](), ""
    for key, value in labels:
        if key == EXCLUSIVE:
            exclusive.add(value)
        elif key == HOST_POOL:
            pool = value
    return HostClass(gpu, ",".join(sorted(exclusive)), pool)


def hosts_asked_for(constraint: Constraint | None, gpu: bool, pool: str) -> HostClass:
    """Return what a task asks for; `pool` is the host pool that it gets where its constraint names none.

    Of several exclusive hosts or pools that would do, the first one is named.
    """
    exclusive = pools = ""
    for leaf in _required(constraint):
        key, value = leaf.label
        if key == EXCLUSIVE:
            exclusive = exclusive or value
        elif key == HOST_POOL:
            pools = pools or value
    return HostClass(gpu, exclusive, pools or pool)


def class_for(asked: HostClass, classes: Iterable[tuple[HostClass, int]]) -> HostClass:
    """Return the class in which a task counts, of those given, at least one, each with its size.

    That is the one that takes it. Where several do (tasks of daemon jobs run in all host pools), it is the
    largest of them. Where none does, it is the largest that differs least: placement says what is missing.
    """
    known = list(classes)
    assert known, "a task counts in a class of hosts: none is given"
    gpu = asked.gpu and any(each.gpu for each, _ in known)
    pool = asked.pool if any(each.pool for each, _ in known) else ""

    def order(entry: tuple[HostClass, int]) -> tuple[bool, bool, bool, int, HostClass]:
        each, size = entry
        exclusive = asked.exclusive in each.exclusive.split(",")
        return each.gpu == gpu, exclusive, not pool or each.pool == pool, size, each

    return max(known, key=order)[0]


def _required(constraint: Constraint | None) -> Iterable[LabelConstraint]:
    """Iterate over the leaves on host labels that must be there, also those of which one is enough."""
    if constraint is None:
        return
    if isinstance(constraint, LabelConstraint):
        if constraint.kind is Kind.HOST and _wanted(constraint):
            yield constraint
        return
    parts = constraint.parts
    if isinstance(constraint, AndConstraint):
        parts = tuple(sorted(parts, key=lambda part: not isinstance(part, LabelConstraint)))
    for part in parts:
        yield from _required(part)


def _wanted(leaf: LabelConstraint) -> bool:
    return leaf.condition is Condition.GREATER_THAN or (
        leaf.condition is Condition.EQUAL and leaf.requirement > 0
    )
