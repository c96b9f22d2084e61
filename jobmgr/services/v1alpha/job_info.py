"""Jobs and their workflows as messages of the v1alpha API."""

from __future__ import annotations

from collections import Counter

from jobmgr.services.common.view import JobView
from jobmgr.services.v1alpha.pod_info import parsed_spec
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.model.job import JobSpec, JobSummary
from peloton.model.states import TaskState
from peloton.model.workflow import WorkflowStatus
from peloton.wire.v1alpha.job_status import job_status, job_summary
from peloton.wire.v1alpha.twins import filled_job
from peloton.wire.v1alpha.workflow import workflow_status


def spec_message(spec: JobSpec) -> stateless_pb2.JobSpec:
    """Return a spec as it was given, with twin fields filled and its version."""
    message = filled_job(parsed_spec(spec.payload))
    message.revision.version = spec.version
    return message


def status_message(job: JobView, workflow: WorkflowStatus | None) -> stateless_pb2.JobStatus:
    """Return the status of a job with its last workflow."""
    return _with_workflow(job_status(job.runtime, _counts(job)), workflow)


def summary_message(summary: JobSummary, workflow: WorkflowStatus | None = None) -> stateless_pb2.JobSummary:
    """Return the summary of a job."""
    message = job_summary(summary)
    _with_workflow(message.status, workflow)
    return message


def _with_workflow(
    status: stateless_pb2.JobStatus, workflow: WorkflowStatus | None
) -> stateless_pb2.JobStatus:
    if workflow is not None:
        status.workflow_status.CopyFrom(workflow_status(workflow))
    return status


def _counts(job: JobView) -> dict[int, Counter[TaskState]] | None:
    """Return the tasks of an active job by version and state; None where its runtime tells as much."""
    if job.cached is None or len(job.runtime.config_counts) < 2:
        return None
    counts: dict[int, Counter[TaskState]] = {}
    for _, task in job.cached.created():
        counts.setdefault(task.config_version, Counter())[task.state] += 1
    return counts
