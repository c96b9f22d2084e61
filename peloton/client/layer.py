"""The small layer of the blocking client for people: jobs, waiting, instances, logs and watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peloton.client.async_layer import AsyncJobs
from peloton.client.sync_async import Blocking, iterate, run
from peloton.client.watching import Event, Stubs

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig, JobInfo, RuntimeInfo
    from peloton.api.v0.task.task_pb2 import TaskInfo
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobSpec


class Jobs:
    """What people do with jobs, as `client.jobs`. Failures are of type CallError.

    A generator that is closed ends its call.
    """

    def __init__(self, client: Stubs) -> None:
        self._jobs = AsyncJobs(client, Blocking())

    def pool_id(self, path: str) -> str:
        """Return the id of the resource pool at a path such as `/team/batch`."""
        return run(self._jobs.pool_id(path))

    def create(self, pool: str, spec: JobConfig | str | Path, job_id: str = "") -> str:
        """Create a batch job of a spec or a YAML file in the pool at a path; return its id.

        Where the path is empty, the spec names the pool. With a `job_id`, a UUID, a program that ended before
        it had the answer may call it again. ALREADY_EXISTS is raised where the id is that of another job, one
        with another name.
        """
        return run(self._jobs.create(pool, spec, job_id))

    def create_service(self, pool: str, spec: JobSpec | str | Path, job_id: str = "") -> str:
        """Create a service as `create` does a batch job; return its id."""
        return run(self._jobs.create_service(pool, spec, job_id))

    def find(self, reference: str, pool: str = "") -> str:
        """Return the id of the job of a name, or whose id begins so, in all pools or in the one at a path.

        Raises CallError: NOT_FOUND where there is none, FAILED_PRECONDITION with the ids for several.
        """
        return run(self._jobs.find(reference, pool))

    def get(self, job_id: str, timeout: float | None = None) -> JobInfo:
        """Return config and runtime of a batch job."""
        return run(self._jobs.get(job_id, timeout))

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
        return run(self._jobs.wait(job_id, timeout, progress))

    def release(self, job_id: str, instances: Iterable[int]) -> list[int]:
        """Take instances out of a batch job, live ones after their end; return those not released before.

        Their numbers are free when they have ended, and updates that add instances use them again. The call
        is not repeated by itself where it may have been carried out.
        """
        return run(self._jobs.release(job_id, instances))

    def instances(self, job_id: str) -> Iterator[TaskInfo]:
        """Yield the instances of a job in order, reading some at a time.

        A page that no leader answers is read again, a few times.
        """
        return iterate(self._jobs.instances(job_id))

    def logs(
        self, job_id: str, instance: int, file: str = "stdout", *, run: str = "", follow: bool = False
    ) -> Iterator[bytes]:
        """Yield a file of an instance's sandbox, from its Mesos agent.

        `follow` waits for a run that has not begun, and reads on until it has ended. `run` is a Mesos task
        id, empty for the current run.
        """
        return iterate(self._jobs.logs(job_id, instance, file, run=run, follow=follow))

    def watch_pods(self, job_id: str) -> Iterator[Event[Any]]:
        """Yield the pods of a job (PodSummary), then each change, without end.

        After a cut the watch goes on with what has changed meanwhile: the last state of each pod is never
        missed, states in between may be. Raises CallError where the job does not exist.
        """
        return iterate(self._jobs.watch_pods(job_id))

    def watch_services(self) -> Iterator[Event[Any]]:
        """Yield all services (JobSummary), then each change, as `watch_pods` does."""
        return iterate(self._jobs.watch_services())
