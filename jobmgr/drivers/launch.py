"""Takes placements from resmgr and launches them, one call for each host."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

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
from jobmgr.drivers.retry import CALL_SECONDS, for_ever, until_answered
from jobmgr.drivers.secret_files import SecretFiles
from jobmgr.drivers.system_labels import SystemLabels
from jobmgr.drivers.task_configs import TaskConfigs
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.lockdown import Gate
from jobmgr.engine.outbox import Queue
from jobmgr.engine.transient import TRANSIENT, backoff
from peloton.api.v0 import peloton_pb2
from peloton.daemon.tracing import TRACES
from peloton.errors import InvalidArgument, PelotonError, Refused
from peloton.model.ids import JobId, Run, mesos_task_id, parse_mesos_task_id, task_id
from peloton.model.resources import MILLI
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskSpec
from peloton.model.volume import VolumeMount, VolumeState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.rpc.client import Caller
from peloton.rpc.errors import InvalidRequest
from peloton.wire.hosts import claim_to
from peloton.wire.ids import agent_id
from peloton.wire.launch import volume_to
from storage.interface import Secrets

PLACEMENTS_PER_CALL = 1000
POLL_SECONDS = 10.0
RUNS_UNSTORED = 50_000
"""Limit of placed runs that lanes have not stored; beyond it no placements are taken."""
LAUNCHES_AT_ONCE = 16
MAX_CALL_FAILURES = 10
"""Failures of hostmgr in a launch after which Mesos is asked for the outcome."""
RELEASES_PER_CALL = 500
RUNS_PER_SETTLEMENT = 5000
log = logging.getLogger(__name__)


class Placements:
    """Pulls placements. The core decides which of their runs still wait."""

    def __init__(self, resmgr: Caller, lanes: Lanes, gate: Gate) -> None:
        """Pull from `resmgr` while `gate` is open."""
        self._gate = gate
        self._resmgr = resmgr
        self._lanes = lanes
        self._stopped = False
        self._backlog = Backlog(RUNS_UNSTORED)

    async def run(self) -> None:
        """Pull placements for ever."""
        await for_ever("placements", self._step)

    async def stop(self) -> None:
        """Hand over no more placements, and wait until all that were handed over are stored.

        resmgr hands later ones to the next leader.
        """
        self._stopped = True
        await self._backlog.empty()

    async def _step(self) -> None:
        await self._gate.opened()
        request = resmgrsvc_pb2.GetPlacementsRequest(
            limit=PLACEMENTS_PER_CALL, timeout=int(POLL_SECONDS * 1000)
        )
        answer = await self._resmgr.call("GetPlacements", request, timeout=POLL_SECONDS + CALL_SECONDS)
        if answer.HasField("error"):
            raise Refused(f"GetPlacements: {answer.error.failure.message}")
        if answer.placements:
            await self._gate.opened()  # it may have been closed during the call
        if answer.placements and not self._stopped:
            await self._hand_over([_placement(wire) for wire in answer.placements])

    async def _hand_over(self, placements: Sequence[Placement]) -> None:
        runs = sum(len(placement.runs) for placement in placements)
        await self._backlog.add(self._lanes.submit(Placed(placements)), runs)


class Launcher:
    """Carries out Launch, with some workers on one queue, and Release."""

    def __init__(
        self,
        hostmgr: Caller,
        jobs: Callable[[JobId], CachedJob | None],
        post: Callable[[Event], None],
        releases: Queue[Release],
        labels: SystemLabels,
        secrets: Secrets,
    ) -> None:
        self._hostmgr = hostmgr
        self._releases = releases
        self._jobs = jobs
        self._post = post
        self._labels = labels
        self._secrets = secrets
        self._configs = TaskConfigs()
        self._under_way = 0
        self._ended = asyncio.Event()
        """Set whenever a launch has ended."""

    async def finish(self, queue: Queue[Launch]) -> None:
        """Wait until nothing is under way, nor queued unless a lockdown holds it back."""
        while (len(queue) and not queue.held) or self._under_way:
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
        """Release claims; run for ever. One that cannot be released expires."""
        while True:
            offers = [
                claim_to(item.hostname, item.agent_id, item.offer_id)
                for item in await self._releases.take(RELEASES_PER_CALL)
            ]
            request = hostsvc_pb2.ReleaseHostOffersRequest(hostOffers=offers)
            try:
                await self._hostmgr.call("ReleaseHostOffers", request)
            except PelotonError as error:
                log.warning("claims not released: %s", error)

    async def _work(self, queue: Queue[Launch]) -> None:
        while True:
            for launch in await queue.take(1):
                self._under_way += 1
                begun = TRACES.now()
                try:
                    outcome = await self._launch(launch)
                    if begun:
                        _trace(launch, outcome, begun)
                    self._post(outcome)
                finally:
                    self._under_way -= 1
                    self._ended.set()

    async def _launch(self, launch: Launch) -> Event:
        """Launch runs; repeat the call until hostmgr answers.

        hostmgr knows how long a claim lasts, and answers `invalid offers` where one is over.
        """
        jobs = {run.job_id: self._jobs(run.job_id) for run in launch.runs}
        await self._labels.learn(job.spec for job in jobs.values() if job is not None)
        secrets = SecretFiles(self._secrets)
        launch = await self._with_secrets(launch, secrets)
        request = self._request(launch, secrets)
        if not request.tasks:
            self._release(launch)
            return Launched(launch.runs)
        delays, failures, uncertain = backoff(), 0, False
        while failures < MAX_CALL_FAILURES:
            try:
                answer = await self._hostmgr.call("LaunchTasks", request, timeout=CALL_SECONDS, retry=False)
                return _outcome(launch, answer, uncertain)
            except Refused as error:
                return _refused(launch, str(error), uncertain)
            except (InvalidRequest, InvalidArgument) as error:
                return LaunchRefused(launch.runs, str(error), faulty=True)
            except PelotonError as error:
                uncertain = True
                failures += not isinstance(error, TRANSIENT)
                log.warning("launch on %s: %s", launch.hostname, error)
            await delays.wait()
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

    def _request(self, launch: Launch, secrets: SecretFiles) -> hostsvc_pb2.LaunchTasksRequest:
        request = hostsvc_pb2.LaunchTasksRequest(
            hostname=launch.hostname,
            agentId=agent_id(launch.agent_id),
            id=peloton_pb2.HostOfferID(value=launch.offer_id),
        )
        for run in launch.runs:
            job = self._jobs(run.job_id)
            task = job.task(run.instance) if job is not None else None
            if job is not None and task is not None and task.run == run.run:
                self._add(request, job, run, task, secrets)
        return request

    def _add(
        self,
        request: hostsvc_pb2.LaunchTasksRequest,
        job: CachedJob,
        run: Run,
        task: TaskRuntime,
        secrets: SecretFiles,
    ) -> None:
        launchable = request.tasks.add()
        launchable.taskId.value = mesos_task_id(*run)
        launchable.id.value = task_id(run.job_id, run.instance)
        launchable.config.CopyFrom(self._configs.task(job, run.instance))
        spec = job.spec_of(run.instance)
        secrets.put(launchable.config, run.job_id, spec.payload.secrets)
        self._labels.put(launchable.config, spec)
        if spec.revocable(run.instance):
            launchable.config.revocable = True
        self._add_volume(launchable, job, task, spec.task(run.instance))
        for port in spec.task(run.instance).ports:
            if port.value == 0:
                launchable.ports[port.name] = task.ports[port.name]

    def _add_volume(
        self, launchable: hostsvc_pb2.LaunchableTask, job: CachedJob, task: TaskRuntime, spec: TaskSpec
    ) -> None:
        """Add the volume of a stateful task, to be created where this is its first run."""
        if spec.volume is None:
            return
        volume = job.volumes.get(task.volume_id)
        new = volume is not None and volume.state is VolumeState.INITIALIZED
        size = spec.volume.size_mb * MILLI if volume is None else volume.size_mb * MILLI
        mount = VolumeMount(task.volume_id, size, spec.volume.container_path, new)
        launchable.volume.CopyFrom(volume_to(mount))


class Settler:
    """Carries out Settle."""

    def __init__(self, resmgr: Caller) -> None:
        self._resmgr = resmgr

    async def run(self, queue: Queue[tuple[Run, TaskState]]) -> None:
        """Report the states of runs to resmgr; run for ever."""
        while True:
            request = resmgrsvc_pb2.UpdateTasksStateRequest()
            for run, state in await queue.take(RUNS_PER_SETTLEMENT):
                entry = request.taskStates.add()
                entry.task.value = task_id(run.job_id, run.instance)
                entry.mesosTaskId.value = mesos_task_id(*run)
                entry.state = state  # type: ignore[assignment]
            try:
                await until_answered(self._resmgr, "UpdateTasksState", request)
            except PelotonError as error:
                log.error(
                    "the states of %d runs are not reported to resmgr: %s", len(request.taskStates), error
                )


def _trace(launch: Launch, outcome: Event, begun: int) -> None:
    error = outcome.message if isinstance(outcome, LaunchRefused) else ""
    if isinstance(outcome, LaunchUncertain):
        error = "hostmgr gives no answer that can be relied on"
    for run in filter(TRACES.follows, launch.runs):
        TRACES.part(run, "launch", begun, TRACES.now(), {"peloton.host": launch.hostname}, error)


def _placement(wire: resmgr_pb2.Placement) -> Placement:
    return Placement(
        wire.hostname,
        wire.agentId.value,
        wire.hostOfferID.value,
        tuple(wire.ports),
        tuple(parse_mesos_task_id(task.mesosTaskID.value) for task in wire.taskIDs),
    )


def _outcome(launch: Launch, answer: hostsvc_pb2.LaunchTasksResponse, uncertain: bool) -> Event:
    error = answer.error
    if error.HasField("invalidOffers"):
        return _refused(launch, error.invalidOffers.message, uncertain)
    if error.HasField("launchFailure"):
        return LaunchUncertain(launch.runs)
    if error.HasField("invalidArgument"):
        return _invalid(launch, error.invalidArgument)
    return Launched(launch.runs)


def _refused(launch: Launch, message: str, uncertain: bool) -> Event:
    """Return the outcome of a refusal. An earlier try may have reached a hostmgr that led before."""
    if uncertain:
        return LaunchUncertain(launch.runs)
    return LaunchRefused(launch.runs, message, faulty=False)


def _invalid(launch: Launch, error: hostsvc_pb2.InvalidArgument) -> Event:
    return LaunchRefused(launch.runs, error.message, faulty=True)
