"""The numbers that scheduling goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Numbers of behaviour 5.3, 7.3 and 7.4; times in seconds."""

    preemption: bool = True
    host_reservation: bool = False
    sharing: float = 1.0
    """Least time between two entitlements because of demand alone."""
    turn: int = 1000
    """Gangs admitted in one turn at most."""
    ready_limit: int = 100_000
    """Gangs per task type."""
    placed_limit: int = 1_000_000
    placing: float = 600.0
    """Doubled by each failed try."""
    launching: float = 1200.0
    reserved: float = 1800.0
    preempting: float = 600.0
    tries: int = 3
    """Failed placements after which a gang returns to its pool's queue."""
    cycles: int = 3
    """Such returns after which it asks for a reserved host."""
    retry_first: float = 1.0
    """Pause after the first failed try; doubled by each further one."""
    retry_longest: float = 30.0
    silence: float = 30.0
    """How long a lease outlives its holder's last call."""
