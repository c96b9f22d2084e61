"""Follow the update, restart or start of a service until it has ended, and say how it did."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from peloton.cli.exit_codes import DONE, JOB_FAILED
from peloton.cli.follow import ended, failed_instances, follow_to_end, stuck_reason
from peloton.cli.progress import STUCK, Seen, any_of, counts_text, follow, progress_line
from peloton.cli.session import Session
from peloton.cli.versions import present

if TYPE_CHECKING:
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import JobStatus

_END_STATES = ("SUCCEEDED", "ABORTED", "FAILED", "ROLLED_BACK")
REPLACED = "REPLACED"
"""Shown where another workflow of the job has begun meanwhile."""


def follow_workflow(session: Session, job_id: str) -> int:
    """Show how the present workflow of a service proceeds until it has ended; return the exit code."""
    begun = present(session, job_id).workflow_status.creation_time
    status = _followed(session, job_id, begun)
    if not session.plain:
        session.show(status, lambda: "", job_id)
    return _ended(session, job_id, seen_workflow(status, begun).state)


def follow_until_it_runs(session: Session, job_id: str) -> int:
    """Show the progress of a service until all of its instances run or it has ended; return the exit code.

    Those with a health check have to be healthy: only then has the workflow ended that creates them, and
    can another one begin.
    """
    from peloton.api.v0.job import job_pb2

    info = follow_to_end(session, job_id, until_it_runs=True)
    session.show(info, lambda: "", job_id)
    code = ended(session, info, until_it_runs=True)
    if code == DONE and info.config.type == job_pb2.SERVICE:
        return follow_the_rest(session, job_id)
    return code


def follow_the_rest(session: Session, job_id: str) -> int:
    """Wait for the end of a workflow that is under way, if there is one; return the exit code."""
    status = present(session, job_id)
    begun = status.workflow_status.creation_time
    if not begun or seen_workflow(status, begun).ended:
        return DONE
    status = _followed(session, job_id, begun)
    return _ended(session, job_id, seen_workflow(status, begun).state)


def _followed(session: Session, job_id: str, begun: str) -> JobStatus:
    """Show how a workflow proceeds until it has ended; return the job's status then."""

    def read() -> Seen[JobStatus]:
        return seen_workflow(present(session, job_id), begun)

    line = progress_line(sys.stdout if session.plain else sys.stderr)
    return follow(read, line, lambda: stuck_reason(session, job_id))


def _ended(session: Session, job_id: str, state: str) -> int:
    """Say how a workflow ended that did not succeed; return the exit code."""
    from peloton.cli.output import say

    if state == "SUCCEEDED":
        return DONE
    say(f"Job {job_id}: {_end_text(state)}")
    if state != REPLACED:
        for each in failed_instances(session, job_id):
            say(each)
    return JOB_FAILED


def seen_workflow(status: JobStatus, begun: str) -> Seen[JobStatus]:
    """Return what is shown of a workflow; `begun` is its creation time."""
    from peloton.api.v1alpha.job.stateless import stateless_pb2

    workflow = status.workflow_status
    state = stateless_pb2.WorkflowState.Name(workflow.state).removeprefix("WORKFLOW_STATE_")
    if workflow.creation_time != begun:
        return Seen(status, REPLACED, f"{REPLACED} by another update, restart, start or stop", True, False)
    counts = {name.removeprefix("POD_STATE_"): count for name, count in status.pod_stats.items()}
    done, left = workflow.num_instances_completed, workflow.num_instances_remaining
    failed = f", {workflow.num_instances_failed} failed" if workflow.num_instances_failed else ""
    shown = f": {parts}" if (parts := counts_text(counts)) else ""
    text = f"{state}  {done}/{done + left + workflow.num_instances_failed} done{failed}{shown}"
    return Seen(status, state, text, state in _END_STATES, any_of(counts, STUCK))


def _end_text(state: str) -> str:
    texts = {
        REPLACED: "another update, restart, start or stop has replaced this one",
        "ROLLED_BACK": "too many instances failed, so it was rolled back",
        "ABORTED": "it was aborted: the instances stay as they are",
    }
    return texts.get(state, f"it ended {state}")
