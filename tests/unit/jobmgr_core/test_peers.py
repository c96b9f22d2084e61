"""Instances that need the address of another one start when that one has a host."""

from __future__ import annotations

from dataclasses import replace

from jobmgr.core.state import events as ev
from jobmgr.core.state.decisions import Cycle
from jobmgr.core.state.instructions import Enqueue
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.model.task import PortSpec, TaskRuntime, TaskStatus
from peloton.model.workload import TaskWorkload
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_interrupted_leaders import Leader, launched, placed, row, runtime, settled

S = TaskState


def leader(*rows: TaskRuntime) -> Leader:
    """A leader of a job in which all need the address of instance 0."""
    plain = spec(len(rows))
    default = replace(plain.default, workload=TaskWorkload(peer=0), ports=(PortSpec("meet", 9000),))
    made = replace(plain, default=default, has_peers=True)
    return Leader(made, runtime(), dict(enumerate(rows)))


def enqueued(cycle: Cycle) -> list[int]:
    return [
        i for each in cycle.instructions if isinstance(each, Enqueue) for gang in each.gangs for i, _ in gang
    ]


def test_others_are_enqueued_when_the_peer_has_a_host() -> None:
    it = leader(row(S.INITIALIZED), row(S.INITIALIZED), row(S.INITIALIZED))
    first = [i for _ in range(2) for i in enqueued(it.run_cycle())]
    assert first == [0]
    it.run_cycle(ev.Enqueued(JOB, ((0, 1),)))
    job = it.core.active.jobs[JOB].job
    assert job.reason(1) == "waits until instance 0, whose address it needs, has a host: it is PENDING"
    cycle = it.run_cycle(placed(0))
    assert launched(cycle) == [0]
    assert sorted(enqueued(cycle)) == [1, 2]
    assert job.reason(1) == ""


def test_a_placed_task_whose_peer_has_ended_meanwhile_waits_again() -> None:
    it = leader(row(S.RUNNING), row(S.PENDING))
    it.run_cycle()
    lost = TaskStatus("", S.LOST, 1, message="gone", uuid=b"1")
    it.run_cycle(ev.Statuses([(Run(JOB, 0, 1), lost)]))
    cycle = it.run_cycle(placed(1))
    assert launched(cycle) == []
    assert settled(cycle) == [(1, S.LOST)]
    assert enqueued(cycle) == []
