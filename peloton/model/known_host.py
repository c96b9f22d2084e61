"""Hosts that were registered at some time: what is remembered of them where their agents are gone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from peloton.model.constraint import Label
from peloton.model.ids import MesosTaskId


class LossReason(IntEnum):
    """Why a host is lost."""

    DISCONNECTED = 1
    REMOVED = 2
    NOT_BACK = 3
    ABSENT = 4

    @property
    def text(self) -> str:
        """Return it as people read it."""
        return _TEXTS[self]


_TEXTS = {
    LossReason.DISCONNECTED: "its agent is not connected to the Mesos master",
    LossReason.REMOVED: "Mesos has given up its agent",
    LossReason.NOT_BACK: "its maintenance was completed, and its agent has not registered since",
    LossReason.ABSENT: "its agent has not registered with the Mesos master, which is new",
}
assert _TEXTS.keys() == set(LossReason), "each reason has a text"


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A host as it was when its agent was last registered."""

    hostname: str
    ip: str = ""
    labels: tuple[Label, ...] = ()
    agents: tuple[str, ...] = ()
    """Ids of its agents."""
    lost_since: int = 0
    """When it was found to be lost, in nanoseconds since 1970; 0 while it is not."""
    reason: LossReason = LossReason.REMOVED
    tasks: tuple[MesosTaskId, ...] = ()
    """Runs that were there when it was lost, some of them where they are many."""
    task_count: int = 0
    """How many there were."""

    @property
    def lost(self) -> bool:
        """Whether its agent is gone."""
        return self.lost_since > 0
