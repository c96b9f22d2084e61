"""What a seed draws that is asked of services, hosts and pools while faults strike.

An ask is one service with all that is asked of it, a host that is drained for a while, or an exchange of the
pools' reservations. Asks are drawn apart from the rest: a seed without them has the same jobs and faults.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from simulator.faults.fault import ROUGH_SECONDS
from simulator.jobs import SimJob

SERVICE, DRAIN, EXCHANGE = "service", "drain", "exchange"
UPDATE, PAUSE, ABORT, RESTART = "update", "pause", "abort", "restart"
FIRST_NUMBER = 1000
"""Jobs of asks have numbers from here on, behind those of the plan."""
STOP_SECONDS = 420.0
"""When services are stopped: all that was asked of them has ended."""


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
class Ask:
    """One of the three. Times are seconds since the start."""

    at: float
    kind: str
    job: SimJob | None = None
    steps: tuple[Step, ...] = ()
    host: int = 0
    seconds: float = 0.0
    """How long a host is drained, or reservations are exchanged."""

    def __str__(self) -> str:
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
    return tuple(sorted(asks, key=lambda ask: ask.at))


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
