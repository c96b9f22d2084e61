"""A Dask cluster whose workers are instances of a Peloton job."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Mapping
from typing import Any

from distributed.core import Status
from distributed.deploy.spec import ProcessInterface, SpecCluster
from distributed.scheduler import Scheduler
from distributed.security import Security

from dask_peloton.config import LOOPBACK, Settings, read_settings
from dask_peloton.errors import ClusterLost
from dask_peloton.jobs import Place, WorkerJobs
from dask_peloton.spec import base_spec, job_config, tls_flags
from peloton.api.v0.task import task_pb2
from peloton.client import AsyncPelotonClient, CallError

logger = logging.getLogger(__name__)

CLIENT_NAME = "dask"
DASHBOARD_PORT = 8787
BY_ITSELF = frozenset({task_pb2.FAILED, task_pb2.SUCCEEDED})
"""Ends that a worker makes itself. One that has not reached the scheduler before would do so again."""


class PelotonScheduler(Scheduler):
    """The scheduler, at which a later run of an instance takes the place of an earlier one.

    Of a host that is lost or cut off, the scheduler hears only after its own time-out.
    """

    async def add_worker(self, comm: Any, *, address: str, name: Any, **told: Any) -> None:
        """Add a worker; remove the one that has its name at another address."""
        before = self.aliases.get(name)
        if before is not None and before != address:
            await self.remove_worker(before, stimulus_id=f"later-run-{time.time()}")
        await super().add_worker(comm, address=address, name=name, **told)


class PelotonWorker(ProcessInterface):
    """A worker, as an instance. It is there once the job has the instance, which may then wait for a host."""

    def __init__(self, scheduler: str, name: Any = None, *, jobs: WorkerJobs, **_: Any) -> None:
        super().__init__(scheduler, name)
        self.place: Place | None = None
        """Its instance; None before `start`."""
        self.arrived = False
        """Whether it has been at the scheduler, in any of its runs."""
        self._jobs = jobs

    async def start(self) -> None:
        """Add the instance, those of several workers by one call. Raises CallError, ClusterLost."""
        try:
            self.place = await self._jobs.add()
        except BaseException:
            self.status = Status.failed
            raise
        await super().start()

    async def close(self) -> None:
        """Give the instance back, those of several workers by one call."""
        if self.place is not None and self.status is Status.running:
            await self._jobs.release(self.place)
        await super().close()


class PelotonCluster(SpecCluster):
    """A Dask cluster whose workers are instances of a Peloton job.

    Parameters
    ----------
    n_workers: int
        Workers to begin with.
    pool: str
        Path of the resource pool of the job.
    cores, memory, disk, gpus:
        What each worker needs: cores and GPUs as numbers, memory and disk as bytes or text such as "4 GiB".
    nthreads: int, optional
        Threads of each worker; by default as many as cores.
    security: Security, optional
        TLS of Dask, by files that all hosts have.
    asynchronous: bool
        Whether the cluster is used with `async with` and `await`.
    shutdown_on_close: bool
        Whether it is closed when the program exits.
    settings:
        The other settings of the section `peloton` in Dask's configuration, with `_` for `-`: `name`, `spec`,
        `env`, `host`, `max_failures` and so on.

    Raises ValueError and TypeError for settings that are wrong, RuntimeError where the cluster cannot start,
    CallError where Peloton refuses the workers.
    """

    def __init__(
        self,
        n_workers: int = 0,
        *,
        pool: str | None = None,
        cores: float | None = None,
        memory: str | int | None = None,
        disk: str | int | None = None,
        gpus: float | None = None,
        nthreads: int | None = None,
        security: Security | None = None,
        asynchronous: bool = False,
        loop: Any = None,
        silence_logs: int | bool = False,
        shutdown_on_close: bool = True,
        scheduler_sync_interval: float = 1,
        **settings: Any,
    ) -> None:
        if not isinstance(n_workers, int) or n_workers < 0:
            raise ValueError(f"n_workers: {n_workers!r} is not a whole number >= 0")
        given = {"pool": pool, "cores": cores, "memory": memory, "disk": disk, "gpus": gpus}
        self.settings: Settings = read_settings({**given, "nthreads": nthreads, **settings})
        base_spec(self.settings.spec), tls_flags(security or Security())  # refused before anything has begun
        self.lost = ""
        """Why the cluster has closed by itself; empty where it has not."""
        self._jobs: WorkerJobs | None = None
        self._client: AsyncPelotonClient | None = None
        self._places = itertools.count()
        self._background: set[asyncio.Future[Any]] = set()
        worker = {
            "cls": self._worker,
            "options": {"nthreads": self.settings.nthreads, "memory_limit": self.settings.memory},
        }
        super().__init__(
            workers={self._new_worker_name(number): worker for number in range(n_workers)},
            scheduler={"cls": PelotonScheduler, "options": _scheduler_options(self.settings, security)},
            worker=worker,
            asynchronous=asynchronous,
            loop=loop,
            security=security,
            silence_logs=silence_logs,
            name=self.settings.name,
            shutdown_on_close=shutdown_on_close,
            scheduler_sync_interval=scheduler_sync_interval,
        )

    @property
    def job_id(self) -> str:
        """The job that has the workers; empty where there are none."""
        return self._jobs.job_id if self._jobs is not None else ""

    def waiting(self) -> dict[int, str]:
        """Return the workers that do not run, by name, each with the state of its instance and the reason."""
        return self._jobs.waiting() if self._jobs is not None else {}

    def scale(self, n: int = 0, memory: str | int | None = None, cores: float | None = None) -> Any:
        """Have n workers, or as many as together have this memory or these cores.

        Raises ClusterLost where the cluster has closed by itself.
        """
        closing = self.status == Status.closing  # which itself scales to nothing
        if self.lost and (n or memory or cores or not closing):
            raise ClusterLost(self.lost)
        if closing or self.asynchronous:
            return super().scale(n, memory=memory, cores=cores)
        return self.sync(self._scale, n, memory, cores)

    async def _scale(self, n: int, memory: str | int | None, cores: float | None) -> None:
        """Scale on the loop, since it changes what belongs to the loop."""
        super().scale(n, memory=memory, cores=cores)

    async def _start(self) -> None:
        if self.status in (Status.starting, Status.running):
            return await super()._start()
        if self.status == Status.closed:
            raise ValueError("Cluster is closed")
        self._client = _client(self.settings.client)
        await super()._start()
        config = job_config(self.settings, self._contact, self.security)
        self._jobs = WorkerJobs(self._client, self.settings.pool, config, self._ended, self._lose)
        try:
            await self._jobs.check()
        except Exception as error:
            await self._close()
            raise RuntimeError(f"Cluster failed to start: {error}") from error
        self._run(self._explain())
        return None

    @property
    def _contact(self) -> str:
        """Where workers reach the scheduler."""
        return str(getattr(self.scheduler, "contact_address", None) or self.scheduler.address)

    def _worker(self, scheduler: str, name: Any = None, **options: Any) -> PelotonWorker:
        assert self._jobs is not None, "the cluster has not started"
        return PelotonWorker(scheduler, name, jobs=self._jobs, **options)

    # Names. A worker is known by its instance, whose number Peloton gives: until then it has another name.

    def _new_worker_name(self, worker_number: int) -> str:
        return f"new-{next(self._places)}"

    async def _correct_state_internal(self) -> None:
        try:
            await super()._correct_state_internal()
        finally:
            self._name_by_instance()

    def _correct_state(self) -> Any:
        task = super()._correct_state()
        task.add_done_callback(self._tell_failure)
        return task

    def _name_by_instance(self) -> None:
        """Name what has started by its instance; drop what has not, which was told as an error."""
        for name in [name for name in self.workers if isinstance(name, str)]:
            worker, spec = self.workers.pop(name), self.worker_spec.pop(name, None)
            if worker.place is None:
                continue
            self.workers[worker.place.instance] = worker
            if spec is not None:
                self.worker_spec[worker.place.instance] = spec

    def _tell_failure(self, task: asyncio.Future[None]) -> None:
        if (
            task.cancelled()
            or (error := task.exception()) is None
            or self.status in (Status.closing, Status.closed)
        ):
            return
        logger.error("workers could not be added or given back: %s", error)

    # What becomes of workers.

    def _update_worker_status(self, op: str, msg: Any) -> None:
        """Note who has arrived. Who has left is told by Peloton, which may run it again in its place."""
        if op == "add":
            for name in [worker["name"] for worker in msg["workers"].values()]:
                if name in self.workers:
                    self.workers[name].arrived = True
        super(SpecCluster, self)._update_worker_status(op, msg)

    async def _ended(self, ended: Mapping[int, task_pb2.RuntimeInfo]) -> None:
        """Replace workers whose instances have ended for good, unless they would end again at once."""
        if self.status != Status.running:
            return
        replaced, broken = 0, ""
        for instance, runtime in ended.items():
            text = f"{task_pb2.TaskState.Name(runtime.state)}: {runtime.message or runtime.reason}"
            wanted = self.worker_spec.pop(instance, None) is not None
            arrived = instance in self.workers and self.workers[instance].arrived
            if wanted and (arrived or runtime.state not in BY_ITSELF):
                replaced += 1
                logger.warning("worker %d has ended, and is replaced: %s", instance, text)
            elif wanted:
                broken = f"worker {instance} has not reached the scheduler at {self._contact}: {text}"
                broken += self._hint(instance)
                logger.error("%s", broken)
        for _ in range(replaced):
            self.worker_spec.update(self.new_worker_spec())
        if broken and not self.worker_spec:
            self._lose(broken)
            return
        await self._correct_state()

    def _hint(self, instance: int) -> str:
        worker = self.workers.get(instance)
        place = f"{worker.place.job}-{instance}" if worker is not None else f"JOB-{instance}"
        hint = f"; `peloton logs {place}` has its output"
        if self.scheduler.address.startswith(f"tcp://{LOOPBACK}"):
            hint += f". The scheduler listens on {LOOPBACK} only: `host` says another address"
        return hint

    def _lose(self, why: str) -> None:
        """Close, since there will be no workers any more."""
        if self.lost or self.status != Status.running:
            return
        self.lost = why
        logger.error("the cluster closes: %s", why)
        self._run(self._close())

    async def _wait_for_workers(self, n_workers: int = 0, timeout: float | None = None) -> None:
        """Wait for workers. Raises ClusterLost where none will come any more."""
        waiting = asyncio.ensure_future(super()._wait_for_workers(n_workers, timeout))
        while not (await asyncio.wait([waiting], timeout=0.1))[0]:
            if self.lost:
                waiting.cancel()
                break
        if self.lost:
            await asyncio.gather(waiting, return_exceptions=True)
            raise ClusterLost(self.lost)
        await waiting

    async def _explain(self) -> None:
        """Tell in the log why workers wait, once they have waited long, and again when that changes."""
        seconds = max(self.settings.explain_after, 1.0)
        told = ""
        while True:
            await asyncio.sleep(seconds / 2)
            text = await self._why(seconds)
            if text and text != told:
                logger.warning("%s (peloton job why %s)", text, self.job_id)
            told = text

    async def _why(self, seconds: float) -> str:
        """Return why workers wait that have waited for some seconds; an empty text where none has."""
        if self._jobs is None or not self._jobs.waiting(seconds):
            return ""
        try:
            await self._jobs.read_reasons()
        except CallError as error:
            logger.debug("no reasons: %s", error)
        return _grouped(self._jobs.waiting(seconds)) if self._jobs is not None else ""

    def _run(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _close(self) -> None:
        if self._jobs is not None:
            self._jobs.give_up_adding()
        try:
            await super()._close()
        finally:
            await self._close_jobs()

    async def _close_jobs(self) -> None:
        """End the job and the calls. The second time there is nothing to do."""
        jobs, self._jobs = self._jobs, None
        client, self._client = self._client, None
        if jobs is not None and not await jobs.close(self.settings.close_timeout):
            logger.warning(
                "the workers have not ended in %g s; they go on ending", self.settings.close_timeout
            )
        if client is not None:
            await client.close()
        for task in self._background - {asyncio.current_task()}:
            task.cancel()


def _client(options: Mapping[str, Any]) -> AsyncPelotonClient:
    """Return a client of the cluster that is given, or that the environment names."""
    if options:
        return AsyncPelotonClient(CLIENT_NAME, **options)
    return AsyncPelotonClient.from_environment(CLIENT_NAME)


def _scheduler_options(settings: Settings, security: Security | None) -> dict[str, Any]:
    """Return the arguments of the scheduler. Without TLS it listens on loopback, unless told otherwise."""
    encrypted = security is not None and bool(security.require_encryption)
    host = settings.host or ("" if encrypted else LOOPBACK)
    protocol = "tls" if encrypted else "tcp"
    options = {"host": f"{protocol}://{host}", "dashboard_address": f"{host}:{DASHBOARD_PORT}"}
    return {**options, "security": security or Security(), **settings.scheduler_options}


def _grouped(waiting: Mapping[int, str]) -> str:
    """Return how many workers wait, and why, with one part for each reason."""
    counts: dict[str, int] = {}
    for text in waiting.values():
        counts[text] = counts.get(text, 0) + 1
    parts = [
        f"{count} {'worker waits' if count == 1 else 'workers wait'}: {text}"
        for text, count in counts.items()
    ]
    return "; ".join(parts[:5])
