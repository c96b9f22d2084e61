"""The order of a run's events that have one timestamp, the same for every backend."""

from __future__ import annotations

from peloton.model.states import TaskState

LIFE = (
    TaskState.UNKNOWN,
    TaskState.INITIALIZED,
    TaskState.PENDING,
    TaskState.READY,
    TaskState.RESERVED,
    TaskState.PLACING,
    TaskState.PLACED,
    TaskState.LAUNCHING,
    TaskState.LAUNCHED,
    TaskState.STARTING,
    TaskState.RUNNING,
    TaskState.PREEMPTING,
    TaskState.KILLING,
    TaskState.SUCCEEDED,
    TaskState.FAILED,
    TaskState.LOST,
    TaskState.KILLED,
    TaskState.DELETED,
)
"""States in the order in which a run comes through them. Stored by place: only grows at its end."""
STEP = {state: step for step, state in enumerate(LIFE)}
"""The place of each state."""
END_STEPS = frozenset(step for state, step in STEP.items() if state.terminal)
"""The places of the states that end a run."""
