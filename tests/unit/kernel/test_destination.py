"""Constraints that keep tasks in a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.errors import InvalidArgument
from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint, OrConstraint
from peloton.model.destination import Destination, kept_in


def host(key: str, value: str) -> LabelConstraint:
    return LabelConstraint(Kind.HOST, Condition.EQUAL, (key, value), 1)


EAST, WEST, SSD = host("cluster", "east"), host("cluster", "west"), host("disk", "ssd")
TASK = LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("cluster", "east"), 1)
LEAVES: st.SearchStrategy[Constraint] = st.sampled_from([EAST, WEST, SSD, TASK])
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: AndConstraint(tuple(parts)))
        | st.lists(st.sampled_from([SSD, TASK]), max_size=2).map(lambda parts: OrConstraint(tuple(parts)))
    ),
    max_leaves=6,
)


def leaves(tree: Constraint | None) -> list[LabelConstraint]:
    if tree is None:
        return []
    if isinstance(tree, LabelConstraint):
        return [tree]
    return [leaf for part in tree.parts for leaf in leaves(part)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, EAST),
        (WEST, EAST),
        (SSD, AndConstraint((SSD, EAST))),
        (AndConstraint((SSD, WEST)), AndConstraint((SSD, EAST))),
        (AndConstraint((AndConstraint((WEST, SSD)), TASK)), AndConstraint((SSD, TASK, EAST))),
        (OrConstraint((SSD, TASK)), AndConstraint((OrConstraint((SSD, TASK)), EAST))),
        (TASK, AndConstraint((TASK, EAST))),
    ],
)
def test_what_was_asked_of_clusters_is_replaced_and_the_rest_stays(
    before: Constraint | None, after: Constraint
) -> None:
    assert kept_in(before, Destination("east").constraint({"east", "west"}), "constraint") == after


@given(TREES | st.none(), st.sampled_from([None, "east", ""]))
def test_a_move_that_is_repeated_changes_nothing_and_other_leaves_stay(
    tree: Constraint | None, to: str | None
) -> None:
    wanted = Destination(to).constraint({"", "east", "west"})
    once = kept_in(tree, wanted, "constraint")
    assert kept_in(once, wanted, "constraint") == once
    about = [leaf for leaf in leaves(once) if leaf.kind is Kind.HOST and leaf.label[0] == "cluster"]
    assert about == leaves(wanted)
    others = [leaf for leaf in leaves(tree) if leaf not in (EAST, WEST)]
    assert [leaf for leaf in leaves(once) if leaf not in about] == others
    assert leaves(kept_in(once, None, "constraint")) == others


def test_the_cluster_without_a_name_is_none_of_the_others() -> None:
    def none_of(name: str) -> LabelConstraint:
        return LabelConstraint(Kind.HOST, Condition.LESS_THAN, ("cluster", name), 1)

    assert Destination("").constraint({""}) is None
    assert Destination("").constraint({"", "east"}) == none_of("east")
    assert Destination("").constraint({"west", "", "east"}) == AndConstraint(
        (none_of("east"), none_of("west"))
    )


def test_clusters_within_an_or_are_left_to_the_author() -> None:
    with pytest.raises(InvalidArgument, match=r"defaultConfig\.constraint.*no part of an OR") as told:
        kept_in(OrConstraint((EAST, SSD)), WEST, "defaultConfig.constraint")
    assert "cluster=east" in str(told.value)


def test_destinations_have_names_for_people() -> None:
    assert [str(Destination(to)) for to in ("east", "", None)] == [
        "cluster east",
        "the cluster without a name",
        "any cluster",
    ]
