"""Plans for gangs that are not enqueued: what is asked, and what is answered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from placement.core.model import Gang, Task


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
