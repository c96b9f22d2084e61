"""The process itself: elected, serving, and the same after it was killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.respool.respool_pb2_grpc import ResourceManagerStub
from peloton.calls.jobmgr import ENQUEUE_GANGS
from peloton.calls.rpc import Answer, Request, Rpc, rpc
from peloton.config.membership import LocalMembershipSettings
from peloton.errors import Unavailable
from peloton.membership.factory import membership
from peloton.membership.interface import Membership, Role
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.private.resmgrsvc.resmgrsvc_pb2_grpc import ResourceManagerServiceStub
from peloton.rpc.client import Channels, LeaderClient
from tests.unit.resmgr.shell import pool_config, run_id, wire_gang

CREATE_POOL = rpc(ResourceManagerStub, lambda stub: stub.CreateResourcePool)
QUERY_POOLS = rpc(ResourceManagerStub, lambda stub: stub.Query)
GET_ACTIVE_TASKS = rpc(ResourceManagerServiceStub, lambda stub: stub.GetActiveTasks)
SECONDS = 60.0
"""Longest that a loaded machine may take to start a process."""


@asynccontextmanager
async def watching(folder: Path) -> AsyncIterator[Membership]:
    members = membership(LocalMembershipSettings(directory=folder))
    await members.start()
    yield members
    await members.close()


def start(folder: Path) -> subprocess.Popen[bytes]:
    file = folder / "resmgr.yaml"
    file.write_text(
        f"membership: {{directory: {folder / 'membership'}}}\nstorage: {{path: {folder / 'peloton.db'}}}\n"
    )
    return subprocess.Popen([sys.executable, "-m", "resmgr", "-c", str(file)])


async def test_a_killed_resmgr_comes_back_with_its_pools(tmp_path: Path) -> None:
    channels, process = Channels(), start(tmp_path)
    async with watching(tmp_path / "membership") as members:

        async def call(rpc: Rpc[Request, Answer], request: Request) -> Answer:
            client = LeaderClient(members, channels, Role.RESMGR, ())
            return await client.call(rpc, request, timeout=SECONDS)

        try:
            request = respool_pb2.CreateRequest(config=pool_config("a"))
            pool = (await call(CREATE_POOL, request)).result
            process.kill()
            process.wait(SECONDS)
            process = start(tmp_path)
            answer = await call(QUERY_POOLS, respool_pb2.QueryRequest())
            assert {info.path.value: info.id.value for info in answer.resourcePools} == {
                "/": "root",
                "/a": pool.value,
            }
            enqueue = resmgrsvc_pb2.EnqueueGangsRequest(resPool=pool, gangs=[wire_gang(0)])
            assert not (await call(ENQUEUE_GANGS, enqueue)).HasField("error")
            tasks = resmgrsvc_pb2.GetActiveTasksRequest()
            assert dict((await call(GET_ACTIVE_TASKS, tasks)).taskStatesMap) == {run_id(0): "PENDING"}
            process.terminate()
            assert process.wait(SECONDS) == 0
            client = LeaderClient(members, channels, Role.RESMGR, ())
            with pytest.raises(Unavailable):
                await client.call(QUERY_POOLS, respool_pb2.QueryRequest(), timeout=0.5)
        finally:
            process.kill()
            process.wait()
            await channels.close()


def test_wrong_settings_are_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "resmgr.yaml"
    file.write_text("storage: {path: x.db}\nplacemant: {}\n")
    ended = subprocess.run(
        [sys.executable, "-m", "resmgr", "-c", str(file)], capture_output=True, text=True, timeout=SECONDS
    )
    assert ended.returncode == 1
    assert ended.stderr == f"peloton-resmgr: {file}: placemant: unknown setting; did you mean placement?\n"
