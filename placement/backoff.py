"""Pauses between tries that grow and differ, so that engines do not knock in step."""

from __future__ import annotations

import asyncio
import random


class Pace:
    """Seconds: from `first`, doubled by each pause up to `longest`; each is cut by up to a half."""

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._next = first

    def reset(self) -> None:
        """It went well: the next pause is the first again."""
        self._next = self._first

    async def pause(self) -> None:
        await asyncio.sleep(self._next * random.uniform(0.5, 1.0))
        self._next = min(self._next * 2, self._longest)
