"""Times of cron expressions: with clocks that change, in slices, and from both ends."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peloton import cron

BERLIN = "Europe/Berlin"
SPRING = datetime(2026, 3, 28, tzinfo=UTC)
"""The day before clocks in Berlin go from 02:00 to 03:00."""
AUTUMN = datetime(2026, 10, 24, tzinfo=UTC)
"""The day before they go from 03:00 back to 02:00."""


def times(expression: str, begin: datetime, days: float, zone: str = BERLIN) -> list[str]:
    first = int(begin.timestamp())
    found = cron.times_until(expression, zone, first, first + int(days * 86400), 1000)
    return [datetime.fromtimestamp(time, ZoneInfo(zone)).isoformat()[5:22] for time in found]


def test_a_time_that_a_day_lacks_comes_right_after_the_gap() -> None:
    assert times("30 2 * * *", SPRING, 2.5) == ["03-28T02:30:00+01", "03-29T03:00:00+02", "03-30T02:30:00+02"]


def test_a_time_that_a_day_has_twice_comes_once() -> None:
    assert times("30 2 * * *", AUTUMN, 2.5) == ["10-24T02:30:00+02", "10-25T02:30:00+02", "10-26T02:30:00+01"]


@pytest.mark.parametrize(("begin", "count"), [(SPRING, 23), (AUTUMN, 25)])
def test_an_hourly_expression_goes_by_elapsed_time(begin: datetime, count: int) -> None:
    midnight = begin.astimezone(ZoneInfo(BERLIN)).replace(hour=23, minute=59)
    assert len(times("0 * * * *", midnight, count / 24)) == count
    assert len(set(times("0 * * * *", midnight, 2))) == 48


def test_days_of_the_week_and_the_last_day_of_the_month() -> None:
    assert times("0 9 * * 1-5", SPRING, 4) == ["03-30T09:00:00+02", "03-31T09:00:00+02"]
    assert times("0 0 L * *", SPRING, 5, "UTC") == ["03-31T00:00:00+00"]
    assert times("@daily", SPRING, 1.5, "UTC") == ["03-29T00:00:00+00"]


EXPRESSIONS = [
    "30 2 * * *",
    "*/20 * * * *",
    "15 * * * *",
    "30 2,3 * * *",
    "0 */2 * * *",
    "5 1-4 * * *",
    "59 1 * * *",
]


@settings(max_examples=150)
@given(
    st.sampled_from(EXPRESSIONS),
    st.sampled_from([SPRING, AUTUMN]),
    st.lists(st.integers(0, 3 * 86400), min_size=2, max_size=8),
)
def test_slices_are_the_whole(expression: str, begin: datetime, cuts: list[int]) -> None:
    """Whenever one looks, also within an hour that a day has twice, no time comes twice and none is lost."""
    base = int(begin.timestamp())
    places = [base + cut for cut in sorted(cuts)]
    whole = cron.times_until(expression, BERLIN, places[0], places[-1], 10_000)
    parts = [cron.times_until(expression, BERLIN, one, other, 10_000) for one, other in pairwise(places)]
    assert [time for part in parts for time in part] == whole
    assert len(set(whole)) == len(whole)


def test_after_a_long_downtime_the_latest_are_found_from_the_end() -> None:
    begin, end = int(SPRING.timestamp()), int(AUTUMN.timestamp())
    assert (end - begin) // 60 > cron.MOST_FORWARD
    found = cron.times_until("* * * * *", BERLIN, begin, end, 3)
    assert found == [end - 120, end - 60, end]


@pytest.mark.parametrize(
    ("expression", "zone", "says"),
    [
        ("", "UTC", "five fields"),
        ("* * * *", "UTC", "five fields"),
        ("* * * * * *", "UTC", "five fields"),
        ("61 * * * *", "UTC", "bad minute"),
        ("0 0 30 2 *", "UTC", "bad day-of-month"),
        ("@often", "UTC", "@daily"),
        ("* * * * *", "Berlin", "Europe/Berlin"),
        ("* * * * *", "../etc/passwd", "the name of a time zone"),
    ],
)
def test_what_is_refused(expression: str, zone: str, says: str) -> None:
    with pytest.raises(cron.CronError, match=says):
        cron.check(expression, zone, int(SPRING.timestamp()))


def test_times_go_on() -> None:
    assert len(list(islice(cron.times_after("0 0 29 2 *", "UTC", 0), 3))) == 3
