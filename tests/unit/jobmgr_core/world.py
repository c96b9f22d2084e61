"""A small cluster in place of resmgr, hostmgr and Mesos, answering the calls that the drivers make."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from jobmgr.clients.hostmgr import HostmgrClient
from jobmgr.clients.launches import HostLaunch, older_request_of
from jobmgr.clients.resmgr import ResmgrClient
from jobmgr.drivers.options import Called, DriverOptions
from jobmgr.drivers.start import start_drivers
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import Opened
from jobmgr.engine.task_access import TaskAccess
from mesos.v1 import mesos_pb2
from peloton.api.v0.host import host_pb2
from peloton.calls.rpc import Rpc
from peloton.errors import PelotonError
from peloton.model.ids import mesos_task_id, parse_mesos_task_id, task_id
from peloton.model.states import TaskState
from peloton.private.eventstream import eventstream_pb2
from peloton.private.hostmgr.foreign import foreign_pb2
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.holds import holds_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.launching import launching_pb2
from peloton.private.hostmgr.passing import passing_pb2
from peloton.private.hostmgr.reconcile import reconcile_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.private.resmgr.holding import holding_pb2
from peloton.private.resmgr.preemption import preemption_pb2
from peloton.private.resmgr.queueing import queueing_pb2
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2

ENDS = mesos_pb2.TASK_FINISHED
Behaviour = Callable[[str], "list[tuple[int, str]]"]
"""By run: the states, with messages, that it goes through by itself."""


def runs_well(run: str) -> list[tuple[int, str]]:
    states = (mesos_pb2.TASK_STARTING, mesos_pb2.TASK_RUNNING, mesos_pb2.TASK_FINISHED)
    return [(state, "") for state in states]


def runs_on(run: str) -> list[tuple[int, str]]:
    return [(mesos_pb2.TASK_STARTING, ""), (mesos_pb2.TASK_RUNNING, "")]


class World:
    """Each method of a service is a method here. `failures` holds what the next calls of a method raise."""

    def __init__(self, behaviour: Behaviour = runs_well) -> None:
        self.behaviour = behaviour
        self.hold = False
        """While set, nothing is placed."""
        self.calls: list[tuple[str, Any]] = []
        self.failures: dict[str, deque[PelotonError]] = {}
        self.queued: dict[str, Any] = {}
        """resmgr's tasks that wait, by task id."""
        self.held: dict[str, str] = {}
        """Hosts that were held for instances."""
        self.alive: dict[str, str] = {}
        """Runs in Mesos with their host."""
        self.draining: set[str] = set()
        """Hosts in maintenance."""
        self.launched: list[str] = []
        self.twice: list[str] = []
        """Runs that were launched while another run of the instance lived."""
        self.released: list[str] = []
        self.stream = "stream-1"
        self.events: list[Any] = []
        self.purged = 0
        self.acknowledges = False
        """Whether a run's next status comes only once the last one is passed."""
        self._passed: set[int] = set()
        self._last: dict[str, int] = {}
        """Offset of each run's last status."""
        self._held: list[tuple[str, Any]] = []
        self.preempted: list[str] = []
        """Runs that have to give way."""
        self.resmgr_stream = "resmgr-1"
        self.resmgr_leader = "leader-1"
        self.deltas: list[waiting_pb2.TaskDelta] = []
        self.refuse: Callable[[Any], str] = lambda task: ""
        self.launches = asyncio.Event()
        """Unless set, a launch takes its time."""
        self.launches.set()
        self._offers = 0
        self._handed_over: dict[str, Any] = {}
        """Tasks by their runs."""
        self._launched_on: dict[str, list[str]] = {}
        """What was launched by each claim: repeated, it is the same launch."""

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        method = rpc.name
        if isinstance(request, launching_pb2.LaunchTasksRequest):
            return await self._launch_on_hosts(request)
        if isinstance(request, queueing_pb2.EnqueueGangsRequest):
            return await self._enqueue_alike(request)
        self.calls.append((method, request))
        failures = self.failures.get(method)
        if failures:
            raise failures.popleft()
        await asyncio.sleep(0)
        return await getattr(self, method)(request)

    # resmgr

    async def _enqueue_alike(self, request: queueing_pb2.EnqueueGangsRequest) -> Any:
        """Take runs as gangs of one task each."""
        if failures := self.failures.get("EnqueueGangs"):
            raise failures.popleft()
        expanded = resmgrsvc_pb2.EnqueueGangsRequest()
        refused: dict[int, str] = {}
        for place, group in enumerate(request.runs):
            for instance, run in zip(group.instances, group.runs, strict=True):
                task = expanded.gangs.add().tasks.add()
                task.CopyFrom(group.needs)
                task.id.value = task_id(group.job_id, instance)
                task.taskId.value = mesos_task_id(group.job_id, instance, run)
                if text := self.refuse(task):
                    refused[place] = text
        self.calls.append(("EnqueueGangs", expanded))
        await self.EnqueueGangs(expanded)
        refusals = [queueing_pb2.Refusal(place=place, message=text) for place, text in refused.items()]
        return queueing_pb2.EnqueueGangsResponse(refusals=refusals)

    async def EnqueueGangs(self, request: Any) -> Any:
        answer = resmgrsvc_pb2.EnqueueGangsResponse()
        for gang in request.gangs:
            for task in gang.tasks:
                if text := self.refuse(task):
                    answer.error.failure.failed.add(task=task, message=text)
                else:
                    self.queued[task.id.value] = task
        return answer

    async def KillTasks(self, request: Any) -> Any:
        if isinstance(request, hostsvc_pb2.KillTasksRequest):
            return self._kill(request)
        for task, run in zip(request.tasks, request.runs, strict=True):
            held = self.queued.get(task.value)
            if held is not None and parse_mesos_task_id(held.taskId.value).run <= run:
                del self.queued[task.value]
        return resmgrsvc_pb2.KillTasksResponse()

    async def KillAndReserveTasks(self, request: Any) -> Any:
        self.held.update({entry.id.value: entry.hostToReserve for entry in request.entries})
        self._kill(hostsvc_pb2.KillTasksRequest(taskIds=[entry.taskId for entry in request.entries]))
        return hostsvc_pb2.KillAndReserveTasksResponse()

    async def ReleaseHostsHeldForTasks(self, request: Any) -> Any:
        for each in request.ids:
            self.held.pop(each.value, None)
        return hostsvc_pb2.ReleaseHostsHeldForTasksResponse()

    async def ListHolds(self, request: Any) -> Any:
        answer = holds_pb2.ListHoldsResponse()
        for each, host in self.held.items():
            answer.holds.add(task_id=each, hostname=host).room.cpu = 1
        return answer

    async def RenewHolds(self, request: Any) -> Any:
        return holds_pb2.RenewHoldsResponse()

    async def GetPlacements(self, request: Any) -> Any:
        await _holds(lambda: bool(self.queued) and not self.hold, request.timeout)
        if self.hold:
            return resmgrsvc_pb2.GetPlacementsResponse()
        answer = resmgrsvc_pb2.GetPlacementsResponse()
        for at, task in enumerate(self.queued.values()):
            if at % 4 == 0:
                self._offers += 1
                placement = answer.placements.add(hostname=f"host-{self._offers % 7}")
                placement.agentId.value = f"agent-{self._offers % 7}"
                placement.hostOfferID.value = f"offer-{self._offers}"
            placement.taskIDs.add(pelotonTaskID=task.id, mesosTaskID=task.taskId)
            placement.ports.extend(range(31000, 31000 + task.numPorts))
        self._handed_over.update({task.taskId.value: task for task in self.queued.values()})
        self.queued.clear()
        return answer

    async def UpdateTasksState(self, request: Any) -> Any:
        for entry in request.taskStates:
            task = self._handed_over.pop(entry.mesosTaskId.value, None)
            if entry.state == TaskState.READY and task is not None:
                self.queued[task.id.value] = task
        return resmgrsvc_pb2.UpdateTasksStateResponse()

    async def WaitForDeltas(self, request: Any) -> Any:
        await _holds(lambda: request.stream_id != self.resmgr_stream or bool(self.deltas), request.timeout_ms)
        deltas, self.deltas = self.deltas, []
        return waiting_pb2.WaitForDeltasResponse(
            stream_id=self.resmgr_stream, last=1, deltas=deltas, leader_id=self.resmgr_leader
        )

    async def FindMissing(self, request: Any) -> Any:
        answer = holding_pb2.FindMissingResponse()
        for job in request.jobs:
            for span in job.spans:
                for instance in range(span.first_instance, span.first_instance + span.count):
                    held = self.queued.get(task_id(job.job_id, instance))
                    if held is None or parse_mesos_task_id(held.taskId.value).run < span.run:
                        missing = holding_pb2.Span(first_instance=instance, count=1, run=span.run)
                        answer.missing.add(job_id=job.job_id, spans=[missing])
        return answer

    async def GetPreemptibleTasks(self, request: Any) -> Any:
        await _holds(lambda: bool(self.preempted), request.timeout)
        runs, self.preempted = self.preempted, []
        answer = resmgrsvc_pb2.GetPreemptibleTasksResponse()
        for run in runs:
            answer.preemptionCandidates.add().task_id.value = run
        return answer

    async def GetReasons(self, request: Any) -> Any:
        return preemption_pb2.GetReasonsResponse(
            reasons=[
                preemption_pb2.Reason(mesos_task_id=run, pool="/a", reason="/a is over; /b waits")
                for run in request.mesos_task_ids
            ]
        )

    async def KeepRuns(self, request: Any) -> Any:
        return preemption_pb2.KeepRunsResponse(spared=len(request.mesos_task_ids))

    # hostmgr

    async def _launch_on_hosts(self, request: launching_pb2.LaunchTasksRequest) -> Any:
        """Take the launches of hosts as a call each."""
        launches = [
            older_request_of(HostLaunch(host, [request.configs[place] for place in host.configs]))
            for host in request.hosts
        ]
        self.calls += [("LaunchTasks", launch) for launch in launches]
        if failures := self.failures.get("LaunchTasks"):
            raise failures.popleft()
        answers = [await self.LaunchTasks(launch) for launch in launches]
        return launching_pb2.LaunchTasksResponse(outcomes=map(_outcome, answers))

    async def LaunchTasks(self, request: Any) -> Any:
        await self.launches.wait()
        runs = [task.taskId.value for task in request.tasks]
        answer = hostsvc_pb2.LaunchTasksResponse()
        known = self._launched_on.setdefault(request.id.value, runs)
        if known is not runs:
            if known != runs:
                answer.error.invalidOffers.message = f"claim {request.id.value} is over"
            return answer
        for task in request.tasks:
            run = task.taskId.value
            instance = run.rpartition("-")[0]
            if any(other.rpartition("-")[0] == instance for other in self.alive):
                self.twice.append(run)
            self.launched.append(run)
            self.alive[run] = request.hostname
            for state, message in self.behaviour(run):
                self.status(run, state, message)
        return hostsvc_pb2.LaunchTasksResponse()

    async def ReleaseHostOffers(self, request: Any) -> Any:
        self.released += [offer.id.value for offer in request.hostOffers]
        return hostsvc_pb2.ReleaseHostOffersResponse()

    async def ReconcileTasks(self, request: Any) -> Any:
        for run in request.runs:
            known = run.mesos_task_id in self.alive
            state = mesos_pb2.TASK_RUNNING if known else mesos_pb2.TASK_GONE
            message = f"Reconciliation: {'Latest task state' if known else 'Task is unknown to the agent'}"
            self.status(run.mesos_task_id, state, message, mesos_pb2.TaskStatus.REASON_RECONCILIATION)
        return reconcile_pb2.ReconcileTasksResponse()

    async def GetMaintenances(self, request: Any) -> Any:
        return history_pb2.GetMaintenancesResponse()

    async def GetTasksByHostState(self, request: Any) -> Any:
        assert request.host_state == host_pb2.HOST_STATE_DRAINING
        await _holds(lambda: any(host in self.draining for host in self.alive.values()), request.timeout)
        runs = [run for run, host in self.alive.items() if host in self.draining]
        return hostsvc_pb2.GetTasksByHostStateResponse(task_ids=[mesos_pb2.TaskID(value=run) for run in runs])

    async def ShutdownExecutors(self, request: Any) -> Any:
        return hostsvc_pb2.ShutdownExecutorsResponse()

    async def InitStream(self, request: Any) -> Any:
        return eventstream_pb2.InitStreamResponse(streamID=self.stream, previousPurgeOffset=self.purged)

    async def WaitForEvents(self, request: Any) -> Any:
        answer = eventstream_pb2.WaitForEventsResponse()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.timeoutMs / 1000
        while request.streamID == self.stream and len(self.events) <= request.beginOffset:
            self._purge(request.purgeOffset)
            if loop.time() >= deadline:
                break
            await asyncio.sleep(0.002)
        if request.streamID != self.stream:
            answer.error.invalidStreamID.currentStreamID = self.stream
            return answer
        self._purge(request.purgeOffset)
        answer.events.extend(self.events[request.beginOffset :][: request.limit])
        return answer

    async def WaitForReadings(self, request: Any) -> Any:
        """No agent tells what its runs use."""
        await asyncio.sleep(request.wait_seconds)
        return sampling_pb2.WaitForReadingsResponse()

    async def WaitForPods(self, request: Any) -> Any:
        """Nobody else makes pods for Peloton."""
        await asyncio.sleep(request.wait_seconds)
        return foreign_pb2.WaitForPodsResponse()

    async def PassEvents(self, request: Any) -> Any:
        assert request.stream_id == self.stream
        self._passed.update(request.offsets)
        self._let_follow()
        return passing_pb2.PassEventsResponse()

    def _purge(self, offset: int) -> None:
        if offset > self.purged:
            self.purged = offset
            self._let_follow()

    def _let_follow(self) -> None:
        held, self._held = self._held, []
        for run, status in held:
            self._append(run, status)

    def _append(self, run: str, status: Any) -> None:
        last = self._last.get(run, -1)
        if self.acknowledges and last >= self.purged and last not in self._passed:
            self._held.append((run, status))
            return
        self._last[run] = len(self.events)
        self.events.append(
            eventstream_pb2.Event(
                offset=len(self.events),
                type=eventstream_pb2.Event.MESOS_TASK_STATUS,
                mesosTaskStatus=status,
            )
        )

    def status(
        self,
        run: str,
        state: int,
        message: str = "",
        reason: int | None = None,
        uuid: bytes = b"",
        timestamp: float = 1_700_000_000.0,
    ) -> None:
        """Mesos says so; an agent where there is a uuid."""
        status = mesos_pb2.TaskStatus(state=state, message=message, timestamp=timestamp)  # type: ignore[arg-type]
        status.task_id.value = run
        if uuid:
            status.uuid = uuid
        if reason is not None:
            status.reason = reason  # type: ignore[assignment]
        if state not in (mesos_pb2.TASK_STARTING, mesos_pb2.TASK_RUNNING, mesos_pb2.TASK_STAGING):
            self.alive.pop(run, None)
        self._append(run, status)

    def called(self, method: str) -> list[Any]:
        return [request for name, request in self.calls if name == method]

    def _kill(self, request: Any) -> Any:
        for task in request.taskIds:
            if task.value in self.alive:
                self.status(task.value, mesos_pb2.TASK_KILLED, "Command terminated with signal Terminated")
            else:
                self.status(task.value, mesos_pb2.TASK_UNKNOWN, "")
        return hostsvc_pb2.KillTasksResponse()


