"""The small layer of the client for people: jobs, waiting, instances, logs and watches, as coroutines.

`peloton.client.layer` is the same for the blocking client.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from peloton.backoff import Backoff
from peloton.client.agent_files import AgentFile, JobmgrFile
from peloton.client.failures import CODES, CallError, call_error, refusal
from peloton.client.watching import AsyncWatches
from peloton.model.amounts import duration

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig, JobInfo, RuntimeInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobSpec

FIRST_POLL, LONGEST_POLL = 0.1, 2.0
FOLLOW_SECONDS = 0.5
INSTANCES_PER_CALL = 1000
MOST_FOUND = 20
"""Jobs of one name whose ids are told."""
TRIES_PER_PAGE = 5


class AsyncJobs(AsyncWatches):
    """What people do with jobs, as `client.jobs` of a client for asyncio. Failures are of type CallError.

    A generator that is left early should be closed (`contextlib.aclosing`).
    """

    async def pool_id(self, path: str) -> str:
        """Return the id of the resource pool at a path such as `/team/batch`."""
        from peloton.api.v0.respool import respool_pb2 as pb

        request = pb.LookupRequest(path=pb.ResourcePoolPath(value=path))
        return str((await self._checked(self._client.respool_svc.LookupResourcePoolID, request)).id.value)

    async def create(self, pool: str, spec: JobConfig | str | Path, job_id: str = "") -> str:
        """Create a batch job of a spec or a YAML file in the pool at a path; return its id.

        Where the path is empty, the spec names the pool. With a `job_id`, a UUID, a program that ended before
        it had the answer may call it again. ALREADY_EXISTS is raised where the id is that of another job, one
        with another name.
        """
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.job import job_pb2

        config = job_pb2.JobConfig()
        config.CopyFrom(_read(job_pb2.JobConfig, spec))
        if pool:
            config.respoolID.value = await self.pool_id(pool)
        given, job_id = job_id, job_id or str(uuid.uuid4())
        request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_id), config=config)
        exists = await _unless_made(self._checked(self._client.job_svc.Create, request))
        if given and exists is not None:
            _check_name(exists, (await self.get(job_id)).config.name, config.name)
        return job_id

    async def create_service(self, pool: str, spec: JobSpec | str | Path, job_id: str = "") -> str:
        """Create a service as `create` does a batch job; return its id."""
        from peloton.api.v1alpha import peloton_pb2
        from peloton.api.v1alpha.job.stateless import stateless_pb2
        from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2

        config = stateless_pb2.JobSpec()
        config.CopyFrom(_read(stateless_pb2.JobSpec, spec))
        if pool:
            config.respool_id.value = await self.pool_id(pool)
        given, job_id = job_id, job_id or str(uuid.uuid4())
        held = peloton_pb2.JobID(value=job_id)
        request = stateless_svc_pb2.CreateJobRequest(job_id=held, spec=config)
        exists = await _unless_made(self._checked(self._client.stateless_svc.CreateJob, request))
        if given and exists is not None:
            wanted = stateless_svc_pb2.GetJobRequest(job_id=held)
            found = await self._checked(self._client.stateless_svc.GetJob, wanted)
            _check_name(exists, found.job_info.spec.name, config.name)
        return job_id

    async def find(self, reference: str, pool: str = "") -> str:
        """Return the id of the job of a name, or whose id begins so, in all pools or in the one at a path.

        Raises CallError: NOT_FOUND where there is none, FAILED_PRECONDITION with the ids for several.
        """
        from peloton.api.v0.job import job_pb2
        from peloton.api.v0.query import query_pb2
        from peloton.model.ids import is_uuid, may_begin_id

        if is_uuid(reference):
            return reference
        page = query_pb2.PaginationSpec(limit=MOST_FOUND + 1)
        spec = job_pb2.QuerySpec(reference=reference, pagination=page)
        spec.respool.value = pool
        request = job_pb2.QueryRequest(spec=spec, summaryOnly=True)
        answer = await self._checked(self._client.job_svc.Query, request)
        # A server that does not know the field answers with other jobs, too.
        begins = reference.lower() if may_begin_id(reference) else None
        found = [
            job.id.value
            for job in answer.results
            if job.name == reference or (begins and job.id.value.lower().startswith(begins))
        ]
        if len(found) == 1:
            return str(found[0])
        where = f" in the pool {pool}" if pool else ""
        if not found:
            raise CallError(
                CODES.NOT_FOUND, f"no job{where} has the name {reference!r}, or an id that begins so"
            )
        more = ", …" if len(found) > MOST_FOUND else ""
        ids = ", ".join(found[:MOST_FOUND])
        raise CallError(CODES.FAILED_PRECONDITION, f"{reference!r} may be several jobs{where}: {ids}{more}")

    async def get(self, job_id: str, timeout: float | None = None) -> JobInfo:
        """Return config and runtime of a batch job."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.job import job_pb2

        request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
        info: JobInfo = (await self._checked(self._client.job_svc.Get, request, timeout)).jobInfo
        return info

    async def wait(
        self,
        job_id: str,
        timeout: float | None = None,
        progress: Callable[[RuntimeInfo], object] = lambda runtime: None,
    ) -> RuntimeInfo:
        """Wait until a batch job has ended; return its last runtime. Also waits while no leader answers.

        `progress` is called with each new state and count of instances. After `timeout` seconds a CallError
        of DEADLINE_EXCEEDED is raised.
        """
        from peloton.api.v0.job import job_pb2

        end = None if timeout is None else time.monotonic() + timeout
        before: Any = None
        backoff = Backoff(FIRST_POLL, LONGEST_POLL)
        while True:
            runtime: Any = await self._runtime(job_id, self._rest(end))
            seen = runtime and (runtime.state, dict(runtime.taskStats))
            if seen and seen != before:
                progress(runtime)
                before = seen
                backoff.reset()
            if runtime and runtime.state in (job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED):
                return runtime  # type: ignore[no-any-return]
            pause = backoff.next()
            if end is not None and time.monotonic() + pause >= end:
                raise CallError(
                    CODES.DEADLINE_EXCEEDED, f"the job {job_id} has not ended in {duration(timeout or 0)}"
                )
            await self._driver.sleep(pause)

    async def instances(self, job_id: str) -> AsyncGenerator[TaskInfo, None]:
        """Yield the instances of a job in order, reading some at a time.

        A page that no leader answers is read again, a few times.
        """
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        info = await self.get(job_id)
        count = info.config.instanceCount + info.runtime.releasedInstances
        for first in range(0, count, INSTANCES_PER_CALL):
            request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
            setattr(request.range, "from", first)
            request.range.to = first + INSTANCES_PER_CALL
            found = (await self._page(request)).result.value
            for instance in sorted(found):
                yield found[instance]

    async def release(self, job_id: str, instances: Iterable[int]) -> list[int]:
        """Take instances out of a batch job, live ones after their end; return those not released before.

        Their numbers are free when they have ended, and updates that add instances use them again. The call
        is not repeated by itself where it may have been carried out.
        """
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.job.instances import instances_pb2

        request = instances_pb2.ReleaseInstancesRequest(job_id=peloton_pb2.JobID(value=job_id))
        for each in sorted(set(instances)):
            request.ranges.add(**{"from": each, "to": each + 1})
        if not request.ranges:
            return []
        answer = await self._checked(self._client.instance_svc.ReleaseInstances, request)
        return list(answer.released_instances)

    async def _page(self, request: Any) -> Any:
        """Return a page of a list. Raises CallError."""
        backoff = Backoff(FIRST_POLL, LONGEST_POLL)
        for _ in range(TRIES_PER_PAGE - 1):
            try:
                return await self._checked(self._client.task_svc.List, request)
            except CallError as error:
                if not error.passing:
                    raise
            await self._driver.sleep(backoff.next())
        return await self._checked(self._client.task_svc.List, request)

    async def logs(
        self, job_id: str, instance: int, file: str = "stdout", *, run: str = "", follow: bool = False
    ) -> AsyncGenerator[bytes, None]:
        """Yield a file of an instance's sandbox, from its Mesos agent.

        `follow` waits for a run that has not begun, and reads on until it has ended. `run` is a Mesos task
        id, empty for the current run.
        """
        if not follow:
            source = await self._file(job_id, instance, file, run)
            async with aclosing(source.download(self._driver)) as pieces:
                async for piece in pieces:
                    yield piece
            return
        found, offset = None, 0
        while True:
            # Asked before the read: a run that has ended has written all of its output.
            ended, run = await self._ended(job_id, instance, run)
            try:
                found = found or await self._file(job_id, instance, file, run)
                while piece := await found.read(self._driver, offset):
                    yield piece
                    offset += len(piece)
            except CallError as error:
                begun = error.passing or found is not None
                if ended or (begun and not error.passing):
                    raise
            if ended:
                return
            await self._driver.sleep(FOLLOW_SECONDS)

    async def _runtime(self, job_id: str, timeout: float | None) -> Any:
        try:
            return (await self.get(job_id, timeout)).runtime
        except CallError as error:
            if not error.passing:
                raise
            return None

    async def _ended(self, job_id: str, instance: int, run: str) -> tuple[bool, str]:
        """Return whether the run is over, and which run it is."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        request = task_pb2.GetRequest(jobId=peloton_pb2.JobID(value=job_id), instanceId=instance)
        try:
            runtime = (await self._checked(self._client.task_svc.Get, request)).result.runtime
        except CallError as error:
            if not error.passing:
                raise
            return False, run
        current = runtime.mesosTaskId.value
        run = run or current
        ended = runtime.state in (
            task_pb2.SUCCEEDED,
            task_pb2.FAILED,
            task_pb2.LOST,
            task_pb2.KILLED,
            task_pb2.DELETED,
        )
        return ended or bool(current and current != run), run

    async def _file(self, job_id: str, instance: int, file: str, run: str) -> AgentFile | JobmgrFile:
        """Return a file at its agent, or as the job manager reads it for a task."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        request = task_pb2.BrowseSandboxRequest(
            jobId=peloton_pb2.JobID(value=job_id), instanceId=instance, taskId=run
        )
        answer = await self._checked(self._client.task_svc.BrowseSandbox, request)
        wanted = "/" + file.strip("/")
        fitting = [path for path in answer.paths if path.endswith(wanted)]
        if not fitting:
            names = ", ".join(path.rpartition("/")[2] for path in answer.paths)
            raise CallError(CODES.NOT_FOUND, f"no file {file!r} in the sandbox; there: {names or 'nothing'}")
        if self._client.of_task:
            read = partial(self._checked, self._client.task_access_svc.GetSandboxFile)
            return JobmgrFile(read, job_id, instance, run, file)
        path, agents = min(fitting, key=len), self._client.agents
        return AgentFile(answer.hostname, int(answer.port or 5051), path, agents)

    def _rest(self, end: float | None) -> float | None:
        """Return the time-out of a call that is one of several before an end."""
        if end is None:
            return None
        rest = max(end - time.monotonic(), 0.001)
        return rest if self._client.timeout is None else min(rest, self._client.timeout)

    async def _checked(self, call: Any, request: Any, timeout: float | None = None) -> Any:
        """Make a call. Raises CallError, also for a failure that its answer tells."""
        method = type(request).DESCRIPTOR.full_name.removesuffix("Request")
        try:
            answer = await self._driver.call(call, request, {} if timeout is None else {"timeout": timeout})
        except grpc.RpcError as error:
            raise call_error(method, error) from error
        if (refused := refusal(answer, method)) is not None:
            raise refused
        return answer


async def _unless_made(create: Awaitable[object]) -> CallError | None:
    """Create what has an id of our own; return the refusal where an earlier try has made it."""
    try:
        await create
    except CallError as error:
        if error.code is not CODES.ALREADY_EXISTS:
            raise
        return error
    return None


def _check_name(exists: CallError, found: str, wanted: str) -> None:
    """Raise the refusal unless what exists is what was to be made."""
    if found != wanted:
        raise CallError(exists.code, f"{exists}: its name is {found!r}, not {wanted!r}")


def _read(kind: Any, spec: Any) -> Any:
    if not isinstance(spec, str | Path):
        return spec
    from peloton.client.spec import read_spec

    return read_spec(kind, str(spec))
