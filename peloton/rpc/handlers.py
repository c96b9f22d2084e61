"""What surrounds the method of a service: limits, parsing, the fence, errors, metrics, the access log."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from peloton.errors import Fenced, IllegalTransition, PelotonError, Unavailable
from peloton.identity.principal import current
from peloton.identity.request import Said, enter
from peloton.leaders import NOT_BEGUN
from peloton.new_calls import NEW_CALLS
from peloton.rpc.audit import Audit
from peloton.rpc.caller import Terms, caller_of
from peloton.rpc.checks import checked
from peloton.rpc.errors import status_of, trailing_of
from peloton.rpc.fairness import Fairness
from peloton.rpc.metrics import CALL_SECONDS, CALLS, CALLS_BY_CALLER
from peloton.rpc.numbers import require_finite

PRIVATE = "/peloton.private."
"""Prefix of the paths of services between daemons."""
log = logging.getLogger(__name__)
access = logging.getLogger("peloton.access")
"""A line for each call, at level debug."""


def wrapped(
    path: str,
    handler: Any,
    terms: Terms,
    fence: Callable[[], None],
    audit: Audit | None = None,
    fairness: Fairness | None = None,
) -> Any:
    """Wrap a handler in limits, parsing, checks of terms, translation of errors, and metrics."""
    if handler.request_streaming:
        raise NotImplementedError(f"{path}: no service of ours takes a stream")
    parse, seconds = _parser(path, handler.request_deserializer), CALL_SECONDS.labels(path)
    serialize = _serializer(handler.response_serializer)
    if fairness is not None and not fairness.concerns(path):
        fairness = None
    if handler.response_streaming:
        stream = _stream(path, handler.unary_stream, parse, terms, fence)
        if fairness is not None:
            stream = fairness.stream(path, stream, serialize)
        return grpc.unary_stream_rpc_method_handler(stream, response_serializer=serialize)
    unary = _unary(path, handler.unary_unary, parse, terms, fence, seconds.observe, audit)
    if fairness is not None:
        unary = fairness.unary(path, unary, serialize)
    return grpc.unary_unary_rpc_method_handler(unary, response_serializer=serialize)


def _serializer(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Return a serializer that takes bytes as they are: what many clients get is serialized once."""
    return lambda answer: answer if isinstance(answer, bytes) else serialize(answer)


def _parser(path: str, parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Return a parser that refuses numbers that are not finite.

    It checks requests of private services for missing required fields and for texts that are not UTF-8, too:
    messages of Mesos may have both. An answer that echoes one without its required fields cannot be
    serialised. The public services check this themselves.
    """
    check = checked if path.startswith(PRIVATE) else require_finite

    def parse_checked(raw: bytes) -> Any:
        request = parse(raw)
        check(request, raw)
        return request

    return parse_checked


def _unary(
    path: str,
    method: Callable[[Any, Any], Awaitable[Any]],
    parse: Callable[[bytes], Any],
    terms: Terms,
    fence: Callable[[], None],
    observe: Callable[[float], None],
    audit: Audit | None,
) -> Callable[[bytes, Any], Awaitable[Any]]:
    succeeded = CALLS.labels(path, "OK")

    def note(context: Any, begun: float, code: str, request: Any, answer: Any, why: str) -> None:
        metadata = context.invocation_metadata() or ()
        if audit is not None and audit.concerns(path, current(), metadata):
            seconds = time.perf_counter() - begun
            audit.note(path, current(), metadata, code, seconds, request, answer, why)

    async def call(raw: bytes, context: Any) -> Any:
        begun = time.perf_counter()
        request: Any = None
        story, outcome = _enter(context), "CANCELLED"
        try:
            _admit(context, terms, fence)
            request = parse(raw)
            answer = await method(request, context)
            fence()
            outcome = "OK"
            succeeded.inc()
            if audit is not None:
                note(context, begun, "OK", request, answer, "")
            return answer
        except (asyncio.CancelledError, grpc.aio.BaseError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: answered to the caller, and logged
            code, text, trailing = _failure(path, error, fence)
            outcome = code.name
            if audit is not None:
                note(context, begun, code.name, request, None, text)
            await context.abort(code, text, trailing)
        finally:
            seconds = time.perf_counter() - begun
            observe(seconds)
            _log(path, story, outcome, seconds)

    return call


def _stream(
    path: str,
    method: Callable[[Any, Any], Any],
    parse: Callable[[bytes], Any],
    terms: Terms,
    fence: Callable[[], None],
) -> Any:
    async def call(raw: bytes, context: Any) -> Any:
        begun, story, outcome = time.perf_counter(), _enter(context), "CANCELLED"
        try:
            _admit(context, terms, fence)
            async for answer in method(parse(raw), context):
                fence()
                yield answer
            outcome = "OK"
        except (asyncio.CancelledError, grpc.aio.BaseError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: answered to the caller, and logged
            code, text, trailing = _failure(path, error, fence)
            outcome = code.name
            await context.abort(code, text, trailing)
        finally:
            _log(path, story, outcome, time.perf_counter() - begun)

    return call


def _enter(context: Any) -> Said:
    """Take and count what a call says of itself."""
    NEW_CALLS.note()
    story = enter(context.invocation_metadata() or ())
    CALLS_BY_CALLER.count(story.caller, story.service)
    return story


def _log(path: str, story: Said, outcome: str, seconds: float) -> None:
    """Write a line of the access log."""
    if access.isEnabledFor(logging.DEBUG):
        who, means, number = str(current()), story.service or "-", story.request_id
        caller = f"{story.caller or '-'} {story.version}".rstrip()
        text = "%s %s %.6f s, caller %s, service %s, %s, request %s"
        access.debug(text, path, outcome, seconds, caller, means, who, number)


def _admit(context: Any, terms: Terms, fence: Callable[[], None]) -> None:
    """Check the fence and the caller's term. Raises Unavailable, and Fenced for an old term."""
    try:
        fence()
    except Unavailable:
        context.set_trailing_metadata(((NOT_BEGUN, "1"),))
        raise
    terms.check(caller_of(context.invocation_metadata() or ()))


Aborted = tuple[grpc.StatusCode, str, tuple[tuple[str, str], ...]]
"""How a call ends that has failed: status, text, trailing metadata."""


def _failure(path: str, error: Exception, fence: Callable[[], None]) -> Aborted:
    """Return how a call ends that has failed, and count it. Defects are logged."""
    if isinstance(error, Fenced):
        try:
            fence()
        except Unavailable as own:  # our own term is over, not the caller's: another instance can answer
            error = own
    if isinstance(error, DecodeError):
        code, text = grpc.StatusCode.INVALID_ARGUMENT, f"{path}: the request's bytes are no such message"
    elif isinstance(error, PelotonError):
        code, text = status_of(error), str(error)
        if isinstance(error, IllegalTransition):  # refused without an effect, but a defect nevertheless
            log.error("%s failed", path, exc_info=error)
    elif isinstance(error, NotImplementedError):
        code, text = grpc.StatusCode.UNIMPLEMENTED, str(error) or f"{path} is not built yet"
    else:
        log.error("%s failed", path, exc_info=error)
        code, text = (
            grpc.StatusCode.INTERNAL,
            f"{path}: {type(error).__name__}; see the daemon's log",
        )
    CALLS.labels(path, code.name).inc()
    return code, text, trailing_of(error)
