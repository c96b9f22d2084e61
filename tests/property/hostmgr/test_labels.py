"""Constraints over all hosts at once say the same as constraints over each."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.state.labels import HOSTNAME, LabelClasses
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

LABELS = st.sampled_from(
    [("rack", "r1"), ("rack", "r2"), ("disk", "ssd"), (EXCLUSIVE, "a"), (HOSTNAME, "h1")]
)
LEAVES = st.builds(LabelConstraint, st.just(Kind.HOST), st.sampled_from(Condition), LABELS, st.integers(0, 2))
TREES: st.SearchStrategy[Constraint] = st.recursive(
    LEAVES,
    lambda parts: (
        st.builds(AndConstraint, st.lists(parts, max_size=3).map(tuple))
        | st.builds(OrConstraint, st.lists(parts, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
HOST_LABELS = st.lists(LABELS.filter(lambda label: label[0] != HOSTNAME), max_size=3)


def satisfied(
    constraint: Constraint | None, host_labels: Mapping[Label, int], task_labels: Mapping[Label, int]
) -> bool:
    """Evaluate a constraint for one host."""
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


@given(st.none() | TREES, st.lists(HOST_LABELS, min_size=1, max_size=5))
def test_eligible_is_satisfied_for_each_host(
    constraint: Constraint | None, hosts: list[list[tuple[str, str]]]
) -> None:
    classes = LabelClasses()
    numbers = np.array([classes.number(labels) for labels in hosts], dtype=np.int32)
    mask = classes.eligible(constraint, numbers, {f"h{row}": [row] for row in range(len(hosts))})
    for row, labels in enumerate(hosts):
        counts = {label: labels.count(label) for label in labels} | {(HOSTNAME, f"h{row}"): 1}
        repelled = any(key == EXCLUSIVE for key, _ in labels) and not mentions(
            constraint, Kind.HOST, EXCLUSIVE
        )
        assert mask[row] == (satisfied(constraint, counts, {}) and not repelled)
