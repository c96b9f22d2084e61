"""Carrying out preemption: a victim returns to its queue, or waits for jobmgr to end it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import replace

from peloton.model.ids import JobId, Run
from peloton.model.shard import shard_of
from peloton.model.states import TaskState
from resmgr.core.entitlement.sharing import Sharing
from resmgr.core.preemption.decide import Memory, Rules, pools_to_examine, prepare, remember
from resmgr.core.preemption.decide import steps as decided
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.snapshot import key_of, over, take_snapshot, with_candidates
from resmgr.core.preemption.sparing import ServiceLimits, unneeded
from resmgr.core.preemption.view import CROSS_POOL, ORDER, View
from resmgr.core.state.amounts import Charge, total_charge
from resmgr.core.state.cooperative import Steps
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.pool import Pool
from resmgr.core.state.task_states import Event

_S = TaskState
_NOT_TAKEN = frozenset({_S.PENDING, _S.PREEMPTING, _S.KILLING})


class Preemptor:
    """Choose victims, and keep the queue of tasks to be evicted. `now` is seconds on the monotonic clock."""

    def __init__(
        self, lifecycle: Lifecycle, sharing: Sharing, rules: Rules | None = None, limit: int = 10_000
    ) -> None:
        """Bound the tasks that wait to be taken by `limit`; at the limit no more are chosen."""
        self._lifecycle = lifecycle
        self._sharing = sharing
        self._rules = rules or Rules()
        self._limit = limit
        self._memory = Memory()
        self._checked: float | None = None
        """When the last check began; None before the first one."""
        self._queue: OrderedDict[Task, None] = OrderedDict()
        self._victims: dict[Task, Victim] = {}
        """Tasks that are PREEMPTING, waiting or taken, each with its reason."""
        self._limits = ServiceLimits()

    def __len__(self) -> int:
        """Return the number of tasks that wait to be taken."""
        return sum(1 for task in self._queue if task.state is _S.PREEMPTING) if self._queue else 0

    def steps(self, now: float) -> Steps[list[Victim]]:
        """Share the capacity anew, run one check and return the victims.

        See docs/behaviour/pools.md, Preemption.

        Other events may come between two steps. A check must end before the next one begins.
        """
        rules = self._rules
        self._checked = now
        self._limits.expire(now)
        self._forget_finished()
        before = set(self._victims)
        if not self.spare(now):
            self._sharing.entitle()
        spared = before - self._victims.keys()
        yield
        view = yield from take_snapshot(self._lifecycle, self._sharing.tree)
        view, self._memory = prepare(view, self._memory, rules, now)
        paths = pools_to_examine(view, rules)
        if paths:
            bars = self._limits.bars([task.job.id for task in self._victims], spared, now)
            view = yield from with_candidates(self._lifecycle.registry, view, paths, now, bars)
        done: list[Victim] = []
        for victim in decided(view, rules, now):
            if victim is None:
                yield
            elif tasks := self._unmoved_tasks(victim, now):
                if not self._preempt_gang(victim, tasks, now):
                    break
                done.append(victim)
        self._memory = remember(self._memory, rules, done, now)
        return done

    def plan(self, view: View, now: float) -> Steps[list[Victim]]:
        """Return the victims of checks on a view, if it stays as it is, and preempt nothing.

        Pools that are over their entitlement are taken as found so in enough checks.
        """
        rules = self._rules
        view, _ = prepare(view, self._memory, rules, now)
        view = View(tuple(replace(pool, strikes=max(pool.strikes, rules.strikes)) for pool in view.pools))
        paths = pools_to_examine(view, rules)
        if not paths:
            return []
        view = yield from with_candidates(self._lifecycle.registry, view, paths, now)
        found: list[Victim] = []
        for victim in decided(view, rules, now):
            if victim is None:
                yield
            else:
                found.append(victim)
        return found

    @property
    def strikes(self) -> int:
        """Return the checks after which tasks are preempted for other pools."""
        return self._rules.strikes

    def checks_left(self, pool: Pool) -> int | None:
        """Return how many more checks must find a pool over its entitlement, the one that preempts included.

        None where no policy of the pool lets its tasks be preempted for other pools.
        """
        rules = self._rules
        if CROSS_POOL not in rules.of(pool.path):
            return None
        return max(1, rules.strikes - self._memory.strikes.of(key_of(pool)))

    def time_of(self, checks: int) -> float:
        """Return when `checks` more checks have begun, on the monotonic clock; 0.0 before the first check."""
        return 0.0 if self._checked is None else self._checked + checks * self._rules.period

    def leaving(self, pool: Pool) -> int:
        """Return how many tasks of a pool are being preempted for other pools."""
        return sum(
            victim.lead is None and task.pool.part(task.needs.charge) is pool
            for task, victim in self._victims.items()
            if task.state is _S.PREEMPTING
        )

    def waits(self, shards: Collection[int] | None = None) -> bool:
        """Return whether a task waits to be taken, of jobs of some shards or of any."""
        queue = (task for task in self._queue if task.state is _S.PREEMPTING)
        return any(shards is None or shard_of(task.job.id) in shards for task in queue)

    def take(self, limit: int, shards: Collection[int] | None = None) -> list[Task]:
        """Return up to `limit` tasks that must be ended, first come first served; of some shards or of all.

        Each is returned once. A task that is still PREEMPTING at its deadline is RUNNING again, and may be
        chosen again.
        """
        taken: list[Task] = []
        passed_over: list[Task] = []
        while self._queue and len(taken) < limit:
            task, _ = self._queue.popitem(last=False)
            if task.state is not _S.PREEMPTING:
                continue
            ours = shards is None or shard_of(task.job.id) in shards
            (taken if ours else passed_over).append(task)
        self.give_back(passed_over)
        return taken

    def give_back(self, tasks: list[Task]) -> None:
        """Queue tasks again that were taken in an answer that did not reach its caller."""
        for task in reversed(tasks):
            if task.state is _S.PREEMPTING:
                self._queue[task] = None
                self._queue.move_to_end(task, last=False)

    def spare(self, now: float) -> int:
        """Spare the victims that are not needed any more; return how many tasks were victims before.

        Shares the capacity anew where there are any.
        """
        self._forget_finished()
        count = len(self._victims)
        if not count:
            return 0
        self._sharing.entitle()
        gangs: dict[Pool, dict[int, list[Task]]] = {}
        for task, victim in self._victims.items():
            gangs.setdefault(task.pool.part(task.needs.charge), {}).setdefault(id(victim), []).append(task)
        for pool, of_pool in gangs.items():
            whole = [tasks for tasks in of_pool.values() if self._may_stay(self._victims[tasks[0]])]
            charges = [total_charge([task.needs.charge for task in tasks]) for tasks in whole]
            for at in unneeded(pool, charges, self._waiting(of_pool.values())):
                for task in whole[at]:
                    self._spare(task, now)
        return count

    def keep(self, runs: Iterable[Run], now: float) -> int:
        """Spare victims that stay because of the SLA of their services; return how many did.

        For a while none of these services has to give way, and then only as many tasks at a time as they let
        go now.
        """
        jobs: set[JobId] = set()
        kept = 0
        for run in runs:
            task = self._lifecycle.registry.find(run)
            if task is not None and task.state is _S.PREEMPTING:
                self._spare(task, now)
                jobs.add(task.job.id)
                kept += 1
        for job_id in jobs:
            let_go = sum(task.job.id == job_id for task in self._victims if task.state is _S.PREEMPTING)
            self._limits.note(job_id, let_go, now)
        return kept

    def _may_stay(self, victim: Victim) -> bool:
        """Return whether no member of a gang has ended or is being killed."""
        tasks = [self._lifecycle.registry.find(run) for run in victim.runs]
        return all(task is not None and task.state is not _S.KILLING for task in tasks)

    def _waiting(self, gangs: Iterable[list[Task]]) -> list[Charge]:
        """Return what the gangs take for which victims of their pool were chosen, if they still wait."""
        leads = {self._victims[tasks[0]].lead for tasks in gangs}
        tasks = [self._lifecycle.registry.find(lead) for lead in leads if lead is not None]
        waiting = [task for task in tasks if task is not None and task.state is _S.PENDING]
        return [task.needs.charge if task.gang is None else task.gang.charge for task in waiting]

    def _spare(self, task: Task, now: float) -> None:
        self._lifecycle.step(task, Event.SPARE, now)
        self._lifecycle.deadlines.cancel(task)
        self._lifecycle.reasons.set(task, "")
        self._victims.pop(task, None)
        self._queue.pop(task, None)

    def why(self, run: Run) -> Victim | None:
        """Return why a run is being preempted; None where it is not."""
        task = self._lifecycle.registry.find(run)
        if task is None or task.state is not _S.PREEMPTING:
            return None
        return self._victims.get(task)

    def _unmoved_tasks(self, victim: Victim, now: float) -> list[Task]:
        """Return the victim's tasks.

        Return none where one of them has moved since the check began, or where its pool is not over its
        entitlement any more.
        """
        tasks: list[Task] = []
        for run in victim.runs:
            task = self._lifecycle.registry.find(run)
            if task is None or task.orphan or task.state not in ORDER or task.since > now:
                return []
            tasks.append(task)
        if victim.policy == CROSS_POOL and not over(tasks[0].pool.part(tasks[0].needs.charge)):
            return []
        return tasks if _whole_gang(tasks) else []

    def _preempt_gang(self, victim: Victim, tasks: list[Task], now: float) -> bool:
        """Return whether there was room for it in the queue."""
        running = [task for task in tasks if task.state is _S.RUNNING]
        if len(self._queue) + len(running) > self._limit:
            return False
        gangs: dict[Gang, None] = {task.gang: None for task in tasks if task.gang is not None}
        for gang in gangs:
            self._lifecycle.reasons.set_gang(gang, victim.reason)
            self._lifecycle.send_back(gang, now)
        for task in running:
            self._preempt(task, victim, now)
        return True

    def _preempt(self, task: Task, victim: Victim, now: float) -> None:
        lifecycle = self._lifecycle
        lifecycle.step(task, Event.PREEMPT, now)
        lifecycle.deadlines.set(task, now + lifecycle.limits.preempting)
        lifecycle.reasons.set(task, victim.reason)
        self._victims[task] = victim
        self._queue[task] = None

    def _forget_finished(self) -> None:
        """Forget victims that ended or were spared."""
        self._victims = {
            task: victim for task, victim in self._victims.items() if task.state is _S.PREEMPTING
        }
        for task in [task for task in self._queue if task not in self._victims]:
            del self._queue[task]


def _whole_gang(tasks: list[Task]) -> bool:
    """Return whether no other member of their gang holds an allocation that it keeps."""
    job = tasks[0].job
    number = job.gangs.get(tasks[0].instance)
    if number is None:
        return True
    members = [job.tasks.get(instance) for instance, of in job.gangs.items() if of == number]
    return all(task is None or task in tasks or task.state in _NOT_TAKEN for task in members)
