"""What the statuses that Mesos gives do to tasks."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from jobmgr.core.cache import UNBORN
from jobmgr.core.change import Change
from jobmgr.core.events import Statuses
from jobmgr.core.status import Verdict, health, judge
from peloton.model.ids import Run
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime, TaskStatus

if TYPE_CHECKING:
    from jobmgr.core.machine import Core, Turn

ORPHAN_KILLS = 3
MOST_ORPHANS = 10_000


class Orphans:
    """Runs that live though they were given up, with how often each was killed. The oldest are forgotten."""

    def __init__(self) -> None:
        self._kills: OrderedDict[Run, int] = OrderedDict()

    def alive(self, run: Run) -> bool:
        """One is heard of; whether it shall be killed (once more)."""
        kills = self._kills.get(run, 0)
        if kills >= ORPHAN_KILLS:
            return False
        self._kills[run] = kills + 1
        if len(self._kills) > MOST_ORPHANS:
            self._kills.popitem(last=False)
        return True

    def ended(self, run: Run) -> None:
        self._kills.pop(run, None)


def received(core: Core, turn: Turn, event: Statuses) -> None:
    for run, status in event.statuses:
        change = core.change(turn, run.job_id) if run.job_id in core.jobs else None
        task = UNBORN if change is None else change.task(run.instance)
        verdict = judge(task, run.run, status)
        if change is not None and run.run == task.run:
            change.work.unconfirmed.discard(run.instance)
        if verdict is Verdict.ORPHAN:
            if core.orphans.alive(run):
                turn.orphans.append(run)
        elif verdict is Verdict.STALE:
            if status.state.terminal:
                core.orphans.ended(run)
        elif change is not None:
            _apply(core, change, run.instance, task, status, verdict)


def _apply(
    core: Core, change: Change, instance: int, task: TaskRuntime, status: TaskStatus, verdict: Verdict
) -> None:
    if verdict is Verdict.END:
        core.steering.end(change, instance, status)
    elif verdict is Verdict.FORWARD:
        _forward(core, change, instance, task, status)
    elif verdict is Verdict.STARTED:
        change.move(instance, start_time=status.timestamp or core.steering.now.wall)
    elif verdict is Verdict.HEALTH and status.healthy is not None:
        change.move(instance, health=health(status.healthy), message=status.message, reason=status.reason)


def _forward(core: Core, change: Change, instance: int, task: TaskRuntime, status: TaskStatus) -> None:
    running = status.state is TaskState.RUNNING
    change.move(
        instance,
        state=status.state,
        agent_id=task.agent_id or status.agent_id,
        start_time=(status.timestamp or core.steering.now.wall) if running else task.start_time,
        message=status.message,
        reason=status.reason,
        health=task.health if status.healthy is None else health(status.healthy),
    )
    core.steering.evaluate(change, instance)
