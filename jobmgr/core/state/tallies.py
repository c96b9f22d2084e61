"""What a cycle changes about the numbers of a job: tasks by state and by version, and resource usage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.model.usage import join, joined

K = TypeVar("K")


class Tallies:
    """Number of instances by state, and changes of the other numbers of a job."""

    __slots__ = ("by_state", "desired", "usage", "versions")

    def __init__(self, by_state: Mapping[TaskState, int]) -> None:
        self.by_state: dict[TaskState, int] = dict(by_state)
        self.versions: dict[int, int] = {}
        """Change of the number of instances, by the version that they have."""
        self.desired: dict[int, int] = {}
        """Change of the number of instances, by the version that they get with their next run."""
        self.usage: dict[str, float] = {}
        """Change of the resource usage by kind; of a peak, its new value."""

    def count(self, task: TaskRuntime, step: int) -> None:
        """Count instances that come, or leave where `step` is negative."""
        _add(self.by_state, task.state, step)
        _add(self.versions, task.config_version, step)
        _add(self.desired, task.desired_config_version, step)

    def follow(self, old: TaskRuntime, new: TaskRuntime) -> None:
        """Count the step of an instance from one revision to the next."""
        if new.state is not old.state:
            _add(self.by_state, old.state, -1)
            _add(self.by_state, new.state, 1)
        if new.config_version != old.config_version:
            _add(self.versions, old.config_version, -1)
            _add(self.versions, new.config_version, 1)
        if new.desired_config_version != old.desired_config_version:
            _add(self.desired, old.desired_config_version, -1)
            _add(self.desired, new.desired_config_version, 1)

    def use(self, amounts: Mapping[str, float]) -> None:
        """Add to the resource usage of the job, by kind."""
        for kind, amount in amounts.items():
            self.usage[kind] = joined(kind, self.usage.get(kind, 0.0), amount)

    def used(self, before: Mapping[str, float]) -> dict[str, float]:
        """Return the resource usage of the job with what was added to it."""
        return join(before, self.usage)


def _add(counts: dict[K, int], key: K, step: int) -> None:
    """Change a count; one of zero is left out."""
    count = counts.get(key, 0) + step
    if count:
        counts[key] = count
    else:
        counts.pop(key, None)


def total(counts: Mapping[K, int], changes: Mapping[K, int]) -> dict[K, int]:
    """Return counts with changes to them; those of zero are left out."""
    result = dict(counts)
    for key, step in changes.items():
        _add(result, key, step)
    return result
