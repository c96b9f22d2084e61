"""Stateful services: an instance runs where its volume is, and its volume is deleted on request only."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from peloton.errors import Refused
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobSpec
from peloton.model.states import JobState, JobType, TaskState, TaskType
from peloton.model.task import TaskStatus
from peloton.model.volume import VolumeSpec, VolumeState, volume_id
from peloton.model.workflow import WorkflowType
from peloton.wire.resmgr import resmgr_task
from tests.unit.jobmgr_core.services import Service, service
from tests.unit.jobmgr_core.specs import JOB

S, V = TaskState, VolumeState
FIRST = volume_id(JOB, 0, 1)


def stateful(instances: int = 1, size: int = 100, path: str = "data") -> JobSpec:
    plain = service(instances)
    volume = VolumeSpec(size, path)
    default = replace(
        plain.default, volume=volume, fingerprint=plain.default.fingerprint + str(volume).encode()
    )
    return replace(plain, default=default)


def running(instances: int = 1) -> Service:
    it = Service(stateful(instances))
    it.settle()
    assert it.states() == ["RUNNING"] * instances
    return it


def waiting(it: Service) -> None:
    """The instance's run is lost, and the next one waits in resmgr for its host."""
    it.end(0, S.LOST)
    it.cycle()
    it.act()
    assert it.queued == {0: 2}


def delete(it: Service, volume: str = FIRST) -> object:
    return it.ask(ev.VolumeDeletionRequested(JOB, it.volumes[volume]))


def test_a_volume_is_stored_before_its_first_launch_and_created_with_its_run() -> None:
    it = Service(stateful())
    it.cycle()
    it.act()
    it.place()
    volume = it.volumes[FIRST]
    assert (volume.instance, volume.hostname, volume.size_mb, volume.container_path) == (
        0,
        "host",
        100,
        "data",
    )
    assert (volume.state, volume.goal) == (V.INITIALIZED, V.CREATED)
    assert (it.rows[0].volume_id, it.rows[0].desired_host, it.rows[0].state) == (FIRST, "host", S.LAUNCHED)
    it.settle()
    assert it.volumes[FIRST].state is V.CREATED
    assert it.volumes[FIRST].created_at == volume.created_at < it.volumes[FIRST].updated_at


@pytest.mark.parametrize(
    "how", ["failed", "lost", "restarted", "evicted", "stopped and started", "leader falls"]
)
def test_every_run_goes_to_the_volume(how: str) -> None:
    it = running()
    if how == "failed":
        it.end(0)
        it.wait(31)
    elif how == "lost":
        it.end(0, S.LOST)
    elif how == "restarted":
        it.ask(ev.RestartRequested(JOB, [0]))
    elif how == "evicted":
        it.cycle(ev.Preempted([(Run(JOB, 0, 1), "maintenance")]))
    elif how == "stopped and started":
        it.ask(ev.StopRequested(JOB, [0]))
        it.settle()
        it.ask(ev.StartRequested(JOB, [0]))
    else:
        it.fall()
        it.end(0, S.LOST)
    it.settle()
    assert (it.rows[0].run, it.rows[0].state) == (2, S.RUNNING)
    assert (it.rows[0].volume_id, it.rows[0].desired_host) == (FIRST, "host")
    assert set(it.volumes) == {FIRST}


def test_a_placement_elsewhere_is_not_taken() -> None:
    it = running()
    it.host = "other"
    waiting(it)
    it.place()
    assert it.rows[0].state is not S.LAUNCHED
    assert "while its volume is on host" in it.rows[0].message
    it.host = "host"
    it.settle()
    assert (it.rows[0].state, it.rows[0].host, it.rows[0].volume_id) == (S.RUNNING, "host", FIRST)


def test_a_volume_whose_run_was_refused_is_given_up() -> None:
    it = Service(stateful())
    it.cycle()
    it.act()
    it.place()
    it.todo.clear()
    it.cycle(ev.LaunchRefused([Run(JOB, 0, 1)], "invalid offers: disk", faulty=False))
    assert it.volumes[FIRST].goal is V.DELETED
    assert [each.volume.id for each in it.todo if isinstance(each, ins.DestroyVolume)] == [FIRST]
    it.host = "other"
    it.settle()
    second = volume_id(JOB, 0, 2)
    assert (it.rows[0].volume_id, it.rows[0].host) == (second, "other")
    assert it.volumes[second].state is V.CREATED


