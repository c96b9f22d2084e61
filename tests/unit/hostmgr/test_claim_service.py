"""The service by which a leader of resmgr shortens claims from before its term."""

from __future__ import annotations

import math

import pytest

from hostmgr.core.state.host_filter import HostFilter
from hostmgr.services.claims import ClaimService
from peloton.errors import InvalidArgument
from peloton.private.hostmgr.claims import claims_pb2 as pb
from tests.unit.hostmgr.hosts import offer
from tests.unit.hostmgr.test_manager import Fixture


async def test_claims_that_are_older_than_the_term_are_shortened() -> None:
    it = Fixture()
    await it.subscribe()
    service = ClaimService(it.manager)
    for host in range(2):
        it.manager.hosts.add_offer(offer(host, host), 0.0)
    it.manager.acquire(HostFilter(max_hosts=1), "placement/a")
    it.clock.advance(5.0)
    it.manager.acquire(HostFilter(max_hosts=1), "placement/a")
    it.clock.advance(1.0)
    assert (await service.ShortenClaims(pb.ShortenClaimsRequest(older_than=1.0), None)).shortened == 1
    it.clock.advance(15.0)
    it.manager.expire({"placement/a"})
    assert len(it.manager.acquire(HostFilter(), "placement/b").claims) == 1


@pytest.mark.parametrize("age", [-1.0, math.inf, math.nan])
async def test_an_age_is_a_number_of_seconds(age: float) -> None:
    with pytest.raises(InvalidArgument, match="older_than"):
        await ClaimService(Fixture().manager).ShortenClaims(pb.ShortenClaimsRequest(older_than=age), None)
