"""Slots bound the families that are placed at a time."""

from __future__ import annotations

from tests.unit.placement.fakes import World, running
from tests.unit.placement.samples import gang, host, needs


async def test_families_that_all_try_reserved_hosts_do_not_wait_for_each_other() -> None:
    """Each has a slot while it tries reserved hosts, and needs no second one for that."""
    families = [gang(needs(where=f"rack=r{number}")) for number in range(8)]

    def reserved(world: World) -> None:
        world.hostmgr.busy = 1
        world.reservations.open = [host(number) for number in range(8)]
        world.reservations.in_time = {families[0].job_id}

    async with running(families, [], prepare=reserved) as world:
        await world.idle()
    assert len(world.resmgr.placed()) == len(families)
