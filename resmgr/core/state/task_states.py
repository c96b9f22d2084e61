"""The states of a task in the resource manager, as one literal table."""

from __future__ import annotations

from enum import StrEnum

from peloton.model.states import TaskState
from peloton.statemachine import StateMachine


class Event(StrEnum):
    """What happens to a task in the resource manager."""

    ADMIT = "admit"
    DEQUEUE = "dequeue"
    RESERVE = "reserve"
    PLACE = "place"
    HAND_OVER = "hand over"
    RETRY = "retry"
    """Back to the ready queue, its allocation kept."""
    RETURN = "return"
    """Back to its pool's queue, its allocation freed."""
    TAKE_BACK = "take back"
    """The answer that handed it out did not reach the caller."""
    LAUNCHED = "launched"
    STARTING = "starting"
    RUNNING = "running"
    KILL = "kill"
    PREEMPT = "preempt"
    SPARE = "spare"
    """jobmgr did not take it from the preemption queue in time."""
    END = "end"


_S = TaskState
_BEFORE_LAUNCH = (_S.PENDING, _S.READY, _S.PLACING, _S.PLACED, _S.LAUNCHING, _S.RESERVED)
_ON_HOST = (_S.LAUNCHED, _S.STARTING, _S.RUNNING, _S.KILLING, _S.PREEMPTING)

STATES: StateMachine[TaskState, Event] = StateMachine(
    "resmgr task",
    {
        (_S.PENDING, Event.ADMIT): _S.READY,
        (_S.READY, Event.DEQUEUE): _S.PLACING,
        (_S.READY, Event.RESERVE): _S.RESERVED,
        (_S.PLACING, Event.RESERVE): _S.RESERVED,
        (_S.PLACING, Event.PLACE): _S.PLACED,
        (_S.RESERVED, Event.PLACE): _S.PLACED,
        (_S.PLACED, Event.HAND_OVER): _S.LAUNCHING,
        # A gang returns whole, whatever the states of its members.
        (_S.READY, Event.RETRY): _S.READY,
        (_S.PLACING, Event.RETRY): _S.READY,
        (_S.RESERVED, Event.RETRY): _S.READY,
        (_S.PLACED, Event.RETRY): _S.READY,
        (_S.LAUNCHING, Event.RETRY): _S.READY,
        (_S.READY, Event.RETURN): _S.PENDING,
        (_S.PLACING, Event.RETURN): _S.PENDING,
        (_S.RESERVED, Event.RETURN): _S.PENDING,
        (_S.PLACED, Event.RETURN): _S.PENDING,
        (_S.LAUNCHING, Event.RETURN): _S.PENDING,
        (_S.PLACING, Event.TAKE_BACK): _S.READY,
        (_S.LAUNCHING, Event.TAKE_BACK): _S.PLACED,
        # A status that reports the run on a host always counts, but never moves it back.
        **{(state, Event.LAUNCHED): _S.LAUNCHED for state in (*_BEFORE_LAUNCH, _S.LAUNCHED)},
        **{(state, Event.STARTING): _S.STARTING for state in (*_BEFORE_LAUNCH, _S.LAUNCHED, _S.STARTING)},
        **{
            (state, Event.RUNNING): _S.RUNNING
            for state in (*_BEFORE_LAUNCH, _S.LAUNCHED, _S.STARTING, _S.RUNNING)
        },
        (_S.STARTING, Event.LAUNCHED): _S.STARTING,
        (_S.RUNNING, Event.LAUNCHED): _S.RUNNING,
        (_S.RUNNING, Event.STARTING): _S.RUNNING,
        **{
            (state, event): state
            for state in (_S.KILLING, _S.PREEMPTING)
            for event in (Event.LAUNCHED, Event.STARTING, Event.RUNNING)
        },
        **{(state, Event.KILL): _S.KILLING for state in (_S.LAUNCHING, *_ON_HOST)},
        (_S.RUNNING, Event.PREEMPT): _S.PREEMPTING,
        (_S.PREEMPTING, Event.SPARE): _S.RUNNING,
        **{(state, Event.END): _S.DELETED for state in (*_BEFORE_LAUNCH, *_ON_HOST)},
    },
)
"""See docs/behaviour/pools.md, Task states.

PENDING is the only state without allocation; DELETED is forgotten at once."""

OBSERVED = {
    _S.LAUNCHED: Event.LAUNCHED,
    _S.STARTING: Event.STARTING,
    _S.RUNNING: Event.RUNNING,
    _S.KILLING: Event.KILL,
    _S.SUCCEEDED: Event.END,
    _S.FAILED: Event.END,
    _S.LOST: Event.END,
    _S.KILLED: Event.END,
    _S.DELETED: Event.END,
}
"""The event for a state of a run that Mesos or jobmgr reports."""

BEFORE_LAUNCH = frozenset(_BEFORE_LAUNCH)
IN_ENGINE = frozenset({_S.PLACING, _S.RESERVED})
ON_HOST = frozenset(_ON_HOST)
