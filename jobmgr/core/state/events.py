"""What can happen to jobs: the core's inputs. A run is named by its instance and its number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from peloton.model.ids import JobId, Run
from peloton.model.job import JobSpec
from peloton.model.states import TaskState
from peloton.model.task import TaskStatus

RunOf = tuple[int, int]
"""Instance and run."""


class Span(NamedTuple):
    """Instances first … end-1, all in a run of the same number."""

    first: int
    end: int
    run: int


@dataclass(frozen=True, slots=True)
class Now:
    """`wall` in nanoseconds since 1970, `monotonic` in seconds."""

    wall: int
    monotonic: float


@dataclass(frozen=True, slots=True)
class Placement:
    """Runs that shall go to one host, on offers that were claimed for them."""

    hostname: str
    agent_id: str
    offer_id: str
    ports: tuple[int, ...]
    """Flat: of each run as many as it has dynamic ports, in the order of the runs."""
    runs: tuple[Run, ...]


# What clients ask.


@dataclass(frozen=True, slots=True)
class JobUpdated:
    """A config with more instances is stored as `spec.version`; it was made from version `base`."""

    job_id: JobId
    spec: JobSpec
    base: int


@dataclass(frozen=True, slots=True)
class StopAsked:
    """None: the whole job."""

    job_id: JobId
    instances: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class StartAsked:
    job_id: JobId
    instances: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class RestartAsked:
    job_id: JobId
    instances: Sequence[int] | None


# What other daemons say.


@dataclass(frozen=True, slots=True)
class Statuses:
    """In the order in which Mesos gave them."""

    statuses: Sequence[tuple[Run, TaskStatus]]


@dataclass(frozen=True, slots=True)
class Placed:
    placements: Sequence[Placement]


@dataclass(frozen=True, slots=True)
class WaitingTold:
    """Where runs stand in resmgr, and why they wait; an empty reason: nothing holds it up."""

    deltas: Sequence[tuple[Run, TaskState, str]]


@dataclass(frozen=True, slots=True)
class Preempted:
    """Runs that have to give way, each with why, for a human."""

    runs: Sequence[tuple[Run, str]]


@dataclass(frozen=True, slots=True)
class ResmgrChanged:
    """Another resmgr leads: what was enqueued but not yet stored as such may have escaped it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """resmgr told which of the runs of one Compare it does not hold."""

    job_id: JobId
    missing: Sequence[RunOf]


# How instructions ended.


@dataclass(frozen=True, slots=True)
class Enqueued:
    job_id: JobId
    runs: Sequence[RunOf]


@dataclass(frozen=True, slots=True)
class EnqueueRefused:
    job_id: JobId
    runs: Sequence[RunOf]
    message: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """resmgr has them no more."""

    job_id: JobId
    runs: Sequence[RunOf]


@dataclass(frozen=True, slots=True)
class Launched:
    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class LaunchRefused:
    """hostmgr did not launch them: the claim was no longer theirs, or (`faulty`) what was asked for cannot be
    launched at all."""

    runs: Sequence[Run]
    message: str
    faulty: bool


@dataclass(frozen=True, slots=True)
class LaunchUncertain:
    """Nobody can tell whether they were launched."""

    runs: Sequence[Run]


Event = (
    JobUpdated
    | StopAsked
    | StartAsked
    | RestartAsked
    | Statuses
    | Placed
    | WaitingTold
    | Preempted
    | ResmgrChanged
    | Compared
    | Enqueued
    | EnqueueRefused
    | Withdrawn
    | Launched
    | LaunchRefused
    | LaunchUncertain
)
