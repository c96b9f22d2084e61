"""`peloton job members`: prints the list, keeps a file current, and ends with the job."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from peloton.private.jobmgr.access import access_pb2

from .conftest import Run
from .fakes import FakeDaemons

JOB = "0b3a3ef4-9d2f-4a1a-8d36-3e3d3f8a6a10"
ENDED = (grpc.StatusCode.FAILED_PRECONDITION, "the job has ended")


def answer(*addresses: str) -> access_pb2.GetMembersResponse:
    members = [
        access_pb2.Member(instance=2 * rank, rank=rank, address=address)
        for rank, address in enumerate(addresses)
    ]
    return access_pb2.GetMembersResponse(members=members)


def test_the_members_are_listed(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["GetMembers"] = answer("h0:31000", "")
    outcome = run("job", "members", JOB)
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["Rank", "Instance", "Address"],
        ["0", "0", "h0:31000"],
        ["1", "2", "-"],
    ]


def test_a_file_is_kept_current_until_the_job_ends(
    run: Run, daemons: FakeDaemons, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change, an answer that is the same, and a job manager that is away for a moment."""
    monkeypatch.setattr("peloton.cli.commands.members.PAUSE_SECONDS", 0.0)
    away = (grpc.StatusCode.UNAVAILABLE, "nobody leads")
    first, second = answer("h0:1", ""), answer("h0:1", "h1:2")
    daemons.answers["GetMembers"] = [first, first, away, second, ENDED]
    file = tmp_path / "members"
    outcome = run("job", "members", JOB, "--follow", "--interval", "1ms", "--file", str(file))
    assert (outcome.code, outcome.out) == (0, "")
    assert file.read_text() == "h0:1\nh1:2\n"
    assert [path.name for path in tmp_path.iterdir()] == ["members"], "nothing is left beside it"


def test_what_is_wrong_is_said(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    daemons.answers["GetMembers"] = ENDED
    outcome = run("job", "members", JOB, "--follow")
    assert (outcome.code, outcome.out) == (1, "") and "the job has ended" in outcome.err
    daemons.answers["GetMembers"] = answer("h0:1")
    outcome = run("job", "members", JOB, "--file", str(tmp_path / "none" / "members"))
    assert outcome.code != 0 and "is not a file that can be written" in outcome.err
