"""All lanes of a job manager. Shards of jobs are dealt over them by their numbers, events by their jobs.

A job whose write cannot be made delays only its own lane.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from prometheus_client import Gauge

from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.events import Compared, Event, Placed
from jobmgr.core.state.limits import Limits
from jobmgr.engine.event_weight import pieces
from jobmgr.engine.held_shards import HeldShards
from jobmgr.engine.host_launches import PATIENCE_SECONDS, HostLaunches
from jobmgr.engine.lane import MOVED, NO_EVENT, Answer, Drops, JobFence, Lane, unfenced_job
from jobmgr.engine.outbox import Outbox
from jobmgr.engine.split import part_of, split
from peloton.clock import Clock
from peloton.errors import Fenced, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.shard import shard_of
from peloton.model.workflow import Workflow
from storage.interface import Store

RUNS_PER_EVENT = 250
"""Larger events are cut, so that a cycle can be short."""
STEP_DOWN_SECONDS = 30.0
ACTIVE_JOBS = Gauge("jobmgr_active_jobs", "Jobs that have not ended.")
SILENT_WORKFLOWS = Gauge(
    "jobmgr_silent_workflows", "Workflows that run, are not paused, and have made no progress for 30 minutes."
)
log = logging.getLogger(__name__)


class Lanes:
    """Hands each event to the lanes of its jobs. Calls are answered while `run` runs."""

    def __init__(
        self,
        count: int,
        limits: Limits | None,
        store: Store,
        clock: Clock,
        outbox: Outbox,
        fence: JobFence = unfenced_job,
        patience: float = PATIENCE_SECONDS,
        shards: HeldShards | None = None,
    ) -> None:
        """Make `count` lanes; `patience` is how many seconds the launch of a host waits for slow lanes.

        Without `shards`, all of them are held.
        """
        self.shards = shards or HeldShards()
        self.store = store
        self.unread: dict[JobId, None] = {}
        """Active jobs of shards that are held, which are not in memory yet."""
        self._outbox = outbox
        self.on_drop: Callable[[Drops], None] = lambda drops: None
        """Called when the jobs of a shard are forgotten."""
        self._launches = HostLaunches(outbox.send, self.post, patience)
        self._lanes = [Lane(Core(limits), store, clock, self._launches.send, fence) for _ in range(count)]
        for lane in self._lanes:
            lane.on_drop = self._forgotten
        ACTIVE_JOBS.set_function(lambda: float(len(self.jobs())))
        SILENT_WORKFLOWS.set_function(lambda: float(len(self.silent())))

    def __len__(self) -> int:
        return len(self._lanes)

    def lane_of(self, job_id: JobId) -> int:
        """Return the number of the job's lane: the same in every process."""
        return shard_of(job_id) % len(self._lanes) if len(self._lanes) > 1 else 0

    def lane(self, job_id: JobId) -> Lane:
        """Return the job's lane."""
        return self._lanes[self.lane_of(job_id)]

    @property
    def problem(self) -> str:
        """Which lanes cannot store at present, and why; empty while writes succeed."""
        if len(self._lanes) == 1:
            return self._lanes[0].problem
        problems = [
            f"lane {number}: {lane.problem}" for number, lane in enumerate(self._lanes) if lane.problem
        ]
        return "; ".join(problems)

    @property
    def settled(self) -> bool:
        """Whether all tasks in memory are evaluated, and compared with what resmgr holds."""
        return all(lane.core.active.settled for lane in self._lanes)

    def on_end(self, call: Callable[[CachedJob], None]) -> None:
        """Set the function to call with each job that has ended."""
        for lane in self._lanes:
            lane.on_end = call

    def on_commit(self, call: Callable[[Cycle], None] | None) -> None:
        """Set the function to call with each cycle that is stored; None: no function."""
        for lane in self._lanes:
            lane.on_commit = call

    def on_fenced(self, call: Callable[[JobId, Fenced], bool]) -> None:
        """Set the function to call with a job that may not be written: see `Lane.on_fenced`."""
        for lane in self._lanes:
            lane.on_fenced = call

    def drop(self, shard: int) -> None:
        """Forget the jobs of a shard, as soon as the cycle under way in its lane is over."""
        for job_id in [job_id for job_id in self.unread if shard_of(job_id) == shard]:
            del self.unread[job_id]
        self._lane_of_shard(shard).drop(Drops(shard))

    async def dropped(self, shard: int) -> None:
        """Wait until the jobs of a shard that was dropped are forgotten."""
        await self._lane_of_shard(shard).dropped()

    async def flush_shard(self, shard: int) -> None:
        """Wait until the lane of a shard has stored all events, and the launches of its runs are sent."""
        await self._lane_of_shard(shard).submit(NO_EVENT)
        await self._launches.sent(lambda run: shard_of(run.job_id) == shard)

    def _lane_of_shard(self, shard: int) -> Lane:
        return self._lanes[shard % len(self._lanes)]

    def _forgotten(self, drops: Drops) -> None:
        for comparison in self._outbox.drop(drops.drops):  # the core counts those that are not answered
            self._lane_of_shard(drops.shard).post(Compared(comparison.job_id, ()))
        self.on_drop(drops)

    def job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job that is in memory."""
        return self.lane(job_id).job(job_id)

    def jobs(self) -> list[JobId]:
        """Return the active jobs, also those that are not in memory yet."""
        return [job_id for lane in self._lanes for job_id in lane.core.active.jobs] + list(self.unread)

    def silent(self) -> dict[JobId, str]:
        """Return the jobs whose workflow has made no progress for long, with what it waits for."""
        return {
            job_id: rollouts.reasons.get(job_id, "")
            for rollouts in (lane.core.rollouts for lane in self._lanes)
            for job_id in sorted(rollouts.silent)
        }

    def in_memory(self) -> list[CachedJob]:
        """Return the active jobs that are in memory."""
        return [work.job for lane in self._lanes for work in lane.core.active.jobs.values()]

    def create(
        self, job_id: JobId, spec: JobSpec, runtime: JobRuntime, workflow: Workflow | None = None
    ) -> None:
        """Add a new job that is stored, with the workflow that adds its instances, if any."""
        self.lane(job_id).create(job_id, spec, runtime, workflow)

    def recover(self, job: CachedJob) -> None:
        """Add a job of an earlier leader, as it is stored."""
        self.lane(job.job_id).recover(job)

    def post(self, event: Event) -> None:
        """Hand over an event whose answer is not needed."""
        for lane, part in self._split(event).items():
            for piece in pieces(part, RUNS_PER_EVENT):
                self._lanes[lane].post(piece)

    def submit(self, event: Event) -> Mapping[int, Answer]:
        """Hand over an event. Each lane's future ends once its part is stored, with the core's answer."""
        return {lane: self._submit(self._lanes[lane], part) for lane, part in self._split(event).items()}

    def _submit(self, lane: Lane, event: Event) -> Answer:
        answers = [lane.submit(piece) for piece in pieces(event, RUNS_PER_EVENT)]
        return answers[0] if len(answers) == 1 else asyncio.ensure_future(_joined(answers))

    async def request(self, event: Event) -> Any:
        """Hand over an event of one job; return, once it is stored, the core's answer, or raise its error."""
        parts = self._split(event)
        if not parts:
            raise Unavailable(MOVED)
        [(lane, part)] = parts.items()
        return await self._lanes[lane].request(part)

    async def flush(self) -> None:
        """Wait until all events that were handed over are stored."""
        await asyncio.gather(*[lane.submit(NO_EVENT) for lane in self._lanes])

    async def run_between_cycles(self, job_id: JobId, action: Callable[[], Awaitable[None]]) -> None:
        """Run an action while the lane of the job stores no cycle."""
        await self.lane(job_id).run_between_cycles(action)

    async def run(self) -> None:
        """Run all lanes for ever. Where one raises, the others are ended, and its error is raised.

        Where another instance leads, this one has some time to step down in order before Fenced is raised.
        """
        running = [asyncio.create_task(lane.run()) for lane in self._lanes]
        try:
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for lane in running:
                lane.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        try:
            for lane in ended:
                lane.result()
        except Fenced as error:
            log.error("%s", error)
            await asyncio.sleep(STEP_DOWN_SECONDS)
            raise

    def _split(self, event: Event) -> Mapping[int, Event]:
        if not self.shards.takes_all:
            part = part_of(event, self.shards.takes, self.shards.holds, self.job)
            if part is None:
                return {}
            event = part
        if len(self._lanes) == 1:
            return {0: event}
        if isinstance(event, Placed):
            self._expect(event)
        return split(event, len(self._lanes), self.lane_of, self.job)

    def _expect(self, event: Placed) -> None:
        for placement in event.placements:
            self._launches.expect(placement, len({self.lane_of(run.job_id) for run in placement.runs}))


async def _joined(answers: Sequence[Answer]) -> list[Any]:
    """Return what the core has answered to the pieces of an event, in order."""
    return [each for told in await asyncio.gather(*answers) for each in told or ()]
