"""What one turn of the core decided."""

from __future__ import annotations

from dataclasses import dataclass, field

from jobmgr.core.state.change import Change
from jobmgr.core.state.events import Now
from jobmgr.core.state.instructions import Instruction
from peloton.errors import PelotonError
from peloton.model.ids import JobId, Run
from peloton.model.task import TaskStatus

Reply = list[int] | list[tuple[Run, TaskStatus]] | PelotonError | None
"""What an event is answered with: the instances that a request applies to, the statuses of jobs that have
ended, or why it was refused."""


@dataclass(slots=True)
class Turn:
    """What one turn decided."""

    now: Now
    changes: dict[JobId, Change] = field(default_factory=dict)
    instructions: list[Instruction] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    """What each event is answered with; a PelotonError where it was refused."""
    reconcile: list[tuple[Run, str]] = field(default_factory=list)
    orphans: list[Run] = field(default_factory=list)
    more: bool = False
    """Whether the next turn has something to do even without an event."""
