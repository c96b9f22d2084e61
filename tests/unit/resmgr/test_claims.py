"""Release of the claims of abandoned placements at hostmgr."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from peloton.calls.resmgr import SHORTEN_CLAIMS
from peloton.calls.rpc import Rpc
from peloton.clock import ManualClock
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.states import TaskType
from resmgr.__main__ import build_driver
from resmgr.clients import HostmgrClient
from resmgr.core.state.placements import Handover
from resmgr.drivers import claims as claims_driver
from resmgr.drivers.claims import AbandonedClaims
from resmgr.drivers.loop import Driver
from tests.unit.resmgr.shell import settings
from tests.waiting import until


class Hostmgr:
    def __init__(self) -> None:
        self.released: list[str] = []
        self.ages: list[float] = []
        self.away = False
        self.refuses = False

    async def shorten_claims(self, older_than: float) -> int:
        self.ages.append(older_than)
        if self.away:
            raise Unavailable("away")
        return 1

    async def release(self, claims: Sequence[Handover]) -> None:
        self.released += [each.offer_id for each in claims]
        if self.away:
            raise Unavailable("away")
        if self.refuses:
            raise InvalidArgument("hostOffers", "", "claims")


def abandoning(clock: ManualClock, hostmgr: Hostmgr, *offers: str) -> AbandonedClaims:
    """Make what releases claims, with some that are abandoned."""
    driver = build_driver(settings(Path("unused")), clock)
    abandon(driver, *offers)
    return AbandonedClaims(driver, hostmgr)


def abandon(driver: Driver, *offers: str) -> None:
    driver.scheduler.placements.abandon(
        *(Handover("h", "a", offer, TaskType.BATCH, (), (), ()) for offer in offers)
    )


async def test_each_claim_is_released_once() -> None:
    hostmgr = Hostmgr()
    claims = abandoning(ManualClock(), hostmgr, "c1")
    await claims.release()
    await claims.release()
    assert hostmgr.released == ["c1"]


async def test_a_claim_is_released_again_where_hostmgr_did_not_answer() -> None:
    """It would last for minutes, and only it may have the host that a gang needs."""
    hostmgr, clock = Hostmgr(), ManualClock(100.0)
    claims = abandoning(clock, hostmgr, "c1")
    hostmgr.away = True
    await claims.release()
    abandon(claims._driver, "c2")
    await claims.release()
    hostmgr.away = False
    await claims.release()
    await claims.release()
    assert hostmgr.released == ["c1", "c1", "c2", "c1", "c2"]


async def test_a_claim_that_has_ended_is_not_released_again() -> None:
    hostmgr, clock = Hostmgr(), ManualClock(100.0)
    claims = abandoning(clock, hostmgr, "c1")
    hostmgr.away = True
    await claims.release()
    clock.now += claims_driver.CLAIM_SECONDS
    await claims.release()
    assert hostmgr.released == ["c1"]


async def test_a_claim_that_hostmgr_refuses_to_release_expires() -> None:
    hostmgr = Hostmgr()
    claims = abandoning(ManualClock(), hostmgr, "c1")
    hostmgr.refuses = True
    await claims.release()
    await claims.release()
    assert hostmgr.released == ["c1"]


async def test_claims_from_before_the_term_are_shortened_once_hostmgr_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The age of the term is sent again with each try, so that no claim of this term is among them."""
    monkeypatch.setattr(claims_driver, "PERIOD", 0.001)
    clock, hostmgr = ManualClock(100.0), Hostmgr()
    claims = AbandonedClaims(build_driver(settings(Path("unused")), clock), hostmgr)
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


class Once:
    """A hostmgr that is away, and is not called again for the same request."""

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        assert (rpc, request.older_than) == (SHORTEN_CLAIMS, 3.0)
        assert not retry, "the age of the term would be that of the first try"
        raise Unavailable("away")


async def test_the_age_of_the_term_is_sent_once() -> None:
    with pytest.raises(Unavailable):
        await HostmgrClient(Once()).shorten_claims(3.0)
