"""No sequence of events makes a move that the tables do not hold."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from jobmgr.core.state import job_states as job
from jobmgr.core.state import task_states as moves
from jobmgr.core.state.change import Change
from peloton.model.ids import Run, mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.wire.mesos import TASK_STATES
from tests.property.jobmgr.simulation import Simulation
from tests.property.jobmgr.test_convergence import ENDS, INSTANCES, REQUESTS, SHAPES, take
from tests.unit.jobmgr_core.specs import JOB, spec

STEPS = st.lists(st.tuples(st.sampled_from((*REQUESTS, "any status")), st.integers(0, 1000)), max_size=80)
TASK_MOVES = {(before, after) for (before, _), after in moves.MACHINE.table.items()}
JOB_MOVES = {(before, after) for (before, _), after in job.MACHINE.table.items()}
STATES = sorted(set(TASK_STATES.values()))


def any_status(simulation: Simulation, at: int) -> None:
    """A status that nothing led up to."""
    run = Run(JOB, at % INSTANCES, 1 + at % 3)
    state = STATES[at // 7 % len(STATES)]
    reported = TaskStatus(mesos_task_id(*run), state, simulation.wall, agent_id="agent", uuid=b"agent")
    simulation.inbox.append(ev.Statuses([(run, reported)]))


@given(STEPS, ENDS, SHAPES)
@settings(max_examples=150, deadline=None)
def test_every_change_of_state_is_in_the_tables(
    order: list[tuple[str, int]], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> None:
    put = Change._put

    def checked(change: Change, instance: int, old: TaskRuntime, new: TaskRuntime) -> None:
        assert new.state is old.state or (old.state, new.state) in TASK_MOVES
        put(change, instance, old, new)

    simulation = Simulation(spec(INSTANCES, max_failures=3, **shape), outcomes)
    with patch.object(Change, "_put", checked):
        for kind, at in order:
            before = simulation.runtime.state
            if kind == "any status":
                any_status(simulation, at)
            else:
                take(simulation, (kind, at))
            after = simulation.runtime.state
            assert before is after or (before, after) in JOB_MOVES
