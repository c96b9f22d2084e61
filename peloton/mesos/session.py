"""The framework's subscription as a state machine without I/O. `now` is seconds on the monotonic clock.

The rules are those of recorded traffic: SUBSCRIBED is the first event, heartbeats follow a fixed schedule, a
refused framework gets one ERROR event in a stream of status 200, and a new subscription repeats no updates,
so that reconciliation is necessary.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from peloton.model.backoff import exponential
from peloton.statemachine import StateMachine


class State(Enum):
    """States of a subscription."""

    DISCONNECTED = "disconnected"
    SUBSCRIBING = "subscribing"
    SUBSCRIBED = "subscribed"


class Trigger(Enum):
    """Causes of a change of a subscription's state."""

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
"""Beginning of the ERROR after which the framework id is void."""
UNAUTHORIZED = (
    "SUBSCRIBE was answered with 401: the master does not accept mesos.principal or mesos.secret_file"
)
NOT_READY = "SUBSCRIBE was answered with 503: the master is not elected, or has not finished its recovery"
MISSED_HEARTBEATS = 3
DEFAULT_HEARTBEAT = 15.0
RECOVERY_SECONDS = 1.0
"""Longest pause before the next try with a master that has not finished its recovery."""


class SessionBroken(Exception):
    """The subscription cannot continue, for the reason in the message; the driver tries again later."""


@dataclass(frozen=True, slots=True)
class RetryPauses:
    """Pauses between tries to subscribe, in seconds: they grow exponentially and are jittered."""

    first: float = 0.1
    longest: float = 15.0
    silent: float = 2.0
    """The longest one after a try that nobody answered: a master that is started again is found soon."""

    def after(self, failures: int, jitter: float, silent: bool = False) -> float:
        """Return the pause, 50-100 % of the full one; the caller draws `jitter` from 0 to 1."""
        longest = min(self.longest, self.silent) if silent else self.longest
        return exponential(failures + 1, self.first, longest) * (0.5 + jitter / 2)


class Session:
    """The subscriptions of one framework, over the life of the driver."""

    def __init__(self, framework_id: str | None, connect_timeout: float = 10.0) -> None:
        self.framework_id = framework_id
        """The id from Mesos, sent with further subscriptions; None before the first."""
        self.stream_id = ""
        self.master_id = ""
        self.state = State.DISCONNECTED
        self.deadline = 0.0
        """When the connection counts as dead unless an event is received."""
        self.failures = 0
        """Consecutive tries with one master that ended within half a heartbeat interval."""
        self._not_ready = False
        self._silent = False
        self._settled = False
        self._subscribed_at = 0.0
        self._connect_timeout = connect_timeout
        self._interval = DEFAULT_HEARTBEAT

    @property
    def subscribed(self) -> bool:
        """Return whether SUBSCRIBED has been received."""
        return self.state is State.SUBSCRIBED

    def connect(self, now: float) -> None:
        """Begin a connection to send SUBSCRIBE."""
        self.state = MACHINE.next(self.state, Trigger.CONNECT)
        self.stream_id = ""
        self._not_ready = False
        self._silent = True
        self.deadline = now + self._connect_timeout

    def answered(self) -> None:
        """Note that somebody listens at the master's address."""
        self._silent = False

    def another_master(self) -> None:
        """Forget the failures: the next try is with another master."""
        self.failures = 0

    def pause(self, pauses: RetryPauses, jitter: float) -> float:
        """Return the pause before the next try, in seconds; `jitter` is a number from 0 to 1."""
        pause = pauses.after(self.failures, jitter, self._silent)
        return min(pause, RECOVERY_SECONDS) if self._not_ready else pause

    def response(self, status: int, stream_id: str, now: float) -> None:
        """Handle the head of the answer to SUBSCRIBE. Raises SessionBroken unless it opens a stream."""
        self.answered()
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
        """Extend the deadline after an event."""
        if self.subscribed:
            self.deadline = now + self._interval * MISSED_HEARTBEATS
            self._settled = now - self._subscribed_at >= self._interval / 2

    def on_subscribed(self, framework_id: str, interval: float, master_id: str, now: float) -> None:
        """Handle SUBSCRIBED. Raises SessionBroken for a second one in a stream."""
        if self.subscribed:
            raise SessionBroken("SUBSCRIBED came twice in one stream")
        self.state = MACHINE.next(self.state, Trigger.SUBSCRIBED)
        self.framework_id = framework_id
        self.master_id = master_id
        self._interval = interval if interval > 0 else DEFAULT_HEARTBEAT
        self._subscribed_at = now
        self.touch(now)

    def on_event(self, name: str) -> None:
        """Check an event. Raises SessionBroken before SUBSCRIBED."""
        if not self.subscribed:
            raise SessionBroken(f"{name} came before SUBSCRIBED")

    def on_error(self, message: str) -> bool:
        """Handle an ERROR event, after which the master ends the stream.

        Return whether the framework id is void. It is forgotten then, and the next subscription gets a new
        one.
        """
        if message.startswith(FRAMEWORK_REMOVED):
            self.framework_id = None
            return True
        return False

    def disconnect(self) -> None:
        """Note the end of the connection."""
        self.failures = 0 if self._settled else self.failures + 1
        self._settled = False
        self.state = MACHINE.next(self.state, Trigger.DISCONNECT)
        self.stream_id = ""

    def expired(self, now: float) -> bool:
        """Return whether the deadline is over, so that the connection counts as dead."""
        return self.state is not State.DISCONNECTED and now >= self.deadline
