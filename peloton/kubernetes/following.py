"""The interpreter of a reflector: it makes the calls, and hands on the changes."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from typing import NoReturn

from peloton.errors import Unavailable
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.reflector import (
    Change,
    Ended,
    Event,
    Failed,
    GiveUp,
    Instruction,
    Listed,
    ReadPage,
    Received,
    Reflector,
    Watch,
)

PAGE = 500
"""Objects of one page of a list, as kubectl and client-go read them."""
WATCH_SECONDS = (240, 480)
"""After how long the server is to end a watch, drawn so that not all watches of a server end at once."""


async def follow(client: ApiClient, path: str, take: Callable[[Change], None], **selectors: str) -> NoReturn:
    """List and watch a collection, and hand on each change in order.

    `selectors` are labelSelector and fieldSelector. Raises Unavailable where the server cannot be followed.
    """
    core = Reflector()
    instruction: Instruction | None = core.start()
    while True:
        assert instruction is not None, "a call that has ended is followed by another one"
        if isinstance(instruction, GiveUp):
            raise Unavailable(instruction.reason)
        async for event in _carry_out(client, path, instruction, selectors):
            step = core.on(event)
            if step.change is not None:
                take(step.change)
            instruction = step.instruction


async def _carry_out(
    client: ApiClient, path: str, instruction: ReadPage | Watch, selectors: dict[str, str]
) -> AsyncIterator[Event]:
    """Yield the events that answer an instruction; the last one is followed by another instruction."""
    try:
        if isinstance(instruction, ReadPage):
            yield await _page(client, path, instruction.page, selectors)
            return
        seconds = random.randint(*WATCH_SECONDS)
        params = {**selectors, "resourceVersion": instruction.version}
        async for event in client.watch(path, timeoutSeconds=seconds, **params):
            yield Received(str(event.get("type")), event.get("object") or {})
        yield Ended()
    except ApiError as error:
        yield Failed(error.status, str(error))
    except Unavailable as error:
        yield Failed(0, str(error))


async def _page(client: ApiClient, path: str, page: str, selectors: dict[str, str]) -> Listed:
    params = {**selectors, "continue": page} if page else selectors
    answer = await client.call("GET", path, limit=PAGE, **params)
    metadata = answer.get("metadata") or {}
    return Listed(
        answer.get("items") or (),
        str(metadata.get("resourceVersion", "")),
        str(metadata.get("continue") or ""),
    )
