"""What jobs hold and use over time."""

from __future__ import annotations

import pytest

from jobmgr.core.job_courses import JobCourses
from peloton.model.accounting import MICRO, Amounts

BEGIN = 1_700_000_000.0


def total(held: float, used: float, mb: float = 0.0, used_mb: float = 0.0) -> Amounts:
    held_cpu, used_cpu, memory, used_memory = (round(each * MICRO) for each in (held, used, mb, used_mb))
    return Amounts(held_cpu, 0, memory, used_cpu, used_memory)


def points(courses: JobCourses, job_id: str = "j") -> list[tuple[float, list[float]]]:
    return [
        (until - BEGIN, [round(each, 3) for each in amounts]) for until, amounts in courses.points(job_id)
    ]


def test_means_follow_from_totals() -> None:
    courses = JobCourses()
    courses.take("j", BEGIN, BEGIN + 60, total(120, 30, 6000, 600))
    courses.take("j", BEGIN, BEGIN + 120, total(180, 90, 12000, 6600))
    assert courses.begin("j") == BEGIN
    assert points(courses) == [(60, [2, 0.5, 100, 10]), (120, [1, 1, 100, 100])]


def test_a_course_begins_now_where_something_was_taken_by_an_earlier_leader() -> None:
    courses = JobCourses()
    courses.take("j", None, BEGIN, total(1000, 1000))
    courses.take("j", None, BEGIN + 10, total(1020, 1010))
    assert points(courses) == [(10, [2, 1, 0, 0])]


def test_corrections_and_late_totals_never_make_it_negative() -> None:
    courses = JobCourses()
    courses.take("j", BEGIN, BEGIN + 60, total(60, 60))
    courses.take("j", BEGIN, BEGIN + 50, total(500, 500))
    courses.take("j", BEGIN, BEGIN + 120, total(30, 90))
    assert points(courses) == [(60, [1, 1, 0, 0]), (120, [0, 0.5, 0, 0])]


def test_the_jobs_that_changed_last_are_kept() -> None:
    courses = JobCourses(most=2)
    for number, job_id in enumerate(("a", "b", "a", "c")):
        courses.take(job_id, BEGIN, BEGIN + 60 * (number + 1), total(60 * (number + 1), 0))
    assert points(courses, "b") == [] and courses.begin("b") == 0
    assert len(points(courses, "a")) == 2
    assert points(courses, "c") == [(240, [1, 0, 0, 0])]
    with pytest.raises(StopIteration):
        next(courses.points("never"))
