"""What one cycle of the core decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Now
from jobmgr.core.state.instructions import Instruction
from peloton.errors import PelotonError
from peloton.model.ids import JobId, Run
from peloton.model.task import TaskStatus
from peloton.model.workflow import EntityVersion, WorkflowId


class Relocated(NamedTuple):
    """Instances whose next runs go by the newest config."""

    taken: int
    """How many they are."""
    anew: int
    """How many of them waited: their next runs begin at once."""


Reply = list[int] | list[tuple[Run, TaskStatus]] | EntityVersion | Relocated | PelotonError | None
"""The answer to an event: the instances that a request applies to, statuses of jobs that have ended, the
version of a job, how many instances are relocated, or why the request is refused."""


@dataclass(slots=True)
class Cycle:
    """The decisions of one cycle, gathered by the handlers of its events."""

    now: Now
    changes: dict[JobId, Change] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    """One for each event, in order."""
    reconcile: dict[str, list[tuple[Run, str]]] = field(default_factory=dict)
    """Runs to reconcile with Mesos, each with its agent's id, by Mesos cluster."""
    orphans: dict[str, list[Run]] = field(default_factory=dict)
    """Runs to kill that are not the current ones of their instances, by Mesos cluster."""
    unknown: set[JobId] = field(default_factory=set)
    """Jobs with runs that were reported and are newer than what is known here, or of which nothing is known.

    A newer leader may know them: before they are killed or their statuses acknowledged, it must be certain
    that there is none."""
    silent: list[tuple[WorkflowId, JobId, str]] = field(default_factory=list)
    """Workflows without progress for long, each with what it waits for."""
    more: bool = False
    """Whether the next cycle has something to do even without an event."""
