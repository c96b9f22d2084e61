"""The rule by shard finds each kind of step that another than the owner does, and nothing else."""

from __future__ import annotations

import pytest

from peloton.model.shard import shard_of
from tests.faults.checker import check
from tests.faults.history import End, History
from tests.faults.leader_actions import LeaderAction
from tests.faults.owner_rules import overlapping_owners

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
SHARD = shard_of(JOB)
RUN = f"{JOB}-0-1"


def owns(who: str, term: int, at: float, shards: str = str(SHARD)) -> LeaderAction:
    return LeaderAction("shards", "jobmgr", 0, who, at, at + 0.1, f"{term}:{shards}")


def write(who: str, owned: int, at: float, until: float = 0.0) -> LeaderAction:
    return LeaderAction("write", "jobmgr", 0, who, at, until or at, "write_all RUNNING", JOB, owned)


def asked(who: str, owned: int, at: float) -> LeaderAction:
    return LeaderAction("asked", "jobmgr", 0, who, at, at + 0.1, RUN, JOB, owned)


def rules(*actions: LeaderAction) -> list[str]:
    return [rule for rule, _ in overlapping_owners(actions)]


def test_owners_that_follow_each_other_are_in_order() -> None:
    """What the first one had begun before is not judged here."""
    others = owns("b", 9, 2.0, ",".join(str(each) for each in range(64) if each != SHARD))
    assert not rules(
        owns("a", 5, 0.0), write("a", 5, 1.0), asked("a", 5, 1.1), others, write("a", 5, 3.0),
        write("a", 5, 4.0, 9.0), owns("b", 10, 4.5), write("b", 10, 5.0),
    )  # fmt: skip


@pytest.mark.parametrize("step", [write, asked])
def test_an_earlier_owner_does_nothing_more(step: object) -> None:
    assert callable(step)
    assert rules(owns("a", 5, 0.0), owns("b", 6, 1.0), step("a", 5, 1.2)) == ["fenced owner acts"]
    assert rules(owns("a", 5, 0.0), step("a", 0, 1.2)) == ["acts without owning"]


def test_a_term_of_a_shard_is_one_process_s() -> None:
    assert rules(owns("a", 5, 0.0), owns("b", 5, 1.0)) == ["two owners"]
    assert not rules(owns("a", 5, 0.0), owns("a", 5, 1.0)), "once more, after an error of the store"


def test_a_run_is_launched_by_one() -> None:
    assert rules(owns("a", 5, 0.0), asked("a", 5, 0.5), owns("b", 6, 1.0), asked("b", 6, 2.0)) == [
        "launched by two"
    ]


def test_the_checker_has_the_rule() -> None:
    verdict = check(History([], [], End({}, []), [owns("a", 5, 0.0), write("a", 0, 1.0)]))
    assert [each.rule for each in verdict.violations] == ["acts without owning"]
