"""A channel to wherever a role's leader is now."""

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
"""Key of the trailing metadata of a call that was turned away before it began."""
_LEFT = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""What is told of a server that goes; CANCELLED where it ends with the call under way."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
_END_STATES = re.compile(r"(Get|List|Query|Browse|Lookup|Refresh|Start|Stop|Kill|Delete)(?![a-z])")
"""Methods that read, or that leave things the same when they are carried out twice."""


def repeatable(method: str, request: Any) -> bool:
    """Whether a call that may have been carried out may be made again: it reads, asks for an end state, or
    names the job or the entity version, so that the second time changes nothing."""
    name = method.rpartition("/")[2]
    if _END_STATES.match(name) or _value(request, "version"):
        return True
    return name.startswith("Create") and bool(_value(request, "id") or _value(request, "job_id"))


def _value(request: Any, name: str) -> Any:
    """What the field of this name wraps, if there is such a one."""
    return getattr(getattr(request, name, None), "value", "")


class FollowingChannel(grpc.Channel):  # type: ignore[misc]
    """Repeats a call that was UNAVAILABLE at who leads then, within its time-out: if it was turned away,
    never left, or is `repeatable`. A stream goes to who leads when it begins, and ends with that."""

    def __init__(self, address: Callable[[], str], metadata: Metadata, timeout: float | None) -> None:
        """`address` tells the leader's `host:port` now; it may raise NoLeader."""
        self._address = address
        self._metadata = metadata
        self._timeout = timeout
        self._lock = threading.Lock()
        self._target = ""
        self._channels: dict[str, grpc.Channel] = {}

    def unary_unary(self, method: str, *codecs: Any, **named: Any) -> Any:
        return _Call(self, "unary_unary", method, codecs, named)

    def unary_stream(self, method: str, *codecs: Any, **named: Any) -> Any:
        return _Stream(self, "unary_stream", method, codecs, named)

    def stream_unary(self, method: str, *codecs: Any, **named: Any) -> NoReturn:
        raise NotImplementedError(f"{method}: no service of Peloton takes a stream")

    stream_stream = stream_unary

    def subscribe(self, callback: Any, try_to_connect: bool = False) -> NoReturn:
        raise NotImplementedError("a leader's channel comes and goes")

    def unsubscribe(self, callback: Any) -> None:
        """Nobody is subscribed."""

    def close(self) -> None:
        with self._lock:
            channels, self._channels, self._target = self._channels, {}, ""
        for channel in channels.values():
            channel.close()

    def deadline(self, timeout: float | None) -> float | None:
        """On the monotonic clock, for a call with this time-out or, where it has none, with our own."""
        seconds = self._timeout if timeout is None else timeout
        return None if seconds is None else time.monotonic() + seconds

    def leader(self) -> tuple[str, grpc.Channel]:
        """Raises NoLeader, and DiscoveryError where there will be none."""
        with self._lock:
            if not self._target:
                self._target = self._address()
            if self._target not in self._channels:
                self._channels[self._target] = open_channel(self._target, self._metadata, self._timeout)
            return self._target, self._channels[self._target]

    def doubt(self, target: str) -> None:
        """Have the next call ask who leads."""
        with self._lock:
            if self._target == target:
                self._target = ""

    def __enter__(self) -> FollowingChannel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Stream:
    """A method by which a channel is called that is the leader's at the moment of the call."""

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
        self._channel.doubt(target)
        return call(request, timeout=timeout, **options)


class _Call(_Stream):
    def __call__(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        return self.with_call(request, timeout, **options)[0]

    def future(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        """Is not repeated."""
        return self._at_leader()[1].future(request, timeout=timeout, **options)

    def with_call(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        deadline = self._channel.deadline(timeout)
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE, jitter=0.5)
        while True:
            try:
                return self._once(request, deadline, options)
            except (NoLeader, _AtAnother) as error:
                if deadline is not None and time.monotonic() + backoff.longest_next >= deadline:
                    raise (error.refusal if isinstance(error, _AtAnother) else error) from None
            time.sleep(backoff.next())

    def _once(self, request: Any, deadline: float | None, options: dict[str, Any]) -> Any:
        target, call = self._at_leader()
        rest = None if deadline is None else max(deadline - time.monotonic(), 0.001)
        try:
            return call.with_call(request, timeout=rest, **options)
        except grpc.RpcError as error:
            if error.code() in (*_LEFT, grpc.StatusCode.DEADLINE_EXCEEDED):
                self._channel.doubt(target)
            again = _never_began(error) or repeatable(self._method, request)
            if error.code() in _LEFT and again:
                raise _AtAnother(error) from None
            raise


class _AtAnother(Exception):
    """The call may be made again, where the next leader is."""

    def __init__(self, refusal: grpc.RpcError) -> None:
        self.refusal = refusal
        super().__init__()


def _never_began(error: grpc.RpcError) -> bool:
    """It was turned away, or no connection came about."""
    trailing = {key for key, _ in error.trailing_metadata() or ()}
    return NOT_BEGUN in trailing or str(error.details() or "").startswith("failed to connect")
