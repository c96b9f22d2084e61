"""Who calls: the lease that a call renews, and the shards that its caller owns while it waits."""

from __future__ import annotations

from collections.abc import Callable

from peloton.model.shard import SHARDS
from peloton.rpc.claimed import Shards
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


def kept(driver: Driver, context: object) -> Callable[[], Shards]:
    """Return what tells the shards that a caller names and still owns, as `claimed.shards` does.

    The terms of shards may end while a call waits. Its caller has dropped these then, and what it is given
    of them is lost, even if it owns them anew: nobody launches it, and nobody releases its claim.
    """
    claim = caller(context).shards
    if not claim:
        return lambda: None
    terms, scheduler = terms_of(claim), driver.scheduler

    def shards() -> Shards:
        found = scheduler.kept(terms)
        return None if len(found) == SHARDS else found

    return shards