def _outcome(answer: hostsvc_pb2.LaunchTasksResponse) -> launching_pb2.Outcome:
    over = answer.error.invalidOffers.message
    kind = launching_pb2.Outcome
    return kind(result=kind.RESULT_CLAIM_OVER if over else kind.RESULT_LAUNCHED, message=over)


class Running:
    """An engine with its drivers, over a world."""

    def __init__(
        self,
        engine: Engine,
        world: World,
        finish_within: float = 10.0,
        access: TaskAccess | None = None,
        resmgr_sources: Callable[[Opened], ResmgrClient] | None = None,
        hostmgr_sources: Callable[[str, Opened], HostmgrClient] | None = None,
    ) -> None:
        """`access` is what tasks get that ask for a token; the rest as in `Called`."""
        self._sources = resmgr_sources, hostmgr_sources
        self.engine = engine
        self._access = access
        self._finish_within = finish_within
        self.world = world
        self.tasks: list[asyncio.Task[Any]] = []
        self.finish: Callable[[], Awaitable[None]]
        """What the drivers do before they are ended in order."""

    async def __aenter__(self) -> Running:
        world = self.world
        self.finish = start_drivers(
            lambda name, work: self.tasks.append(asyncio.create_task(work, name=name)),
            self.engine,
            Called(ResmgrClient(world), lambda cluster: HostmgrClient(world), *self._sources),
            DriverOptions(finish_within=self._finish_within, access=self._access),
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        failed = [task for task in self.tasks if task.done()]
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for task in failed:
            task.result()


async def _holds(condition: Callable[[], bool], milliseconds: int) -> None:
    """Wait until the condition holds, as long as the call may wait."""
    deadline = asyncio.get_running_loop().time() + milliseconds / 1000
    while not condition():  # a world polls, for it changes in many places
        if asyncio.get_running_loop().time() >= deadline:
            return
        await asyncio.sleep(0.002)
