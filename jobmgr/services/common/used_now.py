"""What the runs of active jobs use now, by what their agents told last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jobmgr.core.state.cache import CachedJob
from peloton.model.job import JobSpec
from peloton.model.resources import MILLI, Resources
from peloton.model.usage import BYTES_PER_MB, PEAK_MEMORY

RUNS_AT_ONCE = 20_000
"""Runs that are looked at before other work is done."""


@dataclass(frozen=True, slots=True)
class JobUsed:
    """What the measured runs of a job use."""

    job: CachedJob
    cores: float
    memory: int
    """Bytes."""
    runs: int


async def used_now(jobs: Iterable[CachedJob], allowed: Callable[[CachedJob], bool]) -> list[JobUsed]:
    """Return what allowed jobs use that have been measured."""
    found = []
    seen = 0
    for job in jobs:
        samples = job.samples
        if not samples or not allowed(job):
            continue
        cores = sum(each.cores for each in samples.values())
        memory = sum(each.last.memory for each in samples.values())
        found.append(JobUsed(job, cores, memory, len(samples)))
        seen += len(samples)
        if seen >= RUNS_AT_ONCE:
            seen = 0
            await asyncio.sleep(0)
    return found


def peak_mb(job: CachedJob) -> float:
    """Return the most memory that an instance has had at a time; 0 where that is not known."""
    ended = job.runtime.resource_usage.get(PEAK_MEMORY, 0.0)
    return max(ended, max((each.last.peak for each in job.samples.values()), default=0) / BYTES_PER_MB)


def asked_mb(spec: JobSpec) -> float:
    """Return the most memory that an instance asks for."""
    return max(each.memory for each in _asked(spec)) / MILLI


def asked_cores(spec: JobSpec) -> float:
    """Return the most cores that an instance asks for."""
    return max(each.cpu for each in _asked(spec)) / MILLI


def _asked(spec: JobSpec) -> list[Resources]:
    tasks = {id(task): task for task in (spec.default, *spec.overrides.values())}.values()
    return [task.resources for task in tasks]
