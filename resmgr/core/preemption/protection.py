"""Protection of tasks: a minimum run time, and a limit of victims per minute and pool."""

from __future__ import annotations

from dataclasses import dataclass, replace

from peloton.model.states import TaskState
from resmgr.core.preemption.view import Candidates

MINUTE = 60.0


def protect(candidates: Candidates, minimum_run: float, now: float) -> Candidates:
    """Return the candidates with those ineligible that have run for less than `minimum_run` seconds."""
    if minimum_run <= 0 or not len(candidates):
        return candidates
    young = (candidates.state == TaskState.RUNNING) & (now - candidates.started < minimum_run)
    return replace(candidates, eligible=candidates.eligible & ~young)


@dataclass(frozen=True, slots=True)
class Allowance:
    """The number of tasks of one pool that may be taken now; a value.

    A taken task counts for a whole minute, so that no minute, wherever it begins, has more than the limit.
    (A bucket that refills evenly would let twice its size through in the minute after it was full.)
    """

    limit: int
    """Victims per minute."""
    taken: tuple[tuple[float, int], ...] = ()
    """Times, in seconds on the monotonic clock, with numbers of tasks; oldest first."""

    def left(self, now: float) -> int:
        """Return how many tasks may be taken now."""
        return max(0, self.limit - sum(count for when, count in self.taken if now - when < MINUTE))

    def after(self, count: int, now: float) -> Allowance:
        """Return the allowance with that many more tasks taken."""
        recent = tuple(entry for entry in self.taken if now - entry[0] < MINUTE)
        return replace(self, taken=(*recent, (now, count)) if count else recent)
