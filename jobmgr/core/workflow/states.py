"""The states of a workflow, and which follows which."""

from __future__ import annotations

from enum import Enum

from peloton.model.workflow import WorkflowState
from peloton.statemachine import StateMachine


class WorkflowCause(Enum):
    """Why the state of a workflow changes."""

    BEGIN = "begin"
    PAUSE = "pause"
    """A user halts it, or it is to start paused."""
    RESUME_FORWARD = "resume forward"
    RESUME_BACKWARD = "resume backward"
    ROLL_BACK = "roll back"
    """Too many instances failed, or a user wants it."""
    DONE = "done"
    """All instances are done, or failed within the limit."""
    FAIL = "fail"
    """Too many instances failed."""
    ABORT = "abort"
    """A user ends it, or a newer update takes its place."""


_S, _C = WorkflowState, WorkflowCause
MACHINE: StateMachine[WorkflowState, WorkflowCause] = StateMachine(
    "workflow",
    {
        (_S.INITIALIZED, _C.BEGIN): _S.ROLLING_FORWARD,
        (_S.INITIALIZED, _C.PAUSE): _S.PAUSED,
        (_S.INITIALIZED, _C.ROLL_BACK): _S.ROLLING_BACKWARD,
        (_S.INITIALIZED, _C.ABORT): _S.ABORTED,
        (_S.ROLLING_FORWARD, _C.PAUSE): _S.PAUSED,
        (_S.ROLLING_FORWARD, _C.ROLL_BACK): _S.ROLLING_BACKWARD,
        (_S.ROLLING_FORWARD, _C.DONE): _S.SUCCEEDED,
        (_S.ROLLING_FORWARD, _C.FAIL): _S.FAILED,
        (_S.ROLLING_FORWARD, _C.ABORT): _S.ABORTED,
        (_S.PAUSED, _C.RESUME_FORWARD): _S.ROLLING_FORWARD,
        (_S.PAUSED, _C.RESUME_BACKWARD): _S.ROLLING_BACKWARD,
        (_S.PAUSED, _C.ROLL_BACK): _S.ROLLING_BACKWARD,
        (_S.PAUSED, _C.ABORT): _S.ABORTED,
        (_S.ROLLING_BACKWARD, _C.PAUSE): _S.PAUSED,
        (_S.ROLLING_BACKWARD, _C.DONE): _S.ROLLED_BACK,
        (_S.ROLLING_BACKWARD, _C.FAIL): _S.FAILED,
        (_S.ROLLING_BACKWARD, _C.ABORT): _S.ABORTED,
    },
)
"""The moves of a workflow. It rolls back once at most; what has ended stays as it is."""
