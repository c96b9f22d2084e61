"""Placement of services: evenly, and back on the hosts that they desire."""

from __future__ import annotations

from placement.core.model import Gang
from tests.unit.placement.fakes import World, running
from tests.unit.placement.samples import SPREAD, gang, host, needs, returning


async def test_services_are_spread_evenly_over_the_hosts() -> None:
    async with running([gang() for _ in range(6)], [host(i) for i in range(3)], services=True) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 2), ("host-1", 2), ("host-2", 2)]
    assert {most for _, most in world.hostmgr.requested} == {6}, "a host for each task"


async def test_a_spread_service_has_one_task_on_a_host() -> None:
    gangs = [gang(strategy=SPREAD) for _ in range(4)]
    async with running(gangs, [host(i) for i in range(3)], services=True) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-1", 1), ("host-2", 1)]
    assert len(world.resmgr.failures) == 1


async def test_tasks_return_to_their_hosts() -> None:
    gangs = [returning(f"host-{i}") for i in (7, 2, 2, 5)]
    async with running(gangs, [host(i) for i in range(9)], services=True) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-2", 2), ("host-5", 1), ("host-7", 1)]
    assert set(world.hostmgr.claimed) == {"offer-2", "offer-5", "offer-7"}
    assert [most for _, most in world.hostmgr.requested] == [3], "one call for all hosts"


async def test_a_task_waits_for_its_host() -> None:
    """Its former run has ended, but the host is not offered yet."""
    async with running([returning("host-5"), gang()], [host(0)], services=True) as world:
        await world.until(lambda: len(world.hostmgr.requested) > 4)
        assert world.resmgr.hosts() == [("host-0", 1)], "nobody waits for it"
        world.hostmgr.free.append(host(5))
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-5", 1)]


async def test_a_task_whose_host_does_not_come_is_placed_elsewhere() -> None:
    one = returning("host-5")
    async with running([one], [host(0)], services=True, desired_host_patience=0.2) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1)]
    assert world.resmgr.placed() == {one.tasks[0].run_id}
    assert not world.resmgr.failures


async def test_a_task_without_any_host_is_returned_with_the_reason() -> None:
    def failed(world: World) -> set[str]:
        return {each.tasks[0].run_id for each in world.resmgr.failures}

    one: Gang = returning("host-0", needs(cpu=16))
    async with running([one], [host(0)], services=True, desired_host_patience=0.0) as world:
        await world.idle()
    assert failed(world) == {one.tasks[0].run_id}
    assert set(world.resmgr.failures.values()) == {
        "no host fits: 1 host with too little free; needs 16 cores free on one host"
    }
