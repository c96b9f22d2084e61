"""The host manager of a Mesos cluster over gRPC."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from jobmgr.clients.answers import CALL_SECONDS, until_answered
from jobmgr.clients.launch_calls import LaunchCalls
from jobmgr.clients.launches import LaunchWriter
from jobmgr.clients.matching import MatchingClient
from jobmgr.core.state.instructions import Launch, Release
from jobmgr.ports.hostmgr import (
    Failures,
    HeldKill,
    Hold,
    LaunchCall,
    LaunchedTask,
    Maintenance,
    ReadingBatch,
    StatusBatch,
    StreamBroken,
)
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.calls.jobmgr import (
    DESTROY_VOLUMES,
    GET_MAINTENANCES,
    GET_MESOS_AGENT_INFO,
    GET_TASKS_BY_HOST_STATE,
    INIT_STREAM,
    KILL_AND_RESERVE_TASKS,
    KILL_TASKS,
    LIST_HOLDS,
    PASS_EVENTS,
    RECONCILE_TASKS,
    RELEASE_HELD_HOSTS,
    RELEASE_HOST_OFFERS,
    RENEW_HOLDS,
    SHUTDOWN_EXECUTORS,
    TELL_OWNERS,
    WAIT_FOR_EVENTS,
    WAIT_FOR_PODS,
    WAIT_FOR_READINGS,
)
from peloton.calls.rpc import Caller
from peloton.errors import InvalidArgument, PelotonError, Unimplemented
from peloton.model.foreign_pod import PodChanges, Told
from peloton.model.ids import Run, TaskId, mesos_task_id, parse_mesos_task_id, task_id
from peloton.model.task import TaskSpec, TaskStatus
from peloton.model.usage import Reading
from peloton.model.volume import VolumeId
from peloton.private.eventstream import eventstream_pb2
from peloton.private.hostmgr.foreign import foreign_pb2
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.holds import holds_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.passing import passing_pb2
from peloton.private.hostmgr.reconcile import reconcile_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.wire.foreign_pods import changes_from, told_to
from peloton.wire.holds import room_to
from peloton.wire.hosts import claim_to, volume_resource
from peloton.wire.ids import agent_id, executor_id, run_id
from peloton.wire.mesos import task_status

TOLD_PER_CALL = 1000
STREAM_CLIENT = "jobmgr"
"""Our name as a reader of the stream of statuses."""
log = logging.getLogger(__name__)


class KillsClient:
    """Ends of runs, and the room of their hosts that is held."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def kill(self, runs: Collection[Run], maintenance: bool = False) -> Failures | None:
        """Kill runs."""
        ids = [run_id(mesos_task_id(*run)) for run in runs]
        request = hostsvc_pb2.KillTasksRequest(taskIds=ids, maintenance=maintenance)
        answer = await until_answered(self._client, KILL_TASKS, request)
        if not answer.HasField("error"):
            return None
        error = answer.error
        failed = error.killFailure if error.HasField("killFailure") else error.invalidTaskIDs
        return Failures(len(failed.taskIds), failed.message)

    async def shut_down(self, runs: Sequence[tuple[Run, str]]) -> None:
        """Shut down the executors of runs. The executor of a command task has the task's id."""
        executors = [
            hostsvc_pb2.ExecutorOnAgent(executorId=executor_id(mesos_task_id(*run)), agentId=agent_id(agent))
            for run, agent in runs
        ]
        request = hostsvc_pb2.ShutdownExecutorsRequest(executors=executors)
        await until_answered(self._client, SHUTDOWN_EXECUTORS, request)

    async def reconcile(self, runs: Sequence[tuple[Run, str]]) -> None:
        """Ask Mesos for the states of runs."""
        wires = [reconcile_pb2.Run(mesos_task_id=mesos_task_id(*run), agent_id=agent) for run, agent in runs]
        request = reconcile_pb2.ReconcileTasksRequest(runs=wires)
        await until_answered(self._client, RECONCILE_TASKS, request)

    async def kill_and_hold(self, kills: Sequence[HeldKill]) -> str:
        """Kill runs and hold their hosts; return why some of that failed."""
        request = hostsvc_pb2.KillAndReserveTasksRequest(entries=map(_held_kill_to, kills))
        answer = await until_answered(self._client, KILL_AND_RESERVE_TASKS, request)
        return str(answer.error).strip() if answer.HasField("error") else ""

    async def release_holds(self, instances: Sequence[TaskId]) -> str:
        """Release what is held; return why some of that failed."""
        ids = [peloton_pb2.TaskID(value=each) for each in instances]
        request = hostsvc_pb2.ReleaseHostsHeldForTasksRequest(ids=ids)
        answer = await until_answered(self._client, RELEASE_HELD_HOSTS, request)
        return str(answer.error).strip() if answer.HasField("error") else ""

    async def renew_holds(self, holds: Sequence[tuple[Hold, TaskSpec]]) -> None:
        """Hold hosts anew, for what instances ask for now."""
        wires = [
            holds_pb2.Hold(task_id=hold.task_id, hostname=hold.host, room=_room_to(spec))
            for hold, spec in holds
        ]
        await until_answered(self._client, RENEW_HOLDS, holds_pb2.RenewHoldsRequest(holds=wires))

    async def holds(self) -> Sequence[Hold]:
        """Return what is held with an amount, as by job managers."""
        answer = await self._client.call(LIST_HOLDS, holds_pb2.ListHoldsRequest())
        return [Hold(each.task_id, each.hostname) for each in answer.holds if each.HasField("room")]


