"""Charts of what the resource manager has sampled over the last hour and day."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from starlette.datastructures import QueryParams

from peloton.calls.web import GET_CLUSTER_HISTORY, LIST_ACCOUNTS
from peloton.errors import InvalidArgument, PelotonError, Unauthenticated
from peloton.model.accounting import DAY_SECONDS, HOUR_SECONDS
from peloton.model.amounts import scale_of, short
from peloton.model.resources import KINDS
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.web.charts import Chart, Series, chart
from peloton.web.cluster import Calls
from peloton.web.formats import KINDS as SHOWN

if TYPE_CHECKING:
    from peloton.private.resmgr.monitoring.monitoring_pb2 import GetHistoryResponse

HOUR, DAY, WEEK, MONTH = "hour", "day", "week", "month"
FEWEST = 12
"""Samples that a chart shows at least: where the history is short, it begins with the first one."""
SPANS: Mapping[str, str] = {
    HOUR: "Last hour",
    DAY: "Last day",
    WEEK: "Last week",
    MONTH: "Last 5 weeks",
}
DAYS: Mapping[str, int] = {WEEK: 7, MONTH: 35}
DAYS_AGE = 60.0
"""How old a chart of days may be, in seconds: its values are means of an hour."""
Values = Mapping[tuple[str, str], Sequence[float]]
"""By the name of the series and the kind."""
Used = Mapping[str, Mapping[int, float]]
"""By kind, and by the begin of hours in seconds since 1970."""
NOTHING_USED: Used = {}
Lines = Sequence[tuple[str, str, Sequence[float]]]
"""Label, style and values of each line."""


def span_of(query: QueryParams, usual: str) -> str:
    """Return the span that an address asks for. Raises InvalidArgument."""
    span = query.get("span") or usual
    if span not in SPANS:
        raise InvalidArgument("span", span, f"one of {', '.join(SPANS)}")
    return span


async def read_history(calls: Calls, span: str, pool_id: str = "") -> tuple[GetHistoryResponse, str]:
    """Return the samples of a pool, or of the cluster, or why they are not known."""
    days = DAYS.get(span, 0)
    request = pb.GetHistoryRequest(pool_id=pool_id, hour=span == HOUR, days=days)
    try:
        return await calls.read(GET_CLUSTER_HISTORY, request, DAYS_AGE if days else None), ""
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return pb.GetHistoryResponse(), f"the history is not known: {error}"


async def read_used(calls: Calls, span: str, path: str, now: float) -> Used:
    """Return what a pool and those below it have used, in means of hours; nothing where it is not known.

    There is none over the last hour: accounts are kept by hours.
    """
    if span == HOUR:
        return {}
    since = int(now) // HOUR_SECONDS * HOUR_SECONDS - DAYS.get(span, 1) * DAY_SECONDS
    request = usage_pb2.ListAccountsRequest(since=since, seconds=HOUR_SECONDS, pool=path)
    try:
        answer = await calls.read(LIST_ACCOUNTS, request, DAYS_AGE)
    except Unauthenticated:
        raise
    except PelotonError:  # who may see the pool may not see accounts, or jobmgr is away: the rest is shown
        return {}
    found: dict[str, dict[int, float]] = {"cpu": {}, "memory": {}}
    for each in answer.accounts:
        seconds = min(HOUR_SECONDS, max(now - each.start, 1.0))
        found["cpu"][each.start] = each.amounts.used_cpu / seconds
        found["memory"][each.start] = each.amounts.used_memory / seconds
    return found


def values_of(answer: GetHistoryResponse) -> Values:
    """Return the values of the series."""
    first = _first(answer)
    return {(each.name, each.kind): each.values[first:] for each in answer.series}


def times_of(answer: GetHistoryResponse) -> list[float]:
    """Return the time of each value, in seconds since 1970."""
    count = len(answer.series[0].values) if answer.series else 0
    return [float(answer.start + place * answer.step) for place in range(_first(answer), count)]


def _first(answer: GetHistoryResponse) -> int:
    """Return the place of the first sample that is shown."""
    count = len(answer.series[0].values) if answer.series else 0
    begins = (
        next((place for place, value in enumerate(each.values) if not math.isnan(value)), count)
        for each in answer.series
    )
    return max(min(min(begins, default=0), count - FEWEST), 0)


def drawable(answer: GetHistoryResponse) -> bool:
    """Return whether there are two samples at least: one makes no line."""
    return any(sum(not math.isnan(value) for value in each.values) > 1 for each in answer.series)


def cluster_charts(cluster: GetHistoryResponse, root: GetHistoryResponse) -> tuple[Chart, ...]:
    """Return a chart of each kind of which there is something: capacity, entitlement, allocation."""
    own, pools, times = values_of(cluster), values_of(root), times_of(cluster)
    if times != times_of(root):  # sampled between the two calls: the next ones agree
        pools = _shifted(pools, times_of(root), times)
    found = []
    for kind in KINDS:
        nothing = [math.nan] * len(times)
        lines = (
            ("Allocation", "allocation", pools.get(("allocation", kind), nothing)),
            ("Entitlement", "entitlement", pools.get(("entitlement", kind), nothing)),
            ("Capacity", "capacity", own.get(("capacity", kind), nothing)),
        )
        found.append(_of_kind(kind, lines, times))
    return tuple(each for each in found if each is not None)


def pool_charts(answer: GetHistoryResponse, used: Used = NOTHING_USED) -> tuple[Chart, ...]:
    """Return a chart of each kind of which a pool had something: entitlement, allocation, demand, used."""
    values, times = values_of(answer), times_of(answer)
    found = []
    for kind in KINDS:
        lines = [
            ("Allocation", "allocation", values.get(("allocation", kind), ())),
            ("Entitlement", "entitlement", values.get(("entitlement", kind), ())),
            ("Demand", "demand", values.get(("demand", kind), ())),
        ]
        if by_hour := used.get(kind):
            hours = (int(time) // HOUR_SECONDS * HOUR_SECONDS for time in times)
            lines.append(("Used", "used", [by_hour.get(hour, math.nan) for hour in hours]))
        slack = values.get(("slack", kind), ())
        if any(value > 0 for value in slack):
            lines.insert(1, ("Of it revocable", "slack", slack))
        found.append(_of_kind(kind, lines, times) if drawable(answer) else None)
    return tuple(each for each in found if each is not None)


async def pool_history(
    calls: Calls, span: str, pool_id: str, path: str, now: float
) -> tuple[tuple[Chart, ...], str]:
    """Return the charts of a pool, and why its samples are not known, empty where they are."""
    (answer, why), used = await asyncio.gather(
        read_history(calls, span, pool_id), read_used(calls, span, path, now)
    )
    return pool_charts(answer, used), why


def task_charts(cluster: GetHistoryResponse) -> tuple[Chart, ...]:
    """Return the charts of tasks: how many there are, and how many a second start and end."""
    values, times = values_of(cluster), times_of(cluster)
    if not drawable(cluster):
        return ()
    counts = [
        Series("Running", "allocation", values["running", ""], filled=True),
        Series("Waiting", "demand", values["waiting", ""]),
    ]
    rates = [
        Series("Started", "entitlement", values["started", ""]),
        Series("Ended", "demand", values["ended", ""]),
    ]
    return (
        chart("Tasks", counts, times, short),
        chart("Tasks per second", rates, times, short),
    )


def _of_kind(kind: str, lines: Lines, times: Sequence[float]) -> Chart | None:
    most = max((value for _, _, values in lines for value in values if not math.isnan(value)), default=0.0)
    if most <= 0:
        return None
    scale, unit = scale_of(most, kind)
    unit = SHOWN[kind].unit if kind in ("cpu", "gpu") else unit
    series = [
        Series(label, style, [value / scale for value in values], filled=style in ("allocation", "slack"))
        for label, style, values in lines
    ]
    return chart(SHOWN[kind].title, series, times, short, unit)


def _shifted(values: Values, times: Sequence[float], wanted: Sequence[float]) -> Values:
    """Return values at other times; NaN where there are none."""
    places = {time: place for place, time in enumerate(times)}
    return {
        key: [each[places[time]] if time in places else math.nan for time in wanted]
        for key, each in values.items()
    }
