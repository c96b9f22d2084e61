"""Refuse calls while an operator has locked Read or Write (docs/behaviour/operation.md, Lockdown)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Any

import grpc

from jobmgr.engine.lockdown import Lockdown
from peloton.model.lockdown import Component
from peloton.rpc.server import Service

READING = ("Get", "List", "Query", "Browse", "Watch", "Cancel", "Explain", "Check", "Find", "Plan")
"""What the names of methods begin with that change nothing stored. Cancel ends a watch."""


def component_of(method: str) -> Component:
    """Return the component that a method belongs to, by its name: Read or Write."""
    return Component.READ if method.startswith(READING) else Component.WRITE


def guarded(service: Service, lockdown: Lockdown) -> Service:
    """Return the service with methods that raise Refused while their component is locked."""
    methods = {name: _guarded(name, handler, lockdown) for name, handler in service.methods.items()}
    return Service(service.names, methods)


def _guarded(name: str, handler: Any, lockdown: Lockdown) -> Any:
    component = component_of(name)

    def check() -> None:
        lockdown.check(component, name)

    codecs = handler.request_deserializer, handler.response_serializer
    if handler.response_streaming:
        return grpc.unary_stream_rpc_method_handler(_stream(handler.unary_stream, check), *codecs)
    return grpc.unary_unary_rpc_method_handler(_unary(handler.unary_unary, check), *codecs)


def _unary(method: Callable[[Any, Any], Awaitable[Any]], check: Callable[[], None]) -> Any:
    @wraps(method)
    async def call(request: Any, context: Any) -> Any:
        check()
        return await method(request, context)

    return call


def _stream(method: Callable[[Any, Any], AsyncIterator[Any]], check: Callable[[], None]) -> Any:
    @wraps(method)
    async def call(request: Any, context: Any) -> Any:
        check()
        async for answer in method(request, context):
            yield answer

    return call
