"""What jobs hold and use over time, in few points: for charts of the time in which hours tell too little."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from peloton.model.accounting import MICRO, NOTHING, Amounts
from peloton.model.course import Course
from peloton.model.ids import JobId

MOST_JOBS = 10_000
"""Courses that are kept: those of the jobs that changed last."""
WIDTH = 4
"""Cores held and used, MB held and used."""


class Point(NamedTuple):
    """Mean amounts from one time to another."""

    since: float
    until: float
    amounts: Sequence[float]
    """Cores held and used, MB held and used."""


class JobCourses:
    """The courses of jobs, by what each has held and used in all. Times are seconds since 1970."""

    def __init__(self, most: int = MOST_JOBS) -> None:
        self._most = most
        self._courses: OrderedDict[JobId, Course] = OrderedDict()
        self._last: dict[JobId, tuple[float, Amounts]] = {}

    def take(self, job_id: JobId, begin: float | None, at: float, total: Amounts) -> Point | None:
        """Take what a job has held and used in all up to `at`; return what came, None where nothing did.

        `begin`: when a job began of which nothing was taken before; None: its course begins now.
        """
        course = self._courses.get(job_id)
        if course is None:
            begin, before = (at, total) if begin is None else (begin, NOTHING)
            course = self._courses[job_id] = Course(begin, WIDTH)
            self._last[job_id] = begin, before
            self._make_room()
        last, before = self._last[job_id]
        if at <= last:
            return None
        mean = _mean(total.minus(before), at - last)
        course.add(at, mean)
        self._last[job_id] = at, total
        self._courses.move_to_end(job_id)
        return Point(last, at, mean)

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Forget jobs whose courses another instance follows from now on."""
        for job_id in [job_id for job_id in self._courses if dropped(job_id)]:
            del self._courses[job_id], self._last[job_id]

    def points(self, job_id: JobId) -> Iterator[tuple[float, Sequence[float]]]:
        """Yield when each point ends, and cores held and used, MB held and used; none of an unknown job."""
        course = self._courses.get(job_id)
        return iter(()) if course is None else course.points()

    def begin(self, job_id: JobId) -> float:
        """Return when the course of a job begins; 0 for an unknown one."""
        course = self._courses.get(job_id)
        return 0.0 if course is None else course.begin

    def _make_room(self) -> None:
        while len(self._courses) > self._most:
            job_id, _ = self._courses.popitem(last=False)
            del self._last[job_id]


def _mean(more: Amounts, seconds: float) -> list[float]:
    amounts = (more.held_cpu, more.used_cpu, more.held_memory, more.used_memory)
    return [max(amount, 0) / MICRO / seconds for amount in amounts]
