"""Claims of placements that nobody will launch go back to hostmgr."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peloton.clock import SystemClock
from peloton.errors import Unavailable
from peloton.model.states import TaskType
from resmgr.__main__ import build_driver
from resmgr.core.state.placements import Handover
from resmgr.drivers.claims import Claims
from tests.unit.resmgr.shell import settings


class Hostmgr:
    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.away = False

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        self.asked.append((method, [each.id.value for each in request.hostOffers]))
        if self.away:
            raise Unavailable("away")


async def test_each_claim_goes_back_once() -> None:
    driver, hostmgr = build_driver(settings(Path("unused")), SystemClock()), Hostmgr()
    claims = Claims(driver, hostmgr)
    await claims.release()
    driver.scheduler.placements.abandoned = [Handover("h", "a", "c1", TaskType.BATCH, (), (), ())]
    hostmgr.away = True
    await claims.release()
    await claims.release()
    assert hostmgr.asked == [("ReleaseHostOffers", ["c1"])]
