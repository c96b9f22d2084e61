"""Release of the claims of abandoned placements at hostmgr."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from peloton.clock import ManualClock, SystemClock
from peloton.errors import Unavailable
from peloton.model.states import TaskType
from peloton.private.hostmgr.claims import claims_pb2
from resmgr.__main__ import build_driver
from resmgr.core.state.placements import Handover
from resmgr.drivers import claims as claims_driver
from resmgr.drivers.claims import Claims
from tests.unit.resmgr.shell import settings, until


class Hostmgr:
    def __init__(self) -> None:
        self.released: list[tuple[str, list[str]]] = []
        self.ages: list[float] = []
        self.away = False

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        if isinstance(request, claims_pb2.ShortenClaimsRequest):
            assert not retry, "the age of the term would be that of the first try"
            self.ages.append(request.older_than)
        else:
            self.released.append((method, [each.id.value for each in request.hostOffers]))
        if self.away:
            raise Unavailable("away")
        return claims_pb2.ShortenClaimsResponse(shortened=1)


async def test_each_claim_is_released_once() -> None:
    driver, hostmgr = build_driver(settings(Path("unused")), SystemClock()), Hostmgr()
    claims = Claims(driver, hostmgr)
    await claims.release()
    driver.scheduler.placements.abandoned = [Handover("h", "a", "c1", TaskType.BATCH, (), (), ())]
    hostmgr.away = True
    await claims.release()
    await claims.release()
    assert hostmgr.released == [("ReleaseHostOffers", ["c1"])]


async def test_claims_from_before_the_term_are_shortened_once_hostmgr_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The age of the term is sent again with each try, so that no claim of this term is among them."""
    monkeypatch.setattr(claims_driver, "PERIOD", 0.001)
    clock, hostmgr = ManualClock(100.0), Hostmgr()
    claims = Claims(build_driver(settings(Path("unused")), clock), hostmgr)
    hostmgr.away = True
    running = asyncio.gather(claims.run(), claims.shorten_earlier(hostmgr))
    clock.now = 103.0
    await until(lambda: 3.0 in hostmgr.ages)
    hostmgr.away, clock.now = False, 107.0
    await until(lambda: 7.0 in hostmgr.ages)
    claims._driver.scheduler.placements.abandoned = [Handover("h", "a", "c1", TaskType.BATCH, (), (), ())]
    await until(lambda: bool(hostmgr.released))
    running.cancel()
    assert hostmgr.ages.count(7.0) == 1
