"""Lost runs that live: kept while nothing has replaced them, killed once their replacement is launched."""

from __future__ import annotations

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from peloton.model.ids import Run, mesos_task_id
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskStatus
from tests.unit.jobmgr_core.services import SECOND, Service, running, service
from tests.unit.jobmgr_core.specs import JOB

S = TaskState


def cut_off(it: Service, instance: int) -> TaskState:
    """The agent of an instance's run becomes unreachable: the run is LOST and lives. Return its state."""
    run = it.rows[instance].run
    state = it.alive.pop((instance, run))
    it.say(instance, run, S.LOST)
    return state


def come_back(it: Service, instance: int, run: int = 1) -> None:
    """The agent comes back with the run."""
    it.alive[instance, run] = S.RUNNING
    it.say(instance, run, S.RUNNING)


def lost(waits: bool) -> Service:
    """A service whose instance 1 was lost; its replacement waits in resmgr, or is still to be enqueued."""
    it = running()
    it.wait(100)
    cut_off(it, 1)
    if waits:
        it.act()
    assert (it.rows[1].run, it.rows[1].state) == (2, S.PENDING if waits else S.INITIALIZED)
    return it


def service_of_launched_runs() -> Service:
    """A service whose runs are launched, and have not said that they run."""
    it = Service(service())
    while not any(task.state is S.LAUNCHED for task in it.rows.values()):
        it.cycle()
        it.act()
        it.place()
    return it


@pytest.mark.parametrize("waits", [True, False])
def test_a_run_that_lives_is_kept_and_its_replacement_taken_back(waits: bool) -> None:
    it = lost(waits)
    before = it.rows[1]
    come_back(it, 1)
    it.settle()
    task = it.rows[1]
    assert (task.run, task.state, task.host, task.agent_id) == (1, S.RUNNING, "host", "agent")
    assert (task.desired_run, task.previous_run, task.goal) == (1, 0, S.RUNNING)
    assert task.message == "lives on: its agent came back before run 2 was launched"
    assert task.start_time < before.updated_at and not task.completion_time and task.termination is None
    assert (1, 1) in it.alive and not it.twice
    assert it.runtime.task_counts == {S.RUNNING: 3}


def test_resmgr_lets_go_of_the_replacement_before_the_run_is_kept_and_counts_it_then() -> None:
    it = lost(waits=True)
    come_back(it, 1)
    assert it.states()[1] == "PENDING"
    (withdraw,) = it.todo
    assert withdraw == ins.Withdraw(JOB, ((1, 2),))
    it.act()
    assert it.rows[1].state is S.RUNNING
    (enqueue,) = [each for each in it.todo if isinstance(each, ins.Enqueue)]
    assert enqueue.gangs == (((1, 1),),)
    it.todo.clear()
    it.cycle(ev.Enqueued(JOB, [(1, 1)]))
    assert ins.Settle(((Run(JOB, 1, 1), S.RUNNING),)) in it.todo
    assert it.rows[1].state is S.RUNNING


@pytest.mark.parametrize("skew", [-86_400, -30, 30, 86_400])
def test_the_start_of_a_kept_run_is_not_what_the_wrong_clock_of_its_agent_says(skew: int) -> None:
    it = service_of_launched_runs()
    run = Run(JOB, 1, 1)
    it.say(1, 1, S.LOST)
    it.act()
    said = TaskStatus(mesos_task_id(*run), S.RUNNING, it.wall + skew * SECOND, "agent", uuid=b"agent")
    it.cycle(ev.Statuses([(run, said)]))
    it.settle()
    task = it.rows[1]
    assert (task.run, task.state) == (1, S.RUNNING)
    assert abs(task.start_time - it.wall) <= 60 * SECOND
    assert (task.start_time == said.timestamp) is (abs(skew) == 30)


def test_what_a_kept_run_used_is_counted_once() -> None:
    it = lost(waits=True)
    assert it.rows[1].resource_usage
    come_back(it, 1)
    it.settle()
    assert not it.rows[1].resource_usage
    assert all(abs(amount) < 1e-6 for amount in it.runtime.resource_usage.values())


