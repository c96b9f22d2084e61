"""Jobs end as they should, and no instance runs twice at once, whatever is repeated, late or lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st
from pytest import approx

from jobmgr.core.state import events as ev
from peloton.model.states import JobState, TaskState
from tests.property.jobmgr.simulation import Simulation
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
INSTANCES = 5
Step = tuple[str, int]

ORDINARY = ("act", "act", "progress", "progress", "by master", "place", "repeat", "cycle", "cycle")
ROUGH = (
    *ORDINARY,
    "refuse enqueue",
    "refuse launch",
    "lose answer",
    "lose call",
    "fail over",
    "crash",
    "tear",
    "restart resmgr",
    "wait",
)
REQUESTS = (*ROUGH, "stop some", "start some", "restart some", "stop all", "grow")


def steps(of: tuple[str, ...]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(of), st.integers(0, 1000)), max_size=60)


ENDS = st.dictionaries(
    st.tuples(st.integers(0, INSTANCES), st.integers(1, 4)),
    st.sampled_from([S.FAILED, S.LOST, S.KILLED]),
    max_size=12,
)
SHAPES = st.sampled_from(
    [{}, {"maximumRunningInstances": 2}, {"minimumRunningInstances": 3}, {"maxRunningTime": 3600}]
)


def take(simulation: Simulation, step: Step) -> None:
    kind, at = step
    some = sorted({at % INSTANCES, at // 7 % INSTANCES})
    if kind == "act" and simulation.todo:
        simulation.act(at)
    elif kind == "progress" and simulation.alive:
        simulation.progress(at)
    elif kind == "by master" and simulation.alive:
        simulation.progress(at, by_master=True)
    elif kind == "repeat" and simulation.sent:
        simulation.repeat(at)
    elif kind == "place":
        simulation.place()
    elif kind == "refuse launch":
        simulation.refuse_launch(at)
    elif kind == "refuse enqueue":
        simulation.refuse_enqueue(at)
    elif kind in ("lose answer", "lose call"):
        simulation.lose_answer(at, kind == "lose answer")
    elif kind == "fail over":
        simulation.fail_over()
    elif kind == "crash":
        simulation.run_cycle(crash=True)
        simulation.fail_over()
    elif kind == "tear":
        simulation.tear(at)
    elif kind == "restart resmgr":
        simulation.restart_resmgr()
    elif kind == "wait":
        simulation.monotonic += at / 10
    elif kind == "stop some":
        simulation.inbox.append(ev.StopRequested(JOB, some))
    elif kind == "start some":
        simulation.inbox.append(ev.StartRequested(JOB, some))
    elif kind == "restart some":
        simulation.inbox.append(ev.RestartRequested(JOB, some))
    elif kind == "stop all":
        simulation.inbox.append(ev.StopRequested(JOB, None))
    elif kind == "grow":
        simulation.grow(at % 3)
    elif kind == "grow with retries":
        simulation.grow(at % 3, max_failures=at % 4)
    elif kind == "cycle":
        simulation.run_cycle()


def add_up(simulation: Simulation) -> None:
    """The job's sums are those of its tasks."""
    runtime, rows = simulation.runtime, simulation.tasks.values()
    mine = simulation.mine.values()
    assert runtime.released == sum(task.goal is S.DELETED for task in mine)
    assert runtime.task_counts == Counter(task.state for task in rows)
    assert runtime.config_counts == Counter(task.config_version for task in rows)
    for kind in ("cpu", "memory"):
        used = sum(task.resource_usage.get(kind, 0.0) for task in mine)
        assert runtime.resource_usage.get(kind, 0.0) == approx(used)
    started = [task.start_time for task in rows if task.start_time]
    assert bool(runtime.start_time) or not started
    assert runtime.completion_time


def expected(outcomes: dict[tuple[int, int], TaskState], attempts: int) -> dict[int, tuple[int, TaskState]]:
    """The last run of each instance, and how it ends, by the retry policy alone."""
    return {instance: _last(outcomes, instance, attempts) for instance in range(INSTANCES)}


