"""Batch jobs are moved at any time: waiting runs begin anew, others go on, whatever is late or lost."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from jobmgr.core.state.decisions import Relocated
from peloton.model.job import JobSpec
from peloton.model.states import ON_HOST_TASK_STATES, TaskState
from peloton.model.workload import GangPolicy
from tests.property.jobmgr import test_gangs as gangs
from tests.property.jobmgr.simulation import Simulation
from tests.property.jobmgr.test_convergence import (
    ENDS,
    INSTANCES,
    ORDINARY,
    REQUESTS,
    SHAPES,
    Step,
    add_up,
    steps,
    take,
)
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
MOVES = ("move", "move again")


def step_once(simulation: Simulation, step: Step) -> None:
    """Take a step. A move stores a config first; one that is made again only goes on with the last."""
    if step[0] in MOVES:
        if step[0] == "move":
            simulation.grow(0)
        simulation.inbox.append(ev.RelocationRequested(JOB, "somebody"))
    else:
        take(simulation, step)


def finish_move(simulation: Simulation) -> bool:
    """Ask until all instances have the newest config; False where the job is ending."""
    for _ in range(INSTANCES + 3):
        simulation.inbox.append(ev.RelocationRequested(JOB))
        simulation.run_cycle()
        answer = simulation.replies[-1][1]
        if not isinstance(answer, Relocated):
            return False
        if not answer.taken:
            return True
    raise AssertionError("it does not come to an end")


@given(steps((*REQUESTS, *MOVES)), ENDS, SHAPES)
@settings(max_examples=150, deadline=None)
def test_jobs_end_as_they_should_and_no_instance_runs_twice(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=3, **shape), outcomes)
    for step in order:
        step_once(simulation, step)
    simulation.settle()
    assert not simulation.twice
    assert simulation.runtime.state.terminal
    add_up(simulation)


@given(steps((*ORDINARY, *MOVES)), SHAPES)
@settings(max_examples=100, deadline=None)
def test_a_run_that_is_on_a_host_stays_there_until_it_ends(order: list[Step], shape: dict[str, int]) -> None:
    simulation = Simulation(spec(INSTANCES, **shape), {})
    for step in order:
        step_once(simulation, step)
    simulation.settle()
    assert Counter(instance for instance, _ in simulation.launched) == Counter(range(INSTANCES))
    assert {task.state for task in simulation.tasks.values()} == {S.SUCCEEDED}


@given(steps((*REQUESTS, *MOVES)), ENDS, SHAPES)
@example([("tear", 1), ("move", 0)], {}, {"minimumRunningInstances": 3})  # a member has no row yet
@settings(max_examples=100, deadline=None)
def test_after_a_move_no_run_begins_by_an_older_config(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=3, **shape), outcomes)
    for step in order:
        step_once(simulation, step)
    simulation.run_cycle()
    if simulation.retired or simulation.stored.version != max(simulation.specs):
        return
    if not finish_move(simulation):
        return
    newest, before = simulation.stored.version, dict(simulation.mine)
    gang = shape.get("minimumRunningInstances", 0)
    on_hosts = any(task.state in ON_HOST_TASK_STATES for i, task in before.items() if i < gang)
    simulation.settle()
    for instance, task in simulation.tasks.items():
        assert task.desired_config_version == newest
        old = before.get(instance)
        began = old is None or task.run > old.run
        waited = old is not None and old.state in (S.INITIALIZED, S.PENDING)
        if began or (waited and not (on_hosts and instance < gang)):
            assert task.config_version == newest or (task.state is S.KILLED and not began), f"{old} -> {task}"


GANGS = st.sampled_from([gangs.gang(GangPolicy.RESTART_GANG), gangs.gang(GangPolicy.FAIL)])


@given(steps((*gangs.REQUESTS, *ORDINARY, *MOVES)), ENDS, GANGS)
@settings(max_examples=150, deadline=None)
def test_members_of_a_gang_are_of_one_round_and_one_config(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], made: JobSpec
) -> None:
    simulation = Simulation(made, outcomes)
    for step in order:
        step_once(simulation, step)
        gangs.check(simulation)
        versions = {
            simulation.rows[i].config_version
            for i, run in simulation.alive
            if i < gangs.MEMBERS and simulation.rows[i].run == run
        }
        assert len(versions) <= 1, f"{simulation.alive} {simulation.rows}"
    gangs.settle(simulation)
    add_up(simulation)
