"""Placements that hold runs of several jobs, an elastic gang's among them: each run is launched once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.limits import Limits
from peloton.model.ids import JobId, Run, mesos_task_id
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskStatus
from peloton.model.workload import JobWorkload
from tests.property.jobmgr import invariants
from tests.unit.jobmgr_core.specs import spec

WALL, SECOND = 1_700_000_000_000_000_000, 1_000_000_000
NEEDED, MOST, GROWTH = 2, 4, 300
GANGS = [JobId(f"00000000-0000-0000-0000-0000000000e{number}") for number in range(2)]
OTHERS = [JobId(f"00000000-0000-0000-0000-0000000000a{number}") for number in range(2)]


def elastic() -> JobSpec:
    plain = spec(MOST, minimumRunningInstances=NEEDED)
    return replace(plain, workload=JobWorkload(growth_interval=GROWTH))


@dataclass
class Shared:
    """A leader whose cycles are stored at once, and a resmgr that places what it is asked to."""

    core: Core = field(default_factory=lambda: Core(Limits()))
    monotonic: float = 100.0
    waiting: list[Run] = field(default_factory=list)
    """Runs that resmgr holds, in the order in which they came."""
    launched: Counter[Run] = field(default_factory=Counter)
    answers: list[ev.Event] = field(default_factory=list)
    offers: int = 0

    def __post_init__(self) -> None:
        for job_id, made in [*((each, elastic()) for each in GANGS), *((each, spec(2)) for each in OTHERS)]:
            runtime = JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, WALL)
            self.core.active.create(job_id, made, runtime)
        self.run_until_quiet()

    def cycle(self, *events: ev.Event) -> None:
        answers, self.answers = self.answers, []
        now = ev.Now(WALL + round(self.monotonic * SECOND), self.monotonic)
        cycle = self.core.run_cycle([*answers, *events], now)
        self.core.commit(cycle)
        invariants.check(self.core.active)
        for each in cycle.instructions:
            self.carry_out(each)

    def carry_out(self, instruction: ins.Instruction) -> None:
        if isinstance(instruction, ins.Enqueue):
            runs = [run for gang in instruction.gangs for run in gang]
            new = [Run(instruction.job_id, *run) for run in runs]
            self.waiting += [run for run in new if run not in self.waiting]
            self.answers.append(ev.Enqueued(instruction.job_id, runs))
        elif isinstance(instruction, ins.Compare):
            runs = [(at, run) for first, end, run in instruction.spans for at in range(first, end)]
            missing = [run for run in runs if Run(instruction.job_id, *run) not in self.waiting]
            self.answers.append(ev.Compared(instruction.job_id, missing))
        elif isinstance(instruction, ins.Withdraw):
            gone = [Run(instruction.job_id, *run) for run in instruction.runs]
            self.waiting = [run for run in self.waiting if run not in gone]
            self.answers.append(ev.Withdrawn(instruction.job_id, instruction.runs))
        elif isinstance(instruction, ins.Launch):
            self.launched.update(instruction.runs)
            self.answers += [ev.Launched(instruction.runs), self.told(instruction.runs, TaskState.RUNNING)]
        elif isinstance(instruction, ins.Kill):
            self.answers.append(self.told(instruction.runs, TaskState.KILLED))

    def told(self, runs: Iterable[Run], state: TaskState) -> ev.Statuses:
        wall = WALL + round(self.monotonic * SECOND)
        return ev.Statuses([(run, TaskStatus(mesos_task_id(*run), state, wall)) for run in runs])

    def run_until_quiet(self, *events: ev.Event) -> None:
        self.cycle(*events)
        for _ in range(50):
            if not self.answers and (self.core.idle_until() or self.monotonic + 1) > self.monotonic:
                return
            self.cycle()
        raise AssertionError("the leader does not come to rest")

    def place(self, numbers: set[int], apart: bool) -> None:
        """Place waiting runs on one host, those of a gang's needed members together.

        `apart`: what follows is answered in a later cycle.
        """
        some = [self.waiting[number % len(self.waiting)] for number in numbers if self.waiting]
        needed = {run.job_id for run in some if run.job_id in GANGS and run.instance < NEEDED}
        some += [run for run in self.waiting if run.job_id in needed and run.instance < NEEDED]
        if runs := tuple(dict.fromkeys(some)):
            self.waiting = [run for run in self.waiting if run not in runs]
            self.offers += 1
            placement = ev.Placement(f"h{self.offers}", "a", f"offer{self.offers}", (), runs)
            (self.cycle if apart else self.run_until_quiet)(ev.Placed([placement]))

    def wait(self, seconds: float) -> None:
        self.monotonic += seconds
        self.run_until_quiet()


STEPS = st.one_of(
    st.tuples(st.sets(st.integers(0, 11), min_size=1, max_size=6), st.booleans()), st.just("wait")
)


@given(st.lists(STEPS, max_size=8))
@settings(max_examples=150, deadline=None)
def test_each_run_is_launched_once(order: list[tuple[set[int], bool] | str]) -> None:
    shared = Shared()
    for step in order:
        if isinstance(step, str):
            shared.wait(shared.core.active.actions.limits.gather_seconds)
        else:
            shared.place(*step)
    shared.run_until_quiet()
    for _ in range(20):
        for _ in range(3):  # those that gangs need, then the extras that follow them
            shared.place(set(range(12)), False)
        shared.wait(GROWTH)
    assert set(shared.launched.values()) == {1}
    first = {(run.job_id, run.instance) for run in shared.launched}
    assert first == {(each, at) for each in GANGS for at in range(MOST)} | {
        (each, at) for each in OTHERS for at in range(2)
    }
