"""The interceptor of a daemon's server: who calls, whether that is granted, and how often.

It makes the call's `Principal`, which the rest of the call has as `peloton.identity.principal.current()`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import grpc

from peloton.errors import PelotonError, Unauthenticated
from peloton.identity.authenticators import Credentials, shown_by
from peloton.identity.door import Door
from peloton.identity.methods import REFLECTION
from peloton.identity.principal import Kind, current, enter
from peloton.identity.roles import is_open
from peloton.rpc.audit import Audit
from peloton.rpc.certificates import asking
from peloton.rpc.errors import abort, status_of
from peloton.rpc.fair_queue import Pacer
from peloton.rpc.fairness import pause, peer_of
from peloton.rpc.limits import RateLimits
from peloton.rpc.metrics import REFUSED


class Gate(grpc.aio.ServerInterceptor):
    """Lets calls in that are granted."""

    def __init__(
        self,
        door: Door | None,
        limits: RateLimits | None,
        audit: Audit | None = None,
        pacer: Pacer | None = None,
    ) -> None:
        """Without a door, nobody is asked; without limits, any number of calls is served.

        Refusals are noted in the audit log. `pacer` spreads those of an address over time.
        """
        self._pacer = pacer
        self._door = door
        self._limits = limits
        self._audit = audit

    @property
    def needed(self) -> bool:
        """Whether it does anything."""
        return self._door is not None or self._limits is not None

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        """Return the handler of a call, or one that refuses it."""
        if self._door is not None and self._door.by_certificate:
            note = partial(self._note, details)
            return asking(await continuation(details), partial(self._refused, details), note)
        error = await self._refused(details)
        if error is not None:
            return _refusal(error, details.method, self._pacer, partial(self._note, details))
        return await continuation(details)

    async def _refused(
        self, details: grpc.HandlerCallDetails, names: Sequence[str] = ()
    ) -> PelotonError | None:
        """Let the rest of the call be made by its caller; return why it may not be made, None if it may.

        `names` are those of the caller's certificate.
        """
        try:
            daemon = False
            if self._door is not None:
                found = self._door.recall(details.method, details.invocation_metadata or (), names)
                if isinstance(found, Credentials):
                    found = await self._door.check(details.method, found)
                if found is not None:
                    enter(*found, administers=self._door.administers(found[0]))
                    daemon = found[0].kind is Kind.DAEMON
            if self._limits is not None and not daemon and not is_open(details.method):
                self._limits.take(details.method)
        except PelotonError as error:
            if isinstance(error, Unauthenticated) and self._door is not None:
                error.challenge = self._door.challenge
            REFUSED.labels(status_of(error).name).inc()
            return error
        return None

    def _note(self, details: grpc.HandlerCallDetails, error: PelotonError, address: str) -> None:
        """Note a refusal: of what changes something, and of wrong credentials with whatever call.

        The caller is known where its role refuses; that of a daemon is noted too, which asked for what it
        does not need.
        """
        metadata = details.invocation_metadata or ()
        guessed = isinstance(error, Unauthenticated) and shown_by(metadata)
        if self._audit is not None and (guessed or self._audit.concerns_refused(details.method)):
            code, why = status_of(error).name, str(error)
            self._audit.note(details.method, current(), metadata, code, 0.0, why=why, address=address)


def _refusal(
    error: PelotonError, path: str, pacer: Pacer | None, note: Callable[[PelotonError, str], None]
) -> Any:
    """Return a handler that answers an error without reading a request, for calls of any kind.

    Of a stream of requests, which only reflection takes, one is read: some clients cannot tell an answer that
    overtakes it from a broken connection.
    """

    async def refuse(requests: Any, context: Any) -> None:
        note(error, peer_of(context))
        if path.startswith(f"/{REFLECTION}"):
            await context.read()
        if pacer is not None:
            await pause(pacer, peer_of(context), time.monotonic())
        await abort(context, error)

    return grpc.stream_stream_rpc_method_handler(refuse)
