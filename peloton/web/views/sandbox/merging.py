"""The lines of several files in one order, by the times at their beginnings. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge

from peloton.web.views.sandbox.log_search import Line, Part

_BEFORE = r"^\W{0,2}(?:[A-Za-z]{3,8}\W{1,3})?"
"""A bracket, and the name of a level."""
_FULL = re.compile(
    _BEFORE + r"(?P<date>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_GLOG = re.compile(r"^[IWEF](?P<date>\d{4}) (?P<time>\d\d:\d\d:\d\d)(?:\.(?P<part>\d{1,9}))?")
"""As glog and klog have it: without a year."""
_LEAP_YEAR = "1972"
"""Has every day that a date without a year may name."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A line, and the part of a file that it is of."""

    part: Part
    line: Line


@dataclass(frozen=True, slots=True)
class _Stamp:
    seconds: float
    kind: str
    """Times of different kinds are not compared."""


def by_time(parts: Sequence[Part]) -> list[Placed]:
    """Return the lines of all parts by time; nothing where a part has none, or has no times to go by.

    A line without a time stays behind the one before it, and the order within a file is kept.
    """
    if len(parts) < 2 or not all(part.lines for part in parts):
        return []
    kinds: set[str] = set()
    keyed = []
    for at, part in enumerate(parts):
        stamps = [_stamp("".join(piece for piece, _ in line.parts)) for line in part.lines]
        found = {stamp.kind for stamp in stamps if stamp is not None}
        if not found:
            return []
        kinds |= found
        keyed.append(list(_keyed(at, part, stamps)))
    if len(kinds) > 1:
        return []
    return [placed for _, _, _, placed in merge(*keyed, key=lambda each: each[:3])]


def _keyed(at: int, part: Part, stamps: Sequence[_Stamp | None]) -> Iterator[tuple[float, int, int, Placed]]:
    newest = -math.inf
    for number, (line, stamp) in enumerate(zip(part.lines, stamps, strict=True)):
        if stamp is not None:
            newest = max(newest, stamp.seconds)
        yield newest, at, number, Placed(part, line)


def _stamp(text: str) -> _Stamp | None:
    """Return the time at the beginning of a line; None where there is none."""
    if full := _FULL.match(text):
        date, zone = full["date"].replace("/", "-"), full["zone"]
        return _of(f"{date}T{full['time']}", full["part"], zone or "", "zoned" if zone else "plain")
    if short := _GLOG.match(text):
        day = short["date"]
        return _of(f"{_LEAP_YEAR}-{day[:2]}-{day[2:]}T{short['time']}", short["part"], "", "glog")
    return None


def _of(time: str, part: str | None, zone: str, kind: str) -> _Stamp | None:
    try:
        moment = datetime.fromisoformat(f"{time}{zone}")
    except ValueError:  # such as hour 27
        return None
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return _Stamp(aware.timestamp() + float(f"0.{part or 0}"), kind)
