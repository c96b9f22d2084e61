"""Charts of what is over time, as SVG: they need nothing else, and can be read on dark pages, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from simulator.results.figures import jain_of, share_of
from simulator.results.recorder import Ended, Record

_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
MOST_LINES = len(_COLOURS)
_WIDTH, _HEIGHT = 900, 300
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 36, 14, 46
_STEPS = 4
"""Lines across a chart."""
_PARTS = 48
"""Points of a chart of waits."""
_HOUR, _MINUTE = 3600, 60


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines over time."""

    name: str
    """That of its file."""
    title: str
    unit: str
    hours: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    """The values at these times, by what they are of; at most MOST_LINES."""


def charts_of(record: Record) -> list[Chart]:
    """Return what the largest pools have, fairness and fragmentation over time; nothing of a short run."""
    hours = [time / _HOUR for time, _ in record.samples]
    if len(hours) < 2:
        return []
    shown = largest_pools(record)[:MOST_LINES]
    found = [
        Chart(
            name,
            f"{title}, % of the cluster's scarcest kind",
            "%",
            hours,
            {path: [100 * float(getattr(at[path], field)) for _, at in record.samples] for path in shown},
        )
        for name, title, field in (
            ("allocation", "Allocation", "allocated"),
            ("entitlement", "Entitlement", "entitled"),
            ("waiting", "Waiting demand", "waiting"),
        )
    ]
    shares = {path: [100 * share_of(at[path]) for _, at in record.samples] for path in shown}
    found.append(Chart("shares", "Allocation, % of the pool's entitlement", "%", hours, shares))
    whole = {
        "Jain's index": [100 * (1.0 if (at := jain_of(s)) is None else at) for _, s in record.samples],
        "fragmentation": [100 * part for part in record.fragmentation],
    }
    found.append(Chart("fairness", "Fairness and fragmentation, %", "%", hours, whole))
    return found


def largest_pools(record: Record) -> list[str]:
    """Return the paths of all pools, those with the most at a time first."""
    peaks: dict[str, float] = {}
    for _, sample in record.samples:
        for path, pool in sample.items():
            peaks[path] = max(peaks.get(path, 0.0), pool.allocated + pool.waiting)
    return sorted(peaks, key=lambda path: (-peaks[path], path))


def compared_waits(first: Record, other: Record) -> Chart:
    """Return the waits in two runs of the same jobs, by the time of their creation."""
    last = max(each.job.submit for record in (first, other) for each in record.jobs)
    step = max(last, 1.0) / _PARTS
    return Chart(
        "compared-waits",
        "Mean wait of the jobs that are created at a time, minutes",
        "min",
        [(part + 0.5) * step / _HOUR for part in range(_PARTS)],
        {"first": _mean_waits(first.jobs, step), "other": _mean_waits(other.jobs, step)},
    )


def _mean_waits(jobs: Sequence[Ended], step: float) -> list[float]:
    """Return the mean wait in minutes of the jobs that are created in each part of the time; 0 for none."""
    sums, counts = [0.0] * _PARTS, [0] * _PARTS
    for each in jobs:
        part = min(_PARTS - 1, int(each.job.submit / step))
        sums[part] += each.wait / _MINUTE
        counts[part] += 1
    return [whole / count if count else 0.0 for whole, count in zip(sums, counts, strict=True)]


def write_charts(folder: Path, charts: Sequence[Chart]) -> None:
    """Write each chart as an SVG file into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for chart in charts:
        text = svg(chart).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        (folder / f"{chart.name}.svg").write_text(text + "\n", encoding="utf-8")


def svg(chart: Chart) -> str:
    """Return a chart as an SVG element."""
    top = max((max(values) for values in chart.lines.values()), default=0.0) or 1.0
    last = chart.hours[-1] or 1.0
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{escape(chart.title)}</title>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fafafa"/>',
        _text(_LEFT, 22, chart.title, size=14),
    ]
    for step in range(_STEPS + 1):
        y = _TOP + height * (1 - step / _STEPS)
        parts.append(f'<path d="M{_LEFT} {y:.1f}h{width}" stroke="#dddddd"/>')
        parts.append(_text(_LEFT - 6, y + 4, f"{top * step / _STEPS:,.1f} {chart.unit}", anchor="end"))
        x = _LEFT + width * step / _STEPS
        parts.append(_text(x, _HEIGHT - 28, f"{last * step / _STEPS:,.0f} h", anchor="middle"))
    left = _LEFT
    for (name, values), colour in zip(chart.lines.items(), _COLOURS, strict=False):
        points = " ".join(
            f"{_LEFT + width * hour / last:.1f},{_TOP + height * (1 - value / top):.1f}"
            for hour, value in zip(chart.hours, values, strict=True)
        )
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>')
        parts.append(_text(left, _HEIGHT - 8, f"■ {name}", colour))
        left += 30 + 8 * len(name)
    return "".join([*parts, "</svg>"])


def _text(
    x: float, y: float, text: str, colour: str = "#222222", anchor: str = "start", size: int = 12
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
