"""Gangs that wait for hosts which are reserved for them.

A gang stays here until hostmgr has its hosts free; resmgr hears why it waits, and says when it is gone. One
for which no hosts are reserved yet may use hosts that are reserved for others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from enum import Enum

from peloton.errors import IllegalTransition
from placement.core.backfill import Backfill, ReservedHosts, answer_without_reserves
from placement.core.events import (
    CallFailed,
    Event,
    GangsGone,
    HostsClaimed,
    ReservationAnswer,
    ReservationsAnswered,
    Tick,
)
from placement.core.giving_up import Rules
from placement.core.host_estimates import HostEstimates
from placement.core.instructions import (
    Activity,
    CancelReservations,
    Claim,
    FreeSlot,
    Instruction,
    Instructions,
    Release,
    ReportReservations,
    ReservationReport,
    Reserve,
    TakeSlot,
    Wait,
    answer_inside,
)
from placement.core.model import Gang, Host, Shape, Unplaced
from placement.core.reasons import CLAIMED
from placement.core.reservation_reasons import describe
from placement.core.round import Round
from placement.core.strategy import Family

MAX_RESERVING = 200
"""Most gangs of an engine that wait for reserved hosts; further ones are tried again as others are."""


class ReservedRound:
    """Places a gang on the hosts that were reserved for it, and are claimed. It needs a slot already."""

    def __init__(
        self,
        family: Family,
        gang: Gang,
        hosts: Sequence[Host],
        rules: Rules,
        estimates: HostEstimates,
        now: float,
    ) -> None:
        self.gang = gang
        self._round = Round(family, rules, estimates)
        self._round.add([gang], now)
        self._hosts = list(hosts)
        """Those that the round has not claimed."""

    @property
    def ended(self) -> bool:
        """Return whether the gang is placed or given back."""
        return self._round.ended

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event."""
        instructions = answer_inside(self._round, event, now, self._answer)
        return (*instructions, *self._release_rest()) if self.ended else instructions

    def stop(self) -> Instructions:
        """End; return the release of all hosts that are left."""
        return (*self._round.stop(), *self._release_rest())

    def _answer(self, instruction: Instruction) -> Event | Instructions:
        if not isinstance(instruction, Claim):
            return answer_without_reserves(instruction)
        wanted = instruction.needs.host_class
        given = [host for host in self._hosts if host.host_class == wanted]
        self._hosts = [host for host in self._hosts if host.host_class != wanted]
        return HostsClaimed(given)

    def _release_rest(self) -> Instructions:
        rest, self._hosts = tuple(self._hosts), []
        return (Release(rest),) if rest else ()


class _Phase(Enum):
    """What follows next."""

    IDLE = "gangs"
    BEGINNING = "its beginning"
    RESERVING = "how far reservations are"
    WAITING_FOR_SLOT = "a slot"
    PLACING = "gangs to be placed"
    REPORTING = "which gangs are gone"
    PAUSING = "the next question"