def test_the_next_run_of_a_kept_one_has_a_number_of_its_own() -> None:
    """That of the run that was taken back is not used again: its withdrawal may come once more, and late."""
    it = lost(waits=True)
    come_back(it, 1)
    it.settle()
    it.end(1)
    it.wait(31)
    it.settle()
    assert (it.rows[1].run, it.rows[1].state, it.twice) == (3, S.RUNNING, [])


def test_a_placement_that_comes_while_the_replacement_is_taken_back_is_released() -> None:
    it = lost(waits=True)
    come_back(it, 1)
    withdraw = [each for each in it.todo if isinstance(each, ins.Withdraw)]
    it.todo.clear()
    it.place()
    assert not [each for each in it.todo if isinstance(each, ins.Launch)]
    it.carry_out(withdraw[0])
    it.settle()
    assert (it.rows[1].run, it.rows[1].state, it.twice) == (1, S.RUNNING, [])


def test_a_run_that_comes_back_before_the_enqueueing_is_answered_is_kept() -> None:
    it = running()
    cut_off(it, 1)
    it.cycle()
    enqueue = [each for each in it.todo if isinstance(each, ins.Enqueue)]
    it.todo.clear()
    come_back(it, 1)
    it.queued[1] = 2
    it.place()
    assert not [each for each in it.todo if isinstance(each, ins.Launch)]
    for each in enqueue:
        it.carry_out(each)
    it.settle()
    assert (it.rows[1].run, it.rows[1].state, it.twice) == (1, S.RUNNING, [])


def test_where_the_replacement_is_launched_the_run_is_an_orphan() -> None:
    it = lost(waits=True)
    it.place()
    assert it.rows[1].state is S.LAUNCHED
    it.say(1, 1, S.RUNNING)
    assert [each.runs for each in it.todo if isinstance(each, ins.Kill)] == [(Run(JOB, 1, 1),)]
    it.settle()
    assert it.rows[1].run == 2


def test_the_next_leader_kills_it() -> None:
    it = lost(waits=True)
    it.fall()
    it.cycle()
    come_back(it, 1)
    it.settle()
    assert (it.rows[1].run, it.rows[1].state) == (2, S.RUNNING)
    assert (1, 1) not in it.alive


def test_a_run_that_ends_while_its_replacement_is_taken_back_is_followed_by_another_one() -> None:
    """A run that was withdrawn is not enqueued again: a withdrawal that comes late would take it out."""
    it = lost(waits=True)
    come_back(it, 1)
    assert [each for each in it.todo if isinstance(each, ins.Withdraw)]
    it.alive.pop((1, 1))
    it.say(1, 1, S.FAILED)
    it.settle()
    assert (it.rows[1].run, it.rows[1].state) == (3, S.RUNNING)


@pytest.mark.parametrize("falls", [False, True])
def test_an_instance_that_is_stopped_meanwhile_has_no_run(falls: bool) -> None:
    it = lost(waits=True)
    come_back(it, 1)
    it.ask(ev.StopRequested(JOB, [1]))
    if falls:
        it.fall()
        it.say(1, 1, S.RUNNING)
    it.settle()
    assert it.rows[1].state is S.KILLED
    assert not [key for key in it.alive if key[0] == 1]


def test_a_job_that_is_stopped_meanwhile_has_no_run() -> None:
    it = lost(waits=False)
    it.cycle()
    come_back(it, 1)
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))
    it.settle()
    assert (it.runtime.state, it.alive) == (JobState.KILLED, {})


def test_a_run_of_another_config_is_not_kept() -> None:
    it = lost(waits=True)
    it.update(service(command="new"))
    it.cycle()
    come_back(it, 1)
    it.settle()
    assert it.versions() == [2, 2, 2]
    assert sorted(it.alive) == [(0, 2), (1, it.rows[1].run), (2, 2)]


def test_a_run_that_was_to_be_restarted_is_not_kept() -> None:
    it = running()
    it.ask(ev.RestartRequested(JOB, [1]))
    it.todo.clear()
    cut_off(it, 1)
    come_back(it, 1)
    it.settle()
    assert (it.rows[1].run, sorted(key for key in it.alive if key[0] == 1)) == (2, [(1, 2)])
