"""Draw amounts over time as an SVG picture: panels below each other with the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from xml.etree import ElementTree

import pygal
from pygal.style import Style

WIDTH, PANEL_HEIGHT = 900, 330
HEADROOM = 1.35
"""How much higher the axis is than the highest amount: marks are labelled there."""
LABEL_HEIGHTS = (1.0, 0.92)
"""Where marks are labelled, in parts of the axis: neighbours in turn."""
MARK_COLOUR = "#999999"
_SVG = "http://www.w3.org/2000/svg"


@dataclass(frozen=True, slots=True)
class Line:
    """Amounts at the chart's times; each holds until the next one."""

    name: str
    values: Sequence[float]
    colour: str
    filled: bool = False
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines in one pair of axes."""

    title: str
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Chart:
    """Panels that share their times, in seconds in ascending order, and their scale, in `unit`."""

    title: str
    unit: str
    times: Sequence[float]
    panels: Sequence[Panel]
    marks: Sequence[tuple[float, str]] = ()
    """Times of events, with what happened."""


def svg(chart: Chart) -> str:
    """Return the picture."""
    ElementTree.register_namespace("", _SVG)
    height = PANEL_HEIGHT * len(chart.panels)
    picture = ElementTree.Element(
        f"{{{_SVG}}}svg", width=str(WIDTH), height=str(height), viewBox=f"0 0 {WIDTH} {height}"
    )
    for number, panel in enumerate(chart.panels):
        drawn = ElementTree.fromstring(_drawn(chart, panel))
        drawn.set("y", str(PANEL_HEIGHT * number))
        drawn.set("height", str(PANEL_HEIGHT))
        picture.append(drawn)
    return ElementTree.tostring(picture, encoding="unicode") + "\n"


def _drawn(chart: Chart, panel: Panel) -> str:
    end, top = _end(chart), _highest(chart) * HEADROOM
    plot = pygal.XY(
        width=WIDTH,
        height=PANEL_HEIGHT,
        title=f"{chart.title}: {panel.title}",
        x_title="seconds",
        y_title=chart.unit,
        range=(0, top),
        xrange=(0, end),
        min_scale=4,
        max_scale=12,
        show_dots=False,
        print_labels=True,
        legend_at_bottom=True,
        legend_at_bottom_columns=len(panel.lines),
        js=(),
        style=_style([*(line.colour for line in panel.lines), *(MARK_COLOUR for _ in chart.marks)]),
        disable_xml_declaration=True,
    )
    for line in panel.lines:
        dashes = {"dasharray": "6, 4"} if line.dashed else {}
        steps = list(_steps(chart.times, line.values))
        plot.add(line.name, steps, fill=line.filled, stroke_style=dashes)
    for number, (time, name) in enumerate(chart.marks):
        label = {"value": (time, top * LABEL_HEIGHTS[number % len(LABEL_HEIGHTS)]), "label": name}
        points = [(time, 0), label, (time, top)]
        # Without a name it is not in the legend; only dots are labelled.
        plot.add(None, points, show_dots=True, dots_size=0, stroke_style={"dasharray": "2, 3"})
    return str(plot.render(is_unicode=True))


def _style(colours: Sequence[str]) -> Style:
    return Style(
        background="white",
        plot_background="white",
        colors=tuple(colours),
        opacity="0.35",
        stroke_opacity="1",
        stroke_width="1.5",
        value_font_size=11,
        guide_stroke_color="#dddddd",
        guide_stroke_dasharray="1",
        major_guide_stroke_color="#bbbbbb",
        major_guide_stroke_dasharray="1",
        font_family="sans-serif",
        title_font_size=14,
        legend_font_size=12,
        label_font_size=11,
        major_label_font_size=11,
        value_label_font_size=11,
    )


def _steps(times: Sequence[float], values: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Yield the corners of a line whose values each hold until the next one."""
    points = list(zip(times, values, strict=True))
    for (time, value), (following, _) in pairwise(points):
        yield from ((time, value), (following, value))
    yield from points[-1:]


def _end(chart: Chart) -> float:
    return max(chart.times, default=0.0) or 1.0


def _highest(chart: Chart) -> float:
    values = (value for panel in chart.panels for line in panel.lines for value in line.values)
    return max(values, default=0.0) or 1.0
