"""The resource manager over gRPC."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobmgr.clients.answers import CALL_SECONDS, until_answered
from jobmgr.clients.enqueueing import Gangs, alike, refusals_of, request_of
from jobmgr.core.state.events import Placement, RunOf
from jobmgr.core.state.instructions import Compare
from jobmgr.ports.resmgr import Reasons, WaitingTask
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.jobmgr import (
    ENQUEUE_ALIKE,
    ENQUEUE_GANGS,
    FIND_MISSING,
    GET_PLACEMENTS,
    GET_PREEMPTIBLE_TASKS,
    GET_REASONS,
    KEEP_RUNS,
    UPDATE_TASKS_STATE,
    WAIT_FOR_DELTAS,
    WITHDRAW_TASKS,
)
from peloton.calls.rpc import Caller
from peloton.errors import PelotonError, Refused, Unimplemented
from peloton.model.ids import (
    JobId,
    MesosTaskId,
    PoolId,
    Run,
    TaskId,
    mesos_task_id,
    parse_mesos_task_id,
    parse_task_id,
    task_id,
)
from peloton.model.states import TaskState
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.holding import holding_pb2
from peloton.private.resmgr.preemption import preemption_pb2
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.wire.resmgr import resmgr_task

_KNOWN = resmgrsvc_pb2.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_ALREADY_EXIST
log = logging.getLogger(__name__)


class ResmgrClient:
    """The leading resource manager: `jobmgr.ports.resmgr.Resmgr`."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def enqueue(self, pool: PoolId, gangs: Gangs) -> Mapping[int, str]:
        """Queue gangs in a pool; return why some are refused, by position."""
        groups = alike(gangs)
        if groups is not None:
            try:
                answer = await until_answered(self._client, ENQUEUE_ALIKE, request_of(pool, groups))
                return refusals_of(answer, groups)
            except Unimplemented:  # resmgr is of an older version
                log.debug("resmgr takes gangs one by one")
        request = resmgrsvc_pb2.EnqueueGangsRequest(resPool=peloton_pb2.ResourcePoolID(value=pool))
        for gang in gangs:
            request.gangs.add().tasks.extend([resmgr_task(*task) for task in gang])
        return _refusals(await until_answered(self._client, ENQUEUE_GANGS, request), gangs)

    async def withdraw(self, runs: Sequence[Run]) -> Mapping[TaskId, str]:
        """Take runs out, but no newer ones; return why some stay."""
        request = resmgrsvc_pb2.KillTasksRequest(
            tasks=[peloton_pb2.TaskID(value=task_id(run.job_id, run.instance)) for run in runs],
            runs=[run.run for run in runs],
        )
        answer = await until_answered(self._client, WITHDRAW_TASKS, request, transient=(PelotonError,))
        return {e.killError.task.value: e.killError.message for e in answer.error if e.HasField("killError")}

    async def missing(self, waiting: Sequence[Compare]) -> Mapping[JobId, Sequence[RunOf]]:
        """Return those of the runs that resmgr does not hold."""
        request = holding_pb2.FindMissingRequest(jobs=[_runs_to(each) for each in waiting])
        answer = await until_answered(self._client, FIND_MISSING, request)
        missing: defaultdict[JobId, list[RunOf]] = defaultdict(list)
        for job in answer.missing:
            missing[job.job_id] += _runs_from(job)
        return missing

    async def placements(self, limit: int, wait: float) -> Sequence[Placement]:
        """Take up to `limit` placements."""
        request = resmgrsvc_pb2.GetPlacementsRequest(limit=limit, timeout=_milliseconds(wait))
        answer = await self._client.call(GET_PLACEMENTS, request, timeout=CALL_SECONDS, waits=wait)
        if answer.HasField("error"):
            raise Refused(f"{GET_PLACEMENTS.name}: {answer.error.failure.message}")
        return [_placement_from(wire) for wire in answer.placements]

    async def settle(self, states: Sequence[tuple[Run, TaskState]]) -> None:
        """Report the states of runs that were handed over."""
        request = resmgrsvc_pb2.UpdateTasksStateRequest()
        for run, state in states:
            entry = request.taskStates.add()
            entry.task.value = task_id(run.job_id, run.instance)
            entry.mesosTaskId.value = mesos_task_id(*run)
            entry.state = task_pb2.TaskState.ValueType(state)
        await until_answered(self._client, UPDATE_TASKS_STATE, request)

    async def preempted(self, limit: int, wait: float) -> Sequence[MesosTaskId]:
        """Take up to `limit` runs that resmgr preempts."""
        request = resmgrsvc_pb2.GetPreemptibleTasksRequest(limit=limit, timeout=_milliseconds(wait))
        answer = await self._client.call(GET_PREEMPTIBLE_TASKS, request, timeout=CALL_SECONDS, waits=wait)
        if answer.HasField("error"):
            raise PelotonError(f"{GET_PREEMPTIBLE_TASKS.name}: {' '.join(str(answer.error).split())}")
        return [candidate.task_id.value for candidate in answer.preemptionCandidates]

    async def preemption_reasons(self, runs: Sequence[MesosTaskId]) -> Mapping[MesosTaskId, str]:
        """Return why runs are preempted, without those that have been spared since."""
        request = preemption_pb2.GetReasonsRequest(mesos_task_ids=runs)
        answer = await self._client.call(GET_REASONS, request, timeout=CALL_SECONDS)
        return {each.mesos_task_id: each.reason for each in answer.reasons}

    async def keep(self, runs: Sequence[Run]) -> None:
        """Report preempted runs that stay."""
        request = preemption_pb2.KeepRunsRequest(mesos_task_ids=[mesos_task_id(*run) for run in runs])
        await self._client.call(KEEP_RUNS, request, timeout=CALL_SECONDS)

    async def reasons(self, stream: str, after: int, wait: float) -> Reasons:
        """Return what has changed after a number of a stream."""
        request = waiting_pb2.WaitForDeltasRequest(
            stream_id=stream, after=after, timeout_ms=_milliseconds(wait)
        )
        answer = await self._client.call(WAIT_FOR_DELTAS, request, timeout=CALL_SECONDS, waits=wait)
        deltas = [
            (parse_mesos_task_id(delta.mesos_task_id), TaskState(delta.state), delta.reason)
            for delta in answer.deltas
        ]
        return Reasons(answer.leader_id, answer.stream_id, answer.last, deltas)


