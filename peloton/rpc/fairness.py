"""Limits of each principal in front of the methods, and the order in which its calls begin.

A principal is a user; where nobody is asked who they are, it is what a caller calls itself (`rpc-caller`) at
its address. Daemons are not limited: those that have shown who they are, and whoever calls what only daemons
call. Watches do not take the place of a call, since they last; they are counted apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc

from peloton.config.settings import CallLimitSettings
from peloton.errors import ResourceExhausted
from peloton.identity.methods import for_daemons_only, split
from peloton.identity.principal import Kind, current
from peloton.identity.roles import is_open
from peloton.rpc.audit import Audit
from peloton.rpc.fair_queue import Bounds, Counts, FairQueue, Pacer, Refusal, Turn
from peloton.rpc.limits import PrincipalRates, in_words
from peloton.rpc.metrics import CALLS, REFUSED, WAITING

COST_BYTES = 64 * 1024
"""So much data of request and answer costs as much as another call."""
STREAMS, STREAMS_OF_NOBODY = 500, 1000
"""Streams of a principal where the settings do not say; the second, where nobody is asked who they are."""
REFUSALS, FIRST_REFUSALS, LONGEST_PAUSE, MOST_PAUSED = 200.0, 100, 5.0, 5000
LONGEST_NAME = 200
Unary = Callable[[bytes, Any], Awaitable[Any]]
Stream = Callable[[bytes, Any], AsyncIterator[Any]]


def pacer() -> Pacer:
    """Return what spreads refusals."""
    return Pacer(REFUSALS, FIRST_REFUSALS, LONGEST_PAUSE, MOST_PAUSED)


def peer_of(context: Any) -> str:
    """Return the address of a caller, without its port, which is new for each connection."""
    kind, _, rest = str(context.peer()).partition(":")
    return rest.rpartition(":")[0] if kind in ("ipv4", "ipv6") else kind


def principal_of(context: Any) -> str:
    """Return whose call this is, as messages name it; empty for a daemon."""
    caller = current()
    if caller.kind is Kind.DAEMON:
        return ""
    if caller.name:
        return f"user {caller.name}"
    name = ""
    for key, value in context.invocation_metadata() or ():
        if key == "rpc-caller":
            name = value if isinstance(value, str) else value.decode(errors="replace")
    return f"{name[:LONGEST_NAME] or 'a caller'} at {peer_of(context)}"


class Fairness:
    """Lets calls begin in turn, or refuses them."""

    def __init__(
        self,
        settings: CallLimitSettings,
        rates: PrincipalRates | None = None,
        asks: bool = True,
        audit: Audit | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`asks` is whether callers are asked who they are; `rates` limits the calls a second of each."""
        self.queue: FairQueue[asyncio.Future[None]] = FairQueue(
            Bounds(
                running=settings.running,
                principal_running=settings.principal_running,
                waiting=settings.waiting,
                principal_waiting=settings.principal_waiting,
                principal_bytes=settings.principal_bytes,
            )
        )
        most = settings.principal_streams or (STREAMS if asks else STREAMS_OF_NOBODY)
        self.streams = Counts("principal_streams", most)
        self.pacer = pacer()
        self._rates = rates
        self._audit = audit
        self._clock = clock
        WAITING.set_function(lambda: float(self.queue.waiting))

    def concerns(self, path: str) -> bool:
        """Return whether calls of a method are limited."""
        return not is_open(path) and not for_daemons_only(*split(path))

    def unary(self, path: str, call: Unary, serialize: Callable[[Any], bytes]) -> Unary:
        """Return a method that waits for its turn. It serializes its answer, to know what it has cost."""
        queue = self.queue

        async def in_turn(raw: bytes, context: Any) -> Any:
            key = principal_of(context)
            if not key:
                return await call(raw, context)
            size, answer = len(raw), b""
            try:
                await self._begin(key, path, size)
            except ResourceExhausted as error:
                return await self._refuse(key, path, context, error)
            try:
                answer = serialize(await call(raw, context))
                return answer
            finally:
                self._go_on(queue.end(key, size, 1 + (size + len(answer)) / COST_BYTES))

        return in_turn

    def stream(self, path: str, call: Stream, serialize: Callable[[Any], bytes]) -> Stream:
        """Return a streaming method that is counted, and that waits for its turn if it ends by itself."""
        lasts = split(path)[1].startswith("Watch")

        async def counted(raw: bytes, context: Any) -> AsyncIterator[Any]:
            key = principal_of(context)
            if not key:
                async for answer in call(raw, context):
                    yield answer
                return
            try:
                _require(self.streams.take(key), f"{key}: streams are open already", "when one has ended")
            except ResourceExhausted as error:
                await self._refuse(key, path, context, error)
                return
            try:
                if lasts:
                    self._take_rate(key, path)
                else:
                    await self._begin(key, path, len(raw))
            except ResourceExhausted as error:
                self.streams.give_back(key)
                await self._refuse(key, path, context, error)
                return
            sent = 0
            try:
                async for answer in call(raw, context):
                    whole = serialize(answer)
                    sent += len(whole)
                    yield whole
            finally:
                self.streams.give_back(key)
                if not lasts:
                    self._go_on(self.queue.end(key, len(raw), 1 + (len(raw) + sent) / COST_BYTES))

        return counted

    async def _begin(self, key: str, path: str, size: int) -> None:
        """Wait for the turn of a call. Raises ResourceExhausted."""
        self._take_rate(key, path)
        queue = self.queue
        turn = queue.arrive(key, size, self._clock())
        if turn is Turn.BEGIN:
            return
        if isinstance(turn, Refusal):
            raise _exhausted(turn, f"{key}: {_MEANINGS[turn.limit]}")
        ticket = asyncio.get_running_loop().create_future()
        queue.wait(key, ticket, size)
        try:
            await ticket
        except asyncio.CancelledError:
            if ticket.done() and not ticket.cancelled():
                self._go_on(queue.end(key, size))
            else:
                queue.withdraw(key, ticket)
            raise

    def _take_rate(self, key: str, path: str) -> None:
        if self._rates is not None:
            self._rates.take(key, path)

    def _go_on(self, tickets: list[asyncio.Future[None]]) -> None:
        for ticket in tickets:
            ticket.set_result(None)

    async def _refuse(self, key: str, path: str, context: Any, error: ResourceExhausted) -> Any:
        """Answer a refusal: late where there are many, so that they do not take the daemon's time."""
        code = grpc.StatusCode.RESOURCE_EXHAUSTED
        CALLS.labels(path, code.name).inc()
        REFUSED.labels(code.name).inc()
        metadata = context.invocation_metadata() or ()
        if self._audit is not None and self._audit.concerns(path, current(), metadata):
            self._audit.note(path, current(), metadata, code.name, 0.0, why=str(error))
        await pause(self.pacer, key, self._clock())
        await context.abort(code, str(error))


async def pause(pacing: Pacer, key: str, now: float) -> None:
    """Wait until a refusal is to go out."""
    delay = pacing.delay(key, now)
    if delay > 0:
        pacing.held += 1
        try:
            await asyncio.sleep(delay)
        finally:
            pacing.held -= 1


_MEANINGS = {
    "principal_bytes": "the requests that are served or wait are too large together",
    "principal_waiting": "too many calls wait already",
    "waiting": "too many calls of all callers wait already",
}


def _require(refusal: Refusal | None, what: str, when: str) -> None:
    if refusal is not None:
        raise ResourceExhausted(f"{what} (call_limits.{refusal.limit}: {refusal.value}): try again {when}")


def _exhausted(refusal: Refusal, what: str) -> ResourceExhausted:
    return ResourceExhausted(
        f"{what} (call_limits.{refusal.limit}: {refusal.value}): try again {in_words(refusal.seconds)}"
    )
