"""Has hosts held for instances that come back in place, and released when they do not.

Whether an instance comes back is read when a call is made and again when it is answered: it may have been
stopped while its kill was queued or under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from prometheus_client import Counter

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.instructions import RenewHolds
from jobmgr.core.task.maintained import is_for_maintenance
from jobmgr.core.task.returns import returns_to
from jobmgr.drivers.kill import kill
from jobmgr.drivers.retry import Bucket, for_ever
from jobmgr.engine.outbox import Queue
from jobmgr.ports.hostmgr import HeldKill, Hold, Holds
from peloton.errors import InvalidArgument, PelotonError
from peloton.model.ids import JobId, Run, TaskId, parse_task_id, task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskSpec

HOLDS_PER_CALL = 1000
CHECK_SECONDS = 5.0
"""Time between two comparisons of the holds there are with the instances that come back."""
RELEASED = Counter(
    "jobmgr_holds_released", "Holds of hosts released because their instances do not come back."
)
LEAKED = Counter(
    "jobmgr_holds_leaked",
    "Released holds that only the comparison found, for example after a change of leader.",
)
log = logging.getLogger(__name__)


class HoldKeeper:
    """Kills runs whose hosts are held, and releases and renews holds, at one host manager."""

    def __init__(
        self,
        hostmgr: Holds,
        job: Callable[[JobId], CachedJob | None],
        kills: Bucket,
        takes: Callable[[JobId], bool] = lambda job_id: True,
    ) -> None:
        """`job` returns an active job as it is stored; `kills` bounds the rate of kills.

        `takes` returns whether all jobs of a job's shard are in memory here: other holds are not ours.
        """
        self._takes = takes
        self._hostmgr = hostmgr
        self._job = job
        self._kills = kills

    async def kill(self, queue: Queue[tuple[Run, str]]) -> None:
        """Kill runs, and have the hosts of those held whose instances still come back; run for ever."""
        while True:
            runs = dict(await queue.take(self._kills.share(HOLDS_PER_CALL)))
            await self._kills.pay(len(runs))
            back = {run: host for run, host in runs.items() if self._comes_back(run, host)}
            await kill(self._hostmgr, [run for run in runs if run not in back], self._job)
            await self._kill_and_hold(back)

    async def _kill_and_hold(self, runs: Mapping[Run, str]) -> None:
        if not runs:
            return
        await self._report(
            "kills that hold hosts",
            len(runs),
            self._hostmgr.kill_and_hold([self._held(run, host) for run, host in runs.items()]),
        )
        gone = [run for run, host in runs.items() if not self._comes_back(run, host)]
        await self._release([task_id(run.job_id, run.instance) for run in gone])

    def _held(self, run: Run, host: str) -> HeldKill:
        """Return a kill with what the next run asks for, and what the killed one gives back."""
        job = self._job(run.job_id)
        task = job.task(run.instance) if job is not None else None
        if job is None or task is None:
            return HeldKill(run, host, None, None, False)
        next_ = _spec(job, run.instance, task.desired_config_version)
        killed = _spec(job, run.instance, task.config_version) if task.run == run.run else None
        return HeldKill(run, host, next_, killed, is_for_maintenance(job, run))

    def _comes_back(self, run: Run, host: str) -> bool:
        """Return whether the instance of a run is to come back to a host, and is not launched again yet."""
        return self._awaited(run.job_id, run.instance) == host

    def _awaited(self, job_id: JobId, instance: int) -> str:
        """Return the host that is to be held for an instance; empty: none."""
        job = self._job(job_id)
        task = job.task(instance) if job is not None else None
        if job is None or task is None or _is_launched(task):
            return ""
        return returns_to(job.runtime.goal, task)

    async def release(self, queue: Queue[TaskId]) -> None:
        """Release what is held for instances; run for ever."""
        while True:
            await self._release([*dict.fromkeys(await queue.take(HOLDS_PER_CALL), True)])

    async def _release(self, instances: Sequence[TaskId]) -> None:
        if instances:
            await self._report("releases of holds", len(instances), self._hostmgr.release_holds(instances))
            RELEASED.inc(len(instances))

    async def renew(self, queue: Queue[RenewHolds]) -> None:
        """Renew holds; run for ever."""
        while True:
            holds = [
                hold
                for each in await queue.take(HOLDS_PER_CALL)
                for instance, host in each.holds
                if (hold := self._renewed(each.job_id, instance, host)) is not None
            ]
            if holds:
                try:
                    await self._hostmgr.renew_holds(holds)
                except PelotonError as failure:
                    log.warning("%d holds are not renewed: %s", len(holds), failure)

    def _renewed(self, job_id: JobId, instance: int, host: str) -> tuple[Hold, TaskSpec] | None:
        """Return a hold with what the instance asks for now; None where it does not come back there."""
        job = self._job(job_id)
        task = job.task(instance) if job is not None else None
        spec = _spec(job, instance, task.desired_config_version) if job and task else None
        if spec is None or self._awaited(job_id, instance) != host:
            return None
        return Hold(task_id(job_id, instance), host), spec

    async def check(self) -> None:
        """Release holds whose instances do not come back, as after a change of leader; run for ever."""
        await for_ever("holds", self._check)

    async def _check(self) -> None:
        leaked = [hold.task_id for hold in await self._hostmgr.holds() if self._is_leaked(hold)]
        if leaked:
            log.info("%d holds are released: their instances do not come back", len(leaked))
            LEAKED.inc(len(leaked))
        for start in range(0, len(leaked), HOLDS_PER_CALL):
            await self._release(leaked[start : start + HOLDS_PER_CALL])
        await asyncio.sleep(CHECK_SECONDS)

    def _is_leaked(self, hold: Hold) -> bool:
        try:
            job_id, instance = parse_task_id(hold.task_id)
        except InvalidArgument:
            return False  # not by a job manager
        return self._takes(job_id) and self._awaited(job_id, instance) != hold.host

    async def _report(self, what: str, count: int, call: Awaitable[str]) -> None:
        """Make a call, and log why some of it failed."""
        try:
            failed = await call
        except PelotonError as error:
            failed = str(error)
        if failed:
            log.warning("%d %s: %s", count, what, failed)


def _is_launched(task: TaskRuntime) -> bool:
    return task.state is TaskState.LAUNCHED


def _spec(job: CachedJob, instance: int, version: int) -> TaskSpec | None:
    """Return an instance's part of a version of its job's spec; None where that is not in use any more."""
    spec = job.specs.get(version)
    return None if spec is None else spec.task(instance)
