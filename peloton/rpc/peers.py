"""Calls between instances of one role that share its work: who owns a shard, and calls passed on to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc

from peloton.identity.on_behalf import ON_BEHALF, written
from peloton.leaders import NOT_BEGUN, Failure, failure_of
from peloton.membership.shard_registry import ShardRegistry
from peloton.rpc.caller import Metadata
from peloton.rpc.certificates import names_of
from peloton.rpc.client import Channels
from peloton.rpc.tls import Tls

PASSED = "peloton-passed"
"""Key of the metadata of a call that another instance passes on: it is not passed on again."""
GENERATION = "peloton-passed-by"
"""Key of the generation of the table of shards by which it is passed on."""
_OWN = frozenset({PASSED, GENERATION, ON_BEHALF, "user-agent", "content-type", "te"})
"""Keys that are of the connection, or made anew."""
Sent = tuple[tuple[str, str | bytes], ...]
"""Metadata of a call."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The instance that owns a shard, or another one of the same role."""

    session: str
    target: str
    """Its address for gRPC."""


class PassedFailure(Exception):
    """How a call has ended at the instance that it was passed on to."""

    def __init__(self, failure: Failure, code: grpc.StatusCode, text: str, trailing: Metadata) -> None:
        self.failure = failure
        self.code = code
        self.text = text
        self.trailing = trailing
        super().__init__(text)


def passed(metadata: Iterable[tuple[str, str | bytes]] | None) -> bool:
    """Return whether a call is passed on by another instance."""
    return any(key == PASSED for key, _ in metadata or ())


def generation_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> int:
    """Return the generation of the table by which a call was passed on; 0 where that is not known."""
    found = next((value for key, value in metadata or () if key == GENERATION), "")
    return int(found) if isinstance(found, str) and found.isascii() and found.isdecimal() else 0


class Peers:
    """The other instances, by the registry of the shards."""

    def __init__(
        self,
        registry: ShardRegistry,
        session: Callable[[], str],
        instance: str,
        tls: Tls | None,
        by_certificate: bool = False,
    ) -> None:
        """Call as `instance`; `session` returns the name of its own session.

        Whether callers show certificates is `by_certificate`: the names in them are passed on, too.
        """
        self._by_certificate = by_certificate
        self._registry = registry
        self._session = session
        self._instance = instance
        self._channels = Channels(tls)

    def owner(self, shard: int) -> Owner | None:
        """Return who owns a shard; None where nobody does, or this instance."""
        seen = self._registry.seen()
        session = seen.table.shards[shard].owner
        info = seen.sessions.get(session)
        return None if info is None or session == self._session() else Owner(session, info.address.target)

    def owns(self, shard: int) -> bool:
        """Return whether this instance is the owner of a shard, by the table."""
        session = self._session()
        return bool(session) and self._registry.seen().table.shards[shard].owner == session

    def others(self) -> list[Owner]:
        """Return the other instances that own a shard.

        One that owns none is no peer: it may have begun a moment ago, and knows no jobs.
        """
        seen = self._registry.seen()
        owners = {shard.owner for shard in seen.table.shards} - {self._session()}
        return [
            Owner(name, info.address.target) for name, info in sorted(seen.sessions.items()) if name in owners
        ]

    def sessions(self) -> list[Owner]:
        """Return the other instances that live, also those that own nothing yet, or no longer."""
        sessions, own = self._registry.seen().sessions, self._session()
        return [Owner(name, info.address.target) for name, info in sorted(sessions.items()) if name != own]

    def gone(self) -> bool:
        """Return whether a shard is owned by a session that is over."""
        seen = self._registry.seen()
        return any(shard.owner not in seen.sessions for shard in seen.table.shards)

    @property
    def generation(self) -> int:
        """The generation of the table of shards."""
        return self._registry.seen().table.generation

    async def changed(self, within: float) -> None:
        """Wait until it has changed who owns what, at most `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._registry.changed()

    async def follow(self) -> NoReturn:
        """Close the connections to instances that are gone: calls under way there end at once."""
        kept: set[str] = set()
        while True:
            targets = {info.address.target for info in self._registry.seen().sessions.values()}
            if targets != kept:
                kept = targets
                await self._channels.keep(kept)
                continue  # who is there may have changed meanwhile
            await self._registry.changed()

    async def close(self) -> None:
        """Close all connections."""
        await self._channels.close()

    def metadata_of(self, context: Any) -> Sent:
        """Return what is sent on of a call: who calls, for whom and on which trace.

        Where callers show certificates, the names are always there, even if there is none: the owner must not
        take the certificate of this instance for the caller's.
        """
        metadata: Collection[tuple[str, str | bytes]] = context.invocation_metadata() or ()
        kept = tuple(
            (key, value) for key, value in metadata if key not in _OWN and not key.startswith(("grpc-", ":"))
        )
        return (*kept, (ON_BEHALF, written(names_of(context)))) if self._by_certificate else kept

    async def call(
        self,
        owner: Owner,
        path: str,
        request: Any,
        answer: type[Any] | None,
        metadata: Sent,
        seconds: float | None,
    ) -> Any:
        """Make a call at another instance, with metadata of the caller's or of one's own.

        Without a class of the answer it is returned as it came, as bytes. Raises PassedFailure.
        """
        channel = self._channels.to(owner.target)
        method = channel.unary_unary(path, type(request).SerializeToString, _parser(answer))
        with _failures(owner):
            return await method(request, timeout=seconds, metadata=self._sent(metadata))

    async def stream(
        self,
        owner: Owner,
        path: str,
        request: Any,
        answer: type[Any] | None,
        metadata: Sent,
        seconds: float | None,
    ) -> AsyncGenerator[Any, None]:
        """Make a call that is answered by a stream, as `call` does. Raises PassedFailure."""
        channel = self._channels.to(owner.target)
        method = channel.unary_stream(path, type(request).SerializeToString, _parser(answer))
        with _failures(owner):
            call = method(request, timeout=seconds, metadata=self._sent(metadata))
            try:
                async for message in call:
                    yield message
            finally:
                call.cancel()

    def _sent(self, metadata: Sent) -> Sent:
        """Return metadata with the note that the call is passed on, and by which table."""
        return (*metadata, (PASSED, self._instance), (GENERATION, str(self.generation)))


def _parser(answer: type[Any] | None) -> Any:
    return None if answer is None else answer.FromString


class _failures:
    """Raises PassedFailure for what calls raise."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, grpc.RpcError):
            sent: Any = error.trailing_metadata() or ()
            code, text = error.code(), error.details() or ""
            trailing = tuple((key, value) for key, value in sent if not key.startswith("grpc-"))
            raise PassedFailure(
                failure_of(code.name, text, {key for key, _ in trailing}), code, text, trailing
            ) from None
        if isinstance(error, grpc.aio.UsageError):  # the channel was closed before the call
            raise self._gone(Failure.NOT_BEGUN, ((NOT_BEGUN, "1"),)) from None
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and not (task is not None and task.cancelling()):
            raise self._gone(Failure.GONE, ()) from None

    def _gone(self, failure: Failure, trailing: Metadata) -> PassedFailure:
        text = f"the job manager at {self._owner.target}, which owned the job, is gone"
        return PassedFailure(failure, grpc.StatusCode.UNAVAILABLE, text, trailing)
