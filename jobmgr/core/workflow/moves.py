"""Moves of a workflow from state to state, and the events that tell of them."""

from __future__ import annotations

from dataclasses import replace

from jobmgr.core.state.change import Change
from jobmgr.core.workflow.states import MACHINE, WorkflowCause
from peloton.model.workflow import WHOLE_WORKFLOW, Workflow, WorkflowEvent, WorkflowState


def moved(change: Change, workflow: Workflow, cause: WorkflowCause, now: int, reason: str = "") -> Workflow:
    """Take the workflow to the state that `cause` leads to. Raises IllegalTransition."""
    assert change.workflow is not None and change.workflow.id == workflow.id, (
        f"{workflow.id} moves, and {change.workflow and change.workflow.id} is the one of {change.job_id}"
    )
    state = MACHINE.next(workflow.state, cause, workflow.id)
    new = replace(
        workflow,
        state=state,
        previous_state=workflow.state,
        rolling_back=workflow.rolling_back or cause is WorkflowCause.ROLL_BACK,
        reason=reason,
        revision=workflow.revision + 1,
        updated_at=now,
        completed_at=now if state.terminal else 0,
    )
    change.put_workflow(new, event_of(new, WHOLE_WORKFLOW, state, now))
    return new


def event_of(workflow: Workflow, instance: int, state: WorkflowState, now: int) -> WorkflowEvent:
    """Return an event of a workflow (WHOLE_WORKFLOW) or of one of its instances."""
    return WorkflowEvent(workflow.id, workflow.job_id, instance, workflow.type, state, now)
