"""Calls to the leader of a role: which are made again, when, and where. Shared by both kinds of client."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc

from peloton.backoff import Backoff
from peloton.client.channel import Metadata
from peloton.client.discovery import NoLeader
from peloton.client.driving import ClientClosed, Driver, LocalError
from peloton.client.tls import Tls, handshake_trouble

NOT_BEGUN = "peloton-not-begun"
"""Key of the trailing metadata of a call that was refused before it began."""
SERVER_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""Codes of calls to a server that ends; CANCELLED where the call was under way."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
IDEMPOTENT = re.compile(r"(Get|List|Query|Browse|Lookup|Refresh|Start|Stop|Kill|Delete)(?![a-z])")
"""Methods that read, or that change nothing when they are carried out again."""
_CUT = re.compile(r"^failed to connect.*(handshake|socket closed|reset|eof)", re.IGNORECASE | re.DOTALL)
"""Texts of gRPC where a server was reached, and ended the connection or failed in its handshake."""
HANDSHAKE_SECONDS = 1.0
"""How long the reason of a handshake that failed is looked for."""


def repeatable(method: str, request: Any) -> bool:
    """Return whether a call that may have been carried out may be made again.

    It may where the second time changes nothing: the call reads, requests an end state, or names the job or
    the entity version.
    """
    name = method.rpartition("/")[2]
    if IDEMPOTENT.match(name) or _value(request, "version"):
        return True
    return name.startswith("Create") and bool(_value(request, "id") or _value(request, "job_id"))


def _value(request: Any, name: str) -> Any:
    """Return what the field of this name wraps, empty where the request has no such field."""
    return getattr(getattr(request, name, None), "value", "")


def never_began(error: grpc.RpcError) -> bool:
    """Return whether the call was refused before it began, or found no connection."""
    trailing = {key for key, _ in error.trailing_metadata() or ()}
    return NOT_BEGUN in trailing or str(error.details() or "").startswith("failed to connect")


@dataclass(frozen=True, slots=True)
class Way:
    """How a client calls the servers of a role."""

    driver: Driver
    address: Callable[[], str]
    """Returns `host:port` of the leader now; may block, and raise NoLeader."""
    open: Callable[[str], Any]
    """Opens a channel to an address."""
    metadata: Callable[[], Metadata]
    timeout: float | None
    repeats: bool = True
    """Whether calls are made again."""
    tls: Tls | None = None


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


class Leader:
    """The channels to the leaders of a role, and what is decided about calls there.

    A call that was UNAVAILABLE is repeated at the next leader, within its time-out, if it was refused before
    it began, was never sent, or is `repeatable`. A stream is opened at the leader at that moment, and ends
    with its connection.
    """

    def __init__(self, way: Way) -> None:
        self.way = way
        self._lock = way.driver.lock()
        self._target = ""
        self._channels: dict[str, Any] = {}
        self._closed = False

    async def call(self, method: Method, request: Any, timeout: float | None, options: dict[str, Any]) -> Any:
        """Make a call, and again where it is safe. Raises grpc.RpcError, NoLeader and DiscoveryError."""
        seconds = self.way.timeout if timeout is None else timeout
        deadline = None if seconds is None else time.monotonic() + seconds
        backoff = None
        while True:
            try:
                return await self._once(method, request, deadline, options)
            except (NoLeader, _Retry) as error:
                backoff = backoff or Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
                late = deadline is not None and time.monotonic() + backoff.longest_next >= deadline
                if late or not self.way.repeats:
                    raise (error.refusal if isinstance(error, _Retry) else error) from None
            await self.way.driver.sleep(backoff.next())

    async def _once(
        self, method: Method, request: Any, deadline: float | None, options: dict[str, Any]
    ) -> Any:
        target, channel = await self.leader()
        options = self.filled(options)
        if deadline is not None:
            options["timeout"] = max(deadline - time.monotonic(), 0.001)
        try:
            return await self.way.driver.call(method.on(channel), request, options)
        except grpc.RpcError as error:
            judged = await self.judged(error, target)
            again = never_began(error) or repeatable(method.path, request)
            if judged is error and error.code() in SERVER_GONE and again:
                raise _Retry(error) from None
            if judged is error:
                raise
            raise judged from error

    async def leader(self) -> tuple[str, Any]:
        """Return address and channel of the leader. Raises NoLeader, DiscoveryError and ClientClosed."""
        if (channel := self._channels.get(target := self._target)) is not None:
            return target, channel
        async with self._lock:
            if self._closed:
                raise ClientClosed
            target = self._target or await self.way.driver.blocking(self.way.address)
            if self._closed:
                raise ClientClosed
            if target not in self._channels:
                self._channels[target] = self.way.open(target)
            self._target = target
            return target, self._channels[target]

    def filled(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a call with the metadata it lacks."""
        own = tuple(self.way.metadata())
        given = tuple(options.get("metadata") or ())
        if given:
            keys = {key for key, _ in given}
            own = given + tuple(pair for pair in own if pair[0] not in keys)
        return {**options, "metadata": own}

    async def judged(self, error: grpc.RpcError, target: str) -> grpc.RpcError:
        """Return what to raise for a call or stream that failed at a server, and forget one that is gone."""
        code = error.code()
        if self._closed and code is grpc.StatusCode.CANCELLED:
            return ClientClosed()
        if code in (*SERVER_GONE, grpc.StatusCode.DEADLINE_EXCEEDED):
            self.invalidate(target)
        cut = _CUT.search(str(error.details())) if code is grpc.StatusCode.UNAVAILABLE else None
        if cut is None:
            return error
        trouble = await self.way.driver.blocking(
            lambda: handshake_trouble(target, self.way.tls, HANDSHAKE_SECONDS)
        )
        if not trouble:
            return error
        return LocalError(grpc.StatusCode.UNAUTHENTICATED, f"{target}: {trouble}")

    def invalidate(self, target: str) -> None:
        """Forget a leader, so that the next call looks it up again."""
        if self._target == target:
            self._target = ""

    def close(self) -> list[Any]:
        """Let no call begin any more; return the channels, for the caller to close them."""
        self._closed = True
        channels, self._channels, self._target = list(self._channels.values()), {}, ""
        return channels


class _Retry(Exception):
    """The call may be made again at the next leader."""

    def __init__(self, refusal: grpc.RpcError) -> None:
        self.refusal = refusal
        super().__init__()
