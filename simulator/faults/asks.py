"""What a seed draws that is asked of services, hosts and pools while faults strike.

An ask is one service with all that is asked of it, a host that is drained for a while, an exchange of the
pools' reservations, a chain of jobs that wait for each other, a schedule with its pauses, an elastic gang, or
a crash at a point of these three. Asks are drawn apart from the rest: a seed without them has the same jobs
and faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from peloton.model.dependency import Dependency, DependencyEnd
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.schedule import Overlap, Schedule
from simulator.faults.fault import ROUGH_SECONDS, Fault
from simulator.jobs import SimJob, job_id_of

SERVICE, DRAIN, EXCHANGE = "service", "drain", "exchange"
CHAIN, SCHEDULE, ELASTIC, CRASH = "chain", "schedule", "elastic", "crash"
UPDATE, PAUSE, ABORT, RESTART = "update", "pause", "abort", "restart"
FIRST_NUMBER = 1000
"""Jobs of asks have numbers from here on, behind those of the plan."""
STOP_SECONDS = 420.0
"""When services are stopped: all that was asked of them has ended."""
CHAIN_NUMBER, MOST_IN_CHAIN = 2000, 10
"""Jobs of chains have numbers from the first one on; each chain has the same count of them."""
SCHEDULE_SPEED = 60.0
"""Seconds of a schedule that pass in a second: a time is missed when it is five seconds late."""
_POINTS = {
    CHAIN: ("after a cycle is stored", "after a job is stored", "before an end is told"),
    SCHEDULE: (
        "after a cycle is stored",
        "after a run is created",
        "after a run is deleted",
        "before a run is created",
    ),
    ELASTIC: ("after a cycle is stored", "before Enqueue", "before Launch", "before Kill"),
}
"""Points at which job managers crash."""


@dataclass(frozen=True, slots=True)
class Step:
    """What is asked of a service."""

    at: float
    kind: str
    batch: int = 0
    """Of an update: how many instances may be in flight."""
    instances: int = 0
    """Of an update: how many the service has afterwards."""
    fails: bool = False
    """Of an update: whether the runs of the new version fail."""
    rolls_back: bool = False
    in_place: bool = False
    instance: int = 0
    """The one that is restarted."""
    seconds: float = 0.0
    """Of a pause: for how long."""

    def __str__(self) -> str:
        words = [f"{self.kind} at {self.at:.1f} s"]
        if self.kind == UPDATE:
            words.append(f"to {self.instances} instances by {self.batch}")
            words += [
                name.replace("_", " ") for name in ("fails", "rolls_back", "in_place") if getattr(self, name)
            ]
        if self.kind == PAUSE:
            words.append(f"for {self.seconds:.1f} s")
        if self.kind == RESTART:
            words.append(f"of instance {self.instance}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Link:
    """A job of a chain, where those that it waits for are in its config; or an elastic gang."""

    job: SimJob
    failing: int = 0
    """How many runs of each instance fail before one succeeds."""
    stop_at: float = 0.0
    """When it is stopped; 0: it is not."""

    def __str__(self) -> str:
        job = self.job
        waits = ", ".join(f"{each.name} {each.end.name}" for each in job.depends_on)
        words = [f"{job.name} at {job.submit:.1f} s", f"instances: {job.instances}"]
        words += [f"after [{waits}]"] if not job.needed else [f"needed: {job.needed}"]
        words += ["in place"] if job.needed and job.in_place else []
        words += ["fails"] if self.failing else []
        words += [f"stopped at {self.stop_at:.1f} s"] if self.stop_at else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Ask:
    """One of the seven. Times are seconds since the start."""

    at: float
    kind: str
    job: SimJob | None = None
    steps: tuple[Step, ...] = ()
    host: int = 0
    seconds: float = 0.0
    """How long a host is drained, or reservations are exchanged."""
    chain: tuple[Link, ...] = ()
    stop_at: float = 0.0
    """When a schedule is stopped."""
    fault: Fault | None = None
    """Of a crash at a point of chains, schedules or elastic gangs."""

    def __str__(self) -> str:
        if self.fault is not None:
            return str(self.fault)
        if self.kind == CHAIN:
            return "chain: " + "; ".join(map(str, self.chain))
        if self.kind == ELASTIC:
            return f"elastic gang: {self.chain[0]}"
        if self.job is not None and self.job.schedule is not None:
            steps = "".join(f", {step}" for step in self.steps)
            return f"{self.job.schedule} at {self.at:.1f} s, stopped at {self.stop_at:.1f} s{steps}"
        if self.job is not None:
            steps = "".join(f", {step}" for step in self.steps)
            allowed = self.job.max_unavailable
            return (
                f"service in {self.job.pool} at {self.at:.1f} s, instances: {self.job.instances}, "
                f"may be unavailable: {allowed or 'all'}{steps}"
            )
        what = f"host {self.host} is drained" if self.kind == DRAIN else "reservations are exchanged"
        return f"{what} at {self.at:.1f} s for {self.seconds:.1f} s"


def draw_asks(seed: int, hosts: int, pools: Sequence[PoolConfig]) -> tuple[Ask, ...]:
    """Return the asks of a seed."""
    random = Random(f"asks {seed}")
    asks = [_service(random, number, pools) for number in range(random.randint(1, 2))]
    asks += [
        Ask(
            random.uniform(5.0, ROUGH_SECONDS),
            DRAIN,
            host=random.randrange(hosts),
            seconds=random.choice([10.0, 40.0, 120.0]),
        )
        for _ in range(random.choice([0, 1, 1, 2]))
    ]
    if random.random() < 0.5:
        asks.append(
            Ask(random.uniform(5.0, ROUGH_SECONDS), EXCHANGE, seconds=random.choice([20.0, 60.0, 200.0]))
        )
    asks.sort(key=lambda ask: ask.at)
    asks += _draw_chains_and_schedules(seed, len(asks), pools)
    return (*asks, *_draw_elastic_gangs(seed, len(asks), pools))


def chain_number(ask: int, position: int) -> int:
    """Return the number of a job of a chain."""
    return CHAIN_NUMBER + MOST_IN_CHAIN * ask + position


def _draw_chains_and_schedules(seed: int, first: int, pools: Sequence[PoolConfig]) -> list[Ask]:
    """Return what came later: it is drawn apart and numbered behind the others, so that these stay."""
    random, asks = Random(f"chains and schedules {seed}"), list[Ask]()
    if random.random() < 0.6:
        asks.append(_chain(random, first, pools))
    if random.random() < 0.6:
        asks.append(_schedule(random, first + len(asks), pools))
    crashes = [_crashes(Random(f"crashes {seed} {ask.kind}"), ask) for ask in asks]
    return [*asks, *(crash for some in crashes for crash in some)]


def _draw_elastic_gangs(seed: int, first: int, pools: Sequence[PoolConfig]) -> list[Ask]:
    """Return elastic gangs, which came later still."""
    random, asks = Random(f"elastic {seed}"), list[Ask]()
    for number in range(random.choice([0, 1, 1, 2])):
        gang = _elastic_gang(random, f"elastic-{first + number}", pools)
        asks.append(Ask(gang.job.submit, ELASTIC, chain=(gang,)))
    return [*asks, *(crash for ask in asks for crash in _crashes(random, ask))]


def _elastic_gang(random: Random, name: str, pools: Sequence[PoolConfig]) -> Link:
    pool, cpu = random.choice(pools), 500
    needed = min(random.choice([1, 2, 2, 3]), pool.kind("cpu").limit // cpu)  # more are never admitted
    job = SimJob(
        name=name,
        submit=random.uniform(0.0, ROUGH_SECONDS * 0.7),
        pool=f"/{pool.name}",
        resources=Resources.of(cpu / 1000, 250, 10),
        seconds=random.choice([0.5, 3.0, 10.0, 30.0, 100.0]),
        instances=needed + random.randint(0, 3),
        needed=needed,
        growth_interval=random.choice([1, 5, 20]),
        in_place=random.random() < 0.3,
        priority=random.randint(0, 3),
        preemptible=True,
        max_failures=random.choice([0, 0, 3]),
    )
    failing = random.choice([0, 0, 1, 2]) if job.max_failures else random.choice([0, 0, 0, 1])
    stop_at = job.submit + random.uniform(0.5, 40.0) if random.random() < 0.15 else 0.0
    return Link(job, failing, stop_at)


def _crashes(random: Random, ask: Ask) -> list[Ask]:
    """Return crashes of job managers, for two of three asks."""
    times = sorted(random.uniform(min(ask.at, 30.0), ROUGH_SECONDS) for _ in range(random.choice([0, 1, 2])))
    return [Ask(at, CRASH, fault=_crash(random, at, _POINTS[ask.kind])) for at in times]


def _crash(random: Random, at: float, points: Sequence[str]) -> Fault:
    return Fault(at, "crash", "jobmgr", point=random.choice([1, 1, 2]), where=random.choice(points))


def _small_job(random: Random, name: str, at: float, pools: Sequence[PoolConfig]) -> SimJob:
    return SimJob(
        name=name,
        submit=at,
        pool=f"/{random.choice(pools).name}",
        resources=Resources.of(0.5, 250, 10),
        seconds=random.choice([0.5, 3.0, 10.0]),
        instances=random.choice([1, 1, 2]),
        gang=False,
        priority=random.randint(0, 3),
        preemptible=True,
    )


def _chain(random: Random, ask: int, pools: Sequence[PoolConfig]) -> Ask:
    begin = at = random.uniform(0.0, 20.0)
    links: list[Link] = []
    for position in range(random.randint(2, 4)):
        job = _small_job(random, f"link-{ask}-{position}", at, pools)
        earlier = sorted(random.sample(range(position), min(position, random.choice([1, 1, 2]))))
        waits = tuple(
            Dependency(
                job_id_of(chain_number(ask, number)),
                links[number].job.name,
                random.choice([DependencyEnd.SUCCEEDED, DependencyEnd.SUCCEEDED, DependencyEnd.ENDED]),
            )
            for number in earlier
        )
        stop_at = at + random.uniform(0.5, 30.0) if random.random() < 0.15 else 0.0
        links.append(Link(replace(job, depends_on=waits), random.choice([0, 0, 0, 1]), stop_at))
        at += random.uniform(0.0, 5.0)
    return Ask(begin, CHAIN, chain=tuple(links))


def _schedule(random: Random, ask: int, pools: Sequence[PoolConfig]) -> Ask:
    at = random.uniform(0.0, 12.0)
    schedule = Schedule(
        random.choice(["*/2 * * * *", "*/5 * * * *", "*/10 * * * *"]),
        overlap=random.choice([Overlap.SKIP, Overlap.QUEUE, Overlap.QUEUE, Overlap.REPLACE]),
        catch_up=random.choice([0, 1, 3, 100]),
        keep_runs=random.choice([1, 2, 5]),
        keep_days=random.choice([0, 0, 1]),
    )
    job = replace(_small_job(random, f"schedule-{ask}", at, pools), schedule=schedule)
    pauses = tuple(
        Step(at + random.uniform(2.0, 40.0), PAUSE, seconds=random.choice([1.0, 8.0, 20.0]))
        for _ in range(random.choice([0, 1, 1, 2]))
    )
    return Ask(at, SCHEDULE, job, pauses, stop_at=random.uniform(35.0, 95.0))


def _service(random: Random, number: int, pools: Sequence[PoolConfig]) -> Ask:
    at, instances = random.uniform(0.0, 12.0), random.randint(2, 4)
    job = SimJob(
        name=f"service-{number}",
        submit=at,
        pool=f"/{random.choice(pools).name}",
        resources=Resources.of(0.5, 250, 10),
        seconds=0.0,
        instances=instances,
        gang=False,
        priority=random.randint(0, 3),
        preemptible=True,
        max_unavailable=random.choice([0, 1, 1, 2]),
        service=True,
    )
    return Ask(at, SERVICE, job, tuple(_steps(random, at, instances)))


def _steps(random: Random, created: float, instances: int) -> list[Step]:
    steps: list[Step] = []
    at = created
    for _ in range(random.randint(1, 4)):
        at += random.uniform(2.0, 14.0)
        updating = any(step.kind == UPDATE for step in steps)
        kind = random.choice(
            [UPDATE, UPDATE, RESTART, PAUSE, ABORT] if updating else [UPDATE, UPDATE, RESTART]
        )
        if kind == UPDATE:
            instances = max(instances + random.choice([-1, 0, 0, 1]), 1)
        steps.append(
            Step(
                at,
                kind,
                batch=random.choice([1, 1, 2]),
                instances=instances,
                fails=random.random() < 0.3,
                rolls_back=random.random() < 0.6,
                in_place=random.random() < 0.25,
                instance=random.randrange(instances),
                seconds=random.choice([1.0, 8.0, 40.0]),
            )
        )
    return steps
