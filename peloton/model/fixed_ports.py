"""Fixed ports of tasks as labels: two tasks with the same fixed port cannot share a host.

In the exchange with resmgr and placement, a task has a label for each of its fixed ports, and a constraint
that no task with such a label is on the host. Mesos knows nothing of it: fixed ports are not taken from
offers.
"""

from __future__ import annotations

from collections.abc import Iterable

from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
)

PORT = "peloton/port"
"""Key of the label of a fixed port."""


def port_labels(ports: Iterable[int]) -> tuple[Label, ...]:
    """Return the labels of fixed ports."""
    return tuple((PORT, str(port)) for port in ports)


def with_ports(constraint: Constraint | None, ports: Iterable[int]) -> Constraint | None:
    """Return a constraint that also refuses hosts where a task has one of the fixed ports."""
    free = [LabelConstraint(Kind.TASK, Condition.LESS_THAN, label, 1) for label in port_labels(ports)]
    if not free:
        return constraint
    return AndConstraint((*free, *(() if constraint is None else (constraint,))))


def ports_of(labels: Iterable[Label]) -> tuple[int, ...]:
    """Return the fixed ports that labels stand for."""
    return tuple(int(value) for key, value in labels if key == PORT and value.isdigit())
