"""The counts of hostmgr pass through the placement engine to the explanation of a task."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.state.host_filter import Result
from peloton.model.hostcounts import MATCH
from peloton.model.ids import MesosTaskId, TaskId, mesos_task_id, task_id
from peloton.model.resources import Resources
from peloton.model.shortage import Lack, Shortage
from placement.core.model import Gang, Needs, Task, Unplaced
from placement.wire import unplaced_to
from resmgr.core.explain.queue_reasons import explain
from resmgr.wire.tasks import unplaced_from
from tests.unit.resmgr.world import JOB, World

COUNTS = st.dictionaries(st.sampled_from([result.value for result in Result]), st.integers(0, 60_000))
AMOUNTS = st.integers(0, 10**15)
SHORTAGES = st.builds(
    Shortage, st.sampled_from(Lack), st.sampled_from(["", "cpu"]), AMOUNTS, AMOUNTS, st.integers(0, 60_000)
)


def gang() -> Gang:
    run: MesosTaskId = mesos_task_id(JOB, 0, 1)
    name: TaskId = task_id(JOB, 0)
    return Gang(JOB, (Task(name, run, Needs(Resources.of(1))),))


@given(COUNTS, st.none() | SHORTAGES)
def test_counts_and_shortages_are_in_the_explanation(
    counts: dict[str, int], shortage: Shortage | None
) -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    failure = unplaced_from(unplaced_to(Unplaced(gang(), "no host fits", counts, shortage)))
    world.scheduler.propose(world.engine, [], [failure], world.now)
    [found] = explain(world.scheduler, [world.task(0)])
    assert found.tries is not None
    assert found.tries.reason == "no host fits"
    assert found.tries.hosts == {name: count for name, count in counts.items() if count and name != MATCH}
    assert found.shortage == shortage
