"""What becomes of the members of a bound gang, one case at a time. The property tests draw the order."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state.instructions import Enqueue, Kill
from jobmgr.core.task.gang import STEPS, Member, Stage, gang_of, restart_of
from peloton.model.ids import Run
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState, TerminationReason
from peloton.model.task import TaskRuntime, TaskStatus, Termination
from peloton.model.workload import Framework, GangPolicy, JobWorkload
from tests.unit.jobmgr_core.specs import JOB, spec
from tests.unit.jobmgr_core.test_interrupted_leaders import WALL, Leader

S = TaskState
MEMBERS = 3


def row(state: TaskState = S.RUNNING, **changes: object) -> TaskRuntime:
    plain = TaskRuntime(state, S.SUCCEEDED, 1, 1, 1, 1, host="h", agent_id="a", start_time=WALL)
    return replace(plain, **changes)  # type: ignore[arg-type]


def made(policy: GangPolicy = GangPolicy.RESTART_GANG, max_failures: int = 5) -> JobSpec:
    plain = spec(MEMBERS, max_failures=max_failures, minimumRunningInstances=MEMBERS)
    return replace(plain, workload=JobWorkload(gang_policy=policy))


def leader(*rows: TaskRuntime, policy: GangPolicy = GangPolicy.RESTART_GANG) -> Leader:
    runtime = JobRuntime(JobState.RUNNING, JobState.SUCCEEDED, 1, WALL)
    return Leader(made(policy), runtime, dict(enumerate(rows)))


def ends(instance: int, state: TaskState = S.FAILED, run: int = 1) -> ev.Statuses:
    message = "Command exited with status 3" if state is S.FAILED else ""
    status = TaskStatus("", state, WALL, message=message, uuid=b"1")
    return ev.Statuses([(Run(JOB, instance, run), status)])


@pytest.mark.parametrize(
    ("workload", "binds"),
    [
        (JobWorkload(), False),
        (JobWorkload(Framework.TORCH), True),
        (JobWorkload(rendezvous=True), False),
        (JobWorkload(Framework.TORCH, gang_policy=GangPolicy.RESTART_MEMBER), False),
        (JobWorkload(gang_policy=GangPolicy.RESTART_GANG), True),
        (JobWorkload(gang_policy=GangPolicy.FAIL), True),
    ],
)
def test_a_framework_binds_its_gang_unless_the_job_says_otherwise(workload: JobWorkload, binds: bool) -> None:
    made = replace(spec(MEMBERS, minimumRunningInstances=MEMBERS), workload=workload)
    assert made.bound_members == (MEMBERS if binds else 0)


def test_every_gang_has_a_step_for_each_member() -> None:
    kinds = [
        row(),
        row(S.INITIALIZED),
        row(S.INITIALIZED, run=2, desired_run=2),
        row(S.PENDING, desired_run=2),
        row(S.KILLING, desired_run=2),
        row(S.KILLING, goal=S.KILLED),
        row(S.KILLING, goal=S.PREEMPTING),
        row(S.KILLED, goal=S.KILLED),
        row(S.FAILED),
        row(S.FAILED, desired_run=2),
        row(S.SUCCEEDED),
        row(S.SUCCEEDED, desired_run=2),
    ]
    seen = set()
    for goal, needed in product((JobState.SUCCEEDED, JobState.KILLED), (MEMBERS, 1)):
        for members in product(kinds, repeat=MEMBERS):
            gang = gang_of(goal, members, needed)
            seen |= {(gang.stage, member) for member in gang.members}
            assert all((gang.stage, member) in STEPS for member in gang.members), f"{members}: {gang}"
            if gang.stage is Stage.READY:
                assert gang.run > max(task.run for task in members if task.state is not S.INITIALIZED)
    assert seen == set(STEPS), f"in no gang: {set(STEPS) - seen}"


def test_a_failed_member_ends_the_others_and_all_are_queued_as_one_when_the_last_has_ended() -> None:
    held = leader(row(), row(), row(S.SUCCEEDED, completion_time=WALL))
    held.run_cycle()
    cycle = held.run_cycle(ends(1))
    (kill,) = [each for each in cycle.instructions if isinstance(each, Kill)]
    assert kill.runs == (Run(JOB, 0, 1),)
    killed = held.task(0)
    assert killed.message == "its gang runs again after instance 1, FAILED: Command exited with status 3"
    assert killed.termination == Termination(TerminationReason.KILLED_FOR_RESTART)
    assert (held.task(1).state, held.task(1).failure_count) == (S.FAILED, 1)
    found = restart_of(held.core.active.jobs[JOB].job)
    assert found is not None
    assert found.told() == (
        "gang restarts: waits for the end of instance 0, failure 1 of 5; instance 1, FAILED: Command exited "
        "with status 3"
    )
    cycle = held.run_cycle(ends(0, S.KILLED))
    (enqueue,) = [each for each in cycle.instructions if isinstance(each, Enqueue)]
    assert enqueue.gangs == (((0, 2), (1, 2), (2, 2)),)
    assert [held.task(instance).failure_count for instance in range(MEMBERS)] == [0, 1, 0]
    assert restart_of(held.core.active.jobs[JOB].job) is None


def test_a_gang_that_is_not_bound_goes_on_without_the_member() -> None:
    held = leader(row(), row(), row(), policy=GangPolicy.RESTART_MEMBER)
    held.run_cycle()
    cycle = held.run_cycle(ends(1))
    assert not [each for each in cycle.instructions if isinstance(each, Kill)]
    assert [held.task(instance).run for instance in range(MEMBERS)] == [1, 2, 1]


def test_after_its_last_failure_a_gang_ends_and_its_job_has_failed() -> None:
    held = leader(row(failure_count=3), row(failure_count=1), row())
    held.run_cycle()
    held.run_cycle(ends(1))
    assert [held.task(instance).state for instance in range(MEMBERS)] == [S.KILLING, S.FAILED, S.KILLING]
    assert held.task(0).message.startswith("its gang ends with instance 1, FAILED")
    job = held.core.active.jobs[JOB].job
    held.run_cycle(ends(0, S.KILLED), ends(2, S.KILLED))
    assert job.runtime.state is JobState.FAILED
    assert held.core.active.jobs == {}


def test_the_next_leader_ends_the_members_that_its_predecessor_did_not_come_to_store() -> None:
    held = leader(row(S.FAILED, desired_run=2, failure_count=1), row(), row())
    cycle = held.run_cycle(ends(2))
    (kill,) = [each for each in cycle.instructions if isinstance(each, Kill)]
    assert kill.runs == (Run(JOB, 1, 1),)
    assert held.task(2).failure_count == 0, "it ended with its gang"


def test_a_stopped_member_leaves_a_gang_that_waits() -> None:
    held = leader(row(S.FAILED, desired_run=2), row(S.KILLING, desired_run=2), row(S.KILLED, desired_run=2))
    held.run_cycle()
    held.run_cycle(ev.StopRequested(JOB, [0]))
    held.run_cycle(ends(1, S.KILLED))
    assert [(held.task(i).state, held.task(i).run) for i in range(MEMBERS)] == [
        (S.FAILED, 1),
        (S.INITIALIZED, 2),
        (S.INITIALIZED, 2),
    ]


def test_a_member_that_succeeds_while_it_is_killed_with_its_gang_runs_again_with_the_others() -> None:
    held = leader(row(S.FAILED, desired_run=2), row(), row())
    held.run_cycle()
    held.run_cycle(ends(1, S.SUCCEEDED))
    assert held.task(1).state is S.SUCCEEDED
    held.run_cycle(ends(2, S.KILLED))
    assert [held.task(instance).run for instance in range(MEMBERS)] == [2, 2, 2]


def test_members_wait_for_one_whose_launches_were_refused_again_and_again() -> None:
    held = leader(*(row(S.INITIALIZED, host="", start_time=0) for _ in range(MEMBERS)))
    held.run_cycle()
    in_flight = held.core.active.jobs[JOB]
    tries = held.core.active.actions.limits.refusals_at_once + 1
    for run in range(1, tries + 1):
        placed = ev.Placement("h", "a", "o", (), tuple(Run(JOB, i, run) for i in range(MEMBERS)))
        held.run_cycle(ev.Enqueued(JOB, [(i, run) for i in range(MEMBERS)]), ev.Placed([placed]))
        held.run_cycle(ev.LaunchRefused([Run(JOB, i, run) for i in range(MEMBERS)], "gone", faulty=False))
    assert {held.task(instance).run for instance in range(MEMBERS)} == {tries + 1}
    assert in_flight.first_ready() is None and len(in_flight.pending) == MEMBERS
    assert Member.JOINED in gang_of(JobState.SUCCEEDED, [held.task(i) for i in range(MEMBERS)]).members
