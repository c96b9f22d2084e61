"""What `peloton run` tells while processes of its job wait."""

from __future__ import annotations

import grpc
import pytest

from peloton.api.v0.task import task_pb2
from peloton.cli.run_waits import PATIENCE_SECONDS, SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_TEXTS, Waits
from peloton.cli.session import Session
from peloton.cli.targets import Targets, TargetSource
from peloton.private.resmgr.explain import explain_pb2

from .fakes import FakeDaemons
from .test_why import CHECK, explained, job


class World:
    """A job that is looked at each second, and what is told of it."""

    def __init__(self, daemons: FakeDaemons, session: Session) -> None:
        self.now = 100.0
        self.told: list[str] = []
        self.waits = Waits(session, self.told.append, lambda: self.now)
        self.daemons = daemons
        self.because(CHECK.text)

    def because(self, cause: str, count: int = 2) -> None:
        first = explained(cause=cause)
        group = explain_pb2.Group(count=count, instances=range(count), first=first)
        self.daemons.answers["ExplainJob"] = explain_pb2.ExplainJobResponse(groups=[group])

    def pass_seconds(self, seconds: float, stats: dict[str, int], reason: str = "") -> list[str]:
        """Return what is told in this time."""
        self.told.clear()
        for _ in range(int(seconds)):
            info = job(stats)
            info.runtime.reason = reason
            self.waits.look(info)
            self.now += 1.0
        return list(self.told)


@pytest.fixture
def world(daemons: FakeDaemons, address: str) -> World:
    source = TargetSource(addresses={"jobmgr": address, "resmgr": address})
    return World(daemons, Session(targets=Targets(source), quiet=True))


WAIT = {"PENDING": 2}
CAUSE = f"2 processes wait: {CHECK.text}"


def test_a_short_wait_is_not_told(world: World) -> None:
    assert world.pass_seconds(PATIENCE_SECONDS, WAIT) == []
    assert world.pass_seconds(60, {"RUNNING": 2}) == []
    assert not world.daemons.requests("ExplainJob")


def test_a_wait_is_told_once_for_each_cause_and_so_is_its_end(world: World) -> None:
    assert world.pass_seconds(300, WAIT) == [CAUSE]
    assert len(world.daemons.requests("ExplainJob")) <= 300 / SECONDS_BETWEEN_LOOKS + 1
    world.because("no host has 4 GPUs free", 1)
    assert world.pass_seconds(60, {"PENDING": 1, "RUNNING": 1}) == [
        "1 process waits: no host has 4 GPUs free"
    ]
    assert world.pass_seconds(10, {"LAUNCHED": 1, "RUNNING": 1}) == []
    world.because(CHECK.text)
    assert world.pass_seconds(10, WAIT) == [CAUSE], "it waits anew"
    assert world.pass_seconds(10, {"RUNNING": 2}) == ["all 2 processes run now"]
    assert world.pass_seconds(10, {"RUNNING": 2}) == []
    assert world.pass_seconds(10, {"RUNNING": 1, "SUCCEEDED": 1}) == []


def test_amounts_that_change_all_the_time_are_told_now_and_then(world: World) -> None:
    told = []
    for number in range(20):
        world.because(f"allocation {number} cores")
        told += world.pass_seconds(SECONDS_BETWEEN_LOOKS, WAIT)
    assert 2 <= len(told) <= 20 * SECONDS_BETWEEN_LOOKS / SECONDS_BETWEEN_TEXTS + 1


def test_why_the_job_waits_itself_is_told_first(world: World) -> None:
    reason = "gang restarts: waits for the end of instance 1, failure 1 of 5"
    assert world.pass_seconds(10, WAIT, reason) == [reason, CAUSE]


def test_instances_that_are_not_enqueued_are_explained_by_the_job_manager(world: World) -> None:
    world.daemons.answers["ExplainJob"] = explain_pb2.ExplainJobResponse()
    runtime = task_pb2.RuntimeInfo(
        state=task_pb2.INITIALIZED, reason="cpu: gang 9 cores > limit 1 core of /a"
    )
    answer = task_pb2.QueryResponse(records=[task_pb2.TaskInfo(instanceId=0, runtime=runtime)])
    world.daemons.answers["Query"] = answer
    told = world.pass_seconds(10, {"INITIALIZED": 1})
    assert told == ["1 process waits: cpu: gang 9 cores > limit 1 core of /a"]


def test_nobody_answers_and_it_is_asked_again(world: World) -> None:
    world.daemons.answers["Query"] = (grpc.StatusCode.UNAVAILABLE, "away")
    assert world.pass_seconds(10, {"INITIALIZED": 1}) == []
    world.daemons.answers["Query"] = task_pb2.QueryResponse()
    assert world.pass_seconds(10, {"INITIALIZED": 1, "PENDING": 2}) != []
