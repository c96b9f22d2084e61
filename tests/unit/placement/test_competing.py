"""Several engines that compete for the same hosts."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import replace

from peloton.clock import SystemClock
from placement.core.batch import Batch
from placement.core.events import HostsClaimed
from placement.core.giving_up import Rules
from placement.core.instructions import Claim
from placement.core.rounds import Rounds
from placement.engine import Engine
from tests.unit.placement.fakes import DEADLINE, FakeHostmgr, FakeResmgr
from tests.unit.placement.samples import gang, host, needs


class Slow(FakeHostmgr):
    """Gives one host with each claim, so that the engines' claims alternate."""

    async def claim(self, claim: Claim) -> HostsClaimed:
        await asyncio.sleep(0)
        self.busy = len(self.claimed)
        return await super().claim(replace(claim, most=1))


async def test_gangs_that_block_each_other_release_what_they_claimed_and_are_placed() -> None:
    """Each needs four of the six hosts: claims that alternate give each three."""

    def give_free(queue: FakeResmgr, hostmgr: FakeHostmgr) -> None:
        for placement in queue.placements:
            hostmgr.free.append(hostmgr.claimed.pop(placement.host.offer_id))

    hostmgr = Slow([host(i, cpu=1) for i in range(6)])
    queues = [FakeResmgr(deque([gang(*[needs()] * 4)])) for _ in range(2)]
    rules = Rules(Batch(), patience=60.0)
    engines = [Engine(Rounds(rules), queue, hostmgr, SystemClock(), asyncio.Semaphore(4)) for queue in queues]
    tasks = [asyncio.create_task(engine.run()) for engine in engines]
    ended: set[int] = set()
    try:
        async with asyncio.timeout(DEADLINE):
            while len(ended) < 2:
                await asyncio.sleep(0.01)
                for number, queue in enumerate(queues):
                    if queue.placements and number not in ended:
                        assert len(queue.placements) == 4, "whole"
                        ended.add(number)
                        give_free(queue, hostmgr)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert not hostmgr.claimed
    assert len(hostmgr.free) == 6
    assert all(not queue.failures for queue in queues)