@pytest.mark.parametrize(
    ("state", "reason", "kept"),
    [
        (S.LOST, "INVALID_OFFERS", False),
        (S.FAILED, "TASK_INVALID", False),
        (S.FAILED, "CONTAINER_LAUNCH_FAILED", False),
        (S.FAILED, "COMMAND_EXECUTOR_FAILED", True),
        (S.SUCCEEDED, "", True),
        (S.KILLED, "", True),
    ],
)
def test_an_end_without_a_start_keeps_what_may_have_data(state: TaskState, reason: str, kept: bool) -> None:
    it = Service(stateful())
    it.cycle()
    it.act()
    it.place()
    it.act()
    it.alive.clear()
    status = TaskStatus(f"{JOB}-0-1", state, it.wall, "agent", reason=reason, uuid=b"agent")
    it.cycle(ev.Statuses([(Run(JOB, 0, 1), status)]))
    it.wait(31)
    it.settle()
    assert it.rows[0].state is S.RUNNING
    assert (it.rows[0].volume_id == FIRST) is kept
    assert it.volumes[FIRST].goal is (V.CREATED if kept else V.DELETED)


def launch(it: Service) -> None:
    it.cycle()
    it.act()
    it.place()
    it.act()


def refuse_launch(it: Service) -> None:
    """Let the agent refuse the run that was launched."""
    it.alive.clear()
    run = Run(JOB, 0, it.rows[0].run)
    status = TaskStatus(
        mesos_task_id(*run),
        S.FAILED,
        it.wall,
        "agent",
        reason="CONTAINER_LAUNCH_FAILED",
        uuid=b"%d" % run.run,
    )
    it.cycle(ev.Statuses([(run, status)]))


def test_a_job_that_ends_before_a_start_keeps_no_volume() -> None:
    """Its agents refuse all four launches: each volume is given up, the last one too."""
    it = Service(replace(stateful(), type=JobType.BATCH))
    for _ in range(4):
        launch(it)
        refuse_launch(it)
    assert it.rows[0].state is S.FAILED
    assert {each.goal for each in it.volumes.values()} == {V.DELETED}
    assert len(it.volumes) == 4
    assert (it.rows[0].volume_id, it.rows[0].desired_host) == ("", "")


def test_a_service_that_is_stopped_before_a_launch_keeps_no_volume() -> None:
    it = Service(stateful())
    it.cycle()
    it.act()
    it.place()
    assert it.volumes[FIRST].state is V.INITIALIZED
    it.todo.clear()
    it.ask(ev.StopRequested(JOB, None))
    it.cycle(ev.LaunchRefused([Run(JOB, 0, 1)], "invalid offers: disk", faulty=False))
    it.settle()
    assert it.rows[0].state is S.KILLED
    assert it.volumes[FIRST].goal is V.DELETED
    assert (it.rows[0].volume_id, it.rows[0].desired_host) == ("", "")


def test_a_volume_in_use_is_not_deleted() -> None:
    it = running()
    refused = delete(it)
    assert isinstance(refused, Refused)
    assert str(refused) == (
        f"volume {FIRST} is in use: run 1 of instance 0 is RUNNING on host; stop the instance first"
    )
    assert it.volumes[FIRST].goal is V.CREATED


def test_an_instance_whose_host_is_gone_goes_elsewhere_once_its_volume_is_deleted() -> None:
    it = running()
    waiting(it)
    assert delete(it) is None
    assert it.volumes[FIRST].goal is V.DELETED
    assert [each.volume.id for each in it.todo if isinstance(each, ins.DestroyVolume)] == [FIRST]
    it.host = "other"
    it.settle()
    assert (it.rows[0].state, it.rows[0].host, it.rows[0].run) == (S.RUNNING, "other", 3)
    assert it.rows[0].volume_id == volume_id(JOB, 0, 3)
    assert it.queued == {}


