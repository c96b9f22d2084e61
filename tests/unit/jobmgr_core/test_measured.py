"""What runs have used: by samples, by what agents tell at the end, and by what a real Mesos told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobmgr.core.state.measured import Sample, follow, used
from peloton.mesos.agent_usage import usages
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus
from peloton.model.usage import BYTES_PER_MB, PEAK_MEMORY, USED_CPU, USED_MEMORY, Reading

SECOND = 1_000_000_000
START = 1_700_000_000 * SECOND


def reading(at: float, cpu: float, memory: float, peak: float = 0) -> Reading:
    mb = [round(each * BYTES_PER_MB) for each in (memory, peak)]
    return Reading(START + round(at * SECOND), round(cpu * SECOND), *mb)


def sampled(*readings: Reading) -> Sample:
    found: Sample | None = None
    for each in readings:
        found = follow(found, 1, START, each)
    assert found is not None
    return found


def end(cpu: float = 0, peak: float = 0) -> TaskStatus:
    return TaskStatus(
        "j-0-1", TaskState.FAILED, 0, cpu_time=round(cpu * SECOND), memory_peak=round(peak * BYTES_PER_MB)
    )


def span(seconds: float) -> tuple[int, int]:
    return START, START + round(seconds * SECOND)


def test_memory_between_readings_is_their_mean() -> None:
    sample = sampled(reading(10, 5, 100), reading(30, 25, 300, 350))
    assert sample.memory_seconds == pytest.approx(10 * 100 + 20 * 200)
    assert used(sample, end(cpu=40, peak=360), span(40)) == pytest.approx(
        {USED_CPU: 40, USED_MEMORY: 1000 + 4000 + 10 * 300, PEAK_MEMORY: 360}
    )


def test_what_comes_after_the_last_reading_is_as_before_where_the_end_tells_nothing() -> None:
    sample = sampled(reading(20, 10, 100), reading(50, 40, 100))
    found = used(sample, end(), span(60))
    assert found == pytest.approx({USED_CPU: 48, USED_MEMORY: 6000, PEAK_MEMORY: 100})


def test_an_end_without_a_reading_counts_by_its_peak() -> None:
    found = used(None, end(cpu=1.5, peak=200), span(4))
    assert found == pytest.approx({USED_CPU: 1.5, USED_MEMORY: 800, PEAK_MEMORY: 200})


def test_nothing_is_known_of_runs_that_nobody_measured_or_that_did_not_start() -> None:
    assert used(None, end(), span(60)) == {}
    assert used(None, end(cpu=1), (0, START)) == {}


def test_readings_that_are_late_or_of_an_earlier_run_change_nothing() -> None:
    sample = sampled(reading(20, 10, 100))
    assert follow(sample, 1, START, reading(20, 99, 999)) is sample
    assert follow(sample, 1, START, reading(10, 99, 999)) is sample
    fresh = follow(sample, 2, START + 20 * SECOND, reading(30, 1, 50))
    assert (fresh.run, fresh.last.cpu) == (2, SECOND)
    assert fresh.memory_seconds == pytest.approx(500)


def test_an_account_never_falls_where_an_agent_counts_anew() -> None:
    sample = sampled(reading(10, 8, 100), reading(20, 1, 100))
    assert sample.last.cpu == 8 * SECOND
    assert used(sample, end(), span(20))[USED_CPU] == 8


def test_what_a_real_mesos_told() -> None:
    """The answer to `GET /containers` of Apache Mesos 1.x, recorded: a task of 0.2 s of CPU time.

    The agent rounds to its ticks of 10 ms; it told 0.04 s of the system and 0.16 s of the user.
    """
    listing = json.loads((Path(__file__).parent / "mesos_containers.json").read_text())
    found = usages(listing, "a:5051")
    assert set(found) == {"s-1"}
    told = found["s-1"].reading
    assert told.cpu == pytest.approx(0.2 * SECOND, rel=0.05)
    assert (told.memory, told.peak) == (423_219_200, 0)
    start = told.at - 2 * SECOND
    sample = follow(None, 1, start, told)
    counted = used(sample, end(), (start, told.at))
    assert counted[USED_CPU] == pytest.approx(0.2, rel=0.05)
    assert counted[PEAK_MEMORY] == pytest.approx(423_219_200 / BYTES_PER_MB)
    assert counted[USED_MEMORY] == pytest.approx(2 * 423_219_200 / BYTES_PER_MB)
