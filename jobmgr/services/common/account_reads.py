"""Reads the account of jobs: closed hours and days from the store, the open hour from the accountant."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from peloton.errors import InvalidArgument
from peloton.model.accounting import DAY_SECONDS, HOUR_SECONDS, NOTHING, Amounts, Group, Labels, PeriodUsage
from peloton.model.ids import JobId, PoolId
from storage.histories import courses
from storage.interface import Usage

HOUR_DAYS = 35
"""Days for which hours are kept."""
MOST_ACCOUNTS = 50_000
"""Entries of an answer."""


class Courses(Protocol):
    """What jobs have held and used over time."""

    def begin(self, job_id: JobId) -> float:
        """Return when what is known of a job begins, in seconds since 1970."""
        ...

    def points(self, job_id: JobId) -> Iterator[tuple[float, Sequence[float]]]:
        """Yield when each point ends, in seconds since 1970, and cores held and used, MB held and used."""
        ...


class Past(Protocol):
    """What jobs have held and used in earlier times."""

    async def read(self, job_id: JobId, since: float, until: float, before: bool) -> Sequence[courses.Span]:
        """Return cores held and used, MB held and used, in the last day of a time. Raises PelotonError.

        With `before`, without what came here of the five minutes of `until`: it belongs behind it.
        """
        ...


class OpenHour(Protocol):
    """The account of the hour that is open."""

    @property
    def courses(self) -> Courses:
        """Return what jobs have held and used in shorter times."""
        ...

    @property
    def history(self) -> Past:
        """Return the same of times before, and of jobs that ended earlier."""
        ...

    async def open_periods(self) -> Sequence[PeriodUsage]:
        """Return the account by group."""
        ...


class Span(NamedTuple):
    """A time in seconds since 1970, without its end."""

    since: int
    until: int


@dataclass(frozen=True, slots=True)
class Question:
    """What accounts are wanted."""

    span: Span
    pools: bool
    owners: bool
    labels: bool
    """Whether accounts are kept apart by these."""
    seconds: int
    """Length of the periods that are told apart; 0: the whole time is one."""


Key = tuple[int, PoolId, str, Labels]
"""Start, pool, owner and labels; those that are not told apart are empty."""


def span_of(since: int, until: int, now: int) -> Span:
    """Return the whole hours that a time is in; 0: the open hour, and now. Raises InvalidArgument."""
    until = until or now + 1
    since = since or now
    if not 0 <= since < until <= now + 100 * 366 * DAY_SECONDS:
        raise InvalidArgument("until", until, f"seconds since 1970 after {since}, where the time begins")
    return Span(since // HOUR_SECONDS * HOUR_SECONDS, -(-until // HOUR_SECONDS) * HOUR_SECONDS)


def with_days(span: Span, now: int) -> tuple[Span, Span]:
    """Return the part of a time for which there are days, and the rest, for which there are hours."""
    first = (now // DAY_SECONDS - HOUR_DAYS + 1) * DAY_SECONDS
    if span.since >= first:
        return Span(span.since, span.since), span
    days = Span(
        span.since // DAY_SECONDS * DAY_SECONDS, min(first, -(-span.until // DAY_SECONDS) * DAY_SECONDS)
    )
    return days, Span(days.until, max(span.until, days.until))


async def read_accounts(
    usage: Usage,
    open_hour: OpenHour,
    asked: Question,
    allowed: Callable[[PoolId], bool],
    now: int,
) -> tuple[Span, dict[Key, Amounts]]:
    """Return the accounts of allowed pools, and the time that they are for.

    Raises InvalidArgument for more entries than an answer may have.
    """
    days, hours = with_days(asked.span, now)
    sums: dict[Key, Amounts] = {}
    async for page in _pages(usage, days, hours, open_hour.open_periods):
        for each in page:
            if allowed(each.group.pool_id):
                key = _key(asked, each)
                sums[key] = sums.get(key, NOTHING).plus(each.amounts)
        if len(sums) > MOST_ACCOUNTS:
            raise InvalidArgument(
                "by", len(sums), f"at most {MOST_ACCOUNTS} accounts: a shorter time, or fewer"
            )
    since = days.since if days.until > days.since else hours.since
    return Span(since, hours.until), {key: sums[key] for key in sorted(sums) if sums[key] != NOTHING}


async def _pages(
    usage: Usage, days: Span, hours: Span, open_periods: Callable[[], Awaitable[Sequence[PeriodUsage]]]
) -> AsyncIterator[Sequence[PeriodUsage]]:
    # The open hour comes first: where it is closed meanwhile, the store's row is left out below.
    opened = await open_periods()
    begun = {each.start for each in opened}
    for seconds, span in ((DAY_SECONDS, days), (HOUR_SECONDS, hours)):
        if span.until > span.since:
            async for page in usage.periods(seconds, *span):
                yield [each for each in page if seconds == DAY_SECONDS or each.start not in begun]
    yield [each for each in opened if hours.since <= each.start < hours.until]


def _key(asked: Question, each: PeriodUsage) -> Key:
    group: Group = each.group
    return (
        each.start // asked.seconds * asked.seconds if asked.seconds else asked.span.since,
        group.pool_id if asked.pools else "",
        group.owner if asked.owners else "",
        group.labels if asked.labels else (),
    )
