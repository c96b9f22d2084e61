"""Workflows: changes of a service that are carried out batch by batch, and their history."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from peloton.errors import Conflict, InvalidArgument, StaleVersion
from peloton.model.ids import JobId

WorkflowId = str

_ENTITY_VERSION = re.compile(r"([0-9]{1,18})-([0-9]{1,18})-([0-9]{1,18})\Z")


class WorkflowType(IntEnum):
    """What a workflow does. The numbers are stored."""

    INVALID = 0
    UPDATE = 1
    """Bring the instances to another config; add and remove instances."""
    RESTART = 2
    START = 3
    STOP = 4


class WorkflowState(IntEnum):
    """State of a workflow. The numbers are stored, and are those of both APIs."""

    INVALID = 0
    INITIALIZED = 1
    ROLLING_FORWARD = 2
    PAUSED = 3
    SUCCEEDED = 4
    ABORTED = 5
    FAILED = 6
    ROLLING_BACKWARD = 7
    ROLLED_BACK = 8

    @property
    def terminal(self) -> bool:
        """Whether a workflow in this state has ended."""
        return self in TERMINAL_WORKFLOW_STATES


TERMINAL_WORKFLOW_STATES = frozenset(
    {WorkflowState.SUCCEEDED, WorkflowState.ABORTED, WorkflowState.FAILED, WorkflowState.ROLLED_BACK}
)


class Range(NamedTuple):
    """Instances first … end-1."""

    first: int
    end: int

    def __contains__(self, instance: object) -> bool:
        """Return whether the instance is in the range."""
        return isinstance(instance, int) and self.first <= instance < self.end


Ranges = tuple[Range, ...]
"""Ascending, without gaps of length 0 between them."""


def ranges_of(instances: Iterable[int]) -> Ranges:
    """Return the ranges that hold exactly these instances."""
    found: list[Range] = []
    for instance in sorted(set(instances)):
        if found and found[-1].end == instance:
            found[-1] = Range(found[-1].first, instance + 1)
        else:
            found.append(Range(instance, instance + 1))
    return tuple(found)


def instances_in(ranges: Sequence[Range]) -> Iterator[int]:
    """Yield the instances of ranges in order."""
    for first, end in ranges:
        yield from range(first, end)


class EntityVersion(NamedTuple):
    """Version of a service for optimistic concurrency: `<config>-<desired state>-<workflow>`."""

    config: int
    desired_state: int
    workflow: int

    def __str__(self) -> str:
        """Return the version as the API writes it."""
        return f"{self.config}-{self.desired_state}-{self.workflow}"

    @staticmethod
    def parse(text: str, field: str = "version.value") -> EntityVersion:
        """Parse a version. Raises InvalidArgument with the path `field`."""
        parts = _ENTITY_VERSION.match(text)
        if parts is None:
            raise InvalidArgument(field, text, "a version <config>-<desired state>-<workflow>, such as 3-1-2")
        return EntityVersion(*map(int, parts.groups()))

    def refusal(self, expected: EntityVersion | None) -> Conflict | None:
        """Return the refusal of a caller who has seen another version than this one; None: does not care."""
        return None if expected is None or expected == self else StaleVersion()

    def check(self, expected: EntityVersion | None) -> None:
        """Raise Conflict for a caller who has seen another version than this one; None: does not care."""
        refused = self.refusal(expected)
        if refused is not None:
            raise refused


@dataclass(frozen=True, slots=True)
class WorkflowOptions:
    """How a workflow goes about it."""

    batch_size: int = 0
    """Instances in flight at once; 0: as `batch_percentage` says."""
    batch_percentage: float = 0.0
    """Batch size in percent of the instances, rounded up; 0: all at once."""
    rollback_on_failure: bool = False
    max_instance_attempts: int = 0
    """Failed runs after which an instance has failed; 0: no limit."""
    max_failure_instances: int = 0
    """Failed instances with which the workflow fails; 0: no limit."""
    start_paused: bool = False
    in_place: bool = False
    """Keep each instance on its host if possible."""
    start_tasks: bool = False
    """Start instances that were stopped, too."""
    stop_before_update: bool = False
    """Stop all instances that are updated before the first one starts again."""


@dataclass(frozen=True, slots=True)
class Workflow:
    """A workflow. Times are nanoseconds since 1970 in UTC, 0 where not yet known."""

    id: WorkflowId
    """A UUID."""
    job_id: JobId
    type: WorkflowType
    state: WorkflowState
    options: WorkflowOptions
    config_version: int
    """Version of the config that it rolls forward to; each workflow makes one."""
    previous_version: int
    """Version before it, to which it rolls back; 0 where it creates the job."""
    ranges: Ranges = ()
    """Instances that a RESTART, START or STOP is about. An UPDATE is about all."""
    added: Ranges = ()
    """Instances that an update adds, updates and removes, as worked out when it began."""
    updated: Ranges = ()
    removed: Ranges = ()
    opaque_data: str = ""
    previous_state: WorkflowState = WorkflowState.INVALID
    """State before the present one."""
    rolling_back: bool = False
    """Whether it goes, or went, backward: also while it is paused meanwhile, and when it has ended."""
    aborting: bool = False
    """Whether it is ABORTED as soon as what is in flight has come to its end."""
    done: int = 0
    """Instances that run the target version, or have ended as they should."""
    failed: int = 0
    remaining: int = 0
    """Instances still to do, those in flight among them."""
    reason: str = ""
    """What it waits for, or why it has ended."""
    workflow_version: int = 1
    """The job's workflow version when it began: the order of a job's workflows."""
    revision: int = 1
    created_at: int = 0
    updated_at: int = 0
    """When it last made progress."""
    completed_at: int = 0
    by: str = ""
    """Who began it, or rolled it back; empty where callers are not known."""

    @property
    def starts_stopped(self) -> bool:
        """Return whether stopped instances that it takes up are started, and the job with them."""
        return self.type in (WorkflowType.START, WorkflowType.RESTART) or (
            self.type is WorkflowType.UPDATE and self.options.start_tasks
        )

    @property
    def target_version(self) -> int:
        """Version of the config that the instances are brought to now."""
        return self.previous_version if self.rolling_back else self.config_version


@dataclass(frozen=True, slots=True)
class WorkflowEvent:
    """A change of a workflow's state, or of what it does to one instance."""

    workflow_id: WorkflowId
    job_id: JobId
    instance: int
    """-1: the workflow itself."""
    type: WorkflowType
    state: WorkflowState
    """The state entered. Of an instance: ROLLING_FORWARD or ROLLING_BACKWARD when it is changed, SUCCEEDED or
    ROLLED_BACK when it is done, FAILED when its attempts are used up."""
    timestamp: int
    """Nanoseconds since 1970."""


