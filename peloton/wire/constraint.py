"""Translate constraints and labels between the v0 wire and the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
    OrConstraint,
)

MAX_DEPTH = 32
"""Of a constraint that comes from outside. protobuf's own bound, 100 nested messages, leaves room for what
daemons add around it: fixed ports, the host pool, the hosts that are named."""
_KINDS = frozenset(map(int, Kind))
_CONDITIONS = frozenset(map(int, Condition))


def labels_from(wire: Iterable[peloton_pb2.Label]) -> tuple[Label, ...]:
    """Decode labels."""
    return tuple((label.key, label.value) for label in wire)


def labels_to(labels: Iterable[Label]) -> list[peloton_pb2.Label]:
    """Encode labels."""
    return [peloton_pb2.Label(key=key, value=value) for key, value in labels]


def constraint_from(
    wire: task_pb2.Constraint, path: str = "constraint", levels: int | None = MAX_DEPTH
) -> Constraint:
    """Decode a constraint that is at most `levels` deep; None, between daemons: as deep as it is.

    Raises InvalidArgument with the path of the field where the tree is incomplete or deeper.
    """
    if levels is not None and levels < 0:
        raise InvalidArgument(path, MAX_DEPTH + 1, f"a constraint nested at most {MAX_DEPTH} deep")
    below = None if levels is None else levels - 1
    if wire.type == task_pb2.Constraint.LABEL_CONSTRAINT:
        return _leaf(wire.labelConstraint, f"{path}.labelConstraint")
    if wire.type == task_pb2.Constraint.AND_CONSTRAINT:
        return AndConstraint(
            tuple(
                constraint_from(part, f"{path}.andConstraint.constraints[{i}]", below)
                for i, part in enumerate(wire.andConstraint.constraints)
            )
        )
    if wire.type == task_pb2.Constraint.OR_CONSTRAINT:
        return OrConstraint(
            tuple(
                constraint_from(part, f"{path}.orConstraint.constraints[{i}]", below)
                for i, part in enumerate(wire.orConstraint.constraints)
            )
        )
    raise InvalidArgument(
        f"{path}.type", wire.type, "LABEL_CONSTRAINT (1), AND_CONSTRAINT (2) or OR_CONSTRAINT (3)"
    )


def constraint_to(constraint: Constraint) -> task_pb2.Constraint:
    """Encode a constraint."""
    if isinstance(constraint, LabelConstraint):
        return task_pb2.Constraint(
            type=task_pb2.Constraint.LABEL_CONSTRAINT,
            labelConstraint=task_pb2.LabelConstraint(
                kind=task_pb2.LabelConstraint.Kind.ValueType(constraint.kind),
                condition=task_pb2.LabelConstraint.Condition.ValueType(constraint.condition),
                label=peloton_pb2.Label(key=constraint.label[0], value=constraint.label[1]),
                requirement=constraint.requirement,
            ),
        )
    parts = [constraint_to(part) for part in constraint.parts]
    if isinstance(constraint, AndConstraint):
        return task_pb2.Constraint(
            type=task_pb2.Constraint.AND_CONSTRAINT, andConstraint=task_pb2.AndConstraint(constraints=parts)
        )
    return task_pb2.Constraint(
        type=task_pb2.Constraint.OR_CONSTRAINT, orConstraint=task_pb2.OrConstraint(constraints=parts)
    )


def mentions(wire: task_pb2.Constraint, kind: Kind, key: str) -> bool:
    """Return whether a leaf of this kind names a label with this key, in a tree that may be incomplete."""
    leaf = wire.labelConstraint
    return (leaf.kind == int(kind) and leaf.label.key == key) or any(
        mentions(part, kind, key)
        for part in (*wire.andConstraint.constraints, *wire.orConstraint.constraints)
    )


def own_labels(wire: task_pb2.Constraint, labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return those of a task's labels that its constraint counts on tasks; the tree may be incomplete."""
    counted = set(_task_labels(wire))
    return tuple(sorted(label for label in labels if label in counted)) if counted else ()


def _task_labels(wire: task_pb2.Constraint) -> Iterator[Label]:
    leaf = wire.labelConstraint
    if leaf.kind == int(Kind.TASK):
        yield leaf.label.key, leaf.label.value
    for part in (*wire.andConstraint.constraints, *wire.orConstraint.constraints):
        yield from _task_labels(part)


def _leaf(wire: task_pb2.LabelConstraint, path: str) -> LabelConstraint:
    if int(wire.kind) not in _KINDS:
        raise InvalidArgument(f"{path}.kind", wire.kind, "TASK (1) or HOST (2)")
    if int(wire.condition) not in _CONDITIONS:
        raise InvalidArgument(
            f"{path}.condition",
            wire.condition,
            "CONDITION_LESS_THAN (1), CONDITION_EQUAL (2) or CONDITION_GREATER_THAN (3)",
        )
    return LabelConstraint(
        Kind(wire.kind), Condition(wire.condition), (wire.label.key, wire.label.value), wire.requirement
    )
