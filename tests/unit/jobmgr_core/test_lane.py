"""The loop around the core."""

from __future__ import annotations

import asyncio

import pytest

from jobmgr.core.cycle import Core
from jobmgr.core.state.events import Statuses
from jobmgr.core.state.limits import Limits
from jobmgr.engine.lane import Lane
from jobmgr.engine.outbox import Outbox
from peloton.clock import SystemClock
from storage.interface import Store
from tests.interpreted import interpreted

FAR = 1e9


class PendingReason(Core):
    """A core with a deadline far away."""

    def idle_until(self) -> float | None:
        return FAR


@interpreted
@pytest.mark.parametrize("moments", range(6))
async def test_a_cancelled_loop_ends_even_when_an_event_arrives(store: Store, moments: int) -> None:
    lane = Lane(PendingReason(Limits()), store, SystemClock(), Outbox().send)
    loop = asyncio.create_task(lane.run())
    for _ in range(10):
        await asyncio.sleep(0)
    lane.post(Statuses(()))
    for _ in range(moments):
        await asyncio.sleep(0)
    loop.cancel()
    _, left = await asyncio.wait({loop}, timeout=2)
    loop.cancel()
    assert not left, f"{moments} moments after an event the loop was not cancelled"
