"""Calls to the leader of a role, as `peloton.leaders` decides. Shared by both kinds of client."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import grpc

from peloton.backoff import shortened
from peloton.client.channel import Metadata
from peloton.client.finding import DiscoveryError, NoLeader, Tell
from peloton.client.seeking import Seeker
from peloton.client.sync_async import ClientClosed, Driver, LocalError, NotBegun
from peloton.client.tls import Tls, handshake_trouble
from peloton.leaders import (
    CLIENT,
    JITTER,
    LEAST_SECONDS,
    REPEATED,
    Failure,
    Leaders,
    Server,
    Tries,
    failure_of,
    may_be_handshake,
    repeatable,
)

T = TypeVar("T")
HANDSHAKE_SECONDS = 1.0
"""How long the reason of a handshake that failed is looked for."""


class Unfound(LocalError, DiscoveryError):
    """The address of a server cannot be found, and waiting does not help."""

    def __init__(self, error: DiscoveryError) -> None:
        super().__init__(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def __str__(self) -> str:
        """Return what is wrong."""
        return self.details()


class Leaderless(LocalError, NoLeader):
    """Nobody leads, or nobody says who does."""

    def __init__(self, error: NoLeader) -> None:
        super().__init__(grpc.StatusCode.UNAVAILABLE, str(error))

    def __str__(self) -> str:
        """Return who was asked for the leader."""
        return self.details()


@dataclass(frozen=True, slots=True)
class Way:
    """How a client calls the servers of a role."""

    driver: Driver
    address: Callable[[float | None], str]
    """Returns `host:port` of the leader now, within `seconds`; may block. Raises DiscoveryError."""
    open: Callable[[str], Any]
    """Opens a channel to an address."""
    metadata: Callable[[], Metadata]
    timeout: float | None
    repeats: bool = True
    """Whether calls are made again."""
    tls: Tls | None = None
    watch: Callable[[Tell], object] = lambda tell: None
    """Lets each new leader be told, by another thread."""
    elsewhere: Callable[[str], str] | None = None
    """Returns who leads in place of a server that does not answer; empty where nobody else does."""
    close: Callable[[], object] = lambda: None
    """Closes what `elsewhere` has opened."""


class Method:
    """A method of a role's servers, on the channel to each of them."""

    def __init__(self, kind: str, path: str, codecs: Any, named: dict[str, Any]) -> None:
        self.path = path
        self._kind = kind
        self._codecs = codecs
        self._named = named
        self._made: tuple[Any, Any] = (None, None)

    def on(self, channel: Any) -> Any:
        """Return what calls the method by a channel."""
        made = self._made
        if made[0] is not channel:
            made = (channel, getattr(channel, self._kind)(self.path, *self._codecs, **self._named))
            self._made = made
        return made[1]


@dataclass(eq=False, slots=True)
class Target:
    """A server that leads, or led, and the channels to it."""

    server: Server
    driver: Driver
    open: Callable[[str], Any]
    under_way: set[Any] = field(default_factory=set)
    """Calls that end when it is left, where calls can be cancelled."""
    _repeatable: Any = None
    _other: Any = None

    @property
    def address(self) -> str:
        """Return `host:port`."""
        return self.server.address

    def channel(self, repeatable: bool) -> Any:
        """Return the channel for calls that are ended when the server is left, or for others.

        Blocking calls end with their channel only, so there are two. Raises NotBegun where it was left.
        """
        if self.server.deposed:
            raise NotBegun
        if self.driver.cancels or repeatable:
            if self._repeatable is None:
                self._repeatable = self.open(self.address)
            return self._repeatable
        if self._other is None:
            self._other = self.open(self.address)
        return self._other

    def leave(self) -> None:
        """End the calls that may be repeated elsewhere."""
        for call in list(self.under_way):
            call.cancel()
        if not self.driver.cancels and self._repeatable is not None:
            self.driver.end(self._repeatable)
            self._repeatable = None

    def channels(self) -> list[Any]:
        """Return the channels that are open."""
        return [each for each in (self._repeatable, self._other) if each is not None]


