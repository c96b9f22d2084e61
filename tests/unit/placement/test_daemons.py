"""Placement of daemon tasks: each on its own host, and nowhere else."""

from __future__ import annotations

import pytest

from placement.config import PlacementSettings
from placement.core.model import Gang
from tests.unit.placement.fakes import World, running
from tests.unit.placement.samples import gang, host, needs, returning


async def test_each_task_goes_to_its_host() -> None:
    gangs = [returning(f"host-{i}") for i in (4, 0, 2)]
    async with running(gangs, [host(i) for i in range(5)], daemons=True) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-2", 1), ("host-4", 1)]
    assert [most for _, most in world.hostmgr.requested] == [3], "one call for all hosts"


async def test_a_task_whose_host_is_full_is_given_back_and_others_are_placed() -> None:
    full: Gang = returning("host-1")
    hosts = [host(0), host(1, cpu=0.5), host(2)]
    async with running(
        [returning("host-0"), full, returning("host-2")], hosts, daemons=True, desired_host_patience=0.0
    ) as world:
        await world.idle()
    assert world.resmgr.hosts() == [("host-0", 1), ("host-2", 1)]
    assert world.resmgr.failures == {full: "waits for host host-1: 1 host with too little free"}


async def test_a_task_whose_host_is_not_there_says_so() -> None:
    one = returning("host-9")

    def refuse(world: World) -> None:
        world.hostmgr.counts = {"mismatch_constraints": 3, "scarce_resources": 1}

    async with running([one], [host(0)], daemons=True, prepare=refuse) as world:
        await world.idle()
    why = "waits for host host-9, which is not registered or does not meet the constraint"
    assert world.resmgr.failures == {one: why}
    assert world.resmgr.shortages == {one: None}, "it is for one host: the others prove nothing"
    assert not world.hostmgr.compared


async def test_a_task_without_a_host_is_given_back() -> None:
    one = gang(needs())
    async with running([one], [host(0)], daemons=True) as world:
        await world.idle()
    assert world.resmgr.failures == {one: "no host is named that the task is for"}


@pytest.mark.parametrize("given", ["stateless,daemon", "Stateless, DAEMON", ["stateless", "daemon"]])
def test_one_process_serves_several_task_types(given: object) -> None:
    settings = PlacementSettings.model_validate({"task_type": given})
    assert [each.name for each in settings.types] == ["STATELESS", "DAEMON"]
