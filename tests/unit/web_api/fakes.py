"""A caller that answers as it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from peloton.web.api.caller import Metadata
from peloton.web.api.failures import CallFailure
from peloton.web.api.methods import Method


@dataclass
class FakeCaller:
    answers: list[Any] = field(default_factory=list)
    """Messages; a CallFailure is raised in its place."""
    hangs: bool = False
    """Whether it answers no more after these."""
    calls: list[tuple[Method, Any, Metadata, float | None]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once it answers no more."""
    cancelled: int = 0

    async def call(self, method: Method, request: Any, metadata: Metadata, timeout: float) -> bytes:
        async with self.stream(method, request, metadata, timeout) as answers:
            return await anext(answers)

    @asynccontextmanager
    async def stream(
        self, method: Method, request: Any, metadata: Metadata, timeout: float | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        self.calls.append((method, request, metadata, timeout))
        try:
            yield self._all()
        finally:
            self.cancelled += 1

    async def _all(self) -> AsyncIterator[bytes]:
        for answer in self.answers:
            if isinstance(answer, CallFailure):
                raise answer
            yield answer.SerializeToString()
        if self.hangs:
            self.begun.set()
            await asyncio.get_running_loop().create_future()
