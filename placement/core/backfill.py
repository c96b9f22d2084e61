"""Place gangs on hosts that are reserved until later, where their tasks end before those are needed.

hostmgr decides that. A round of its own is made for the gangs of each job; it claims reserved hosts in place
of others, and keeps the gangs that find no place there in place of giving them back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from placement.core.events import (
    CallFailed,
    Event,
    GivenBack,
    HostsClaimed,
    ReservedClaimed,
    ReservedTried,
    ShortagesKnown,
    Tick,
)
from placement.core.giving_up import Rules
from placement.core.host_estimates import HostEstimates
from placement.core.instructions import (
    Claim,
    ClaimReserved,
    Compare,
    FreeSlot,
    GiveBack,
    Instruction,
    Instructions,
    Report,
    TakeSlot,
    TryReserved,
    answer_inside,
)
from placement.core.model import Gang, Unplaced
from placement.core.reasons import CLAIMED
from placement.core.round import Round
from placement.core.strategy import Family

MAX_BACKFILLS = 20
"""Most jobs for which reserved hosts are tried after one pass."""


@dataclass(slots=True)
class ReservedHosts:
    """What all backfills of an engine know of reserved hosts."""

    interval: float
    """Seconds until hosts are tried again after none was open."""
    closed_until: float = 0.0


class Backfill:
    """Tries reserved hosts for gangs of one family. It needs a slot already."""

    def __init__(
        self,
        family: Family,
        unplaced: Sequence[Unplaced],
        rules: Rules,
        estimates: HostEstimates,
        hosts: ReservedHosts,
    ) -> None:
        self._family = family
        self._unplaced = unplaced
        self._rules = rules
        self._estimates = estimates
        self._hosts = hosts
        self._jobs = _by_job(unplaced)
        self._round: Round | None = None
        self._gangs: Sequence[Gang] = ()
        """Those of the round."""
        self._without: set[Gang] = set()
        """Gangs of the round that found no place."""
        self._placed: dict[Gang, None] = {}
        self._claiming = False
        self._ended = False

    @property
    def ended(self) -> bool:
        """Return whether every job was tried."""
        return self._ended

    @property
    def placed(self) -> tuple[Gang, ...]:
        """Return the gangs that were placed."""
        return tuple(self._placed)

    @property
    def left(self) -> tuple[Unplaced, ...]:
        """Return the gangs that were not placed."""
        return tuple(each for each in self._unplaced if each.gang not in self._placed)

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event."""
        if self._round is None:
            return self._next_job(now)
        if self._claiming and isinstance(event, CallFailed):
            return self.stop()
        self._claiming = False
        if isinstance(event, ReservedClaimed):
            if not event.is_open:
                self._hosts.closed_until = now + self._hosts.interval
            event = HostsClaimed(event.hosts)
        return self._step(self._round, event, now)

    def stop(self) -> Instructions:
        """End; return the release of the hosts that are held."""
        self._ended = True
        if self._round is None:
            return ()
        self._without.update(self._round.waiting)
        released = self._round.stop()
        self._note_placed()
        return released

    def _next_job(self, now: float) -> Instructions:
        if not self._jobs or now < self._hosts.closed_until:
            self._ended = True
            return ()
        self._gangs, self._without = self._jobs.popleft(), set()
        self._round = Round(self._family, self._rules, self._estimates)
        self._round.add(self._gangs, now)
        return self._step(self._round, Tick(), now)

    def _step(self, round: Round, event: Event, now: float) -> Instructions:
        instructions = answer_inside(round, event, now, self._answer)
        if not round.ended:
            return instructions
        self._note_placed()
        return (*instructions, *self._next_job(now))

    def _note_placed(self) -> None:
        self._placed.update((gang, None) for gang in self._gangs if gang not in self._without)
        self._round = None

    def _answer(self, instruction: Instruction) -> Event | Instructions:
        """Interpret what the round of a job wants."""
        match instruction:
            case Claim(needs, most, fullest=fullest):
                self._claiming = True
                return (ClaimReserved(self._gangs[0].tasks[0].run_id, needs, most, fullest),)
            case Report(placements):
                return (Report(placements, backfill=True),)
            case GiveBack(unplaced):
                self._without.update(each.gang for each in unplaced)
                return GivenBack()
            case _:
                return answer_without_reserves(instruction)


def answer_without_reserves(instruction: Instruction) -> Event | Instructions:
    """Interpret what a round wants inside an activity that has a slot, and reserved hosts for it."""
    match instruction:
        case TakeSlot():
            return Tick()
        case FreeSlot():
            return ()
        case Compare(shapes):
            return ShortagesKnown((None,) * len(shapes))
        case TryReserved(unplaced=unplaced):
            return ReservedTried(unplaced)
        case _:
            return (instruction,)


def _by_job(unplaced: Sequence[Unplaced]) -> deque[list[Gang]]:
    """Return the gangs that wait for hosts which are claimed or reserved, of MAX_BACKFILLS jobs at most."""
    jobs: dict[str, list[Gang]] = {}
    for each in unplaced:
        if each.shortage is None and each.counts.get(CLAIMED) and not each.gang.desired_host:
            jobs.setdefault(each.gang.job_id, []).append(each.gang)
    return deque(list(jobs.values())[:MAX_BACKFILLS])
