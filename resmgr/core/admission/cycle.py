"""Admission cycles over the pools' queues (docs/behaviour/pools.md, Admission)."""

from __future__ import annotations

from peloton.model.plural import plural
from peloton.model.shortage import Shortage
from resmgr.core.admission.checks import SHARED, FailedCheck, heads
from resmgr.core.entitlement.sharing import Sharing
from resmgr.core.state.entities import Gang
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.pending_reasons import Common
from resmgr.core.state.queues import GangQueue, PoolQueues, ReadyQueue
from resmgr.core.state.task_states import Event

_ADMIT = Event.ADMIT
_EXPLAIN_SECONDS, _EXPLAINED_AT_ONCE = 0.1, 200
"""How often, and for how many gangs at most, the reason of waiting behind others is set."""


class Admission:
    """Move gangs from the pools' queues to the ready queues, as far as entitlement allows."""

    def __init__(self, lifecycle: Lifecycle, sharing: Sharing) -> None:
        self._lifecycle = lifecycle
        self._sharing = sharing
        self._explained = 0.0
        """When gangs last got a reason for waiting."""
        self._explanations = 0
        """How many more gangs may get one now."""

    def admit(self, now: float) -> bool:
        """Run one cycle over all queues and return whether another one is due now.

        It is where this one ended before all queues were tried, or where the capacity is to be shared anew.
        """
        lifecycle, sharing, active = self._lifecycle, self._sharing, self._lifecycle.pending.active
        sharing.follow_demand(now)
        lifecycle.changed = False
        if now - self._explained >= _EXPLAIN_SECONDS:
            self._explained, self._explanations = now, _EXPLAINED_AT_ONCE
        if sharing.tree.capacity is None:
            for queues in active.values():
                self._explain(queues, Common.CAPACITY_UNKNOWN)
            return False
        budget = lifecycle.limits.cycle_limit
        for _ in range(len(active)):
            pool, queues = next(iter(active.items()))
            budget = self._admit_pool(queues, budget, now)
            lifecycle.pending.finish(pool)
            if budget <= 0:
                return bool(active)
        return sharing.demand_moved(now)

    def explain_again(self) -> None:
        """Set the reasons of all queued gangs anew: the capacity has become known."""
        for queues in self._lifecycle.pending.active.values():
            queues.unexplained.extend(gang for queue in queues.all for gang in queue)

    def _admit_pool(self, queues: PoolQueues, budget: int, now: float) -> int:
        """Return the rest of the budget."""
        for queue in queues.all:
            budget = self._admit_queue(queue, queues, budget, now)
            if budget <= 0:
                return 0
        self._explain(queues, None)
        return budget

    def _admit_queue(self, queue: GangQueue, queues: PoolQueues, budget: int, now: float) -> int:
        """Return the rest of the budget. A full ready queue ends the queue's cycle like a refused head."""
        lifecycle = self._lifecycle
        some_infeasible = len(lifecycle.infeasible) > 0
        for gang, refused in heads(queue, queues, lifecycle.limits.preemption):
            if refused is not None or some_infeasible:
                shortage = self._known_shortage(gang, refused)
                if shortage is not None:
                    lifecycle.set_aside(gang, shortage, now)
                    some_infeasible = True
                    budget -= 1
                    if budget <= 0:
                        break
                    continue
            if refused is not None:
                if refused.check in SHARED:
                    self._sharing.note_refusal()
                lifecycle.reasons.set_gang(gang, str(refused))
                continue
            ready = lifecycle.ready[gang.type]
            if len(ready) >= lifecycle.limits.ready_limit:
                lifecycle.reasons.set_gang(
                    gang, f"the {ready.name} is full with {plural(len(ready), 'gang')}"
                )
                break
            self._admit(gang, ready, now)
            budget -= 1
            if budget <= 0:
                break
        return budget

    def _known_shortage(self, gang: Gang, refused: FailedCheck | None) -> Shortage | None:
        """Return why no host could take the gang even once it is admitted, as far as that is known."""
        infeasible = self._lifecycle.infeasible
        if infeasible and (known := infeasible.shortage(gang.shape)) is not None:
            return known
        if refused is None or refused.check not in SHARED:
            return None
        return self._sharing.beyond_cluster(gang.charge)

    def _admit(self, gang: Gang, ready: ReadyQueue, now: float) -> None:
        lifecycle, pool = self._lifecycle, gang.pool
        assert gang.queue is not None
        gang.admitted_from = gang.queue.name
        gang.queue.remove(gang)
        if gang.deadline:
            lifecycle.deadlines.cancel(gang)
        pool.remove_demand(gang.charge)
        pool.charge(gang.charge)
        if gang.attempts.tries:
            gang.attempts = gang.attempts._replace(tries=0)
        pool.to_ready.add(now - gang.tasks[0].since)
        for task in gang.tasks:
            lifecycle.step(task, _ADMIT, now)
            if task.reason and not gang.attempts.returns:
                lifecycle.reasons.set(task, "")
        ready.add(gang)

    def _explain(self, queues: PoolQueues, reason: str | None) -> None:
        """Set why gangs that were queued here wait: `reason`; None: behind others."""
        reasons = self._lifecycle.reasons
        while queues.unexplained and self._explanations:
            gang = queues.unexplained.popleft()
            queue = gang.queue
            if not isinstance(queue, GangQueue):
                continue
            self._explanations -= 1
            if reason is not None:
                reasons.set_gang(gang, reason)
            elif not (known := gang.tasks[0].reason) or known is Common.CAPACITY_UNKNOWN:
                reasons.set_gang(gang, f"behind earlier gangs in queue {queue.name} of {gang.pool.path}")
