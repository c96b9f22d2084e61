"""Translate constraints and labels between the v1alpha and the v0 API."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.errors import InvalidArgument
from peloton.model.constraint import Label
from peloton.wire.constraint import MAX_DEPTH

_V0, _NEW = task_pb2.Constraint, pod_pb2.Constraint


def labels_from(wire: Iterable[peloton_pb2.Label]) -> tuple[Label, ...]:
    """Decode labels."""
    return tuple((label.key, label.value) for label in wire)


def labels_to(labels: Iterable[Label]) -> list[peloton_pb2.Label]:
    """Encode labels."""
    return [peloton_pb2.Label(key=key, value=value) for key, value in labels]


def v0_labels(labels: Iterable[peloton_pb2.Label]) -> list[v0_peloton.Label]:
    """Return the labels as messages of the v0 API."""
    return [v0_peloton.Label(key=label.key, value=label.value) for label in labels]


def v1alpha_labels(labels: Iterable[v0_peloton.Label]) -> list[peloton_pb2.Label]:
    """Return the labels as messages of the v1alpha API."""
    return [peloton_pb2.Label(key=label.key, value=label.value) for label in labels]


def v0_constraint(wire: pod_pb2.Constraint, path: str, depth: int = 0) -> task_pb2.Constraint:
    """Return the constraint as a message of the v0 API.

    Raises InvalidArgument with the path of the field where the tree is incomplete or deeper than MAX_DEPTH.
    """
    if depth > MAX_DEPTH:
        raise InvalidArgument(path, depth, f"a constraint nested at most {MAX_DEPTH} deep")
    if wire.type == _NEW.CONSTRAINT_TYPE_LABEL:
        leaf = _v0_leaf(wire.label_constraint, f"{path}.label_constraint")
        return _V0(type=_V0.LABEL_CONSTRAINT, labelConstraint=leaf)
    if wire.type == _NEW.CONSTRAINT_TYPE_AND:
        both = _v0_parts(wire.and_constraint.constraints, f"{path}.and_constraint", depth)
        return _V0(type=_V0.AND_CONSTRAINT, andConstraint=task_pb2.AndConstraint(constraints=both))
    if wire.type == _NEW.CONSTRAINT_TYPE_OR:
        any_of = _v0_parts(wire.or_constraint.constraints, f"{path}.or_constraint", depth)
        return _V0(type=_V0.OR_CONSTRAINT, orConstraint=task_pb2.OrConstraint(constraints=any_of))
    raise InvalidArgument(
        f"{path}.type",
        wire.type,
        "CONSTRAINT_TYPE_LABEL (1), CONSTRAINT_TYPE_AND (2) or CONSTRAINT_TYPE_OR (3)",
    )


def v1alpha_constraint(wire: task_pb2.Constraint) -> pod_pb2.Constraint:
    """Return a valid constraint of the v0 API as a message of the v1alpha API."""
    if wire.type == _V0.AND_CONSTRAINT:
        parts = [v1alpha_constraint(part) for part in wire.andConstraint.constraints]
        return _NEW(type=_NEW.CONSTRAINT_TYPE_AND, and_constraint=pod_pb2.AndConstraint(constraints=parts))
    if wire.type == _V0.OR_CONSTRAINT:
        parts = [v1alpha_constraint(part) for part in wire.orConstraint.constraints]
        return _NEW(type=_NEW.CONSTRAINT_TYPE_OR, or_constraint=pod_pb2.OrConstraint(constraints=parts))
    leaf = wire.labelConstraint
    return _NEW(
        type=_NEW.CONSTRAINT_TYPE_LABEL,
        label_constraint=pod_pb2.LabelConstraint(
            kind=pod_pb2.LabelConstraint.Kind.ValueType(leaf.kind),
            condition=pod_pb2.LabelConstraint.Condition.ValueType(leaf.condition),
            label=peloton_pb2.Label(key=leaf.label.key, value=leaf.label.value),
            requirement=leaf.requirement,
        ),
    )


def _v0_parts(parts: Iterable[pod_pb2.Constraint], path: str, depth: int) -> list[task_pb2.Constraint]:
    return [v0_constraint(part, f"{path}.constraints[{i}]", depth + 1) for i, part in enumerate(parts)]


def _v0_leaf(wire: pod_pb2.LabelConstraint, path: str) -> task_pb2.LabelConstraint:
    """Translate a leaf: kinds and conditions have the same numbers in both APIs."""
    for name in ("kind", "condition"):
        if getattr(wire, name) == 0:
            enum = wire.DESCRIPTOR.fields_by_name[name].enum_type
            known = ", ".join(f"{value.name} ({value.number})" for value in enum.values if value.number)
            raise InvalidArgument(f"{path}.{name}", 0, f"one of {known}")
    return task_pb2.LabelConstraint(
        kind=task_pb2.LabelConstraint.Kind.ValueType(wire.kind),
        condition=task_pb2.LabelConstraint.Condition.ValueType(wire.condition),
        label=v0_peloton.Label(key=wire.label.key, value=wire.label.value),
        requirement=wire.requirement,
    )
