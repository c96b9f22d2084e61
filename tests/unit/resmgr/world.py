"""A scheduler with pools, and short ways to work with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from peloton.model.ids import Run
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, ZERO, Resources
from peloton.model.shortage import Shortage
from peloton.model.states import TaskState, TaskType
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.cooperative import Steps, T
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import Needs, NewTask
from resmgr.core.state.placements import NO_HOSTS, PlacementFailure, Proposal, Rejection
from resmgr.core.state.policies import OWN, Policies
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import PoolQueues

JOB = "11111111-1111-4111-8111-111111111111"
OTHER_JOB = "22222222-2222-4222-8222-222222222222"
ENGINE = "placement/one"
JOBMGR = "jobmgr/one"
CAPACITY = Resources.of(100, 1000, 1000, 10)


def kinds(reservation: float = 0, limit: float = 500, **of_kind: KindConfig) -> dict[str, KindConfig]:
    """cpu as given; ten times that of memory and disk; a tenth of gpu."""
    factors = {"cpu": 1000, "memory": 10_000, "disk": 10_000, "gpu": 100}
    made = {
        kind: KindConfig(round(reservation * factors[kind]), round(limit * factors[kind])) for kind in KINDS
    }
    return {**made, **of_kind}


def needs(cpu: float = 1, memory: float = 1, **of: Any) -> Needs:
    of.setdefault("preemptible", True)
    return Needs(Resources.of(cpu, memory, 1), **of)


class World:
    """One leaf `/a` in a cluster of 100 cpus, unless `pools` are given; the clock stands at `now`.
    Entitlement follows demand at once."""

    def __init__(
        self,
        *pools: PoolConfig,
        limits: Limits | None = None,
        capacity: Resources | None = CAPACITY,
        slack: Resources = ZERO,
        policies: Policies = OWN,
    ) -> None:
        held = replace(limits or Limits(), sharing_interval=0.0)
        self.scheduler = Scheduler(held, "stream", policies=policies)
        self.now = 1000.0
        for pool in pools or (PoolConfig("a", "a", "root", kinds()),):
            self.scheduler.tree.insert(pool)
        if capacity is not None:
            self.scheduler.set_capacity(capacity, slack)
        self.call_again()

    def call_again(self) -> None:
        """Let engine and jobmgr call, which renews their leases, or begins new ones where these were over."""
        self.engine = self.scheduler.leases.touch(ENGINE, self.now)
        self.jobmgr = self.scheduler.leases.touch(JOBMGR, self.now)

    def pool(self, pool_id: str = "a") -> Pool:
        return self.scheduler.tree.get(pool_id)

    def queues(self, pool_id: str = "a") -> PoolQueues:
        """The queues of a pool."""
        return self.scheduler.pending.of(self.pool(pool_id))

    def enqueue(
        self, *instances: int, of: Needs | None = None, pool: str = "a", run: int = 1, job: str = JOB
    ) -> list[Task]:
        """One gang."""
        gang = [NewTask(job, instance, run, of or needs()) for instance in instances]
        return self.scheduler.enqueue(self.pool(pool), gang, self.now)

    def admit(self) -> None:
        while self.scheduler.admit(self.now):
            pass

    def dequeue(self, limit: int = 100, kind: TaskType = TaskType.BATCH) -> list[Gang]:
        return self.scheduler.dequeue(kind, limit, self.engine, self.now)

    def place(self, *instances: int, host: str = "h1", run: int = 1, **of: Any) -> list[Rejection]:
        """All on one host."""
        return self.scheduler.propose(self.engine, [proposal(instances, host, run, **of)], [], self.now)

    def fail(
        self,
        *instances: int,
        reason: str = "no host",
        hosts: Mapping[str, int] = NO_HOSTS,
        shortage: Shortage | None = None,
    ) -> None:
        failure = PlacementFailure(
            tuple(Run(JOB, instance, 1) for instance in instances), reason, hosts, shortage
        )
        self.scheduler.propose(self.engine, [], [failure], self.now)

    def hand_over(self, limit: int = 100) -> list[Run]:
        given = self.scheduler.hand_over(limit, self.jobmgr, self.now)
        return [run for placement in given for run in placement.runs]

    def observe(self, instance: int, state: TaskState, run: int = 1) -> bool:
        return self.scheduler.observe(Run(JOB, instance, run), state, self.now)

    def launch(self, *instances: int, of: Needs | None = None) -> None:
        """Each on its own, all the way to RUNNING on host h1."""
        for instance in instances:
            self.enqueue(instance, of=of)
            self.admit()
            self.dequeue()
            assert self.place(instance) == []
            assert self.hand_over() == [Run(JOB, instance, 1)]
            self.observe(instance, TaskState.RUNNING)

    def task(self, instance: int, job: str = JOB) -> Task:
        found = self.scheduler.registry.current(job, instance)
        assert found is not None, f"instance {instance} is not known"
        return found

    def state(self, instance: int) -> TaskState:
        return self.task(instance).state

    def later(self, seconds: float) -> None:
        """Time goes by: deadlines and admission."""
        self.now += seconds
        self.scheduler.expire(self.now)
        self.admit()

    def cpu(self, pool: str = "a") -> float:
        """Allocated cores, slack included."""
        return self.pool(pool).allocation()["total"].cpu / 1000


def proposal(instances: Sequence[int], host: str = "h1", run: int = 1, ports: Sequence[int] = ()) -> Proposal:
    runs = tuple(Run(JOB, instance, run) for instance in instances)
    return Proposal(host, f"agent-{host}", f"offer-{host}", TaskType.BATCH, runs, tuple(ports))


def whole(steps: Steps[T]) -> T:
    """All steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
