"""The costs of launches: the time that a real agent's containerizer and executors take, as a schedule.

A launch waits for one of the places (``at_once``) and for its turn (``starts_per_second``), then takes a time
drawn from ``seconds``. A launch that is not done ``registration_timeout`` seconds after its request has
failed, wherever it was, as with Mesos' ``--executor_registration_timeout``. Used by real agents and by
simulated ones. Pure: time is passed in.
"""

from __future__ import annotations

import argparse
import math
import random
import re
from dataclasses import dataclass
from itertools import islice

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common.status_updates import Key

REGISTRATION_TIMEOUT_SECONDS = 60.0
_RANGE = re.compile(r"(\d+(?:\.\d+)?)(?:-(\d+(?:\.\d+)?))?")
_PATTERN = "MIN-MAX in seconds, such as 0.3-3"


@dataclass(frozen=True, slots=True)
class LaunchCosts:
    """What launches cost an agent. Of ``starts_per_second`` and ``at_once``, 0 means no limit."""

    seconds: tuple[float, float] = (0.0, 0.0)
    starts_per_second: float = 0.0
    at_once: int = 0
    registration_timeout: float = REGISTRATION_TIMEOUT_SECONDS
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.starts_per_second >= 0 or self.at_once < 0:
            raise ValueError("a limit of launches is 0, for none, or above")
        if not self.registration_timeout > 0:
            raise ValueError(f"a registration time-out of {self.registration_timeout:g} s is not above 0")

    @property
    def none(self) -> bool:
        """Whether every launch is done at once."""
        return self.seconds[1] == 0 and not self.starts_per_second and not self.at_once


NO_COSTS = LaunchCosts()


def parse_seconds(text: str) -> tuple[float, float]:
    """Return the bounds that ``MIN-MAX`` gives; a single number is both. Raise ValueError."""
    match = _RANGE.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} should be {_PATTERN}")
    low = float(match[1])
    high = float(match[2]) if match[2] else low
    if low > high:
        raise ValueError(f"{text!r} should be {_PATTERN}: the first is not above the second")
    return low, high


def add_flags(parser: argparse.ArgumentParser, prefix: str = "") -> None:
    """Add the flags that ``costs_of`` reads."""
    add = parser.add_argument
    add(f"--{prefix}launch-seconds", default="0", metavar="MIN-MAX", help="how long a launch takes")
    add(f"--{prefix}launch-seed", type=int, default=0, help="seed of what is drawn from it")
    add(f"--{prefix}concurrent-launches", type=int, default=0, help="how many at a time; 0: no limit")
    add(
        f"--{prefix}executor-starts-per-second",
        type=float,
        default=0.0,
        help="how many executors an agent can start; 0: no limit",
    )
    add(
        f"--{prefix}executor-registration-timeout",
        type=float,
        default=REGISTRATION_TIMEOUT_SECONDS,
        help="seconds; a launch that takes longer has failed",
    )


def costs_of(options: argparse.Namespace, prefix: str = "") -> LaunchCosts:
    """Return the costs that the flags set. Raise ValueError."""
    found = {name.removeprefix(prefix.replace("-", "_")): value for name, value in vars(options).items()}
    return LaunchCosts(
        seconds=parse_seconds(found["launch_seconds"]),
        starts_per_second=found["executor_starts_per_second"],
        at_once=found["concurrent_launches"],
        registration_timeout=found["executor_registration_timeout"],
        seed=found["launch_seed"],
    )


def too_late(timeout: float) -> tuple[int, int, str]:
    """Return state, reason and text of a run whose executor did not register in time."""
    reason = mesos.TaskStatus.REASON_EXECUTOR_REGISTRATION_TIMEOUT
    return mesos.TASK_FAILED, reason, f"Executor did not register within {_duration(timeout)}"


def _duration(seconds: float) -> str:
    """Write a time as Mesos does: in the largest unit that divides it."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    minutes = seconds / 60
    return f"{minutes:g}mins" if minutes == int(minutes) else f"{seconds:g}secs"


@dataclass(frozen=True, slots=True)
class _Launch:
    requested: float
    deadline: float


class LaunchQueue:
    """The launches of one agent, in the order of their requests."""

    def __init__(self, costs: LaunchCosts) -> None:
        self.costs = costs
        self._random = random.Random(costs.seed)
        self._undone: dict[Key, _Launch] = {}
        self._waiting: dict[Key, _Launch] = {}
        self._launching: dict[Key, float] = {}
        self._done: dict[Key, float] = {}
        self._next_start = -math.inf

    def add(self, key: Key, now: float) -> None:
        """Add a launch."""
        launch = _Launch(now, now + self.costs.registration_timeout)
        self._undone[key] = self._waiting[key] = launch

    def drop(self, key: Key) -> None:
        """Forget a launch: its executor has registered, or is not wanted any more."""
        self._forget(key)
        self._done.pop(key, None)

    def holds_back(self, key: Key) -> bool:
        """Return whether a launch is still to be done."""
        return key in self._undone

    def due(self, now: float) -> tuple[list[Key], list[Key]]:
        """Return the launches that are done by now, and those whose executor did not register in time.

        A launch that is done and not dropped may fail in a later call: fetching is to end in time, too.
        """
        done: list[Key] = []
        late = [key for key, deadline in self._done.items() if deadline <= now]
        for key in late:
            del self._done[key]
        while (when := self._next_step()) is not None and when <= now:
            while self._undone and (first := next(iter(self._undone.items())))[1].deadline <= when:
                self._forget(first[0])
                late.append(first[0])
            for key in [key for key, end in self._launching.items() if end <= when]:
                self._done[key] = self._forget(key)
                done.append(key)
            self._start(when)
        return done, late

    def next_due(self) -> float | None:
        """Return when ``due`` should be called next."""
        step = self._next_step()
        return min(self._done.values() if step is None else (step, *self._done.values()), default=None)

    def _forget(self, key: Key) -> float:
        launch = self._undone.pop(key, None)
        self._waiting.pop(key, None)
        self._launching.pop(key, None)
        return launch.deadline if launch is not None else math.inf

    def _next_step(self) -> float | None:
        times = [launch.deadline for launch in islice(self._undone.values(), 1)]
        times += self._launching.values()
        if self._has_place():
            times += [max(launch.requested, self._next_start) for launch in islice(self._waiting.values(), 1)]
        return min(times, default=None)

    def _has_place(self) -> bool:
        return not self.costs.at_once or len(self._launching) < self.costs.at_once

    def _start(self, now: float) -> None:
        while self._waiting and self._has_place() and self._next_start <= now:
            key, launch = next(iter(self._waiting.items()))
            if launch.requested > now:
                return
            del self._waiting[key]
            self._launching[key] = now + self._random.uniform(*self.costs.seconds)
            if self.costs.starts_per_second:
                self._next_start = now + 1 / self.costs.starts_per_second
