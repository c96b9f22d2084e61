"""`peloton admin lock` and `unlock`."""

from __future__ import annotations

import json

import grpc
import pytest

from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons


@pytest.mark.parametrize(
    ("command", "method", "answer", "verb"),
    [
        ("lock", "Lockdown", pb.LockdownResponse, "locked"),
        ("unlock", "RemoveLockdown", pb.RemoveLockdownResponse, "unlocked"),
    ],
)
class TestSwitch:
    def test_components_are_switched(
        self, run: Run, daemons: FakeDaemons, command: str, method: str, answer: type, verb: str
    ) -> None:
        daemons.answers[method] = answer(successes=[pb.GoalStateEngine, pb.Kill])
        outcome = run("admin", command, "GoalStateEngine", "kill")
        assert (outcome.code, outcome.out) == (0, f"GoalStateEngine: {verb}\nKill: {verb}\n")
        (request,) = daemons.requests(method)
        assert list(request.components) == [pb.GoalStateEngine, pb.Kill]
        assert json.loads(run("-j", "admin", command, "Kill").out)["successes"] == ["GoalStateEngine", "Kill"]

    def test_a_failure_of_one_component_ends_with_an_error(
        self, run: Run, daemons: FakeDaemons, command: str, method: str, answer: type, verb: str
    ) -> None:
        failure = pb.ComponentFailure(component=pb.Kill, FailureMessage="cannot store: no disk")
        daemons.answers[method] = answer(successes=[pb.Read], failures=[failure])
        outcome = run("admin", command, "Read", "Kill")
        assert (outcome.code, outcome.out) == (1, f"Read: {verb}\n")
        assert f"Kill is not {verb}: cannot store: no disk" in outcome.err

    def test_an_unknown_component_is_a_usage_error(
        self, run: Run, daemons: FakeDaemons, command: str, method: str, answer: type, verb: str
    ) -> None:
        outcome = run("admin", command, "Reads")
        assert outcome.code == 2
        assert "'Reads' is not one of" in outcome.err
        assert run("admin", command).code == 2
        assert not daemons.asked

    def test_a_call_that_fails(
        self, run: Run, daemons: FakeDaemons, command: str, method: str, answer: type, verb: str
    ) -> None:
        daemons.answers[method] = (grpc.StatusCode.UNAVAILABLE, "no jobmgr leads")
        assert "no jobmgr leads" in run("admin", command, "Read").err
