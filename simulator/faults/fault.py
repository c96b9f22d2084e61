"""What a seed draws that fails: when which fault strikes.

Half of the seeds spread their faults over the rough time. The others have them in bursts around moments when
something is under way, such as the creation of a job: what two faults do together takes seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

ROUGH_SECONDS = 45.0
"""For so long faults strike."""
ROLES = ("jobmgr", "resmgr", "hostmgr", "placement")
LEADERS = ("jobmgr", "resmgr", "hostmgr")
_POINTS = {
    "jobmgr": (
        "after a cycle is stored",
        "after a job is stored",
        "before Enqueue",
        "before Kill",
        "before Launch",
        "before Settle",
    ),
    "resmgr": (
        "before it answers on_enqueue",
        "before it answers on_placements",
        "before it answers on_preempted",
        "before it answers on_propose",
        "before it answers on_settle",
        "before it answers on_take",
    ),
    "hostmgr": (
        "after it has launched",
        "before it acknowledges statuses",
        "before it answers on_acquire",
        "before it answers on_kill",
        "before it answers on_launch",
        "before it kills",
        "before it launches",
    ),
    "placement": ("before Claim", "before Release", "before Report"),
}
"""Names of points at which processes of a role crash.

At some of them a call has had its effect and its answer is lost, others are just before an effect.
"""


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
    where: str = ""
    """The name of the points that count; empty: all do."""

    def __str__(self) -> str:
        words = [f"{self.at:.1f} s", self.kind, self.target]
        if self.seconds:
            words.append(f"for {self.seconds:.1f} s")
        if self.share:
            words.append(f"share {self.share:.2f}")
        if self.point:
            words.append(f"at point {self.point}")
        if self.where:
            words.append(f"({self.where})")
        return " ".join(filter(None, words))


def draw_faults(random: Random, hosts: int, moments: Sequence[float]) -> list[Fault]:
    """Return faults in no order. `moments` are when something is asked for, in seconds since the start."""
    kinds = random.sample(sorted(_KINDS), random.randint(2, 5))
    if random.random() < 0.5:
        times = [random.uniform(1.0, ROUGH_SECONDS) for _ in range(random.randint(3, 10))]
    else:
        times = _bursts(random, moments)
    return [_KINDS[random.choice(kinds)](random, time, hosts) for time in times]


def _bursts(random: Random, moments: Sequence[float]) -> list[float]:
    """Return times of faults which strike soon after one another, while something is under way."""
    early = [moment for moment in moments if moment < ROUGH_SECONDS] or [1.0]
    times = []
    for _ in range(random.randint(1, 3)):
        at = random.choice(early) + random.choice([0.0, 0.1, 0.5, 2.0])
        within = random.choice([0.3, 2.0, 8.0])
        times += [at + within * random.random() for _ in range(random.randint(2, 4))]
    return [min(max(time, 1.0), ROUGH_SECONDS) for time in times]


def _crash(random: Random, at: float, hosts: int) -> Fault:
    role = random.choice(ROLES)
    seconds = random.uniform(0.5, 8.0)
    if random.random() < 0.5:
        return Fault(at, "crash", role, seconds, point=random.randint(1, 20))
    return Fault(
        at, "crash", role, seconds, point=random.choice([1, 1, 2]), where=random.choice(_POINTS[role])
    )


def _freeze(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "freeze", random.choice(ROLES), random.choice([1.0, 4.0, 8.0, 40.0]))


def _overlap(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "overlap", random.choice(LEADERS), random.uniform(0.5, 10.0))


def _partition(random: Random, at: float, hosts: int) -> Fault:
    pair = random.choice(["jobmgr resmgr", "jobmgr hostmgr", "resmgr hostmgr", "placement resmgr",
                          "placement hostmgr"])  # fmt: skip
    return Fault(at, "partition", pair, random.uniform(1.0, 40.0))


def _one_way(random: Random, at: float, hosts: int) -> Fault:
    """Lose the answers of calls that arrive."""
    pair = random.choice(["resmgr jobmgr", "hostmgr jobmgr", "hostmgr resmgr", "resmgr placement",
                          "hostmgr placement"])  # fmt: skip
    return Fault(at, "one-way", pair, random.uniform(1.0, 25.0))


def _slow(random: Random, at: float, hosts: int) -> Fault:
    return Fault(at, "delay", "", random.uniform(2.0, 30.0), share=random.uniform(0.1, 0.9))


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
    "delay": _slow,
    "freeze": _freeze,
    "loss": _lossy,
    "master": _master,
    "one-way": _one_way,
    "overlap": _overlap,
    "partition": _partition,
    "reboot": _reboot,
    "repetition": _repeated,
    "store": _store,
}
