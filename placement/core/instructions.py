"""What the activities of an engine want done.

An interpreter carries the instructions of one activity out in their order. One that names an answer ends what
the activity can decide without it: it is the last of those that are returned together, and the activity goes
on with the answer. `CallFailed` is the answer of every call that fails.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from placement.core.events import Event
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape, Unplaced
from placement.core.strategy import Family

TasksByHost = Mapping[str, Sequence[str]]
"""The ids of the tasks that are to be placed on each host, by hostname."""
ANY_HOST: TasksByHost = MappingProxyType({})


# Of the queue of gangs at resmgr.


@dataclass(frozen=True, slots=True)
class Take:
    """Lease up to `limit` gangs. Answered by GangsTaken."""

    limit: int


@dataclass(frozen=True, slots=True)
class AskLabels:
    """Ask for the labels of the tasks that are placed or running on hosts. Answered by LabelsKnown."""

    hostnames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Report:
    """Report where gangs are placed, all of a gang with one instruction. Answered by Reported."""

    placements: tuple[HostPlacement, ...]
    backfill: bool = False
    """Whether their hosts are reserved until later."""


@dataclass(frozen=True, slots=True)
class GiveBack:
    """Give gangs back. Answered by GivenBack, also where resmgr is to hear of it later."""

    unplaced: tuple[Unplaced, ...]


@dataclass(frozen=True, slots=True)
class GiveBackLater:
    """Give gangs back with the next sign of life: resmgr could not be reached just now. No answer."""

    unplaced: tuple[Unplaced, ...]


@dataclass(frozen=True, slots=True)
class ShowLife:
    """Show resmgr that the engine works, so that its leases go on, and give gangs back. Answered by Tick."""

    unplaced: tuple[Unplaced, ...]


@dataclass(frozen=True, slots=True)
class ReservationReport:
    """A gang that waits for reserved hosts, and why."""

    gang: Gang
    reason: str
    start: float | None
    """Seconds until it is expected to start; None: not known."""


@dataclass(frozen=True, slots=True)
class ReportReservations:
    """Report gangs that wait for reserved hosts. Answered by GangsGone."""

    reports: tuple[ReservationReport, ...]


# Of the hosts at hostmgr.


@dataclass(frozen=True, slots=True)
class Claim:
    """Claim up to `most` hosts that have room for one such task. Answered by HostsClaimed.

    With `names`, claim hosts of those names. Hosts that are held match only for the tasks that are given with
    them.
    """

    needs: Needs
    most: int
    names: TasksByHost = field(default_factory=lambda: ANY_HOST)
    fullest: bool = False
    """Whether hosts with the least free come first, GPUs before all; else in hostmgr's own order."""


@dataclass(frozen=True, slots=True)
class ClaimReserved:
    """Claim up to `most` hosts for tasks of a run's job, also reserved ones where those end in time.

    Answered by ReservedClaimed.
    """

    run_id: str
    needs: Needs
    most: int
    fullest: bool = False
    """As of `Claim`."""


@dataclass(frozen=True, slots=True)
class Release:
    """Release claimed hosts. No answer: where it fails, the claims expire."""

    hosts: tuple[Host, ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """Ask why gangs of these shapes would not fit on empty hosts. Answered by ShortagesKnown."""

    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Reserve:
    """Make or renew reservations of hosts, each under an id. Answered by ReservationsAnswered."""

    wishes: tuple[tuple[str, Shape], ...]


@dataclass(frozen=True, slots=True)
class CancelReservations:
    """End reservations. No answer: where it fails, they expire."""

    ids: tuple[str, ...]


# Of the engine itself.


@dataclass(frozen=True, slots=True)
class TryReserved:
    """Try hosts that are reserved until later, or have some reserved. Answered by ReservedTried."""

    family: Family
    unplaced: tuple[Unplaced, ...]


@dataclass(frozen=True, slots=True)
class LeaveDesiredHost:
    """Place gangs that have left their family anywhere. No answer."""

    gangs: tuple[Gang, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin another activity beside this one. No answer."""

    activity: Activity


@dataclass(frozen=True, slots=True)
class TakeSlot:
    """Wait until one more family may be placed at a time. Answered by Tick."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Let another family be placed. No answer."""


@dataclass(frozen=True, slots=True)
class AwaitRoom:
    """Wait until the engine may take more gangs. Answered by Tick."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait, shortened at random by up to the share `jitter`. Answered by Tick."""

    seconds: float
    jitter: float = 0.0


Instruction = (
    Take
    | AskLabels
    | Report
    | GiveBack
    | GiveBackLater
    | ShowLife
    | ReportReservations
    | Claim
    | ClaimReserved
    | Release
    | Compare
    | Reserve
    | CancelReservations
    | TryReserved
    | LeaveDesiredHost
    | Begin
    | TakeSlot
    | FreeSlot
    | AwaitRoom
    | Wait
)
Instructions = tuple[Instruction, ...]


class Activity(Protocol):
    """Something that an engine does step by step: events in, instructions out. It begins with a Tick."""

    @property
    def ended(self) -> bool:
        """Return whether it takes no more events."""
        ...

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event; `now` is in seconds on the monotonic clock."""
        ...

    def stop(self) -> Instructions:
        """End, whatever it waits for; return releases of what it holds."""
        ...


def answer_inside(
    activity: Activity, event: Event, now: float, answer: Callable[[Instruction], Event | Instructions]
) -> Instructions:
    """Have an activity handle an event inside of another, which interprets its instructions by `answer`.

    That returns the event which answers an instruction at once, or the instructions to pass on for it.
    """
    passed_on: list[Instruction] = []
    left = deque(activity.handle(event, now))
    while left:
        reply = answer(left.popleft())
        if isinstance(reply, tuple):
            passed_on += reply
        else:
            left.extend(activity.handle(reply, now))
    return tuple(passed_on)
