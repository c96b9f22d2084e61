"""A server with every service of the interface, whose methods only count their calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import empty_pb2
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from peloton.config.auth import AuthSettings
from peloton.config.limits import RateLimitSettings
from peloton.identity.door import Door
from peloton.identity.methods import interface
from peloton.identity.passwords import Cost, hashed
from peloton.identity.principal import Principal, current
from peloton.rpc.audit import Audit
from peloton.rpc.client import opened
from peloton.rpc.gate import Gate
from peloton.rpc.limits import RateLimits
from peloton.rpc.server import RpcServer, Service
from peloton.rpc.standard import health, reflection
from peloton.rpc.tls import Tls

Metadata = tuple[tuple[str, str], ...]
TOKEN = "0123456789abcdef0123456789abcdef"
DAEMON: Metadata = (
    ("peloton-token", TOKEN),
    ("peloton-instance", "jobmgr/one"),
    ("peloton-epoch", "jobmgr:7"),
)
ALIASES = ("peloton.api.job.JobManager", "peloton.api.task.TaskManager")
CHEAP = Cost(ln=4, p=1)
AT_ONCE = 32
ROLES = """
roles:
- {role: admin, accept: ["*"]}
- {role: reader, accept: ["*:Get*", "peloton.api.v0.task.TaskManager:*"], reject: ["*:GetCache"]}
- {role: unbound}
- {role: elsewhere, accept: ["*"], pools: [/elsewhere]}
"""


def basic_file(folder: Path, more: str = "") -> Path:
    """Users ann (admin), bob (reader), eve (unbound), dan (elsewhere); a password is the name and a 1."""
    users = [
        f"- {{username: {name}, password: '{hashed(name + '1', CHEAP)}', role: {role}}}"
        for name, role in (("ann", "admin"), ("bob", "reader"), ("eve", "unbound"), ("dan", "elsewhere"))
    ]
    return private(folder / "users.yaml", "\n".join(["users:", *users, more, ROLES]))


def private(file: Path, text: str) -> Path:
    file.touch(0o600)
    file.write_text(text)
    return file


def settings(folder: Path, **more: Any) -> AuthSettings:
    return AuthSettings(token_file=private(folder / "token", TOKEN + "\n"), **more)


def as_user(name: str, password: str | None = None) -> Metadata:
    return (("username", name), ("password", name + "1" if password is None else password))


@dataclass
class Served:
    """The server's port, and what has been let in."""

    channel: Any = None
    target: str = ""
    calls: Counter[str] = field(default_factory=Counter)
    callers: set[Principal] = field(default_factory=set)

    async def call(self, path: str, metadata: Metadata) -> grpc.StatusCode:
        return (await self.answer(path, metadata))[0]

    async def answer(self, path: str, metadata: Metadata) -> tuple[grpc.StatusCode, str]:
        try:
            await self.channel.unary_unary(path, bytes, bytes)(b"", metadata=metadata, timeout=60)
        except grpc.aio.AioRpcError as error:
            return error.code(), error.details() or ""
        return grpc.StatusCode.OK, ""

    async def call_all(self, metadata: Metadata) -> dict[str, grpc.StatusCode]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(path: str) -> tuple[str, grpc.StatusCode]:
            async with slots:
                return path, await self.call(path, metadata)

        return dict(await asyncio.gather(*map(one, every_method())))

    async def reflect(self, metadata: Metadata) -> grpc.StatusCode:
        call = ServerReflectionStub(self.channel).ServerReflectionInfo(
            iter([ServerReflectionRequest(list_services="*")]), metadata=metadata, timeout=60
        )
        try:
            await call.read()
        except grpc.aio.AioRpcError as error:
            return error.code()
        return grpc.StatusCode.OK


def every_method() -> list[str]:
    """Return every method of every service, public and private, and by its older names."""
    found = [f"/{service}/{method}" for service, methods in interface().items() for method in methods]
    older = [f"/{name}/{method}" for name in ALIASES for method in interface()[_newer(name)]]
    return sorted(found + older)


def _newer(name: str) -> str:
    return name.replace("peloton.api.", "peloton.api.v0.")


@asynccontextmanager
async def serving(
    auth: AuthSettings | None,
    limits: RateLimitSettings | None = None,
    tls: Tls | None = None,
    audit: Audit | None = None,
    passed_on: bool = False,
) -> AsyncIterator[Served]:
    """Serve; with `tls` to callers that have a certificate. The channel is one of the server itself.

    Job managers pass calls on to it where `passed_on` says so.
    """
    door = None if auth is None else Door(auth, by_certificate=tls is not None)
    if door is not None and passed_on:
        door.believe_job_managers()
    gate = Gate(door, None if limits is None else RateLimits(limits), audit)
    server = RpcServer(lambda: "nobody leads", [gate] if gate.needed else [])
    served = Served()
    server.activate([health(lambda: "", server.serves), *_services(served)])
    credentials = None if tls is None else tls.server(client_certificates=True)
    port = await server.start("127.0.0.1", 0, reflection(server.names), credentials)
    served.target = f"127.0.0.1:{port}"
    try:
        async with opened(served.target, tls) as served.channel:
            yield served
    finally:
        await server.stop()


def _services(served: Served) -> Iterable[Service]:
    for name, methods in interface().items():
        names = (name, *(alias for alias in ALIASES if _newer(alias) == name))
        yield Service(names, {method: _counting(served, f"/{name}/{method}") for method in methods})


def _counting(served: Served, path: str) -> Any:
    async def call(request: Any, context: Any) -> bytes:
        await asyncio.sleep(0)
        served.calls[path] += 1
        served.callers.add(current())
        return b""

    return grpc.unary_unary_rpc_method_handler(call, lambda raw: empty_pb2.Empty())
