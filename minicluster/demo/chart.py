"""Lines over time as an SVG picture: panels below each other that share the time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, PANEL, GAP = 900, 220, 46
LEFT, RIGHT, HEADROOM, BOTTOM = 60, 20, 76, 46
_FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
_STEPS = (1, 2, 5)


@dataclass(frozen=True, slots=True)
class Line:
    """`values` stand at the chart's times, and hold until the next one."""

    name: str
    values: Sequence[float]
    colour: str
    filled: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Chart:
    title: str
    unit: str
    times: Sequence[float]
    """Seconds, ascending."""
    panels: Sequence[Panel]
    marks: Sequence[tuple[float, str]] = ()
    """What happened when."""


def svg(chart: Chart) -> str:
    """The picture. All panels have the same scale, from 0."""
    height = HEADROOM + len(chart.panels) * (PANEL + GAP) - GAP + BOTTOM
    plot = _Plot(chart)
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        _text(LEFT, 22, chart.title, ' font-weight="bold"'),
        *_legend(chart),
    ]
    for number, panel in enumerate(chart.panels):
        body += plot.panel(panel, HEADROOM + number * (PANEL + GAP))
    body += [_text(WIDTH / 2, height - 8, "seconds", ' text-anchor="middle"'), "</svg>"]
    return "\n".join(body) + "\n"


class _Plot:
    """Where amounts and times are in a panel."""

    def __init__(self, chart: Chart) -> None:
        self._chart = chart
        self._end = max(chart.times, default=0.0) or 1.0
        values = [value for panel in chart.panels for line in panel.lines for value in line.values]
        self._tick = _tick(max(values, default=0.0), 5)
        self._most = self._tick * (int(max(values, default=0.0) / self._tick) + 1)

    def panel(self, panel: Panel, top: float) -> Iterator[str]:
        yield from self._grid(top)
        yield _text(LEFT, top - 8, f"{panel.title} ({self._chart.unit})")
        for line in panel.lines:
            yield self._line(line, top)
        for when, _ in self._chart.marks:
            x = self._x(when)
            yield f'<path d="M{x:.1f} {top}V{top + PANEL}" stroke="#999" stroke-dasharray="2 3"/>'
        for number, (when, name) in enumerate(self._chart.marks):
            yield _text(self._x(when) + 4, top + 14 + 14 * (number % 2), name, ' font-style="italic"')

    def _grid(self, top: float) -> Iterator[str]:
        amount = 0.0
        while amount <= self._most:
            y = self._y(amount, top)
            yield f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
            yield _text(LEFT - 8, y + 4, f"{amount:g}", ' text-anchor="end"')
            amount += self._tick
        step, when = _tick(self._end, 10), 0.0
        while when <= self._end:
            yield _text(self._x(when), top + PANEL + 16, f"{when:g}", ' text-anchor="middle"')
            when += step

    def _line(self, line: Line, top: float) -> str:
        points = list(zip(self._chart.times, line.values, strict=True))
        if not points:
            return ""
        path = f"M{self._x(points[0][0]):.1f} {self._y(points[0][1], top):.1f}"
        for when, value in points[1:]:
            path += f"H{self._x(when):.1f}V{self._y(value, top):.1f}"
        if line.filled:
            path += f"V{top + PANEL}H{self._x(points[0][0]):.1f}Z"
            return f'<path d="{path}" fill="{line.colour}" fill-opacity="0.35" stroke="{line.colour}"/>'
        dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
        return f'<path d="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dashes}/>'

    def _x(self, when: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * when / self._end

    def _y(self, amount: float, top: float) -> float:
        return top + PANEL * (1 - amount / self._most)


def _legend(chart: Chart) -> Iterator[str]:
    for number, line in enumerate(chart.panels[0].lines if chart.panels else ()):
        x = LEFT + 130 * number
        yield f'<rect x="{x}" y="36" width="14" height="8" fill="{line.colour}"/>'
        yield _text(x + 20, 44, line.name)


def _tick(most: float, count: int) -> float:
    """A round distance of which about `count` make up the whole."""
    size = 1.0
    while most / size > count * 10:
        size *= 10
    return next((step * size for step in _STEPS if most <= count * step * size), 10 * size)


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" {_FONT}{more}>{escape(text)}</text>'
