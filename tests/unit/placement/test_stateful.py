"""Placement of stateful tasks: the first run anywhere, the others where the volume is."""

from __future__ import annotations

from dataclasses import replace

from peloton.model.states import TaskType
from placement.core.model import Gang, Host
from placement.core.plan import plan
from placement.core.reasons import host_of_volume
from placement.core.service import Service
from tests.unit.placement.fakes import running
from tests.unit.placement.samples import gang, host, returning

STATEFUL = Service(TaskType.STATEFUL, longest=0.2)


def holding(one: Host, *gangs: Gang) -> Host:
    """A host with the volumes of tasks."""
    return replace(one, volumes_of=frozenset(each.tasks[0].id for each in gangs))


def test_the_first_run_goes_to_the_emptiest_host_and_the_others_to_the_volume() -> None:
    assert STATEFUL.family(gang()).even
    family = STATEFUL.family(returning("host-1"))
    assert (family.to_desired_host, family.to_volume) == (True, True)
    assert not Service().family(returning("host-1")).to_volume


def test_a_host_without_the_volume_does_not_do() -> None:
    one, other = returning("host-1"), returning("host-1")
    policy = STATEFUL.policy(STATEFUL.family(one))
    planned = plan([one, other], [host(0), holding(host(1), other)], policy=policy)
    assert (planned.placed, planned.unplaced) == ((other,), (one,))


async def test_a_task_is_never_placed_without_its_volume() -> None:
    one = returning("host-1")
    hosts = [host(0), holding(host(0, cpu=8), one), host(1)]
    async with running([one], hosts, strategy=STATEFUL) as world:
        await world.idle()
    assert world.resmgr.placed() == set()
    (reason,) = world.resmgr.failures.values()
    assert reason.startswith("waits for host host-1, which has its volume: ")
    assert world.hostmgr.claimed == {} or set(world.hostmgr.claimed) <= set(world.hostmgr.released)


async def test_a_task_waits_until_its_volume_is_offered_again() -> None:
    """Its former run has ended, and Mesos offers the rest of the host first."""
    one = returning("host-1")
    strategy = replace(STATEFUL, longest=30.0)
    async with running([one], [host(1)], strategy=strategy, patience=30.0) as world:
        world.hostmgr.busy = 1
        await world.until(lambda: len(world.hostmgr.requested) > 2)
        world.hostmgr.free[:] = [holding(host(1), one)]
        await world.idle()
    assert world.resmgr.hosts() == [("host-1", 1)]


def test_the_reason_names_the_host_and_what_is_wrong_with_it() -> None:
    one = returning("host-1")
    counts = {"mismatch_constraints": 7, "insufficient_offer_resources": 1}
    told = "waits for host host-1, which has its volume: 1 host with too little free"
    assert host_of_volume(one, counts) == told
    gone = "waits for host host-1, which has its volume: the host is gone, or its volume is in use"
    assert host_of_volume(one, {"mismatch_constraints": 7}) == gone
    assert host_of_volume(one, {"mismatch_constraints": 7, "scarce_resources": 2}) == gone, "of other hosts"
