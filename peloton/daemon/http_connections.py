"""Which HTTP connections are taken, and how long each may take for what it does: the rules, without effects.

Health checks and metrics must be answered whatever else clients do. So some connections are taken beyond the
limits, and answered on these paths only; where too many of them come, the oldest makes room.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum

PROBES = ("/health", "/metrics", "/version")
"""Paths that are answered on connections beyond the limits."""
SPARE = 32
"""Connections beyond the limits."""
SPARE_SECONDS = 2.0
"""Time in which one of these has to send its request and to take the answer."""
MAX_HEADER_BYTES, MAX_HEADERS = 64 * 1024, 100


class Seat(Enum):
    """What a connection may ask for."""

    ANY = "any"
    PROBES = "probes"


class Phase(Enum):
    """What a connection is waiting for."""

    HEADER = "header"
    BODY = "body"
    ANSWER = "answer"
    READER = "reader"
    """The client, which does not take the answer that was sent."""
    NEXT = "next"
    """Another request."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits, by the names of their settings."""

    connections: int
    address_connections: int
    header_seconds: float
    body_seconds: float

    def seconds(self, seat: Seat, phase: Phase) -> float | None:
        """Return how long a connection may be in a phase; None: for ever.

        Where the next request is awaited, the server has a time of its own (idle_seconds).
        """
        if phase in (Phase.ANSWER, Phase.NEXT):
            return None
        if seat is Seat.PROBES:
            return SPARE_SECONDS
        return self.header_seconds if phase is Phase.HEADER else self.body_seconds


class Seats:
    """The connections that are open, by address."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: Counter[str] = Counter()
        self._all = 0
        self.spare = 0
        """Connections beyond the limits; the caller closes the oldest where there are more than SPARE."""

    def take(self, address: str) -> Seat:
        """Count a new connection; return what it may ask for."""
        limits = self._limits
        if self._all >= limits.connections or self._open[address] >= limits.address_connections:
            self.spare += 1
            return Seat.PROBES
        self._all += 1
        self._open[address] += 1
        return Seat.ANY

    def leave(self, address: str, seat: Seat) -> None:
        """Note the end of a connection."""
        if seat is Seat.PROBES:
            self.spare -= 1
            return
        self._all -= 1
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    @property
    def open(self) -> int:
        """Return how many connections are open."""
        return self._all + self.spare
