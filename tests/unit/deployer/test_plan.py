from __future__ import annotations

from dataclasses import replace

import pytest

from deployer.core.plan import Migrate, RollBack, Start, Stop, foresee, plan
from deployer.core.values import Failures, Gate, Group, Instance, Situation, Wanted

NOW = 1000.0
GATE = Gate(healthy_within=60, settle=1, canary=5, tries=2)


def wanted(count: int = 2, digest: str = "new", fallback: int | None = 1, schema: str = "") -> Wanted:
    groups = (Group("resmgr", count, digest, led=True), Group("jobmgr", count, digest, led=True))
    return Wanted(2, groups, GATE, schema, fallback)


def daemon(name: str, digest: str = "old", *, healthy: float | None = 900.0, leads: bool = False) -> Instance:
    return Instance(name, name.rstrip("0123456789"), digest, f"host-{name}", 900.0, False, healthy, leads)


def whole(digest: str = "old") -> tuple[Instance, ...]:
    return tuple(
        daemon(f"{role}{i}", digest, leads=i == 0) for role in ("resmgr", "jobmgr") for i in range(2)
    )


def test_everything_that_is_missing_is_started_at_once() -> None:
    found = plan(wanted(), Situation(), NOW)
    assert [(type(step), step.group) for step in found.steps if isinstance(step, Start)] == [
        (Start, "resmgr"), (Start, "resmgr"), (Start, "jobmgr"), (Start, "jobmgr"),
    ]  # fmt: skip
    assert found.steps[0].reason == "resmgr has 0 daemons of 2"


def test_the_schema_comes_before_all_daemons() -> None:
    assert isinstance(plan(wanted(schema="s2"), Situation(), NOW).steps[0], Migrate)
    assert isinstance(plan(wanted(schema="s2"), Situation(schemas=frozenset({"s2"})), NOW).steps[0], Start)


def test_a_schema_that_cannot_be_made_ends_the_change_before_any_daemon_is_touched() -> None:
    found = Situation(whole(), schemas=frozenset({"s1"}), schema_failure="no such keyspace")
    assert plan(wanted(schema="s2"), found, NOW).steps == (
        RollBack(1, "the schema of the store was not brought up to date: no such keyspace"),
    )


def test_nothing_is_to_be_done_for_what_is_as_it_is_wanted() -> None:
    assert plan(wanted(), Situation(whole("new")), NOW).whole


def test_a_change_begins_with_a_successor_beside_the_others() -> None:
    (step,) = plan(wanted(), Situation(whole()), NOW).steps
    assert step == Start("resmgr", "the first daemon of resmgr is replaced by one of new")


def test_the_canary_is_watched_before_anything_ends() -> None:
    canary = daemon("resmgr2", "new", healthy=NOW - 4)
    found = plan(wanted(), Situation((*whole(), canary)), NOW)
    assert not found.steps
    assert found.waits == ("resmgr2 on host-resmgr2 is healthy, and is watched for 1 s more",)
    (step,) = plan(wanted(), Situation((*whole(), canary)), NOW + 1).steps
    assert step == Stop("resmgr1", "resmgr", "its successor is healthy")


def test_the_leader_ends_after_its_followers() -> None:
    there = [each for each in whole() if each.id != "resmgr1"]
    successors = [daemon("resmgr2", "new"), daemon("resmgr3", "new")]
    (step,) = plan(wanted(), Situation((*there, *successors)), NOW).steps
    assert step == Stop("resmgr0", "resmgr", "its successor is healthy: the leader, after its followers")


def test_the_next_role_waits_until_a_leader_is_seen() -> None:
    there = [each for each in whole() if each.group != "resmgr"]
    successors = [daemon("resmgr2", "new"), daemon("resmgr3", "new")]
    found = plan(wanted(), Situation((*there, *successors)), NOW)
    assert (found.steps, found.waits) == ((), ("no resmgr leads",))
    successors[0] = replace(successors[0], leads=True)
    (step,) = plan(wanted(), Situation((*there, *successors)), NOW).steps
    assert isinstance(step, Start) and step.group == "jobmgr"


