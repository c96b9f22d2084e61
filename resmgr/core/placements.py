"""Where tasks go: one placement is one host, its offer and the tasks that share it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from peloton.model.ids import Run
from peloton.model.shortage import Shortage
from peloton.model.states import TaskType
from resmgr.core.tasks import NO_HOSTS, Task


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a placement engine hands in."""

    host: str
    agent_id: str
    offer_id: str
    type: TaskType
    runs: tuple[Run, ...]
    ports: tuple[int, ...] = ()
    """Flat: each task's dynamic ports in the order of `runs`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A gang for which an engine found no place."""

    runs: tuple[Run, ...]
    reason: str
    hosts: Mapping[str, int] = field(default_factory=lambda: NO_HOSTS)
    """Hosts by what was found about them."""
    shortage: Shortage | None = None
    """Set where it would not fit on empty hosts either."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A run of a proposal that was not accepted."""

    proposal: Proposal
    run: Run
    message: str


@dataclass(frozen=True, slots=True)
class Handover:
    """A placement as it is handed to jobmgr."""

    host: str
    agent_id: str
    offer_id: str
    type: TaskType
    runs: tuple[Run, ...]
    ports: tuple[int, ...]
    """Flat, as in `Proposal`."""
    port_counts: tuple[int, ...]
    """How many of `ports` are each task's."""


@dataclass(slots=True, eq=False)
class Placement:
    """An accepted proposal until jobmgr has it. Tasks that go back, end or are killed leave it."""

    host: str
    agent_id: str
    offer_id: str
    type: TaskType
    tasks: dict[Task, tuple[int, ...]] = field(default_factory=dict)
    """Each task with its ports."""

    def handed(self) -> Handover:
        """As jobmgr gets it."""
        return Handover(
            self.host,
            self.agent_id,
            self.offer_id,
            self.type,
            tuple(task.key for task in self.tasks),
            tuple(port for ports in self.tasks.values() for port in ports),
            tuple(map(len, self.tasks.values())),
        )
