"""An engine that only keeps books, over a real store; a hostmgr that answers from a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.limits import Limits
from jobmgr.engine.elsewhere import Nowhere
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import HeldShards
from jobmgr.engine.lockdown import Lockdown
from jobmgr.server import services
from jobmgr.services.v1alpha.watches import Watches
from peloton.calls.rpc import Rpc
from peloton.clock import Clock
from peloton.errors import Conflict, NotFound, Refused
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec, JobSummary
from peloton.model.payload import NO_SECRETS, SecretBytes
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskRuntime
from peloton.rpc.server import Service
from storage.interface import Store
from tests.unit.jobmgr_services.fake_workflows import FakeWorkflows

NOW = 1_700_000_000 * 10**9


def runtime(**changes: Any) -> JobRuntime:
    fresh = JobRuntime(
        state=JobState.PENDING, goal=JobState.SUCCEEDED, config_version=1, creation_time=NOW, updated_at=NOW
    )
    return replace(fresh, **changes)


def task(**changes: Any) -> TaskRuntime:
    fresh = TaskRuntime(
        state=TaskState.PENDING,
        goal=TaskState.SUCCEEDED,
        run=1,
        config_version=1,
        desired_config_version=1,
        desired_run=1,
        created_at=NOW,
    )
    return replace(fresh, **changes)


class FakeEngine(Engine):
    """Jobs are active until `end`. The calls are in `requests`."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.jobs_of_all = self.losses_of_all = None
        self.elsewhere = Nowhere()
        self.limits = Limits()
        self.lockdown = Lockdown(store)
        self.shards = HeldShards()
        self.held: dict[JobId, CachedJob] = {}
        self.requests: list[tuple[object, ...]] = []
        self.lanes = SimpleNamespace(  # type: ignore[assignment]
            unread=(), jobs=lambda: list(self.held), in_memory=lambda: list(self.held.values())
        )
        self.racing = 0
        """So many updates meet one of somebody else's."""

    async def create_job(
        self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS, *, suspended: bool = False
    ) -> None:
        fresh = replace(runtime(state=JobState.PENDING), suspended=int(suspended))
        await self.store.jobs.create(job_id, spec, fresh, None, secrets)
        self.held[job_id] = CachedJob(job_id, spec, fresh)

    async def update_job(self, job_id: JobId, spec: JobSpec, secrets: SecretBytes = NO_SECRETS) -> None:
        self.requests.append(("update", spec.version))
        cached = self.held[job_id]
        if self.racing:
            self.racing -= 1
            cached.spec = replace(cached.spec, version=spec.version)
        if spec.version != cached.spec.version + 1:
            raise Conflict("somebody was faster")
        await self.store.jobs.add_config(job_id, spec, secrets)
        cached.grow(spec)
        cached.runtime = replace(cached.runtime, config_version=spec.version)

    async def put(self, job_id: JobId, tasks: dict[int, TaskRuntime]) -> None:
        await self.store.write_all(job_id, tasks)
        for instance, each in tasks.items():
            self.held[job_id].put(instance, each)
        self.held[job_id].note_throttled(tasks)

    async def end(self, job_id: JobId, **changes: Any) -> None:
        last = replace(self.held.pop(job_id).runtime, **changes)
        await self.store.write_all(job_id, {}, (), last)
        await self.store.jobs.retire(job_id)

    async def stop(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        return await self._act("stop", job_id, instances)

    async def start(self, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        if job_id in self.held and self.held[job_id].runtime.goal is JobState.KILLED:
            raise Refused("the job is being stopped")
        return await self._act("start", job_id, instances)

    async def restart(
        self, job_id: JobId, instances: Sequence[int] | None, check_sla: bool = False
    ) -> list[int]:
        return await self._act("restart within the SLA" if check_sla else "restart", job_id, instances)

    async def _act(self, what: str, job_id: JobId, instances: Sequence[int] | None) -> list[int]:
        """Instance 0 never can."""
        self.requests.append((what, instances))
        count = (await self.summary(job_id)).spec.instance_count
        return [i for i in (range(count) if instances is None else instances) if i]

    async def delete(self, job_id: JobId) -> None:
        if job_id in self.held:
            raise Refused(f"Job is not in a terminal state: {self.held[job_id].runtime.state.name}")
        await self._known(job_id)
        await self.store.jobs.delete(job_id)

    async def refresh(self, job_id: JobId) -> None:
        await self._known(job_id)
        self.requests.append(("refresh",))

    async def refresh_tasks(self, job_id: JobId, first: int = 0, end: int | None = None) -> None:
        await self._known(job_id)
        self.requests.append(("refresh", first, end))

    def job(self, job_id: JobId) -> CachedJob | None:
        return self.held.get(job_id)

    async def find(self, job_id: JobId) -> CachedJob | None:
        await self._known(job_id)
        return self.held.get(job_id)

    async def summary(self, job_id: JobId) -> JobSummary:
        cached = self.held.get(job_id)
        if cached is not None:
            return JobSummary(job_id, cached.spec, cached.runtime)
        last = await self._known(job_id)
        return JobSummary(job_id, await self.store.jobs.config(job_id, last.config_version), last)

    def active_jobs(self) -> list[JobId]:
        return list(self.held)

    async def _known(self, job_id: JobId) -> JobRuntime:
        try:
            return await self.store.jobs.runtime(job_id)
        except NotFound:
            raise NotFound("job not found") from None


def served_by(
    engine: FakeEngine,
    clock: Clock,
    hostmgr: FakeHostmgr,
    watches: Watches | None = None,
    workflows: FakeWorkflows | None = None,
    **settings: Any,
) -> tuple[Service, ...]:
    """Return the services over an engine that keeps books."""
    booked: Any = workflows or FakeWorkflows(engine, lambda: NOW)
    return services(engine, booked, clock, hostmgr, hostmgr, watches, **settings)


class FakeHostmgr:
    """Answers by method; an exception is raised."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}

    def of(self, cluster: str) -> FakeHostmgr:
        return self

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        answer = self.answers[rpc.name]
        if isinstance(answer, Exception):
            raise answer
        return answer
