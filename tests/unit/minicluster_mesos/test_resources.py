"""Quantities of resources and their notation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resource_notation
from minicluster.mesos.common import resources as res

EVERYTHING = "cpus:3;cpus(peloton):1;mem:512.5;ports:[31000-31099,31200-31299];slots:{s1,s2}"

ranges = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), max_size=6).map(
    lambda pairs: res.merge((begin, begin + length) for begin, length in pairs)
)


def numbers(value: res.Ranges) -> set[int]:
    return {number for begin, end in value for number in range(begin, end + 1)}


@given(ranges, ranges)
def test_ranges_are_sets_of_numbers(one: res.Ranges, other: res.Ranges) -> None:
    assert numbers(res.without(one, other)) == numbers(one) - numbers(other)
    assert numbers(res.merge(one + other)) == numbers(one) | numbers(other)
    kind = res.plain("ports")
    assert res.contains({kind: one}, {kind: other}) == (numbers(other) <= numbers(one))


@given(st.dictionaries(st.sampled_from(["cpus", "mem", "disk"]), st.integers(1, 10**9)), ranges)
def test_subtracting_and_adding_restores_a_bundle(scalars: dict[str, int], ports: res.Ranges) -> None:
    whole: res.Bundle = {res.plain(name): amount for name, amount in scalars.items()}
    part: res.Bundle = {kind: amount // 2 for kind, amount in whole.items() if isinstance(amount, int)}
    if ports:
        whole[res.plain("ports")] = ports
        part[res.plain("ports")] = ports[:1]
    left = dict(whole)
    assert res.contains(left, part)
    res.subtract(left, part)
    res.add(left, part)
    assert {kind: amount for kind, amount in left.items() if amount} == whole


@pytest.mark.parametrize("refined", [True, False])
def test_both_wire_forms_are_equivalent(refined: bool) -> None:
    bundle = resource_notation.parse_resources(EVERYTHING)
    messages = res.to_messages(bundle, refined=refined, role="peloton")
    assert res.from_messages(messages) == bundle
    assert all(message.allocation_info.role == "peloton" for message in messages)
    assert all(bool(message.role == "peloton") != refined for message in messages if message.reservations)


def test_a_dynamic_reservation_survives_the_old_form() -> None:
    claim = res.Reservation(res.DYNAMIC, "peloton", "someone")
    bundle: res.Bundle = {res.Kind("cpus", (claim,)): 1500}
    assert res.from_messages(res.to_messages(bundle, refined=False)) == bundle


def test_text_is_formatted_like_mesos() -> None:
    text = res.text(resource_notation.parse_resources("cpus(peloton):1;cpus:2.9;ports:[1-2,5-9]"), "peloton")
    assert text == (
        "cpus(allocated: peloton)(reservations: [(STATIC,peloton)]):1; cpus(allocated: peloton):2.9; "
        "ports(allocated: peloton):[1-2, 5-9]"
    )


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cpus", "'cpus' is no resource"),
        ("cpus:four", "'four' is no number"),
        ("cpus:-1", "out of range"),
        ("mem:nan", "out of range"),
        ("ports:[9-1]", "is no range"),
        ("ports:[1-]", "is no range"),
        ("slots:{a,a}", "empty or repeated"),
        ("cpus(:1", "is no resource"),
    ],
)
def test_a_wrong_resource_is_refused_with_its_part(text: str, part: str) -> None:
    with pytest.raises(resource_notation.NotationError, match="right is") as caught:
        resource_notation.parse_resources(f"disk:10;{text}")
    assert part in str(caught.value)


def test_attributes_are_text_scalars_or_ranges_but_no_sets() -> None:
    parsed = resource_notation.parse_attributes("rack:r1;level:2.5;spans:[1-2];features:ssd,tengig")
    assert [item.type for item in parsed] == [
        mesos.Value.TEXT,
        mesos.Value.SCALAR,
        mesos.Value.RANGES,
        mesos.Value.TEXT,
    ]
    with pytest.raises(resource_notation.NotationError, match="Bad type for attribute 'x'"):
        resource_notation.parse_attributes("x:{a,b}")
