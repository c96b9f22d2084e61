"""Persistent volumes: disk of one host that keeps an instance's data over its runs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from peloton.model.ids import JobId, TaskId, mesos_task_id

VolumeId = str
"""The id of the run that the volume was created for: `<job id>-<instance>-<run>`."""


class VolumeState(IntEnum):
    """The state, or the goal, of a volume."""

    UNKNOWN = 0
    INITIALIZED = 1
    """It is to be created with the launch of its first run."""
    CREATED = 2
    """A run has started with it."""
    DELETED = 3


@dataclass(frozen=True, slots=True)
class Volume:
    """A persistent volume. Times are nanoseconds since 1970 in UTC."""

    id: VolumeId
    job_id: JobId
    instance: int
    hostname: str
    size_mb: int
    container_path: str
    state: VolumeState
    goal: VolumeState
    created_at: int
    updated_at: int

    @property
    def to_destroy(self) -> bool:
        """Whether it is deleted, and may still be on its host."""
        return self.goal is VolumeState.DELETED is not self.state


def volume_id(job_id: JobId, instance: int, run: int) -> VolumeId:
    """Return the id of the volume that is created for a run."""
    assert run > 0, f"{job_id}-{instance} has no run that a volume is created for"
    return mesos_task_id(job_id, instance, run)


def owner_of(volume: VolumeId) -> TaskId:
    """Return the id of the task that a volume belongs to; another text where it is no volume of ours."""
    return volume.rpartition("-")[0]


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """The volume that a task's config requests."""

    size_mb: int
    container_path: str


@dataclass(frozen=True, slots=True)
class VolumeMount:
    """The volume that a run is launched with."""

    id: VolumeId
    size: int
    """Thousandths of a MB."""
    container_path: str
    create: bool
    """Whether it is new. Otherwise it must be on the host."""
