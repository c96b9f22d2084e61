"""Calls of the door to the leaders, as bytes: nothing of a message is read on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol

import grpc

from peloton.backoff import Backoff
from peloton.client.discovery import Discovery, DiscoveryError, NoLeader
from peloton.client.following import FIRST_PAUSE, LONGEST_PAUSE, SERVER_GONE, never_began, repeatable
from peloton.rpc.client import Channels
from peloton.rpc.tls import Tls
from peloton.web.api.failures import Failure, failure_of
from peloton.web.api.methods import Method

Metadata = tuple[tuple[str, str], ...]


class Caller(Protocol):
    """Calls methods at the leaders."""

    async def call(self, method: Method, request: Any, metadata: Metadata, timeout: float) -> bytes:
        """Call a method with one answer. Raises Failure."""
        ...

    def stream(
        self, method: Method, request: Any, metadata: Metadata, timeout: float | None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open a stream, which is cancelled when the body ends. Entering and iterating raise Failure."""
        ...


class LeaderCaller:
    """Follows the leaders that a discovery finds.

    A call that was UNAVAILABLE is made again at the next leader, within its time-out, where it never began or
    where a second time changes nothing, as `peloton.client.following` does for the blocking client.
    """

    def __init__(self, discovery: Discovery, name: str = "peloton-web", tls: Tls | None = None) -> None:
        self._discovery = discovery
        self._channels = Channels(tls)
        self._name = name
        self._targets: dict[str, str] = {}

    async def call(self, method: Method, request: Any, metadata: Metadata, timeout: float) -> bytes:
        """Call a method with one answer. Raises Failure."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                return await self._once(method, request, metadata, max(deadline - loop.time(), 0.001))
            except _Retry as error:
                if loop.time() + backoff.longest_next >= deadline:
                    raise error.failure from None
            await backoff.wait()

    @asynccontextmanager
    async def stream(
        self, method: Method, request: Any, metadata: Metadata, timeout: float | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a stream at the leader of this moment.

        It has a connection of its own: a server bounds the calls of each, and streams last.
        """
        try:
            target = await self._leader(method.role)
        except _Retry as error:
            raise error.failure from None
        self._targets.pop(method.role, None)
        channel = self._channels.alone(target)
        call = channel.unary_stream(method.path)(
            request.SerializeToString(), timeout=timeout, metadata=self._metadata(method, metadata)
        )
        try:
            yield _answers(call)
        finally:
            call.cancel()
            await channel.close()

    async def close(self) -> None:
        """Close all channels."""
        await self._channels.close()

    async def _once(self, method: Method, request: Any, metadata: Metadata, timeout: float) -> bytes:
        target = await self._leader(method.role)
        multicallable: Callable[..., Any] = self._channels.to(target).unary_unary(method.path)
        try:
            answer: bytes = await multicallable(
                request.SerializeToString(), timeout=timeout, metadata=self._metadata(method, metadata)
            )
        except grpc.RpcError as error:
            if error.code() in (*SERVER_GONE, grpc.StatusCode.DEADLINE_EXCEEDED):
                self._forget(method.role, target)
            if error.code() in SERVER_GONE and (never_began(error) or repeatable(method.path, request)):
                raise _Retry(failure_of(error)) from None
            raise failure_of(error) from None
        return answer

    async def _leader(self, role: str) -> str:
        """Return the address of a leader. Raises Failure, and _Retry where nobody leads."""
        target = self._targets.get(role)
        if target is None:
            try:
                target = await asyncio.to_thread(self._discovery.address, role)
            except NoLeader as error:
                raise _Retry(Failure(grpc.StatusCode.UNAVAILABLE, str(error))) from None
            except DiscoveryError as error:
                raise Failure(grpc.StatusCode.UNAVAILABLE, str(error)) from None
            self._targets[role] = target
        return target

    def _forget(self, role: str, target: str) -> None:
        if self._targets.get(role) == target:
            del self._targets[role]

    def _metadata(self, method: Method, given: Metadata) -> Metadata:
        own = (
            ("rpc-caller", self._name),
            ("rpc-service", f"peloton-{method.role.partition('/')[0]}"),
            ("rpc-encoding", "proto"),
        )
        return own + given


class _Retry(Exception):
    """The call may be made again at the next leader."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__()


async def _answers(call: Any) -> AsyncIterator[bytes]:
    try:
        async for answer in call:
            yield answer
    except grpc.RpcError as error:
        raise failure_of(error) from None
