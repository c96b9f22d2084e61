"""Time lines as shapes of an SVG: lanes with bars over a common span of time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

WIDTH = 1000.0
"""Units across, from the first moment to the last."""
LANE = 14.0
"""Units of height of a lane."""
HEAD = 20.0
"""Units above the lanes, for the times."""
NARROWEST = 3.0
"""Units of the shortest bar, so that it can be seen."""
SHORTEST = 0.1
"""Seconds from the first moment to the last, at least."""
MOST_LANES = 200
_STEPS = (
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    10800,
    21600,
    43200,
    86400,
)
_TICKS = 6


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in one state; `end` 0 is now. Times in seconds since 1970."""

    state: str
    start: float
    end: float
    text: str
    """What is told of it."""


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of a time line."""

    label: str
    url: str
    spans: Sequence[Span]


@dataclass(frozen=True, slots=True)
class Bar:
    """A span as a rectangle."""

    state: str
    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A lane as it is drawn."""

    label: str
    url: str
    y: float
    bars: Sequence[Bar]


@dataclass(frozen=True, slots=True)
class Tick:
    """A time on the axis."""

    x: float
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """A time line as it is drawn."""

    rows: Sequence[Row]
    ticks: Sequence[Tick]
    start: float
    end: float

    @property
    def height(self) -> float:
        """Units of height."""
        return HEAD + LANE * len(self.rows)


def timeline(lanes: Iterable[Lane], now: float) -> Timeline | None:
    """Draw lanes, MOST_LANES at most; None where nothing has begun."""
    shown = [lane for lane, _ in zip(lanes, range(MOST_LANES), strict=False)]
    spans = [span for lane in shown for span in lane.spans if span.start]
    if not spans:
        return None
    start = min(span.start for span in spans)
    end = max(max(span.end or now, span.start) for span in spans)
    end = max(end, start + SHORTEST)
    scale = WIDTH / (end - start)
    rows = [
        Row(lane.label, lane.url, HEAD + LANE * at, _bars(lane.spans, start, now, scale))
        for at, lane in enumerate(shown)
    ]
    return Timeline(rows, _ticks(start, end, scale), start, end)


def _bars(spans: Iterable[Span], start: float, now: float, scale: float) -> list[Bar]:
    found = []
    for span in spans:
        if span.start:
            x = (span.start - start) * scale
            width = max((max(span.end or now, span.start) - span.start) * scale, NARROWEST)
            x = min(x, WIDTH - NARROWEST)
            found.append(Bar(span.state, round(x, 2), round(min(width, WIDTH - x), 2), span.text))
    return found


def _ticks(start: float, end: float, scale: float) -> list[Tick]:
    wanted = (end - start) / _TICKS
    step = next((step for step in _STEPS if step >= wanted), 0) or 86400 * (int(wanted // 86400) + 1)
    pattern = "%H:%M:%S" if step < 60 else "%H:%M" if end - start < 86400 else "%b %d %H:%M"
    if step >= 86400:
        pattern = "%b %d"
    first = -(-start // step) * step
    found = []
    while first <= end:
        text = f"{datetime.fromtimestamp(first, UTC):{pattern}}"
        decimals = 0 if step >= 1 else 1 if step >= 0.1 else 2
        part = f".{round(first % 1 * 10**decimals) % 10**decimals:0{decimals}}" if decimals else ""
        found.append(Tick(round((first - start) * scale, 2), text + part))
        first += step
    return found
