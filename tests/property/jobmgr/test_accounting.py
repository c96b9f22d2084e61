"""The hours of accounts add up to what the tasks have held, exactly, whatever comes between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.accounting import Ledger, account, group_of, summed
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.task.usage import held
from peloton.model.accounting import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MICRO,
    NOTHING,
    Amounts,
    Group,
    JobHour,
    PeriodUsage,
    amounts_of,
)
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.model.usage import BYTES_PER_MB, Reading, join
from tests.unit.jobmgr_core.specs import spec as spec_of

SECOND = 1_000_000_000
HOUR = 400_000 * HOUR_SECONDS
SPEC = spec_of(instances=3)


@dataclass
class World:
    """Jobs whose tasks run and end, a store, and a leader's ledger, which may be lost."""

    now: int = HOUR * SECOND + 5 * SECOND
    jobs: dict[str, CachedJob] = field(default_factory=dict)
    ended: dict[str, CachedJob] = field(default_factory=dict)
    rows: dict[tuple[str, int], JobHour] = field(default_factory=dict)
    periods: list[PeriodUsage] = field(default_factory=list)
    task_seconds: Amounts = NOTHING
    """Of all runs: thousandths × nanoseconds, as integers."""
    finals: dict[str, Amounts] = field(default_factory=dict)
    """By what the runtimes of jobs that have ended say."""

    def __post_init__(self) -> None:
        self.ledger = Ledger(HOUR)

    def put(self, job: CachedJob, instance: int, **changes: object) -> None:
        old = job.tasks[instance]
        job.put(instance, replace(old, **changes))  # type: ignore[arg-type]

    def create(self, number: int) -> None:
        job = CachedJob(f"job-{number}", replace(SPEC, pool_id=f"pool-{number % 2}"), RUNTIME)
        job.fill(dict.fromkeys(range(3), WAITS))
        self.jobs[job.job_id] = job

    def start(self, job: CachedJob, instance: int) -> None:
        if job.tasks[instance].state is not TaskState.RUNNING:
            run = job.tasks[instance].run + 1
            self.put(job, instance, state=TaskState.RUNNING, start_time=self.now, run=run)

    def sample(self, job: CachedJob, instance: int, memory: int) -> None:
        task = job.tasks[instance]
        used = Reading(self.now, (self.now - task.start_time) // 3, memory * BYTES_PER_MB, 0)
        job.take_reading(instance, task.run, used)

    def end(self, job: CachedJob, instance: int, late: int) -> None:
        """End a run `late` milliseconds ago; the agent tells what it used."""
        task = job.tasks[instance]
        if task.state is not TaskState.RUNNING:
            return
        completed = max(self.now - late * 1_000_000, task.start_time)
        need = SPEC.task(instance).resources
        usage = held(need, (task.start_time, completed))
        self.count(need, completed - task.start_time)
        self.put(
            job, instance, state=TaskState.FAILED, completion_time=completed,
            resource_usage=join(task.resource_usage, usage),
        )  # fmt: skip
        job.take_sample(instance, task.run)
        job.runtime = replace(job.runtime, resource_usage=join(job.runtime.resource_usage, usage))

    def count(self, need: object, nanoseconds: int) -> None:
        amounts = [getattr(need, kind) * nanoseconds for kind in ("cpu", "gpu", "memory")]
        self.task_seconds = self.task_seconds.plus(Amounts(*amounts))

    # --- what the accountant does ---

    def take(self, at: int) -> None:
        for job_id, job in list(self.jobs.items()) + list(self.ended.items()):
            if not self.ledger.knows(job_id) and (row := self.last(job_id)) is not None:
                self.ledger.know({job_id: row})
            self.ledger.take(job_id, group_of(job.spec), account(job, at))

    def last(self, job_id: str) -> JobHour | None:
        return max((row for row in self.rows.values() if row.job_id == job_id), key=_hour, default=None)

    def write(self, most: int = 1000) -> None:
        for row in list(self.ledger.unstored.values())[:most]:
            self.rows[row.job_id, row.hour] = row
            self.ledger.stored([row])

    def finish(self, job_id: str) -> None:
        """End a job: it leaves memory once its account is stored."""
        job = self.jobs.pop(job_id)
        for instance in range(3):
            self.end(job, instance, 0)
        self.ended[job_id] = job
        self.finals[job_id] = amounts_of(job.runtime.resource_usage)
        self.take(self.now)
        self.write()
        self.ledger.forget(job_id)
        del self.ended[job_id]

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds * 1_000_000
        while self.now >= (self.ledger.hour + HOUR_SECONDS) * SECOND:
            self.take((self.ledger.hour + HOUR_SECONDS) * SECOND)
            self.write()
            self.periods += self.ledger.open_periods()
            self.ledger.next_hour(self.jobs.keys())

    def crash(self) -> None:
        """Lose what is in memory only; another leader begins with what is stored."""
        hour = self.ledger.hour
        self.ledger = Ledger(hour)
        self.ledger.load(row for row in self.rows.values() if row.hour == hour)
        for job in self.jobs.values():
            job.samples.clear()

    def check(self) -> None:
        """Compare after the last hour."""
        for job_id in list(self.jobs):
            self.finish(job_id)
        everything = [*self.periods, *self.ledger.open_periods()]
        total = _total(each.amounts for each in everything)
        exact = Amounts(*(each // (1000 * SECOND // MICRO) for each in self.task_seconds))
        for found, wanted in zip(total[:3], exact[:3], strict=True):
            assert abs(found - wanted) <= len(self.finals)  # each job's sum is rounded to a millionth once
        for job_id in {row.job_id for row in self.rows.values()}:
            mine = sorted((row for row in self.rows.values() if row.job_id == job_id), key=_hour)
            assert mine[0].before == NOTHING
            assert all(one.total == two.before for one, two in pairwise(mine))
            assert _total(row.amounts for row in mine) == mine[-1].total
            assert mine[-1].total[:3] == self.finals[job_id][:3]
        assert total == _total(row.amounts for row in self.rows.values())
        days = summed(everything, DAY_SECONDS, 0)
        assert _total(each.amounts for each in days) == total
        assert len({each.group for each in days}) == len(days)


def _hour(row: JobHour) -> int:
    return row.hour


def _total(amounts: Iterable[Amounts]) -> Amounts:
    found = NOTHING
    for each in amounts:
        found = found.plus(each)
    return found


RUNTIME = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, SPEC.version, HOUR * SECOND)
WAITS = TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 1, SPEC.version, SPEC.version, 1)
JOB, INSTANCE = st.integers(0, 3), st.integers(0, 2)
STEP = st.one_of(
    st.tuples(st.just("start"), JOB, INSTANCE),
    st.tuples(st.just("end"), JOB, INSTANCE, st.integers(0, 90_000)),
    st.tuples(st.just("sample"), JOB, INSTANCE, st.integers(0, 5000)),
    st.tuples(st.just("pass"), st.integers(1, 2 * 3600 * 1000)),
    st.tuples(st.just("take"), st.integers(0, 3)),
    st.tuples(st.just("crash")),
    st.tuples(st.just("finish"), JOB),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_the_hours_add_up_to_what_the_tasks_have_held(steps: list[tuple[object, ...]]) -> None:
    world, number = World(), 0
    for name, *values in steps:
        job_id = f"job-{values[0]}" if values else ""
        if name in ("start", "end", "sample", "finish") and job_id not in world.jobs:
            if any(row.job_id == job_id for row in world.rows.values()):
                continue
            world.create(int(job_id[4:]))
        job = world.jobs.get(job_id)
        if name == "pass":
            world.pass_time(values[0])  # type: ignore[arg-type]
        elif name == "take":
            world.take(world.now)
            world.write(values[0])  # type: ignore[arg-type]
        elif name == "crash":
            world.crash()
        elif name == "finish":
            world.finish(job_id)
        elif job is not None:
            getattr(world, str(name))(job, *values[1:])
        number += 1
    world.check()


def test_groups_are_by_owner_and_the_labels_that_are_told_apart() -> None:
    spec = spec_of(instances=1)
    assert group_of(replace(spec, owning_team="t", owner="o")) == Group(spec.pool_id, "t")
    assert group_of(replace(spec, owning_team="", owner="o")) == Group(spec.pool_id, "o")
    labelled = replace(spec, owning_team="", labels=(("b", "2"), ("a", "1"), ("c", "3")))
    assert group_of(labelled, ["a", "b"]).labels == (("a", "1"), ("b", "2"))
    assert group_of(labelled) == Group(spec.pool_id, "")
    assert amounts_of({"cpu": 1.5, "memory_peak": 3.0}) == Amounts(1_500_000)
