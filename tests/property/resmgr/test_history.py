"""Rings of samples against a plain list of everything that was sampled."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resmgr.core.monitoring.history import DAY_SAMPLES, LONG_STEP_MINUTES, MINUTES, History

START = 28_000_003
GAPS = st.lists(
    st.one_of(st.just(1), st.integers(1, 3 * MINUTES), st.integers(1, 2 * DAY_SAMPLES * LONG_STEP_MINUTES)),
    max_size=40,
)


def mean(samples: dict[int, float], first: int) -> float:
    held = [samples[minute] for minute in range(first, first + LONG_STEP_MINUTES) if minute in samples]
    return sum(held) / len(held) if held else math.nan


@given(gaps=GAPS)
def test_an_hour_and_a_day_are_what_was_sampled(gaps: list[int]) -> None:
    history, taken, minute = History(2), dict[int, float](), START
    for number, gap in enumerate(gaps):
        minute += gap
        taken[minute] = float(number)
        history.sample(minute, {"a": [number, -number]})
    hour, day = history.hour("a"), history.day("a")
    if not gaps:
        assert hour is None and day is None
        return
    assert hour is not None and day is not None
    assert hour.start + MINUTES - 1 == minute
    expected = [taken.get(each, math.nan) for each in range(hour.start, minute + 1)]
    np.testing.assert_allclose(hour.values[:, 0], expected)
    np.testing.assert_allclose(hour.values[:, 1], [-each for each in expected])
    firsts = range(day.start, day.start + DAY_SAMPLES * LONG_STEP_MINUTES, LONG_STEP_MINUTES)
    assert minute in range(firsts[-1], firsts[-1] + LONG_STEP_MINUTES)
    # What was measured in the first of these five minutes, before the day began, is still part of their mean.
    np.testing.assert_allclose(day.values[:, 0], [mean(taken, first) for first in firsts], rtol=1e-6)


def test_subjects_come_and_go_and_are_bounded() -> None:
    history = History(1, most=2)
    history.sample(1, {"a": [1], "b": [2], "c": [3]})
    assert len(history) == 2 and history.hour("c") is None
    history.sample(2, {"b": [2], "c": [3]})
    assert history.hour("a") is None
    found = history.hour("c")
    assert found is not None and np.isnan(found.values[:-1]).all() and found.values[-1, 0] == 3


def test_a_clock_that_was_set_back_changes_nothing() -> None:
    history = History(1)
    history.sample(10, {"a": [1]})
    history.sample(9, {"a": [5]})
    found = history.hour("a")
    assert found is not None and found.start + MINUTES - 1 == 10
    assert np.nansum(found.values) == pytest.approx(1)
