"""Plans for gangs that are not enqueued: values, and the ports that they come from and go to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from placement.core.model import Gang, Needs, Task
from placement.ports import Acquired


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """Gangs that are alike."""

    gang: Gang
    count: int

    def gangs(self) -> Iterator[Gang]:
        """Iterate over the gangs, each with ids of its own."""
        it = self.gang
        for number in range(self.count):
            # Half as long as by `replace`, which counts for 100,000 instances.
            tasks = tuple(
                Task(
                    f"{each.id}-{number}",
                    f"{each.run_id}-{number}",
                    each.needs,
                    each.desired_host,
                    each.labels,
                )
                for each in it.tasks
            )
            yield Gang(it.job_id, tasks, it.strategy, it.wants_reservation, it.time_out)


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
