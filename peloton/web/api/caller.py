"""Calls of the door to the leaders, as bytes: nothing of a message is read on the way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import grpc

from peloton.client import finding
from peloton.client.discovery import Discovery
from peloton.client.following import Leader, Way
from peloton.client.following import Method as Called
from peloton.client.sync_async import Asyncio, LocalError
from peloton.client.tls import Tls as ClientTls
from peloton.rpc.client import opened
from peloton.rpc.tls import Tls
from peloton.web.api.failures import CallFailure, failure_of
from peloton.web.api.methods import Method

Metadata = tuple[tuple[str, str], ...]


class Caller(Protocol):
    """Calls methods at the leaders."""

    async def call(self, method: Method, request: Any, metadata: Metadata, timeout: float) -> bytes:
        """Call a method with one answer. Raises CallFailure."""
        ...

    def stream(
        self, method: Method, request: Any, metadata: Metadata, timeout: float | None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream, which is cancelled when the body ends. Entering and iterating raise CallFailure."""
        ...


class LeaderCaller:
    """Follows the leaders that a discovery finds, as the Python client does (`peloton.client.following`)."""

    def __init__(self, discovery: Discovery, name: str = "peloton-web", tls: Tls | None = None) -> None:
        self._discovery = discovery
        self._name = name
        self._tls = tls
        self._driver = Asyncio()
        self._generation = 0
        self._leaders: dict[str, Leader] = {}
        self._retired: list[Leader] = []
        """Those whose channels were opened with earlier certificates: calls are under way there."""

    async def call(self, method: Method, request: Any, metadata: Metadata, timeout: float) -> bytes:
        """Call a method with one answer. Raises CallFailure."""
        called = Called("unary_unary", method.path, (_serialized,), {})
        try:
            leader = self._leader(method.role)
            answer: bytes = await leader.call(called, request, timeout, {"metadata": metadata})
        except grpc.RpcError as error:
            raise _failure(error) from None
        return answer

    @asynccontextmanager
    async def stream(
        self, method: Method, request: Any, metadata: Metadata, timeout: float | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream at the leader of this moment.

        It has a connection of its own: a server bounds the calls of each, and streams last.
        """
        leader = self._leader(method.role)
        try:
            target = await leader.leader()
        except grpc.RpcError as error:
            raise _failure(error) from None
        leader.invalidate(target)  # the next one looks again: nothing tells here that this one has gone
        channel = opened(target.address, self._tls, alone=True)
        call = channel.unary_stream(method.path, _serialized)(
            request, timeout=timeout, **leader.filled({"metadata": metadata})
        )
        try:
            yield _answers(call)
        finally:
            call.cancel()
            await channel.close()

    async def close(self) -> None:
        """Close all channels."""
        for leader in (*self._leaders.values(), *self._retired):
            for channel in leader.close():
                await channel.close()
        self._discovery.close()
        await self._driver.close()

    def _leader(self, role: str) -> Leader:
        """Return what follows the leader of a role, by the certificates of now."""
        if self._tls is not None:
            self._tls.refresh()
            if self._tls.generation != self._generation:
                self._generation = self._tls.generation
                self._retired += self._leaders.values()
                self._leaders.clear()
        if role not in self._leaders:
            self._leaders[role] = Leader(self._way(role))
        return self._leaders[role]

    def _way(self, role: str) -> Way:
        own = (
            ("rpc-caller", self._name),
            ("rpc-service", f"peloton-{role.partition('/')[0]}"),
            ("rpc-encoding", "proto"),
        )
        return Way(
            self._driver,
            address=lambda seconds: finding.address_within(self._discovery, role, seconds),
            open=lambda target: opened(target, self._tls),
            metadata=lambda: own,
            timeout=None,
            repeats=self._discovery.follows(role),
            tls=ClientTls(*self._tls.paths) if self._tls is not None else None,
            watch=lambda tell: finding.watch(self._discovery, role, tell),
        )


def _serialized(request: Any) -> bytes:
    return bytes(request.SerializeToString())


def _failure(error: grpc.RpcError) -> CallFailure:
    """Translate a failed call. What failed here and not at a server is not the fault of who calls."""
    if isinstance(error, LocalError):
        return CallFailure(grpc.StatusCode.UNAVAILABLE, error.details())
    return failure_of(error)


async def _answers(call: Any) -> AsyncIterator[bytes]:
    try:
        async for answer in call:
            yield answer
    except grpc.RpcError as error:
        raise failure_of(error) from None
