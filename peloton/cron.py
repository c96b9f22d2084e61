"""The times of cron expressions, in time zones.

Five fields, as in cron: minute, hour, day of the month, month, day of the week. Where clocks change, times
are those of Debian's cron: with hour and minute given, a time that a day lacks comes right after the gap, and
one that a day has twice comes at its first occurrence only. Expressions whose minute or hour begins with `*`
go by elapsed time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

MACROS: Mapping[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@hourly": "0 * * * *",
}
MOST_FORWARD = 500
"""Times that are gone through one by one; beyond that the latest are looked for from the end."""
FIELDS = 5


class CronError(ValueError):
    """An expression or a time zone is not known; its text says what would be right."""


def check(cron: str, time_zone: str, now: int) -> None:
    """Raise CronError for an expression that cron does not know or that has no times, and for no zone."""
    zone(time_zone)
    if len(_fields(cron).split()) != FIELDS:
        known = ", ".join(MACROS)
        raise CronError(f"five fields, such as `30 3 * * 1-5` for 03:30 on workdays, or one of {known}")
    try:
        found = next(times_after(cron, time_zone, now), None)
    except CronSimError as error:
        raise CronError(f"a cron expression: {str(error)[:1].lower()}{str(error)[1:]}") from None
    if found is None:
        raise CronError("an expression that has times: this one has none within 50 years")


@lru_cache(maxsize=256)
def zone(name: str) -> ZoneInfo:
    """Return a time zone. Raises CronError."""
    if name not in available_timezones():
        raise CronError("the name of a time zone, such as Europe/Berlin or UTC")
    return ZoneInfo(name)


def times_after(cron: str, time_zone: str, after: int) -> Iterator[int]:
    """Iterate over the times after one, in seconds since 1970."""
    last = after
    for moment in CronSim(_fields(cron), datetime.fromtimestamp(after, zone(time_zone))):
        # Within an hour that a day has twice, the first ones may be of its first occurrence.
        if (time := round(moment.timestamp())) > last:
            last = time
            yield time


def times_until(cron: str, time_zone: str, after: int, until: int, most: int) -> list[int]:
    """Return the last `most` times after one and up to another, ascending."""
    found: list[int] = []
    for time in islice(times_after(cron, time_zone, after), MOST_FORWARD):
        if time > until:
            return found[-most:]
        found.append(time)
    if len(found) < MOST_FORWARD:
        return found[-most:]
    backwards = CronSim(_fields(cron), datetime.fromtimestamp(until + 1, zone(time_zone)), reverse=True)
    late = {round(moment.timestamp()) for moment in islice(backwards, most)}
    return sorted(time for time in late if after < time <= until)


def _fields(cron: str) -> str:
    return MACROS.get(cron.strip().lower(), cron)
