"""Calls to the current leader of a role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any, Protocol

import grpc

from peloton.backoff import Backoff
from peloton.errors import PelotonError, PermissionDenied, Unauthenticated, Unavailable
from peloton.membership.interface import Group, Membership, Role, groups
from peloton.model.cluster import UNNAMED
from peloton.rpc.caller import INSTANCE, Metadata
from peloton.rpc.errors import error_of
from peloton.rpc.server import OPTIONS
from peloton.rpc.tls import Tls

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two tries of a call."""
CHANNEL_OPTIONS = (
    *OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    # Daemons are not behind the web proxy that the environment may name.
    ("grpc.enable_http_proxy", 0),
    # A silent connection (a partition, a firewall that dropped its state) is closed within the time of a
    # call; TCP would take a quarter of an hour. Pings are sent only while calls are under way.
    ("grpc.keepalive_time_ms", 4000),
    ("grpc.keepalive_timeout_ms", 4000),
    ("grpc.http2.ping_timeout_ms", 4000),  # of its own pings; while one is out, it sends no other
    ("grpc.http2.max_pings_without_data", 0),
)


class Caller(Protocol):
    """Calls the leader of another daemon, as `LeaderClient` does."""

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        """Call a method and return the answer. Raises PelotonError."""
        ...


def opened(target: str, tls: Tls | None, alone: bool = False) -> Any:
    """Open a channel to an address: by the connection of all channels there, or by one `alone`."""
    options = (*CHANNEL_OPTIONS, ("grpc.use_local_subchannel_pool", 1)) if alone else CHANNEL_OPTIONS
    if tls is None:
        return grpc.aio.insecure_channel(target, options=options)
    return grpc.aio.secure_channel(target, tls.channel(), options=options)


class Channels:
    """One channel per address, shared by all clients of a daemon."""

    def __init__(self, tls: Tls | None = None) -> None:
        """Without credentials, the channels are not encrypted."""
        self._tls = tls
        self._generation = 0
        self._channels: dict[str, Any] = {}
        self._retired: list[Any] = []

    def to(self, target: str) -> Any:
        """Return the channel to an address. With new certificates it is a new one."""
        if self._tls is not None:
            self._follow_certificates(self._tls)
        channel = self._channels.get(target)
        if channel is None:
            channel = self._channels[target] = opened(target, self._tls)
        return channel

    def _follow_certificates(self, tls: Tls) -> None:
        """Put channels aside that were opened with earlier certificates: calls are under way there."""
        tls.refresh()
        if tls.generation != self._generation:
            self._generation = tls.generation
            self._retired += self._channels.values()
            self._channels.clear()

    def alone(self, target: str) -> Any:
        """Open a channel with a connection of its own, for the caller to close."""
        if self._tls is not None:
            self._follow_certificates(self._tls)
        return opened(target, self._tls, alone=True)

    def existing(self, target: str) -> Any:
        """Return the channel to an address, if there is one."""
        return self._channels.get(target)

    async def follow(self, membership: Membership) -> None:
        """Close channels to instances that lost leadership, until cancelled.

        A call that waits there would wait for its whole time-out. It ends with Unavailable instead and is
        repeated at the new leader.
        """
        kept: set[str] = set()
        while True:
            leaders = (membership.leader(*group) for group in groups(membership.clusters()))
            targets = {leader.target for leader in leaders if leader is not None}
            if targets == kept:  # no leader changed while channels were being closed
                await membership.changed()
                continue
            kept = targets
            await self._keep(kept)

    async def _keep(self, targets: Collection[str]) -> None:
        for target in self._channels.keys() - set(targets):
            await self._channels.pop(target).close()

    async def close(self) -> None:
        """Close all channels."""
        for channel in (*self._channels.values(), *self._retired):
            await channel.close()
        self._channels.clear()
        self._retired.clear()


class LeaderClient:
    """A stub whose calls go to the leader of `role`, in a Mesos cluster."""

    def __init__(
        self,
        membership: Membership,
        channels: Channels,
        role: Role,
        stub: type,
        metadata: Metadata,
        fence: Callable[[], None] = lambda: None,
        cluster: str = UNNAMED,
    ) -> None:
        """Call `fence` before each call; it raises where the caller may not act as leader now.

        `cluster` is the Mesos cluster whose host manager is called.
        """
        self._membership = membership
        self._channels = channels
        self._group = Group(role, cluster)
        self._stub_class = stub
        self._metadata = metadata
        # A daemon that is refused goes on trying: nothing has begun, and the tokens may be about to change.
        self._of_daemon = any(key == INSTANCE for key, _ in metadata)
        self._fence = fence
        self._channel: Any = None
        self._stub: Any = None

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        """Call a method and return the answer.

        Raises the PelotonError that the status stands for, and what the fence raises. `timeout` (seconds)
        bounds all tries. UNAVAILABLE is tried again within it, at the current leader, unless `retry` is
        false: a request that may already have taken effect must be safe to repeat.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                return await self._once(method, request, max(deadline - loop.time(), 0.001))
            except Unavailable:
                rest = deadline - loop.time()
                if not retry or rest <= backoff.longest_next:
                    raise
            await backoff.wait()

    async def _once(self, method: str, request: Any, timeout: float) -> Any:
        leader = self._membership.leader(*self._group)
        if leader is None:
            raise Unavailable(f"no leader of {self._group} is known")
        self._fence()
        channel = self._channels.to(leader.target)
        if channel is not self._channel:
            self._channel, self._stub = channel, self._stub_class(channel)
        try:
            return await getattr(self._stub, method)(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            failure = error_of(error, f"{self._group} {leader.target} {method}")
            if self._of_daemon and isinstance(failure, Unauthenticated | PermissionDenied):
                raise Unavailable(str(failure)) from None
            raise failure from None
        except grpc.aio.UsageError as error:
            if channel is self._channels.existing(leader.target):
                raise PelotonError(f"{method}: {error}") from None
            raise Unavailable(f"{method}: {leader.target} does not lead any more") from None
        except asyncio.CancelledError:
            if _cancelled():
                raise
            raise Unavailable(f"{method}: {leader.target} does not lead any more") from None


def _cancelled() -> bool:
    """Return whether the calling task is cancelled, as opposed to its call with its channel."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
