"""What launches cost: turns, places, times, and the time-out of an executor's registration."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import agent_link
from minicluster.mesos.common.launch_costs import LaunchCosts, LaunchQueue, parse_seconds, too_late
from minicluster.mesos.common.status_updates import Key
from minicluster.mesos.master.core.simulated_agents import Simulation, SimulationConfig


def key(number: int) -> Key:
    return "framework", f"task-{number}"


def played(queue: LaunchQueue) -> tuple[dict[Key, float], dict[Key, float]]:
    """When each launch was done, and when each failed, each time asked as it is due."""
    done: dict[Key, float] = {}
    late: dict[Key, float] = {}
    while (when := queue.next_due()) is not None:
        for table, keys in zip((done, late), queue.due(when), strict=True):
            assert not set(keys) & (set(done) | set(late))
            table.update(dict.fromkeys(keys, when))
        for each in done:
            queue.drop(each)
    return done, late


def test_without_costs_a_launch_is_done_at_once() -> None:
    queue = LaunchQueue(LaunchCosts())
    queue.add(key(1), 5.0)
    assert queue.due(5.0) == ([key(1)], [])
    queue.drop(key(1))
    assert queue.next_due() is None


def test_a_launch_takes_a_time_drawn_from_its_seed() -> None:
    times = []
    for seed in (1, 1, 2):
        queue = LaunchQueue(LaunchCosts(seconds=(0.3, 3.0), seed=seed))
        for number in range(20):
            queue.add(key(number), 100.0)
        done, late = played(queue)
        assert not late and all(100.3 <= when <= 103.0 for when in done.values())
        times.append(done)
    assert times[0] == times[1] != times[2]
    assert len(set(times[0].values())) == 20


def test_executors_start_one_after_the_other() -> None:
    queue = LaunchQueue(LaunchCosts(starts_per_second=4))
    for number in range(5):
        queue.add(key(number), 10.0)
    done, _ = played(queue)
    assert list(done.values()) == [10.0, 10.25, 10.5, 10.75, 11.0]


def test_concurrent_launches_are_limited() -> None:
    queue = LaunchQueue(LaunchCosts(seconds=(1, 1), at_once=2))
    for number in range(5):
        queue.add(key(number), 0.0)
    done, _ = played(queue)
    assert list(done.values()) == [1.0, 1.0, 2.0, 2.0, 3.0]


def test_a_late_registration_fails_and_frees_its_slot() -> None:
    queue = LaunchQueue(LaunchCosts(starts_per_second=4, registration_timeout=2.0))
    for number in range(12):
        queue.add(key(number), 0.0)
    queue.add(key(12), 1.9)
    done, late = played(queue)
    assert [task for task, _ in done] == ["framework"] * 9
    assert set(late) == {key(number) for number in range(8, 12)}
    assert set(late.values()) == {2.0}
    assert done[key(12)] == 2.0


def test_a_launch_that_never_registers_fails() -> None:
    queue = LaunchQueue(LaunchCosts(registration_timeout=2.0))
    queue.add(key(1), 0.0)
    assert queue.due(0.0) == ([key(1)], [])
    assert queue.next_due() == 2.0
    assert queue.due(2.0) == ([], [key(1)])


def test_a_dropped_launch_leaves_its_place() -> None:
    queue = LaunchQueue(LaunchCosts(seconds=(1, 1), at_once=1))
    queue.add(key(1), 0.0)
    queue.add(key(2), 0.0)
    assert queue.due(0.0) == ([], [])
    queue.drop(key(1))
    assert not queue.holds_back(key(1)) and queue.holds_back(key(2))
    queue.due(0.5)
    assert queue.due(1.5) == ([key(2)], [])


@given(
    st.lists(st.floats(0, 20), max_size=30),
    st.sampled_from([0.0, 0.5, 4.0]),
    st.integers(0, 3),
    st.sampled_from([(0.0, 0.0), (0.1, 3.0)]),
)
def test_every_launch_is_either_done_or_late(
    asked: Sequence[float], rate: float, at_once: int, seconds: tuple[float, float]
) -> None:
    costs = LaunchCosts(seconds, rate, at_once, registration_timeout=5.0, seed=1)
    queue = LaunchQueue(costs)
    for number, when in enumerate(sorted(asked)):
        queue.add(key(number), when)
    done, late = played(queue)
    assert sorted([*done, *late]) == sorted(key(number) for number in range(len(asked)))
    for number, when in enumerate(sorted(asked)):
        if key(number) in done:
            assert when + seconds[0] - 1e-9 <= done[key(number)] < when + 5.0
        else:
            assert late[key(number)] == when + 5.0


@pytest.mark.parametrize("text", ["", "3-1", "-1", "a-b", "1-2-3", "nan"])
def test_malformed_times_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"should be MIN-MAX in seconds, such as 0\.3-3"):
        parse_seconds(text)


def test_times_are_read_as_they_are_written() -> None:
    assert parse_seconds("0.3-3") == (0.3, 3.0)
    assert parse_seconds("2") == (2.0, 2.0)


@pytest.mark.parametrize(("timeout", "text"), [(60, "1mins"), (2, "2secs"), (0.5, "500ms")])
def test_a_late_registration_has_the_message_of_mesos(timeout: float, text: str) -> None:
    assert too_late(timeout)[2] == f"Executor did not register within {text}"


def a_launch(name: str) -> agent_link.Launch:
    framework = mesos.FrameworkInfo(user="u", name="n")
    framework.id.value = "f"
    framework.capabilities.add(type=mesos.FrameworkInfo.Capability.TASK_KILLING_STATE)
    task = mesos.TaskInfo(name=name)
    task.task_id.value = name
    return agent_link.Launch(framework, task)


def told(simulation: Simulation, agent: str, now: float) -> list[mesos.TaskStatus]:
    """Return all statuses until now, each update acknowledged."""
    found: list[mesos.TaskStatus] = []
    answers = simulation.due(now)
    while answers:
        _, update = answers.pop(0)
        assert isinstance(update, agent_link.Update)
        found.append(update.status)
        acknowledgement = agent_link.Acknowledge("f", update.status.task_id.value, update.status.uuid)
        answers += simulation.handle(agent, acknowledgement, now)
    return found


def test_launch_costs_are_per_simulated_agent() -> None:
    costs = LaunchCosts(seconds=(1, 1), at_once=1)
    simulation = Simulation(SimulationConfig(2, {}, task_seconds=5.0, costs=costs))
    for agent, name in (("a", "a1"), ("a", "a2"), ("b", "b1")):
        assert simulation.handle(agent, a_launch(name), 0.0) == []
    assert simulation.next_due() == 1.0
    assert told(simulation, "a", 0.9) == []
    states = {(each.task_id.value, each.state) for each in told(simulation, "a", 1.0)}
    starting, running = mesos.TASK_STARTING, mesos.TASK_RUNNING
    assert states == {("a1", starting), ("a1", running), ("b1", starting), ("b1", running)}
    assert {each.task_id.value for each in told(simulation, "a", 2.0)} == {"a2"}
    ended = told(simulation, "a", 6.0)
    assert {each.task_id.value for each in ended} == {"a1", "b1"}
    assert {each.state for each in ended} == {mesos.TASK_FINISHED}


def test_a_simulated_launch_that_takes_too_long_fails() -> None:
    costs = LaunchCosts(seconds=(9, 9), registration_timeout=2)
    simulation = Simulation(SimulationConfig(1, {}, costs=costs))
    simulation.handle("a", a_launch("slow"), 0.0)
    [status] = told(simulation, "a", 2.0)
    assert status.state == mesos.TASK_FAILED
    assert status.reason == mesos.TaskStatus.REASON_EXECUTOR_REGISTRATION_TIMEOUT
    assert status.source == mesos.TaskStatus.SOURCE_AGENT
    assert simulation.next_due() is None or told(simulation, "a", 100.0) == []


def test_a_kill_before_a_simulated_launch_is_done_ends_it() -> None:
    simulation = Simulation(SimulationConfig(1, {}, costs=LaunchCosts(seconds=(5, 5))))
    simulation.handle("a", a_launch("one"), 0.0)
    [(_, update)] = simulation.handle("a", agent_link.Kill("f", "one", -1.0, False), 1.0)
    assert isinstance(update, agent_link.Update)
    assert update.status.state == mesos.TASK_KILLED
    assert update.status.reason == mesos.TaskStatus.REASON_TASK_KILLED_DURING_LAUNCH
    simulation.handle("a", agent_link.Acknowledge("f", "one", update.status.uuid), 1.0)
    assert told(simulation, "a", 60.0) == []


def test_a_removed_framework_launches_nothing() -> None:
    simulation = Simulation(SimulationConfig(1, {}, costs=LaunchCosts(seconds=(5, 5))))
    simulation.handle("a", a_launch("one"), 0.0)
    simulation.handle("a", agent_link.ShutdownFramework("f"), 1.0)
    assert told(simulation, "a", 60.0) == []
