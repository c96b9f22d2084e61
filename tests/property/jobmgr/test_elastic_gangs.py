"""An elastic gang has the members that it needs, grows into the room that there is, and ends as one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobmgr.core.state import events as ev
from jobmgr.core.state.limits import Limits
from peloton.model.ids import Run
from peloton.model.job import JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.workload import JobWorkload
from tests.property.jobmgr.simulation import Simulation
from tests.property.jobmgr.test_convergence import ENDS, INSTANCES, ORDINARY, ROUGH, Step, steps, take
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
NEEDED = 2
INTERVAL = 60
CHANGES = ("preempt", "drain", "room", "later")
REQUESTS = ("stop some", "start some", "restart some", "release", "grow")


def gang(max_failures: int = 100) -> JobSpec:
    made = spec(INSTANCES, max_failures=max_failures, minimumRunningInstances=NEEDED)
    return replace(made, workload=JobWorkload(growth_interval=INTERVAL))


@dataclass
class Room(Simulation):
    """A cluster with room for some runs. The members that the gang needs are placed all or none."""

    room: int = INSTANCES
    together: set[int] = field(default_factory=set)
    """Those of them that wait and have been placed together."""

    def place(self, ports: tuple[int, ...] = ()) -> None:
        """resmgr hands over what fits, the gang first."""
        left = self.room - len(self.alive) - self.handed_over
        core = [instance for instance in self.known if instance < NEEDED]
        extras = sorted(instance for instance in self.known if instance >= NEEDED)
        given = core if len(core) <= left else []
        given += extras[: max(left - len(given), 0)]
        runs = tuple(Run(JOB, instance, self.known.pop(instance)) for instance in given)
        if runs:
            self.inbox.append(ev.Placed([ev.Placement("host", "agent", "offer", ports, runs)]))

    @property
    def handed_over(self) -> int:
        """Runs that have been placed and are not in Mesos yet."""
        in_flight = self.core.active.jobs.get(JOB)
        gathered = [] if in_flight is None else in_flight.gathered
        return sum(len(each.runs) for each in gathered)


def step_on(simulation: Room, step: Step) -> None:
    """Take a step, and check the gang."""
    kind, at = step
    if kind in ("preempt", "drain"):
        some = [Run(JOB, *list(simulation.alive)[at % len(simulation.alive)])] if simulation.alive else []
        preempted = ev.Preempted([(run, "the pool is over") for run in some])
        simulation.inbox.append(preempted if kind == "preempt" else ev.Draining(some))
    elif kind == "room":
        simulation.room = at % (INSTANCES + 1)
    elif kind == "later":
        simulation.monotonic += INTERVAL
    elif kind == "release":
        simulation.inbox.append(ev.ReleaseRequested(JOB, [NEEDED + at % (INSTANCES - NEEDED)]))
    else:
        take(simulation, step)
    check(simulation)


def check(simulation: Room) -> None:
    """One round at a time, each begun with all the members that the gang needs."""
    assert len({run for _, run in simulation.alive}) <= 1, f"two rounds at once: {simulation.alive}"
    assert not simulation.twice


def begun_whole(simulation: Room) -> None:
    """Each round that had a member had, unless leaders fell in between, those that the gang needs."""
    for number in {run for _, run in simulation.launched}:
        of_round = {instance for instance, run in simulation.launched if run == number}
        assert set(range(NEEDED)) <= of_round, f"round {number} had {of_round}"


def settle(simulation: Room, room: int = INSTANCES) -> None:
    """Give room, and run until the job has ended; check each step."""
    simulation.room = room
    for _ in range(4000):
        if simulation.retired and not simulation.alive and not simulation.todo and not simulation.inbox:
            return
        simulation.advance()
        check(simulation)
    raise AssertionError(f"not over: {simulation.runtime.state.name} {simulation.rows} {simulation.known}")


@given(steps((*ROUGH, *CHANGES)), ENDS)
@settings(max_examples=200, deadline=None)
def test_an_elastic_gang_succeeds_whatever_comes_between(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState]
) -> None:
    simulation = Room(gang(), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation)
    assert simulation.runtime.state is JobState.SUCCEEDED
    assert all(simulation.rows[needed].state is S.SUCCEEDED for needed in range(NEEDED))
    last = simulation.rows[0].run
    for instance, task in simulation.rows.items():
        joined = (instance, last) in simulation.launched
        assert task.state is (S.SUCCEEDED if joined else S.KILLED), f"{instance}: {task}"
    failed = {run for (_, run), end in simulation.outcomes.items() if end is S.FAILED}
    assert sum(task.failure_count for task in simulation.rows.values()) <= len(failed)


@given(steps((*ORDINARY, *CHANGES)), st.integers(NEEDED, INSTANCES))
@settings(max_examples=100, deadline=None)
def test_rounds_begin_whole_and_changes_of_size_are_no_failures(order: list[Step], room: int) -> None:
    simulation = Room(gang(max_failures=0), {})
    for step in order:
        step_on(simulation, step)
    settle(simulation, room)
    begun_whole(simulation)
    assert simulation.runtime.state is JobState.SUCCEEDED
    assert not any(task.failure_count for task in simulation.rows.values())


@given(steps((*ROUGH, *CHANGES, *REQUESTS)), ENDS, st.integers(0, 3))
@example(order=[("stop some", 368), ("restart some", 369), ("stop some", 216)], outcomes={}, attempts=2)
@settings(max_examples=200, deadline=None)
def test_rounds_never_meet_whatever_is_asked(
    order: list[Step], outcomes: dict[tuple[int, int], TaskState], attempts: int
) -> None:
    simulation = Room(gang(attempts), outcomes)
    for step in order:
        step_on(simulation, step)
    settle(simulation, simulation.stored.instance_count)
    assert simulation.runtime.state.terminal
    assert all(task.state.terminal for task in simulation.tasks.values())


@given(st.integers(NEEDED, INSTANCES), st.integers(NEEDED, INSTANCES), st.integers(NEEDED, INSTANCES))
@settings(max_examples=30, deadline=None)
def test_a_gang_has_the_size_that_there_is_room_for(first: int, second: int, third: int) -> None:
    """It starts with what fits, grows an interval later, and shrinks where a host is drained."""
    simulation = Room(gang(), {}, limits=Limits())
    for at, room in enumerate((first, second, third)):
        simulation.room = room
        size = len(simulation.alive)
        if room < size:
            simulation.inbox.append(ev.Draining([Run(JOB, *max(simulation.alive))]))
        elif at:
            simulation.monotonic += INTERVAL
        expected = max(room, size) if room >= size else room
        calm(simulation)
        assert len(simulation.alive) == expected, f"{first} {second} {third}: {simulation.alive}"
    begun_whole(simulation)
    assert not any(task.failure_count for task in simulation.rows.values())


def calm(simulation: Room) -> None:
    """Let everything happen but the end of runs, and the time until the gang may grow."""
    for _ in range(60):
        while simulation.todo:
            simulation.act(0)
        for at, rest in enumerate(list(simulation.alive.values())):
            if len(rest) > 1:
                simulation.progress(at)
        simulation.place()
        simulation.monotonic += 0.2
        simulation.run_cycle()
        check(simulation)
