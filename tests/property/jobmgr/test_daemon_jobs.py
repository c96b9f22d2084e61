"""A daemon job in the core, whatever comes: in the end each host has one instance, which runs there."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from peloton.model.states import JobState, TaskState
from tests.property.jobmgr import invariants
from tests.unit.jobmgr_core.daemons import DaemonJob, daemon
from tests.unit.jobmgr_core.specs import JOB

HOSTS = [f"host-{number}" for number in range(6)]
OF_JOB = ["fail", "update", "stop", "start", "fall", "step", "restart", "wait"]
STEPS = st.one_of(
    st.tuples(st.sampled_from(["join", "leave", "withdraw", "disconnect"]), st.sampled_from(HOSTS)),
    st.tuples(st.sampled_from(OF_JOB), st.just("")),
)


def apply(job: DaemonJob, kind: str, host: str) -> None:
    if kind == "join":
        job.disconnected.discard(host)
        job.join(host)
    elif kind in ("leave", "withdraw"):
        job.disconnected.discard(host)
        job.leave(host, lost=kind == "leave")
    elif kind == "disconnect":
        job.disconnected.add(host)
        job.leave(host)
    elif kind == "fail" and job.alive:
        instance, _ = min(job.alive)
        job.end(instance)
    elif kind == "update":
        job.update(daemon(command=f"watch {len(job.specs)}"), batch_size=2)
    elif kind in ("stop", "start"):
        goal = JobState.KILLED if kind == "stop" else JobState.RUNNING
        job.ask(ev.JobGoalRequested(JOB, goal, None))
    elif kind == "restart":
        job.ask(ev.RestartRequested(JOB, None))
    elif kind == "fall":
        job.fall()
    elif kind == "wait":
        job.wait(40)
    else:
        job.step()


def check(job: DaemonJob) -> None:
    """What holds after every step."""
    invariants.check(job.core.active)
    assert not job.twice, "an instance runs once at a time"
    wanted = [task.desired_host for task in job.tasks.values() if task.goal is not TaskState.DELETED]
    assert len(set(wanted)) == len(wanted), "no host has two instances"
    assert all(wanted), "each is for a host"
    for task in job.tasks.values():
        assert task.host in ("", task.desired_host), "and runs there"
    assert job.runtime.task_counts == {} or sum(job.runtime.task_counts.values()) == len(job.tasks)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=30))
def test_it_converges(steps: list[tuple[str, str]]) -> None:
    job = DaemonJob(hosts={HOSTS[0], HOSTS[1]})
    for kind, host in steps:
        apply(job, kind, host)
        check(job)
    job.disconnected.clear()
    job.ask(ev.JobGoalRequested(JOB, JobState.RUNNING, None))
    job.follow()
    for _ in range(8):
        job.settle()
        check(job)
        job.wait(4000)  # throttled instances run again
    job.settle()
    assert job.on == dict.fromkeys(job.hosts, "RUNNING")
    assert set(job.versions()) <= {job.runtime.config_version}
    assert {instance for instance, _ in job.alive} == set(job.tasks)
