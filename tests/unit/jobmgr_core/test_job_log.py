"""The log at level info tells the story of a job, a line for each of its steps."""

from __future__ import annotations

import logging
import re

import pytest

from jobmgr.engine.engine import Engine
from peloton.identity import principal, request
from peloton.identity.principal import Kind, Principal
from peloton.model.states import JobState, TaskState
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.steps import ended, reach
from tests.unit.jobmgr_core.world import Running, World, runs_on


def call_of(name: str, number: str) -> None:
    """Let what follows be part of a call, as the server does."""
    principal.enter(Principal(name, Kind.USER))
    request.enter([("x-request-id", number)])


async def test_a_job_is_told_by_request_and_job(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "jobmgr.engine.job_log"):
        async with Running(Engine(store), World(runs_on)) as running:
            call_of("alice", "request-1")
            await running.engine.create_job(JOB, spec(200))
            await reach(running.engine, TaskState.RUNNING, 200)
            call_of("bob", "request-2")
            assert len(await running.engine.stop(JOB, [0, 1])) == 2
            await running.engine.stop(JOB, None)
            await ended(running.engine)
        job = await running.engine.load(JOB)
    assert job.runtime.state is JobState.KILLED
    lines = [record.getMessage() for record in caplog.records if record.name == "jobmgr.engine.job_log"]
    assert all(JOB in line for line in lines)
    told = [re.sub(r"[0-9.]+ s", "1 s", line.removeprefix(f"job {JOB}")) for line in lines]
    assert told == [
        " 'job' is created by alice: BATCH, 200 instances, pool b3f1c2de-0000-4000-8000-000000000001"
        " (request request-1)",
        " has started, 1 s after its creation",
        ": stop 2 instances by bob (request request-2)",
        ": stop by bob (request request-2)",
        " has ended: KILLED, stopped by bob after 1 s: 200 KILLED",
    ]
