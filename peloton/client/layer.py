"""The small layer of the client for people: jobs, waiting, instances, logs and watches."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from peloton.backoff import Backoff
from peloton.client.discovery import NoLeader
from peloton.client.failures import CODES, CallError, call_error, refusal
from peloton.client.watching import Watches

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig, JobInfo, RuntimeInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobSpec

FIRST_POLL, LONGEST_POLL = 0.1, 2.0
FOLLOW_SECONDS = 0.5
INSTANCES_PER_CALL = 1000
BYTES_PER_READ = 64 * 1024
AGENT_SECONDS = 20.0


class Jobs(Watches):
    """What people do with jobs, as `client.jobs`. Failures are of type CallError."""

    def pool_id(self, path: str) -> str:
        """Return the id of the resource pool at a path such as `/team/batch`."""
        from peloton.api.v0.respool import respool_pb2 as pb

        request = pb.LookupRequest(path=pb.ResourcePoolPath(value=path))
        return str(_checked(self._client.respool_svc.LookupResourcePoolID, request).id.value)

    def create(self, pool: str, spec: JobConfig | str | Path) -> str:
        """Create a batch job of a spec or a YAML file in the pool at a path; return its id.

        Where the path is empty, the spec names the pool.
        """
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.job import job_pb2

        config = job_pb2.JobConfig()
        config.CopyFrom(_read(job_pb2.JobConfig, spec))
        if pool:
            config.respoolID.value = self.pool_id(pool)
        job_id = str(uuid.uuid4())
        request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_id), config=config)
        _unless_made(lambda: _checked(self._client.job_svc.Create, request))
        return job_id

    def create_service(self, pool: str, spec: JobSpec | str | Path) -> str:
        """Create a service of a spec or a YAML file in the pool at a path; return its id."""
        from peloton.api.v1alpha import peloton_pb2
        from peloton.api.v1alpha.job.stateless import stateless_pb2
        from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2

        config = stateless_pb2.JobSpec()
        config.CopyFrom(_read(stateless_pb2.JobSpec, spec))
        if pool:
            config.respool_id.value = self.pool_id(pool)
        job_id = str(uuid.uuid4())
        request = stateless_svc_pb2.CreateJobRequest(job_id=peloton_pb2.JobID(value=job_id), spec=config)
        _unless_made(lambda: _checked(self._client.stateless_svc.CreateJob, request))
        return job_id

    def get(self, job_id: str) -> JobInfo:
        """Return config and runtime of a batch job."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.job import job_pb2

        request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
        info: JobInfo = _checked(self._client.job_svc.Get, request).jobInfo
        return info

    def wait(
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
            runtime: Any = self._runtime(job_id)
            seen = runtime and (runtime.state, dict(runtime.taskStats))
            if seen and seen != before:
                progress(runtime)
                before = seen
                backoff.reset()
            if runtime and runtime.state in (job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED):
                return runtime  # type: ignore[no-any-return]
            pause = backoff.next()
            if end is not None and time.monotonic() + pause >= end:
                raise CallError(CODES.DEADLINE_EXCEEDED, f"the job {job_id} has not ended in {timeout:g} s")
            time.sleep(pause)

    def instances(self, job_id: str) -> Iterator[TaskInfo]:
        """Yield the instances of a job in order, reading some at a time."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        count = self.get(job_id).config.instanceCount
        for first in range(0, count, INSTANCES_PER_CALL):
            request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
            setattr(request.range, "from", first)
            request.range.to = first + INSTANCES_PER_CALL
            found = _checked(self._client.task_svc.List, request).result.value
            yield from (found[instance] for instance in sorted(found))

    def logs(
        self, job_id: str, instance: int, file: str = "stdout", *, run: str = "", follow: bool = False
    ) -> Iterator[bytes]:
        """Yield a file of an instance's sandbox, from its Mesos agent.

        `follow` waits for a run that has not begun, and reads on until it has ended. `run` is a Mesos task
        id, empty for the current run.
        """
        if not follow:
            agent, path = self._file(job_id, instance, file, run)
            yield from _download(agent, path)
            return
        found, offset = None, 0
        while True:
            # Asked before the read: a run that has ended has written all of its output.
            ended, run = self._ended(job_id, instance, run)
            try:
                found = found or self._file(job_id, instance, file, run)
                while piece := _file_data(*found, offset):
                    yield piece
                    offset += len(piece)
            except CallError as error:
                begun = error.passing or found is not None
                if ended or (begun and not error.passing):
                    raise
            if ended:
                return
            time.sleep(FOLLOW_SECONDS)

    def _runtime(self, job_id: str) -> Any:
        try:
            return self.get(job_id).runtime
        except CallError as error:
            if not error.passing:
                raise
            return None

    def _ended(self, job_id: str, instance: int, run: str) -> tuple[bool, str]:
        """Return whether the run is over, and which run it is."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        request = task_pb2.GetRequest(jobId=peloton_pb2.JobID(value=job_id), instanceId=instance)
        try:
            runtime = _checked(self._client.task_svc.Get, request).result.runtime
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

    def _file(self, job_id: str, instance: int, file: str, run: str) -> tuple[str, str]:
        """Return the agent and the path of a file there."""
        from peloton.api.v0 import peloton_pb2
        from peloton.api.v0.task import task_pb2

        request = task_pb2.BrowseSandboxRequest(
            jobId=peloton_pb2.JobID(value=job_id), instanceId=instance, taskId=run
        )
        answer = _checked(self._client.task_svc.BrowseSandbox, request)
        wanted = "/" + file.strip("/")
        fitting = [path for path in answer.paths if path.endswith(wanted)]
        if not fitting:
            names = ", ".join(path.rpartition("/")[2] for path in answer.paths)
            raise CallError(CODES.NOT_FOUND, f"no file {file!r} in the sandbox; there: {names or 'nothing'}")
        host = f"[{answer.hostname}]" if ":" in answer.hostname else answer.hostname
        return f"{host}:{answer.port or 5051}", min(fitting, key=len)


def _checked(call: Any, request: Any) -> Any:
    """Make a call. Raises CallError, also for a failure that its answer tells."""
    method = type(request).DESCRIPTOR.full_name.removesuffix("Request")
    try:
        answer = call(request)
    except grpc.RpcError as error:
        raise call_error(method, error) from error
    except NoLeader as error:
        raise CallError(CODES.UNAVAILABLE, str(error), method) from error
    if (refused := refusal(answer, method)) is not None:
        raise refused
    return answer


def _unless_made(create: Callable[[], object]) -> None:
    """Create what has an id of our own: what exists already was made by a try whose answer was lost."""
    try:
        create()
    except CallError as error:
        if error.code is not CODES.ALREADY_EXISTS:
            raise


def _read(kind: Any, spec: Any) -> Any:
    if not isinstance(spec, str | Path):
        return spec
    from peloton.client.spec import read_spec

    return read_spec(kind, str(spec))


def _open(agent: str, endpoint: str, **query: str) -> Any:
    url = f"http://{agent}{endpoint}?{urllib.parse.urlencode(query)}"
    try:
        # Agents are not behind the user's proxy.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        return opener.open(url, timeout=AGENT_SECONDS)
    except urllib.error.HTTPError as error:
        code = CODES.NOT_FOUND if error.code == 404 else CODES.UNKNOWN
        raise CallError(code, f"agent {agent} answered {error.code} to {endpoint}") from error
    except OSError as error:
        raise CallError(CODES.UNAVAILABLE, f"agent {agent} cannot be reached: {error}") from error


def _download(agent: str, path: str) -> Iterator[bytes]:
    with _open(agent, "/files/download", path=path) as body:
        while piece := body.read(BYTES_PER_READ):
            yield piece


def _file_data(agent: str, path: str, offset: int) -> bytes:
    """Return bytes from `offset` on, byte for byte: agents put what is not UTF-8 raw into their JSON."""
    query = {"path": path, "offset": str(offset), "length": str(BYTES_PER_READ)}
    with _open(agent, "/files/read", **query) as body:
        text = body.read().decode("utf-8", "surrogateescape")
    try:
        return str(json.loads(text, strict=False)["data"]).encode("utf-8", "surrogateescape")
    except (ValueError, KeyError) as error:
        raise CallError(CODES.UNKNOWN, f"agent {agent} gave no file data: {error}") from error
