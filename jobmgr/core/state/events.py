"""Events: the inputs of the core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from peloton.model.cluster import UNNAMED
from peloton.model.host import HostMatch
from peloton.model.ids import JobId, Run
from peloton.model.job import JobSpec
from peloton.model.schedule import ScheduleState
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskStatus
from peloton.model.usage import Reading
from peloton.model.volume import Volume
from peloton.model.workflow import EntityVersion, Workflow, WorkflowId

RunOf = tuple[int, int]
"""Instance and run."""


class Span(NamedTuple):
    """Instances first … end-1, whose current runs have the same number."""

    first: int
    end: int
    run: int


@dataclass(frozen=True, slots=True)
class Now:
    """The time: `wall` in nanoseconds since 1970, `monotonic` in seconds."""

    wall: int
    monotonic: float


@dataclass(frozen=True, slots=True)
class Placement:
    """Runs to launch on one host, on offers that were claimed for them."""

    hostname: str
    agent_id: str
    offer_id: str
    ports: tuple[int, ...]
    """In one list: for each run, in order, as many as it has dynamic ports."""
    runs: tuple[Run, ...]


# Requests of clients.


@dataclass(frozen=True, slots=True)
class JobUpdated:
    """A config with more instances, made from version `base`, is stored as `spec.version`."""

    job_id: JobId
    spec: JobSpec
    base: int


@dataclass(frozen=True, slots=True)
class RelocationRequested:
    """Let the next runs of a batch job go by its newest config; runs that wait begin anew.

    As many instances as a cycle has rows are taken, and at least a whole gang.
    """

    job_id: JobId
    by: str = ""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """Stop instances; None: the whole job."""

    job_id: JobId
    instances: Sequence[int] | None
    by: str = ""
    """Who asks, here and in the other requests; empty where callers are not known."""


@dataclass(frozen=True, slots=True)
class ReleaseRequested:
    """Take instances out of a batch job, running ones after their end; their numbers are free afterwards.

    All are checked; as many as a cycle has rows are released.
    """

    job_id: JobId
    instances: Sequence[int]
    by: str = ""


@dataclass(frozen=True, slots=True)
class ReuseRequested:
    """Add instances to a batch job by free numbers, until it has `count`.

    At most `most` are added, and as many as a cycle has rows.
    """

    job_id: JobId
    count: int
    most: int


@dataclass(frozen=True, slots=True)
class StartRequested:
    """Start instances that were stopped; None: all of them."""

    job_id: JobId
    instances: Sequence[int] | None
    by: str = ""


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """Restart instances, and start those that are stopped; None: all of them."""

    job_id: JobId
    instances: Sequence[int] | None
    check_sla: bool = False
    """Whether to refuse where more instances of a service would be unavailable than its SLA allows."""
    by: str = ""


@dataclass(frozen=True, slots=True)
class JobGoalRequested:
    """A service shall be RUNNING, KILLED or DELETED."""

    job_id: JobId
    goal: JobState
    expected: EntityVersion | None = None
    """The version that the caller has seen last; None: it does not care."""
    by: str = ""


class WorkflowAction(Enum):
    """What can be asked of a workflow that runs."""

    PAUSE = "pause"
    RESUME = "resume"
    ABORT = "abort"
    ABORT_SOFTLY = "abort softly"
    """After what is in flight."""
    ROLL_BACK = "roll back"


@dataclass(frozen=True, slots=True)
class WorkflowRequested:
    """A workflow shall begin. `spec`, the version that it leads to, is stored; it was made from `base`."""

    job_id: JobId
    workflow: Workflow
    spec: JobSpec
    base: int
    expected: EntityVersion | None = None


@dataclass(frozen=True, slots=True)
class WorkflowSteered:
    """Something is asked of the job's workflow (`workflow_id`: of this one only)."""

    job_id: JobId
    action: WorkflowAction
    opaque_data: str = ""
    expected: EntityVersion | None = None
    workflow_id: WorkflowId = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowRepeated:
    """The workflow that runs is asked for again: only its opaque data may be new."""

    job_id: JobId
    workflow_id: WorkflowId
    opaque_data: str
    expected: EntityVersion | None = None


@dataclass(frozen=True, slots=True)
class DependencySeen:
    """The state of a job that another one, `job_id`, waits for. None: it is deleted."""

    job_id: JobId
    on: JobId
    state: JobState | None


