"""The account of jobs: what was held, used and lost to preemption, by hours and days.

Amounts are integers, so that sums equal their parts exactly: millionths of core, GPU and MB seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from peloton.model.ids import JobId, PoolId
from peloton.model.usage import PREEMPTED, USED_CPU, USED_MEMORY

MICRO = 1_000_000
HOUR_SECONDS = 3600
DAY_SECONDS = 86400
Labels = tuple[tuple[str, str], ...]
"""Keys and values, in the order of the keys."""


class Amounts(NamedTuple):
    """Millionths of core, GPU and MB seconds."""

    held_cpu: int = 0
    held_gpu: int = 0
    held_memory: int = 0
    used_cpu: int = 0
    used_memory: int = 0
    lost_cpu: int = 0
    """Held by runs that were preempted, since their last checkpoints; likewise the two below."""
    lost_gpu: int = 0
    lost_memory: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum."""
        return Amounts(*(one + two for one, two in zip(self, other, strict=True)))

    def minus(self, other: Amounts) -> Amounts:
        """Return the difference."""
        return Amounts(*(one - two for one, two in zip(self, other, strict=True)))


NOTHING = Amounts()
KINDS = (
    *("cpu", "gpu", "memory"),
    *(USED_CPU, USED_MEMORY),
    *(PREEMPTED + "cpu", PREEMPTED + "gpu", PREEMPTED + "memory"),
)
"""The kinds of resource usage, in the order of the fields of Amounts."""


def amounts_of(usage: Mapping[str, float]) -> Amounts:
    """Return the resource usage of a job's or a task's runtime as amounts."""
    return Amounts(*(round(usage.get(kind, 0.0) * MICRO) for kind in KINDS))


class Group(NamedTuple):
    """Whose account it is."""

    pool_id: PoolId
    owner: str
    """Of the job's spec; empty where it names none."""
    labels: Labels = ()
    """Those of the job's labels by which accounts are kept apart."""


@dataclass(frozen=True, slots=True)
class JobHour:
    """The account of a job in an hour: how much it had in all before, and at the end."""

    job_id: JobId
    hour: int
    """When it begins, in seconds since 1970."""
    group: Group
    before: Amounts
    total: Amounts

    @property
    def amounts(self) -> Amounts:
        """What came in this hour."""
        return self.total.minus(self.before)


@dataclass(frozen=True, slots=True)
class PeriodUsage:
    """The account of a group in an hour or a day."""

    seconds: int
    """The length: HOUR_SECONDS or DAY_SECONDS."""
    start: int
    """When it begins, in seconds since 1970; a day begins at midnight in UTC."""
    group: Group
    amounts: Amounts
