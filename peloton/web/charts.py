"""Line charts as geometry: numbers in, SVG paths and labels out. The template draws them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

_DAY_SECONDS = 86_400
_SHORT_SECONDS = 300
"""Below these, minutes do not tell the times on the axis apart."""
_LITTLE = 0.1
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 480, 150, 46, 16, 6


@dataclass(frozen=True, slots=True)
class Series:
    """Values over time; NaN where nothing was measured."""

    label: str
    style: str
    values: Sequence[float]
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Path:
    """A line, or the area below one, as drawn."""

    label: str
    style: str
    path: str
    last: str
    """The newest value, for the legend."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart as the template draws it."""

    title: str
    unit: str
    description: str
    lines: tuple[Path, ...]
    areas: tuple[Path, ...]
    x_ticks: tuple[tuple[float, str, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT


def chart(
    title: str,
    series: Sequence[Series],
    times: Sequence[float],
    show: Callable[[float], str],
    unit: str = "",
) -> Chart:
    """Return the chart of several series over the same times (seconds since 1970)."""
    top = nice(max((v for each in series for v in each.values if not math.isnan(v)), default=0.0))
    first, last = (times[0], times[-1]) if times else (0.0, 1.0)
    span = (last - first) or 1.0
    base = HEIGHT - BOTTOM

    def x(time: float) -> float:
        return LEFT + (time - first) / span * (WIDTH - LEFT - 2)

    def y(value: float) -> float:
        return base - value / top * (base - TOP)

    def drawn(each: Series) -> Path:
        path = _path([x(time) for time in times], each.values, y, base if each.filled else None)
        return Path(each.label, each.style, path, _last(each.values, show))

    newest = ", ".join(f"{each.label} {_last(each.values, show)}" for each in series)
    return Chart(
        title,
        unit,
        f"{title}: {newest}" if times else f"{title}: nothing was recorded yet",
        tuple(drawn(each) for each in series if not each.filled),
        tuple(drawn(each) for each in series if each.filled),
        _x_ticks(first, last, x) if times else (),
        tuple((round(y(top * part), 1), _told(top * part, top, show)) for part in (0.0, 0.5, 1.0)),
    )


def nice(value: float) -> float:
    """Return the least of 1, 2, 4, 5, 8 times a power of ten that is not less than a value."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= value * (1 - 1e-9))


def _told(value: float, top: float, show: Callable[[float], str]) -> str:
    """Return a value on an axis up to `top`, with more digits where all are little."""
    return f"{value:.5f}".rstrip("0").rstrip(".") if top < _LITTLE else show(value)


def _last(values: Sequence[float], show: Callable[[float], str]) -> str:
    newest = next((value for value in reversed(values) if not math.isnan(value)), None)
    return "–" if newest is None else show(newest)


def _path(
    xs: Sequence[float], values: Sequence[float], y: Callable[[float], float], base: float | None
) -> str:
    """Return the path of a line with gaps where nothing was measured; of the area where a base is given."""
    parts: list[str] = []
    run: list[tuple[float, float]] = []
    for place, value in [*zip(xs, values, strict=True), (0.0, math.nan)]:
        if not math.isnan(value):
            run.append((place, y(value)))
            continue
        if run:
            points = "L".join(f"{at:.1f} {height:.1f}" for at, height in _stretched(run))
            closing = f"V{base:.1f}H{run[0][0]:.1f}Z" if base is not None else ""
            parts.append(f"M{points}{closing}")
        run = []
    return "".join(parts)


def _stretched(run: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Make a single point a short line, which can be seen."""
    return run if len(run) > 1 else [(run[0][0] - 1, run[0][1]), run[0]]


def _x_ticks(first: float, last: float, x: Callable[[float], float]) -> tuple[tuple[float, str, str], ...]:
    middle = (first + last) / 2
    places = ((first, "start"), (middle, "middle"), (last, "end"))
    form = (
        "%d %b %H:%M"
        if last - first > _DAY_SECONDS
        else "%H:%M"
        if last - first >= _SHORT_SECONDS
        else "%H:%M:%S"
    )
    texts = [datetime.fromtimestamp(time, UTC).strftime(form) for time, _ in places]
    named: dict[str, int] = {}
    for place in (0, 2, 1):  # of times that read alike, one is named
        named.setdefault(texts[place], place)
    return tuple(
        (round(x(places[place][0]), 1), texts[place], places[place][1]) for place in sorted(named.values())
    )
