"""A daemon of its own, through its whole life, as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import httpx2
import pytest

from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.calls.rpc import rpc
from peloton.membership.interface import Address, Membership, Role
from peloton.membership.local import LocalMembership
from peloton.rpc.caller import INSTANCE
from peloton.rpc.client import Channels, LeaderClient

DAEMON = """
import asyncio
import os
import sys
from contextlib import asynccontextmanager
from peloton.api.v0.respool import respool_pb2, respool_pb2_grpc
from peloton.config.settings import DaemonSettings
from peloton.daemon.lifecycle import run
from peloton.errors import NotFound
from peloton.membership.interface import Role
from peloton.rpc.server import caller, service

class Pools(respool_pb2_grpc.ResourceManagerServicer):
    async def LookupResourcePoolID(self, request, context):
        if request.path.value == "/bad":
            raise NotFound("no pool /bad")
        if request.path.value == "/bug":
            raise KeyError("bug")
        answer = respool_pb2.LookupResponse()
        answer.id.value = caller(context).instance
        return answer

def build(daemon):
    @asynccontextmanager
    async def leading(term):
        pools = service(
            respool_pb2_grpc.add_ResourceManagerServicer_to_server,
            Pools(), ["peloton.api.respool.ResourceManager"])
        async with daemon.serving(pools):
            yield
    @asynccontextmanager
    async def standby():
        try:
            yield
        finally:
            while os.path.exists(os.environ.get("HOLD_UP", "")):
                await asyncio.sleep(0.05)
    daemon.lead(leading, ["peloton.api.v0.respool.ResourceManager"], standby)

sys.exit(run(DaemonSettings, Role.RESMGR, build, sys.argv[1:]))
"""

QUERY = "/peloton.api.v0.respool.ResourceManager/Query"
LOOKUP_POOL = rpc(respool_pb2_grpc.ResourceManagerStub, lambda stub: stub.LookupResourcePoolID)


@asynccontextmanager
async def process(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        DAEMON,
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.kill()
        await child.communicate()


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    settings = tmp_path / "settings.yaml"
    settings.write_text(f"membership: {{kind: local, directory: {tmp_path / 'members'}}}\n")
    return tmp_path


async def leader(membership: Membership) -> Address:
    async with asyncio.timeout(60):
        while (found := membership.leader(Role.RESMGR)) is None:
            await membership.changed()
    return found


async def test_serves_fails_cleanly_and_ends(folder: Path) -> None:
    async with process("-c", str(folder / "settings.yaml")) as child:
        membership = LocalMembership(folder / "members")
        await membership.start()
        address = await leader(membership)
        channels = Channels()
        client = LeaderClient(
            membership,
            channels,
            Role.RESMGR,
            ((INSTANCE, "jobmgr/me"),),
        )
        answer = await client.call(LOOKUP_POOL, respool_pb2.LookupRequest())
        assert answer.id.value == "jobmgr/me"
        assert await statuses(address.target) == {
            "alias": grpc.StatusCode.OK,
            "not found": grpc.StatusCode.NOT_FOUND,
            "bug": grpc.StatusCode.INTERNAL,
            "no message": grpc.StatusCode.INVALID_ARGUMENT,
            "unknown method": grpc.StatusCode.UNIMPLEMENTED,
            "unknown service": grpc.StatusCode.UNIMPLEMENTED,
        }
        health = await asyncio.to_thread(httpx2.get, f"http://{address.ip}:{address.http}/health", timeout=60)
        assert (health.status_code, health.text) == (200, "OK")
        metrics = await asyncio.to_thread(
            httpx2.get, f"http://{address.ip}:{address.http}/metrics", timeout=60
        )
        assert "health_leader 1.0" in metrics.text
        await channels.close()
        await membership.close()
        child.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(child.wait(), 60) == 0


async def statuses(target: str) -> dict[str, grpc.StatusCode]:
    name = "/peloton.api.v0.respool.ResourceManager"
    lookup = respool_pb2.LookupRequest
    calls = {
        "alias": ("/peloton.api.respool.ResourceManager/LookupResourcePoolID", b""),
        "not found": (f"{name}/LookupResourcePoolID", path(lookup(), "/bad")),
        "bug": (f"{name}/LookupResourcePoolID", path(lookup(), "/bug")),
        "no message": (f"{name}/LookupResourcePoolID", b"\x0a\xff"),
        "unknown method": (f"{name}/Nonsense", b""),
        "unknown service": ("/no.such.Service/Nonsense", b""),
    }
    found = {}
    async with grpc.aio.insecure_channel(target) as channel:
        for label, (method, body) in calls.items():
            call = channel.unary_unary(method, bytes, bytes)(body, timeout=60)
            found[label] = await call.code()
    return found


def path(request: respool_pb2.LookupRequest, value: str) -> bytes:
    request.path.value = value
    return request.SerializeToString()


async def test_a_second_instance_names_the_leader(folder: Path) -> None:
    async with process("-c", str(folder / "settings.yaml")):
        membership = LocalMembership(folder / "members")
        await membership.start()
        first = await leader(membership)
        async with process("-c", str(folder / "settings.yaml")):
            async with asyncio.timeout(60):
                while len(membership.members(Role.RESMGR)) < 2:
                    await membership.changed()
            (other,) = {
                m.address.target
                for m in membership.members(Role.RESMGR).values()
                if m.address.target != first.target
            }
            async with grpc.aio.insecure_channel(other) as channel:
                call = channel.unary_unary(QUERY, bytes, bytes)(b"", timeout=60)
                assert await call.code() is grpc.StatusCode.UNAVAILABLE
                assert first.target in await call.details()
        await membership.close()


async def test_next_leader_starts_before_the_first_has_released_everything(folder: Path) -> None:
    hold_up, settings = folder / "hold-up", ("-c", str(folder / "settings.yaml"))
    hold_up.touch()
    async with process(*settings, HOLD_UP=str(hold_up)) as child:
        membership = LocalMembership(folder / "members")
        await membership.start()
        first = await leader(membership)
        async with process(*settings):
            child.send_signal(signal.SIGTERM)
            async with asyncio.timeout(60):
                while membership.leader(Role.RESMGR) in (first, None):
                    await membership.changed()
            assert child.returncode is None
            hold_up.unlink()
            assert await asyncio.wait_for(child.wait(), 60) == 0
        await membership.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-c", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["--http-port", "many"], "http_port: 'many'"),
        (["--grpc-port", "70000"], "grpc_port: '70000'"),
    ],
)
async def test_invalid_settings_print_one_line(arguments: list[str], told: str) -> None:
    async with process(*arguments) as child:
        _, stderr = await child.communicate()
        assert child.returncode == 1
        assert told in stderr.decode()
        assert len(stderr.decode().splitlines()) == 1


async def test_a_port_in_use_ends_with_one_line(folder: Path) -> None:
    async with process("-c", str(folder / "settings.yaml")):
        membership = LocalMembership(folder / "members")
        await membership.start()
        taken = await leader(membership)
        await membership.close()
        for flag, port in (("--http-port", taken.http), ("--grpc-port", taken.grpc)):
            async with process("-c", str(folder / "settings.yaml"), flag, str(port)) as second:
                _, stderr = await second.communicate()
                assert second.returncode == 1
                assert f":{port}" in stderr.decode().splitlines()[-1]
