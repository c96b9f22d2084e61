"""Calls that a client makes again because an answer was lost: one whose first try was done succeeds.

Such a call carries an entity version that its own first try has made stale. No two changes are made from the
same version, so what was made from it is either the caller's own change or somebody else's.
"""

from __future__ import annotations

from typing import Any

from jobmgr.engine.workflows import Workflows
from jobmgr.services.common.view import JobView
from peloton.identity.principal import author
from peloton.leaders import REPEATED
from peloton.model.job import JobSpec
from peloton.model.states import JobState
from peloton.model.workflow import (
    EntityVersion,
    Ranges,
    Workflow,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from peloton.wire.payload import same_config
from peloton.wire.v1alpha.job_status import entity_version


def repeated(context: Any) -> bool:
    """Return whether the caller says that an earlier try of this call may have been carried out."""
    metadata = () if context is None else context.invocation_metadata() or ()
    return any(key == REPEATED for key, _ in metadata)


async def begun(
    workflows: Workflows,
    job: JobView,
    expected: EntityVersion,
    wanted: tuple[WorkflowType, WorkflowOptions, Ranges],
    opaque_data: str,
    spec: JobSpec | None = None,
) -> EntityVersion | None:
    """Return the version that the caller's own workflow has made from the expected one; None if none has."""
    for status in await workflows.list(job.job_id):
        found = status.workflow
        if not _made_from(found, expected) or (found.type, found.options, found.ranges) != wanted:
            continue
        if found.opaque_data != opaque_data or found.by != author():
            continue
        if spec is not None and not same_config(
            (await job.version(found.config_version)).payload, spec.payload
        ):
            continue
        now = entity_version(job.runtime)
        return EntityVersion(found.config_version, now.desired_state, expected.workflow + 1)
    return None


def _made_from(workflow: Workflow, expected: EntityVersion) -> bool:
    made = (workflow.previous_version, workflow.workflow_version)
    return made == (expected.config, expected.workflow + 1)


STEERED = {
    "pause": frozenset({WorkflowState.PAUSED}),
    "resume": frozenset(set(WorkflowState) - {WorkflowState.PAUSED, WorkflowState.ABORTED}),
    "abort": frozenset({WorkflowState.ABORTED}),
}
"""The states in which a workflow may be after each request."""


async def steered(
    workflows: Workflows, job: JobView, expected: EntityVersion, what: str, opaque_data: str
) -> EntityVersion | None:
    """Return the version of a job whose workflow was steered from the expected one as the caller wants it."""
    now, current = entity_version(job.runtime), await workflows.current(job.job_id)
    if now != expected._replace(workflow=expected.workflow + 1) or current is None:
        return None
    told = not opaque_data or current.workflow.opaque_data == opaque_data
    return now if told and current.workflow.state in STEERED[what] else None


def aimed(job: JobView, expected: EntityVersion, goal: JobState) -> EntityVersion | None:
    """Return the version of a job whose goal was set from the expected one as the caller wants it."""
    now = entity_version(job.runtime)
    made = expected._replace(desired_state=expected.desired_state + 1)
    return now if now == made and job.runtime.goal is goal else None
