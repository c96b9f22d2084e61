"""The two state machines of a host: the claim on it, and its life."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from peloton.model.states import HostState
from peloton.statemachine import StateMachine


class ClaimState(IntEnum):
    """Whether a host is claimed for a placement (docs/behaviour/placement.md)."""

    READY = 0
    PLACING = 1
    RESERVED = 2
    """For a task or a gang that found no place (`hostmgr.core.reservations.queue`)."""
    HELD = 3
    """For the next run of an instance (`hostmgr.core.claims.holds`)."""


class ClaimCause(StrEnum):
    """What changes the claim on a host."""

    ACQUIRE = "acquire"
    """A placement engine claims the host; where it is reserved or held, for those it is meant for."""
    RELEASE = "release"
    LAUNCH = "launch"
    EXPIRE = "expire"
    RESERVE = "reserve"
    """A reservation takes the host. A claim that lasts ends first."""
    HOLD = "hold"
    FREE = "free"
    """The reservation, or the last hold, has ended."""


class LifeCause(StrEnum):
    """What changes the life of a host."""

    REGISTER = "register"
    """The cluster manager reports the host, or offers resources of it."""
    START_MAINTENANCE = "start maintenance"
    LAST_TASK_ENDED = "last task ended"
    TAKE_DOWN = "take down"
    COMPLETE_MAINTENANCE = "complete maintenance"


CLAIM: StateMachine[ClaimState, ClaimCause] = StateMachine(
    "claim on host",
    {
        (ClaimState.READY, ClaimCause.ACQUIRE): ClaimState.PLACING,
        (ClaimState.RESERVED, ClaimCause.ACQUIRE): ClaimState.PLACING,
        (ClaimState.HELD, ClaimCause.ACQUIRE): ClaimState.PLACING,
        (ClaimState.PLACING, ClaimCause.RELEASE): ClaimState.READY,
        (ClaimState.PLACING, ClaimCause.LAUNCH): ClaimState.READY,
        (ClaimState.PLACING, ClaimCause.EXPIRE): ClaimState.READY,
        (ClaimState.READY, ClaimCause.RESERVE): ClaimState.RESERVED,
        (ClaimState.HELD, ClaimCause.RESERVE): ClaimState.RESERVED,
        (ClaimState.READY, ClaimCause.HOLD): ClaimState.HELD,
        (ClaimState.RESERVED, ClaimCause.FREE): ClaimState.READY,
        (ClaimState.HELD, ClaimCause.FREE): ClaimState.READY,
    },
)

LIFE: StateMachine[HostState, LifeCause] = StateMachine(
    "host",
    {
        (HostState.UNKNOWN, LifeCause.REGISTER): HostState.UP,
        (HostState.UP, LifeCause.START_MAINTENANCE): HostState.DRAINING,
        (HostState.DRAINING, LifeCause.LAST_TASK_ENDED): HostState.DRAINED,
        (HostState.DRAINED, LifeCause.TAKE_DOWN): HostState.DOWN,
        (HostState.DOWN, LifeCause.COMPLETE_MAINTENANCE): HostState.UP,
    },
)