def _last(
    outcomes: dict[tuple[int, int], TaskState],
    instance: int,
    attempts: int,
    launched: Container[tuple[int, int]] | None = None,
) -> tuple[int, TaskState]:
    """`launched` has the runs that reached Mesos (None: all): a leader may fall before it launches one."""
    failures = 0
    for run in count(1):
        if launched is not None and (instance, run) not in launched:
            continue
        end = outcomes.get((instance, run), S.SUCCEEDED)
        failures += end is S.FAILED
        if end is S.SUCCEEDED or failures >= max(attempts, 1) or (end is S.LOST and not attempts):
            return run, end
    raise AssertionError("unreachable")


@given(steps(ORDINARY), ENDS, SHAPES, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_order_and_duplicates_change_nothing(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int], attempts: int
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=attempts, **shape), outcomes)
    for step in order:
        take(simulation, step)
    simulation.settle()
    ends = {instance: (task.run, task.state) for instance, task in simulation.rows.items()}
    assert ends == expected(outcomes, attempts)
    assert len(simulation.launched) == sum(run for run, _ in ends.values())
    assert not simulation.twice
    failed = any(state is not S.SUCCEEDED for _, state in ends.values())
    assert simulation.runtime.state is (JobState.FAILED if failed else JobState.SUCCEEDED)


@given(steps((*ORDINARY, "fail over", "grow with retries")), ENDS, st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_each_instance_is_retried_by_its_own_version(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], attempts: int
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=attempts), outcomes)
    for step in order:
        take(simulation, step)
    simulation.settle()
    for instance, task in simulation.tasks.items():
        own = simulation.specs[task.config_version].task(instance).max_failures
        assert (instance, task.run) in simulation.launched
        assert (task.run, task.state) == _last(outcomes, instance, own, simulation.launched)
    assert simulation.runtime.config_counts == Counter(t.config_version for t in simulation.tasks.values())
    assert not simulation.twice


@given(steps(ROUGH), ENDS, SHAPES)
@settings(max_examples=80, deadline=None)
def test_crashes_and_unknown_outcomes_lose_nothing(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=100, **shape), outcomes)
    for step in order:
        take(simulation, step)
    simulation.settle()
    assert simulation.runtime.state is JobState.SUCCEEDED
    assert simulation.runtime.task_counts == {S.SUCCEEDED: INSTANCES}
    add_up(simulation)
    assert {instance for instance, _ in simulation.launched} == set(range(INSTANCES))
    assert not simulation.twice


@given(steps(ROUGH), SHAPES)
@settings(max_examples=80, deadline=None)
def test_tasks_that_do_not_fail_need_no_retries(order: list[Step], shape: dict[str, int]) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=0, **shape), {})
    for step in order:
        take(simulation, step)
    simulation.settle()
    assert simulation.runtime.task_counts == {S.SUCCEEDED: INSTANCES}
    assert not any(task.failure_count for task in simulation.rows.values())
    assert not simulation.twice


@given(steps(REQUESTS), ENDS, SHAPES)
@settings(max_examples=80, deadline=None)
def test_requests_of_clients_take_effect(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=3, **shape), outcomes)
    for step in order:
        take(simulation, step)
    simulation.settle()
    assert simulation.runtime.state.terminal
    assert all(task.state.terminal for task in simulation.tasks.values())
    assert len(simulation.tasks) == simulation.stored.instance_count >= INSTANCES
    add_up(simulation)
    assert not simulation.twice
    for task in simulation.tasks.values():
        assert task.goal is not S.KILLED or task.state in (S.KILLED, S.SUCCEEDED, S.FAILED, S.LOST)


@given(steps(ROUGH), ENDS, st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_no_more_than_the_maximum_run_in_mesos(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], maximum: int
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=100, maximumRunningInstances=maximum), outcomes)
    for step in order:
        take(simulation, step)
        assert len(simulation.alive) <= maximum
    simulation.settle()
