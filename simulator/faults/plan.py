"""What a seed draws: the cluster, the jobs, and when which fault strikes.

A case is the seed with a choice of the faults, jobs and asks that it draws: shrinking leaves some out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.states import TaskState
from simulator.faults.asks import (
    CHAIN,
    ELASTIC,
    FIRST_NUMBER,
    SCHEDULE,
    SERVICE,
    STOP_SECONDS,
    Ask,
    chain_number,
    draw_asks,
)
from simulator.faults.fault import ROUGH_SECONDS, Fault, draw_faults
from simulator.jobs import SimJob
from simulator.world.agents import HostSpec

LATE_STOP_SECONDS = 360.0
"""When a service is stopped after all has settled, since its creation."""


@dataclass(frozen=True, slots=True)
class PlannedJob:
    """A job, and what is asked of it."""

    job: SimJob
    stop_at: float = 0.0
    """When it is stopped; 0: it is not."""
    failing: int = 0
    """How many runs of each instance fail before one succeeds."""

    @property
    def end(self) -> TaskState:
        """How its instances end, where nobody stops it."""
        if self.job.service:
            return TaskState.KILLED
        return TaskState.FAILED if self.failing >= max(self.job.max_failures, 1) else TaskState.SUCCEEDED


@dataclass(frozen=True, slots=True)
class Plan:
    """All that a seed draws."""

    seed: int
    hosts: tuple[HostSpec, ...]
    pools: tuple[PoolConfig, ...]
    jobs: tuple[PlannedJob, ...]
    faults: tuple[Fault, ...]
    numbers: tuple[int, ...]
    """The number of each of the jobs among those that the seed draws."""
    kept: tuple[int, ...]
    """That of each of the faults."""
    reconcile: float = 120.0
    """Seconds between reconciliations."""
    asks: tuple[Ask, ...] = ()
    asked: tuple[int, ...] = ()
    """The number of each of the asks."""

    @property
    def services(self) -> dict[int, PlannedJob]:
        """The services of the asks, by number."""
        return {
            FIRST_NUMBER + number: PlannedJob(ask.job, STOP_SECONDS)
            for number, ask in zip(self.asked, self.asks, strict=True)
            if ask.job is not None and ask.kind == SERVICE
        }

    @property
    def asked_jobs(self) -> dict[int, PlannedJob]:
        """The services, the jobs of chains, elastic gangs, and jobs with schedules, by number."""
        found = self.services
        for number, ask in zip(self.asked, self.asks, strict=True):
            if ask.kind in (CHAIN, ELASTIC):
                for position, link in enumerate(ask.chain):
                    planned = PlannedJob(link.job, link.stop_at, link.failing)
                    found[chain_number(number, position)] = planned
            elif ask.kind == SCHEDULE and ask.job is not None:
                found[FIRST_NUMBER + number] = PlannedJob(ask.job, ask.stop_at)
        return found

    def without_asks(self) -> Plan:
        """Return the plan with its jobs and faults alone."""
        return self.only(self.kept, self.numbers, ())

    def only(
        self, faults: Collection[int], jobs: Collection[int], asks: Collection[int] | None = None
    ) -> Plan:
        """Return the plan with these faults, jobs and asks only, by their numbers; None: all asks."""
        asks = self.asked if asks is None else asks
        what = [at for at, number in enumerate(self.asked) if number in asks]
        which = [at for at, number in enumerate(self.kept) if number in faults]
        whose = [at for at, number in enumerate(self.numbers) if number in jobs]
        return replace(
            self,
            faults=tuple(self.faults[at] for at in which),
            kept=tuple(self.kept[at] for at in which),
            jobs=tuple(self.jobs[at] for at in whose),
            numbers=tuple(self.numbers[at] for at in whose),
            asks=tuple(self.asks[at] for at in what),
            asked=tuple(self.asked[at] for at in what),
        )


def draw(seed: int) -> Plan:
    """Return what a seed draws."""
    random = Random(seed)
    hosts = _hosts(random)
    pools = _pools(random, hosts)
    jobs = tuple(_job(random, number, pools, hosts) for number in range(random.randint(3, 8)))
    moments = [moment for each in jobs for moment in (each.job.submit, each.stop_at) if moment]
    faults = tuple(sorted(draw_faults(random, len(hosts), moments), key=lambda fault: fault.at))
    numbers, kept = tuple(range(len(jobs))), tuple(range(len(faults)))
    asks = draw_asks(seed, len(hosts), pools)
    reconcile = random.choice([15.0, 120.0])
    return Plan(seed, hosts, pools, jobs, faults, numbers, kept, reconcile, asks, tuple(range(len(asks))))


def _hosts(random: Random) -> tuple[HostSpec, ...]:
    size = random.choice([2, 4])
    return tuple(
        HostSpec(f"host-{number}", Resources.of(size, 1000 * size, 1000))
        for number in range(random.randint(2, 4))
    )


def _pools(random: Random, hosts: tuple[HostSpec, ...]) -> tuple[PoolConfig, ...]:
    total = sum((host.resources for host in hosts), Resources())
    amounts = dict(zip(KINDS, total.values(), strict=True))

    def pool(name: str, reserved: float, limit: float) -> PoolConfig:
        kinds = {
            kind: KindConfig(round(amount * reserved), round(amount * limit))
            for kind, amount in amounts.items()
        }
        return PoolConfig(name, name, "root", kinds)

    share = random.choice([0.3, 0.5, 0.7])
    return pool("a", share, random.choice([share, 1.0])), pool("b", 1 - share, 1.0)


def _job(
    random: Random, number: int, pools: tuple[PoolConfig, ...], hosts: tuple[HostSpec, ...]
) -> PlannedJob:
    kind = random.choice(["one", "one", "many", "many", "gang", "gang", "service"])
    instances = 1 if kind == "one" else random.randint(2, 4)
    pool = random.choice(pools)
    cpu = pool.kind("cpu")
    preemptible = random.random() < 0.5
    gang = kind == "gang"
    # More than its pool's reservation is never admitted that is not preemptible, nor more than its limit.
    together = 1000 * (instances if gang else 1)
    preemptible = preemptible or cpu.reservation < together
    gang = gang and together <= cpu.limit
    max_failures = random.choice([0, 0, 0, 3])
    job = SimJob(
        name=f"job-{number}",
        submit=random.uniform(0.0, ROUGH_SECONDS * 0.7),
        pool=f"/{pool.name}",
        resources=Resources.of(1, 500, 10),
        seconds=random.choice([0.5, 3.0, 10.0, 30.0, 200.0]),
        instances=instances,
        gang=gang,
        priority=random.randint(0, 3),
        preemptible=preemptible,
        max_failures=max_failures,
        service=kind == "service",
    )
    failing = random.choice([0, 0, 1, 2]) if max_failures else random.choice([0, 0, 0, 1])
    stops = kind == "service" or random.random() < 0.15
    late = kind == "service" and random.random() < 0.5
    after = LATE_STOP_SECONDS if late else random.uniform(0.5, 30.0)
    stop_at = job.submit + after if stops else 0.0
    return PlannedJob(job, stop_at, 0 if kind == "service" else failing)