@dataclass(frozen=True, slots=True)
class PauseAsked:
    """The schedule of a job is to be paused, or to go on."""

    job_id: JobId
    pause: bool
    at: int
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class SuspensionAsked:
    """A batch job is to be suspended, or to go on."""

    job_id: JobId
    suspend: bool
    by: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleMoved:
    """The schedule of a job is to be stored as so far."""

    job_id: JobId
    state: ScheduleState


# Reports of other daemons.


@dataclass(frozen=True, slots=True)
class Statuses:
    """Statuses of runs, in the order in which Mesos sent them."""

    statuses: Sequence[tuple[Run, TaskStatus]]
    cluster: str = UNNAMED
    """The Mesos cluster that they come from."""


@dataclass(frozen=True, slots=True)
class Placed:
    """resmgr has handed over placements."""

    placements: Sequence[Placement]


@dataclass(frozen=True, slots=True)
class PendingReasons:
    """The states of runs in resmgr, and why they wait; an empty reason: nothing holds it up."""

    deltas: Sequence[tuple[Run, TaskState, str]]


@dataclass(frozen=True, slots=True)
class Preempted:
    """Runs that resmgr preempts, each with the reason as text for users."""

    runs: Sequence[tuple[Run, str]]


@dataclass(frozen=True, slots=True)
class Draining:
    """Runs on hosts whose maintenance has been started."""

    runs: Sequence[Run]
    cluster: str = UNNAMED
    """The Mesos cluster of these hosts."""
    maintenances: Mapping[str, str] = field(default_factory=dict)
    """By host, who began its maintenance and when, as text; hosts of which that is not known are left out."""


@dataclass(frozen=True, slots=True)
class ResmgrChanged:
    """Another resmgr leads: it may lack runs that were enqueued and not stored as PENDING."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The runs of one Compare that resmgr does not hold."""

    job_id: JobId
    missing: Sequence[RunOf]


# Results of instructions.


@dataclass(frozen=True, slots=True)
class Enqueued:
    """resmgr has taken runs, or had them already."""

    job_id: JobId
    runs: Sequence[RunOf]


@dataclass(frozen=True, slots=True)
class EnqueueRefused:
    """resmgr does not take runs."""

    job_id: JobId
    runs: Sequence[RunOf]
    message: str


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """resmgr no longer holds runs."""

    job_id: JobId
    runs: Sequence[RunOf]


@dataclass(frozen=True, slots=True)
class Launched:
    """hostmgr has launched runs."""

    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class LaunchRefused:
    """hostmgr did not launch runs: the claim was over, or (`faulty`) they cannot be launched at all."""

    runs: Sequence[Run]
    message: str
    faulty: bool


@dataclass(frozen=True, slots=True)
class SecretMissing:
    """Runs were not launched: a secret of their job is not stored, or cannot be decrypted."""

    runs: Sequence[Run]
    message: str


@dataclass(frozen=True, slots=True)
class LaunchUncertain:
    """It is unknown whether runs were launched."""

    runs: Sequence[Run]


@dataclass(frozen=True, slots=True)
class VolumeDeletionRequested:
    """A volume is to be deleted; `volume` is as it is stored. Refused while a run uses it."""

    job_id: JobId
    volume: Volume


@dataclass(frozen=True, slots=True)
class HostsMatched:
    """hostmgr has told which hosts a daemon job runs on, by a version of its config."""

    job_id: JobId
    version: int
    match: HostMatch


WorkflowRequest = WorkflowRequested | WorkflowSteered | WorkflowRepeated


@dataclass(frozen=True, slots=True)
class Sampled:
    """What agents tell of runs that live. It is kept in memory only."""

    readings: Sequence[tuple[Run, Reading]]


JobEvent = (
    JobUpdated
    | RelocationRequested
    | ReleaseRequested
    | ReuseRequested
    | StopRequested
    | StartRequested
    | RestartRequested
    | JobGoalRequested
    | DependencySeen
    | PauseAsked
    | SuspensionAsked
    | ScheduleMoved
    | VolumeDeletionRequested
    | Statuses
    | Sampled
    | Placed
    | PendingReasons
    | Preempted
    | Draining
    | ResmgrChanged
    | Compared
    | Enqueued
    | EnqueueRefused
    | Withdrawn
    | Launched
    | LaunchRefused
    | LaunchUncertain
    | SecretMissing
)
"""All but what is asked of workflows."""
Event = JobEvent | WorkflowRequest | HostsMatched
