"""Plans on their way to placement engines and back."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from peloton.errors import Unavailable
from peloton.model.states import TaskType
from peloton.private.resmgr.planning import planning_pb2 as pb
from peloton.waking import Signal

TAKE_SECONDS = 7.0
"""How long a plan waits for an engine: more than the pause of one between two questions."""
ANSWER_SECONDS = 15.0
MOST_WAITING = 32


@dataclass(slots=True, eq=False)
class Request:
    """Gangs to be planned by an engine."""

    groups: Sequence[pb.Gangs]
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Future[Sequence[pb.GangsPlan]] = field(default_factory=asyncio.Future)


class Plans:
    """Hands requests to engines, which ask for them as they ask for gangs, and waits for the answers."""

    def __init__(self, take_seconds: float = TAKE_SECONDS, answer_seconds: float = ANSWER_SECONDS) -> None:
        self._take_seconds = take_seconds
        self._answer_seconds = answer_seconds
        self._waiting: dict[TaskType, deque[Request]] = {kind: deque() for kind in TaskType}
        self._signals = {kind: Signal() for kind in TaskType}
        self._taken: dict[str, Request] = {}

    async def ask(self, kind: TaskType, groups: Sequence[pb.Gangs]) -> Sequence[pb.GangsPlan]:
        """Return an engine's plan for groups. Raises Unavailable where no engine answers."""
        queue = self._waiting[kind]
        if len(queue) >= MOST_WAITING:
            raise Unavailable(f"{len(queue)} plans wait for a placement engine already")
        request = Request(groups)
        queue.append(request)
        self._signals[kind].fire()
        try:
            async with asyncio.timeout(self._take_seconds):
                await request.taken.wait()
            async with asyncio.timeout(self._answer_seconds):
                return await request.answer
        except TimeoutError:
            did = "answered" if request.taken.is_set() else "asked for work"
            raise Unavailable(f"no placement engine for {kind.name} tasks has {did} in time") from None
        finally:
            self._taken.pop(request.id, None)
            if request in queue:
                queue.remove(request)

    async def take(self, kind: TaskType, seconds: float) -> Request | None:
        """Return the next request for an engine; None where there is none within that time."""
        queue = self._waiting[kind]
        if not queue:
            await self._signals[kind].wait(seconds)
        if not queue:
            return None
        request = queue.popleft()
        self._taken[request.id] = request
        request.taken.set()
        return request

    def answer(self, plan_id: str, groups: Sequence[pb.GangsPlan]) -> None:
        """Take an engine's answer; nothing happens where nobody waits for it any more."""
        request = self._taken.pop(plan_id, None)
        if request is not None and not request.answer.done():
            request.answer.set_result(groups)

    @property
    def answer_seconds(self) -> float:
        """Return the seconds that an engine has."""
        return self._answer_seconds
