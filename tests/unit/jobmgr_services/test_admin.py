"""AdminService over the wire: each component, repetition, errors, and what a lockdown refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from jobmgr.engine.lockdown import Lockdown
from jobmgr.services.common.lockdown import component_of
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.admin.svc import admin_svc_pb2 as pb
from peloton.clock import ManualClock
from peloton.errors import Unavailable
from peloton.model.lockdown import Component
from peloton.private.jobmgrsvc import jobmgrsvc_pb2
from tests.unit.jobmgr_services.conftest import Served, job_id, status
from tests.unit.jobmgr_services.fakes import FakeEngine, FakeHostmgr, served_by

ALL = list(pb.Component.values())
REFUSED = grpc.StatusCode.FAILED_PRECONDITION


async def lock(served: Served, *components: Any) -> pb.LockdownResponse:
    answer: pb.LockdownResponse = await served.admin.Lockdown(pb.LockdownRequest(components=components))
    return answer


async def unlock(served: Served, *components: Any) -> pb.RemoveLockdownResponse:
    request = pb.RemoveLockdownRequest(components=components)
    answer: pb.RemoveLockdownResponse = await served.admin.RemoveLockdown(request)
    return answer


def test_the_model_names_each_component_of_the_api() -> None:
    assert {component.value for component in Component} == set(pb.Component.keys())


async def test_components_are_locked_and_unlocked_and_stored(served: Served) -> None:
    assert await lock(served, *ALL) == pb.LockdownResponse(successes=ALL)
    assert served.engine.lockdown.locked == frozenset(Component)
    assert await served.engine.store.lockdowns.all() == frozenset(Component)
    assert await unlock(served, pb.Kill, pb.Read) == pb.RemoveLockdownResponse(successes=[pb.Kill, pb.Read])
    left = {Component.GOAL_STATE_ENGINE, Component.WRITE, Component.LAUNCH}
    assert served.engine.lockdown.locked == left
    assert await served.engine.store.lockdowns.all() == left


async def test_repetition_succeeds_and_changes_nothing(served: Served) -> None:
    for _ in range(2):
        assert list((await lock(served, pb.Kill, pb.Kill)).successes) == [pb.Kill]
        assert served.engine.lockdown.locked == {Component.KILL}
    for _ in range(2):
        assert list((await unlock(served, pb.Kill)).successes) == [pb.Kill]
        assert await served.engine.store.lockdowns.all() == frozenset()


async def test_an_unknown_component_fails_alone(served: Served) -> None:
    for switch in (lock, unlock):
        answer = await switch(served, 9, pb.Launch)
        assert list(answer.successes) == [pb.Launch]
        (failure,) = answer.failures
        assert failure.component == 9
        assert failure.FailureMessage == (
            "components[0]: 9 is not one of GoalStateEngine (0), Read (1), Write (2), Kill (3), Launch (4)"
        )


async def test_a_request_without_components_is_invalid(served: Served) -> None:
    for switch in (lock, unlock):
        with status(grpc.StatusCode.INVALID_ARGUMENT, "components: [] is not one or more of GoalStateEngine"):
            await switch(served)


@contextmanager
def broken(lockdowns: Any) -> Iterator[None]:
    async def fail(component: Component) -> None:
        raise Unavailable("the disk is full")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lockdowns, "write", fail)
        patch.setattr(lockdowns, "delete", fail)
        yield


async def test_what_cannot_be_stored_is_not_switched(served: Served) -> None:
    await lock(served, pb.Launch)
    failed = [pb.ComponentFailure(component=pb.Kill, FailureMessage="the disk is full")]
    with broken(served.engine.store.lockdowns):
        assert await lock(served, pb.Kill) == pb.LockdownResponse(failures=failed)
        failed[0].component = pb.Launch
        assert await unlock(served, pb.Launch) == pb.RemoveLockdownResponse(failures=failed)
    assert served.engine.lockdown.locked == {Component.LAUNCH}


async def test_a_restart_does_not_unlock(served: Served) -> None:
    await lock(served, pb.Write, pb.Kill)
    restarted = Lockdown(served.engine.store)
    await restarted.load()
    assert restarted.locked == {Component.WRITE, Component.KILL}


async def test_write_refuses_what_changes_something_and_nothing_else(with_job: Served) -> None:
    await lock(with_job, pb.Write)
    text = (
        "Create: an operator has locked Write calls of the job manager; `peloton admin unlock Write` allows"
    )
    with status(REFUSED, text):
        await with_job.create()
    with status(REFUSED, "Stop: an operator"):
        await with_job.jobs.Stop(job_pb2.StopRequest(id=job_id()))
    with status(REFUSED, "RefreshJob: an operator"):
        await with_job.private.RefreshJob(jobmgrsvc_pb2.RefreshJobRequest())
    assert (await with_job.jobs.Get(job_pb2.GetRequest(id=job_id()))).HasField("jobInfo")
    await unlock(with_job, pb.Write)
    await with_job.jobs.Stop(job_pb2.StopRequest(id=job_id()))


async def test_read_refuses_what_reads_and_nothing_else(served: Served) -> None:
    await lock(served, pb.Read)
    with status(REFUSED, "Get: an operator has locked Read calls"):
        await served.jobs.Get(job_pb2.GetRequest(id=job_id()))
    assert not (await served.create()).HasField("error")
    await unlock(served, pb.Read)
    assert (await served.jobs.Get(job_pb2.GetRequest(id=job_id()))).HasField("jobInfo")


@pytest.mark.parametrize("component", [pb.GoalStateEngine, pb.Kill, pb.Launch])
async def test_other_components_refuse_no_call(with_job: Served, component: pb.Component) -> None:
    await lock(with_job, component)
    await with_job.jobs.Stop(job_pb2.StopRequest(id=job_id()))
    assert (await with_job.jobs.Get(job_pb2.GetRequest(id=job_id()))).HasField("jobInfo")


async def test_every_method_but_those_of_admin_is_read_or_write(served: Served) -> None:
    held = served_by(FakeEngine(served.engine.store), ManualClock(), FakeHostmgr())
    reading = {
        f"{each.names[0].rpartition('.')[2]}.{name}"
        for each in held
        for name in each.methods
        if component_of(name) is Component.READ
    }
    changing: tuple[str, ...] = ("Create", "Update", "Delete", "Start", "Stop", "Restart", "Refresh", "Patch")
    changing += ("Replace", "Pause", "Resume", "Rollback", "Abort", "Release", "End", "Move", "Suspend")
    for name in reading:
        assert not name.partition(".")[2].startswith(changing), name
    writing = {name for each in held for name in each.methods} - {name.partition(".")[2] for name in reading}
    assert all(name.startswith((*changing, "Lockdown", "RemoveLockdown")) for name in writing), writing
