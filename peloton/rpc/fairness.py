"""Limits of each principal in front of the methods, and the order in which its calls begin.

A principal is a user, or a job whose tasks call; where nobody is asked who they are, it is what a caller
calls itself (`rpc-caller`) at its address. Daemons are not limited: those that have shown who they are, and
whoever calls what only daemons call. Watches do not take the place of a call, since they last;
they are counted apart.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from typing import Any

import grpc

from peloton.config.limits import CallLimitSettings
from peloton.errors import ResourceExhausted
from peloton.identity.methods import for_daemons_only, split
from peloton.identity.principal import Kind, current
from peloton.identity.roles import is_open
from peloton.model.ids import parse_mesos_task_id
from peloton.rpc.audit import Audit
from peloton.rpc.fair_queue import Arrival, Bounds, Counts, FairQueue, Overload, Pacer
from peloton.rpc.intake import Intake
from peloton.rpc.limits import PrincipalRates, in_words
from peloton.rpc.metrics import CALLS, REFUSED, WAITING
from peloton.rpc.resuming import Connections, Resuming, Ticket

COST_BYTES = 64 * 1024
"""So much data of request and answer costs as much as another call."""
STREAMS, STREAMS_OF_NOBODY = 500, 1000
"""Streams of a principal where the settings do not say; the second, where nobody is asked who they are."""
REFUSALS, FIRST_REFUSALS, LONGEST_PAUSE, MOST_PAUSED = 200.0, 100, 5.0, 5000
LONGEST_NAME_CHARACTERS = 200
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
    if caller.kind is Kind.TASK:
        return f"job {parse_mesos_task_id(caller.name).job_id}"
    if caller.name:
        return f"user {caller.name}"
    name = ""
    for key, value in context.invocation_metadata() or ():
        if key == "rpc-caller":
            name = value if isinstance(value, str) else value.decode(errors="replace")
    return f"{name[:LONGEST_NAME_CHARACTERS] or 'a caller'} at {peer_of(context)}"


class Fairness:
    """Lets calls begin in turn, or refuses them."""

    def __init__(
        self,
        settings: CallLimitSettings,
        rates: PrincipalRates | None = None,
        asks: bool = True,
        audit: Audit | None = None,
        clock: Callable[[], float] = time.monotonic,
        intake: Intake | None = None,
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
        self._connections = Connections()
        self.intake = intake or Intake(clock)
        """Measured by the daemon while a principal calls over many connections."""
        self._resuming = Resuming(self.intake.delay, clock)
        self._pausing: set[Ticket] = set()
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
                await self._begin(key, path, size, context)
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
                    await self._begin(key, path, len(raw), context)
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

    async def _begin(self, key: str, path: str, size: int, context: Any) -> None:
        """Wait for the turn of a call. Raises ResourceExhausted."""
        self._take_rate(key, path)
        queue, now = self.queue, self._clock()
        arrival = queue.arrive(key, size, now)
        pauses = self._connections.many(key, str(context.peer()), now)
        if arrival is Arrival.BEGIN and not pauses:
            return
        if isinstance(arrival, Overload):
            raise _exhausted(arrival, f"{key}: {_MEANINGS[arrival.limit]}")
        ticket = asyncio.get_running_loop().create_future()
        if pauses:
            self.intake.want(now)
            self._pausing.add(ticket)
        if arrival is Arrival.BEGIN:
            self._go_on((ticket,))
        else:
            queue.wait(key, ticket, size)
        try:
            await ticket
        except asyncio.CancelledError:
            if self._resuming.withdraw(ticket) or (ticket.done() and not ticket.cancelled()):
                self._go_on(queue.end(key, size))
            else:
                queue.withdraw(key, ticket)
            raise
        finally:
            self._pausing.discard(ticket)

    def _go_on(self, tickets: Collection[Ticket]) -> None:
        """Let calls go on that have a place, those of principals with many connections in small batches."""
        for ticket in tickets:
            if ticket not in self._pausing:
                ticket.set_result(None)
        self._resuming.add([ticket for ticket in tickets if ticket in self._pausing])

    def _take_rate(self, key: str, path: str) -> None:
        if self._rates is not None:
            self._rates.take(key, path)

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


def _require(refusal: Overload | None, what: str, when: str) -> None:
    if refusal is not None:
        raise ResourceExhausted(f"{what} (call_limits.{refusal.limit}: {refusal.value}): try again {when}")


def _exhausted(refusal: Overload, what: str) -> ResourceExhausted:
    return ResourceExhausted(
        f"{what} (call_limits.{refusal.limit}: {refusal.value}): try again {in_words(refusal.seconds)}"
    )
