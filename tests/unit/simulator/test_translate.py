"""What the daemons tell each other in the simulation is what the wire carries between the real ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostmgr.services.internal import filter_from
from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint
from peloton.model.ids import JobId
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import TaskState, TaskType
from peloton.model.task import TaskRuntime
from peloton.wire.resmgr import resmgr_task
from placement.core.instructions import Claim
from placement.wire import acquire_request, gangs_from
from resmgr.wire.tasks import Translator, gang_to
from simulator.daemons.translate import NeedsOfPlacement, NeedsOfTasks, host_filter
from simulator.jobs import SimJob, job_id_of
from tests.unit.resmgr.world import World, kinds

ON_A_RACK = LabelConstraint(Kind.HOST, Condition.EQUAL, ("rack", "a"), 1)
APART = LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("app", "web"), 1)
RUNTIME = TaskRuntime(TaskState.PENDING, TaskState.SUCCEEDED, 3, 1, 1, 3)
JOB = SimJob("job", 0.0, "/a", Resources.of(2, 100, 10, 1), 60.0, instances=3, priority=4, preemptible=True)


def job_id() -> JobId:
    return job_id_of(7)


@pytest.mark.parametrize("constraint", [None, ON_A_RACK, APART, AndConstraint((ON_A_RACK, APART))])
@pytest.mark.parametrize("gang", [False, True])
def test_gangs_and_filters_are_those_of_the_wire(constraint: Constraint | None, gang: bool) -> None:
    spec = replace(JOB, gang=gang).spec("a")
    spec = replace(
        spec, default=replace(spec.default, constraint=constraint, labels=(("app", "web"), ("x", "y")))
    )
    tasks, placed = NeedsOfTasks(), NeedsOfPlacement()
    world = World(PoolConfig("a", "a", "root", kinds()))
    new = [tasks.new_task(job_id(), spec, instance, RUNTIME) for instance in range(3)]
    by_wire = Translator().new_task(resmgr_task(job_id(), spec, 1, RUNTIME))
    assert new[1]._replace(needs=by_wire.needs) == by_wire
    assert replace(new[1].needs) is not None and new[1].needs.fit == by_wire.needs.fit
    assert new[1].needs.charge == by_wire.needs.charge and new[1].needs.rank == by_wire.needs.rank
    for part in [new] if gang else [[each] for each in new]:
        world.scheduler.enqueue(world.pool(), part, world.now)
    world.admit()
    taken = world.dequeue(kind=TaskType.BATCH)
    assert taken
    for each in taken:
        (expected,) = gangs_from([gang_to(each, world.scheduler)])
        found = placed.gang(each, world.scheduler)
        assert (found.job_id, found.tasks, found.shape) == (expected.job_id, expected.tasks, expected.shape)
        assert (found.wants_reservation, found.time_out) == (expected.wants_reservation, expected.time_out)
        needs = found.tasks[0].needs
        request = acquire_request(Claim(needs, 5, {"h1": ["t-0"]}))
        assert host_filter(needs, 5, {"h1": ["t-0"]}) == filter_from(request.filter)
        request = acquire_request(Claim(needs, 5, fullest=True))
        assert host_filter(needs, 5, fullest=True) == filter_from(request.filter)
