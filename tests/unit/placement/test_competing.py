"""Several engines that compete for the same hosts."""

from __future__ import annotations

import asyncio
from collections import deque

from peloton.clock import SystemClock
from placement.core.batch import Batch
from placement.core.model import Needs
from placement.engine import Engine
from placement.placing import Context
from placement.ports import NO_HOSTS, Acquired, Desired
from tests.unit.placement.fakes import DEADLINE, FakeHostmgr, FakeResmgr
from tests.unit.placement.samples import gang, host, needs


class Slow(FakeHostmgr):
    """Gives one host with each claim, so that the engines' claims alternate."""

    async def acquire(self, needs: Needs, most: int, names: Desired = NO_HOSTS) -> Acquired:
        await asyncio.sleep(0)
        self.busy = len(self.claimed)
        return await super().acquire(needs, 1, names)


async def test_gangs_that_block_each_other_release_what_they_claimed_and_are_placed() -> None:
    """Each needs four of the six hosts: claims that alternate give each three."""

    def give_free(queue: FakeResmgr, hostmgr: FakeHostmgr) -> None:
        for placement in queue.placements:
            hostmgr.free.append(hostmgr.claimed.pop(placement.host.offer_id))

    hostmgr = Slow([host(i, cpu=1) for i in range(6)])
    queues = [FakeResmgr(deque([gang(*[needs()] * 4)])) for _ in range(2)]
    contexts = [
        Context(Batch(), queue, hostmgr, SystemClock(), asyncio.Semaphore(4), patience=60.0)
        for queue in queues
    ]
    tasks = [asyncio.create_task(Engine(context).run()) for context in contexts]
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
