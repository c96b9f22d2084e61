"""All that a placement engine does: gangs are taken, each family has a round, resmgr gets signs of life.

It keeps nothing that outlives it: gangs are leased and hosts claimed, both for a bounded time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable

from peloton.model.backoff import exponential
from placement.core.backfill import Backfill, ReservedHosts
from placement.core.events import CallFailed, Event, GangsTaken, ReservedTried, Tick
from placement.core.giving_up import Rules
from placement.core.host_estimates import HostEstimates
from placement.core.instructions import (
    Activity,
    AwaitRoom,
    Begin,
    Instruction,
    Instructions,
    ShowLife,
    Take,
    TryReserved,
    Wait,
)
from placement.core.model import Gang, Unplaced
from placement.core.reserving import Reserving
from placement.core.round import Round
from placement.core.strategy import Family, families

KEEP_ALIVE_SECONDS = 10.0
"""Time between signs of life to resmgr while gangs are leased; after 30 s without one, leases end."""
RESERVING_SECONDS = 1.0
PAUSE = 0.1, 5.0
"""The first and the longest pause after gangs could not be taken, in seconds."""
JITTER = 0.5
MAX_UNDELIVERED = 100_000


class Rounds:
    """The gangs of one engine, and what they wait for."""

    def __init__(
        self,
        rules: Rules,
        dequeue_limit: int = 1000,
        max_waiting: int = 4000,
        keep_alive: float = KEEP_ALIVE_SECONDS,
        reserving_interval: float = RESERVING_SECONDS,
    ) -> None:
        """Take up to `dequeue_limit` gangs at once, and none while `max_waiting` wait."""
        self.rules = rules
        self.estimates = HostEstimates()
        self.reserved_hosts = ReservedHosts(reserving_interval)
        self.reserving = Reserving(rules, self.estimates, self.reserved_hosts, reserving_interval)
        self.undelivered: deque[Unplaced] = deque(maxlen=MAX_UNDELIVERED)
        """Gangs of which resmgr could not be told yet that they are given back. Their leases last while this
        engine shows signs of life."""
        self._limit = dequeue_limit
        self._max_waiting = max_waiting
        self._keep_alive = keep_alive
        self._of_families: dict[Hashable, FamilyRound] = {}

    @property
    def waiting(self) -> int:
        """Return the number of gangs that were taken and are neither placed nor given back."""
        return sum(map(len, self._of_families.values())) + len(self.reserving)

    @property
    def room(self) -> int:
        """Return how many gangs may be taken now; not positive: none."""
        return min(self._limit, self._max_waiting - self.waiting)

    def activities(self) -> tuple[Activity, ...]:
        """Return what an engine begins with."""
        return Intake(self), SignsOfLife(self, self._keep_alive)

    def place(self, gangs: Iterable[Gang], now: float) -> Instructions:
        """Add gangs to the rounds of their families; return the beginnings of new rounds."""
        begun: list[Begin] = []
        for family, members in families(self.rules.strategy, gangs):
            running = self._of_families.get(family.key)
            if running is None:
                running = self._of_families[family.key] = FamilyRound(family, self)
                begun.append(Begin(running))
            running.add(members, now)
        return tuple(begun)

    def remove(self, family: Family) -> None:
        """Remove a round that has ended."""
        del self._of_families[family.key]


class Intake:
    """Takes gangs while there is room, without end."""

    ended = False

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._failures = 0

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event."""
        match event:
            case GangsTaken(gangs):
                self._failures = 0
                return (*self._rounds.place(gangs, now), self._take())
            case CallFailed():
                self._failures += 1
                return (Wait(exponential(self._failures, *PAUSE), JITTER),)
            case _:
                return (self._take(),)

    def _take(self) -> Instruction:
        room = self._rounds.room
        return Take(room) if room > 0 else AwaitRoom()

    def stop(self) -> Instructions:
        """End: it holds nothing."""
        return ()


class SignsOfLife:
    """Shows resmgr that the engine works while no gangs are taken or reported, which may be minutes.

    Gangs that could not be given back before go with them.
    """

    ended = False

    def __init__(self, rounds: Rounds, interval: float) -> None:
        self._rounds = rounds
        self._interval = interval
        self._sent: tuple[Unplaced, ...] | None = None
        """None: it pauses."""
        self._begun = False

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event."""
        undelivered = self._rounds.undelivered
        if isinstance(event, CallFailed) and self._sent is not None:
            undelivered.extendleft(reversed(self._sent))
        due = self._begun and self._sent is None and (self._rounds.waiting or undelivered)
        self._begun, self._sent = True, None
        if not due:
            return (Wait(self._interval),)
        self._sent = tuple(undelivered)
        undelivered.clear()
        return (ShowLife(self._sent),)

    def stop(self) -> Instructions:
        """End: it holds nothing."""
        return ()


class FamilyRound:
    """The round of a family in an engine, where reserved hosts are the last resort."""

    def __init__(self, family: Family, rounds: Rounds) -> None:
        self._family = family
        self._rounds = rounds
        self._round = Round(family, rounds.rules, rounds.estimates)
        self._backfill: Backfill | None = None

    def __len__(self) -> int:
        return len(self._round)

    @property
    def ended(self) -> bool:
        """Return whether every gang is placed or given back."""
        return self._round.ended

    @property
    def waiting(self) -> tuple[Gang, ...]:
        """Return the gangs that are neither placed nor given back, in the order of their arrival."""
        return self._round.waiting

    def add(self, gangs: Iterable[Gang], now: float) -> None:
        """Add gangs of the family."""
        self._round.add(gangs, now)

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event."""
        backfill = self._backfill
        if backfill is None:
            return self._step(event, now)
        instructions = backfill.handle(event, now)
        return (*instructions, *self._end_backfill(backfill, now)) if backfill.ended else instructions

    def stop(self) -> Instructions:
        """End; return the release of the hosts that are held."""
        inside = self._backfill.stop() if self._backfill is not None else ()
        return (*inside, *self._round.stop())

    def _step(self, event: Event, now: float) -> Instructions:
        """Have the round handle an event; begin a backfill where it wants reserved hosts tried."""
        instructions = self._round.handle(event, now)
        if self.ended:
            self._rounds.remove(self._family)
        if not instructions or not isinstance(wanted := instructions[-1], TryReserved):
            return instructions
        rounds = self._rounds
        self._backfill = backfill = Backfill(
            self._family, wanted.unplaced, rounds.rules, rounds.estimates, rounds.reserved_hosts
        )
        instructions = (*instructions[:-1], *backfill.handle(Tick(), now))
        return (*instructions, *self._end_backfill(backfill, now)) if backfill.ended else instructions

    def _end_backfill(self, backfill: Backfill, now: float) -> Instructions:
        """Have hosts reserved for gangs that want it; the others go back."""
        self._backfill, reserving = None, self._rounds.reserving
        idle = reserving.ended
        left = [each for each in backfill.left if not reserving.take(self._family, each)]
        begin = (Begin(reserving),) if idle and not reserving.ended else ()
        return (*begin, *self._step(ReservedTried(left), now))
