"""What an event leads to is what its pieces lead to, in whichever cycles they are handled."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any, cast

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.engine.event_weight import READINGS_PER_RUN, pieces, weight
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskStatus
from peloton.model.usage import Reading
from tests.property.jobmgr.simulation import Simulation
from tests.property.jobmgr.test_convergence import ENDS, REQUESTS, SHAPES, Step, take
from tests.unit.jobmgr_core.specs import JOB, spec

INSTANCES = 7
CYCLES = 30
RUNS = st.lists(st.builds(Run, st.just(JOB), st.integers(0, 99), st.integers(1, 3)), max_size=40)
STEPS = st.lists(st.tuples(st.sampled_from(REQUESTS), st.integers(0, 1000)))
JOINED = {"Statuses": "statuses", "Enqueued": "runs", "Launched": "runs", "Placed": "placements"}
OWN = {"revision", "created_at", "updated_at"}
"""They count the writes of a row, or those of the job within a nanosecond."""


def events_of(runs: list[Run]) -> list[tuple[Any, str]]:
    """Events that are cut, with the field of their items."""
    pairs = [(run.instance, run.run) for run in runs]
    hosts = [ev.Placement(f"h{at}", "", "", (), tuple(runs[at : at + 3])) for at in range(0, 40, 3)]
    return [
        (ev.Statuses([(run, TaskStatus("", TaskState.RUNNING, 0)) for run in runs], "east"), "statuses"),
        (ev.Sampled([(run, Reading(0, 0, 0, 0)) for run in runs * 9]), "readings"),
        (ev.PendingReasons([(run, TaskState.PENDING, "why") for run in runs * 9]), "deltas"),
        (ev.Enqueued(JOB, pairs), "runs"),
        (ev.Launched(runs), "runs"),
        (ev.Placed(hosts), "placements"),
    ]


@given(RUNS, st.integers(3, 50))
def test_pieces_are_the_event_in_order_and_each_is_small(runs: list[Run], most: int) -> None:
    for event, name in events_of(runs):
        cut = pieces(event, most)
        items = [each for piece in cut for each in getattr(piece, name)]
        assert replace(event, **{name: items}) == event
        assert {replace(piece, **{name: items}) == event for piece in cast("Any", cut)} == {True}
        assert all(weight(piece) <= most for piece in cut)
        assert len(cut) == 1 or all(getattr(piece, name) for piece in cut)


@given(RUNS, st.integers(1, 50))
def test_what_ends_runs_is_not_cut(runs: list[Run], most: int) -> None:
    pairs = [(run.instance, run.run) for run in runs]
    whole: list[ev.Event] = [
        ev.LaunchRefused(runs, "no", faulty=False),
        ev.SecretMissing(runs, "no"),
        ev.LaunchUncertain(runs),
        ev.EnqueueRefused(JOB, pairs, "no"),
        ev.Withdrawn(JOB, pairs),
        ev.Compared(JOB, pairs),
        ev.Draining(runs),
        ev.Preempted([(run, "why") for run in runs]),
        ev.ResmgrChanged(),
        ev.StopRequested(JOB, [run.instance for run in runs]),
    ]
    for event in whole:
        assert list(pieces(event, most)) == [event]


def test_the_runs_of_one_host_stay_together_and_notes_weigh_little() -> None:
    runs = tuple(Run(JOB, number, 1) for number in range(9))
    [large, small] = [ev.Placement("a", "", "", (), runs), ev.Placement("b", "", "", (), runs[:2])]
    assert [list(each.placements) for each in pieces(ev.Placed([large, small, small]), 4)] == [  # type: ignore[union-attr]
        [large],
        [small, small],
    ]
    reasons = ev.PendingReasons([(runs[0], TaskState.PENDING, "")] * 4 * READINGS_PER_RUN)
    assert (weight(reasons), len(pieces(reasons, 4)), len(pieces(reasons, 3))) == (4, 1, 2)


def joined(inbox: list[ev.Event]) -> list[ev.Event]:
    """Events of one kind as one, in the order of the first ones."""
    kinds: dict[str, Any] = {}
    others: list[ev.Event] = []
    for event in inbox:
        kind = type(event).__name__
        name = JOINED.get(kind)
        if name is None:
            others.append(event)
        elif kind in kinds:
            kinds[kind] = replace(kinds[kind], **{name: [*getattr(kinds[kind], name), *getattr(event, name)]})
        else:
            kinds[kind] = event
    return [*others, *kinds.values()]


def at_work(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int]
) -> Simulation:
    """A job amid its work, with events of many runs that wait."""
    simulation = Simulation(spec(INSTANCES, max_failures=2, **shape), outcomes)
    for step in order:
        take(simulation, step)
    settle(simulation)
    for at in range(len(simulation.alive)):
        simulation.progress(at)
    while simulation.todo:
        simulation.act(0)
    simulation.inbox = joined(simulation.inbox)
    return simulation


def settle(simulation: Simulation) -> None:
    """Create and evaluate all tasks."""
    for _ in range(CYCLES):
        simulation.run_cycle()
    assert not simulation.core.active.unfinished


def finish(simulation: Simulation) -> tuple[dict[int, dict[str, Any]], Counter[Any], Counter[Any]]:
    """Return rows, counts, and what is to be done, once all is evaluated."""
    settle(simulation)
    rows = {instance: _values(task) for instance, task in simulation.rows.items()}
    return rows, Counter(simulation.runtime.task_counts), Counter(_named(simulation.todo))


def _values(task: TaskRuntime) -> dict[str, Any]:
    return {each.name: getattr(task, each.name) for each in fields(task) if each.name not in OWN}


def _named(todo: list[ins.Instruction]) -> list[tuple[str, Any]]:
    """What each instruction asks for, run by run.

    Comparisons only ask, and an answer that comes in pieces may cause one for each.
    """
    named: list[tuple[str, Any]] = []
    for each in todo:
        kind = type(each).__name__
        if isinstance(each, ins.Enqueue):
            named += ((kind, run) for gang in each.gangs for run in gang)
        elif isinstance(each, ins.Kill | ins.Launch | ins.Withdraw | ins.Settle):
            named += ((kind, run) for run in each.runs)
        elif not isinstance(each, ins.Compare):
            named.append((kind, str(each)))
    return named


@example([("cycle", 0), ("restart resmgr", 0)], {}, {}, 1)
@given(STEPS, ENDS, SHAPES, st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_pieces_in_cycles_of_their_own_lead_to_the_same(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], shape: dict[str, int], most: int
) -> None:
    whole, cut = at_work(order, outcomes, shape), at_work(order, outcomes, shape)
    for piece in [piece for event in cut.inbox for piece in pieces(event, most)]:
        cut.inbox = [piece]
        cut.run_cycle()
    assert finish(cut) == finish(whole)
