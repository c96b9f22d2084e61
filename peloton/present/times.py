"""Times of the wire interface (RFC 3339 with nanoseconds), formatted for users."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_TIME = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)\Z")


def parse_time(text: str) -> float | None:
    """Return seconds since 1970, or None for text that is empty or no time."""
    found = _TIME.match(text)
    whole = _whole(found) if found else None
    return None if found is None or whole is None else whole.timestamp() + float(found[2] or 0)


def short_time(text: str) -> str:
    """Return the time to the second in UTC; text that is no time is returned as it is."""
    found = _TIME.match(text)
    whole = _whole(found) if found else None
    return text if whole is None else whole.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339(nanoseconds: int) -> str:
    """Return a Unix time in nanoseconds as the times of the wire interface; empty for 0, not known."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z" if nanoseconds else ""


def _whole(found: re.Match[str]) -> datetime | None:
    try:
        return datetime.fromisoformat(found[1] + ("+00:00" if found[3] == "Z" else found[3]))
    except ValueError:
        return None


def run_time(start: str, end: str, now: float) -> str:
    """Return `HH:MM:SS` from start to end, or to `now` (seconds since 1970) where there is no end yet."""
    began = parse_time(start)
    if began is None:
        return ""
    ended = parse_time(end)
    seconds = max(0, int((now if ended is None else ended) - began))
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
