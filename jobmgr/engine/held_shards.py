"""Which shards of jobs an engine has, and how far it is with each.

Calls are answered for a shard whose active jobs are known by their ids (READING), and events are taken for
one whose jobs are all in memory (OPEN): to an engine that does not know a run's job, the run is an orphan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from enum import Enum
from typing import Any

from peloton.errors import Unavailable
from peloton.model.amounts import duration
from peloton.model.ids import JobId
from peloton.model.shard import SHARDS, shard_of

PATIENCE_SECONDS = 1.0
"""How long a call waits for a shard that is being drained: it may stay."""


class Phase(Enum):
    """How far a shard is."""

    READING = "reading"
    OPEN = "open"
    DRAINING = "draining"


class Opened:
    """Shards that were open at one moment, without those that were dropped or are drained since."""

    def __init__(self, held: HeldShards, openings: dict[int, int]) -> None:
        """Begin with shards, each with its opening."""
        self._held = held
        self._openings = openings

    @property
    def whole(self) -> bool:
        """Whether they are all shards, for as long as the engine lives."""
        return self._held.whole

    @property
    def open_now(self) -> Collection[int]:
        """Return the shards that the engine has open now, whether they are among these or not."""
        return self._held.open

    @property
    def shards(self) -> list[int]:
        """Return their numbers."""
        held = self._held
        return [
            shard
            for shard, opening in self._openings.items()
            if held.phase(shard) is Phase.OPEN and held.opening(shard) == opening
        ]


class HeldShards:
    """The shards of one engine. It begins with none, or has all of them for as long as it lives."""

    def __init__(self, whole: bool = True) -> None:
        """Have all shards, whose jobs are still to be read; or none."""
        self.whole = whole
        """Whether the engine has all shards for as long as it lives: then no event is looked at."""
        self.takes_all = whole
        """Whether events of all jobs are taken."""
        self._phases = dict.fromkeys(range(SHARDS), Phase.READING) if whole else {}
        self._openings = [0] * SHARDS
        """How often each shard has begun to be held."""
        self._before: dict[int, Phase] = {}
        """How far shards were before they were drained."""
        self._grown = 0
        """How often shards were opened."""
        self._changed = asyncio.Event()

    # --- what is asked ---

    def phase(self, shard: int) -> Phase | None:
        """Return how far a shard is; None for one that is not held."""
        return self._phases.get(shard)

    def opening(self, shard: int) -> int:
        """Return the number of the present opening of a shard, 0 where it is not held."""
        return self._openings[shard] if shard in self._phases else 0

    def holds(self, job_id: JobId) -> bool:
        """Return whether anything may be done for a job."""
        return self.whole or shard_of(job_id) in self._phases

    def takes(self, job_id: JobId) -> bool:
        """Return whether events of a job are taken."""
        return self.takes_all or self._phases.get(shard_of(job_id)) is Phase.OPEN

    @property
    def open(self) -> Collection[int]:
        """The shards whose events are taken."""
        return [shard for shard, phase in self._phases.items() if phase is Phase.OPEN]

    @property
    def reading(self) -> dict[int, int]:
        """The shards whose jobs are being read, each with its opening."""
        return {
            shard: self._openings[shard] for shard, phase in self._phases.items() if phase is Phase.READING
        }

    async def check(self, job_id: JobId) -> None:
        """Wait, a moment at most, until calls about a job are answered. Raises Unavailable where none are."""
        if self.whole:
            return
        shard = shard_of(job_id)
        if self._phases.get(shard) is Phase.DRAINING:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    while self._phases.get(shard) is Phase.DRAINING:
                        await self.changed()
            except TimeoutError:
                raise Unavailable(
                    f"job {job_id} moves to another job manager, for more than {duration(PATIENCE_SECONDS)}"
                ) from None
        if shard not in self._phases:
            raise Unavailable(f"job {job_id} is another job manager's: shard {shard} is not owned here")

    # --- what changes ---

    def begin(self, shard: int) -> None:
        """Hold a shard, whose jobs are to be read."""
        assert shard not in self._phases, f"shard {shard} is held already"
        self._openings[shard] += 1
        self._set(shard, Phase.READING)

    def opened(self, reading: dict[int, int]) -> None:
        """Take that the jobs of shards are read, unless these were dropped since, or are being drained."""
        grown = False
        for shard, opening in reading.items():
            if self._phases.get(shard) is Phase.READING and self._openings[shard] == opening:
                self._phases[shard] = Phase.OPEN
                grown = True
        if grown:
            self._grown += 1
            self._tell()

    def drain(self, shard: int) -> None:
        """Take no more events and no new calls of a shard."""
        self._before[shard] = self._phases[shard]
        self._set(shard, Phase.DRAINING)

    def resume(self, shard: int) -> None:
        """Go on with a shard that was being drained. It is opened anew: it has missed events."""
        assert self._phases[shard] is Phase.DRAINING, f"shard {shard} is not being drained"
        self._openings[shard] += 1
        self._grown += 1
        self._set(shard, self._before[shard])

    def drop(self, shard: int) -> None:
        """Hold a shard no more."""
        self._phases.pop(shard, None)
        self._tell()

    def _set(self, shard: int, phase: Phase) -> None:
        self._phases[shard] = phase
        self._tell()

    def _tell(self) -> None:
        self.takes_all = self.whole or len(self.open) == SHARDS
        self._changed.set()
        self._changed = asyncio.Event()

    # --- who waits ---

    async def changed(self) -> None:
        """Wait until a shard changes."""
        await self._changed.wait()

    async def some_reading(self) -> None:
        """Wait until there are shards whose jobs are to be read."""
        while not self.reading:
            await self.changed()

    async def while_open(self, run: Callable[[Opened], Awaitable[None]]) -> None:
        """Run an action for the shards that are open, and anew when more are.

        A source of events then begins again, for all of them.
        """
        while True:
            while not self.open:
                await self.changed()
            opened = Opened(self, {shard: self._openings[shard] for shard in self.open})
            running = asyncio.ensure_future(run(opened))
            try:
                await self._until_grown(running)
                if running.done():
                    running.result()
                    return
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    async def _until_grown(self, running: asyncio.Future[None]) -> None:
        """Wait until more shards are open, none is, or the action has ended."""
        grown = self._grown
        while grown == self._grown and self.open and not running.done():
            # The event of now: a task that asks for it later would miss a change before it begins.
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                waiting: set[asyncio.Future[Any]] = {running, changed}
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