class Reserving:
    """Follows the reservations of one engine. Ends where no gang waits, and may be begun again."""

    def __init__(self, rules: Rules, estimates: HostEstimates, hosts: ReservedHosts, interval: float) -> None:
        """`interval`: seconds between two requests for the same reservation."""
        self._rules = rules
        self._estimates = estimates
        self._hosts = hosts
        self._interval = interval
        self._phase = _Phase.IDLE
        self._gangs: dict[str, tuple[Family, Gang]] = {}
        """By the id of the reservation."""
        self._asked: Sequence[str] = ()
        self._reports: list[ReservationReport] = []
        self._work: deque[ReservedRound | Backfill] = deque()
        """What is done one after the other; the first has begun."""

    def __len__(self) -> int:
        return len(self._gangs)

    @property
    def ended(self) -> bool:
        """Return whether it is idle."""
        return self._phase is _Phase.IDLE

    def take(self, family: Family, unplaced: Unplaced) -> bool:
        """Have hosts reserved for a gang; return whether they are. One for a single host waits for that.

        Begin the activity where it has ended.
        """
        wanted = unplaced.gang.wants_reservation and unplaced.shortage is None and not family.to_desired_host
        if not wanted or len(self._gangs) >= MAX_RESERVING:
            return False
        self._gangs[_id(unplaced.gang)] = (family, unplaced.gang)
        if self.ended:
            self._phase = _Phase.BEGINNING
        return True

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event. Raises IllegalTransition for one that is not waited for."""
        match self._phase, event:
            case ((_Phase.BEGINNING | _Phase.PAUSING), Tick()):
                return self._reserve()
            case _Phase.RESERVING, ReservationsAnswered(answers):
                return self._sort(answers, now)
            case _Phase.WAITING_FOR_SLOT, Tick():
                self._phase = _Phase.PLACING
                return self._continue(event, now)
            case _Phase.PLACING, _:
                return self._continue(event, now)
            case _Phase.REPORTING, GangsGone(gangs):
                return (*self._drop(gangs), *self._pause())
            case ((_Phase.RESERVING | _Phase.REPORTING), CallFailed()):
                return self._pause()
            case _:
                waits = f"reserving that waits for {self._phase.value}"
                raise IllegalTransition(f"{waits} takes no {type(event).__name__}")

    def stop(self) -> Instructions:
        """End; return the release of the hosts that are held."""
        released = tuple(each for work in self._work for each in work.stop())
        self._work.clear()
        self._phase = _Phase.IDLE
        return released

    def _reserve(self) -> Instructions:
        """Ask for all hosts again."""
        if not self._gangs:
            self._phase = _Phase.IDLE
            return ()
        self._phase, self._asked = _Phase.RESERVING, tuple(self._gangs)
        gangs = self._gangs.items()
        return (Reserve(tuple((id, Shape(gang.shape, family.spread)) for id, (family, gang) in gangs)),)

    def _sort(self, answers: Sequence[ReservationAnswer], now: float) -> Instructions:
        """Place the gangs that have their hosts, report the others."""
        in_line: dict[Family, list[Unplaced]] = {}
        self._reports = []
        for id, answer in zip(self._asked, answers, strict=True):
            family, gang = self._gangs[id]
            if answer.hosts:
                work = ReservedRound(family, gang, answer.hosts, self._rules, self._estimates, now)
                self._work.append(work)
                continue
            reason = describe(answer.reserved, len(gang.tasks))
            self._reports.append(ReservationReport(gang, reason, answer.reserved.start))
            if not answer.reserved.hosts:
                in_line.setdefault(family, []).append(Unplaced(gang, reason, {CLAIMED: 1}))
        for family, unplaced in in_line.items():
            self._work.append(Backfill(family, unplaced, self._rules, self._estimates, self._hosts))
        if not self._work:
            return self._report()
        self._phase = _Phase.WAITING_FOR_SLOT
        return (TakeSlot(),)

    def _continue(self, event: Event, now: float) -> Instructions:
        """Have the first piece of work take an event, and begin the next where it ends by that."""
        instructions: list[Instruction] = []
        while self._work:
            work = self._work[0]
            instructions += work.handle(event, now)
            if not work.ended:
                return tuple(instructions)
            self._work.popleft()
            instructions += self._settle(work)
            event = Tick()
        return (*instructions, FreeSlot(), *self._report())

    def _settle(self, work: Activity) -> Instructions:
        """Let gangs go that were placed, or given back with the hosts that they had."""
        if isinstance(work, ReservedRound):
            del self._gangs[_id(work.gang)]
            return ()
        assert isinstance(work, Backfill)
        return self._drop(work.placed)

    def _report(self) -> Instructions:
        reports = tuple(report for report in self._reports if _id(report.gang) in self._gangs)
        if not reports:
            return self._pause()
        self._phase = _Phase.REPORTING
        return (ReportReservations(reports),)

    def _drop(self, gangs: Sequence[Gang]) -> Instructions:
        """End the reservations of gangs that do not wait any more."""
        ids = tuple(map(_id, gangs))
        for id in ids:
            self._gangs.pop(id, None)
        return (CancelReservations(ids),) if ids else ()

    def _pause(self) -> Instructions:
        self._phase = _Phase.PAUSING
        return (Wait(self._interval),)


def _id(gang: Gang) -> str:
    """Return the id of a gang's reservation, the same in every engine."""
    return gang.tasks[0].run_id
