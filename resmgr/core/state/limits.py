"""The settings that scheduling depends on."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.model.backoff import exponential

_MOST_TIMES_LONGER = 1024
"""How many times longer than at the first try an engine may have for a gang."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits and time-outs of admission and placing (docs/behaviour/pools.md); times in seconds."""

    preemption: bool = True
    host_reservation: bool = True
    sharing_interval: float = 1.0
    """Least time between two calculations of entitlement because of demand alone."""
    cycle_limit: int = 1000
    """Most gangs that one cycle admits."""
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
    returns: int = 3
    """Such returns after which a gang requests a reserved host."""
    passes: int = 1000
    """Most others that are admitted before a gang that returned; doubled by each further return."""
    passes_seconds: float = 30.0
    """Longest time for which others are; doubled by each further return."""
    gang_patience: float = 60.0
    """Time after its first failed try from which a gang of several tasks requests reserved hosts."""
    retry_first: float = 1.0
    """Pause after the first failed try; doubled by each further one."""
    retry_longest: float = 30.0
    silence: float = 30.0
    """How long a lease outlives its holder's last call."""

    def passed_by(self, returns: int) -> tuple[int, float]:
        """Return how many others may pass a gang that returns for that time, and for how long they may."""
        factor = round(exponential(returns, 1, 2**self.returns))
        return self.passes * factor, self.passes_seconds * factor

    def retry_pause(self, tries: int) -> float:
        """Return the pause after that many failed tries."""
        return exponential(tries, self.retry_first, self.retry_longest)

    def placing_timeout(self, tries: int) -> float:
        """Return the seconds that an engine has for a gang after that many failed tries."""
        return exponential(tries + 1, self.placing, self.placing * _MOST_TIMES_LONGER)
