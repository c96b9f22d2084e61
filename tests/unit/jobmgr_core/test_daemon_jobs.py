"""Daemon jobs in the core: instances follow hosts, and stay on them."""

from __future__ import annotations

from jobmgr.core.state import events as ev
from jobmgr.core.state.limits import Limits
from peloton.model.host import HostMatch
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import WorkflowState, WorkflowType
from tests.unit.jobmgr_core.daemons import DaemonJob, daemon
from tests.unit.jobmgr_core.specs import JOB

S, W = TaskState, WorkflowState


def running(*hosts: str) -> DaemonJob:
    job = DaemonJob(hosts=set(hosts))
    job.settle()
    assert job.on == dict.fromkeys(hosts, "RUNNING")
    return job


def test_each_host_gets_an_instance() -> None:
    job = DaemonJob(hosts={"a", "b"})
    job.cycle()
    assert not job.tasks and job.runtime.state.name == "PENDING", "the hosts are not known yet"
    job.settle()
    assert job.on == {"a": "RUNNING", "b": "RUNNING"}
    assert [task.host for task in job.tasks.values()] == ["a", "b"]
    assert job.runtime.state is JobState.RUNNING
    assert job.runtime.task_counts == {S.RUNNING: 2}
    assert job.asked == 1
    job.join("c")
    job.settle()
    assert job.numbers == {"a": 0, "b": 1, "c": 2} and job.states() == ["RUNNING"] * 3


def test_without_hosts_it_waits() -> None:
    job = DaemonJob()
    job.settle()
    assert job.runtime.state is JobState.PENDING and not job.tasks
    job.join("a")
    job.settle()
    assert job.on == {"a": "RUNNING"}


def test_a_host_that_goes_takes_its_instance_along_and_has_it_again() -> None:
    job = running("a", "b")
    job.leave("a")
    job.settle()
    assert job.on == {"b": "RUNNING"} and job.runtime.task_counts == {S.RUNNING: 1}
    assert job.rows[0].state is S.DELETED
    job.join("a")
    job.settle()
    assert job.numbers == {"a": 0, "b": 1} and job.states() == ["RUNNING", "RUNNING"]
    assert job.tasks[0].run == 3, "after the next run that waited until the host was known to be gone"
    assert not job.twice


def test_a_run_on_a_host_that_matches_no_more_is_killed() -> None:
    job = running("a", "b")
    job.leave("a", lost=False)
    assert job.rows[0].state is S.KILLING
    job.settle()
    assert job.on == {"b": "RUNNING"} and list(job.alive) == [(1, 1)]


def test_a_host_that_is_back_before_its_run_has_ended() -> None:
    job = running("a", "b")
    job.leave("a", lost=False)
    job.join("a")
    job.settle()
    assert job.on == {"a": "RUNNING", "b": "RUNNING"} and job.tasks[0].run == 2
    assert not job.twice


def test_what_may_come_back_stays() -> None:
    job = running("a", "b")
    job.disconnected = {"a"}
    job.leave("a")
    job.settle()
    assert job.on == {"a": "PENDING", "b": "RUNNING"}, "its agent is registered"
    job.disconnected, job.complete = set(), False
    job.follow()
    job.settle()
    assert job.on == {"a": "PENDING", "b": "RUNNING"}, "a new master still waits for agents"
    job.complete = True
    job.follow()
    job.settle()
    assert job.on == {"b": "RUNNING"}


def test_every_run_of_an_instance_goes_to_its_host() -> None:
    job = running("a", "b")
    job.end(0)
    job.settle()
    assert job.on == {"a": "FAILED", "b": "RUNNING"}, "throttled"
    job.wait(40)
    job.settle()
    assert job.tasks[0].host == "a" and job.tasks[0].run == 2
    job.end(0, S.LOST)
    job.settle()
    assert job.tasks[0].host == "a"
    job.ask(ev.RestartRequested(JOB, [1]))
    job.settle()
    assert (job.tasks[1].host, job.tasks[1].run) == ("b", 2)


def test_a_stopped_job_follows_no_hosts_and_a_started_one_catches_up() -> None:
    job = running("a", "b")
    job.ask(ev.JobGoalRequested(JOB, JobState.KILLED, None))
    job.settle()
    assert job.runtime.state is JobState.KILLED
    job.join("c")
    job.leave("a")
    job.settle()
    assert job.on == {"b": "KILLED"} and job.runtime.state is JobState.KILLED
    job.ask(ev.JobGoalRequested(JOB, JobState.RUNNING, None))
    job.settle()
    assert job.on == {"b": "RUNNING", "c": "RUNNING"}


