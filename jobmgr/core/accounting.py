"""The account of jobs: what each has held and used so far, and from that, what came in each hour.

A job's account is a total that follows from its stored runtime and from its runs that live; an hour's part is
the difference to the total before. So the hours of a job add up to what its tasks have held, exactly,
whatever was interrupted or corrected in between: what comes late counts in the hour in which it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.measured import NANOSECONDS
from peloton.model.accounting import (
    HOUR_SECONDS,
    MICRO,
    NOTHING,
    Amounts,
    Group,
    JobHour,
    PeriodUsage,
    amounts_of,
)
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobSpec
from peloton.model.resources import MILLI, Resources
from peloton.model.states import TaskState

_LIVE = frozenset({TaskState.RUNNING, TaskState.KILLING, TaskState.PREEMPTING})
_PER_MICRO = MILLI * NANOSECONDS // MICRO
"""Thousandths × nanoseconds in a millionth of a second's unit."""


def group_of(spec: JobSpec, labels: Collection[str] = ()) -> Group:
    """Return whose account a job belongs to; `labels`: the keys of those by which accounts are kept apart.

    The owner is the one that lists of jobs show, the owning team, or else the owner that the spec names.
    """
    kept = sorted((key, value) for key, value in spec.labels if key in labels)
    return Group(spec.pool_id, spec.owning_team or spec.owner, tuple(kept))


def account(job: CachedJob, at: int) -> Amounts:
    """Return what a job has held and used in all up to `at`, in nanoseconds since 1970.

    What has ended counts in full, also where it ended after `at`.
    """
    total = amounts_of(job.runtime.resource_usage)
    if not any(job.counts.get(state) for state in _LIVE):
        return total
    spans: dict[int, int] = {}
    needs: dict[int, Resources] = {}
    used_cpu = used_memory = 0
    live, specs, sample_of = _LIVE, job.specs, job.samples.get
    version, spec = job.spec.version, job.spec
    # People wait for this. Of up to 100,000 instances nearly all need what their version's default does.
    for instance, task in enumerate(job.tasks):
        start = task.start_time
        if not start or task.state not in live:
            continue
        if task.config_version != version:
            version = task.config_version
            spec = specs[version]
        need = spec.task(instance).resources if spec.overrides else spec.default.resources
        key = id(need)
        if key not in needs:
            needs[key], spans[key] = need, 0
        if at > start:
            spans[key] += at - start
        sample = sample_of(instance)
        if sample is not None and sample.run == task.run:
            used_cpu += sample.last.cpu
            used_memory += round(sample.memory_seconds * MICRO)
    cpu, gpu, memory = (
        sum(getattr(needs[each], kind) * span for each, span in spans.items()) // _PER_MICRO
        for kind in ("cpu", "gpu", "memory")
    )
    return total.plus(Amounts(cpu, gpu, memory, used_cpu * MICRO // NANOSECONDS, used_memory))


class Ledger:
    """The accounts of the hour that is open. Rows that are to be stored are in `unstored` until `stored`."""

    def __init__(self, hour: int) -> None:
        """Open an hour, by its begin in seconds since 1970."""
        self.hour = hour
        self.sums: dict[Group, Amounts] = {}
        """What came in the open hour so far, by group."""
        self.unstored: dict[JobId, JobHour] = {}
        """The newest row of each job that has changed since it was stored."""
        self._rows: dict[JobId, JobHour] = {}
        self._fresh: dict[PoolId, Amounts] = {}

    def load(self, rows: Iterable[JobHour]) -> None:
        """Take the stored rows of the open hour."""
        for row in rows:
            assert row.hour == self.hour, f"a row of {row.hour} is not one of {self.hour}"
            self._rows[row.job_id] = row
            self._count(row.group, row.amounts)

    def know(self, last: Mapping[JobId, JobHour]) -> None:
        """Take the last stored rows of jobs."""
        for job_id, row in last.items():
            self._rows.setdefault(job_id, row)

    def knows(self, job_id: JobId) -> bool:
        """Return whether a row of the job is known."""
        return job_id in self._rows

    def take(self, job_id: JobId, group: Group, total: Amounts) -> None:
        """Take what a job has held and used in all.

        Where less was used than before, samples of its runs are still to come after a change of leaders.
        """
        row = self._rows.get(job_id)
        before = NOTHING if row is None else row.total
        total = total._replace(
            used_cpu=max(total.used_cpu, before.used_cpu),
            used_memory=max(total.used_memory, before.used_memory),
        )
        more = total.minus(before)
        if more == NOTHING:
            return
        if row is not None and row.hour == self.hour:
            before = row.before
        self._rows[job_id] = self.unstored[job_id] = JobHour(job_id, self.hour, group, before, total)
        self._count(group, more)
        self._fresh[group.pool_id] = self._fresh.get(group.pool_id, NOTHING).plus(more)

    def stored(self, rows: Sequence[JobHour]) -> None:
        """Note that rows are stored."""
        for row in rows:
            if self.unstored.get(row.job_id) is row:
                del self.unstored[row.job_id]

    def forget(self, job_id: JobId) -> None:
        """Forget a job that has ended and whose row is stored."""
        assert job_id not in self.unstored, f"{job_id}: its account is not stored"
        self._rows.pop(job_id, None)

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Forget jobs whose rows another instance writes from now on; what came of them stays counted."""
        for rows in (self._rows, self.unstored):
            for job_id in [job_id for job_id in rows if dropped(job_id)]:
                del rows[job_id]

    def take_fresh(self) -> Mapping[PoolId, Amounts]:
        """Return what has come by pool since the last call."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def open_periods(self) -> list[PeriodUsage]:
        """Return the open hour's account so far, by group."""
        return [
            PeriodUsage(HOUR_SECONDS, self.hour, group, amounts)
            for group, amounts in sorted(self.sums.items())
            if amounts != NOTHING
        ]

    def next_hour(self, active: Collection[JobId], first: int = 0) -> None:
        """Open the next hour, but none before `first`, once this one is stored.

        Rows of jobs that are not active are forgotten.
        """
        assert not self.unstored, f"{len(self.unstored)} accounts of the hour {self.hour} are not stored"
        self.hour = max(self.hour + HOUR_SECONDS, first)
        self.sums = {}
        self._rows = {job_id: row for job_id, row in self._rows.items() if job_id in active}

    def _count(self, group: Group, more: Amounts) -> None:
        self.sums[group] = self.sums.get(group, NOTHING).plus(more)


def summed(periods: Iterable[PeriodUsage], seconds: int, start: int) -> list[PeriodUsage]:
    """Return the account of a longer period that these make up, by group."""
    sums: dict[Group, Amounts] = {}
    for each in periods:
        sums[each.group] = sums.get(each.group, NOTHING).plus(each.amounts)
    return [PeriodUsage(seconds, start, group, amounts) for group, amounts in sorted(sums.items())]
