"""The placement engine: takes gangs from resmgr and gives them to rounds, one for each family."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence

from peloton.backoff import Backoff
from peloton.errors import PelotonError
from placement.core.model import Gang
from placement.core.strategy import Family
from placement.metrics import WAITING
from placement.placing import Parts, Round

HEARD_SECONDS = 10.0
"""How often resmgr hears of an engine that holds gangs; silent for 30 s, it would lose them."""
log = logging.getLogger(__name__)


class Engine:
    """Keeps nothing that outlives it: gangs are leased, hosts are claimed, both for a time."""

    def __init__(
        self,
        parts: Parts,
        dequeue_limit: int = 1000,
        dequeue_wait: float = 5.0,
        max_waiting: int = 4000,
        heard: float = HEARD_SECONDS,
    ) -> None:
        self._parts = parts
        self._limit = dequeue_limit
        self._wait = dequeue_wait
        self._max_waiting = max_waiting
        self._heard = heard
        self._rounds: dict[Hashable, Round] = {}
        self._settled = asyncio.Event()
        self._backoff = Backoff(0.1, 5.0, jitter=0.5)
        self._complaint = ""

    @property
    def waiting(self) -> int:
        """Gangs that were taken and are not yet settled."""
        return sum(map(len, self._rounds.values()))

    async def run(self) -> None:
        """Until cancelled. Resmgr and hostmgr may come and go."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_heard())
            while True:
                gangs = await self._dequeue()
                for family, members in _families(self._parts, gangs):
                    self._give(family, members, group)
                WAITING.set(self.waiting)
                await self._until_room()

    async def _dequeue(self) -> Sequence[Gang]:
        limit = min(self._limit, self._max_waiting - self.waiting)
        try:
            gangs = await self._parts.queue.dequeue(limit, self._wait)
        except PelotonError as error:
            self._complain(str(error))
            await self._backoff.wait()
            return ()
        self._complaint = ""
        self._backoff.reset()
        return gangs

    def _complain(self, wrong: str) -> None:
        """Once, however often it is tried."""
        if wrong != self._complaint:
            log.warning("no gangs can be taken: %s", wrong)
        self._complaint = wrong

    async def _keep_heard(self) -> None:
        """Gangs may be worked on for minutes, while no more are taken and none is settled. What could not be
        given back is, with this."""
        owed = self._parts.owed
        while True:
            await asyncio.sleep(self._heard)
            if not self.waiting and not owed:
                continue
            told = list(owed)
            owed.clear()
            try:
                await self._parts.queue.settle((), told)
            except PelotonError as error:
                log.debug("resmgr does not hear of this engine: %s", error)
                owed.extendleft(reversed(told))

    async def _until_room(self) -> None:
        while self.waiting >= self._max_waiting:
            self._settled.clear()
            await self._settled.wait()

    def _give(self, family: Family, gangs: Iterable[Gang], group: asyncio.TaskGroup) -> None:
        found = self._rounds.get(family.key)
        if found is not None:
            found.add(gangs)
            return
        new = self._rounds[family.key] = Round(family, self._parts, self._settled.set)
        new.add(gangs)
        group.create_task(self._finish(family, new))

    async def _finish(self, family: Family, new: Round) -> None:
        await new.run()
        # Nothing can have joined since run() saw that none waits: there was no pause between.
        del self._rounds[family.key]
        self._settled.set()
        WAITING.set(self.waiting)


def _families(parts: Parts, gangs: Iterable[Gang]) -> list[tuple[Family, list[Gang]]]:
    """In the order in which they are to be served."""
    families: dict[Family, list[Gang]] = {}
    for gang in gangs:
        families.setdefault(parts.strategy.family(gang), []).append(gang)
    return sorted(families.items(), key=lambda item: item[0].rank)
