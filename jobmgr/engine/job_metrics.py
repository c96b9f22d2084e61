"""Metrics of active jobs and their tasks by state, counted when they are asked for."""

from __future__ import annotations

from collections import Counter as Counts
from collections.abc import Callable, Collection, Iterable
from heapq import nlargest

from prometheus_client import REGISTRY
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from jobmgr.core.state.cache import CachedJob
from peloton.model.states import JobState, TaskState

Jobs = Callable[[], Collection[CachedJob]]


class JobCounts(Collector):
    """Counts the active jobs that are in memory."""

    def __init__(self) -> None:
        self._jobs: Jobs = tuple
        self._shown = 0

    def follow(self, jobs: Jobs, shown: int) -> None:
        """Count these jobs; show the tasks of the `shown` largest ones job by job."""
        self._jobs = jobs
        self._shown = shown

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Return the counts as they are now."""
        jobs = self._jobs()
        yield _tasks(jobs)
        yield _jobs(jobs)
        yield _by_job(nlargest(self._shown, jobs, key=lambda job: job.size) if self._shown else ())


def _tasks(jobs: Iterable[CachedJob]) -> GaugeMetricFamily:
    counts = dict.fromkeys(TaskState, 0)
    for job in jobs:
        for state, number in job.counts.items():
            counts[state] += number
    family = GaugeMetricFamily("jobmgr_tasks", "Tasks of active jobs, by state.", labels=["state"])
    for state, number in counts.items():
        family.add_metric([state.name], number)
    return family


def _jobs(jobs: Iterable[CachedJob]) -> GaugeMetricFamily:
    counts: Counts[tuple[str, JobState]] = Counts((job.spec.type.name, job.runtime.state) for job in jobs)
    family = GaugeMetricFamily("jobmgr_jobs", "Active jobs, by type and state.", labels=["type", "state"])
    for (kind, state), number in counts.items():
        family.add_metric([kind, state.name], number)
    return family


def _by_job(jobs: Iterable[CachedJob]) -> GaugeMetricFamily:
    about = "Tasks by state of the largest jobs; none unless shown_jobs is set."
    family = GaugeMetricFamily("jobmgr_job_tasks", about, labels=["job_id", "name", "state"])
    for job in jobs:
        for state, number in job.counts.items():
            family.add_metric([job.job_id, job.spec.name, state.name], number)
    return family


JOB_COUNTS = JobCounts()
REGISTRY.register(JOB_COUNTS)
