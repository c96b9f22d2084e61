"""The hosts of the simulated cluster: what they have, and the runs on them with their status updates.

An agent keeps the updates of a run until each is acknowledged, and sends the next one only then, as Mesos'
agents do.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from peloton.fast_init import fast_init
from peloton.model.constraint import Label
from peloton.model.ids import MesosTaskId
from peloton.model.resources import ZERO, Resources
from peloton.model.states import TaskState


@dataclass(frozen=True, slots=True)
class HostSpec:
    """A host as it is described."""

    hostname: str
    resources: Resources
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """A status of a run, as its agent reports it."""

    state: TaskState
    uuid: bytes
    message: str = ""
    reason: str = ""


fast_init(Update)


@dataclass(slots=True, eq=False)
class SimRun:
    """A run on an agent."""

    id: MesosTaskId
    agent: SimAgent
    resources: Resources
    state: TaskState = TaskState.LAUNCHED
    """What the agent has last done with it."""
    updates: deque[Update] = field(default_factory=deque)
    """Not acknowledged, oldest first. The first one is sent."""
    sent: bool = False
    """Whether the first update was sent over the present connection."""
    told: TaskState = TaskState.LAUNCHED
    """What the master knows."""
    killed: bool = False
    lost: bool = False
    """Whether the master has ever reported it as lost."""

    @property
    def live(self) -> bool:
        """Whether it still runs, or may."""
        return not self.state.terminal


@dataclass(slots=True, eq=False)
class SimAgent:
    """An agent on its host."""

    id: str
    spec: HostSpec
    registered: bool = True
    """Whether the master knows it and hears of it."""
    reachable: bool = True
    """Whether messages reach it."""
    runs: dict[MesosTaskId, SimRun] = field(default_factory=dict)
    """Those that run, and those with updates that are not acknowledged."""
    used: Resources = ZERO
    offered: dict[str, Resources] = field(default_factory=dict)
    """By the id of the offer."""
    waiting: bool = False
    """Whether an offer of what is free is due."""

    @property
    def unoffered(self) -> Resources:
        """What is neither used nor offered."""
        free = self.spec.resources - self.used
        for amounts in self.offered.values():
            free = free - amounts
        return free
