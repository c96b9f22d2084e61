"""A gang that grows in place: members join and leave alone, and the job ends with those that it needs."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.workload import GangPolicy, JobWorkload
from tests.property.jobmgr.test_convergence import ENDS, INSTANCES, ORDINARY, ROUGH, Step, steps, take
from tests.property.jobmgr.test_elastic_gangs import NEEDED, Room
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
CHANGES = ("preempt", "drain", "room")
REQUESTS = ("stop some", "start some", "restart some", "release", "grow")


def gang(max_failures: int = 100) -> JobSpec:
    made = spec(INSTANCES, max_failures=max_failures, minimumRunningInstances=NEEDED)
    workload = JobWorkload(gang_policy=GangPolicy.RESTART_MEMBER, growth_interval=300)
    return replace(made, workload=workload)


def step_on(simulation: Room, step: Step) -> None:
    kind, at = step
    if kind in ("preempt", "drain"):
        some = [Run(JOB, *list(simulation.alive)[at % len(simulation.alive)])] if simulation.alive else []
        preempted = ev.Preempted([(run, "the pool is over") for run in some])
        simulation.inbox.append(preempted if kind == "preempt" else ev.Draining(some))
    elif kind == "room":
        simulation.room = at % (INSTANCES + 1)
    elif kind == "release":
        simulation.inbox.append(ev.ReleaseRequested(JOB, [NEEDED + at % (INSTANCES - NEEDED)]))
    else:
        take(simulation, step)
    assert not simulation.twice


def settle(simulation: Room, room: int = INSTANCES) -> None:
    """Give room, and run until the job has ended."""
    simulation.room = room
    for _ in range(4000):
        if simulation.retired and not simulation.alive and not simulation.todo and not simulation.inbox:
            return
        simulation.advance()
        assert not simulation.twice
    raise AssertionError(f"not over: {simulation.runtime.state.name} {simulation.rows} {simulation.known}")


@given(steps((*ROUGH, *CHANGES)), ENDS, st.integers(NEEDED, INSTANCES))
@settings(max_examples=200, deadline=None)
def test_the_job_succeeds_with_those_that_it_needs_whatever_comes_between(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], room: int
) -> None:
    simulation = Room(gang(), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation, room)
    assert simulation.runtime.state is JobState.SUCCEEDED
    assert all(simulation.rows[needed].state is S.SUCCEEDED for needed in range(NEEDED))
    assert all(task.state in (S.SUCCEEDED, S.KILLED) for task in simulation.rows.values())


@given(steps((*ORDINARY, *CHANGES)))
@settings(max_examples=100, deadline=None)
def test_only_the_member_that_is_evicted_runs_again(order: list[Step]) -> None:
    """Each eviction costs one run; growing costs none."""
    simulation = Room(gang(max_failures=0), {})
    evicted = 0
    for step in order:
        evicted += step[0] in ("preempt", "drain") and bool(simulation.alive)
        step_on(simulation, step)
    settle(simulation)
    assert simulation.runtime.state is JobState.SUCCEEDED
    assert not any(task.failure_count for task in simulation.rows.values())
    assert sum(task.run - 1 for task in simulation.rows.values()) <= evicted


@given(steps((*ROUGH, *CHANGES, *REQUESTS)), ENDS, st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_it_ends_whatever_is_asked(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], attempts: int
) -> None:
    simulation = Room(gang(attempts), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation, simulation.stored.instance_count)
    assert simulation.runtime.state.terminal
    assert all(task.state.terminal for task in simulation.tasks.values())
