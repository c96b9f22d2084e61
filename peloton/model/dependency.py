"""Dependencies: jobs whose ends another job waits for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from peloton.model.ids import JobId
from peloton.model.states import JobState

MAX_DEPENDENCIES = 100


class DependencyEnd(IntEnum):
    """Which end of a job is waited for. The numbers are those of the API."""

    SUCCEEDED = 0
    ENDED = 1


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that another one waits for."""

    job_id: JobId
    name: str
    """As the spec names it: a name, or the id."""
    end: DependencyEnd = DependencyEnd.SUCCEEDED

    def __str__(self) -> str:
        return f"job {self.job_id}" if self.name == self.job_id else f"job {self.name} ({self.job_id})"


class Verdict(IntEnum):
    """What the state of a job means for one that waits for it."""

    WAIT = 0
    MET = 1
    NEVER = 2
    """It will not be met: the job that waits is stopped."""


def verdict(end: DependencyEnd, state: JobState | None) -> Verdict:
    """Return what the state of the job that is waited for means; None: it is deleted, so it had ended."""
    if state is not None and not state.terminal:
        return Verdict.WAIT
    if end is DependencyEnd.ENDED or state is JobState.SUCCEEDED:
        return Verdict.MET
    return Verdict.NEVER


def told_waits(dependencies: tuple[Dependency, ...], unmet: tuple[JobId, ...]) -> str:
    """Tell what a job waits for, such as `waits until job a (…) has succeeded and job b (…) has ended`."""
    verbs = {DependencyEnd.SUCCEEDED: "has succeeded", DependencyEnd.ENDED: "has ended"}
    waits = [f"{each} {verbs[each.end]}" for each in dependencies if each.job_id in unmet]
    shown, more = waits[:_SHOWN], len(waits) - _SHOWN
    return "waits until " + " and ".join([*shown, *([f"{more} more"] if more > 0 else [])])


_SHOWN = 5
