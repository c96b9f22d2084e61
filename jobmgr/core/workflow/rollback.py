"""Rolling an update back: when it happens, and what it does. A user may ask for it, too."""

from __future__ import annotations

from jobmgr.core.state.change import Change
from jobmgr.core.workflow.moves import moved
from jobmgr.core.workflow.states import WorkflowCause
from peloton.model.states import TaskState
from peloton.model.workflow import Workflow, WorkflowType


def rolls_back(workflow: Workflow) -> bool:
    """Return whether a workflow in which too many instances have failed is rolled back.

    It is an update that was asked to, has not been rolled back before, and has a config to go back to.
    """
    asked = workflow.type is WorkflowType.UPDATE and workflow.options.rollback_on_failure
    return asked and not workflow.rolling_back and bool(workflow.previous_version)


def roll_back(change: Change, workflow: Workflow, now: int, reason: str) -> Workflow:
    """Reverse an update: the job goes by the config before, and instances get their attempts anew."""
    new = moved(change, workflow, WorkflowCause.ROLL_BACK, now, reason)
    change.grow(change.specs[workflow.previous_version])
    change.raise_workflow()
    for instance in range(change.size):
        task = change.task(instance)
        if task.failure_count and task.state is not TaskState.DELETED:
            change.revise(instance, failure_count=0)
    return new
