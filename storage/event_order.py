"""The order of a run's events that have one timestamp, the same for every backend."""

from __future__ import annotations

from peloton.model.states import TaskState

STATES = (
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
"""States in the order in which a run passes through them. Positions are stored: append only."""
STEP = {state: step for step, state in enumerate(STATES)}
"""The position of each state."""
assert set(STEP) == set(TaskState) and len(STEP) == len(STATES), "each state has one position"
END_STEPS = frozenset(step for state, step in STEP.items() if state.terminal)
"""The positions of terminal states."""
