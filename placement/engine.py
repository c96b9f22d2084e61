"""The interpreter of a placement engine: carries out what its activities want."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence

from peloton.backoff import Backoff, shortened
from peloton.clock import Clock
from peloton.errors import PelotonError
from placement.core.events import (
    CallFailed,
    Event,
    GangsGone,
    GangsTaken,
    GivenBack,
    HostsClaimed,
    LabelsKnown,
    Reported,
    ReservationsAnswered,
    ReservedClaimed,
    ShortagesKnown,
    Tick,
)
from placement.core.instructions import (
    Activity,
    AskLabels,
    AwaitRoom,
    Begin,
    CancelReservations,
    Claim,
    ClaimReserved,
    Compare,
    FreeSlot,
    GiveBack,
    GiveBackLater,
    Instruction,
    LeaveDesiredHost,
    Release,
    Report,
    ReportReservations,
    Reserve,
    ShowLife,
    Take,
    TakeSlot,
    Wait,
)
from placement.core.model import Host
from placement.core.rounds import Rounds
from placement.metrics import BACKFILLED, CLAIMED, FAILED, PLACED, REJECTED, RESERVED, UNUSED, WAITING
from placement.ports import Hostmgr, Resmgr

RELEASE_SECONDS = 3.0
"""Longest time to release hosts."""
CLAIM_SECONDS = 300.0
"""After so long a claim ends by itself: hosts are not released again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds before a release that failed is tried again."""
log = logging.getLogger(__name__)
_FAILED: dict[type[Instruction], str] = {
    Take: "no gangs can be taken",
    AskLabels: "the tasks on hosts are not known",
    Report: "placements cannot be reported",
    GiveBack: "gangs cannot be given back yet",
    Claim: "hosts cannot be claimed",
    ClaimReserved: "reserved hosts cannot be used",
    Compare: "gangs cannot be compared with empty hosts",
    Reserve: "hosts cannot be reserved",
    ReportReservations: "reservations cannot be reported",
    CancelReservations: "reservations cannot be cancelled",
}
_POLLS = (Take, Reserve, ReportReservations, CancelReservations)
"""Instructions that come again and again: a failure is logged unless the last try failed in the same way."""


class Engine:
    """Runs the activities of one engine, each as a task of its own."""

    def __init__(
        self,
        rounds: Rounds,
        resmgr: Resmgr,
        hostmgr: Hostmgr,
        clock: Clock,
        slots: asyncio.Semaphore,
        dequeue_wait: float = 5.0,
    ) -> None:
        """Ask up to `dequeue_wait` seconds for gangs. `slots` bounds the families placed at a time."""
        self.rounds = rounds
        self._resmgr = resmgr
        self._hostmgr = hostmgr
        self._clock = clock
        self._slots = slots
        self._dequeue_wait = dequeue_wait
        self._progress = asyncio.Event()
        self._group = asyncio.TaskGroup()
        self._last_failures: dict[type[Instruction], str] = {}
        self._gauge = WAITING.labels(rounds.rules.strategy.type.name.lower())

    async def run(self) -> None:
        """Run until cancelled. Resmgr and hostmgr may come and go."""
        async with self._group:
            for activity in self.rounds.activities():
                self._begin(activity)

    def _begin(self, activity: Activity) -> None:
        self._group.create_task(self._drive(activity))

    async def _drive(self, activity: Activity) -> None:
        """Carry out what an activity wants until it ends. When cancelled, release what it holds."""
        left = deque(activity.handle(Tick(), self._clock.monotonic()))
        try:
            while left:
                event = await self._carry_out(left.popleft())
                if event is not None:
                    left.extend(activity.handle(event, self._clock.monotonic()))
        finally:
            self._note_progress()
            for instruction in (*left, *activity.stop()) if left or not activity.ended else ():
                if isinstance(instruction, Release):
                    await self._release(instruction.hosts)

    def _note_progress(self) -> None:
        """Note that there may be fewer gangs that wait."""
        self._progress.set()
        self._gauge.set(self.rounds.waiting)

    async def _carry_out(self, instruction: Instruction) -> Event | None:
        """Carry out an instruction; return its answer, if it has one."""
        try:
            event = await self._of_resmgr(instruction)
        except PelotonError as error:
            return self._failed(instruction, str(error))
        self._last_failures.pop(type(instruction), None)
        return event

    async def _of_resmgr(self, instruction: Instruction) -> Event | None:
        resmgr = self._resmgr
        match instruction:
            case Take(limit):
                self._gauge.set(self.rounds.waiting)
                return GangsTaken(await resmgr.take(limit, self._dequeue_wait))
            case AskLabels(hostnames):
                return LabelsKnown(await resmgr.labels_on(hostnames))
            case Report():
                return await self._report(instruction)
            case GiveBack(unplaced):
                FAILED.inc(len(unplaced))
                await resmgr.give_back(unplaced)
                return GivenBack()
            case ShowLife(unplaced):
                await (resmgr.give_back(unplaced) if unplaced else resmgr.show_life())
                return Tick()
            case ReportReservations(reports):
                return GangsGone(await resmgr.report_reservations(reports))
            case _:
                return await self._of_hostmgr(instruction)

    async def _of_hostmgr(self, instruction: Instruction) -> Event | None:
        hostmgr = self._hostmgr
        match instruction:
            case Claim():
                return await self._claimed(hostmgr.claim(instruction))
            case ClaimReserved():
                return await self._claimed(hostmgr.claim_reserved(instruction))
            case Release(hosts):
                if not await self._release(hosts):
                    self._group.create_task(self._release_again(hosts))
                return None
            case Compare(shapes):
                return ShortagesKnown(await hostmgr.compare(shapes))
            case Reserve():
                return await self._reserve(instruction)
            case CancelReservations(ids):
                await hostmgr.cancel_reservations(ids)
                return None
            case _:
                return await self._of_engine(instruction)

    async def _of_engine(self, instruction: Instruction) -> Event | None:
        match instruction:
            case GiveBackLater(unplaced):
                self.rounds.undelivered.extend(unplaced)
            case LeaveDesiredHost(gangs):
                for begin in self.rounds.place(gangs, self._clock.monotonic()):
                    await self._of_engine(begin)
            case Begin(activity):
                self._begin(activity)
            case FreeSlot():
                self._slots.release()
                self._note_progress()
            case TakeSlot():
                await self._slots.acquire()
                return Tick()
            case AwaitRoom():
                await self._await_room()
                return Tick()
            case Wait(seconds, jitter):
                self._note_progress()
                await asyncio.sleep(shortened(seconds, jitter))
                return Tick()
            case _:
                raise AssertionError(f"an engine has no use for {instruction}")
        return None

    def _failed(self, instruction: Instruction, error: str) -> Event | None:
        """Log a failure; return the answer to the instruction."""
        kind = type(instruction)
        if kind in _FAILED and (kind not in _POLLS or error != self._last_failures.get(kind)):
            log.warning("%s: %s", _FAILED[kind], error)
        self._last_failures[kind] = error
        match instruction:
            case GiveBack(unplaced):
                self.rounds.undelivered.extend(unplaced)
                return GivenBack()
            case CancelReservations():
                return None
            case _:
                return CallFailed(error)

    async def _await_room(self) -> None:
        while self.rounds.room <= 0:
            self._progress.clear()
            await self._progress.wait()

    async def _claimed(
        self, call: Coroutine[object, object, HostsClaimed] | Coroutine[object, object, ReservedClaimed]
    ) -> HostsClaimed | ReservedClaimed:
        """Wait for hosts. When cancelled, wait for the answer so that its hosts can be released."""
        claim: asyncio.Task[HostsClaimed | ReservedClaimed] = asyncio.ensure_future(call)
        try:
            claimed = await asyncio.shield(claim)
        except asyncio.CancelledError:
            await asyncio.wait({claim}, timeout=RELEASE_SECONDS)
            if claim.done() and not claim.cancelled() and claim.exception() is None:
                await self._release(claim.result().hosts)
            raise
        CLAIMED.inc(len(claimed.hosts))
        return claimed

    async def _reserve(self, instruction: Reserve) -> ReservationsAnswered:
        answers = await self._hostmgr.reserve(instruction.wishes)
        for (_, shape), answer in zip(instruction.wishes, answers, strict=True):
            if answer.hosts:
                CLAIMED.inc(len(answer.hosts))
                RESERVED.inc(sum(count for _, count in shape.members))
        return ReservationsAnswered(answers)

    async def _report(self, instruction: Report) -> Reported:
        rejections = await self._resmgr.report(instruction.placements)
        for each in rejections:
            log.info("placement of %s was rejected: %s", each.run_id, each.message)
        placed = sum(len(placement.tasks) for placement in instruction.placements)
        REJECTED.inc(len(rejections))
        PLACED.inc(placed - len(rejections))
        if instruction.backfill:
            BACKFILLED.inc(placed)
        return Reported(rejections)

    async def _release(self, hosts: Iterable[Host]) -> bool:
        """Release hosts; return whether hostmgr has answered. Else they are free when their claims end."""
        released = tuple(hosts)
        if not released:
            return True
        UNUSED.inc(len(released))
        return await self._try_release(released)

    async def _try_release(self, hosts: Sequence[Host]) -> bool:
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._hostmgr.release(hosts)
        except (PelotonError, TimeoutError) as error:
            log.warning("%d claims cannot be released: %s", len(hosts), error or "out of time")
            return False
        return True

    async def _release_again(self, hosts: Iterable[Host]) -> None:
        """Release hosts until hostmgr answers, or their claims have ended. What was released stays so."""
        released, pauses = tuple(hosts), Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        end = self._clock.monotonic() + CLAIM_SECONDS
        while self._clock.monotonic() < end:
            await pauses.wait()
            if await self._try_release(released):
                return
