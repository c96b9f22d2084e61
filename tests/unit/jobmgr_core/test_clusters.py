"""Runs in several Mesos clusters: each is killed, reconciled and believed in its own cluster only."""

from __future__ import annotations

import jobmgr.core.state.events as ev
import jobmgr.core.state.instructions as ins
from jobmgr.engine.outbox import Outbox
from peloton.model.ids import Run, mesos_task_id
from peloton.model.states import TaskState as S
from peloton.model.task import TaskStatus
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_deadlines import Time

RUN = Run(JOB, 0, 1)


def said(time: Time, state: S, cluster: str, run: int = 1) -> list[ins.Instruction]:
    """What follows from a status by a cluster."""
    status = TaskStatus(mesos_task_id(JOB, 0, run), state, 0)
    return list(time.run_cycle(ev.Statuses([(Run(JOB, 0, run), status)], cluster)))


def running_in_east() -> Time:
    time = Time(spec(1))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    time.run_cycle(ev.Placed([ev.Placement("east/host", "agent", "offer", (), (RUN,))]))
    time.run_cycle(ev.Launched([RUN]))
    said(time, S.RUNNING, "east")
    assert time.task().state is S.RUNNING
    return time


def test_a_run_is_not_lost_for_being_unknown_in_another_cluster() -> None:
    time = running_in_east()
    assert said(time, S.LOST, "") == []
    assert time.task().state is S.RUNNING
    said(time, S.LOST, "east")
    assert JOB not in time.core.active.jobs, "the job has ended"


def test_a_run_that_lives_in_another_cluster_is_killed_there() -> None:
    time = running_in_east()
    assert said(time, S.RUNNING, "west") == [ins.Kill((RUN,), cluster="west")]
    assert time.task().state is S.RUNNING
    earlier = Run(JOB, 0, 0)
    assert said(time, S.RUNNING, "", run=0) == [ins.Kill((earlier,))]


def test_a_silent_run_is_reconciled_in_its_cluster() -> None:
    time = Time(spec(1))
    time.run_cycle(ev.Enqueued(JOB, [(0, 1)]))
    time.run_cycle(ev.Placed([ev.Placement("east/host", "agent", "offer", (), (RUN,))]))
    time.run_cycle(ev.Launched([RUN]))
    done = [each for _ in range(10) for each in time.after(60) if isinstance(each, ins.Reconcile)]
    assert done and all(each == ins.Reconcile(((RUN, "agent"),), "east") for each in done)


def test_each_cluster_has_queues_of_its_own() -> None:
    outbox = Outbox()
    launches = [ins.Launch(host, "agent", "offer", (RUN,)) for host in ("host", "east/host")]
    outbox.send([*launches, ins.Kill((RUN,), cluster="east"), ins.Kill((RUN,), ((RUN, "host"),))])
    own, east = outbox.of_cluster(""), outbox.of_cluster("east")
    assert (len(own.launch), len(own.kill), len(own.kill_and_hold)) == (1, 0, 1)
    assert (len(east.launch), len(east.kill), len(east.kill_and_hold)) == (1, 1, 0)
    assert own.launch is outbox.launch
