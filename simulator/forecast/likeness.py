"""How much alike jobs of a kind are that follow each other, and durations drawn so.

Users create jobs in batches, and what one of a batch takes the others take, too. Durations that are each
drawn by itself would average out over a long queue, and the range of an estimate would be far too narrow. So
the jobs of a kind share a part of what is drawn for them, as large a part as those shared that have ended:
this is the one-way random effects model, with the intraclass correlation (Fisher, 1925) over blocks of jobs
that followed each other, of the normal scores of their durations, so that no distribution is assumed.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from statistics import NormalDist, fmean

LEAST_ALIKE = 6
"""Ended jobs of a kind that tell how much alike such jobs are."""
MOST = 0.95
_NORMAL = NormalDist()


def likeness(histories: Iterable[Sequence[float]]) -> float:
    """Return how much alike jobs are that follow each other, 0 (not at all) to `MOST`.

    `histories`: of each kind the durations in the order in which its jobs began.
    """
    between = within = 0.0
    blocks = jobs = 0
    kinds = 0
    for seconds in histories:
        if len(seconds) < LEAST_ALIKE:
            continue
        scores, size = normal_scores(seconds), math.isqrt(len(seconds))
        parts = [scores[at : at + size] for at in range(0, len(scores) - size + 1, size)]
        whole = fmean(score for part in parts for score in part)
        for part in parts:
            middle = fmean(part)
            between += size * (middle - whole) ** 2
            within += sum((score - middle) ** 2 for score in part)
        kinds, blocks, jobs = kinds + 1, blocks + len(parts), jobs + size * len(parts)
    if not kinds:
        return 0.0
    of_blocks, of_jobs = between / (blocks - kinds), within / (jobs - blocks)
    spread = of_blocks + (jobs / blocks - 1) * of_jobs
    return min(MOST, max(0.0, (of_blocks - of_jobs) / spread)) if spread > 0 else 0.0


def normal_scores(values: Sequence[float]) -> list[float]:
    """Return for each value the quantile of the normal distribution of its rank; equal values share one."""
    ranks: dict[float, list[int]] = defaultdict(list)
    for rank, value in enumerate(sorted(values), 1):
        ranks[value].append(rank)
    count = len(values)
    scores = {value: _NORMAL.inv_cdf((fmean(at) - 0.5) / count) for value, at in ranks.items()}
    return [scores[value] for value in values]


class Shares:
    """Numbers from 0 to 1, equally likely, that are alike where they are of one kind."""

    def __init__(self, random: Random, alike: float) -> None:
        self._draw: Callable[[], float] = lambda: random.gauss(0.0, 1.0)
        self._shared, self._own = math.sqrt(alike), math.sqrt(1.0 - alike)
        self._of_kind: dict[Hashable, float] = {}

    def next(self, kind: Hashable) -> float:
        """Return the next number of a kind."""
        common = self._of_kind.get(kind)
        if common is None:
            common = self._of_kind[kind] = self._draw()
        return _NORMAL.cdf(self._shared * common + self._own * self._draw())