class StreamClient:
    """The stream of statuses, and the runs on draining hosts."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def open_stream(self) -> tuple[str, int]:
        """Return the id of the stream and the offset of its first event."""
        request = eventstream_pb2.InitStreamRequest(clientName=STREAM_CLIENT)
        answer = await self._client.call(INIT_STREAM, request)
        if answer.HasField("error"):
            raise PelotonError(f"{INIT_STREAM.name}: {answer.error.clientUnsupported.message}")
        return answer.streamID, max(answer.minOffset, answer.previousPurgeOffset)

    async def statuses(
        self, stream: str, stored: int, begin: int, limit: int, wait: float
    ) -> StatusBatch | None:
        """Return events from the offset `begin` on, waiting for some; those before `stored` are let go."""
        request = eventstream_pb2.WaitForEventsRequest(
            streamID=stream,
            purgeOffset=stored,
            beginOffset=begin,
            limit=limit,
            timeoutMs=round(wait * 1000),
            clientName=STREAM_CLIENT,
        )
        answer = await self._client.call(WAIT_FOR_EVENTS, request, timeout=CALL_SECONDS, waits=wait)
        if answer.HasField("error"):
            raise StreamBroken(" ".join(str(answer.error).split()))
        if not answer.events and answer.nextOffset <= begin:
            return None
        return _statuses_from(answer.events, begin, answer.nextOffset)

    async def acknowledge(self, stream: str, offsets: Sequence[int]) -> None:
        """Acknowledge events behind some that are not stored yet."""
        request = passing_pb2.PassEventsRequest(stream_id=stream, offsets=offsets)
        await self._client.call(PASS_EVENTS, request, timeout=CALL_SECONDS)

    async def draining_runs(self, wait: float) -> Sequence[Run]:
        """Return the runs on draining hosts, waiting for some."""
        request = hostsvc_pb2.GetTasksByHostStateRequest(
            host_state=host_pb2.HOST_STATE_DRAINING, timeout=round(wait * 1000)
        )
        answer = await self._client.call(GET_TASKS_BY_HOST_STATE, request, timeout=CALL_SECONDS, waits=wait)
        return list(_runs_from(each.value for each in answer.task_ids))

    async def maintenances(self) -> Mapping[str, Maintenance]:
        """Return the maintenances there are, by host."""
        request = history_pb2.GetMaintenancesRequest()
        answer = await self._client.call(GET_MAINTENANCES, request, timeout=CALL_SECONDS)
        return {each.hostname: Maintenance(each.begun_by, each.since) for each in answer.maintenances}


class HostmgrClient(KillsClient, StreamClient, MatchingClient):
    """The host manager of a Mesos cluster: `jobmgr.ports.hostmgr.Hostmgr`."""

    def __init__(self, client: Caller) -> None:
        super().__init__(client)
        self._writer = LaunchWriter()
        self._launches = LaunchCalls(client)

    def launch(self, claim: Launch, tasks: Sequence[LaunchedTask]) -> LaunchCall:
        """Return what makes the call, together with those of other hosts that are made at the same moment."""
        return partial(self._launches.launch, self._writer.launch(claim, tasks))

    async def release(self, claims: Sequence[Release]) -> None:
        """Release claims on hosts."""
        offers = [claim_to(each.hostname, each.agent_id, each.offer_id) for each in claims]
        await self._client.call(RELEASE_HOST_OFFERS, hostsvc_pb2.ReleaseHostOffersRequest(hostOffers=offers))

    async def destroy_volume(self, volume: VolumeId) -> None:
        """Destroy a volume. Raises NotFound where hostmgr knows no such volume."""
        request = hostsvc_pb2.DestroyVolumesRequest(volumes=[volume_resource(volume)])
        await self._client.call(DESTROY_VOLUMES, request, timeout=CALL_SECONDS, retry=False)

    async def pods(self, stream: str, after: int, wait: float) -> PodChanges:
        """Return what has become of the pods of others since an earlier answer."""
        request = foreign_pb2.WaitForPodsRequest(stream_id=stream, after=after, wait_seconds=wait)
        try:
            answer = await self._client.call(WAIT_FOR_PODS, request, timeout=wait + CALL_SECONDS)
        except Unimplemented:  # hostmgr is of an older version
            await asyncio.sleep(wait)
            return PodChanges("", 0, True, enabled=False)
        return changes_from(answer)

    async def tell_owners(self, told: Sequence[Told]) -> None:
        """Tell owners of pods what becomes of them."""
        for at in range(0, len(told), TOLD_PER_CALL):
            await self._client.call(TELL_OWNERS, told_to(told[at : at + TOLD_PER_CALL]))

    async def readings(self, stream: str, begin: int, wait: float) -> ReadingBatch:
        """Return what agents have told since an offset."""
        request = sampling_pb2.WaitForReadingsRequest(stream_id=stream, begin=begin, wait_seconds=wait)
        try:
            answer = await self._client.call(WAIT_FOR_READINGS, request, timeout=wait + CALL_SECONDS)
        except Unimplemented:  # hostmgr is of an older version
            await asyncio.sleep(wait)
            return ReadingBatch("", 0, ())
        columns = zip(answer.at, answer.cpu, answer.memory, answer.peak, strict=True)
        told = zip(answer.runs, map(Reading._make, columns), strict=True)
        return ReadingBatch(answer.stream_id, answer.next, list(_readings_from(told)))

    async def is_host_known(self, hostname: str) -> bool:
        """Return whether a host is registered."""
        request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=hostname)
        answer = await self._client.call(GET_MESOS_AGENT_INFO, request, timeout=CALL_SECONDS)
        return bool(answer.agents)


def _statuses_from(events: Sequence[eventstream_pb2.Event], begin: int, end: int) -> StatusBatch:
    """Translate events from `begin` on; `end` is where to go on, 0: behind the last event."""
    runs: list[tuple[Run, TaskStatus]] = []
    offsets: list[int] = []
    for event in events:
        if event.type != eventstream_pb2.Event.MESOS_TASK_STATUS:
            continue
        wire = event.mesosTaskStatus
        try:
            runs.append((parse_mesos_task_id(wire.task_id.value), task_status(wire)))
        except InvalidArgument as error:
            log.warning("invalid status of %s: %s", wire.task_id.value, error)
            continue
        offsets.append(event.offset)
    first = events[0].offset if events else begin
    return StatusBatch(len(events), first, end or events[-1].offset + 1, runs, offsets)


def _readings_from(told: Iterable[tuple[str, Reading]]) -> Iterator[tuple[Run, Reading]]:
    """Iterate over the readings of Peloton's runs, without tasks of others in the same role."""
    for run, reading in told:
        try:
            yield parse_mesos_task_id(run), reading
        except InvalidArgument as error:
            log.debug("what a task uses is left out: %s", error)


def _runs_from(ids: Iterable[str]) -> Iterator[Run]:
    """Iterate over the runs with these Mesos task ids, without tasks that are not of Peloton."""
    for each in ids:
        try:
            yield parse_mesos_task_id(each)
        except InvalidArgument as error:
            log.warning("a task on a draining host is left alone: %s", error)


def _held_kill_to(kill: HeldKill) -> hostsvc_pb2.KillAndReserveTasksRequest.Entry:
    run = kill.run
    return hostsvc_pb2.KillAndReserveTasksRequest.Entry(
        taskId=run_id(mesos_task_id(*run)),
        id=peloton_pb2.TaskID(value=task_id(run.job_id, run.instance)),
        hostToReserve=kill.host,
        room=None if kill.next_spec is None else _room_to(kill.next_spec),
        freed=None if kill.killed_spec is None else _room_to(kill.killed_spec),
        maintenance=kill.maintenance,
    )


def _room_to(spec: TaskSpec) -> holds_pb2.Room:
    return room_to(spec.resources, spec.revocable, spec.dynamic_ports)
