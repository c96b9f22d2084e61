"""The gangs that were preempted: the last ones in memory, those of weeks in the store."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NoReturn

from peloton.clock import NANOSECONDS, Clock
from peloton.errors import PelotonError
from peloton.model.ids import JobId
from resmgr.core.preemption.policy import Victim
from storage.histories.events import LATEST, Event, EventLog, number_of, numbers_of, text_of, time_of
from storage.interface import History

RECENT = 1000
"""Gangs in memory."""
MOST_INSTANCES = 100
"""Instances of a gang that are named."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Preempted:
    """A gang that was preempted."""

    at: float
    """Seconds since 1970."""
    pool: str
    """Its path."""
    benefits: str
    """Path of the pool that gets what it freed; empty where no pool waited for it."""
    policy: str
    reason: str
    job_id: JobId
    instances: tuple[int, ...]
    """The first 100."""
    size: int


Wanted = Callable[[Preempted], bool]


class PreemptionLog:
    """What one leader notes, and what earlier ones have stored."""

    def __init__(self) -> None:
        self._recent: deque[Preempted] = deque(maxlen=RECENT)
        self.stored: EventLog | None = None

    def keep(self, blocks: History, clock: Clock) -> None:
        """Store from now on what is noted, and read what was stored."""
        self.stored = EventLog(blocks, "preemptions", clock)

    async def run(self) -> NoReturn:
        """Take over what earlier leaders have stored last, and store for ever what is noted."""
        assert self.stored is not None, "there is no store"
        await self._restore(self.stored)
        await self.stored.run()

    def note(self, victims: Iterable[Victim], now: int) -> None:
        """Note gangs that are preempted now, in nanoseconds since 1970."""
        for victim in victims:
            runs = victim.runs
            instances = tuple(run.instance for run in runs[:MOST_INSTANCES])
            gang = Preempted(
                now / NANOSECONDS, victim.pool, victim.benefits, victim.policy, victim.reason,
                runs[0].job_id, instances, len(runs),
            )  # fmt: skip
            self._recent.append(gang)
            if self.stored is not None:
                self.stored.add(_event(gang))

    async def last(self, wanted: Wanted, limit: int, before: float = 0.0) -> list[Preempted]:
        """Return the gangs that were preempted last, the newest first. Raises PelotonError.

        With `before`, a time in seconds since 1970, those before it, of the last weeks.
        """
        recent = list(self._recent)
        found = (each for each in reversed(recent) if wanted(each) and (not before or each.at < before))
        told = list(islice(found, limit))
        if not before or len(told) == limit or len(recent) < RECENT or self.stored is None:
            return told
        earlier = min(before, recent[0].at)
        events = await self.stored.read(earlier, limit - len(told), lambda each: wanted(_gang(each)))
        return [*told, *map(_gang, events)]

    async def _restore(self, stored: EventLog) -> None:
        try:
            events = await stored.read(self._recent[0].at if self._recent else LATEST, RECENT)
        except PelotonError as error:
            log.warning("what was preempted before this term is not known: %s", error)
            return
        room = RECENT - len(self._recent)
        self._recent.extendleft(map(_gang, events[:room]))


def _event(gang: Preempted) -> Event:
    return {
        "at": gang.at,
        "pool": gang.pool,
        "benefits": gang.benefits,
        "policy": gang.policy,
        "reason": gang.reason,
        "job": gang.job_id,
        "instances": gang.instances,
        "size": gang.size,
    }


def _gang(event: Event) -> Preempted:
    return Preempted(
        time_of(event),
        text_of(event, "pool"),
        text_of(event, "benefits"),
        text_of(event, "policy"),
        text_of(event, "reason"),
        JobId(text_of(event, "job")),
        tuple(numbers_of(event, "instances")),
        round(number_of(event, "size")),
    )
