"""A whole cluster in which nothing fails: a workload from its begin to its end."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hostmgr.core.cluster_manager.reconciliation import ReconciliationLimits
from hostmgr.core.term import TermLimits
from jobmgr.core.state.cache import CachedJob
from peloton.errors import PelotonError
from peloton.model.ids import JobId, MesosTaskId, PoolId
from peloton.model.pool import PoolConfig, pool_paths
from peloton.model.states import TaskState, TaskType
from placement.core.giving_up import Rules
from simulator.daemons.hostmgr import Hostmgr, HostmgrOptions
from simulator.daemons.jobmgr import Jobmgr, JobmgrOptions
from simulator.daemons.placement import Placement, strategy_of
from simulator.daemons.resmgr import Resmgr
from simulator.daemons.resmgr_term import ResmgrOptions
from simulator.daemons.translate import NeedsOfPlacement, NeedsOfTasks
from simulator.garbage import rare_collections
from simulator.jobs import SimJob, job_id_of
from simulator.progress import Progress
from simulator.world.agents import HostSpec
from simulator.world.cluster import Cluster, Course
from simulator.world.kernel import Kernel, Life
from simulator.world.network import Caller, Network, Server
from simulator.world.store import Store
from simulator.world.universe import Universe

NEVER = 1e12
"""Seconds between reconciliations where no status is ever lost."""
START_SECONDS = 1.0
"""From the launch of a run until it runs."""


@dataclass(slots=True)
class Options:
    """Settings of the daemons."""

    jobmgr: JobmgrOptions = field(default_factory=lambda: JobmgrOptions(reasons=False))
    resmgr: ResmgrOptions = field(default_factory=ResmgrOptions)
    hostmgr: HostmgrOptions = field(
        default_factory=lambda: HostmgrOptions(TermLimits(reconcile=ReconciliationLimits(interval=NEVER)))
    )
    placement: Callable[[TaskType], Rules] = lambda kind: Rules(strategy_of(kind))
    """How tasks of a type are placed."""
    kinds: tuple[TaskType, ...] = (TaskType.BATCH, TaskType.STATELESS)
    """Task types that have a placement engine."""
    start_seconds: float = START_SECONDS


class Simulation:
    """One run of a workload."""

    def __init__(
        self,
        hosts: Iterable[HostSpec],
        pools: Sequence[PoolConfig],
        jobs: Sequence[SimJob],
        options: Options | None = None,
    ) -> None:
        """Build the daemons over `hosts`. `jobs` are sorted by the time of their creation."""
        self.options = options or Options()
        self.jobs = jobs
        self.kernel = Kernel()
        self.ended: list[CachedJob] = []
        self.on_end: Callable[[CachedJob], None] = self.ended.append
        """Called with each job that has ended."""
        self.refused: list[tuple[SimJob, str]] = []
        self._servers: dict[str, Server] = {}
        self._engines: list[Placement] = []
        self._pools = {path: pool_id for pool_id, path in pool_paths(pools).items()}
        self._seconds: dict[JobId, float] = {}
        self._services: set[JobId] = set()
        self._next = 0
        self._open = 0
        self.network = Network(self.kernel, self)
        self.store = Store(self.kernel)
        self.store.pools = {pool.id: pool for pool in pools}
        self.cluster = Cluster(self.kernel, hosts, self._behaviour, starting=False)
        self._progress: Progress | None = None
        """Of elastic gangs; None: there are none."""
        if any(job.needed for job in jobs):
            self._progress = progress = Progress()
            self.cluster.on_end = lambda run: progress.note_end(run.id, self.kernel.now)
        self.universe = Universe(self.kernel, self.network, self.store, self.cluster, self)
        self._user = Caller(Life("client/user"), 0)
        self._build()

    def _build(self) -> None:
        needs, placed, options = NeedsOfTasks(), NeedsOfPlacement(), self.options
        self.hostmgr = Hostmgr(self.universe, Life("hostmgr/one"), 1, options.hostmgr)
        self.resmgr = Resmgr(self.universe, Life("resmgr/one"), 1, options.resmgr, needs, placed)
        self.jobmgr = Jobmgr(self.universe, Life("jobmgr/one"), 1, options.jobmgr, needs)
        self.jobmgr.on_end = self._note_end
        self._servers = {"hostmgr": self.hostmgr, "resmgr": self.resmgr, "jobmgr": self.jobmgr}
        self._engines = [
            Placement(self.universe, Life(f"placement/{kind.name.lower()}"), kind, options.placement(kind))
            for kind in options.kinds
        ]

    # What the daemons ask of it.

    def leader(self, role: str, caller: str) -> Server | None:
        """Return the one instance of a role."""
        return self._servers.get(role)

    def leads(self, server: Any) -> bool:
        """Return that every instance leads."""
        return True

    def present(self, role: str) -> Collection[str]:
        """Return the names of the processes of a role."""
        if role == "placement":
            return [engine.life.name for engine in self._engines]
        return [self._servers[role].life.name]

    def _behaviour(self, run: MesosTaskId) -> Course:
        seconds = self._seconds[run[:36]]
        if run[:36] in self._services:
            return Course(self.options.start_seconds, NEVER)
        if seconds < 0:
            return Course(self.options.start_seconds, -seconds, TaskState.FAILED)
        if self._progress is not None:
            seconds = self._progress.left(run, seconds, self.kernel.now + self.options.start_seconds)
        return Course(self.options.start_seconds, seconds)

    # The run.

    def pool_id(self, path: str) -> PoolId | None:
        """Return the id of a pool; None where there is no such pool."""
        return self._pools.get(path)

    def run(self, until: float = NEVER) -> None:
        """Run until every job has ended, or a time is reached."""
        self.start()
        if self.jobs:
            with rare_collections():
                self.kernel.run(until)

    def start(self) -> None:
        """Start the daemons, and have the first job created when its time has come."""
        self.hostmgr.start()
        self.resmgr.start()
        self.jobmgr.start()
        for engine in self._engines:
            engine.start()
        self._create_later()

    def _create_later(self) -> None:
        if self._next < len(self.jobs):
            job = self.jobs[self._next]
            self.kernel.after(max(0.0, job.submit - self.kernel.now), self._user.life, self._create)

    def _create(self) -> None:
        number, self._next = self._next, self._next + 1
        self._open += 1
        self._send(number)
        self._create_later()

    def _send(self, number: int) -> None:
        job, job_id = self.jobs[number], job_id_of(number)
        pool_id = self._pools[job.pool]
        self._seconds[job_id] = job.seconds
        if job.service:
            self._services.add(job_id)
        if job.needed and self._progress is not None:
            self._progress.add(job_id)

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self.kernel.after(1.0, self._user.life, self._send, number)
            elif job.service:
                self.kernel.after(job.seconds, self._user.life, self._stop, job_id)

        self.network.call(self._user, "jobmgr", "on_create", (job_id, job.spec(pool_id)), done)

    def _stop(self, job_id: JobId) -> None:
        self.network.call(self._user, "jobmgr", "on_stop", (job_id,), lambda answer: None)

    def _note_end(self, job: CachedJob) -> None:
        if job.job_id not in self._seconds:
            return  # a service, which is known to have ended
        self._open -= 1
        del self._seconds[job.job_id]
        self._services.discard(job.job_id)
        if self._progress is not None:
            self._progress.remove(job.job_id)
        self.on_end(job)
        if not self._open and self._next == len(self.jobs):
            self.kernel.stop()
