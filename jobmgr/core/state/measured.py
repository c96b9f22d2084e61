"""What runs have used, as their agents measure it: by samples while they run, and by some agents at the end.

Agents of Apache Mesos tell nothing at the end of a run: what it used after its last sample is taken to be
what it used before, on average.
"""

from __future__ import annotations

from typing import NamedTuple

from peloton.model.course import MOST_POINTS, Course
from peloton.model.task import TaskStatus
from peloton.model.usage import BYTES_PER_MB, PEAK_MEMORY, USED_CPU, USED_MEMORY, Reading

NANOSECONDS = 1_000_000_000
POINTS_OF_A_JOB = 200_000
"""Of the courses of all runs of a job; none of them has fewer than LEAST_POINTS."""
LEAST_POINTS = 8
Span = tuple[int, int]
"""Start and end of a run, in nanoseconds since 1970; a start of 0 means that it did not start."""


def points_of_runs(runs: int) -> int:
    """Return how many points the course of a run has in a job of many runs: memory is bounded."""
    return max(min(MOST_POINTS, POINTS_OF_A_JOB // max(runs, 1)), LEAST_POINTS)


class Sample(NamedTuple):
    """What a run that lives has used so far."""

    run: int
    last: Reading
    memory_seconds: float
    """MB × seconds from the start of the run to the last reading."""
    cores: float
    """CPU time per second between the last two readings; from the start of the run to the first one."""
    course: Course
    """Cores and MB over time. It is changed in place: the samples of a run share it."""


def follow(before: Sample | None, run: int, start: int, reading: Reading, most: int = MOST_POINTS) -> Sample:
    """Return a sample with the next reading. `start`: of the run, in nanoseconds since 1970, 0 if unknown.

    The memory between two readings is taken to be their mean, and that before the first one to be the same.
    A new course has at most `most` points.
    """
    if before is None or before.run != run:
        return _first(run, min(start or reading.at, reading.at), reading, most)
    last = before.last
    if reading.at <= last.at:
        return before
    seconds = (reading.at - last.at) / NANOSECONDS
    cpu = max(last.cpu, reading.cpu)
    cores = (cpu - last.cpu) / NANOSECONDS / seconds
    mean = (last.memory + reading.memory) / 2 / BYTES_PER_MB
    before.course.add(reading.at / NANOSECONDS, (cores, mean))
    kept = Reading(reading.at, cpu, reading.memory, max(last.peak, reading.peak, reading.memory))
    return Sample(run, kept, before.memory_seconds + mean * seconds, cores, before.course)


def _first(run: int, start: int, reading: Reading, most: int) -> Sample:
    seconds, memory = (reading.at - start) / NANOSECONDS, reading.memory / BYTES_PER_MB
    cores = reading.cpu / NANOSECONDS / seconds if seconds else 0.0
    course = Course(start / NANOSECONDS, 2, most)
    course.add(reading.at / NANOSECONDS, (cores, memory))
    return Sample(run, _with_peak(reading), memory * seconds, cores, course)


def _with_peak(reading: Reading) -> Reading:
    return reading._replace(peak=max(reading.peak, reading.memory))


def used(sample: Sample | None, status: TaskStatus, span: Span) -> dict[str, float]:
    """Return the usage of a run that has ended, by kind; empty where nothing is known.

    Where only the end is told, the peak of memory counts for all of the run.
    """
    start, end = span
    if not start or end < start or (sample is None and not status.cpu_time and not status.memory_peak):
        return {}
    if sample is None:
        peak = status.memory_peak / BYTES_PER_MB
        return {
            USED_CPU: status.cpu_time / NANOSECONDS,
            USED_MEMORY: peak * (end - start) / NANOSECONDS,
            PEAK_MEMORY: peak,
        }
    last = sample.last
    rest = max(end - last.at, 0)
    return {
        USED_CPU: (max(status.cpu_time, last.cpu) if status.cpu_time else _extended(last, span))
        / NANOSECONDS,
        USED_MEMORY: sample.memory_seconds + last.memory / BYTES_PER_MB * rest / NANOSECONDS,
        PEAK_MEMORY: max(last.peak, status.memory_peak) / BYTES_PER_MB,
    }


def _extended(last: Reading, span: Span) -> float:
    start, end = span
    lived = last.at - start
    return last.cpu * (end - start) / lived if lived > 0 and end > last.at else last.cpu
