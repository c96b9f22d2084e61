"""A bound gang runs as one: whatever ends, is repeated, late or lost, and wherever leaders fall."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.workload import GangPolicy, JobWorkload
from tests.property.jobmgr.simulation import Simulation
from tests.property.jobmgr.test_convergence import ENDS, INSTANCES, ORDINARY, ROUGH, Step, steps, take
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
MEMBERS = 3
BINDING = (GangPolicy.RESTART_GANG, GangPolicy.FAIL)
EVICTIONS = ("preempt", "drain")
REQUESTS = ("stop some", "start some", "restart some")


def gang(policy: GangPolicy, max_failures: int = 100) -> JobSpec:
    made = spec(INSTANCES, max_failures=max_failures, minimumRunningInstances=MEMBERS)
    return replace(made, workload=JobWorkload(gang_policy=policy))


def step_on(simulation: Simulation, step: Step) -> None:
    """Take a step, and see that the members that live are of one round."""
    kind, at = step
    if kind in EVICTIONS:
        some = [Run(JOB, *list(simulation.alive)[at % len(simulation.alive)])] if simulation.alive else []
        preempted = ev.Preempted([(run, "the pool is over") for run in some])
        simulation.inbox.append(preempted if kind == "preempt" else ev.Draining(some))
    else:
        take(simulation, step)
    check(simulation)


def check(simulation: Simulation) -> None:
    alive = {key for key in simulation.alive if key[0] < MEMBERS}
    assert len({run for _, run in alive}) <= 1, f"two rounds at once: {alive} {simulation.rows}"
    assert not simulation.twice


def settle(simulation: Simulation) -> None:
    """Run until the job has ended, and check each step."""
    for _ in range(3000):
        if simulation.retired and not simulation.alive and not simulation.todo and not simulation.inbox:
            return
        simulation.advance()
        check(simulation)
    raise AssertionError(f"not over: {simulation.runtime.state.name} {simulation.rows}")


def failed_rounds(simulation: Simulation) -> set[int]:
    """The rounds in which the run of a member was to fail."""
    return {
        run
        for instance, run in simulation.launched
        if instance < MEMBERS and simulation.outcomes.get((instance, run)) is S.FAILED
    }


@given(steps((*ROUGH, *EVICTIONS)), ENDS)
@settings(max_examples=150, deadline=None)
def test_a_gang_runs_again_as_one_until_it_succeeds(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState]
) -> None:
    simulation = Simulation(gang(GangPolicy.RESTART_GANG), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation)
    assert simulation.runtime.state is JobState.SUCCEEDED
    assert simulation.runtime.task_counts == {S.SUCCEEDED: INSTANCES}
    assert len({simulation.rows[member].run for member in range(MEMBERS)}) == 1
    counted = sum(simulation.rows[member].failure_count for member in range(MEMBERS))
    assert counted <= len(failed_rounds(simulation)), "a round counts as one failure at most"


@given(steps((*ROUGH, *EVICTIONS, *REQUESTS)), ENDS, st.sampled_from(BINDING), st.integers(0, 2))
@example([("stop some", 0), ("start some", 0), ("tear", 1)], {}, GangPolicy.RESTART_GANG, 0)
@settings(max_examples=150, deadline=None)
def test_members_of_two_rounds_never_live_together(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], policy: GangPolicy, attempts: int
) -> None:
    simulation = Simulation(gang(policy, attempts), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation)
    assert simulation.runtime.state.terminal
    assert all(task.state.terminal for task in simulation.tasks.values())
    counted = sum(simulation.rows[member].failure_count for member in range(MEMBERS))
    assert counted <= len(failed_rounds(simulation))


@given(steps((*ORDINARY, *EVICTIONS)), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_evictions_count_nothing(order: list[Step], attempts: int) -> None:
    for policy in BINDING:
        simulation = Simulation(gang(policy, attempts), {(1, 1): S.LOST, (2, 2): S.KILLED})
        for step in order:
            step_on(simulation, step)
        settle(simulation)
        assert not any(simulation.rows[member].failure_count for member in range(MEMBERS))
        assert all(simulation.rows[member].state is S.SUCCEEDED for member in range(MEMBERS))


@given(steps(ORDINARY), st.integers(0, MEMBERS - 1), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_a_gang_fails_after_as_many_rounds_as_it_may(order: list[Step], member: int, attempts: int) -> None:
    """However many members fail in a round, and whichever they are."""
    outcomes = {(i, run): S.FAILED for i in (member, 2) for run in range(1, 9)}
    simulation = Simulation(gang(GangPolicy.RESTART_GANG, attempts), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation)
    assert simulation.runtime.state is JobState.FAILED
    rows = [simulation.rows[each] for each in range(MEMBERS)]
    assert {task.run for task in rows} == {max(attempts, 1)}
    assert sum(task.failure_count for task in rows) == max(attempts, 1)


@given(steps((*ORDINARY, "fail over", "tear", "crash")), st.integers(0, MEMBERS - 1))
@settings(max_examples=80, deadline=None)
def test_a_gang_that_is_to_fail_does_not_run_again(order: list[Step], member: int) -> None:
    outcomes = {(member, run): S.FAILED for run in range(1, 9)}
    simulation = Simulation(gang(GangPolicy.FAIL, 5), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation)
    assert simulation.runtime.state is JobState.FAILED
    assert sum(simulation.rows[each].failure_count for each in range(MEMBERS)) == 1
