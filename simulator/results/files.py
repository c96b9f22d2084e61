"""The results as CSV files and as one page that needs nothing else."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from html import escape
from pathlib import Path

from simulator.results.figures import Figures, jain_of, share_of
from simulator.results.recorder import Record

_WIDTH, _HEIGHT = 900, 220
_COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f")
_MOST_LINES = len(_COLOURS)
_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
table { border-collapse: collapse; } th, td { padding: 0.2em 0.8em; border-bottom: 1px solid #ddd; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } svg { background: #fafafa; }
"""


def write_csv(folder: Path, record: Record, figures: Figures) -> None:
    """Write jobs, groups and what is over time as CSV into a folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "jobs.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("name", "pool", "class", "submit", "wait", "completion", "state", "runs"))
        for each in record.jobs:
            job = each.job
            rows.writerow(
                (job.name, job.pool, job.kind, f"{job.submit:.3f}", f"{each.wait:.3f}",
                 f"{each.completion:.3f}", each.state, each.runs)
            )  # fmt: skip
    with (folder / "groups.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(_COLUMNS)
        for group in figures.groups:
            rows.writerow((group.pool, group.kind, group.jobs, *(f"{each:.3f}" for each in _numbers(group))))
    with (folder / "pools.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("time", "pool", "allocated", "entitled", "waiting"))
        for time, sample in record.samples:
            for path, pool in sample.items():
                amounts = (pool.allocated, pool.entitled, pool.waiting)
                rows.writerow((f"{time:.0f}", path, *(f"{each:.6f}" for each in amounts)))
    with (folder / "cluster.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(("time", "jain", "fragmentation"))
        for (time, sample), part in zip(record.samples, record.fragmentation, strict=True):
            index = jain_of(sample)
            rows.writerow((f"{time:.0f}", "" if index is None else f"{index:.6f}", f"{part:.6f}"))


_COLUMNS = (
    "pool", "class", "jobs", "mean wait", "p50 wait", "p99 wait", "mean completion", "bounded slowdown",
)  # fmt: skip


def _numbers(group: object) -> tuple[float, ...]:
    names = ("mean_wait", "median_wait", "p99_wait", "mean_completion", "mean_slowdown")
    return tuple(float(getattr(group, name)) for name in names)


def write_page(path: Path, title: str, record: Record, figures: Figures) -> None:
    """Write the page: the figures, the groups, and charts over time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>",
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1>",
        _table(("figure", "value"), [(name, f"{value:,.3f}") for name, value in figures.main.items()]),
        "<h2>Waits by pool and class</h2><p>Times are in seconds.</p>",
        _table(
            _COLUMNS,
            [
                (each.pool, each.kind, f"{each.jobs:,}", *(f"{number:,.1f}" for number in _numbers(each)))
                for each in figures.groups
            ],
        ),
        *_charts(record),
    ]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = [f"<table><tr>{heads}</tr>"]
    for row in rows:
        cells = "".join(f"<td{' class=n' if at else ''}>{escape(each)}</td>" for at, each in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _charts(record: Record) -> list[str]:
    times = [time / 3600 for time, _ in record.samples]
    if len(times) < 2:
        return ["<p>The run is too short for charts.</p>"]
    peaks: dict[str, float] = {}
    for _, sample in record.samples:
        for path, pool in sample.items():
            peaks[path] = max(peaks.get(path, 0.0), pool.allocated + pool.waiting)
    shown = sorted(sorted(peaks, key=lambda path: -peaks[path])[:_MOST_LINES])
    found = []
    for name, field in (
        ("Allocation", "allocated"), ("Entitlement", "entitled"), ("Waiting demand", "waiting")
    ):  # fmt: skip
        lines = {
            path: [100 * float(getattr(sample[path], field)) for _, sample in record.samples]
            for path in shown
        }
        found.append(f"<h2>{name}, % of the cluster's scarcest kind</h2>{_chart(times, lines)}")
    shares = {path: [100 * share_of(sample[path]) for _, sample in record.samples] for path in shown}
    found.append(f"<h2>Allocation, % of the pool's entitlement</h2>{_chart(times, shares)}")
    whole = {
        "Jain's index, %": [100 * (1.0 if (at := jain_of(s)) is None else at) for _, s in record.samples],
        "fragmentation, %": [100 * part for part in record.fragmentation],
    }
    found.append(f"<h2>Fairness and fragmentation</h2>{_chart(times, whole)}")
    if len(peaks) > len(shown):
        found.append(f"<p>The {len(shown)} largest of {len(peaks)} pools are shown.</p>")
    return found


def _chart(times: Sequence[float], lines: dict[str, list[float]]) -> str:
    top = max((max(values) for values in lines.values()), default=0.0) or 1.0
    last = times[-1] or 1.0
    parts = [f'<svg width="{_WIDTH}" height="{_HEIGHT + 20}" role="img" aria-label="values over time">']
    for (name, values), colour in zip(lines.items(), _COLOURS, strict=False):
        points = " ".join(
            f"{_WIDTH * time / last:.1f},{_HEIGHT * (1 - value / top):.1f}"
            for time, value in zip(times, values, strict=True)
        )
        parts.append(
            f'<polyline fill="none" stroke="{colour}" points="{points}"><title>{escape(name)}</title>'
            "</polyline>"
        )
    parts.append(
        f'<text x="4" y="14" font-size="12">{top:,.1f} %</text>'
        f'<text x="{_WIDTH - 90}" y="{_HEIGHT + 16}" font-size="12">{last:,.1f} hours</text></svg>'
    )
    names = " ".join(
        f'<span style="color:{colour}">■ {escape(name)}</span>'
        for name, colour in zip(lines, _COLOURS, strict=False)
    )
    return "".join(parts) + f"<p>{names}</p>"
