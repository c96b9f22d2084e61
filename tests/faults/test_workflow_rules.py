"""The checker finds workflows that ended otherwise than they had to, and services that were down too far."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.faults.checker import check
from tests.faults.history import End, Event, History, Instance, Pod, Workflow
from tests.faults.test_checker import CREATED, JOB, agent, ends, launch, rules, run, update

UP = Pod("RUNNING", 2, "new")
WORKFLOW = Workflow(JOB, 2, 1, 2.0, 9.0, "SUCCEEDED", "new", "SUCCEEDED", 2, {0: UP, 1: UP})
LIVE = [(run(0, 2), "A"), (run(1, 2), "A")]
END = ends(Instance("RUNNING", 2), Instance("RUNNING", 2), live=LIVE)


def replaced(instance: int, stop: float, start: float) -> list[Event]:
    """A run that is up before `stop`, and one that is up from `start` on."""
    old, new = run(instance), run(instance, 2)
    return [
        *(launch(1, old), update(1, old, "TASK_RUNNING"), update(stop, old, "TASK_KILLED")),
        *(launch(stop, new), update(start, new, "TASK_RUNNING")),
    ]


def history(
    workflow: Workflow, first: tuple[float, float], second: tuple[float, float], end: End = END
) -> History:
    events = [agent(), *replaced(0, *first), *replaced(1, *second)]
    events.sort(key=lambda event: event.at)
    return History(events, [CREATED], end, workflows=[workflow])


ONE_BY_ONE = history(WORKFLOW, (3, 4), (4, 5))


def test_a_workflow_that_goes_as_it_should_has_no_violations() -> None:
    assert rules(ONE_BY_ONE) == []


def test_a_workflow_that_ends_otherwise_is_found() -> None:
    for state in ("ROLLED_BACK", "FAILED", "ROLLING_FORWARD"):
        wrong = replace(ONE_BY_ONE, workflows=[replace(WORKFLOW, state=state)])
        assert rules(wrong) == ["workflow end"]


@pytest.mark.parametrize(
    ("pods", "rule"),
    [
        ({0: UP}, "instance missing"),
        ({0: UP, 1: UP, 2: UP}, "instance too many"),
        ({0: UP, 1: replace(UP, state="PENDING")}, "instance down"),
        ({0: UP, 1: replace(UP, version=1)}, "wrong config"),
        ({0: UP, 1: replace(UP, label="old")}, "wrong config"),
    ],
)
def test_an_instance_that_is_not_as_it_should_be_is_found(pods: dict[int, Pod], rule: str) -> None:
    assert rules(replace(ONE_BY_ONE, workflows=[replace(WORKFLOW, pods=pods)])) == [rule]


def test_more_instances_down_than_may_be_are_found() -> None:
    overlapping = history(WORKFLOW, (3, 5), (4, 6))
    [violation] = check(overlapping).violations
    assert violation.rule == "too many down"
    assert "2 instances, 2.00 s after the workflow began: [0, 1]; at most 1" in violation.story
    assert rules(replace(overlapping, workflows=[replace(WORKFLOW, most_down=2)])) == []


def test_instances_down_before_the_workflow_do_not_count() -> None:
    assert rules(history(replace(WORKFLOW, began=7), (3, 5), (4, 6))) == []


def test_a_run_that_fails_has_not_been_up() -> None:
    bad = [launch(3, run(0, 2)), update(3, run(0, 2), "TASK_RUNNING"), update(5, run(0, 2), "TASK_FAILED")]
    good = [launch(5, run(0, 3)), update(6, run(0, 3), "TASK_RUNNING")]
    first = [launch(1, run(0)), update(1, run(0), "TASK_RUNNING"), update(3, run(0), "TASK_KILLED")]
    events = [agent(), *first, *bad, *good, *replaced(1, 4, 4.5)]
    live = [(run(0, 3), "A"), (run(1, 2), "A")]
    end = ends(Instance("RUNNING", 3), Instance("RUNNING", 2), live=live)
    events.sort(key=lambda event: event.at)
    assert rules(History(events, [CREATED], end, workflows=[WORKFLOW])) == ["too many down"]


def test_an_instance_that_stays_down_counts_until_it_is_up() -> None:
    """Not only where one goes down, but also where the service never comes up in time."""
    never = history(replace(WORKFLOW, until=4.5), (3, 8), (4, 8))
    assert rules(never) == ["too many down"]
