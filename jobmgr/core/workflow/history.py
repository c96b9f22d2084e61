"""What a workflow has done, as it is told from its stored events."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.workflow import WHOLE_WORKFLOW, WorkflowEvent, WorkflowState

_BEGINNINGS = frozenset({WorkflowState.ROLLING_FORWARD, WorkflowState.ROLLING_BACKWARD})


def without_repeats(events: Sequence[WorkflowEvent]) -> tuple[WorkflowEvent, ...]:
    """Return the events of a workflow, or of one of its instances, newest first, each step once.

    A leader that falls may have stored events without the tasks and the workflow that they belong to. The
    next one takes these steps again, and stores their events with times of its own. The first event of a
    step stays.
    """
    kept: list[WorkflowEvent] = []
    begun: set[WorkflowState] = set()
    for event in reversed(events):
        repeated = kept and event.state is kept[-1].state
        # A workflow may be paused and go on; it takes up an instance once in each direction.
        again = event.instance != WHOLE_WORKFLOW and event.state in begun
        if not repeated and not again:
            kept.append(event)
            begun.update(_BEGINNINGS & {event.state})
    return tuple(reversed(kept))
