"""TaskManager of the v0 API: the instances of a job (docs/behaviour/tasks.md, Operations on tasks)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.services.common.launched import launched_run
from jobmgr.services.common.ranges import OutOfRange, bounds, chosen
from jobmgr.services.common.reasons import reason_of
from jobmgr.services.common.runs import DEFAULT_RUNS, MAX_RUNS, past_runtimes, run_number
from jobmgr.services.common.sandbox import Sandboxes
from jobmgr.services.common.task_find import NameOf, find
from jobmgr.services.common.task_query import Batch, names, task_query
from jobmgr.services.common.view import JOB_NOT_FOUND, JobView, TerminatedJob, view
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.errors import errors_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.task import task_pb2, task_pb2_grpc
from peloton.errors import InvalidArgument, NotFound, PelotonError, Refused
from peloton.model.ids import mesos_task_id
from peloton.model.states import JobType
from peloton.rpc.pages import Room, taken_by
from peloton.wire.constraint import labels_to
from peloton.wire.task import pod_event_to, runtime_to


class TaskManager(task_pb2_grpc.TaskManagerServicer):
    """Answers the calls of TaskManager."""

    def __init__(self, engine: Engine, sandboxes: Sandboxes) -> None:
        self._engine = engine
        self._sandboxes = sandboxes

    async def Get(self, request: task_pb2.GetRequest, context: Any) -> task_pb2.GetResponse:
        """Return an instance, with its earlier runs."""
        answer = task_pb2.GetResponse()
        try:
            job = await view(self._engine, request.jobId.value)
        except NotFound:
            answer.notFound.CopyFrom(_not_found(request.jobId))
            return answer
        if request.instanceId >= job.size:
            answer.outOfRange.CopyFrom(_out_of_range(job))
            return answer
        await self._fill(answer, job, request.instanceId)
        return answer

    async def _fill(self, answer: task_pb2.GetResponse, job: JobView, instance: int) -> None:
        """Add the current run, then the earlier ones of the history."""
        runtime = await job.task(instance)
        answer.result.CopyFrom(await job.info(instance, runtime))
        answer.results.append(answer.result)
        before = await job.removed_run(instance) + 1 if runtime is None else runtime.run
        if before > 1:
            events = await job.store.pod_events.list(job.job_id, instance, runs=DEFAULT_RUNS)
            for past in past_runtimes(events, before):
                answer.results.append(await job.info(instance, past))

    async def List(self, request: task_pb2.ListRequest, context: Any) -> task_pb2.ListResponse:
        """Return the instances of a range."""
        answer = task_pb2.ListResponse()
        try:
            job = await view(self._engine, request.jobId.value)
        except NotFound:
            answer.notFound.CopyFrom(_not_found(request.jobId))
            return answer
        answer.result.SetInParent()
        first, end = 0, job.size
        if request.HasField("range"):
            first, end = bounds(request.range, end)
        async for instance, runtime in job.tasks(first, end):
            await job.fill(answer.result.value[instance], instance, runtime)
        return answer

    async def Start(self, request: task_pb2.StartRequest, context: Any) -> task_pb2.StartResponse:
        """Start instances that were stopped."""
        answer = task_pb2.StartResponse()
        try:
            job = await view(self._engine, request.jobId.value)
            if job.spec.type is JobType.BATCH and job.runtime.state.terminal:
                raise TerminatedJob("jobId", job.job_id, "a job that has not ended")
            instances = chosen(request.ranges, job.size)
            started = await self._engine.start(job.job_id, instances) if instances != [] else []
        except NotFound:
            answer.error.notFound.CopyFrom(_not_found(request.jobId))
        except OutOfRange as error:
            answer.error.outOfRange.CopyFrom(_beyond(request.jobId, error))
        except Refused as error:
            answer.error.failure.message = str(error)
        else:
            answer.startedInstanceIds.extend(started)
            answer.invalidInstanceIds.extend(_others(instances, started))
        return answer

    async def Stop(self, request: task_pb2.StopRequest, context: Any) -> task_pb2.StopResponse:
        """Stop instances."""
        answer = task_pb2.StopResponse()
        try:
            job = await view(self._engine, request.jobId.value)
            instances = chosen(request.ranges, job.size)
            stopped = await self._engine.stop(job.job_id, instances) if instances != [] else []
        except NotFound:
            answer.error.notFound.CopyFrom(_not_found(request.jobId))
        except OutOfRange as error:
            answer.error.outOfRange.CopyFrom(_beyond(request.jobId, error))
        else:
            answer.stoppedInstanceIds.extend(stopped)
            answer.invalidInstanceIds.extend(_others(instances, stopped))
        return answer

    async def Restart(self, request: task_pb2.RestartRequest, context: Any) -> task_pb2.RestartResponse:
        """Restart instances."""
        answer = task_pb2.RestartResponse()
        try:
            job = await view(self._engine, request.jobId.value)
            instances = chosen(request.ranges, job.size)
            if instances != []:
                await self._engine.restart(job.job_id, instances)
        except NotFound:
            answer.notFound.CopyFrom(_not_found(request.jobId))
        except OutOfRange as error:
            answer.outOfRange.CopyFrom(_beyond(request.jobId, error))
        return answer

    async def Query(self, request: task_pb2.QueryRequest, context: Any) -> task_pb2.QueryResponse:
        """Return the tasks that match a query."""
        answer = task_pb2.QueryResponse()
        try:
            job = await view(self._engine, request.jobId.value)
        except NotFound:
            answer.error.notFound.CopyFrom(_not_found(request.jobId))
            return answer
        query = task_query(request.spec)
        rows, total = await find(job, query, _Names(job).of)
        room, limit = Room(taken_by(context)), query.page.limit
        for row in rows:
            record = await job.info(row.instance, row.runtime)
            if not room.takes(record):
                limit = len(answer.records)
                break
            answer.records.append(record)
        page = query_pb2.Pagination(offset=query.page.offset, limit=limit, total=total)
        answer.pagination.CopyFrom(page)
        return answer

    async def Refresh(self, request: task_pb2.RefreshRequest, context: Any) -> task_pb2.RefreshResponse:
        """Read instances from the store again."""
        job = await view(self._engine, request.jobId.value)
        first, end = 0, job.size
        if request.HasField("range"):
            first, end = bounds(request.range, end)
        await self._engine.refresh_tasks(job.job_id, first, end)
        return task_pb2.RefreshResponse()

    async def GetCache(self, request: task_pb2.GetCacheRequest, context: Any) -> task_pb2.GetCacheResponse:
        """Return an instance as it is in memory."""
        job_id, instance = request.jobId.value, request.instanceId
        cached = self._engine.job(job_id)
        if cached is None:
            raise NotFound(f"{JOB_NOT_FOUND} in memory: only active jobs are held there")
        runtime = cached.task(instance)
        if runtime is None:
            raise NotFound(f"no instance {instance} in memory: the job has {cached.size}")
        wire = runtime_to(job_id, instance, runtime)
        wire.reason = reason_of(cached, instance)
        return task_pb2.GetCacheResponse(runtime=wire, labels=labels_to(cached.task_spec(instance).labels))

    async def GetPodEvents(
        self, request: task_pb2.GetPodEventsRequest, context: Any
    ) -> task_pb2.GetPodEventsResponse:
        """Return the history of an instance."""
        job = await view(self._engine, request.jobId.value)
        answer = task_pb2.GetPodEventsResponse()
        instance = request.instanceId
        try:
            run = run_number(job.job_id, instance, request.runId) if request.runId else None
            _check_instance(job, instance)
        except InvalidArgument as error:
            answer.error.message = str(error)
            return answer
        runs = min(request.limit or DEFAULT_RUNS, MAX_RUNS)
        events = await job.store.pod_events.list(job.job_id, instance, run, runs)
        Room(taken_by(context)).fill(answer.result, map(pod_event_to, events))
        return answer

    async def DeletePodEvents(
        self, request: task_pb2.DeletePodEventsRequest, context: Any
    ) -> task_pb2.DeletePodEventsResponse:
        """Delete the history of an instance up to a run."""
        job = await view(self._engine, request.jobId.value)
        _check_instance(job, request.instanceId)
        up_to = min(request.runId, 2**63 - 1)
        await job.store.pod_events.delete(job.job_id, request.instanceId, up_to)
        return task_pb2.DeletePodEventsResponse()

    async def BrowseSandbox(
        self, request: task_pb2.BrowseSandboxRequest, context: Any
    ) -> task_pb2.BrowseSandboxResponse:
        """Return where the files of a run are."""
        answer = task_pb2.BrowseSandboxResponse()
        try:
            job = await view(self._engine, request.jobId.value)
        except NotFound:
            answer.error.notFound.CopyFrom(_not_found(request.jobId))
            return answer
        if request.instanceId >= job.size:
            answer.error.outOfRange.CopyFrom(_out_of_range(job))
            return answer
        try:
            run, host, agent_id = await launched_run(job, request.instanceId, request.taskId)
        except (InvalidArgument, NotFound) as error:
            answer.error.notRunning.message = str(error)
            return answer
        await self._browse(answer, mesos_task_id(job.job_id, request.instanceId, run), host, agent_id)
        return answer

    async def _browse(
        self, answer: task_pb2.BrowseSandboxResponse, run: str, host: str, agent_id: str
    ) -> None:
        try:
            sandbox = await self._sandboxes.find(run, host, agent_id)
        except PelotonError as error:
            answer.error.failure.message = str(error)
            return
        answer.hostname, answer.port = sandbox.host, sandbox.port
        answer.paths.extend(sandbox.paths)
        answer.mesosMasterHostname = sandbox.master_host
        answer.mesosMasterPort = sandbox.master_port


class _Names:
    """The names of a job's tasks, by the version that each has."""

    def __init__(self, job: JobView) -> None:
        self._job = job
        self._by_version: dict[int, Callable[[int], str]] = {}

    async def of(self, batch: Batch) -> NameOf:
        """Return what names the tasks of a batch."""
        known = self._by_version
        for _, runtime in batch:
            if runtime.config_version not in known:
                known[runtime.config_version] = names(await self._job.config_of(runtime))
        return lambda instance, runtime: known[runtime.config_version](instance)


def _check_instance(job: JobView, instance: int) -> None:
    if instance >= job.size:
        raise InvalidArgument("instanceId", instance, f"an instance from 0 to {job.size - 1}")


def _others(requested: Sequence[int] | None, done: Sequence[int]) -> list[int]:
    """Return the requested instances that were left as they are."""
    acted = set(done)
    return [instance for instance in requested or () if instance not in acted]


def _not_found(job_id: peloton_pb2.JobID) -> errors_pb2.JobNotFound:
    return errors_pb2.JobNotFound(id=job_id, message=JOB_NOT_FOUND)


def _out_of_range(job: JobView) -> task_pb2.InstanceIdOutOfRange:
    return task_pb2.InstanceIdOutOfRange(jobId=peloton_pb2.JobID(value=job.job_id), instanceCount=job.size)


def _beyond(job_id: peloton_pb2.JobID, error: OutOfRange) -> task_pb2.InstanceIdOutOfRange:
    return task_pb2.InstanceIdOutOfRange(jobId=job_id, instanceCount=error.count)
