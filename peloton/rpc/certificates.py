"""The certificates by which callers are known. Only the handler of a call sees them, not the interceptor."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import grpc

from peloton.errors import PelotonError
from peloton.rpc.errors import abort
from peloton.rpc.fairness import peer_of

NAMES = ("x509_common_name", "x509_subject_alternative_name")
Refused = Callable[[Sequence[str]], Awaitable[PelotonError | None]]
"""Takes the names of the caller's certificate; returns why the call may not be made, None if it may."""


def names_of(context: Any) -> list[str]:
    """Return the names in the certificate that the caller of a call has shown; none where it has not."""
    shown = context.auth_context()
    return [value.decode(errors="replace") for key in NAMES for value in shown.get(key, ())]


def asking(handler: Any, refused: Refused, note: Callable[[PelotonError, str], None]) -> Any:
    """Return a handler that answers as another does, but only the calls that are not refused.

    Without another, for an unknown method, it answers nobody. `note` is told of refusals, with the address.
    """

    async def admit(context: Any) -> None:
        error = await refused(names_of(context))
        if error is not None:
            note(error, peer_of(context))
            await abort(context, error)

    if handler is None:
        return grpc.unary_unary_rpc_method_handler(_unknown(admit))
    codecs = handler.request_deserializer, handler.response_serializer
    if handler.stream_stream is not None:
        return grpc.stream_stream_rpc_method_handler(_streaming(handler.stream_stream, admit), *codecs)
    if handler.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(_streaming(handler.unary_stream, admit), *codecs)
    assert handler.unary_unary is not None, "no service takes a stream and gives one answer"
    return grpc.unary_unary_rpc_method_handler(_single(handler.unary_unary, admit), *codecs)


Admit = Callable[[Any], Awaitable[None]]


def _single(method: Callable[[Any, Any], Awaitable[Any]], admit: Admit) -> Callable[[Any, Any], Any]:
    async def call(request: Any, context: Any) -> Any:
        await admit(context)
        return await method(request, context)

    return call


def _streaming(
    method: Callable[[Any, Any], AsyncIterator[Any]], admit: Admit
) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def call(request: Any, context: Any) -> AsyncIterator[Any]:
        await admit(context)
        async for answer in method(request, context):
            yield answer

    return call


def _unknown(admit: Admit) -> Callable[[Any, Any], Any]:
    async def call(request: Any, context: Any) -> None:
        await admit(context)
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    return call
