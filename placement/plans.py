"""Plans for gangs that are not enqueued: values, and the ports that they come from and go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from placement.core.model import Gang, Needs
from placement.ports import Acquired


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Gangs that are alike."""

    gang: Gang
    count: int

    def gangs(self) -> Iterator[Gang]:
        """Iterate over the gangs, each with ids of its own."""
        for number in range(self.count):
            yield replace(
                self.gang,
                tasks=tuple(
                    replace(task, id=f"{task.id}-{number}", run_id=f"{task.run_id}-{number}")
                    for task in self.gang.tasks
                ),
            )


@dataclass(frozen=True, slots=True)
class PlannedHosts:
    """Hosts that get the same number of tasks."""

    hosts: int
    tasks: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """Where the gangs of a group go."""

    placed: int
    unplaced: int
    hosts: tuple[PlannedHosts, ...]
    """Those that get the most tasks first."""
    reason: str
    """Why the first unplaced gang is not placed."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """Groups to be planned in `seconds`."""

    id: str
    groups: tuple[PlannedGroup, ...]
    seconds: float


class PlanQueue(Protocol):
    """Plans at resmgr. Calls raise PelotonError."""

    async def take(self, wait: float) -> PlanRequest | None:
        """Return the next request; None where there is none within `wait` seconds."""
        ...

    async def answer(self, plan_id: str, groups: Sequence[GroupPlan]) -> None:
        """Answer a request."""
        ...


class Finder(Protocol):
    """Hosts at hostmgr that could be claimed. Calls raise PelotonError."""

    async def find(self, needs: Needs, most: int, offset: int) -> Acquired:
        """Return up to `most` hosts, from `offset` on, with the match results of all hosts."""
        ...
