"""Sorting in steps gives what sorting at once does."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from resmgr.core.preemption.row_sorting import sort
from tests.unit.resmgr.world import whole

ROWS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(-5, 5), st.sampled_from((0.0, 0.5, 1e9))), max_size=40
)


@given(ROWS, st.integers(1, 12))
def test_rows_are_sorted_by_all_columns_and_then_by_row(
    rows: list[tuple[int, int, float]], at_once: int
) -> None:
    columns = [np.array([row[i] for row in rows]) for i in range(3)]
    expected = sorted(range(len(rows)), key=lambda row: (*rows[row], row))
    assert whole(sort(columns, at_once)).tolist() == expected
    steps = sum(1 for _ in sort(columns, at_once))
    assert steps >= (len(rows) - 1) // at_once
