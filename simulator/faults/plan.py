"""What a seed draws: the cluster, the jobs, and when which fault strikes.

A case is the seed with a choice of the faults and jobs that it draws: shrinking leaves some out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random

from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.states import TaskState
from simulator.jobs import SimJob
from simulator.world.agents import HostSpec

ROUGH_SECONDS = 45.0
"""For so long faults strike."""
LATE_STOP_SECONDS = 360.0
"""When a service is stopped after all has settled, since its creation."""
ROLES = ("jobmgr", "resmgr", "hostmgr", "placement")
LEADERS = ("jobmgr", "resmgr", "hostmgr")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    at: float
    kind: str
    target: str = ""
    """A role, or the number of a host."""
    seconds: float = 0.0
    """How long it lasts, or how far a clock jumps."""
    share: float = 0.0
    """Of messages or writes that it strikes."""
    point: int = 0
    """For a crash: at which point where a process may crash, counted from the time of the fault."""

    def __str__(self) -> str:
        words = [f"{self.at:.1f} s", self.kind, self.target]
        if self.seconds:
            words.append(f"for {self.seconds:.1f} s")
        if self.share:
            words.append(f"share {self.share:.2f}")
        if self.point:
            words.append(f"at point {self.point}")
        return " ".join(filter(None, words))


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

    def only(self, faults: Collection[int], jobs: Collection[int]) -> Plan:
        """Return the plan with these faults and jobs only, by their numbers."""
        which = [at for at, number in enumerate(self.kept) if number in faults]
        whose = [at for at, number in enumerate(self.numbers) if number in jobs]
        return replace(
            self,
            faults=tuple(self.faults[at] for at in which),
            kept=tuple(self.kept[at] for at in which),
            jobs=tuple(self.jobs[at] for at in whose),
            numbers=tuple(self.numbers[at] for at in whose),
        )


def draw(seed: int) -> Plan:
    """Return what a seed draws."""
    random = Random(seed)
    hosts = _hosts(random)
    pools = _pools(random, hosts)
    jobs = tuple(_job(random, number, pools, hosts) for number in range(random.randint(3, 8)))
    faults = tuple(sorted(_faults(random, len(hosts)), key=lambda fault: fault.at))
    return Plan(seed, hosts, pools, jobs, faults, tuple(range(len(jobs))), tuple(range(len(faults))))


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
        seconds=random.choice([0.5, 3.0, 10.0, 30.0]),
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


def _faults(random: Random, hosts: int) -> list[Fault]:
    kinds = random.sample(sorted(_KINDS), random.randint(2, 5))
    found = []
    for _ in range(random.randint(3, 10)):
        kind = random.choice(kinds)
        found.append(_KINDS[kind](random, random.uniform(1.0, ROUGH_SECONDS), hosts))
    return found


def _crash(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "crash", random.choice(ROLES), random.uniform(0.5, 8.0), point=random.randint(1, 20))


def _freeze(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "freeze", random.choice(ROLES), random.choice([1.0, 4.0, 8.0, 40.0]))


def _overlap(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "overlap", random.choice(LEADERS), random.uniform(0.5, 10.0))


def _partition(random: Random, at: float, hosts: int) -> Fault:
    pair = random.choice(["jobmgr resmgr", "jobmgr hostmgr", "resmgr hostmgr", "placement resmgr",
                          "placement hostmgr"])  # fmt: skip
    return Fault(at, "partition", pair, random.uniform(1.0, 40.0))


def _lossy(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "loss", "", random.uniform(5.0, 40.0), share=random.uniform(0.05, 0.4))


def _repeated(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "repetition", "", random.uniform(5.0, 40.0), share=random.uniform(0.1, 0.6))


def _store(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "store", "", random.uniform(2.0, 20.0), share=random.uniform(0.1, 0.6))


def _agent(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "agent", str(random.randrange(hosts)), random.choice([5.0, 20.0, 60.0]))


def _reboot(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "reboot", str(random.randrange(hosts)))


def _master(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "master")


def _clock(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "clock", random.choice(ROLES), random.choice([-3600.0, -5.0, 5.0, 3600.0]))


_KINDS = {
    "agent": _agent,
    "clock": _clock,
    "crash": _crash,
    "freeze": _freeze,
    "loss": _lossy,
    "master": _master,
    "overlap": _overlap,
    "partition": _partition,
    "reboot": _reboot,
    "repetition": _repeated,
    "store": _store,
}
