"""Instances that are added and released again and again leave nothing in the core."""

from __future__ import annotations

from jobmgr.core.cycle import Core
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.state.decisions import Cycle
from peloton.model.ids import Run, mesos_task_id
from peloton.model.job import JobRuntime
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskStatus
from tests.reachable import reachable
from tests.unit.jobmgr_core.specs import JOB, spec

S = TaskState
INSTANCES = 20
SECOND = 1_000_000_000


class Churn:
    """A job whose instances beyond the first are released and added in rounds, over a cluster that obeys."""

    def __init__(self) -> None:
        self.core = Core()
        self._at = 0
        self.core.active.create(
            JOB, spec(INSTANCES), JobRuntime(JobState.INITIALIZED, JobState.SUCCEEDED, 1, 1)
        )
        self._obey(self._cycle())

    def rounds(self, count: int) -> None:
        for _ in range(count):
            self._obey(self._cycle(ev.ReleaseRequested(JOB, range(1, INSTANCES))))
            assert len(self.core.active.jobs[JOB].job.free) == INSTANCES - 1
            self._obey(self._cycle(ev.ReuseRequested(JOB, INSTANCES, INSTANCES)))
            assert self.core.active.jobs[JOB].job.counts == {S.RUNNING: INSTANCES}

    def _cycle(self, *events: ev.Event) -> Cycle:
        self._at += 1
        cycle = self.core.run_cycle(
            events, ev.Now(1_700_000_000 * SECOND + self._at * SECOND, float(self._at))
        )
        self.core.commit(cycle)
        return cycle

    def _obey(self, cycle: Cycle) -> None:
        """Carry out instructions, and those that follow from their ends."""
        answers = [answer for each in cycle.instructions for answer in _answers(each)]
        if answers:
            self._obey(self._cycle(*answers))


def _answers(instruction: ins.Instruction) -> list[ev.Event]:
    if isinstance(instruction, ins.Enqueue):
        runs = [run for gang in instruction.gangs for run in gang]
        placed = tuple(Run(JOB, *run) for run in runs)
        placement = ev.Placement("host", "agent", f"offer {placed}", (), placed)
        return [ev.Enqueued(JOB, runs), ev.Placed([placement])]
    if isinstance(instruction, ins.Launch):
        return [ev.Launched(instruction.runs), _statuses(instruction.runs, S.STARTING, S.RUNNING)]
    if isinstance(instruction, ins.Kill):
        return [_statuses(instruction.runs, S.KILLED)]
    return []


def _statuses(runs: tuple[Run, ...], *states: TaskState) -> ev.Statuses:
    told = [(run, TaskStatus(mesos_task_id(*run), state, 1, uuid=b"1")) for run in runs for state in states]
    return ev.Statuses(told)


def test_released_instances_leave_nothing() -> None:
    churn = Churn()
    churn.rounds(10)
    before = reachable(churn.core)
    churn.rounds(100)
    grown = reachable(churn.core) - before
    assert grown <= INSTANCES, f"{grown} objects more after {100 * (INSTANCES - 1)} runs"
