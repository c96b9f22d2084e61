"""Commands beside instances: who may begin a session, where it runs, and what the audit log has of it."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import grpc
import pytest

from peloton.api.v1alpha import peloton_pb2
from peloton.model.ids import is_uuid
from peloton.model.states import TaskState
from peloton.private.jobmgr.exec import exec_pb2 as pb
from peloton.private.jobmgr.exec import exec_pb2_grpc
from tests.unit.identity.served import as_user
from tests.unit.jobmgr_services.conftest import JOB, Served
from tests.unit.jobmgr_services.fakes import task
from tests.unit.jobmgr_services.gated import serving
from tests.unit.jobmgr_services.test_sandbox import RUN2, WORK, Agent, agent, known, ran_twice

__all__ = ["agent", "ran_twice"]
ROLES = """
roles:
- {role: ann, accept: ['*']}
- {role: bob, accept: ['*:Get*', '*:Browse*']}
- {role: eve, accept: ['*'], pools: [/elsewhere]}
"""


def job(value: str = JOB) -> peloton_pb2.JobID:
    return peloton_pb2.JobID(value=value)


async def start(served: Served, instance: int = 0, job_id: str = JOB) -> pb.StartSessionResponse:
    stub = exec_pb2_grpc.ExecServiceStub(served.channel)
    answer: pb.StartSessionResponse = await stub.StartSession(
        pb.StartSessionRequest(job_id=job(job_id), instance=instance)
    )
    return answer


async def test_a_session_is_at_the_agent_of_the_run(ran_twice: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(ran_twice, port)
    held.hold(f"{WORK}/{RUN2}/runs/c1", "stdout")
    first, second = await start(ran_twice), await start(ran_twice)
    assert (first.hostname, first.port, first.run) == ("127.0.0.1", str(port), RUN2)
    assert list(first.paths) == [f"{WORK}/{RUN2}/runs/c1/stdout"]
    assert is_uuid(first.session) and first.session != second.session


@pytest.mark.parametrize(
    ("instance", "job_id", "code", "why"),
    [
        (1, JOB, grpc.StatusCode.FAILED_PRECONDITION, "instance 1 is "),
        (99, JOB, grpc.StatusCode.NOT_FOUND, "no instance 99: the job has "),
        (0, JOB.replace("a", "f"), grpc.StatusCode.NOT_FOUND, "job not found"),
    ],
)
async def test_where_nothing_runs_there_is_none(
    ran_twice: Served, instance: int, job_id: str, code: grpc.StatusCode, why: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=why) as caught:
        await start(ran_twice, instance, job_id)
    assert caught.value.code() is code


async def test_an_ended_run_has_none(ran_twice: Served) -> None:
    ended = task(run=2, desired_run=2, state=TaskState.SUCCEEDED, host="h1", agent_id="S1")
    await ran_twice.engine.put(JOB, {0: ended, 1: task()})
    with pytest.raises(grpc.aio.AioRpcError, match="instance 0 is SUCCEEDED: a command runs beside"):
        await start(ran_twice)


async def test_who_may_begin_one_and_what_the_audit_log_has(
    ran_twice: Served, agent: tuple[Agent, int], tmp_path: Path
) -> None:
    asked = pb.StartSessionRequest(job_id=job(), instance=0)
    session = str(uuid.uuid4())
    ended = pb.EndSessionRequest(job_id=job(), instance=0, session=session)
    async with serving(tmp_path, ran_twice.engine, ("ann", "bob", "eve"), ROLES) as (channel, lines):
        stub = exec_pb2_grpc.ExecServiceStub(channel)
        for user, why in (
            ("bob", "the role bob does not accept"),
            ("eve", "the job is in the pool /teams/batch"),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.StartSession(asked, metadata=as_user(user))
            assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED, user
            assert why in str(caught.value.details()), caught.value.details()
        with pytest.raises(grpc.aio.AioRpcError):  # its agent is not known here
            await stub.StartSession(asked, metadata=as_user("ann"))
        await stub.EndSession(ended, metadata=as_user("ann"))
        with pytest.raises(grpc.aio.AioRpcError, match="session: 'x' is not the id"):
            await stub.EndSession(
                pb.EndSessionRequest(job_id=job(), instance=0, session="x"), metadata=as_user("ann")
            )
        await asyncio.sleep(0)
    said = [json.loads(line) for line in lines]
    assert [(line["principal"], line["method"].rpartition("/")[2], line["code"]) for line in said] == [
        ("bob", "StartSession", "PERMISSION_DENIED"),
        ("eve", "StartSession", "PERMISSION_DENIED"),
        ("ann", "StartSession", said[2]["code"]),
        ("ann", "EndSession", "OK"),
        ("ann", "EndSession", "INVALID_ARGUMENT"),
    ]
    assert said[3]["object"] == {"job": JOB, "instance": 0, "session": session}
