"""Calls to a role's leader, wherever it is now."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc

from peloton.errors import PelotonError, Unavailable
from peloton.membership.interface import Membership, Role
from peloton.rpc.caller import Metadata
from peloton.rpc.errors import error_of
from peloton.rpc.server import OPTIONS

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
CHANNEL_OPTIONS = (
    *OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Channels:
    """One channel per address, shared by all clients of a daemon."""

    def __init__(self) -> None:
        self._channels: dict[str, Any] = {}

    def to(self, target: str) -> Any:
        channel = self._channels.get(target)
        if channel is None:
            channel = self._channels[target] = grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        return channel

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


class LeaderClient:
    """A stub whose calls go to the leader of `role`."""

    def __init__(
        self, membership: Membership, channels: Channels, role: Role, stub: type, metadata: Metadata
    ) -> None:
        self._membership = membership
        self._channels = channels
        self._role = role
        self._stub_class = stub
        self._metadata = metadata
        self._target = ""
        self._stub: Any = None

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        """The answer. Raises the PelotonError that the status stands for.

        `timeout` (seconds) bounds everything. UNAVAILABLE is tried again within it, at the leader of
        the moment, unless `retry` is false: a request that may already have taken effect must be
        safe to repeat.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + timeout, FIRST_PAUSE
        while True:
            try:
                return await self._once(method, request, max(deadline - loop.time(), 0.001))
            except Unavailable:
                rest = deadline - loop.time()
                if not retry or rest <= pause:
                    raise
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _once(self, method: str, request: Any, timeout: float) -> Any:
        leader = self._membership.leader(self._role)
        if leader is None:
            raise Unavailable(f"no leader of {self._role.value} is known")
        if leader.target != self._target:
            self._target = leader.target
            self._stub = self._stub_class(self._channels.to(leader.target))
        try:
            return await getattr(self._stub, method)(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error, f"{self._role.value} {leader.target} {method}") from None
        except grpc.aio.UsageError as error:
            raise PelotonError(f"{method}: {error}") from None
