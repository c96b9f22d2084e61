"""Counts of jobs and tasks by state."""

from __future__ import annotations

from dataclasses import replace

from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.job_metrics import JobCounts
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, JobType, TaskState
from tests.unit.jobmgr_core.specs import spec


def job(name: str, instances: int, counts: dict[TaskState, int], kind: JobType = JobType.BATCH) -> CachedJob:
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, 0)
    held = CachedJob(JobId(f"id-{name}"), replace(spec(instances), type=kind, name=name), runtime)
    held.counts = counts
    return held


def samples(counts: JobCounts) -> dict[str, dict[tuple[str, ...], float]]:
    return {
        family.name: {tuple(sample.labels.values()): sample.value for sample in family.samples}
        for family in counts.collect()
    }


def test_tasks_and_jobs_are_summed() -> None:
    jobs = [
        job("a", 3, {TaskState.RUNNING: 2, TaskState.PENDING: 1}),
        job("b", 5, {TaskState.RUNNING: 5}),
        job("c", 1, {TaskState.RUNNING: 1}, JobType.SERVICE),
    ]
    counts = JobCounts()
    counts.follow(lambda: jobs, shown=0)
    found = samples(counts)
    assert {key: value for key, value in found["jobmgr_tasks"].items() if value} == {
        ("RUNNING",): 8,
        ("PENDING",): 1,
    }
    assert len(found["jobmgr_tasks"]) == len(TaskState)
    assert found["jobmgr_jobs"] == {("BATCH", "RUNNING"): 2, ("SERVICE", "RUNNING"): 1}
    assert found["jobmgr_job_tasks"] == {}


def test_the_largest_jobs_are_shown() -> None:
    counts = JobCounts()
    jobs = [job(str(size), size, {TaskState.RUNNING: size}) for size in (1, 4, 2, 3)]
    counts.follow(lambda: jobs, shown=2)
    assert samples(counts)["jobmgr_job_tasks"] == {
        ("id-4", "4", "RUNNING"): 4,
        ("id-3", "3", "RUNNING"): 3,
    }


def test_before_a_term_there_is_nothing() -> None:
    found = samples(JobCounts())
    assert not any(found["jobmgr_tasks"].values()) and not found["jobmgr_jobs"]
