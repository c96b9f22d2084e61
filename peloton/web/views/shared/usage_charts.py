"""Charts of what jobs, instances and hosts use over time, beside what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from peloton.model.accounting import HOUR_SECONDS
from peloton.model.amounts import scale_of, short
from peloton.web.charts import Chart, Series, chart

if TYPE_CHECKING:
    from peloton.private.hostmgr.sampling.sampling_pb2 import HostUsage
    from peloton.private.jobmgr.usage.usage_pb2 import CoursePoint, GetJobAccountResponse, InstanceUsage


class Point(NamedTuple):
    """Mean amounts in the time that ends at `until`, in seconds since 1970, which begins at `since`."""

    since: float
    until: float
    held_cores: float
    used_cores: float
    held_mb: float
    used_mb: float


def job_charts(account: GetJobAccountResponse) -> tuple[Chart, ...]:
    """Return charts of a job: by hours, and from where they are known by shorter times."""
    begin = account.course_begin if account.course else float("inf")
    hours = [
        Point(
            each.start,
            each.start + HOUR_SECONDS,
            each.amounts.held_cpu / HOUR_SECONDS,
            each.amounts.used_cpu / HOUR_SECONDS,
            each.amounts.held_memory / HOUR_SECONDS,
            each.amounts.used_memory / HOUR_SECONDS,
        )
        for each in account.hours
        if each.start + HOUR_SECONDS <= begin
    ]
    return _charts([*hours, *_course(account.course_begin, account.course)], "Held")


def instance_charts(usage: InstanceUsage) -> tuple[Chart, ...]:
    """Return charts of the present run of an instance."""
    return _charts(list(_course(usage.course_begin, usage.course)), "Asked for")


def host_charts(usage: HostUsage, held: tuple[float, float] | None) -> tuple[Chart, ...]:
    """Return charts of what the tasks on a host use, beside the cores and MB that they hold now, if given."""
    points, since = [], usage.course_begin
    cores, memory = held or (0.0, 0.0)
    for each in usage.course:
        points.append(Point(since, each.until, cores, each.cores, memory, each.memory_mb))
        since = each.until
    return _charts(points, "Allocated now" if held else "")


def _course(begin: float, course: Iterable[CoursePoint]) -> Iterable[Point]:
    for each in course:
        yield Point(begin, each.until, each.held_cores, each.used_cores, each.held_mb, each.used_mb)
        begin = each.until


def _charts(points: Sequence[Point], held: str) -> tuple[Chart, ...]:
    """Return a chart of cores and one of memory; none where nothing was held or used yet.

    `held` is the name of the line of what was held; empty: there is none.
    """
    if not any(max(each[2:]) for each in points):
        return ()
    first = points[0]
    times = [first.since, *(each.until for each in points)]
    shown = [first, *points]
    cores = chart(
        "CPU",
        _series(held, [each.held_cores for each in shown], [each.used_cores for each in shown]),
        times,
        short,
        "cores",
    )
    divisor, unit = scale_of(max(max(each.held_mb, each.used_mb) for each in shown), "memory")
    memory = chart(
        "Memory",
        _series(held, [each.held_mb / divisor for each in shown], [each.used_mb / divisor for each in shown]),
        times,
        short,
        unit,
    )
    return cores, memory


def _series(held: str, amounts: Sequence[float], used: Sequence[float]) -> tuple[Series, ...]:
    shown = Series("Used", "allocation", used, filled=True)
    return (shown, Series(held, "limit", amounts)) if held else (shown,)
