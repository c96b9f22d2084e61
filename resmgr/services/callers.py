"""Who calls: the lease that a call renews, and the shards of jobs that its caller names."""

from __future__ import annotations

from functools import lru_cache

from peloton.model.shard import SHARDS
from peloton.rpc.server import caller
from peloton.sharding.claims import terms_of
from resmgr.core.state.entities import Holder
from resmgr.drivers.loop import Driver


def touch(driver: Driver, context: object) -> Holder | None:
    """Renew the caller's lease, and take what it says of shards that it owns.

    Raises Fenced for a leader whose successor has called.
    """
    who = caller(context)
    if who.shards:
        driver.take_claim(who.instance, who.shards)
    return driver.scheduler.leases.touch(who.instance, driver.now(), who.term, owns=bool(who.shards))


def shards(context: object) -> frozenset[int] | None:
    """Return the shards that a caller names; None where these are all, or it says nothing of shards."""
    return _shards(caller(context).shards)


@lru_cache(64)
def _shards(claim: str) -> frozenset[int] | None:
    found = frozenset(terms_of(claim)) & frozenset(range(SHARDS))
    return None if not found or len(found) == SHARDS else found
