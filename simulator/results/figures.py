"""The figures of a run: waits by pool and class, use, fairness, preemption."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from peloton.model.resources import KINDS
from simulator.results.recorder import Ended, PoolSample, Record

BOUND_SECONDS = 10.0
"""Shorter jobs count as so long in the bounded slowdown (Feitelson and Rudolph, 1998)."""
ALL = "all"


@dataclass(frozen=True, slots=True)
class Group:
    """The jobs of a pool and a class. Times are in seconds."""

    pool: str
    kind: str
    jobs: int
    mean_wait: float
    median_wait: float
    p99_wait: float
    mean_completion: float
    mean_slowdown: float
    """Bounded slowdown: how many times longer than its run time a job took."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of a run."""

    groups: tuple[Group, ...]
    """The first is of all jobs, then by pool, then by class, then by both."""
    use: Mapping[str, float]
    """Share of the capacity that runs had until the last job ended, by kind."""
    fairness: float
    """Jain's index of what pools with work have of their entitlement, its mean over time."""
    fragmentation: float
    """Part of what is free that tasks of the workload cannot use, its mean over time."""
    seconds: float
    preempted: int
    lost_seconds: float
    states: Mapping[str, int]

    @property
    def main(self) -> Mapping[str, float]:
        """Return the figures that are compared."""
        whole = self.groups[0]
        found = {
            "mean wait, s": whole.mean_wait,
            "p50 wait, s": whole.median_wait,
            "p99 wait, s": whole.p99_wait,
            "mean completion, s": whole.mean_completion,
            "bounded slowdown": whole.mean_slowdown,
            "makespan, s": self.seconds,
            "Jain's index": self.fairness,
            "fragmentation, %": 100 * self.fragmentation,
            "preempted runs": float(self.preempted),
            "preempted work, h": self.lost_seconds / 3600,
        }
        return {**found, **{f"use of {kind}, %": 100 * share for kind, share in self.use.items()}}


def figures_of(record: Record) -> Figures:
    """Return the figures of a run."""
    groups: dict[tuple[str, str], list[Ended]] = defaultdict(list)
    states: dict[str, int] = defaultdict(int)
    for each in record.jobs:
        states[each.state] += 1
        kinds = [ALL, each.job.kind] if each.job.kind else [ALL]
        for pool in (ALL, each.job.pool):
            for kind in kinds:
                groups[pool, kind].append(each)
    order = sorted(groups, key=lambda key: (key != (ALL, ALL), key[1] != ALL, key[0] != ALL, key))
    capacity = zip(KINDS, record.used, record.capacity.values(), strict=True)
    return Figures(
        tuple(_group(*key, groups[key]) for key in order),
        {kind: used / (whole * record.seconds) for kind, used, whole in capacity if whole and record.seconds},
        jain(sample for _, sample in record.samples),
        sum(record.fragmentation) / len(record.fragmentation) if record.fragmentation else 0.0,
        record.seconds,
        record.preempted,
        record.lost_seconds,
        dict(states),
    )


def _group(pool: str, kind: str, jobs: Sequence[Ended]) -> Group:
    waits = sorted(each.wait for each in jobs)
    slowdowns = (max(1.0, each.completion / max(each.completion - each.wait, BOUND_SECONDS)) for each in jobs)
    count = len(jobs)
    return Group(
        pool,
        kind,
        count,
        sum(waits) / count,
        quantile(waits, 0.5),
        quantile(waits, 0.99),
        sum(each.completion for each in jobs) / count,
        sum(slowdowns) / count,
    )


def quantile(values: Sequence[float], part: float) -> float:
    """Return the value below which that part of sorted values is (nearest rank)."""
    return values[min(len(values) - 1, max(0, -int(-part * len(values) // 1) - 1))]


def jain(samples: Iterable[Mapping[str, PoolSample]]) -> float:
    """Return the mean over time of Jain's index of pools with work: allocation by entitlement, 1 at most.

    Times at which fewer than two pools have work count nothing; without others it is 1.
    """
    found = [index for sample in samples if (index := jain_of(sample)) is not None]
    return sum(found) / len(found) if found else 1.0


def jain_of(sample: Mapping[str, PoolSample]) -> float | None:
    """Return Jain's index at one time; None where fewer than two pools have work."""
    shares = [
        share_of(pool)
        for pool in sample.values()
        if pool.entitled > 0 and (pool.allocated > 0 or pool.waiting > 0)
    ]
    squares = sum(share * share for share in shares)
    if len(shares) < 2 or not squares:
        return None
    return sum(shares) ** 2 / (len(shares) * squares)


def share_of(pool: PoolSample) -> float:
    """Return the part of its entitlement that a pool has, 1 at most."""
    return min(1.0, pool.allocated / pool.entitled) if pool.entitled > 0 else 1.0
