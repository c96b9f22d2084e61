"""Events: the inputs of the activities of an engine. Each answers one instruction of `instructions`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peloton.model.shortage import Shortage
from placement.core.model import Gang, Host, TasksOnHosts, Unplaced
from placement.core.reservation_reasons import Reserved


@dataclass(frozen=True, slots=True)
class Tick:
    """The activity begins, its pause is over, or there is what it waited for."""


@dataclass(frozen=True, slots=True)
class GangsTaken:
    """Gangs of resmgr's queue, leased to this engine; none where none are ready."""

    gangs: Sequence[Gang]


@dataclass(frozen=True, slots=True)
class HostsClaimed:
    """The hosts that were claimed, and the match results of all."""

    hosts: Sequence[Host]
    counts: Mapping[str, int] = field(default_factory=dict)
    """Hosts by the lower-case name of their match result."""
    held: Sequence[str] = ()
    """For whom hosts are held, where some were passed over for that."""


@dataclass(frozen=True, slots=True)
class ReservedClaimed:
    """The hosts that were claimed, also among those that are reserved."""

    hosts: Sequence[Host]
    is_open: bool
    """Whether any reserved host is open to tasks that end in time."""


@dataclass(frozen=True, slots=True)
class LabelsKnown:
    """The labels of the tasks on the hosts that were asked for."""

    tasks: TasksOnHosts


@dataclass(frozen=True, slots=True)
class ShortagesKnown:
    """For each shape why such a gang would not fit on empty hosts; None: it would, or it is not known."""

    shortages: Sequence[Shortage | None]


@dataclass(frozen=True, slots=True)
class Rejection:
    """A run whose placement resmgr rejects."""

    offer_id: str
    run_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Reported:
    """Resmgr has the placements, and takes all but those of some runs."""

    rejections: Sequence[Rejection] = ()


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Gangs are given back: resmgr knows, or hears of it with a later sign of life."""


@dataclass(frozen=True, slots=True)
class ReservedTried:
    """Reserved hosts were tried for gangs without a place."""

    left: Sequence[Unplaced]
    """Those that were neither placed there nor have hosts reserved for them now."""


@dataclass(frozen=True, slots=True)
class ReservationAnswer:
    """How far a reservation is; with `hosts` it has ended, and they are claimed."""

    reserved: Reserved
    hosts: Sequence[Host] = ()


@dataclass(frozen=True, slots=True)
class ReservationsAnswered:
    """How far each of the reservations is."""

    answers: Sequence[ReservationAnswer]


@dataclass(frozen=True, slots=True)
class GangsGone:
    """Of the gangs that wait for reserved hosts, those that do not wait any more."""

    gangs: Sequence[Gang]


@dataclass(frozen=True, slots=True)
class CallFailed:
    """The call that the last instruction made has failed."""

    error: str


Event = (
    Tick
    | GangsTaken
    | HostsClaimed
    | ReservedClaimed
    | LabelsKnown
    | ShortagesKnown
    | Reported
    | GivenBack
    | ReservedTried
    | ReservationsAnswered
    | GangsGone
    | CallFailed
)
