"""Tables of services, their pods and their workflows."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from peloton.cli.listing import Listing, listing
from peloton.cli.rows import EVENT_HEADS, TASK_HEADS, TASK_WIDE
from peloton.present.times import run_time, short_time

if TYPE_CHECKING:
    from peloton.api.v0.update.update_pb2 import UpdateInfo
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import (
        JobSummary,
        WorkflowEvent,
        WorkflowInfo,
        WorkflowType,
    )
    from peloton.api.v1alpha.job.stateless.svc.stateless_svc_pb2 import GetReplaceJobDiffResponse
    from peloton.api.v1alpha.pod.pod_pb2 import InstanceIDRange, PodEvent, PodStatus

SERVICE_HEADS = (
    *("ID", "Name", "Owner", "State", "Created", "Instances"),
    *("Running", "Succeeded", "Failed", "Killed", "Entity Version"),
)
SERVICE_WIDE = ("Goal State", "Pool", "Labels", "Reason")
WORKFLOW_HEADS = (
    *("Type", "State", "Done", "Remaining", "Failed", "From", "To"),
    *("Created", "Updated", "Completed", "Opaque Data"),
)
WORKFLOW_EVENT_HEADS = ("Time", "Type", "State")
UPDATE_HEADS = ("ID", "State", "Done", "Remaining", "Failed", "From", "To", "Opaque Data")


def service_table(jobs: Iterable[JobSummary]) -> Listing:
    """Return a table of jobs in the order given."""
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    rows = []
    for job in jobs:
        status = job.status
        counts = (
            status.pod_stats.get(f"POD_STATE_{name}", 0)
            for name in ("RUNNING", "SUCCEEDED", "FAILED", "KILLED")
        )
        rows.append(
            (
                job.job_id.value,
                job.name,
                job.owning_team or job.owner,
                stateless_pb2.JobState.Name(status.state).removeprefix("JOB_STATE_"),
                short_time(status.creation_time),
                job.instance_count,
                *counts,
                status.version.value,
                stateless_pb2.JobState.Name(status.desired_state).removeprefix("JOB_STATE_"),
                job.respool_id.value,
                ",".join(f"{label.key}={label.value}" for label in job.labels),
                status.reason,
            )
        )
    return listing((*SERVICE_HEADS, *SERVICE_WIDE), rows, wide=len(SERVICE_WIDE))


def pod_table(pods: Iterable[tuple[str, PodStatus]], now: float | None = None) -> Listing:
    """Return a table of pods, each given by its name and status; `now` is in seconds since 1970."""
    at = time.time() if now is None else now
    rows = [_pod_row(name, status, at) for name, status in pods]
    return listing((*TASK_HEADS, *TASK_WIDE), rows, wide=len(TASK_WIDE), name=1)


def _pod_row(name: str, status: PodStatus, now: float) -> tuple[object, ...]:
    from peloton.api.v1alpha.pod import pod_pb2

    health = pod_pb2.HEALTH_STATE_INVALID
    if status.containers_status:
        health = status.containers_status[0].healthy.state
    return (
        name.rpartition("-")[2],
        name,
        pod_pb2.PodState.Name(status.state).removeprefix("POD_STATE_"),
        pod_pb2.HealthState.Name(health).removeprefix("HEALTH_STATE_") if health else "",
        short_time(status.start_time),
        run_time(status.start_time, status.completion_time, now),
        status.host,
        status.message,
        status.reason,
        pod_pb2.PodState.Name(status.desired_state).removeprefix("POD_STATE_"),
        status.pod_id.value.rpartition("-")[2],
        status.failure_count,
        status.version.value,
    )


def pod_event_table(events: Iterable[PodEvent]) -> Listing:
    """Return a table of the events of a pod in the order given."""
    rows = [
        (
            event.pod_id.value.rpartition("-")[2],
            short_time(event.timestamp),
            event.actual_state.removeprefix("POD_STATE_"),
            event.desired_state.removeprefix("POD_STATE_"),
            event.healthy.removeprefix("HEALTH_STATE_"),
            event.version.value,
            event.hostname,
            event.message,
            event.reason,
        )
        for event in events
    ]
    return listing(EVENT_HEADS, rows)


def workflow_table(workflows: Iterable[WorkflowInfo]) -> Listing:
    """Return a table of workflows in the order given."""
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    rows = []
    for workflow in workflows:
        status = workflow.status
        rows.append(
            (
                _workflow_type(status.type),
                stateless_pb2.WorkflowState.Name(status.state).removeprefix("WORKFLOW_STATE_"),
                status.num_instances_completed,
                status.num_instances_remaining,
                status.num_instances_failed,
                status.prev_version.value,
                status.version.value,
                short_time(status.creation_time),
                short_time(status.update_time),
                short_time(status.completion_time),
                workflow.opaque_data.data,
            )
        )
    return listing(WORKFLOW_HEADS, rows)


def workflow_event_table(events: Iterable[WorkflowEvent]) -> Listing:
    """Return a table of the events of a workflow in the order given."""
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    rows = [
        (
            short_time(event.timestamp),
            _workflow_type(event.type),
            stateless_pb2.WorkflowState.Name(event.state).removeprefix("WORKFLOW_STATE_"),
        )
        for event in events
    ]
    return listing(WORKFLOW_EVENT_HEADS, rows)


def _workflow_type(number: WorkflowType.ValueType) -> str:
    """Return the name of a type; those of the v0 API that v1alpha does not know have none there."""
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    if number == stateless_pb2.WORKFLOW_TYPE_INVALID:
        return "START or STOP"
    return stateless_pb2.WorkflowType.Name(number).removeprefix("WORKFLOW_TYPE_")


def update_table(updates: Iterable[UpdateInfo]) -> Listing:
    """Return a table of v0 updates in the order given."""
    from peloton.api.v0.update import update_pb2

    rows = []
    for update in updates:
        status = update.status
        rows.append(
            (
                update.updateId.value,
                update_pb2.State.Name(status.state),
                status.numTasksDone,
                status.numTasksRemaining,
                status.numTasksFailed,
                update.prevConfigVersion,
                update.configVersion,
                update.opaque_data.data,
            )
        )
    return listing(UPDATE_HEADS, rows)


def closed_spans(ranges: Iterable[InstanceIDRange]) -> str:
    """Return closed ranges of instances as text: `0-9, 12`; `none` where there is none."""
    found = [(int(getattr(each, "from")), each.to) for each in ranges]
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found) or "none"


def diff_text(answer: GetReplaceJobDiffResponse) -> str:
    """Return what an update would do to the instances, and for which changes, as text."""
    lines = []
    for kind in ("added", "removed", "updated", "unchanged"):
        lines.append(f"{kind}: {closed_spans(getattr(answer, f'instances_{kind}'))}")
        for each in answer.changes if kind == "updated" else ():
            spans = closed_spans(each.instances)
            lines += [f"  {spans}: {field.text}" for field in each.fields]
    return "\n".join(lines)
