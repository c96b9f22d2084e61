"""Calls to the current leader of a role."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Any

import grpc

from peloton import __version__
from peloton.backoff import shortened
from peloton.calls.rpc import Answer, Request, Rpc
from peloton.errors import Conflict, PelotonError, Refused, Unavailable
from peloton.leaders import DAEMON, JITTER, PROGRAM, Failure, Tries, failure_of, left
from peloton.membership.interface import Group, Membership, Role, groups
from peloton.model.cluster import UNNAMED
from peloton.model.versions import mismatch
from peloton.rpc.caller import INSTANCE, SHARDS, Metadata
from peloton.rpc.errors import error_of
from peloton.rpc.server import OPTIONS
from peloton.rpc.tls import Tls

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
            await self.keep(kept)

    async def keep(self, targets: Collection[str]) -> None:
        """Close the channels to all other addresses, but for a few of the last ones."""
        for target in left(self._channels, targets):
            await self._channels.pop(target).close()

    async def close(self) -> None:
        """Close all channels."""
        for channel in (*self._channels.values(), *self._retired):
            await channel.close()
        self._channels.clear()
        self._retired.clear()


class LeaderClient:
    """Calls that go to the leader of `role`, in a Mesos cluster, as `peloton.leaders` decides.

    The membership names the leader of each moment: every try asks it again.
    """

    def __init__(
        self,
        membership: Membership,
        channels: Channels,
        role: Role,
        metadata: Metadata,
        fence: Callable[[], None] = lambda: None,
        cluster: str = UNNAMED,
        shards: Callable[[], str] | None = None,
    ) -> None:
        """Call `fence` before each call; it raises where the caller may not act as leader now.

        `cluster` is the Mesos cluster whose host manager is called. `shards` returns the claim to shards of
        jobs that a call is to make; while that is empty no call is made.
        """
        self._shards = shards
        self._claiming: tuple[str, Metadata] = "", ()
        """The last claim, and the metadata with it."""
        self._membership = membership
        self._channels = channels
        self._group = Group(role, cluster)
        self._metadata = metadata
        self._patience = DAEMON if any(key == INSTANCE for key, _ in metadata) else PROGRAM
        self._fence = fence
        self._channel: Any = None
        self._calls: dict[str, Any] = {}

    async def call(
        self,
        rpc: Rpc[Request, Answer],
        request: Request,
        timeout: float = 10.0,
        retry: bool = True,
        waits: float = 0.0,
    ) -> Answer:
        """Make a call and return the answer.

        Raises the PelotonError that the status stands for, and what the fence raises. `timeout` (seconds)
        bounds all tries. UNAVAILABLE is tried again within it, at the current leader, unless `retry` is
        false: a request that may already have taken effect must be safe to repeat.

        In a long poll the other side waits for up to `waits` seconds in each try, and `timeout` bounds what
        a try takes beyond them, and the tries after the first one that failed.
        """
        now = asyncio.get_running_loop().time
        tries = Tries(self._patience, now(), timeout, repeats=retry, waits=waits)
        while True:
            try:
                return await self._once(rpc, request, tries.seconds(now()))
            except _Failed as failed:
                pause = tries.failed(failed.failure, now())
                if pause is None:
                    raise failed.error from None
            except Unavailable:  # nobody leads, or the fence cannot tell whether we do
                pause = tries.failed(Failure.NOT_BEGUN, now())
                if pause is None:
                    raise
            await asyncio.sleep(shortened(pause, JITTER))

    async def _once(self, rpc: Rpc[Request, Answer], request: Request, seconds: float | None) -> Answer:
        leader = self._membership.leader(*self._group)
        if leader is None:
            raise Unavailable(f"no leader of {self._group} is known")
        if why := mismatch(__version__, leader.version):
            raise Refused(f"the {self._group} at {leader.target}: {why}")
        self._fence()
        channel = self._channels.to(leader.target)
        if channel is not self._channel:
            self._channel, self._calls = channel, {}
        call = self._calls.get(rpc.path)
        if call is None:
            call = self._calls[rpc.path] = channel.unary_unary(rpc.path, rpc.serialize, rpc.parse)
        claim, metadata = self._claims()
        try:
            answer: Answer = await call(request, timeout=seconds, metadata=metadata)
            return answer
        except grpc.RpcError as error:
            failed = self._failed(error, leader.target, rpc.name)
            if self._shards is not None and isinstance(failed.error, Conflict) and self._shards() != claim:
                # A shard has moved since: the call was refused, and is made again with what is owned now.
                raise _Failed(Failure.NOT_BEGUN, Unavailable(str(failed.error))) from None
            raise failed from None
        except grpc.aio.UsageError as error:
            if channel is self._channels.existing(leader.target):
                raise PelotonError(f"{rpc.name}: {error}") from None
            raise _deposed(Failure.NOT_BEGUN, leader.target, rpc.name) from None
        except asyncio.CancelledError:
            if _cancelled():
                raise
            raise _deposed(Failure.GONE, leader.target, rpc.name) from None

    def _claims(self) -> tuple[str, Metadata]:
        """Return the present claim to shards, and metadata with it. Raises Unavailable for none."""
        if self._shards is None:
            return "", self._metadata
        claim = self._shards()
        if not claim:
            raise Unavailable("this instance owns no shards now")
        if claim != self._claiming[0]:
            self._claiming = claim, (*self._metadata, (SHARDS, claim))
        return self._claiming

    def _failed(self, error: grpc.RpcError, target: str, name: str) -> _Failed:
        """Return how a try has failed at a server."""
        sent: Any = error.trailing_metadata() or ()  # pairs, which the types of grpcio do not know
        failure = failure_of(error.code().name, error.details() or "", {key for key, _ in sent})
        raised = error_of(error, f"{self._group} {target} {name}")
        if failure in self._patience.again and not isinstance(raised, Unavailable):
            said, raised = raised.said, Unavailable(str(raised))  # of the moment, as it is to us
            raised.said = said
        return _Failed(failure, raised)


class _Failed(Exception):
    """A try has failed."""

    def __init__(self, failure: Failure, error: PelotonError) -> None:
        self.failure = failure
        self.error = error
        super().__init__()


def _deposed(failure: Failure, target: str, name: str) -> _Failed:
    """Return how a try has failed whose connection was closed because another server leads."""
    return _Failed(failure, Unavailable(f"{name}: {target} does not lead any more"))


def _cancelled() -> bool:
    """Return whether the calling task is cancelled, as opposed to its call with its channel."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
