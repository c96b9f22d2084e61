"""A placement engine in the simulated world: interprets the activities of `placement.core.rounds`."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from peloton.errors import PelotonError
from peloton.model.hostcounts import refusals
from peloton.model.ids import mesos_task_id
from peloton.model.states import TaskType
from placement.core import batch, events, service
from placement.core import instructions as todo
from placement.core.giving_up import Rules
from placement.core.model import Gang, Host, HostClass, Shape, Unplaced
from placement.core.reservation_reasons import Reserved
from placement.core.reserving import Reserving
from placement.core.rounds import RESERVING_SECONDS, Rounds, SignsOfLife
from placement.core.strategy import Strategy
from resmgr.core.state.placements import PlacementFailure, ReservedGang
from simulator.daemons.hostmgr_answers import Found, FreeHost
from simulator.daemons.hostmgr_answers import Reserved as Progress
from simulator.daemons.hostmgr_reservations import PLAN_SECONDS
from simulator.daemons.translate import gang_shape, host_filter, host_of, proposal_of, runs_of
from simulator.world.kernel import Life, Timer
from simulator.world.network import Caller
from simulator.world.universe import Universe

ROLE = "placement"
FAMILIES_AT_ONCE = 16
DEQUEUE_WAIT = 5.0
RESERVING_PATIENCE = 300.0
"""Longest pause between two questions for the same reservations where nothing fails, in seconds."""
_MOMENT = 1e-6


def strategy_of(kind: TaskType) -> Strategy:
    """Return how tasks of a type are placed."""
    if kind is TaskType.BATCH:
        return batch.Batch()
    return service.Service(kind, service.LONGEST)


@dataclass(slots=True, eq=False)
class _Driven:
    """An activity, and what is left of its instructions."""

    activity: todo.Activity
    left: deque[todo.Instruction] = field(default_factory=deque)
    parked: bool = False
    """Whether its pause lasts until there is something to do."""


@dataclass(slots=True, eq=False)
class _Reserving:
    """A pause between two questions for reservations. It ends early where the answers may be others."""

    driven: _Driven
    since: float
    interval: float
    gangs: int
    timer: Timer
    due: bool = False
    """Whether its end is set."""


class Placement:
    """One engine."""

    def __init__(self, universe: Universe, life: Life, kind: TaskType, rules: Rules | None = None) -> None:
        self.life = life
        self.kind = kind
        self._kernel = universe.kernel
        self._network = universe.network
        self._universe = universe
        self._caller = Caller(life, 0)
        interval = PLAN_SECONDS if universe.quiet else RESERVING_SECONDS
        self.rounds = Rounds(rules or Rules(strategy_of(kind)), reserving_interval=interval)
        self._slots = FAMILIES_AT_ONCE
        self._for_slot: deque[_Driven] = deque()
        self._for_room: list[_Driven] = []
        self._parked: list[tuple[_Driven, float]] = []
        self._started = False
        self._calls = self._received = 0
        """Numbers of the last call for gangs, and of the last one that has brought some."""
        self._reserving: _Reserving | None = None
        """The pause between two questions for reservations, where nothing fails."""

    def start(self) -> None:
        """Begin to work."""
        if self._universe.quiet:
            self._universe.on_room.append(self._look_again)
        for activity in self.rounds.activities():
            self._begin(activity)
        self._started = True

    def _begin(self, activity: todo.Activity) -> None:
        driven = _Driven(activity)
        if self._universe.quiet and self._started:
            self._handle(driven, events.Tick())
            return
        self._kernel.after(0.0, self.life, self._handle, driven, events.Tick())

    def _handle(self, driven: _Driven, event: events.Event) -> None:
        driven.left.extend(driven.activity.handle(event, self._kernel.now))
        self._go_on(driven)

    def _go_on(self, driven: _Driven) -> None:
        """Carry out instructions up to one whose answer is waited for."""
        left = driven.left
        while left:
            instruction = left.popleft()
            self._kernel.point(self.life, f"before {type(instruction).__name__}")
            if self._carry_out(driven, instruction):
                break
        self._note_progress()

    def _note_progress(self) -> None:
        rounds = self.rounds
        if self._for_room and rounds.room > 0:
            waiting, self._for_room = self._for_room, []
            for each in waiting:
                self._kernel.after(0.0, self.life, self._handle, each, events.Tick())
        if self._reserving is not None and len(rounds.reserving) != self._reserving.gangs:
            self._look_again()
        if self._parked and (rounds.undelivered or (rounds.waiting and not self._universe.quiet)):
            parked, self._parked = self._parked, []
            for each, seconds in parked:
                self._kernel.after(seconds, self.life, self._handle, each, events.Tick())

    def _carry_out(self, driven: _Driven, instruction: todo.Instruction) -> bool:
        """Carry out an instruction; return whether its answer is waited for."""
        match instruction:
            case (
                todo.Take()
                | todo.AskLabels()
                | todo.Report()
                | todo.GiveBack()
                | todo.ShowLife()
                | todo.ReportReservations()
            ):
                self._ask_resmgr(driven, instruction)
                return True
            case todo.Claim() | todo.ClaimReserved() | todo.Compare() | todo.Reserve():
                self._ask_hostmgr(driven, instruction)
                return True
            case todo.TakeSlot():
                if self._slots and not self._for_slot and self._universe.quiet:
                    self._slots -= 1
                    driven.left.extend(driven.activity.handle(events.Tick(), self._kernel.now))
                    return False
                self._for_slot.append(driven)
                self._grant_slots()
                return True
            case todo.AwaitRoom():
                self._for_room.append(driven)
                return True
            case todo.Wait(seconds, jitter):
                self._pause(driven, self._universe.shorten(seconds, jitter))
                return True
            case _:
                self._do(instruction)
                return False

    def _pause(self, driven: _Driven, seconds: float) -> None:
        rounds = self.rounds
        quiet = self._universe.quiet  # no lease ends
        idle = not rounds.undelivered and (quiet or not rounds.waiting)
        if idle and isinstance(driven.activity, SignsOfLife):
            # It would only pause again: nothing is due until gangs are taken.
            self._parked.append((driven, seconds))
        elif quiet and isinstance(driven.activity, Reserving):
            now = self._kernel.now
            timer = self._kernel.after(RESERVING_PATIENCE, self.life, self._ask_again, driven)
            self._reserving = _Reserving(driven, now, seconds, len(rounds.reserving), timer)
        else:
            self._kernel.after(seconds, self.life, self._handle, driven, events.Tick())

    def _look_again(self) -> None:
        """Ask for reservations again at the next turn of the interval: the answers may be others now."""
        waiting = self._reserving
        if waiting is None or waiting.due:
            return
        waiting.due = True
        waiting.timer.cancel()
        passed = self._kernel.now - waiting.since
        turns = max(1, math.ceil(passed / waiting.interval + _MOMENT))
        left = max(0.0, turns * waiting.interval - passed)
        self._kernel.after(left, self.life, self._ask_again, waiting.driven)

    def _ask_again(self, driven: _Driven) -> None:
        self._reserving = None
        self._handle(driven, events.Tick())

    def _do(self, instruction: todo.Instruction) -> None:
        """Carry out an instruction that has no answer."""
        match instruction:
            case todo.Release(hosts):
                self._call("hostmgr", "on_release", ([host.offer_id for host in hosts],), _ignore)
            case todo.CancelReservations(ids):
                self._call("hostmgr", "on_cancel_reservations", (ids,), _ignore)
            case todo.GiveBackLater(unplaced):
                self.rounds.undelivered.extend(unplaced)
            case todo.LeaveDesiredHost(gangs):
                for begin in self.rounds.place(gangs, self._kernel.now):
                    self._do(begin)
            case todo.Begin(activity):
                self._begin(activity)
            case todo.FreeSlot():
                self._slots += 1
                self._grant_slots()
            case _:
                raise AssertionError(f"an engine has no use for {instruction}")

    def _grant_slots(self) -> None:
        while self._slots and self._for_slot:
            self._slots -= 1
            self._kernel.after(0.0, self.life, self._handle, self._for_slot.popleft(), events.Tick())

    # Calls.

    def _call(self, role: str, method: str, args: tuple[Any, ...], done: Callable[[Any], None]) -> None:
        self._network.call(self._caller, role, method, args, done)

    def _asked(
        self,
        driven: _Driven,
        instruction: todo.Instruction,
        role: str,
        method: str,
        args: tuple[Any, ...],
        event: Callable[[Any], events.Event],
    ) -> None:
        """Make a call, and have its answer handled as an event."""

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self._handle(driven, self._failed(instruction, str(answer)))
            else:
                self._handle(driven, event(answer))

        self._call(role, method, args, done)

    def _failed(self, instruction: todo.Instruction, error: str) -> events.Event:
        if isinstance(instruction, todo.GiveBack):
            self.rounds.undelivered.extend(instruction.unplaced)
            return events.GivenBack()
        return events.CallFailed(error)

    def _ask_resmgr(self, driven: _Driven, it: todo.Instruction) -> None:
        match it:
            case todo.Take(limit):
                self._take(driven, it, limit)
            case todo.AskLabels(hostnames):
                self._asked(driven, it, "resmgr", "on_labels", (hostnames,), events.LabelsKnown)
            case todo.Report(placements):
                proposals = [proposal_of(each, self.kind) for each in placements]
                self._asked(driven, it, "resmgr", "on_propose", (proposals,), _reported)
            case todo.GiveBack(unplaced):
                failures = [_failure(each) for each in unplaced]
                self._asked(driven, it, "resmgr", "on_give_back", (failures,), lambda _: events.GivenBack())
            case todo.ShowLife(unplaced):
                failures = [_failure(each) for each in unplaced]
                self._asked(driven, it, "resmgr", "on_give_back", (failures,), lambda _: events.Tick())
            case todo.ReportReservations(reports):
                given = [ReservedGang(runs_of(each.gang), each.reason, each.start) for each in reports]

                def gone(answer: Sequence[int]) -> events.Event:
                    return events.GangsGone([reports[at].gang for at in answer])

                self._asked(driven, it, "resmgr", "on_reserved", (given,), gone)
            case _:
                raise AssertionError(it)

    def _take(self, driven: _Driven, it: todo.Instruction, limit: int) -> None:
        self._calls += 1
        call, wait = self._calls, self._universe.patience(DEQUEUE_WAIT)

        def taken(gangs: Sequence[Gang]) -> events.Event:
            if gangs:
                self._received = call
            return events.GangsTaken(gangs)

        self._asked(driven, it, "resmgr", "on_take", (self.kind, limit, wait, call, self._received), taken)

    def _ask_hostmgr(self, driven: _Driven, it: todo.Instruction) -> None:
        match it:
            case todo.Claim(needs, most, names, fullest):
                want = host_filter(needs, most, names, fullest)

                def claimed(found: Found) -> events.Event:
                    return events.HostsClaimed(_hosts(found.hosts, needs.host_class), found.counts)

                self._asked(driven, it, "hostmgr", "on_acquire", (want,), claimed)
            case todo.ClaimReserved(run_id, needs, most, fullest):
                want = host_filter(needs, most, fullest=fullest)

                def backfilled(found: Found) -> events.Event:
                    return events.ReservedClaimed(_hosts(found.hosts, needs.host_class), found.is_open)

                self._asked(driven, it, "hostmgr", "on_backfill", (run_id, want), backfilled)
            case todo.Compare(shapes):
                given = list(map(gang_shape, shapes))
                self._asked(
                    driven,
                    it,
                    "hostmgr",
                    "on_shortages",
                    (given,),
                    lambda found: events.ShortagesKnown(found[1]),
                )
            case todo.Reserve(wishes):
                wanted = [(id, gang_shape(shape)) for id, shape in wishes]

                def reserved(answers: Sequence[Progress]) -> events.Event:
                    return events.ReservationsAnswered(
                        [_progress(answer, shape) for answer, (_, shape) in zip(answers, wishes, strict=True)]
                    )

                self._asked(driven, it, "hostmgr", "on_reserve", (wanted,), reserved)
            case _:
                raise AssertionError(it)


def _ignore(answer: Any) -> None:
    """Take the answer of a call whose failure changes nothing: claims and reservations expire."""


def _reported(rejections: Sequence[tuple[str, Any, str]]) -> events.Event:
    return events.Reported(
        [events.Rejection(offer, mesos_task_id(*run), text) for offer, run, text in rejections]
    )


def _failure(unplaced: Unplaced) -> PlacementFailure:
    return PlacementFailure(
        runs_of(unplaced.gang), unplaced.reason, refusals(unplaced.counts), unplaced.shortage
    )


def _hosts(found: Sequence[FreeHost], host_class: HostClass) -> list[Host]:
    return [host_of(each, host_class) for each in found]


def _progress(answer: Progress, shape: Shape) -> events.ReservationAnswer:
    classes = [needs.host_class for needs, _ in shape.members]
    progress = answer.progress
    reserved = Reserved(
        len(progress.parts), answer.free, answer.hostnames[:10], answer.start, answer.next, progress.ahead
    )
    pairs = zip(answer.hosts, progress.groups, strict=True)
    return events.ReservationAnswer(reserved, [host_of(found, classes[at]) for found, at in pairs])
