"""The results as CSV files and as one page that needs nothing else."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from html import escape
from pathlib import Path

from simulator.results.charts import MOST_LINES, Chart, largest_pools, svg
from simulator.results.figures import Figures, jain_of
from simulator.results.recorder import Record

_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 60em; color: #222; }
table { border-collapse: collapse; } th, td { padding: 0.2em 0.8em; border-bottom: 1px solid #ddd; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } svg { display: block; margin: 1em 0; }
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


def write_page(path: Path, title: str, record: Record, figures: Figures, charts: Sequence[Chart]) -> None:
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
        *_drawn(record, charts),
    ]
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    heads = "".join(f"<th>{escape(each)}</th>" for each in head)
    lines = [f"<table><tr>{heads}</tr>"]
    for row in rows:
        cells = "".join(f"<td{' class=n' if at else ''}>{escape(each)}</td>" for at, each in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    return "\n".join([*lines, "</table>"])


def _drawn(record: Record, charts: Sequence[Chart]) -> list[str]:
    if len(record.samples) < 2:
        return ["<p>The run is too short for charts.</p>"]
    found, pools = [svg(chart) for chart in charts], len(largest_pools(record))
    if pools > MOST_LINES:
        found.append(f"<p>The {MOST_LINES} largest of {pools} pools are shown.</p>")
    return found
