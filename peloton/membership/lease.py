"""The lease of a leader: how long it may act without a renewal.

Pure; `now` is in seconds on the monotonic clock.

The registry keeps a session for `session` seconds after its last message, and elects another leader only
after that. A renewal is stamped before its call is sent, so that the registry receives it at the stamp or
later: until stamp + session nobody else leads, however long the answer takes and however long this process
is frozen. The lease is shorter than the session by a margin, for clocks that run at different speeds and for
a server of the registry that fails before it replicates a renewal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum

from peloton.model.amounts import duration

MARGIN = 0.2
"""Share of the session's length by which the lease is shorter."""


class Standing(Enum):
    """Whether a leader may act."""

    HELD = "held"
    SUSPENDED = "suspended"
    """The registry cannot be reached: do nothing with a lasting effect, and wait."""
    OVER = "over"
    """Leadership has ended for good."""


@dataclass(slots=True)
class Lease:
    """A lease, begun by the call stamped `stamp` that won the election."""

    session: float
    """Seconds."""
    stamp: float
    _until: float = field(init=False)
    _suspended: float = field(init=False, default=-math.inf)
    """When the connection was last found broken; a renewal stamped later shows that it works again."""
    _confirmed: float = field(init=False)
    """The newest stamp whose call was answered."""

    def __post_init__(self) -> None:
        assert self.session > 0, f"a session of {duration(self.session)} confirms nobody"
        self._confirmed = self.stamp
        self._until = self.stamp + self.seconds

    @property
    def seconds(self) -> float:
        """Duration of one renewal."""
        return self.session * (1 - MARGIN)

    @property
    def until(self) -> float:
        """Time at which the lease ends unless renewed."""
        return self._until

    def standing(self, now: float) -> Standing:
        """Return whether the leader may act at `now`."""
        if now >= self._until:
            return Standing.OVER
        return Standing.HELD if self._confirmed > self._suspended else Standing.SUSPENDED

    def renew(self, stamp: float, now: float) -> None:
        """Renew the lease for a call stamped `stamp` that confirmed it, unless the lease is over."""
        assert stamp <= now, f"the call is stamped {duration(stamp - now)} after its answer"
        if now >= self._until:
            self.end()
            return
        self._confirmed = max(self._confirmed, stamp)
        self._until = max(self._until, stamp + self.seconds)

    def shorten(self, session: float) -> None:
        """Shorten the lease to a session that lasts only so long, possibly since the last renewal."""
        if session < self.session:
            self.session = session
            self._until = min(self._until, self._confirmed + self.seconds)

    def suspend(self, now: float) -> None:
        """Suspend the lease while the registry cannot be reached."""
        self._suspended = max(self._suspended, now)

    def end(self) -> None:
        """End the lease."""
        self._until = -math.inf
