"""Takes placements from resmgr and launches them, one call for each host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import NoReturn

from jobmgr.core.launch_answers import MAX_CALL_FAILURES, outcome
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import (
    Event,
    Launched,
    LaunchRefused,
    LaunchUncertain,
    Placed,
    Placement,
    SecretMissing,
)
from jobmgr.core.state.instructions import Launch, Release
from jobmgr.drivers.backlog import Backlog
from jobmgr.drivers.meetings import Meetings
from jobmgr.drivers.retry import for_ever
from jobmgr.drivers.secret_files import SecretFiles
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.engine.held_shards import Opened
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.lockdown import Gate
from jobmgr.engine.outbox import Queue
from jobmgr.engine.split import split_placement
from jobmgr.engine.task_access import NOTHING, TaskAccess
from jobmgr.engine.transient import TRANSIENT, backoff
from jobmgr.ports.hostmgr import LaunchedTask, Launches
from jobmgr.ports.resmgr import PlacedTasks
from peloton.daemon.tracing import TRACES
from peloton.errors import PelotonError
from peloton.model.ids import JobId, Run
from peloton.model.resources import MILLI
from peloton.model.shard import shard_of
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.model.volume import VolumeMount, VolumeState
from storage.interface import Secrets

PLACEMENTS_PER_CALL = 1000
POLL_SECONDS = 10.0
RUNS_UNTAKEN = 50_000
"""Limit of placed runs that are not launched and that resmgr is still to be told of."""
RUNS_UNSTORED = 50_000
"""Limit of placed runs that lanes have not stored; beyond it no placements are taken."""
LAUNCHES_AT_ONCE = 64
"""Hosts. Their calls are made together, a number of hosts in each."""
RELEASES_PER_CALL = 500
RUNS_PER_SETTLEMENT = 5000
Concerns = Callable[[Launch], bool]
log = logging.getLogger(__name__)


class Placements:
    """Pulls placements. The core decides which of their runs still wait.

    A call is never broken off: resmgr may have sent the answer by then, and would take it for delivered.
    Where more shards are open another call begins, and this one goes on beside it.
    """

    def __init__(self, resmgr: PlacedTasks, lanes: Lanes, gate: Gate) -> None:
        """Pull from `resmgr` while `gate` is open."""
        self._gate = gate
        self._resmgr = resmgr
        self._lanes = lanes
        self._stopped = False
        self._backlog = Backlog(RUNS_UNSTORED)
        self._calls: set[asyncio.Task[None]] = set()
        """Those under way."""
        self._left: asyncio.Queue[asyncio.Task[None]] = asyncio.Queue()
        """Calls that nobody waits for any more. In the time of one no more shards open than there are."""
        self._closed = False
        self._untaken: dict[Run, None] = {}
        """Runs that were handed over here and are not launched, since their shards were not open."""

    async def run(self, resmgr: PlacedTasks | None = None, opened: Opened | None = None) -> None:
        """Pull placements for ever, from `resmgr`, or as before.

        With `opened`, those count whose jobs are of these shards, as they are when the answer comes.
        """
        source = resmgr or self._resmgr
        await for_ever("placements", lambda: self._step(source, opened))

    async def run_left(self) -> NoReturn:
        """Wait for the calls that `run` has left when it was cancelled; run for ever."""
        try:
            while True:
                call = await self._left.get()
                try:
                    await asyncio.shield(call)
                except PelotonError as error:
                    log.warning("placements: %s", error)
        finally:
            self._closed = True
            for call in self._calls:
                call.cancel()
            await asyncio.gather(*self._calls, return_exceptions=True)

    async def stop(self) -> None:
        """Hand over no more placements, and wait until all that were handed over are stored.

        resmgr hands later ones to the next leader.
        """
        self._stopped = True
        await self._backlog.empty()

    async def _step(self, resmgr: PlacedTasks, opened: Opened | None) -> None:
        await self._gate.opened()
        if opened is not None:
            await self._return_untaken(resmgr, opened.shards)
        call = asyncio.create_task(self._take(resmgr, opened), name="placements")
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        try:
            await asyncio.shield(call)
        except asyncio.CancelledError:
            if self._closed:
                call.cancel()
            elif not call.done():
                self._left.put_nowait(call)
            raise

    async def _take(self, resmgr: PlacedTasks, opened: Opened | None) -> None:
        placements = await resmgr.placements(PLACEMENTS_PER_CALL, POLL_SECONDS)
        if placements:
            await self._gate.opened()  # it may have been closed during the call
        if opened is not None and not opened.whole:
            placements = [self._own(each, set(opened.shards)) for each in placements]
        if placements and not self._stopped:
            await self._hand_over(placements)
        if opened is not None:
            await self._return_untaken(resmgr, opened.open_now)

    def _own(self, placement: Placement, shards: Collection[int]) -> Placement:
        """Return the part of a placement whose jobs are of some shards. Without one its claim is released.

        What was taken of a shard that was dropped since returns to resmgr, even if it is open again.
        """
        parts = split_placement(
            placement, lambda job_id: int(shard_of(job_id) not in shards), self._lanes.job
        )
        if others := parts.get(1):
            self._note_untaken(others.runs)
        return parts.get(0) or replace(placement, runs=(), ports=())

    def _note_untaken(self, runs: Sequence[Run]) -> None:
        """Note runs that are not launched; the oldest ones are forgotten where there are too many."""
        for run in runs:
            self._untaken[run] = None
        while len(self._untaken) > RUNS_UNTAKEN:
            del self._untaken[next(iter(self._untaken))]

    async def _return_untaken(self, resmgr: PlacedTasks, shards: Collection[int]) -> None:
        """Have runs of some shards placed anew that were not taken while these were not open.

        A shard that has stayed is in the same term, so resmgr would wait for their launches. Where it has a
        newer one they have returned already, and this changes nothing: it comes before they are asked for.
        """
        untaken = [run for run in self._untaken if shard_of(run.job_id) in shards]
        if untaken:
            await resmgr.settle([(run, TaskState.READY) for run in untaken])
            for run in untaken:
                self._untaken.pop(run, None)

    async def _hand_over(self, placements: Sequence[Placement]) -> None:
        runs = sum(len(placement.runs) for placement in placements)
        await self._backlog.add(self._lanes.submit(Placed(placements)), runs)


class Launcher:
    """Carries out Launch, with some workers on one queue, and Release."""

    def __init__(
        self,
        hostmgr: Launches,
        jobs: Callable[[JobId], CachedJob | None],
        post: Callable[[Event], None],
        releases: Queue[Release],
        labels: SystemLabels,
        secrets: Secrets,
        access: TaskAccess | None = None,
        meetings: Meetings | None = None,
        holds: Callable[[JobId], bool] = lambda job_id: True,
    ) -> None:
        """Launch the current runs of `jobs` that this instance `holds`."""
        self._holds = holds
        self._hostmgr = hostmgr
        self._meetings = meetings or Meetings()
        self._releases = releases
        self._jobs = jobs
        self._post = post
        self._labels = labels
        self._secrets = secrets
        self._access = access
        self._under_way: dict[int, Launch] = {}
        """By a number of their own."""
        self._count = 0
        self._ended = asyncio.Event()
        """Set whenever a launch has ended."""

    async def finish(self, queue: Queue[Launch], concerns: Concerns = lambda launch: True) -> None:
        """Wait until no launch that `concerns` is under way, nor queued unless a lockdown holds it back."""
        while (not queue.held and queue.any(concerns)) or any(map(concerns, self._under_way.values())):
            self._ended.clear()
            await self._ended.wait()

    async def launch(self, queue: Queue[Launch]) -> None:
        """Launch runs; run for ever."""
        async with asyncio.TaskGroup() as group:
            for _ in range(LAUNCHES_AT_ONCE):
                group.create_task(self._work(queue))

    def _release(self, launch: Launch) -> None:
        """Release the claim of a launch without current runs."""
        self._releases.put([Release(launch.hostname, launch.agent_id, launch.offer_id)])

    async def release(self) -> None:
        """Release claims, until hostmgr answers; run for ever. One that it refuses expires."""
        delays = backoff()
        while True:
            claims = await self._releases.take(RELEASES_PER_CALL)
            while not await self._answered(claims):
                await delays.wait()
            delays.reset()

    async def _answered(self, claims: Sequence[Release]) -> bool:
        """Release claims; return whether that need not be tried again. One that is over stays over."""
        try:
            await self._hostmgr.release(claims)
        except PelotonError as error:
            log.warning("claims not released: %s", error)
            return not isinstance(error, TRANSIENT)
        return True

    async def _work(self, queue: Queue[Launch]) -> None:
        while True:
            for launch in await queue.take(1):
                self._count += 1
                number = self._count
                self._under_way[number] = launch
                begun = TRACES.now()
                try:
                    outcome = await self._launch(launch)
                    if begun:
                        _trace(launch, outcome, begun)
                    self._post(outcome)
                finally:
                    del self._under_way[number]
                    self._ended.set()

    async def _launch(self, launch: Launch) -> Event:
        """Launch runs; repeat the call until hostmgr answers.

        hostmgr knows how long a claim lasts, and answers `invalid offers` where one is over.
        """
        jobs = {run.job_id: self._jobs(run.job_id) for run in launch.runs}
        await self._labels.learn(job.spec for job in jobs.values() if job is not None)
        secrets = SecretFiles(self._secrets)
        launch = await self._with_secrets(launch, secrets)
        tasks = [task for run in launch.runs if (task := self._task(run, secrets)) is not None]
        if not tasks:
            self._release(launch)
            return Launched(launch.runs)
        call = self._hostmgr.launch(launch, tasks)
        delays, failures, uncertain = backoff(), 0, False
        while failures < MAX_CALL_FAILURES:
            try:
                return outcome(launch.runs, await call(), uncertain)
            except PelotonError as error:
                uncertain = True
                failures += not isinstance(error, TRANSIENT)
                log.warning("launch on %s: %s", launch.hostname, error)
            await delays.wait()
            if not all(self._holds(run.job_id) for run in launch.runs):
                # The next owner finds out what became of its runs, as this one does of the others.
                # A call that is still under way finds no claim.
                self._release(launch)
                break
        return LaunchUncertain(launch.runs)

    async def _with_secrets(self, launch: Launch, secrets: SecretFiles) -> Launch:
        """Read the secrets of the runs; return the launch without those whose secrets are missing."""
        lacking: list[Run] = []
        for run in launch.runs:
            job = self._jobs(run.job_id)
            task = None if job is None else job.task(run.instance)
            if job is None or task is None or task.run != run.run:
                continue
            wrong = await secrets.read(run.job_id, job.spec_of(run.instance).payload.secrets)
            if wrong:
                self._post(SecretMissing((run,), wrong))
                lacking.append(run)
        return replace(launch, runs=tuple(run for run in launch.runs if run not in lacking))

    def _task(self, run: Run, secrets: SecretFiles) -> LaunchedTask | None:
        """Return what is launched; None for a run that is not current any more."""
        job = self._jobs(run.job_id)
        task = job.task(run.instance) if job is not None else None
        if job is None or task is None or task.run != run.run:
            return None
        spec = job.spec_of(run.instance)
        own = spec.task(run.instance)
        access = self._access.of(run) if own.workload.token and self._access is not None else NOTHING
        return LaunchedTask(
            run,
            spec,
            task,
            self._labels.of(spec),
            [*secrets.of(run.job_id, spec.payload.secrets), *access.files],
            _volume(job, task, own),
            access.environment,
            self._meetings.told(job, run.instance),
        )


class Settler:
    """Carries out Settle."""

    def __init__(self, resmgr: PlacedTasks) -> None:
        self._resmgr = resmgr

    async def run(self, queue: Queue[tuple[Run, TaskState]]) -> None:
        """Report the states of runs to resmgr; run for ever."""
        while True:
            states = await queue.take(RUNS_PER_SETTLEMENT)
            try:
                await self._resmgr.settle(states)
            except PelotonError as error:
                log.error("the states of %d runs are not reported to resmgr: %s", len(states), error)


def _trace(launch: Launch, outcome: Event, begun: int) -> None:
    error = outcome.message if isinstance(outcome, LaunchRefused) else ""
    if isinstance(outcome, LaunchUncertain):
        error = "hostmgr gives no answer that can be relied on"
    for run in filter(TRACES.follows, launch.runs):
        TRACES.part(run, "launch", begun, TRACES.now(), {"peloton.host": launch.hostname}, error)


def _volume(job: CachedJob, task: TaskRuntime, spec: TaskSpec) -> VolumeMount | None:
    """Return the volume of a stateful task, to be created where this is its first run."""
    if spec.volume is None:
        return None
    volume = job.volumes.get(task.volume_id)
    new = volume is not None and volume.state is VolumeState.INITIALIZED
    size = spec.volume.size_mb * MILLI if volume is None else volume.size_mb * MILLI
    return VolumeMount(task.volume_id, size, spec.volume.container_path, new)
