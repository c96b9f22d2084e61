"""How values are shown, and the geometry of charts."""

from __future__ import annotations

import math

import pytest

from peloton.model.amounts import short
from peloton.model.states import TaskState
from peloton.web.charts import Series, chart, nice
from peloton.web.formats import ago, breakable, seconds_of, state_of, with_query


def test_a_time_is_relative_to_now() -> None:
    assert (ago(100, 100), ago(40, 100), ago(100, 30)) == ("now", "1 min ago", "in 1 min")


def test_a_path_breaks_between_its_parts() -> None:
    assert breakable("/api/peloton.api.v0.job.JobManager/Get") == (
        "/<wbr>api/<wbr>peloton.<wbr>api.<wbr>v0.<wbr>job.<wbr>Job<wbr>Manager/<wbr>Get"
    )
    assert breakable("/a<b>/x") == "/<wbr>a&lt;b&gt;/<wbr>x"


def test_a_time_of_the_wire_is_read() -> None:
    assert seconds_of("") == 0
    assert seconds_of("2023-11-14T22:13:20.123456789Z") == pytest.approx(1_700_000_000.123, abs=0.001)


def test_a_query_keeps_its_other_parameters() -> None:
    assert with_query("/jobs?a=1&sort=x", sort="y", page=None) == "/jobs?a=1&sort=y"
    assert with_query("/jobs?page=2", page=None) == "/jobs"
    assert with_query("/jobs", label="a=b&c") == "/jobs?label=a%3Db%26c"


def test_every_state_of_a_task_has_a_look_of_its_own() -> None:
    plain = [state.name for state in TaskState if state_of(state.name).tone == "plain"]
    assert plain in ([], ["UNKNOWN"])
    assert state_of("POD_STATE_RUNNING") == state_of("running")


@pytest.mark.parametrize(
    ("value", "top"), [(0, 1), (1, 1), (1.1, 2), (3, 4), (41, 50), (620, 800), (0.3, 0.4)]
)
def test_the_top_of_an_axis_is_a_round_number(value: float, top: float) -> None:
    assert nice(value) == pytest.approx(top)


def test_a_line_has_gaps_where_nothing_was_measured() -> None:
    series = Series("allocation", "allocation", [1.0, math.nan, 2.0, 4.0])
    made = chart("CPU", [series], [0.0, 60.0, 120.0, 180.0], short)
    assert made.lines[0].path.count("M") == 2
    assert made.lines[0].last == "4"
    assert made.y_ticks[-1][1] == "4"


def test_a_chart_without_values_says_so() -> None:
    assert "nothing was recorded" in chart("CPU", [Series("a", "a", [])], [], short).description