WHOLE_WORKFLOW = -1
"""Stands for the workflow itself where an instance is named."""


@dataclass(frozen=True, slots=True)
class WorkflowStatus:
    """A workflow with what is in flight: empty for one that has ended."""

    workflow: Workflow
    current: tuple[int, ...] = ()
    failed: tuple[int, ...] = ()
    done: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field in which two configs of an instance mean something else."""

    field: str
    """Its path, such as `resource.cpu_limit` or `labels`."""
    key: str
    """Which element of the field: the key of a label, the name of a variable or port; else empty."""
    before: str
    """The value; empty where there was none."""
    after: str

    def __str__(self) -> str:
        """Tell the change, such as `labels: tier a → b`."""
        where = f"{self.field}: {self.key}" if self.key else f"{self.field}:"
        return f"{where} {self.before or '(none)'} → {self.after or '(none)'}"


@dataclass(frozen=True, slots=True)
class InstanceChanges:
    """Instances that an update restarts for the same changes."""

    instances: Ranges
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """What an update to a config would do to each instance."""

    added: Ranges
    removed: Ranges
    updated: Ranges
    unchanged: Ranges
    """They get the new version without a restart."""
    changes: tuple[InstanceChanges, ...] = ()
    """Why instances are updated; without those whose config is the same, which are restarted already."""
