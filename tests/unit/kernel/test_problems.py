"""What a process tells is wrong though it works: its parts, certificates, and daemons that start often."""

from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest

from peloton.daemon.problems import Problems, ProblemService
from peloton.errors import Unavailable
from peloton.identity.certs import issue, make_authority
from peloton.membership.starts import WINDOW_SECONDS, Starts
from peloton.model.problems import Problem
from peloton.private.problems import problems_pb2 as pb
from peloton.rpc.expiry import expiring

NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)


async def test_all_parts_are_asked_and_the_worst_is_told_first() -> None:
    problems = Problems(patience=0.01)

    async def note() -> list[Problem]:
        return [Problem("note", "a note"), Problem("bad", "very bad", "/hosts", "do this")]

    async def unable() -> list[Problem]:
        raise Unavailable("the store is away")

    async def stuck() -> list[Problem]:
        await asyncio.Event().wait()
        raise AssertionError

    problems.add("one", note)
    with problems.telling("how the store is", unable), problems.telling("what is stuck", stuck):
        found = [(each.level, each.text) for each in await problems.now()]
    assert found == [
        ("bad", "very bad"),
        ("warn", "It is not known how the store is: the store is away"),
        ("warn", "It is not known what is stuck: there was no answer in 0.01 s"),
        ("note", "a note"),
    ]
    answer = await ProblemService(problems).ListProblems(pb.ListProblemsRequest(), None)
    assert answer.problems[0] == pb.Problem(level="bad", text="very bad", link="/hosts", remedy="do this")
    assert len(answer.problems) == 2, "the others are not asked any more"


@pytest.mark.parametrize(
    ("days", "levels"), [(-1, []), (16, []), (17, ["warn"]), (29.9, ["warn"]), (30, ["bad"]), (99, ["bad"])]
)
def test_certificates_are_told_two_weeks_before_their_end(
    tmp_path: Path, days: float, levels: list[str]
) -> None:
    authority = make_authority(tmp_path, "test", NOW)
    made = issue(tmp_path, "daemon", ["localhost"], 30, NOW)
    (tmp_path / "none.crt").write_text("no certificate")
    files = [
        str(each)
        for each in (made.certificate, authority.certificate, tmp_path / "none.crt", tmp_path / "gone.crt")
    ]
    found = list(expiring(files, NOW + datetime.timedelta(days=days)))
    assert [each.level for each in found] == levels
    assert all(str(made.certificate) in each.text and "peloton certs issue" in each.remedy for each in found)


def test_an_instance_that_starts_again_and_again_is_told() -> None:
    starts = Starts()
    starts.look(["jobmgr-1-aaa", "resmgr-1-bbb"], 0.0)
    assert starts.problems(0.0) == [], "what was there at the begin has not started since"
    for number in range(3):
        starts.look(["resmgr-1-bbb"], 10.0 + number)
        starts.look([f"jobmgr-1-{number}", "resmgr-1-bbb"], 10.5 + number)
    [found] = starts.problems(20.0)
    assert found.text == "jobmgr-1 has started 3 times within the last hour" and found.level == "bad"
    assert starts.problems(13.0 + WINDOW_SECONDS) == []


def test_a_process_that_is_away_for_a_moment_has_not_started_again() -> None:
    starts = Starts()
    starts.look(["jobmgr-1-aaa"], 0.0)
    for number in range(5):
        starts.look([], 1.0 + number)
        starts.look(["jobmgr-1-aaa"], 1.5 + number)
    assert starts.problems(10.0) == []


def test_instances_that_share_a_name_may_start_as_often_together() -> None:
    starts = Starts()
    starts.look(["placement-0"], 0.0)
    starts.look([f"placement-{number}" for number in range(3)], 1.0)
    starts.look([f"placement-{number}" for number in range(10, 13)], 2.0)
    assert starts.problems(3.0) == [], "an upgrade of three is not told"
    for again in range(2, 5):
        starts.look([f"placement-{number}" for number in range(10 * again, 10 * again + 3)], float(again))
    assert [each.text for each in starts.problems(5.0)] == [
        "placement has started 14 times within the last hour"
    ]
