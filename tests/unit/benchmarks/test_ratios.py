"""How figures are read and compared."""

from __future__ import annotations

import math

import pytest

from benchmarks.ratios import figures, ratio, ratios, table


def test_lines_with_a_number_are_figures() -> None:
    said = """
tasks per second: 1790
entitlement ms, 3 classes: 92.1
small: 1.5e-05
job state: SUCCEEDED
round 1: load 3.1, others 10%
tasks per second, filling: 80
tasks per second, filling: 90
"""
    assert figures(said) == {
        "tasks per second": 1790,
        "entitlement ms, 3 classes": 92.1,
        "small": 1.5e-05,
        "tasks per second, filling": 90,
    }


def test_the_mean_is_geometric() -> None:
    found = ratio("ms", [10, 10], [20, 5])
    assert found.mean == pytest.approx(1)
    assert (found.least, found.most) == pytest.approx((0.5, 2))
    assert (found.old, found.new) == (10, 12.5)


def test_the_interval_is_of_students_t() -> None:
    # Logarithms 0.1, 0.2, 0.3: mean 0.2, standard deviation 0.1; t for 2 degrees of freedom is 4.303.
    found = ratio("ms", [1, 1, 1], [math.exp(0.1), math.exp(0.2), math.exp(0.3)])
    off = 4.303 * 0.1 / math.sqrt(3)
    assert math.log(found.low) == pytest.approx(0.2 - off)
    assert math.log(found.high) == pytest.approx(0.2 + off)


def test_many_rounds_take_the_normal_quantile() -> None:
    found = ratio("ms", [1.0] * 20, [math.exp(0.1), math.exp(0.3)] * 10)
    deviation = math.sqrt(20 * 0.01 / 19)
    assert math.log(found.high) - 0.2 == pytest.approx(1.96 * deviation / math.sqrt(20))


@pytest.mark.parametrize(
    ("name", "new", "verdict"),
    [
        ("gangs per second", 2, "better"),
        ("gangs per second", 0.5, "worse"),
        ("gangs per second, filling", 2, "better"),
        ("entitlement ms", 2, "worse"),
        ("entitlement ms", 0.5, "better"),
    ],
)
def test_a_clear_difference_has_a_verdict(name: str, new: float, verdict: str) -> None:
    assert ratio(name, [1, 1.01, 1], [new, new, new * 1.01]).verdict == verdict


def test_noise_and_one_round_have_no_verdict() -> None:
    assert ratio("ms", [1, 1, 1], [2, 0.6, 1]).verdict == ""
    assert ratio("ms", [1], [2]).verdict == ""


def test_only_what_all_rounds_have_is_compared() -> None:
    old = [{"a": 1.0, "gone": 1.0, "zero": 0.0, "once": 1.0}, {"a": 1.0, "gone": 1.0, "zero": 1.0}]
    new = [{"a": 2.0, "new": 1.0, "zero": 1.0, "once": 1.0}, {"a": 2.0, "new": 1.0, "zero": 1.0}]
    assert [row.name for row in ratios(old, new)] == ["a"]


def test_the_table_has_a_line_per_figure() -> None:
    lines = table(
        [ratio("entitlement ms", [10, 10, 10.1], [20, 20.2, 20]), ratio("b", [1], [2])]
    ).splitlines()
    assert lines[0].split() == ["figure", "old", "new", "new/old", "95", "%", "interval", "min..max"]
    assert lines[1].startswith("entitlement ms") and lines[1].endswith("worse")
    assert lines[2].split() == ["b", "1", "2", "2.000", "2.000..2.000"]
