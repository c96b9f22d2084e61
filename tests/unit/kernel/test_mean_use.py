from __future__ import annotations

import pytest

from peloton.model.mean_use import MeanUse, mean_use

Points = list[tuple[float, float, float]]


@pytest.mark.parametrize(
    ("points", "since", "expected"),
    [
        ([], 0.0, MeanUse(0.0, 0.0)),
        ([(110.0, 4.0, 1.0), (120.0, 4.0, 3.0)], 0.0, MeanUse(0.5, 20.0)),
        ([(110.0, 4.0, 1.0), (120.0, 4.0, 3.0)], 115.0, MeanUse(0.75, 5.0)),
        ([(110.0, 4.0, 1.0)], 110.0, MeanUse(0.0, 0.0)),
        ([(110.0, 0.0, 0.0), (120.0, 2.0, 1.0)], 0.0, MeanUse(0.5, 10.0)),
        ([(110.0, 8.0, 0.0), (140.0, 2.0, 2.0)], 0.0, MeanUse(60 / 140, 40.0)),
    ],
    ids=["none", "all", "from within a point", "before", "while nothing was held", "weighed by what is held"],
)
def test_the_part_that_was_used(points: Points, since: float, expected: MeanUse) -> None:
    assert mean_use(points, 100.0, since) == pytest.approx(expected)
