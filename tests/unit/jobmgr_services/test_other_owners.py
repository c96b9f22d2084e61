"""What an instance that owns nothing tells of jobs in the memory of another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import pytest

from jobmgr.engine.elsewhere import Looping
from jobmgr.engine.engine import Engine
from jobmgr.engine.held_shards import HeldShards
from jobmgr.engine.workflows import Workflows
from jobmgr.services.private import elsewhere
from jobmgr.services.private.elsewhere import OtherOwners
from jobmgr.services.private.others_problems import OthersProblems
from jobmgr.services.private.sharing import SharingService
from jobmgr.services.v0.jobs import JobManager
from jobmgr.services.v1alpha.jobs import JobService
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.clock import SystemClock
from peloton.errors import PelotonError, Unavailable
from peloton.leaders import Failure
from peloton.model.problems import Problem
from peloton.model.shard import SHARDS
from peloton.model.states import TaskState
from peloton.private.problems import problems_pb2
from peloton.rpc.peers import Owner, PassedFailure, Peers
from storage.config import SqliteSettings
from storage.sqlite.store import open_sqlite
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.test_sla import report, running
from tests.unit.jobmgr_services.test_with_engine import real

__all__ = ["real", "running"]
ALL = frozenset(range(SHARDS))


class Others:
    """The instance that owns all shards: `peloton.rpc.peers.Peers`, as far as it is asked."""

    def __init__(self, service: Any) -> None:
        self.service = service
        self.failing: list[str] = []
        """Texts with which the next calls fail."""
        self.calls = 0

    def owner(self, shard: int) -> Owner:
        return Owner("b", "b:1")

    def others(self) -> list[Owner]:
        return [Owner("b", "b:1")]

    sessions = others

    def metadata_of(self, context: Any) -> Any:
        return ()

    async def changed(self, within: float) -> None:
        return

    async def call(self, owner: Owner, path: str, request: Any, answer: Any, *rest: Any) -> Any:
        self.calls += 1
        if self.failing:
            raise PassedFailure(Failure.GONE, grpc.StatusCode.UNAVAILABLE, self.failing.pop(), ())
        sent = type(request).FromString(request.SerializeToString())
        try:
            made = await getattr(self.service, path.rpartition("/")[2])(sent, None)
        except PelotonError as error:
            raise PassedFailure(Failure.GONE, grpc.StatusCode.UNAVAILABLE, str(error), ()) from None
        return answer.FromString(made.SerializeToString())


@pytest.fixture
async def others(running: Served) -> Others:
    return Others(SharingService(running.engine, cast(Any, None), True))


@pytest.fixture
async def called(running: Served, others: Others) -> AsyncIterator[Engine]:
    """An instance over the same store, which owns nothing."""
    [(_, _, path)] = await running.engine.store.jobs._readers.run(
        lambda db: db.execute("PRAGMA database_list").fetchall()
    )
    store = await open_sqlite(SqliteSettings(path=path))
    engine = Engine(store, shards=HeldShards(whole=False))
    engine.elsewhere = OtherOwners(cast(Peers, others), (), lambda shard: 1)
    yield engine
    await store.close()


async def found(engine: Engine, crash_looping: bool) -> list[stateless_pb2.JobSummary]:
    """The services that a query finds, of both APIs."""
    workflows, clock = Workflows(engine), SystemClock()
    spec = stateless_pb2.QuerySpec(crash_looping=crash_looping)
    new = await JobService(engine, workflows, clock).QueryJobs(
        stateless_svc_pb2.QueryJobsRequest(spec=spec), None
    )
    old = await JobManager(engine, workflows, clock).Query(
        job_pb2.QueryRequest(spec=job_pb2.QuerySpec(crashLooping=crash_looping)), cast(Any, None)
    )
    assert [each.id.value for each in old.results] == [each.job_id.value for each in new.records]
    told = [each.status.reason for each in new.records]
    assert [each.runtime.reason for each in old.results] == told
    assert [each.runtime.reason for each in old.records] == told
    return list(new.records)


async def test_crash_loops_of_others_are_found_and_told(running: Served, called: Engine) -> None:
    assert await found(called, crash_looping=True) == []
    assert [each.status.reason for each in await found(called, crash_looping=False)] == [""]
    await report(running, TaskState.FAILED, 0, 2)
    for asked in (True, False):
        [job] = await found(called, crash_looping=asked)
        assert job.job_id.value == JOB
        assert job.status.throttled_pods == 2
        assert job.status.reason.startswith("crash-looping: 2 of 3 instances wait after failures")
    workflows = Workflows(called)
    parts = JobService(called, workflows, SystemClock()).ListJobs(stateless_svc_pb2.ListJobsRequest(), None)
    assert [[job.status.throttled_pods for job in part.jobs] async for part in parts] == [[2]]


async def test_a_list_has_what_is_stored_where_an_owner_does_not_answer(
    running: Served, called: Engine, others: Others
) -> None:
    await report(running, TaskState.FAILED, 0, 2)
    others.failing = ["gone", "gone"]
    [job] = await found(called, crash_looping=False)
    assert (job.job_id.value, job.status.reason) == (JOB, "")


async def test_owners_are_asked_again_who_crash_loops(others: Others) -> None:
    asked = OtherOwners(cast(Peers, others), (), lambda shard: 1)
    others.failing = ["5 of the active jobs are not read yet"]
    assert await asked.crash_looping(lambda: Looping(frozenset(), frozenset())) == frozenset()
    assert others.calls == 2


async def test_no_list_is_told_without_the_jobs_of_some_shards(
    others: Others, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "PATIENCE_SECONDS", 0.01)
    asked = OtherOwners(cast(Peers, others), (), lambda shard: 1)
    with pytest.raises(Unavailable, match=r"jobs are moving between job managers: try again$"):
        await asked.crash_looping(lambda: Looping(ALL, frozenset()))  # each shard is in two parts

    def reads() -> Looping:
        raise Unavailable("2 of the active jobs are not read yet")

    with pytest.raises(Unavailable, match="not known: 2 of the active jobs"):
        await asked.crash_looping(reads)


class Problems:
    async def ListProblems(self, request: Any, context: Any) -> problems_pb2.ListProblemsResponse:
        told = problems_pb2.Problem(level="bad", text="worse", link="/jobs", remedy="do this")
        return problems_pb2.ListProblemsResponse(problems=[told])


async def test_others_are_asked_what_is_wrong() -> None:
    others = Others(Problems())
    asked = OthersProblems(cast(Peers, others))
    assert await asked.told(None) == [Problem("bad", "worse", "/jobs", "do this")]
    others.failing = ["it stands still"]
    assert [each.text for each in await asked.told(None)] == [
        "It is not known what the job manager at b:1 sees: it stands still"
    ]
