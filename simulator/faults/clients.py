"""Clients that ask for what a plan has of services, hosts and pools, again until they are answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from jobmgr.core.state.events import WorkflowAction
from peloton.errors import Conflict, InvalidArgument, NotFound, PelotonError, Refused
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.workflow import Workflow, WorkflowId, WorkflowOptions, WorkflowState, WorkflowType
from simulator.faults.asks import (
    DRAIN,
    EXCHANGE,
    FIRST_NUMBER,
    PAUSE,
    RESTART,
    SCHEDULE,
    SERVICE,
    UPDATE,
    Ask,
    Step,
)
from simulator.faults.checks import Checks
from simulator.faults.fault import ROUGH_SECONDS
from simulator.faults.plan import Plan
from simulator.faults.services import AskedUpdate
from simulator.jobs import job_id_of
from simulator.world.cluster import Cluster
from simulator.world.kernel import Kernel, Life
from simulator.world.network import Caller, Network
from simulator.world.store import Store

RETRY_SECONDS = 1.0
LAST_RESUME_SECONDS = 2 * ROUGH_SECONDS
"""From then on no message of a pause is under way any more."""
RESUME_SECONDS = 30.0
FAILING = b"failing"
"""Begins the fingerprints of configs whose runs fail."""
_MOST_FAILURES = 2
_REFUSALS = (InvalidArgument, NotFound, Refused)


class Asked(Protocol):
    """The case in which something is asked for."""

    plan: Plan
    kernel: Kernel
    network: Network
    cluster: Cluster
    store: Store
    checks: Checks

    def note(self, what: str) -> None:
        """Remember what happens."""
        ...


class Clients:
    """Carries the asks of a plan out."""

    def __init__(self, case: Asked) -> None:
        self._case = case
        self._kernel = case.kernel
        self._life = Life("client/asks")
        self._caller = Caller(self._life, 0)
        self._latest: dict[JobId, WorkflowId] = {}
        """The update of each service that was begun last."""

    def start(self) -> None:
        """Set when all is asked for."""
        for ask, number in zip(self._case.plan.asks, self._case.plan.asked, strict=True):
            if ask.kind == SERVICE:
                job_id = job_id_of(FIRST_NUMBER + number)
                for at, step in enumerate(ask.steps):
                    self._at(step.at, self._step, job_id, ask, step, f"update-{number}-{at}")
                self._at(LAST_RESUME_SECONDS, self._resume_all, job_id)
            elif ask.kind == SCHEDULE:
                for step in ask.steps:
                    self._at(step.at, self._pause, job_id_of(FIRST_NUMBER + number), step)
            elif ask.kind == DRAIN:
                hostname = self._case.plan.hosts[ask.host].hostname
                self._at(ask.at, self._case.cluster.drain, hostname)
                self._at(ask.at + ask.seconds, self._case.cluster.end_drain, hostname)
            elif ask.kind == EXCHANGE:
                pools = self._case.plan.pools
                self._at(ask.at, self._change_pools, exchanged(pools, 2))
                self._at(
                    ask.at + ask.seconds, self._change_pools, [replace(pool, version=3) for pool in pools]
                )

    def _at(self, when: float, call: Callable[..., None], *args: Any) -> None:
        self._kernel.after(max(0.0, when - self._kernel.now), self._life, call, *args)

    def _until(self, role: str, method: str, args: tuple[Any, ...], done: Callable[[Any], None]) -> None:
        """Call until there is an answer, or a refusal that stays."""

        def answered(answer: Any) -> None:
            if isinstance(answer, PelotonError) and not isinstance(answer, _REFUSALS):
                self._at(self._kernel.now + RETRY_SECONDS, self._until, role, method, args, done)
            else:
                done(answer)

        self._case.network.call(self._caller, role, method, args, answered)

    # Services.

    def _step(self, job_id: JobId, ask: Ask, step: Step, workflow_id: WorkflowId) -> None:
        if job_id not in self._case.checks.acknowledged:
            self._at(self._kernel.now + RETRY_SECONDS, self._step, job_id, ask, step, workflow_id)
        elif step.kind == UPDATE:
            self._update(job_id, ask, step, workflow_id)
        elif step.kind == RESTART:
            self._restart(job_id, step.instance)
        elif job_id in self._latest:
            action = WorkflowAction.PAUSE if step.kind == PAUSE else WorkflowAction.ABORT
            self._steer(job_id, self._latest[job_id], action)
            if step.kind == PAUSE:
                again = (job_id, self._latest[job_id], WorkflowAction.RESUME)
                self._at(self._kernel.now + step.seconds, self._steer, *again)

    def _update(self, job_id: JobId, ask: Ask, step: Step, workflow_id: WorkflowId) -> None:
        assert ask.job is not None
        spec = _version(replace(ask.job, instances=step.instances), workflow_id, step.fails)
        options = WorkflowOptions(
            batch_size=step.batch,
            rollback_on_failure=step.rolls_back,
            max_instance_attempts=_MOST_FAILURES if step.fails else 0,
            max_failure_instances=1 if step.fails else 0,
            in_place=step.in_place,
        )
        workflow = Workflow(
            workflow_id, job_id, WorkflowType.UPDATE, WorkflowState.INITIALIZED, options, 0, 0
        )
        checks = self._case.checks.services
        checks.asked[workflow_id] = AskedUpdate(job_id, step.batch)

        def done(answer: Any) -> None:
            if not isinstance(answer, PelotonError):
                checks.acknowledged.add(workflow_id)
                self._latest[job_id] = workflow_id
                self._case.note(f"{workflow_id} is acknowledged")

        self._until("jobmgr", "on_update", (spec, workflow), done)

    def _steer(self, job_id: JobId, workflow_id: WorkflowId, action: WorkflowAction) -> None:
        self._until("jobmgr", "on_steer", (job_id, workflow_id, action), lambda _: None)

    def _restart(self, job_id: JobId, instance: int, tries: int = 10) -> None:
        def done(answer: Any) -> None:
            if isinstance(answer, Conflict) and tries:  # the SLA would break
                self._at(self._kernel.now + RETRY_SECONDS, self._restart, job_id, instance, tries - 1)

        self._case.network.call(self._caller, "jobmgr", "on_restart", (job_id, instance), done)

    def _resume_all(self, job_id: JobId) -> None:
        """Resume what is paused, now that no message of a pause is under way any more."""
        stored = self._case.store.jobs.get(job_id)
        running = (
            [] if stored is None else [each for each in stored.workflows.values() if not each.state.terminal]
        )
        for workflow in running:
            self._steer(job_id, workflow.id, WorkflowAction.RESUME)
        if running:
            self._at(self._kernel.now + RESUME_SECONDS, self._resume_all, job_id)

    # Schedules.

    def _pause(self, job_id: JobId, step: Step) -> None:
        """Pause a schedule, and let it go on later."""
        if job_id not in self._case.checks.acknowledged:
            self._at(self._kernel.now + RETRY_SECONDS, self._pause, job_id, step)
            return

        def resume(_: Any) -> None:
            again = ("jobmgr", "on_pause", (job_id, False), lambda _: None)
            self._at(self._kernel.now + step.seconds, self._until, *again)

        self._until("jobmgr", "on_pause", (job_id, True), resume)

    # Pools.

    def _change_pools(self, configs: list[PoolConfig]) -> None:
        self._until("resmgr", "on_change_pools", (configs,), lambda _: None)


def exchanged(pools: tuple[PoolConfig, ...], version: int) -> list[PoolConfig]:
    """Return two pools, each with the reservation of the other."""
    first, second = pools
    return [
        replace(
            pool,
            version=version,
            kinds={
                kind: KindConfig(other.kind(kind).reservation, max(held.limit, other.kind(kind).reservation))
                for kind, held in pool.kinds.items()
            },
        )
        for pool, other in ((first, second), (second, first))
    ]


def _version(job: Any, name: str, fails: bool) -> JobSpec:
    spec: JobSpec = job.spec(job.pool[1:])
    fingerprint = (FAILING if fails else b"") + name.encode()
    return replace(spec, default=replace(spec.default, fingerprint=fingerprint))