def test_the_volume_of_a_stopped_instance_is_deleted_and_the_instance_stays_stopped() -> None:
    it = running(2)
    it.ask(ev.StopRequested(JOB, [0]))
    it.settle()
    assert delete(it) is None
    it.settle()
    assert (it.rows[0].state, it.rows[0].volume_id, it.rows[0].desired_host) == (S.KILLED, "", "")
    assert it.rows[1].volume_id == volume_id(JOB, 1, 1)
    assert delete(it) is None


def test_a_removed_instance_comes_back_to_its_volume() -> None:
    it = running(2)
    it.update(stateful(1))
    it.settle()
    assert it.rows[1].state is S.DELETED
    it.update(stateful(2))
    it.settle()
    second = volume_id(JOB, 1, 1)
    assert (it.rows[1].state, it.rows[1].volume_id, it.rows[1].desired_host) == (S.RUNNING, second, "host")


def test_an_update_keeps_the_volume_and_one_without_volume_leaves_it_behind() -> None:
    it = running()
    it.update(stateful(1, size=500, path="elsewhere"), in_place=True)
    it.settle()
    assert (it.rows[0].run, it.rows[0].volume_id) == (2, FIRST)
    assert it.volumes[FIRST].size_mb == 100
    it.update(service(1, command="another"))
    it.settle()
    assert (it.rows[0].run, it.rows[0].volume_id, it.rows[0].desired_host) == (3, "", "")
    assert it.volumes[FIRST].goal is V.CREATED
    assert delete(it) is None


def test_a_service_that_gets_a_volume_is_placed_anew() -> None:
    it = Service(service(1))
    it.settle()
    it.update(stateful(1), in_place=True)
    it.host = "other"
    it.settle()
    assert (it.rows[0].volume_id, it.rows[0].desired_host) == (volume_id(JOB, 0, 2), "other")


def test_a_restart_of_the_whole_service_keeps_each_volume() -> None:
    it = running(3)
    it.begin(WorkflowType.RESTART, batch_size=1)
    it.settle()
    assert [it.rows[i].run for i in range(3)] == [2, 2, 2]
    assert [it.rows[i].volume_id for i in range(3)] == [volume_id(JOB, i, 1) for i in range(3)]


def test_resmgr_is_asked_for_the_disk_of_a_new_volume_only() -> None:
    it = running()
    spec = it.spec
    fresh = resmgr_task(JOB, spec, 0, replace(it.rows[0], volume_id="", desired_host=""))
    back = resmgr_task(JOB, spec, 0, it.rows[0])
    assert fresh.resource.diskLimitMb - back.resource.diskLimitMb == 100
    assert (fresh.desiredHost, back.desiredHost) == ("", "host")
    assert int(fresh.type) == TaskType.STATEFUL


def test_stateful_instances_are_never_preemptible() -> None:
    spec = stateful()
    spec = replace(spec, type=JobType.BATCH, sla=replace(spec.sla, preemptible=True))
    assert not spec.preemptible(0)
    assert spec.task_type(0) is TaskType.STATEFUL


def test_the_volumes_of_a_deleted_service_stay() -> None:
    it = running()
    it.ask(ev.JobGoalRequested(JOB, JobState.DELETED, None))
    it.settle()
    assert it.deleted
    assert it.volumes[FIRST].goal is V.CREATED


@pytest.mark.parametrize("again", [True, False])
def test_a_volume_that_its_task_did_not_come_to_have(again: bool) -> None:
    """Cassandra stores a volume before its task, and a leader may fall between."""
    it = Service(stateful())
    it.cycle()
    it.act()
    before, held = dict(it.rows), dict(it.queued)
    it.place()
    it.rows, it.queued, it.host = before, held, "other"
    if not again:
        it.rows[0] = replace(it.rows[0], run=2, desired_run=2)
        it.queued = {0: 2}
    it.fall()
    it.settle()
    assert (it.rows[0].state, it.rows[0].host) == (S.RUNNING, "other")
    if again:
        assert (it.volumes[FIRST].hostname, it.volumes[FIRST].state) == ("other", V.CREATED)
    else:
        assert it.volumes[FIRST].goal is V.DELETED
        assert it.rows[0].volume_id == volume_id(JOB, 0, 2)
