"""Gangs of one that are queued in groups, as a new leader does, are queued as if each came by itself."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from peloton.errors import Refused
from resmgr.core.state.needs import NewAlone
from tests.unit.resmgr.world import JOB, OTHER_JOB, World, needs

NEEDS = (needs(cpu=1), needs(cpu=2, priority=3), needs(cpu=600), needs(cpu=1, revocable=True))
"""The third is above the limit of the pool."""
RUNS = st.lists(
    st.tuples(st.integers(0, 9), st.integers(1, 3), st.sampled_from(("", "h1"))),
    min_size=1,
    max_size=8,
    unique_by=lambda run: run[0],
)
GROUPS = st.lists(st.tuples(st.sampled_from((JOB, OTHER_JOB)), st.sampled_from(NEEDS), RUNS), max_size=6)


def described(world: World) -> Any:
    """All that may differ: the tasks of each job, the queue, and what is counted."""
    pool, registry = world.pool(), world.scheduler.registry
    tasks = {
        str(task.key): (task.state, task.needs.fit, task.desired_host, task.enqueued, task.gang is None)
        for task in registry
    }
    queued = [[str(task.key) for task in gang.tasks] for gang in world.queues().pending]
    unexplained = [[str(task.key) for task in gang.tasks] for gang in world.queues().unexplained]
    return tasks, queued, unexplained, pool.demand, pool.slack_demand, pool.tasks, len(registry)


@given(gang=st.sets(st.integers(0, 9), max_size=3), groups=GROUPS)
def test_in_groups_and_one_by_one_are_the_same(gang: set[int], groups: list[Any]) -> None:
    together, alone = World(), World()
    for world in (together, alone):
        if gang:
            world.enqueue(*sorted(gang))
    for job, of, runs in groups:
        new = NewAlone(job, of, tuple(runs))
        refused = [False, False]
        try:
            together.scheduler.enqueue_alone(together.pool(), new, together.now)
        except Refused:
            refused[0] = True
        for each in new.each():
            try:
                alone.scheduler.enqueue(alone.pool(), [each], alone.now)
            except Refused:
                refused[1] = True
        if of is not NEEDS[2]:
            assert refused == [False, False]
        assert described(together) == described(alone)
    for world in (together, alone):
        world.admit()
    assert described(together) == described(alone)
