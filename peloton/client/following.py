"""A channel to the current leader of a role."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any, NoReturn

import grpc

from peloton.backoff import Backoff
from peloton.client.channel import Metadata, open_channel
from peloton.client.discovery import NoLeader

NOT_BEGUN = "peloton-not-begun"
"""Key of the trailing metadata of a call that was refused before it began."""
SERVER_GONE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""Codes of calls to a server that ends; CANCELLED where the call was under way."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
IDEMPOTENT = re.compile(r"(Get|List|Query|Browse|Lookup|Refresh|Start|Stop|Kill|Delete)(?![a-z])")
"""Methods that read, or that change nothing when they are carried out again."""


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


class FollowingChannel(grpc.Channel):  # type: ignore[misc]
    """A channel that repeats calls which were UNAVAILABLE at the next leader, within their time-out.

    A call is repeated if it was refused before it began, was never sent, or is `repeatable`. A stream is
    opened at the leader at that moment, and ends with its connection.
    """

    def __init__(
        self,
        address: Callable[[], str],
        metadata: Metadata,
        timeout: float | None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        """Use `address` for the leader's `host:port` now; it may raise NoLeader."""
        self._address = address
        self._metadata = metadata
        self._timeout = timeout
        self._credentials = credentials
        self._lock = threading.Lock()
        self._target = ""
        self._channels: dict[str, grpc.Channel] = {}

    def unary_unary(self, method: str, *codecs: Any, **named: Any) -> Any:
        """Return a callable for a method with one answer."""
        return _Call(self, "unary_unary", method, codecs, named)

    def unary_stream(self, method: str, *codecs: Any, **named: Any) -> Any:
        """Return a callable for a method that answers with a stream."""
        return _Stream(self, "unary_stream", method, codecs, named)

    def stream_unary(self, method: str, *codecs: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{method}: no service of Peloton takes a stream")

    stream_stream = stream_unary

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("the channel to a leader changes with the leader")

    def unsubscribe(self, callback: Any) -> None:
        """Do nothing: there are no subscribers."""

    def close(self) -> None:
        """Close the channels to all leaders."""
        with self._lock:
            channels, self._channels, self._target = self._channels, {}, ""
        for channel in channels.values():
            channel.close()

    def deadline(self, timeout: float | None) -> float | None:
        """Return the end, on the monotonic clock, of a call with this time-out or with the channel's."""
        seconds = self._timeout if timeout is None else timeout
        return None if seconds is None else time.monotonic() + seconds

    def leader(self) -> tuple[str, grpc.Channel]:
        """Return address and channel of the leader. Raises NoLeader and DiscoveryError."""
        with self._lock:
            if not self._target:
                self._target = self._address()
            if self._target not in self._channels:
                self._channels[self._target] = open_channel(
                    self._target, self._metadata, self._timeout, self._credentials
                )
            return self._target, self._channels[self._target]

    def invalidate(self, target: str) -> None:
        """Forget a leader, so that the next call looks it up again."""
        with self._lock:
            if self._target == target:
                self._target = ""

    def __enter__(self) -> FollowingChannel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Stream:
    """A method of a channel, called at the leader of that moment."""

    def __init__(
        self, channel: FollowingChannel, kind: str, method: str, codecs: Any, named: dict[str, Any]
    ) -> None:
        self._channel = channel
        self._kind = kind
        self._method = method
        self._codecs = codecs
        self._named = named

    def _at_leader(self) -> tuple[str, Any]:
        target, channel = self._channel.leader()
        return target, getattr(channel, self._kind)(self._method, *self._codecs, **self._named)

    def __call__(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        target, call = self._at_leader()
        self._channel.invalidate(target)
        return call(request, timeout=timeout, **options)


class _Call(_Stream):
    def __call__(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        return self.with_call(request, timeout, **options)[0]

    def future(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        """Begin a call that is not repeated."""
        return self._at_leader()[1].future(request, timeout=timeout, **options)

    def with_call(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        deadline = self._channel.deadline(timeout)
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                return self._once(request, deadline, options)
            except (NoLeader, _Retry) as error:
                if deadline is not None and time.monotonic() + backoff.longest_next >= deadline:
                    raise (error.refusal if isinstance(error, _Retry) else error) from None
            time.sleep(backoff.next())

    def _once(self, request: Any, deadline: float | None, options: dict[str, Any]) -> Any:
        target, call = self._at_leader()
        rest = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        try:
            return call.with_call(request, timeout=rest, **options)
        except grpc.RpcError as error:
            if error.code() in (*SERVER_GONE, grpc.StatusCode.DEADLINE_EXCEEDED):
                self._channel.invalidate(target)
            again = never_began(error) or repeatable(self._method, request)
            if error.code() in SERVER_GONE and again:
                raise _Retry(error) from None
            raise


class _Retry(Exception):
    """The call may be made again at the next leader."""

    def __init__(self, refusal: grpc.RpcError) -> None:
        self.refusal = refusal
        super().__init__()


def never_began(error: grpc.RpcError) -> bool:
    """Return whether the call was refused before it began, or found no connection."""
    trailing = {key for key, _ in error.trailing_metadata() or ()}
    return NOT_BEGUN in trailing or str(error.details() or "").startswith("failed to connect")
