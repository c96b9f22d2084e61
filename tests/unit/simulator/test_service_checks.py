"""The invariants of services, on what jobmgr's core decides, and on decisions that break them."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.decisions import Cycle
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import TaskState, TerminationReason
from peloton.model.task import TaskStatus
from simulator.faults.services import ServiceChecks
from simulator.faults.violation import Violation
from simulator.world.kernel import Kernel
from simulator.world.store import Store, StoredJob
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

S, R = TaskState, TerminationReason


def limited(instances: int, command: str = "serve", most: int = 1) -> JobSpec:
    """A service of which at most `most` instances may be unavailable; 0: all."""
    spec = service(instances, command=command)
    return replace(spec, sla=replace(spec.sla, maximum_unavailable_instances=most))


def checked(instances: int, decides_by: int = 1) -> Service:
    """A running service of which one instance may be unavailable: each write of it is checked.

    `decides_by`: the limit that the core goes by, 0 for none: then it breaks the SLA.
    """
    it = Service(limited(instances, most=decides_by))
    it.settle()
    checks = ServiceChecks(Store(kernel := Kernel()), kernel)
    specs = {version: limited(instances) for version in range(1, 9)}
    job = StoredJob(specs, it.runtime, it.rows, None, it.workflows)

    def check(cycle: Cycle) -> None:
        for change in cycle.changes.values():
            checks.on_write(JOB, job, change)

    it.on_cycle.append(check)
    return it


def preempted(it: Service, *instances: int) -> ev.Preempted:
    return ev.Preempted([(Run(JOB, i, it.rows[i].run), "/b waits") for i in instances])


def broken(killed: int, unavailable: int) -> str:
    return re.escape(f"[{killed}] of {JOB} are killed, {unavailable} are unavailable, and the SLA allows 1")


def test_an_eviction_beside_an_instance_that_an_update_adds_in_the_same_cycle_is_allowed() -> None:
    """The new instance was not there when the other one was evicted."""
    it = checked(4)
    it.update(limited(5, "newer"), batch_size=2)
    it.cycle(preempted(it, 3))
    assert it.rows[3].termination is not None
    assert it.rows[3].termination.reason is R.PREEMPTED_RESOURCES
    assert it.states() == ["RUNNING", "RUNNING", "RUNNING", "KILLING", "INITIALIZED"]
    it.settle()
    assert it.states() == ["RUNNING"] * 5


def test_an_eviction_beside_a_removed_instance_that_an_update_adds_again_is_allowed() -> None:
    it = checked(5)
    it.update(limited(4))
    it.settle()
    assert it.rows[4].state is S.DELETED
    it.update(limited(5, "newer"), batch_size=2)
    it.cycle(preempted(it, 3))
    assert it.states() == ["RUNNING", "RUNNING", "RUNNING", "KILLING", "INITIALIZED"]


def test_an_eviction_beside_an_instance_that_came_up_and_is_updated_in_the_same_cycle_is_allowed() -> None:
    """It was unavailable before the cycle and is afterwards, but not when the other one was evicted."""
    it = checked(4)
    it.update(limited(4, "newer"), batch_size=2, start_paused=True)
    it.cycle()
    it.ask(ev.RestartRequested(JOB, [0], check_sla=True))
    it.act()
    it.cycle()
    it.act()
    it.place()
    it.act()
    assert it.rows[0].state is S.LAUNCHED
    run = Run(JOB, 0, it.rows[0].run)
    up = TaskStatus(mesos_task_id(JOB, 0, run.run), S.RUNNING, it.wall, "agent", uuid=b"agent")
    it.cycle(ev.Statuses([(run, up)]), preempted(it, 3), ev.WorkflowSteered(JOB, ev.WorkflowAction.RESUME))
    assert it.states() == ["KILLING", "RUNNING", "RUNNING", "KILLING"]


def test_an_eviction_beside_an_unavailable_instance_breaks_the_sla() -> None:
    it = checked(4, decides_by=0)
    it.end(0)
    with pytest.raises(Violation, match=broken(3, 2)):
        it.cycle(preempted(it, 3))


def test_an_eviction_beside_an_instance_that_was_added_before_breaks_the_sla() -> None:
    it = checked(4, decides_by=0)
    it.update(limited(5, most=0))
    it.cycle()
    assert it.rows[4].state is S.INITIALIZED
    with pytest.raises(Violation, match=broken(3, 2)):
        it.cycle(preempted(it, 3))


def test_an_eviction_of_an_instance_that_came_up_in_the_same_cycle_is_held_to_the_sla() -> None:
    it = checked(4, decides_by=0)
    it.end(0)
    it.ask(ev.RestartRequested(JOB, [1]))
    it.act()
    it.cycle()
    it.act()
    it.place()
    it.act()
    run = Run(JOB, 1, it.rows[1].run)
    up = TaskStatus(mesos_task_id(JOB, 1, run.run), S.RUNNING, it.wall, "agent", uuid=b"agent")
    with pytest.raises(Violation, match=broken(1, 2)):
        it.cycle(ev.Statuses([(run, up)]), preempted(it, 1))


def test_evictions_at_once_count_together() -> None:
    it = checked(4, decides_by=0)
    with pytest.raises(Violation, match=r"instances \[2, 3\] of .* are killed, 2 are unavailable"):
        it.cycle(preempted(it, 2, 3))


def stops(it: Service, seconds: float, room: bool = False) -> None:
    """Check the stop of what `it` has stored, `seconds` later. `room`: whether what waits has room."""
    store = Store(kernel := Kernel())
    store.jobs[JOB] = StoredJob(it.specs, it.runtime, it.rows, it.workflow, it.workflows)
    kernel.run(seconds)
    ServiceChecks(store, kernel).stopping(JOB, lambda job_id, instance: room)


def without_room(it: Service) -> Service:
    """Everything goes on, but resmgr finds no place."""
    for _ in range(5):
        it.cycle()
        it.act()
        it.run()
    return it


def waiting(instances: int) -> Service:
    """A service of 3 whose update waits for room for one instance."""
    it = Service(limited(3, most=0))
    it.settle()
    it.update(limited(instances, "newer", most=0), batch_size=1)
    without_room(it)
    assert it.states() == ["PENDING", "RUNNING", "RUNNING"]
    return it


def test_a_service_whose_update_waits_for_the_room_of_others_may_be_stopped() -> None:
    stops(waiting(3), 1000.0)


def test_an_update_may_not_wait_for_what_it_is_to_remove() -> None:
    it = waiting(2)
    stops(it, 140.0)
    with pytest.raises(Violation, match=r"waits in vain .*: instances \[2\] are to be removed"):
        stops(it, 160.0)


def test_an_update_may_not_wait_though_there_is_room() -> None:
    with pytest.raises(Violation, match=r"waits in vain .*: instances \[0\] have room, and are not placed"):
        stops(waiting(3), 160.0, room=True)


def test_an_update_may_not_wait_for_nothing() -> None:
    it = waiting(3)
    it.rows[0] = replace(it.rows[0], state=S.RUNNING)
    with pytest.raises(Violation, match=r"waits in vain .*: no instance waits for room"):
        stops(it, 160.0)


def test_an_update_may_wait_for_a_program_that_fails() -> None:
    it = waiting(2)
    it.rows[0] = replace(it.rows[0], state=S.FAILED, failure_count=3)
    stops(it, 1000.0)
