"""Amounts over time in a bounded number of points."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.model.course import Course

BEGIN = 1_700_000_000.0


def test_a_short_course_has_all_that_was_told() -> None:
    course = Course(BEGIN, 2)
    assert list(course.points()) == []
    course.add(BEGIN + 30, (1.0, 100.0))
    course.add(BEGIN + 60, (2.0, 200.0))
    assert list(course.points()) == [(BEGIN + 30, [1.0, 100.0]), (BEGIN + 60, [2.0, 200.0])]


def test_what_is_not_later_is_left_out() -> None:
    course = Course(BEGIN, 1)
    course.add(BEGIN + 30, (1.0,))
    course.add(BEGIN + 30, (9.0,))
    course.add(BEGIN - 30, (9.0,))
    assert list(course.points()) == [(BEGIN + 30, [1.0])]


def test_spans_that_are_too_short_become_one_point() -> None:
    course = Course(BEGIN, 1, span=60)
    for until, amount in ((20, 3.0), (60, 6.0), (90, 1.0)):
        course.add(BEGIN + until, (amount,))
    assert list(course.points()) == [(BEGIN + 60, [5.0]), (BEGIN + 90, [1.0])]


@given(
    st.lists(st.tuples(st.floats(1, 1000), st.floats(0, 100)), min_size=1, max_size=400), st.integers(2, 20)
)
def test_points_are_few_and_keep_the_sum(told: list[tuple[float, float]], most: int) -> None:
    course = Course(BEGIN, 1, most)
    until, total = BEGIN, 0.0
    for seconds, amount in told:
        until += seconds
        total += seconds * amount
        course.add(until, (amount,))
    points = list(course.points())
    assert 1 <= len(points) <= most
    ends = [end for end, _ in points]
    assert ends == sorted(set(ends))
    assert ends[-1] == pytest.approx(until, abs=1)
    starts = [BEGIN, *ends]
    summed = sum((end - start) * amounts[0] for start, (end, amounts) in zip(starts, points, strict=False))
    assert summed == pytest.approx(total, rel=1e-2, abs=1)
    least, most_told = min(amount for _, amount in told), max(amount for _, amount in told)
    assert all(least - 1e-2 <= amounts[0] <= most_told + 1e-2 for _, amounts in points)