def test_nobody_else_ends_while_one_is_ending() -> None:
    there = [replace(each, ending=each.id == "resmgr1") for each in whole()]
    successors = [daemon("resmgr2", "new"), daemon("resmgr3", "new")]
    found = plan(wanted(), Situation((*there, *successors)), NOW)
    assert (found.steps, found.waits) == ((), ("resmgr1 on host-resmgr1 is ending",))


def test_a_successor_that_does_not_become_healthy_ends_and_counts_as_a_failure() -> None:
    late = daemon("resmgr2", "new", healthy=None)
    (step,) = plan(wanted(), Situation((*whole(), late)), late.started + 61).steps
    assert step == Stop("resmgr2", "resmgr", "it is not healthy after 1 min 1 s", failed=True)


def test_two_failures_bring_the_last_whole_revision_back() -> None:
    failures = {"resmgr": Failures("new", 2, NOW, "it ended (failed: exit code 1)")}
    assert plan(wanted(), Situation(whole(), failures), NOW).steps == (
        RollBack(1, "resmgr: 2 daemons failed, the last one because it ended (failed: exit code 1)"),
    )


def test_failures_of_other_settings_do_not_count() -> None:
    failures = {"resmgr": Failures("old", 5, NOW, "it ended")}
    (step,) = plan(wanted(), Situation(whole(), failures), NOW).steps
    assert isinstance(step, Start)


def test_failures_after_the_installation_was_whole_go_back_to_nothing() -> None:
    failures = {"resmgr": Failures("new", 5, NOW - 100, "it ended")}
    there = [each for each in whole("new") if each.id != "resmgr1"]
    (step,) = plan(wanted(), Situation(tuple(there), failures, converged=True), NOW).steps
    assert step == Start("resmgr", "resmgr has 1 daemon of 2, after one failed because it ended")


def test_without_anything_to_go_back_to_it_says_what_is_wrong_and_goes_on_trying() -> None:
    failures = {"resmgr": Failures("new", 2, NOW - 10, "it ended")}
    found = plan(wanted(fallback=None), Situation((), failures), NOW)
    assert found.blocked == "resmgr: 2 daemons failed, the last one because it ended"
    assert [step.group for step in found.steps if isinstance(step, Start)] == ["resmgr"] * 2 + ["jobmgr"] * 2


def test_pauses_grow_with_failures() -> None:
    failures = {"resmgr": Failures("new", 3, NOW - 3, "it ended")}
    there = [each for each in whole("new") if each.id != "resmgr1"]
    found = plan(wanted(), Situation(tuple(there), failures, converged=True), NOW)
    assert (found.steps, found.waits) == ((), ("resmgr is started again in 1 s",))


def test_going_back_ends_what_failed_first_though_it_is_not_healthy() -> None:
    broken = daemon("resmgr2", "new", healthy=None)
    (step,) = plan(wanted(digest="old", fallback=None), Situation((*whole(), broken)), NOW).steps
    assert step == Stop("resmgr2", "resmgr", "it is not healthy, and its successor is")


def test_a_change_may_mend_what_is_broken() -> None:
    broken = tuple(replace(each, healthy_since=None, leads=False) for each in whole())
    (step,) = plan(wanted(), Situation(broken), NOW).steps
    assert isinstance(step, Start) and step.group == "resmgr"


def test_fewer_are_wanted() -> None:
    (step,) = plan(wanted(1, "old"), Situation(whole()), NOW).steps
    assert step == Stop("resmgr1", "resmgr", "resmgr has 2 daemons, and is to have 1")


def test_a_group_that_is_not_wanted_any_more_ends_last() -> None:
    there = (*whole("new"), daemon("archiver0"))
    (step,) = plan(wanted(), Situation(there), NOW).steps
    assert step == Stop("archiver0", "archiver", "the installation has no archiver")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_all_steps_are_foreseen(count: int) -> None:
    steps = foresee(wanted(count), Situation(whole()), NOW)
    starts = [step for step in steps if isinstance(step, Start)]
    stops = [step for step in steps if isinstance(step, Stop)]
    assert (len(starts), len(stops)) == (2 * count, 4)


def test_a_foreseen_change_does_not_go_beyond_going_back() -> None:
    failures = {"resmgr": Failures("new", 2, NOW, "it ended")}
    (step,) = foresee(wanted(), Situation(whole(), failures), NOW)
    assert isinstance(step, RollBack)
