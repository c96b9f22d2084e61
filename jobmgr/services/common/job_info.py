"""Jobs and their workflows as messages of the v1alpha API."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.view import JOB_NOT_FOUND, JobView, view
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.errors import NotFound
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec, JobSummary, instance_count
from peloton.model.payload import Payload
from peloton.model.states import JobType, TaskState
from peloton.model.workflow import WorkflowStatus
from peloton.wire.payload import v1alpha_spec
from peloton.wire.v1alpha.duplicate_fields import filled_job
from peloton.wire.v1alpha.job_status import job_status, job_summary
from peloton.wire.v1alpha.workflow import workflow_status


def spec_message(spec: JobSpec, runtime: JobRuntime) -> stateless_pb2.JobSpec:
    """Return a spec as it was given, with twin fields filled, its version and the number of instances."""
    message = filled_job(parsed_spec(spec.payload))
    message.revision.version = spec.version
    message.instance_count = instance_count(spec, runtime)
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


async def last_workflow(workflows: Workflows, job: JobView) -> WorkflowStatus | None:
    """Return the workflow of a job that runs, or ran last; None where there is none, as in batch jobs."""
    if job.spec.type is JobType.BATCH:
        return None
    return await workflows.current(job.job_id)


async def cached_job(
    engine: Engine, workflows: Workflows, job_id: JobId
) -> tuple[stateless_pb2.JobSpec, stateless_pb2.JobStatus]:
    """Return spec and status of a job as it is in memory. Raises NotFound for one that has ended."""
    if engine.job(job_id) is None:
        raise NotFound(f"{JOB_NOT_FOUND} in memory: only active jobs are held there")
    job = await view(engine, job_id)
    return spec_message(job.spec, job.runtime), status_message(job, await last_workflow(workflows, job))


@lru_cache(maxsize=32)
def parsed_spec(payload: Payload) -> stateless_pb2.JobSpec:
    """Return a parsed spec, twin fields as given. Shared between calls: not to be changed."""
    return v1alpha_spec(payload)