def test_a_job_that_is_deleted_gets_no_instance_any_more() -> None:
    job = running("a")
    job.ask(ev.JobGoalRequested(JOB, JobState.DELETED, None))
    job.join("b")
    job.settle()
    assert job.deleted and job.on == {"a": "KILLED"}


def test_an_instance_that_was_stopped_alone_stays_stopped() -> None:
    job = running("a", "b")
    job.ask(ev.StopRequested(JOB, [0]))
    job.settle()
    job.join("c")
    job.settle()
    assert job.on == {"a": "KILLED", "b": "RUNNING", "c": "RUNNING"}


def test_a_new_leader_goes_on() -> None:
    job = running("a", "b")
    job.hosts = {"b", "c"}
    job.end(0, S.LOST)
    job.fall()
    job.settle()
    assert job.on == {"b": "RUNNING", "c": "RUNNING"}
    assert not job.twice


def test_an_update_goes_over_the_hosts_in_batches_while_they_change() -> None:
    job = running("a", "b", "c")
    begun = job.update(daemon(command="watch closely"), batch_size=1)
    job.step()
    job.join("d")
    job.leave("b")
    job.settle()
    workflow = job.workflow
    assert workflow is not None and (workflow.id, workflow.state) == (begun, W.SUCCEEDED)
    assert job.on == dict.fromkeys("acd", "RUNNING") and set(job.versions()) == {2}
    assert all(task.host == task.desired_host for task in job.tasks.values())


def test_an_update_is_never_more_than_a_batch_away() -> None:
    job = running(*"abcdef")
    job.update(daemon(command="watch closely"), batch_size=2)
    for _ in range(100):
        job.step()
        assert job.states().count("RUNNING") >= 4
    assert set(job.versions()) == {2}


def test_a_percentage_is_of_the_hosts() -> None:
    job = running(*"abcdef")
    job.update(daemon(command="watch closely"), batch_percentage=50)
    job.cycle()
    assert [task.desired_config_version for task in job.tasks.values()].count(2) == 3


def test_hosts_are_followed_while_a_workflow_is_paused() -> None:
    job = running("a", "b")
    job.update(daemon(command="watch closely"), batch_size=1, start_paused=True)
    job.step()
    job.join("c")
    job.leave("a")
    job.settle()
    assert job.on == {"b": "RUNNING", "c": "RUNNING"} and job.numbers["c"] == 2
    assert job.versions() == [1, 2], "the new one has the newest config"
    job.steer(ev.WorkflowAction.RESUME)
    job.settle()
    assert job.versions() == [2, 2]


def test_a_roll_back_brings_all_hosts_back() -> None:
    job = running("a", "b", "c")
    options = {"rollback_on_failure": True, "max_instance_attempts": 1, "max_failure_instances": 1}
    job.update(daemon(command="false"), batch_size=1, **options)
    for _ in range(20):
        job.step()
        for (instance, _), state in list(job.alive.items()):
            if state is S.RUNNING and job.rows[instance].config_version == 2:
                job.end(instance)
    job.join("d")
    job.settle()
    workflow = job.workflow
    assert workflow is not None and workflow.state is W.ROLLED_BACK
    assert job.on == dict.fromkeys("abcd", "RUNNING") and set(job.versions()) == {1}


def test_a_new_constraint_asks_for_its_hosts() -> None:
    job = running("a", "b")
    job.update(daemon(command="watch closely"))
    job.settle()
    assert job.asked == 2
    job.cycle(ev.HostsMatched(JOB, 1, HostMatch(frozenset({"a"}))))
    job.settle()
    assert job.on == {"a": "RUNNING", "b": "RUNNING"}, "the hosts of an older config do not count"


def test_restart_stop_and_start_in_batches() -> None:
    job = running("a", "b", "c")
    job.begin(WorkflowType.RESTART, batch_size=1)
    job.settle()
    assert [task.run for task in job.tasks.values()] == [2, 2, 2]
    job.begin(WorkflowType.STOP, batch_size=1)
    job.settle()
    assert job.states() == ["KILLED"] * 3 and job.runtime.goal is JobState.KILLED
    job.join("d")
    job.begin(WorkflowType.START, batch_size=1)
    job.settle()
    assert job.on == dict.fromkeys("abcd", "RUNNING")


def test_many_hosts_are_taken_a_share_at_a_time() -> None:
    job = DaemonJob(hosts={f"h{i}" for i in range(50)}, limits=Limits(rows_per_cycle=7))
    job.cycle()
    job.act()
    assert len(job.tasks) == 7
    job.settle()
    assert len(job.tasks) == 50 and set(job.states()) == {"RUNNING"}
    job.leave(*[f"h{i}" for i in range(45)], lost=False)
    job.settle()
    assert len(job.tasks) == 5