def _milliseconds(seconds: float) -> int:
    return round(seconds * 1000)


def _placement_from(wire: resmgr_pb2.Placement) -> Placement:
    return Placement(
        wire.hostname,
        wire.agentId.value,
        wire.hostOfferID.value,
        tuple(wire.ports),
        tuple(parse_mesos_task_id(task.mesosTaskID.value) for task in wire.taskIDs),
    )


def _refusals(answer: resmgrsvc_pb2.EnqueueGangsResponse, gangs: Gangs) -> dict[int, str]:
    """Return messages by position of the gang. A run that resmgr knows is not refused."""
    if not answer.HasField("error"):
        return {}
    error = answer.error
    if error.HasField("notFound") or error.HasField("noPermission"):
        message = error.notFound.message or error.noPermission.message or "the pool takes no jobs"
        return dict.fromkeys(range(len(gangs)), message)
    failed = {
        parse_task_id(each.task.id.value): each.message
        for each in error.failure.failed
        if each.errorcode != _KNOWN
    }
    return {at: text for at, gang in enumerate(gangs) if (text := _first(failed, gang))}


def _first(failed: Mapping[tuple[JobId, int], str], gang: Iterable[WaitingTask]) -> str:
    """Return the message of the first refused task of a gang; empty where there is none."""
    tasks = ((each.job_id, each.instance) for each in gang)
    return next((failed[task] or "refused" for task in tasks if task in failed), "")


def _runs_to(waiting: Compare) -> holding_pb2.RunsOfJob:
    spans = [
        holding_pb2.Span(first_instance=span.first, count=span.end - span.first, run=span.run)
        for span in waiting.spans
    ]
    return holding_pb2.RunsOfJob(job_id=waiting.job_id, spans=spans)


def _runs_from(job: holding_pb2.RunsOfJob) -> Iterator[RunOf]:
    for span in job.spans:
        for instance in range(span.first_instance, span.first_instance + span.count):
            yield instance, span.run
