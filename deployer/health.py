"""What the daemons said last, and since when they are healthy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from deployer.core.values import Instance, Situation
from deployer.probes import Answer
from deployer.record import MIGRATE, Record, Started
from peloton.membership.interface import Role

STALE_SECONDS = 1.0
"""Age of the answer of a daemon that is not watched, after which it is asked again."""

Daemons = Mapping[str, tuple[Started, Role | None]]
"""Daemons by name, each with its role if it may lead."""


class Asking(Protocol):
    """What is needed of `deployer.probes.Prober`."""

    async def ask(self, started: Daemons) -> dict[str, Answer]:
        """Ask daemons, all at once."""

    def is_elected(self, started: Started, role: Role | None) -> bool:
        """Return whether a daemon is elected, as far as known without asking it."""


class HealthWatch:
    """The health of daemons. Each question costs CPU time: only those are asked that may matter."""

    def __init__(self, prober: Asking, now: Callable[[], float]) -> None:
        """Read seconds since 1970 by `now`."""
        self._prober = prober
        self._now = now
        self._asked: dict[str, float] = {}
        self.answers: dict[str, Answer] = {}
        self.healthy_since: dict[str, float] = {}

    async def look(self, daemons: Daemons, watched: float, everyone: bool = False) -> None:
        """Ask daemons that are not healthy, are so for less than `watched` seconds, or whose answer is old.

        `everyone`: ask all, as before one is told to end. Forget the daemons that are not given.
        """
        now = self._now()
        due = {
            name: each
            for name, each in daemons.items()
            if everyone or self._is_due(name, *each, now, watched)
        }
        answers = await self._prober.ask(due) if due else {}
        now = self._now()
        self.answers = {name: answers.get(name) or self.answers[name] for name in daemons}
        self._asked = {name: now if name in answers else self._asked[name] for name in daemons}
        self.healthy_since = {
            name: self.healthy_since.get(name, now) for name, each in self.answers.items() if each.healthy
        }

    def _is_due(self, name: str, started: Started, role: Role | None, now: float, watched: float) -> bool:
        if name not in self.healthy_since or now - self.healthy_since[name] < watched:
            return True
        if self.answers[name].leads != self._prober.is_elected(started, role):
            return True
        return not 0 <= now - self._asked[name] < STALE_SECONDS


def situation(record: Record, answers: dict[str, Answer], healthy_since: dict[str, float]) -> Situation:
    """Return what there is, as the core takes it."""
    return Situation(
        instances_of(record, answers, healthy_since),
        record.failures,
        frozenset(record.schemas),
        record.schema_failure,
        record.reached,
    )


def instances_of(
    record: Record, answers: dict[str, Answer], healthy_since: dict[str, float]
) -> tuple[Instance, ...]:
    """Return the daemons of a record, with what they answered."""
    silent = Answer(False)
    return tuple(
        Instance(
            name, each.group, each.digest, each.host, each.at, each.ending, healthy_since.get(name),
            answers.get(name, silent).leads, answers.get(name, silent).problem,
        )
        for name, each in record.instances.items()
        if each.group != MIGRATE
    )  # fmt: skip
