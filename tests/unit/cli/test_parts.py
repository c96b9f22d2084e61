"""Progress, tables, times, arguments."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.failures import CallFailed
from peloton.cli.output import json_text, table
from peloton.cli.params import Duration, InstanceRange, Labels
from peloton.cli.progress import RETRY_SECONDS, LiveLine, PlainLine, describe, follow, seen_job
from peloton.client.sandbox import file_data, path_of
from peloton.errors import PelotonError
from peloton.present.times import parse_time, run_time, short_time


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def reader(*answers: Any) -> Callable[[], Any]:
    left = list(answers)

    def read() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, Exception):
            raise answer
        return seen_job(answer)

    return read


def info(state: str, **counts: int) -> job_pb2.JobInfo:
    runtime = job_pb2.RuntimeInfo(state=job_pb2.JobState.Value(state), taskStats=counts)
    return job_pb2.JobInfo(config=job_pb2.JobConfig(instanceCount=4), runtime=runtime)


AWAY = CallFailed("UNAVAILABLE", "nobody there")


def test_follow_gives_up_after_the_retry_time() -> None:
    clock = Clock()
    with pytest.raises(CallFailed, match="nobody there"):
        follow(reader(info("RUNNING"), AWAY), PlainLine(io.StringIO(), clock), sleep=clock.sleep, clock=clock)
    assert RETRY_SECONDS < clock.now < RETRY_SECONDS + 2


def test_follow_ends_on_a_permanent_failure() -> None:
    clock = Clock()
    gone = CallFailed("NOT_FOUND", "job not found")
    with pytest.raises(CallFailed, match="not found"):
        follow(reader(gone), PlainLine(io.StringIO(), clock), sleep=clock.sleep, clock=clock)
    assert clock.now == 0


def test_plain_lines_are_limited_and_show_every_state() -> None:
    clock, out = Clock(), io.StringIO()
    counts = [info("RUNNING", RUNNING=4 - done, SUCCEEDED=done) for done in (0, 1, 2, 3)]
    end = info("SUCCEEDED", SUCCEEDED=4)
    found = follow(
        reader(info("PENDING", PENDING=4), *counts, end),
        PlainLine(out, clock),
        sleep=clock.sleep,
        clock=clock,
    )
    assert found is end
    assert out.getvalue().splitlines() == [
        "PENDING  0/4 ended: PENDING 4",
        "RUNNING  0/4 ended: RUNNING 4",
        "SUCCEEDED  4/4 ended: SUCCEEDED 4",
    ]


def test_live_line_is_redrawn_in_place() -> None:
    out = Terminal()
    line = LiveLine(out)
    line.update("RUNNING  1/4 ended")
    line.update("SUCCEEDED  4/4 ended", important=True)
    line.close()
    assert "\x1b[2K" in out.getvalue() and out.getvalue().count("\n") == 1
    assert out.getvalue().rfind("SUCCEEDED") > out.getvalue().rfind("RUNNING")


def test_describe_covers_every_state() -> None:
    states = [name for name in task_pb2.TaskState.keys() if name not in ("UNKNOWN", "DELETED")]  # noqa: SIM118
    text = describe("RUNNING", dict.fromkeys([*states, "NEW_ONE"], 1), 30)
    assert text.startswith("RUNNING  4/30 ended: SUCCEEDED 1, FAILED 1, LOST 1, KILLED 1, KILLING 1")
    assert text.endswith("INITIALIZED 1, NEW_ONE 1")
    assert describe("PENDING", {}, 3) == "PENDING  0/3 ended"


@given(
    st.lists(st.tuples(st.text(max_size=20), st.floats() | st.integers() | st.text(max_size=5)), max_size=5)
)
def test_table_has_one_line_per_row(rows: list[tuple[object, ...]]) -> None:
    text = table(("First", "Second"), rows)
    lines = text.split("\n")
    assert len(lines) == len(rows) + 1
    assert all(line.isprintable() for line in lines)


def test_wide_letters_take_two_columns() -> None:
    assert table(("A", "B"), [("数据", "x"), ("e\u0301", "y")]) == "A     B\n数据  x\ne\u0301     y"


def test_numbers_in_tables() -> None:
    shown = table(("A",), [(2.0,), (0.25,), (1234567.0,), (0.0,), (7,)]).split("\n")
    assert shown == ["A", "2", "0.25", "1234567", "0", "7"]


def test_json_of_infinity_and_nan() -> None:
    message = task_pb2.ResourceConfig(cpuLimit=float("inf"), memLimitMb=float("nan"))
    assert json.loads(json_text(message))["cpuLimit"] == "Infinity"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20s", 20), ("5m", 300), ("1m30s", 90), ("500ms", 0.5), ("1h", 3600), ("7", 7), ("1.5", 1.5)],
)
def test_durations(text: str, seconds: float) -> None:
    assert Duration().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "0", "1d", "1s1", "٣s", "1.2.3", "99999999h", "nan", "inf"])
def test_invalid_durations(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Duration().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "span"),
    [("0:10", (0, 10)), ("3", (3, 4)), (":5", (0, 5)), ("5:", (5, 2**31 - 1)), (":", (0, 2**31 - 1))],
)
def test_ranges(text: str, span: tuple[int, int]) -> None:
    assert InstanceRange().convert(text, None, None) == span


@pytest.mark.parametrize("text", ["", "a", "1:1", "2:1", "-1:2", "1:2:3", "1-2", "0:4294967296", "٣"])
def test_invalid_ranges(text: str) -> None:
    with pytest.raises(click.BadParameter):
        InstanceRange().convert(text, None, None)


def test_labels() -> None:
    assert Labels().convert("a=b, c=d=e,f=", None, None) == [("a", "b"), ("c", "d=e"), ("f", "")]


def test_times() -> None:
    assert parse_time("1970-01-01T00:00:01.5Z") == 1.5
    assert parse_time("1970-01-01T01:00:00.123456789+01:00") == pytest.approx(0.123456789)
    assert short_time("2026-01-31T12:00:00.999999999Z") == "2026-01-31T12:00:00Z"
    assert (short_time(""), short_time("soon")) == ("", "soon")
    assert short_time("2026-13-31T12:00:00Z") == "2026-13-31T12:00:00Z"
    assert run_time("1970-01-01T00:00:10Z", "", 3700.9) == "01:01:30"
    assert run_time("", "1970-01-01T00:00:10Z", 0) == ""
    assert run_time("1970-01-01T00:00:10Z", "1970-01-01T00:00:09Z", 0) == "00:00:00"


def test_paths_of_a_sandbox() -> None:
    paths = ["/x/latest/a/stdout", "/x/latest/stdout", "/x/latest/stdout.1"]
    assert path_of(paths, "stdout") == "/x/latest/stdout"
    assert path_of(paths, "a/stdout") == "/x/latest/a/stdout"
    assert path_of(paths, "out") is None


def test_file_data_keeps_invalid_utf_8() -> None:
    assert file_data(b'{"data":"a\\n\xff\xc3\xa9","offset":0}') == b"a\n\xff\xc3\xa9"
    for broken in (b"", b"[]", b'{"offset": 3}', b'{"data": "'):
        with pytest.raises(PelotonError):
            file_data(broken)
