"""Leases: their end where the holder is silent, absent or has a successor."""

from __future__ import annotations

import pytest

from peloton.errors import Fenced
from peloton.model.ids import Run
from peloton.model.states import TaskState
from tests.unit.resmgr.world import JOB, World, proposal

S = TaskState


def test_leases_of_a_silent_holder_return_as_gangs() -> None:
    world = World()
    world.enqueue(0, 1)
    world.enqueue(2)
    world.admit()
    world.dequeue()
    assert world.scheduler.expire_leases(world.now + 29) == 0
    assert world.scheduler.expire_leases(world.now + 30) == 2
    assert [world.state(i) for i in range(3)] == [S.READY] * 3
    world.call_again()
    assert [len(gang.tasks) for gang in world.dequeue()] == [2, 1]


def test_leases_of_an_absent_holder_return_except_settled_ones() -> None:
    world = World()
    world.enqueue(0, 1, 2)
    world.admit()
    world.dequeue()
    world.place(0, 1, 2)
    world.hand_over()
    world.observe(1, S.LAUNCHED)
    world.now += 5
    world.scheduler.leases.touch("placement/one", world.now)
    assert world.scheduler.expire_leases(world.now, {"placement/one", "jobmgr/one"}) == 0
    assert world.scheduler.expire_leases(world.now, {"placement/one"}) == 1
    assert [world.state(i) for i in range(3)] == [S.READY, S.LAUNCHED, S.READY]
    assert [len(gang.tasks) for gang in world.dequeue()] == [2]


def test_the_claims_of_abandoned_placements_are_returned() -> None:
    world = World()
    world.enqueue(0)
    world.enqueue(1)
    world.admit()
    world.dequeue()
    world.scheduler.propose(world.engine, [proposal([0], "h1"), proposal([1], "h2")], [], world.now)
    world.hand_over()
    world.observe(0, S.LAUNCHED)
    world.scheduler.expire_leases(world.now + 60)
    assert [each.host for each in world.scheduler.placements.abandoned] == ["h2"]


def test_a_gang_whose_members_are_on_several_hosts_returns_whole() -> None:
    world = World()
    world.enqueue(0, 1)
    world.admit()
    world.dequeue()
    world.scheduler.propose(world.engine, [proposal([0], "h1"), proposal([1], "h2")], [], world.now)
    assert world.hand_over(limit=1) == [Run(JOB, 0, 1), Run(JOB, 1, 1)]
    world.scheduler.expire_leases(world.now + 60)
    assert [world.state(i) for i in range(2)] == [S.READY, S.READY]
    assert not world.scheduler.placements
    assert sorted(each.host for each in world.scheduler.placements.abandoned) == ["h1", "h2"]


@pytest.mark.parametrize("successor", ["jobmgr/two", "jobmgr/one"], ids=["another", "the same again"])
def test_leases_of_a_leader_end_when_its_successor_calls(successor: str) -> None:
    """Neither silent nor absent: it was frozen for some seconds, or lost its session and won the next
    election. Of what it had taken in its former term it knows nothing."""
    world = World()
    for instance in range(2):
        world.enqueue(instance)
    world.admit()
    world.dequeue()
    world.scheduler.propose(world.engine, [proposal([0], "h1"), proposal([1], "h2")], [], world.now)
    leases = world.scheduler.leases
    world.jobmgr = leases.touch("jobmgr/one", world.now, 5)
    world.hand_over()
    world.observe(0, S.LAUNCHED)
    everybody = {"jobmgr/one", "jobmgr/two", "placement/one"}
    assert world.scheduler.expire_leases(world.now, everybody) == 0
    leases.touch(successor, world.now, 6)
    assert world.scheduler.expire_leases(world.now, everybody) == 1
    assert [world.state(i) for i in range(2)] == [S.LAUNCHED, S.READY]
    assert [each.host for each in world.scheduler.placements.abandoned] == ["h2"]
    with pytest.raises(Fenced):
        leases.touch("jobmgr/one", world.now, 5)


def test_the_claim_of_a_placement_whose_task_is_stopped_is_released() -> None:
    world = World()
    world.enqueue(0)
    world.enqueue(1)
    world.admit()
    world.dequeue()
    assert world.place(0, 1) == []
    world.scheduler.kill(JOB, 0)
    assert not world.scheduler.placements.abandoned
    world.scheduler.kill(JOB, 1)
    assert [each.offer_id for each in world.scheduler.placements.abandoned] == ["offer-h1"]


def test_the_claim_is_released_where_the_successor_ended_the_run_before_the_lease() -> None:
    """The successor found the run LAUNCHED in the store, and Mesos does not know it: jobmgr was killed before
    it called hostmgr, so that the claim still exists."""
    world = World()
    for instance in range(2):
        world.enqueue(instance)
    world.admit()
    world.dequeue()
    world.scheduler.propose(world.engine, [proposal([0], "h1"), proposal([1], "h2")], [], world.now)
    leases = world.scheduler.leases
    world.jobmgr = leases.touch("jobmgr/one", world.now, 5)
    world.hand_over()
    world.observe(0, S.LAUNCHED)
    leases.touch("jobmgr/two", world.now, 6)
    world.observe(1, S.LOST)
    world.scheduler.expire_leases(world.now)
    assert [each.host for each in world.scheduler.placements.abandoned] == ["h2"]


def test_a_holder_that_goes_on_does_not_keep_what_is_settled() -> None:
    world = World()
    leases = world.scheduler.leases
    world.jobmgr = holder = leases.touch("jobmgr/one", world.now, 5)
    assert holder is not None
    for instance, end in enumerate((S.LAUNCHED, S.LOST, S.RUNNING)):
        world.enqueue(instance)
        world.admit()
        world.dequeue()
        world.scheduler.propose(world.engine, [proposal([instance], f"h{instance}")], [], world.now)
        world.hand_over()
        assert [each.host for each in holder.unused()] == [f"h{instance}"]
        world.observe(instance, end)
