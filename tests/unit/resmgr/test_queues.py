from __future__ import annotations

import pytest

from peloton.model.states import TaskState
from resmgr.core.state.deadlines import Deadlines
from resmgr.core.state.entities import Gang, JobTasks, Task
from resmgr.core.state.queues import GangQueue, ReadyQueue
from resmgr.core.state.task_states import BEFORE_LAUNCH, ON_HOST, STATES, Event
from tests.unit.resmgr.world import World, needs

POOL = World().pool()


def gang(name: int, priority: int = 0) -> Gang:
    task = Task(JobTasks("j"), name, 1, needs(priority=priority), POOL, TaskState.PENDING, 0.0)
    return Gang(POOL, (task,))


def names(queue: GangQueue | ReadyQueue) -> list[int]:
    return [each.tasks[0].instance for each in queue]


def test_high_priority_first_then_first_in_first_out() -> None:
    queue = GangQueue("q")
    for name, priority in enumerate([0, 5, 0, 9, 5]):
        queue.add(gang(name, priority))
    assert names(queue) == [3, 1, 4, 0, 2]
    assert queue.head() is next(iter(queue))
    assert len(queue) == 5


def test_removal_from_the_middle_keeps_the_order() -> None:
    queue = GangQueue("q")
    gangs = [gang(name) for name in range(5)]
    for each in gangs:
        queue.add(each)
    queue.remove(gangs[2])
    queue.remove(gangs[0])
    assert names(queue) == [1, 3, 4]
    with pytest.raises(KeyError):
        queue.remove(gangs[0])
    queue.add(gangs[0])
    assert names(queue) == [1, 3, 4, 0]
    with pytest.raises(ValueError, match="in queue q already"):
        queue.add(gangs[0])


def test_an_emptied_queue_has_no_head() -> None:
    queue, only = GangQueue("q"), gang(0, 7)
    queue.add(only)
    queue.remove(only)
    assert queue.head() is None
    assert len(queue) == 0
    assert names(queue) == []


def test_the_ready_queue_is_first_in_first_out_whatever_the_priority() -> None:
    queue = ReadyQueue("r")
    gangs = [gang(0), gang(1, 9), gang(2)]
    for each in gangs:
        queue.add(each)
    queue.remove(gangs[1])
    assert queue.pop() is gangs[0]
    assert gangs[0].queue is None
    assert names(queue) == [2]


def test_deadlines_come_in_order_and_may_be_moved_and_cancelled() -> None:
    deadlines, subjects = Deadlines(), [gang(name) for name in range(4)]
    for i, each in enumerate(subjects):
        deadlines.set(each, 10.0 + i)
    deadlines.set(subjects[0], 20.0)
    deadlines.cancel(subjects[2])
    deadlines.cancel(subjects[2])
    assert len(deadlines) == 3
    assert deadlines.next() == 11.0
    assert deadlines.due(10.5, 10) == []
    assert deadlines.due(20.0, 10) == [subjects[1], subjects[3], subjects[0]]
    assert deadlines.next() is None
    assert len(deadlines) == 0


def test_stale_deadlines_do_not_pile_up() -> None:
    deadlines, only = Deadlines(), gang(0)
    for i in range(100_000):
        deadlines.set(only, 1.0 + i)
    assert len(deadlines._times) == len(deadlines._at) < 5000
    for _ in range(100_000):
        deadlines.set(only, 7.0)
    assert sum(map(len, deadlines._at.values())) < 5000
    assert deadlines.due(1e6, 10) == [only]


def test_every_state_can_end_and_only_states_before_launch_go_back() -> None:
    for state in BEFORE_LAUNCH | ON_HOST:
        assert STATES.next(state, Event.END) is TaskState.DELETED
    for state in ON_HOST:
        assert not STATES.allows(state, Event.RETRY)
        assert not STATES.allows(state, Event.RETURN)


def test_the_way_of_a_task() -> None:
    state = TaskState.PENDING
    for event, then in [
        (Event.ADMIT, "READY"),
        (Event.DEQUEUE, "PLACING"),
        (Event.RESERVE, "RESERVED"),
        (Event.PLACE, "PLACED"),
        (Event.HAND_OVER, "LAUNCHING"),
        (Event.LAUNCHED, "LAUNCHED"),
        (Event.STARTING, "STARTING"),
        (Event.LAUNCHED, "STARTING"),
        (Event.RUNNING, "RUNNING"),
        (Event.PREEMPT, "PREEMPTING"),
        (Event.RUNNING, "PREEMPTING"),
        (Event.SPARE, "RUNNING"),
        (Event.KILL, "KILLING"),
        (Event.RUNNING, "KILLING"),
    ]:
        state = STATES.next(state, event)
        assert state.name == then


def test_a_gang_that_came_back_is_passed_by_so_many_others() -> None:
    queue = GangQueue("q")
    first, *others = [gang(name) for name in range(6)]
    queue.add_all(others[:3])
    queue.put_back(first, 2)
    assert names(queue) == [1, 2, 0, 3]
    queue.add_all(others[3:])
    assert (names(queue), len(queue)) == ([1, 2, 0, 3, 4, 5], 6)
    queue.remove(others[0])
    queue.remove(others[4])
    assert queue.head() is first, "two are gone, in whatever way"
    queue.remove(first)
    assert names(queue) == [2, 3, 4]


def test_gangs_that_came_back_keep_their_order_and_do_not_count_for_each_other() -> None:
    queue = GangQueue("q")
    early, late, later, *others = [gang(name) for name in range(5)]
    queue.add_all(others)
    queue.put_back(late, 2)
    queue.put_back(later, 2)
    queue.put_back(early, 1)
    assert names(queue) == [3, 0, 4, 1, 2]
    queue.remove(early)
    assert names(queue) == [3, 4, 1, 2]
    queue.hasten(later)
    assert names(queue) == [2, 3, 4, 1]
    queue.hasten(later)
    queue.hasten(others[0])
    queue.remove(later)
    for each in others:
        queue.remove(each)
    assert queue.head() is late, "no others are there"
    queue.remove(late)
    assert queue.head() is None


def test_gangs_of_higher_priority_pass_as_before() -> None:
    queue = GangQueue("q")
    queue.put_back(gang(0, 1), 0)
    queue.add(gang(1, 2))
    queue.add(gang(2, 1))
    assert names(queue) == [1, 0, 2]
