"""A job's workflows: how far they are, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.model.spans import spans
from peloton.web.formats import seconds_of

MOST_CELLS = 120
"""Batches that are drawn one by one."""
CREATION = "creation"
ACTIVE = ("INITIALIZED", "ROLLING_FORWARD", "PAUSED", "ROLLING_BACKWARD")


@dataclass(frozen=True, slots=True)
class Cell:
    """A batch."""

    number: int
    look: str
    """`done`, `now` or `left`."""


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a workflow's state."""

    at: float
    state: str


@dataclass(frozen=True, slots=True)
class Workflow:
    """An update or a restart."""

    kind: str
    state: str
    done: int
    failed: int
    left: int
    now: str
    """Instances in flight, as ranges."""
    now_count: int
    before: str
    after: str
    """Entity versions."""
    batch_size: int
    """0: all at once."""
    cells: Sequence[Cell]
    created: float
    updated: float
    completed: float
    added: str
    changed: str
    removed: str
    """Instances as ranges; empty where there are none."""
    options: Sequence[str]
    note: str
    """Opaque data that was given with it."""
    steps: Sequence[Step]

    @property
    def creates(self) -> bool:
        """Whether it is the first: it brings the job's instances up."""
        return self.kind == CREATION

    @property
    def created_well(self) -> bool:
        """Whether it is a creation that is over and went well: there is nothing to tell of it."""
        return self.creates and self.state == "SUCCEEDED"

    @property
    def active(self) -> bool:
        """Whether it is under way."""
        return self.state in ACTIVE

    @property
    def paused(self) -> bool:
        """Whether it is paused."""
        return self.state == "PAUSED"

    @property
    def total(self) -> int:
        """Instances that it is about."""
        return self.done + self.failed + self.left

    @property
    def to_come(self) -> int:
        """Instances that are neither done nor in flight."""
        return max(self.left - self.now_count, 0) if self.active else self.left

    @property
    def batches(self) -> int:
        """Number of batches."""
        return -(-self.total // self.batch_size) if self.batch_size else min(self.total, 1)

    @property
    def batch(self) -> int:
        """Number of the batch that is under way, from 1."""
        size = self.batch_size or max(self.total, 1)
        return min((self.done + self.failed) // size + 1, max(self.batches, 1))


def workflow(info: stateless_pb2.WorkflowInfo) -> Workflow | None:
    """Return a workflow, None for an answer without one."""
    status = info.status
    state = stateless_pb2.WorkflowState.Name(status.state).removeprefix("WORKFLOW_STATE_")
    if state == "INVALID":
        return None
    failed = status.num_instances_failed
    done = status.num_instances_completed
    found = Workflow(
        kind=_kind(status),
        state=state,
        done=done,
        failed=failed,
        left=status.num_instances_remaining,
        now=spans(status.instances_current) if status.instances_current else "",
        now_count=len(status.instances_current),
        before=status.prev_version.value,
        after=status.version.value,
        batch_size=info.update_spec.batch_size or info.restart_spec.batch_size,
        cells=(),
        created=seconds_of(status.creation_time),
        updated=seconds_of(status.update_time),
        completed=seconds_of(status.completion_time),
        added=ranges(info.instances_added),
        changed=ranges(info.instances_updated),
        removed=ranges(info.instances_removed),
        options=_options(info.update_spec),
        note=info.opaque_data.data,
        steps=[
            Step(
                seconds_of(event.timestamp),
                stateless_pb2.WorkflowState.Name(event.state).removeprefix("WORKFLOW_STATE_"),
            )
            for event in info.events
        ],
    )
    return _with_cells(found)


def _with_cells(found: Workflow) -> Workflow:
    if not 1 < found.batches <= MOST_CELLS:
        return found
    ended = found.done + found.failed
    cells = []
    for at in range(found.batches):
        whole = ended >= min((at + 1) * found.batch_size, found.total)
        look = "done" if whole else "now" if at + 1 == found.batch and found.active else "left"
        cells.append(Cell(at + 1, look))
    return replace(found, cells=cells)


def _kind(status: stateless_pb2.WorkflowStatus) -> str:
    """Return the name of a type; those of the v0 API that v1alpha does not know have none there."""
    name = stateless_pb2.WorkflowType.Name(status.type).removeprefix("WORKFLOW_TYPE_").lower()
    if name == "update" and status.prev_version.value.startswith("0-"):
        return CREATION  # the interface has it as an update of nothing
    return "start or stop" if name == "invalid" else name


def ranges(closed: Iterable[pod_pb2.InstanceIDRange]) -> str:
    """Return closed ranges of instances as text, empty where there are none."""
    found = [(getattr(each, "from"), each.to) for each in closed]
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)


def _options(spec: stateless_pb2.UpdateSpec) -> list[str]:
    found = []
    if spec.rollback_on_failure:
        found.append("rolls back where it fails")
    if spec.max_instance_retries:
        found.append(f"an instance has failed after {spec.max_instance_retries} failed runs")
    if spec.max_tolerable_instance_failures:
        found.append(f"fails after {spec.max_tolerable_instance_failures} failed instances")
    if spec.in_place:
        found.append("in place, on the same hosts")
    if spec.start_pods:
        found.append("starts stopped instances too")
    return found
