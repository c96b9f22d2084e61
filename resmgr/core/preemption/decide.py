"""One check: which tasks give way now, by the policies that each pool has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from resmgr.core.preemption.between import Between
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.protection import Allowance, protect
from resmgr.core.preemption.strikes import Strikes
from resmgr.core.preemption.view import BETWEEN, WITHIN, PoolView, View
from resmgr.core.preemption.within import Within
from resmgr.core.tasks import Vector


@dataclass(frozen=True, slots=True)
class Rules:
    """As an administrator has set them."""

    policies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of policies by path; a pool that is not named has its parent's."""
    default: tuple[str, ...] = (BETWEEN, WITHIN)
    strikes: int = 5
    """Checks in a row that must have found a pool over its entitlement."""
    minimum_run: float = 0.0
    """Seconds for which a task runs undisturbed."""
    per_minute: int | None = None
    """Tasks of one pool that are taken in a minute at most. A gang that is larger is never taken."""

    def of(self, path: str) -> tuple[str, ...]:
        """The policies of a pool, or else of the nearest pool above it."""
        while path and path != "/":
            if path in self.policies:
                return self.policies[path]
            path = path.rpartition("/")[0]
        return self.policies.get("/", self.default)


@dataclass(frozen=True, slots=True)
class Memory:
    """What one check leaves to the next."""

    strikes: Strikes = field(default_factory=Strikes)
    allowances: Mapping[str, Allowance] = field(default_factory=dict)


def prepare(view: View, memory: Memory, rules: Rules, now: float) -> tuple[View, Memory]:
    """Count this check: the view with each pool's strikes, budget and policies. Candidates may be added to
    the pools that `concerned` names then, so that nobody need gather them for the others."""
    over = [pool.path for pool in view.pools if any(pool.excess())]
    strikes = memory.strikes.counted(over)
    pools = tuple(
        replace(
            pool,
            strikes=strikes.of(pool.path),
            policies=rules.of(pool.path),
            budget=_allowance(memory, rules.per_minute, pool.path).left(now)
            if rules.per_minute is not None
            else None,
            largest=rules.per_minute,
        )
        for pool in view.pools
    )
    return View(pools), replace(memory, strikes=strikes)


def concerned(view: View, rules: Rules) -> set[str]:
    """Paths of pools, of a prepared view, whose candidates are asked for."""
    policies = (Between(rules.strikes), Within())
    return {pool.path for pool in view.pools if any(policy.concerns(pool) for policy in policies)}


def decide(view: View, memory: Memory, rules: Rules, now: float) -> tuple[list[Victim], Memory]:
    """The victims of a prepared view, cheapest first within each pool and policy. What serves pools comes
    first; what is freed by that is there for the gangs that wait within a pool."""
    guarded = tuple(
        replace(pool, candidates=protect(pool.candidates, rules.minimum_run, now)) for pool in view.pools
    )
    view = View(guarded)
    first = Between(rules.strikes).victims(view, now)
    found = first + Within().victims(_without(view, first), now)
    if rules.per_minute is None:
        return found, replace(memory, allowances={})
    taken = Counter[str]()
    for victim in found:
        taken[victim.pool] += len(victim.runs)
    allowances = {
        path: _allowance(memory, rules.per_minute, path).after(taken[path], now)
        for path in {*memory.allowances, *taken}
    }
    return found, replace(memory, allowances={p: each for p, each in allowances.items() if each.taken})


def _allowance(memory: Memory, limit: int, path: str) -> Allowance:
    known = memory.allowances.get(path)
    return Allowance(limit, known.taken if known is not None else ())


def _without(view: View, victims: Iterable[Victim]) -> View:
    """As it is once they are gone, for the gangs that wait within their pools."""
    of_pool: dict[str, list[Victim]] = {}
    for victim in victims:
        of_pool.setdefault(victim.pool, []).append(victim)
    return View(tuple(_pool_without(pool, of_pool.get(pool.path, ())) for pool in view.pools))


def _pool_without(pool: PoolView, victims: Sequence[Victim]) -> PoolView:
    if not victims or not pool.queues:
        return pool
    gone = {run for victim in victims for run in victim.runs}
    there = np.array([run not in gone for run in pool.candidates.runs], dtype=np.bool_)
    candidates = replace(pool.candidates, eligible=pool.candidates.eligible & there)
    freed, freed_slack = (0, 0, 0, 0), (0, 0, 0, 0)
    for victim in victims:
        freed = _plus(freed, victim.frees.values())
        freed_slack = _plus(freed_slack, victim.frees_slack.values())
    budget = None if pool.budget is None else pool.budget - len(gone)
    return replace(
        pool,
        candidates=candidates,
        budget=budget,
        room=_plus(pool.room, freed),
        slack_room=_plus(pool.slack_room, freed_slack),
    )


def _plus(one: Vector, other: Vector) -> Vector:
    return one[0] + other[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]
