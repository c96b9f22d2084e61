"""Figures that a benchmark printed, and how two programs compare by them."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FIGURE = re.compile(r"(?P<name>\S.*?): +(?P<value>-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)")
# Two-sided 95 % quantiles of Student's t, by degrees of freedom from 1 on.
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
NORMAL = 1.96


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure of the new program over that of the old one, by rounds.

    `mean` is the geometric mean, `low` and `high` its 95 % confidence interval: NaN with one round.
    `old` and `new` are medians.
    """

    name: str
    old: float
    new: float
    mean: float
    least: float
    most: float
    low: float
    high: float

    @property
    def verdict(self) -> str:
        """What the interval lets one say: "better", "worse", or nothing."""
        if self.low <= 1 <= self.high or math.isnan(self.low):
            return ""
        return "better" if (self.mean > 1) == more_is_better(self.name) else "worse"


def figures(text: str) -> dict[str, float]:
    """The lines of the form `name: number`; other lines are not figures. The last one of a name counts."""
    found = (FIGURE.fullmatch(line.strip()) for line in text.splitlines())
    return {each["name"]: float(each["value"]) for each in found if each}


def more_is_better(name: str) -> bool:
    """Rates should be high; times, CPU and memory low."""
    return "per second" in name


def ratios(old: Sequence[Mapping[str, float]], new: Sequence[Mapping[str, float]]) -> list[Ratio]:
    """Each figure that all rounds of both have; old[i] and new[i] are of the same round.

    Figures of 0 or less have no ratio: they are left out.
    """
    both = [*old, *new]
    names = [name for name in new[0] if all(each.get(name, 0) > 0 for each in both)] if new else []
    return [ratio(name, [each[name] for each in old], [each[name] for each in new]) for name in names]


def ratio(name: str, old: Sequence[float], new: Sequence[float]) -> Ratio:
    """The ratio of positive figures, old[i] and new[i] of the same round."""
    logs = [math.log(after / before) for before, after in zip(old, new, strict=True)]
    mean, off = statistics.fmean(logs), margin(logs)
    return Ratio(
        name,
        statistics.median(old),
        statistics.median(new),
        math.exp(mean),
        math.exp(min(logs)),
        math.exp(max(logs)),
        math.exp(mean - off),
        math.exp(mean + off),
    )


def margin(values: Sequence[float]) -> float:
    """Half of the 95 % confidence interval of their mean. NaN for one value."""
    freedom = len(values) - 1
    if not freedom:
        return math.nan
    quantile = STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
    return quantile * statistics.stdev(values) / math.sqrt(len(values))


def table(rows: Sequence[Ratio]) -> str:
    """One line per figure, with a heading."""
    heading = ("figure", "old", "new", "new/old", "95 % interval", "min..max", "")
    lines = [heading, *(_cells(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heading))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if not at else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _cells(row: Ratio) -> tuple[str, ...]:
    interval = "" if math.isnan(row.low) else f"{row.low:.3f}..{row.high:.3f}"
    spread = f"{row.least:.3f}..{row.most:.3f}"
    return (row.name, f"{row.old:g}", f"{row.new:g}", f"{row.mean:.3f}", interval, spread, row.verdict)
