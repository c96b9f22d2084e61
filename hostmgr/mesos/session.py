"""The framework's subscription as a state machine without I/O.

The driver reports what happened (`now` in seconds on the monotonic clock) and gets back what it should do.
Source of the rules: the recordings' README, above all that SUBSCRIBED comes first, that heartbeats follow a
fixed schedule, that a refused framework gets one ERROR event in a stream of status 200, and that no
updates come after a new subscription, so that reconciliation is necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from peloton.model.backoff import exponential
from peloton.statemachine import StateMachine


class State(Enum):
    """Where a subscription is."""

    DISCONNECTED = "disconnected"
    SUBSCRIBING = "subscribing"
    SUBSCRIBED = "subscribed"


class Trigger(Enum):
    """What changes the state of a subscription."""

    CONNECT = "connect"
    SUBSCRIBED = "subscribed"
    DISCONNECT = "disconnect"


MACHINE: StateMachine[State, Trigger] = StateMachine(
    "mesos session",
    {
        (State.DISCONNECTED, Trigger.CONNECT): State.SUBSCRIBING,
        (State.SUBSCRIBING, Trigger.SUBSCRIBED): State.SUBSCRIBED,
        (State.SUBSCRIBING, Trigger.DISCONNECT): State.DISCONNECTED,
        (State.SUBSCRIBED, Trigger.DISCONNECT): State.DISCONNECTED,
        (State.DISCONNECTED, Trigger.DISCONNECT): State.DISCONNECTED,
    },
)

FRAMEWORK_REMOVED = "Framework has been removed"
"""Beginning of the ERROR that says that the master gave this framework id up for good."""
UNAUTHORIZED = "SUBSCRIBE was answered with 401: mesos.principal or mesos.secret_file is not what it expects"
NOT_READY = "SUBSCRIBE was answered with 503: the master is not elected, or has not finished its recovery"
MISSED_HEARTBEATS = 3
DEFAULT_HEARTBEAT = 15.0
RECOVERY_SECONDS = 1.0
"""Longest pause before a master that has yet to finish its recovery is tried again."""


class SessionBroken(Exception):
    """The subscription cannot go on; the message says why. The shell disconnects and tries again later."""


@dataclass(frozen=True, slots=True)
class RetryPauses:
    """Pauses between tries to subscribe, in seconds: they grow exponentially and are jittered."""

    first: float = 0.1
    longest: float = 15.0

    def after(self, failures: int, jitter: float) -> float:
        """Return the pause, 50-100 % of the full one; the caller draws `jitter` from 0 to 1."""
        return exponential(failures + 1, self.first, self.longest) * (0.5 + jitter / 2)


class Session:
    """One framework's way through subscriptions; lives as long as the driver."""

    def __init__(self, framework_id: str | None, connect_timeout: float = 10.0) -> None:
        self.framework_id = framework_id
        """None until Mesos gave one; sent with every further subscription."""
        self.stream_id = ""
        self.master_id = ""
        self.state = State.DISCONNECTED
        self.deadline = 0.0
        """When the connection counts as dead unless something comes."""
        self.failures = 0
        """Tries of one master in a row that ended before the first half interval of heartbeats was over."""
        self._not_ready = False
        self._settled = False
        self._subscribed_at = 0.0
        self._connect_timeout = connect_timeout
        self._interval = DEFAULT_HEARTBEAT

    @property
    def subscribed(self) -> bool:
        """Return whether SUBSCRIBED has come."""
        return self.state is State.SUBSCRIBED

    def connect(self, now: float) -> None:
        """Begin a connection to send SUBSCRIBE."""
        self.state = MACHINE.next(self.state, Trigger.CONNECT)
        self.stream_id = ""
        self._not_ready = False
        self.deadline = now + self._connect_timeout

    def another_master(self) -> None:
        """Forget the failures of the previous master: the next try is of another one."""
        self.failures = 0

    def pause(self, pauses: RetryPauses, jitter: float) -> float:
        """Return the seconds to wait before the next try; `jitter` is a number from 0 to 1."""
        pause = pauses.after(self.failures, jitter)
        return min(pause, RECOVERY_SECONDS) if self._not_ready else pause

    def response(self, status: int, stream_id: str, now: float) -> None:
        """Handle the head of the answer to SUBSCRIBE. Raises SessionBroken unless it opens a stream."""
        if status == 401:
            raise SessionBroken(UNAUTHORIZED)
        if status == 503:
            self._not_ready = True
            raise SessionBroken(NOT_READY)
        if status != 200:
            raise SessionBroken(f"SUBSCRIBE was answered with status {status}")
        if not stream_id:
            raise SessionBroken("the answer to SUBSCRIBE has no Mesos-Stream-Id")
        self.stream_id = stream_id
        self.deadline = now + self._connect_timeout

    def touch(self, now: float) -> None:
        """Extend the deadline: an event came."""
        if self.subscribed:
            self.deadline = now + self._interval * MISSED_HEARTBEATS
            self._settled = now - self._subscribed_at >= self._interval / 2

    def on_subscribed(self, framework_id: str, interval: float, master_id: str, now: float) -> None:
        """Handle SUBSCRIBED. Raises SessionBroken where it comes twice in one stream."""
        if self.subscribed:
            raise SessionBroken("SUBSCRIBED came twice in one stream")
        self.state = MACHINE.next(self.state, Trigger.SUBSCRIBED)
        self.framework_id = framework_id
        self.master_id = master_id
        self._interval = interval if interval > 0 else DEFAULT_HEARTBEAT
        self._subscribed_at = now
        self.touch(now)

    def on_event(self, name: str) -> None:
        """Check an event. Raises SessionBroken where anything but SUBSCRIBED or ERROR opens the stream."""
        if not self.subscribed:
            raise SessionBroken(f"{name} came before SUBSCRIBED")

    def on_error(self, message: str) -> bool:
        """Handle an ERROR event, after which the master ends the stream.

        Return whether the framework id is void: then it is forgotten here, and the next subscription gets a
        new one.
        """
        if message.startswith(FRAMEWORK_REMOVED):
            self.framework_id = None
            return True
        return False

    def disconnect(self) -> None:
        """Note that the connection is gone, whatever ended it."""
        self.failures = 0 if self._settled else self.failures + 1
        self._settled = False
        self.state = MACHINE.next(self.state, Trigger.DISCONNECT)
        self.stream_id = ""

    def expired(self, now: float) -> bool:
        """Return whether nothing came for so long that the connection counts as dead."""
        return self.state is not State.DISCONNECTED and now >= self.deadline
