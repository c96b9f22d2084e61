"""Preempts in the scheduler: who gives way goes back to its queue, or waits for jobmgr to end it."""

from __future__ import annotations

from collections import OrderedDict

from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.cooperative import Steps
from resmgr.core.preemption.decide import Memory, Rules, concerned, prepare, settled
from resmgr.core.preemption.decide import steps as decided
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.snapshot import over, picture, with_candidates
from resmgr.core.preemption.view import BETWEEN, ORDER
from resmgr.core.scheduler import Scheduler
from resmgr.core.tasks import Event, Gang, Task

_S = TaskState
_NOT_TAKEN = frozenset({_S.PENDING, _S.PREEMPTING, _S.KILLING})


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

    def steps(self, now: float) -> Steps[list[Victim]]:
        """One check (behaviour 7.5), after sharing the capacity anew; who gave way. Other events may come
        between two steps. A check is to be over before the next one begins."""
        scheduler, rules = self._scheduler, self._rules
        self._forget_settled()
        scheduler.entitle()
        yield
        view = yield from picture(scheduler)
        view, self._memory = prepare(view, self._memory, rules, now)
        paths = concerned(view, rules)
        if paths:
            view = yield from with_candidates(scheduler, view, paths, now)
        done: list[Victim] = []
        for victim in decided(view, rules, now):
            if victim is None:
                yield
            elif tasks := self._still_there(victim, now):
                if not self._give_way(victim, tasks, now):
                    break
                done.append(victim)
        self._memory = settled(self._memory, rules, done, now)
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

    def _still_there(self, victim: Victim, now: float) -> list[Task]:
        """Its tasks; none where one of them has moved since the check began, or its pool is not over its
        entitlement any more."""
        tasks: list[Task] = []
        for run in victim.runs:
            task = self._scheduler.registry.find(run)
            if task is None or task.orphan or task.state not in ORDER or task.since > now:
                return []
            tasks.append(task)
        if victim.policy == BETWEEN and not over(tasks[0].pool):
            return []
        return tasks if _whole_gang(tasks) else []

    def _give_way(self, victim: Victim, tasks: list[Task], now: float) -> bool:
        """Whether there was room for it in the queue."""
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


def _whole_gang(tasks: list[Task]) -> bool:
    """Whether no other member of their gang holds an allocation, but what is on its way out."""
    job = tasks[0].job
    number = job.gangs.get(tasks[0].instance)
    if number is None:
        return True
    members = [job.tasks.get(instance) for instance, of in job.gangs.items() if of == number]
    return all(task is None or task in tasks or task.state in _NOT_TAKEN for task in members)
