"""Who calls: the lease that a call renews."""

from __future__ import annotations

from peloton.rpc.server import caller
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