class Leader:
    """The channels to the leaders of a role, and the calls there.

    A call that was UNAVAILABLE is repeated at the next leader, within its time-out, if it was refused before
    it began, was never sent, or is `repeatable`. Once another leader is known, those that are under way and
    may be repeated end, and are made there. A stream is opened at the leader at that moment, and ends
    with it.
    """

    def __init__(self, way: Way) -> None:
        self.way = way
        self._finding = way.driver.lock()
        self._state = threading.RLock()
        self._leaders = Leaders()
        self._targets: dict[Server, Target] = {}
        self._watched = False
        self._news = way.driver.news()
        """Set when another server is known to lead."""
        self._seeker: Seeker | None = None

    async def call(self, method: Method, request: Any, timeout: float | None, options: dict[str, Any]) -> Any:
        """Make a call, and again where it is safe. Raises grpc.RpcError."""
        safe = repeatable(method.path, request)
        tries = self._tries(self.way.timeout if timeout is None else timeout, safe)
        return await self._until_answered(tries, lambda: self._once(method, request, tries, options, safe))

    def _tries(self, seconds: float | None, repeatable: bool) -> Tries:
        return Tries(CLIENT, time.monotonic(), seconds, repeats=self.way.repeats, repeatable=repeatable)

    async def _until_answered(self, tries: Tries, once: Callable[[], Awaitable[T]]) -> T:
        """Carry out the tries of a call."""
        while True:
            news = self._news
            try:
                return await once()
            except _Failed as failed:
                pause = tries.failed(failed.failure, time.monotonic())
                if pause is None:
                    raise failed.error from failed.__cause__
            if await news.wait(shortened(pause, JITTER)):
                tries.hear()

    async def _once(
        self, method: Method, request: Any, tries: Tries, options: dict[str, Any], safe: bool
    ) -> Any:
        target = await self._found(tries)
        options = self.filled(options)
        if tries.lost:
            options["metadata"] += ((REPEATED, "1"),)
        seconds = tries.seconds(time.monotonic())
        if seconds is not None:
            options["timeout"] = seconds
        noted = None if self._seeker is None else self._seeker.begin(target.address)
        try:
            made = method.on(target.channel(safe))
            return await self.way.driver.call(made, request, options, target.under_way if safe else None)
        except grpc.RpcError as error:
            judged = await self.judged(error, target)
            raise _Failed(_failure(judged), judged) from (None if judged is error else error)
        finally:
            if noted is not None and self._seeker is not None:
                self._seeker.end(noted)

    async def _found(self, tries: Tries) -> Target:
        """Return the leader for a try. Raises _Failed where nobody leads."""
        try:
            return await self.leader(tries.rest(time.monotonic()))
        except Leaderless as error:
            raise _Failed(Failure.NOT_BEGUN, error) from None

    async def leader(self, seconds: float | None = None) -> Target:
        """Return the leader, found within `seconds`. Raises Leaderless, Unfound and ClientClosed."""
        if (target := self._target()) is not None:
            return target
        deadline = None if seconds is None else time.monotonic() + seconds
        if not await self._finding.acquire(seconds):
            raise Leaderless(NoLeader("the leader was not found in time"))
        try:
            if self._leaders.ended:
                raise ClientClosed
            if self._leaders.current is None:
                address = await self._look_up(_rest(deadline))
                with self._state:
                    self._leaders.find(address)
            if self._leaders.ended:
                raise ClientClosed
            target = self._target()
        finally:
            self._finding.release()
        return target or await self.leader(_rest(deadline))

    def _target(self) -> Target | None:
        """Return whom calls go to now."""
        with self._state:
            server = self._leaders.current
            if server is None:
                return None
            target = self._targets.get(server)
            if target is None:
                target = self._targets[server] = Target(server, self.way.driver, self.way.open)
            return target

    async def _look_up(self, seconds: float | None) -> str:
        try:
            found = await self.way.driver.blocking(lambda: self.way.address(seconds))
        except NoLeader as error:
            raise Leaderless(error) from None
        except DiscoveryError as error:
            raise Unfound(error) from None
        self._follow()
        return found

    def _follow(self) -> None:
        """Let other leaders be told from now on."""
        if self._watched:
            return
        self._watched = True
        enter = self.way.driver.entry()

        def tell(address: str) -> object:
            return enter(lambda: self._told(address))

        self.way.watch(tell)
        if self.way.elsewhere is not None:
            self._seeker = Seeker(self.way.elsewhere, tell)

    def _told(self, address: str) -> None:
        """Take what an election says: who leads now, empty while nobody does."""
        with self._state:
            turn = self._leaders.tell(address)
            self._close(turn.closed)
            left = [self._targets[each] for each in turn.left if each in self._targets]
            news = self._news
            if turn.leader is not None:
                self._news = self.way.driver.news()
        for each in left:
            each.leave()
        if turn.leader is not None:
            news.set()

    def _close(self, servers: Iterable[Server]) -> None:
        for target in filter(None, (self._targets.pop(each, None) for each in servers)):
            for channel in target.channels():
                self.way.driver.end(channel)

    async def opened(self, method: Method, request: Any, options: dict[str, Any]) -> tuple[Target, Any]:
        """Open a stream at the leader, waited for within the time-out. Raises grpc.RpcError."""
        seconds = options.get("timeout")
        tries = self._tries(self.way.timeout if seconds is None else seconds, repeatable=False)
        bounded = seconds is not None

        async def once() -> tuple[Target, Any]:
            target = await self._found(tries)
            given = {**options, "timeout": tries.seconds(time.monotonic())} if bounded else options
            try:
                return target, method.on(target.channel(True))(request, **self.filled(given))
            except NotBegun as error:
                raise _Failed(Failure.NOT_BEGUN, error) from None
            except ValueError as error:
                if "closed channel" not in str(error):
                    raise
                raise _Failed(Failure.NOT_BEGUN, NotBegun()) from None

        return await self._until_answered(tries, once)

    def filled(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call with the metadata it lacks."""
        own = tuple(self.way.metadata())
        given = tuple(options.get("metadata") or ())
        if given:
            keys = {key for key, _ in given}
            own = given + tuple(pair for pair in own if pair[0] not in keys)
        return {**options, "metadata": own}

    async def judged(self, error: grpc.RpcError, target: Target) -> grpc.RpcError:
        """Return what to raise for a call or stream that failed at a server, and take what it tells."""
        code = error.code()
        if self._leaders.ended and code is grpc.StatusCode.CANCELLED:
            return ClientClosed()
        with self._state:
            self._close(self._leaders.fail(target.server, _failure(error)))
        if code is grpc.StatusCode.CANCELLED and target.server.deposed:
            return LocalError(grpc.StatusCode.UNAVAILABLE, f"{target.address} does not lead any more")
        if not may_be_handshake(code.name, str(error.details())):
            return error
        trouble = await self.way.driver.blocking(
            lambda: handshake_trouble(target.address, self.way.tls, HANDSHAKE_SECONDS)
        )
        if not trouble:
            return error
        return LocalError(grpc.StatusCode.UNAUTHENTICATED, f"{target.address}: {trouble}")

    def invalidate(self, target: Target) -> None:
        """Forget a leader, so that the next call looks it up again."""
        with self._state:
            self._close(self._leaders.forget(target.server))

    def close(self) -> list[Any]:
        """Let no call begin any more; return the channels, for the caller to close them."""
        with self._state:
            self._leaders.end()
            targets, self._targets = list(self._targets.values()), {}
        if self._seeker is not None:
            self._seeker.close()
        self.way.close()
        return [channel for each in targets for channel in each.channels()]


def _rest(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), LEAST_SECONDS)


def _failure(error: grpc.RpcError) -> Failure:
    """Return what a failed call tells about who leads."""
    if isinstance(error, ClientClosed):
        return Failure.ANSWERED
    sent: Any = error.trailing_metadata() or ()  # pairs, which the types of grpcio do not know
    return failure_of(error.code().name, str(error.details() or ""), {key for key, _ in sent})


class _Failed(Exception):
    """A try has failed."""

    def __init__(self, failure: Failure, error: grpc.RpcError) -> None:
        self.failure = failure
        self.error = error
        super().__init__()
