"""Sharing the cluster among the pools, and turns of admission over their queues (behaviour 7.2 and 7.3)."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.model.pool import PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.shortage import Shortage
from resmgr.core.admission import checks
from resmgr.core.entitlement.tree import Loads, entitle, loads
from resmgr.core.infeasible import beyond_capacity
from resmgr.core.lifecycle import Lifecycle
from resmgr.core.policy import Policy
from resmgr.core.pools import Pool, PoolTree
from resmgr.core.queues import GangQueue, ReadyQueue
from resmgr.core.tasks import Event, Gang

CAPACITY_UNKNOWN = "cluster capacity unknown: host manager has not answered"
_EXPLAIN_SECONDS, _EXPLAINED_AT_ONCE = 0.1, 200
"""How often, and to how many gangs at most, it is said that they wait behind others."""


class Sharing(Lifecycle):
    """The tree of pools, what each may have, and who is let in."""

    def __init__(self, policy: Policy, stream_id: str) -> None:
        super().__init__(policy, stream_id)
        self.tree = PoolTree()
        self._short = False
        """Whether a gang was refused because its pool is entitled to no more."""
        self._shared: Loads = ()
        """What the present entitlement was worked out from."""
        self._share_from = 0.0
        """When it may next follow demand."""
        self._explained = 0.0
        """When gangs were last told why they wait."""
        self._explanations = 0

    # The tree and the cluster.

    def set_capacity(self, capacity: Resources, slack: Resources) -> None:
        first = self.tree.capacity is None
        self.tree.set_capacity(capacity, slack)
        self.entitle()
        for shape in self.infeasible.too_large():
            self.bring_back(shape)
        if first:
            for pool in self.waiting:
                pool.unexplained.extend(gang for queue in pool.queues for gang in queue)

    def entitle(self) -> None:
        """Share the capacity anew: when the tree or the capacity has changed, and from time to time."""
        if self.tree.capacity is not None:
            entitle(self.tree)
            self._short, self._shared = False, loads(self.tree)
            self.changed = True

    def _demand_moved(self, now: float) -> bool:
        """Whether the capacity is to be shared anew because of demand: a gang was refused for its pool's
        entitlement, and some pool's allocation or demand is not what that was worked out from. At most once
        in `Policy.sharing` seconds."""
        return self._short and now >= self._share_from and loads(self.tree) != self._shared

    def load_pools(self, configs: Iterable[PoolConfig]) -> list[Pool]:
        """Returns and raises as `PoolTree.load`."""
        renamed = self.tree.load(configs)
        self.entitle()
        return renamed

    # Admission.

    def admit(self, now: float) -> bool:
        """One turn over all queues; whether another is due now, because this one ended before all was tried
        or the capacity is to be shared anew first."""
        if self.tree.capacity is not None and self._demand_moved(now):
            self._share_from = now + self.policy.sharing
            self.entitle()
        self.changed = False
        if now - self._explained >= _EXPLAIN_SECONDS:
            self._explained, self._explanations = now, _EXPLAINED_AT_ONCE
        if self.tree.capacity is None:
            for pool in self.waiting:
                self._explain(pool, CAPACITY_UNKNOWN)
            return False
        budget = self.policy.turn
        for _ in range(len(self.waiting)):
            pool = next(iter(self.waiting))
            budget = self._admit_pool(pool, budget, now)
            self.waiting.move_to_end(pool)
            if not pool.waiting:
                del self.waiting[pool]
                pool.unexplained.clear()
            if budget <= 0:
                return bool(self.waiting)
        return self._demand_moved(now)

    def _admit_pool(self, pool: Pool, budget: int, now: float) -> int:
        """What is left of the budget."""
        for queue in pool.queues:
            budget = self._admit_queue(queue, budget, now)
            if budget <= 0:
                return 0
        self._explain(pool, None)
        return budget

    def _admit_queue(self, queue: GangQueue, budget: int, now: float) -> int:
        """A full ready queue ends the queue's turn, as a refusal of its head does."""
        for gang, refused in checks.turn(queue, self.policy.preemption):
            shortage = self._never(gang, refused)
            if shortage is not None:
                self.set_aside(gang, shortage, now)
                budget -= 1
                if budget <= 0:
                    break
                continue
            if refused is not None:
                self._short = self._short or refused.check in checks.SHARED
                self.give_reason(gang, str(refused))
                continue
            ready = self.ready[gang.type]
            if len(ready) >= self.policy.ready_limit:
                self.give_reason(gang, f"the {ready.name} is full with {len(ready)} gangs")
                break
            self._admit(gang, ready, now)
            budget -= 1
            if budget <= 0:
                break
        return budget

    def _never(self, gang: Gang, refused: checks.Refusal | None) -> Shortage | None:
        """Why it could not be placed even if it were let in, as far as that is known."""
        if self.infeasible and (known := self.infeasible.shortage(gang.shape)) is not None:
            return known
        capacity = self.tree.capacity
        if refused is None or refused.check not in checks.SHARED or capacity is None:
            return None
        return beyond_capacity(gang.charge.entitled, capacity.values(), KINDS)

    def _admit(self, gang: Gang, ready: ReadyQueue, now: float) -> None:
        pool = gang.pool
        assert gang.queue is not None
        gang.queue.remove(gang)
        pool.unwant(gang.charge)
        pool.charge(gang.charge)
        gang.tries = 0
        pool.to_ready.add(now - gang.tasks[0].since)
        for task in gang.tasks:
            self.step(task, Event.ADMIT, now)
            if task.reason and not gang.cycles:
                self.reasons.set(task, "")
        ready.add(gang)

    def _explain(self, pool: Pool, reason: str | None) -> None:
        """Tell gangs that were queued here why they wait: behind others, unless `reason` says otherwise."""
        while pool.unexplained and self._explanations:
            gang = pool.unexplained.popleft()
            queue = gang.queue
            if queue is None or queue not in pool.queues:
                continue
            self._explanations -= 1
            if reason is not None:
                self.give_reason(gang, reason)
            elif gang.tasks[0].reason in ("", CAPACITY_UNKNOWN):
                self.give_reason(gang, f"behind earlier gangs in queue {queue.name} of {pool.path}")
