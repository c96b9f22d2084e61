"""Preempts in the scheduler: who gives way goes back to its queue, or waits for jobmgr to end it."""

from __future__ import annotations

from collections import OrderedDict

from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.picture import picture, with_candidates
from resmgr.core.preemption.decide import Memory, Rules, concerned, decide, prepare
from resmgr.core.preemption.policy import Victim
from resmgr.core.scheduler import Scheduler
from resmgr.core.tasks import Event, Gang, Task

_S = TaskState


class Preemptor:
    """One scheduler's. `now` is seconds on the monotonic clock."""

    def __init__(self, scheduler: Scheduler, rules: Rules | None = None, limit: int = 10_000) -> None:
        """`limit`: tasks that wait to be taken at most; while there are so many no more are chosen."""
        self._scheduler = scheduler
        self._rules = rules or Rules()
        self._limit = limit
        self._memory = Memory()
        self._queue: OrderedDict[Task, None] = OrderedDict()
        self._victims: dict[Task, Victim] = {}
        """Tasks that are PREEMPTING, waiting or taken, and why."""

    def __len__(self) -> int:
        """Tasks that wait to be taken."""
        return sum(1 for task in self._queue if task.state is _S.PREEMPTING)

    def check(self, now: float) -> list[Victim]:
        """One check (behaviour 7.5), after sharing the capacity anew. Returns who gave way."""
        scheduler, rules = self._scheduler, self._rules
        self._forget_settled()
        scheduler.entitle()
        view = picture(scheduler, scheduler.tree)
        view, self._memory = prepare(view, self._memory, rules, now)
        paths = concerned(view, rules)
        if paths:
            view = with_candidates(scheduler, view, paths)
        victims, self._memory = decide(view, self._memory, rules, now)
        done: list[Victim] = []
        for victim in victims:
            if not self._give_way(victim, now):
                break
            done.append(victim)
        return done

    def take(self, limit: int) -> list[Task]:
        """Up to `limit` tasks that are to be ended, first come first served. Each is given once; one that is
        still PREEMPTING when its time is over is RUNNING again, and may be chosen again."""
        taken: list[Task] = []
        while self._queue and len(taken) < limit:
            task, _ = self._queue.popitem(last=False)
            if task.state is _S.PREEMPTING:
                taken.append(task)
        return taken

    def give_back(self, tasks: list[Task]) -> None:
        """They were taken, but whoever asked does not know."""
        for task in reversed(tasks):
            if task.state is _S.PREEMPTING:
                self._queue[task] = None
                self._queue.move_to_end(task, last=False)

    def why(self, run: Run) -> Victim | None:
        """Why a run is being preempted; None where it is not."""
        task = self._scheduler.registry.find(run)
        if task is None or task.state is not _S.PREEMPTING:
            return None
        return self._victims.get(task)

    def _give_way(self, victim: Victim, now: float) -> bool:
        """Whether there was room for it in the queue."""
        tasks = [task for run in victim.runs if (task := self._scheduler.registry.find(run)) is not None]
        running = [task for task in tasks if task.state is _S.RUNNING]
        if len(self._queue) + len(running) > self._limit:
            return False
        gangs: dict[Gang, None] = {task.gang: None for task in tasks if task.gang is not None}
        for gang in gangs:
            self._scheduler.give_reason(gang, victim.reason)
            self._scheduler.send_back(gang, now)
        for task in running:
            self._preempt(task, victim, now)
        return True

    def _preempt(self, task: Task, victim: Victim, now: float) -> None:
        scheduler = self._scheduler
        scheduler.step(task, Event.PREEMPT, now)
        scheduler.deadlines.set(task, now + scheduler.policy.preempting)
        scheduler.reasons.set(task, victim.reason)
        self._victims[task] = victim
        self._queue[task] = None

    def _forget_settled(self) -> None:
        """Those that ended, or were spared."""
        self._victims = {
            task: victim for task, victim in self._victims.items() if task.state is _S.PREEMPTING
        }
        for task in [task for task in self._queue if task not in self._victims]:
            del self._queue[task]
