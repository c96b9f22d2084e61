"""Hosts that are held for instances which come back in place, and when they are released."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from peloton.model.states import JobState, TaskState
from peloton.model.workflow import WorkflowState, WorkflowType
from tests.unit.jobmgr_core.services import Service, running, service, state
from tests.unit.jobmgr_core.specs import JOB

S, T, A = TaskState, WorkflowType, ev.WorkflowAction


def all_of(it: Service) -> None:
    it.ask(ev.StopRequested(JOB, None))


def the_job(it: Service) -> None:
    it.ask(ev.JobGoalRequested(JOB, JobState.KILLED))


def deleted(it: Service) -> None:
    it.ask(ev.JobGoalRequested(JOB, JobState.DELETED))


def each_instance(it: Service) -> None:
    it.ask(ev.StopRequested(JOB, (0, 1, 2)))


def shrunk(it: Service) -> None:
    it.update(service(1, command="other"))
    it.cycle()
    it.cycle()
    it.ask(ev.StopRequested(JOB, (0,)))


def elsewhere(it: Service) -> None:
    """Another update, not in place: the instances may go anywhere."""
    it.update(service(command="other"))
    it.cycle()


ENDS: list[Callable[[Service], None]] = [all_of, the_job, deleted, each_instance, shrunk, elsewhere]


def under_way(in_place: bool = True, placed: bool = False) -> Service:
    """An update of a service whose instances have been killed for it, and are not placed again."""
    it = running()
    it.update(service(command="new"), in_place=in_place)
    it.cycle()
    it.cycle()
    assert set(it.held) == set() and [task.state for task in it.rows.values()] == [S.KILLING] * 3
    if placed:
        it.act()
        it.cycle()
        it.act()
        assert set(it.held) == ({0, 1, 2} if in_place else set())
        assert [task.state for task in it.rows.values()] == [S.PENDING] * 3
    return it


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("placed", [False, True])
def test_an_instance_that_does_not_come_back_releases_its_host(
    end: Callable[[Service], None], placed: bool
) -> None:
    it = under_way(placed=placed)
    end(it)
    it.cycle()
    it.act()
    assert it.held == {}


@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_released_where_nothing_was_held(end: Callable[[Service], None]) -> None:
    it = under_way(in_place=False, placed=True)
    end(it)
    it.cycle()
    assert not [each for each in it.todo if isinstance(each, ins.ReleaseHolds)]


def test_an_abort_that_leaves_instances_stopped_releases_their_hosts() -> None:
    it = under_way()
    it.act()
    it.steer(A.ABORT)
    assert it.held, "they are on their way back"
    it.ask(ev.StopRequested(JOB, (0, 1, 2)))
    it.settle()
    assert (state(it), it.held, it.states()) == (WorkflowState.ABORTED, {}, ["KILLED"] * 3)


def test_an_instance_that_comes_back_keeps_its_host_until_its_launch() -> None:
    it = under_way()
    assert not [each for each in it.todo if isinstance(each, ins.ReleaseHolds)]
    it.act()
    it.cycle()
    it.act()
    assert it.held == dict.fromkeys(range(3), "host")
    it.settle()
    assert (it.held, it.states()) == ({}, ["RUNNING"] * 3)


def test_a_refused_launch_releases_the_host() -> None:
    it = under_way(placed=True)
    it.place()
    (launch,) = [each for each in it.todo if isinstance(each, ins.Launch)]
    it.cycle(ev.LaunchRefused(launch.runs, "no such offer", False))
    it.todo = [each for each in it.todo if each is not launch]
    it.act()
    assert it.held == {}


@pytest.mark.parametrize(("host", "in_place"), [("host", False), ("other", True)])
def test_a_refused_launch_holds_nothing_for_an_instance_that_was_to_go_elsewhere(
    host: str, in_place: bool
) -> None:
    """The next update came between the launch and its refusal."""
    it = under_way(placed=True)
    it.host = host
    it.place()
    (launch,) = [each for each in it.todo if isinstance(each, ins.Launch)]
    it.todo.remove(launch)
    it.update(service(command="newer"), in_place=in_place)
    it.cycle()
    it.cycle()
    it.cycle(ev.LaunchRefused(launch.runs, "no such offer", False))
    it.act()
    assert it.held == {}


@pytest.mark.parametrize("placed", [False, True])
def test_a_second_update_in_place_keeps_the_host_of_instances_on_their_way_back(placed: bool) -> None:
    it = under_way(placed=placed)
    it.update(service(command="newer"), in_place=True)
    it.cycle()
    it.cycle()
    assert [task.desired_host for task in it.rows.values()] == ["host"] * 3
    assert not [each for each in it.todo if isinstance(each, ins.ReleaseHolds)]
    renewed = [each for each in it.todo if isinstance(each, ins.RenewHolds)]
    assert renewed == [ins.RenewHolds(JOB, ((0, "host"), (1, "host"), (2, "host")))]
    it.act()
    assert it.held == dict.fromkeys(range(3), "host")
    it.settle()
    assert (it.held, it.states(), it.versions()) == ({}, ["RUNNING"] * 3, [3] * 3)


def test_a_second_restart_in_place_keeps_the_host_too() -> None:
    it = under_way(placed=True)
    it.steer(A.ABORT)
    assert isinstance(it.begin(T.RESTART, in_place=True), str)
    it.cycle()
    it.cycle()
    assert [task.desired_host for task in it.rows.values()] == ["host"] * 3


@pytest.mark.parametrize("in_place", [False, True])
def test_an_instance_that_came_back_elsewhere_is_updated_on_its_present_host(in_place: bool) -> None:
    it = running()
    it.host = "other"
    it.update(service(command="new"), in_place=True)
    it.settle()
    assert {task.host for task in it.rows.values()} == {"other"}
    it.update(service(command="newer"), in_place=in_place)
    it.cycle()
    it.cycle()
    kills = [each for each in it.todo if isinstance(each, ins.Kill)]
    assert {host for kill in kills for _, host in kill.held} == ({"other"} if in_place else set())
