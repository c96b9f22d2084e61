"""Explanations of the states of tasks, as text and as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from peloton.cli.explain_client import JobWhy, TaskWhy
from peloton.cli.output import table
from peloton.model.spans import spans
from peloton.present.estimates import estimate_lines, estimate_plain
from peloton.present.plain import as_json
from peloton.present.texts import clean
from peloton.present.why import Group, Why, job_head

if TYPE_CHECKING:
    from peloton.private.resmgr.explain.explain_pb2 import Share

_INDENT = "  "


def task_plain(job_id: str, instance: int, explained: TaskWhy) -> dict[str, Any]:
    """Return the explanation of a task as plain data."""
    return {
        "jobId": job_id,
        "instanceId": instance,
        "state": explained.why.state,
        "cause": explained.why.cause,
        "lines": [*explained.why.lines, *share_lines(explained.why.shares)],
        "runtime": as_json(explained.info.runtime),
        "resmgr": as_json(explained.found) if explained.found is not None else None,
    }


def task_text(job_id: str, instance: int, explained: TaskWhy) -> str:
    """Return the explanation of a task as lines for users."""
    run = explained.info.runtime.mesosTaskId.value.rpartition("-")[2]
    head = f"Task {job_id}-{instance}" + (f", run {run}" if run else "")
    first, *more = why_lines(explained.why)
    return "\n".join([f"{head}: {first}", *(_INDENT + line for line in more)])


def why_lines(found: Why) -> list[str]:
    """Return an explanation as lines; the first is state and cause."""
    return [f"{found.state}: {found.cause}", *found.lines, *share_lines(found.shares)]


def job_plain(explained: JobWhy) -> dict[str, Any]:
    """Return the explanation of a job as plain data."""
    groups = [
        {
            "state": group.state,
            "cause": group.cause,
            "count": group.count,
            "instances": group.instances,
            "lines": _lines(group),
        }
        for group in explained.groups
    ]
    told: dict[str, Any] = {
        "jobId": explained.job.id.value,
        "summary": job_head(explained.job),
        "groups": groups,
    }
    if explained.hints:
        told["hints"] = explained.hints
    if explained.start is not None:
        told["start"] = estimate_plain(explained.start)
    return {**told, "reason": clean(reason)} if (reason := explained.job.runtime.reason) else told


def job_text(explained: JobWhy) -> str:
    """Return the explanation of a job as lines for users."""
    reason = explained.job.runtime.reason
    heads = [job_head(explained.job), *([clean(reason)] if reason else [])]
    start = [] if explained.start is None else estimate_lines(explained.start)
    return "\n".join([*heads, *(_group_text(group) for group in explained.groups), *explained.hints, *start])


def _group_text(group: Group) -> str:
    heads = [f"{group.count} {group.state}: {group.cause}"]
    if group.instances:
        more = ", …" if len(group.instances) < group.count else ""
        heads.append(f"{_INDENT}instances {spans(group.instances)}{more}")
    return "\n".join([*heads, *(_INDENT + line for line in _lines(group))])


def _lines(group: Group) -> list[str]:
    return [*group.lines, *share_lines(group.shares)]


def share_lines(shares: Iterable[Share]) -> list[str]:
    """Return a table of what pools have, nothing where there are none."""
    heads = ("Pool", "Kind", "Allocation", "Entitlement", "Demand", "Reservation", "Limit")
    rows = [
        (
            share.pool,
            f"{'slack ' if share.slack else ''}{share.kind}{share.hosts and f' on {share.hosts}'}",
            share.allocation,
            share.entitlement,
            share.demand,
            share.reservation,
            share.limit,
        )
        for share in shares
    ]
    return table(heads, rows).splitlines() if rows else []
