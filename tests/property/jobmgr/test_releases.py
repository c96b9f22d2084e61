"""Instances are released and their numbers used again, at any time, whatever is repeated, late or lost."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from peloton.errors import PelotonError
from peloton.model.states import TaskState
from tests.property.jobmgr.simulation import Simulation
from tests.property.jobmgr.test_convergence import ENDS, INSTANCES, REQUESTS, ROUGH, Step, add_up, steps, take
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
RELEASES = ("release some", "release some", "reuse", "reuse")
SHAPES = st.sampled_from([{}, {"maximumRunningInstances": 2}, {"minimumRunningInstances": 2}])


def step_once(simulation: Simulation, step: Step) -> None:
    before = dict(simulation.rows)
    _take(simulation, step)
    for instance, old in before.items():
        new = simulation.rows[instance]
        if old.state is S.DELETED is not new.state:
            # Greater by more than one where it was used, released and used again within one cycle.
            assert new.run > old.run, f"{old} -> {new}"


def _take(simulation: Simulation, step: Step) -> None:
    kind, at = step
    held = simulation.stored.instance_count - simulation.runtime.released
    if kind == "release some":
        some = sorted({at % (INSTANCES + 2), at // 7 % INSTANCES, at // 31 % INSTANCES})
        simulation.inbox.append(ev.ReleaseRequested(JOB, some, "a driver"))
    elif kind == "reuse":
        simulation.inbox.append(ev.ReuseRequested(JOB, held + 1 + at % 2, 1 + at // 2 % 3))
    else:
        take(simulation, step)


def check_runs(simulation: Simulation) -> None:
    """No run twice, and later runs of an instance have greater numbers."""
    assert not simulation.twice
    by_instance: dict[int, list[int]] = defaultdict(list)
    for instance, run in simulation.launched:
        by_instance[instance].append(run)
    for runs in by_instance.values():
        assert runs == sorted(set(runs))


@given(steps((*REQUESTS, *RELEASES, *RELEASES, "cycle")), ENDS, SHAPES)
@settings(max_examples=150, deadline=None)
def test_counts_are_those_of_the_rows_and_runs_are_never_repeated(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> None:
    simulation = Simulation(spec(INSTANCES, max_failures=3, **shape), outcomes)
    for step in order:
        step_once(simulation, step)
    simulation.settle()
    check_runs(simulation)
    add_up(simulation)
    assert simulation.runtime.state.terminal
    assert all(task.state.terminal for task in simulation.mine.values())
    assert simulation.tasks and all(task.goal is not S.DELETED for task in simulation.tasks.values())
    count = simulation.stored.instance_count
    assert len(simulation.tasks) == count - simulation.runtime.released
    assert set(range(shape.get("minimumRunningInstances", 0))) <= simulation.tasks.keys()


@given(steps((*ROUGH[:9], *RELEASES)), ENDS)
@settings(max_examples=100, deadline=None)
def test_what_is_answered_is_what_the_job_has(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState]
) -> None:
    """Without falls of leaders a set of numbers, changed by the answers alone, is that of the job."""
    simulation = Simulation(spec(INSTANCES, max_failures=3), outcomes)
    for step in order:
        step_once(simulation, step)
    simulation.settle()
    model = set(range(INSTANCES))
    for event, answer in simulation.replies:
        if isinstance(answer, PelotonError) or not isinstance(answer, list):
            continue
        if isinstance(event, ev.ReleaseRequested):
            assert set(answer) <= set(event.instances) & model
            model -= set(answer)
            assert model
        elif isinstance(event, ev.ReuseRequested):
            assert model.isdisjoint(answer) and len(answer) <= event.most
            model |= set(answer)
            assert len(model) <= event.count or not answer
    assert simulation.tasks.keys() == model
    check_runs(simulation)


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_a_leader_that_falls_within_a_release_leaves_nothing_half_done(order: list[int], at: int) -> None:
    simulation = Simulation(spec(INSTANCES), {})
    for _ in range(at):
        simulation.act(0) if simulation.todo else simulation.place()
        simulation.run_cycle()
    if simulation.retired:
        return
    wanted = [1, 3]
    simulation.inbox.append(ev.ReleaseRequested(JOB, wanted))
    for torn in order:
        simulation.tear(torn)
        step_once(simulation, ("wait", torn))
    # The caller has no answer, and asks again.
    simulation.inbox.append(ev.ReleaseRequested(JOB, wanted))
    simulation.run_cycle()
    simulation.settle()
    assert simulation.tasks.keys() == set(range(INSTANCES)) - set(wanted)
    add_up(simulation)
    check_runs(simulation)
