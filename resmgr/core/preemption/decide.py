"""One check: which tasks are preempted now, by the policies of each pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from peloton.model.resources import total
from resmgr.core.preemption.cross_pool import CrossPoolPolicy
from resmgr.core.preemption.order import VictimOrder
from resmgr.core.preemption.over_entitlement import Strikes
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.protection import Allowance, protect
from resmgr.core.preemption.same_pool import SamePoolPolicy
from resmgr.core.preemption.view import CROSS_POOL, SAME_POOL, PoolView, View
from resmgr.core.state.amounts import plus


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that an administrator has set."""

    policies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of policies by path; other pools have their parent's."""
    default: tuple[str, ...] = (CROSS_POOL, SAME_POOL)
    period: float = 60.0
    """Seconds between two checks."""
    strikes: int = 5
    """Consecutive checks that must have found a pool over its entitlement."""
    minimum_run: float = 0.0
    """Seconds that a task runs before it may be preempted."""
    per_minute: int | None = None
    """Most tasks of one pool that are taken in a minute. A larger gang is never taken."""
    order: VictimOrder | None = None
    """The order of victims; None: that of `Gangs`."""

    def of(self, path: str) -> tuple[str, ...]:
        """Return the policies of a pool, or else of the nearest pool above it."""
        while path and path != "/":
            if path in self.policies:
                return self.policies[path]
            path = path.rpartition("/")[0]
        return self.policies.get("/", self.default)


@dataclass(frozen=True, slots=True)
class Memory:
    """What one check passes to the next."""

    strikes: Strikes = field(default_factory=Strikes)
    allowances: Mapping[str, Allowance] = field(default_factory=dict)


def prepare(view: View, memory: Memory, rules: Rules, now: float) -> tuple[View, Memory]:
    """Count this check, and return the view with each pool's strikes, budget and policies.

    Only the pools that `pools_to_examine` names then need candidates.
    """
    over = [pool.key for pool in view.pools if any(pool.excess())]
    strikes = memory.strikes.counted(over)
    pools = tuple(
        replace(
            pool,
            strikes=strikes.of(pool.key),
            policies=rules.of(pool.path),
            budget=_allowance(memory, rules.per_minute, pool.path).left(now)
            if rules.per_minute is not None
            else None,
            largest=rules.per_minute,
        )
        for pool in view.pools
    )
    return View(pools), replace(memory, strikes=strikes)


def pools_to_examine(view: View, rules: Rules) -> set[str]:
    """Return the keys of the pools of a prepared view whose candidates are needed."""
    policies = (CrossPoolPolicy(rules.strikes), SamePoolPolicy())
    return {pool.key for pool in view.pools if any(policy.applies_to(pool) for policy in policies)}


def steps(view: View, rules: Rules, now: float) -> Iterator[Victim | None]:
    """Iterate over the victims of a prepared view; None between two steps.

    They come cheapest first within each pool and policy. Policies across pools come first; the gangs that
    wait within a pool may use what those free.
    """
    guarded = tuple(
        replace(pool, candidates=protect(pool.candidates, rules.minimum_run, now)) for pool in view.pools
    )
    view, first = View(guarded), list[Victim]()
    for victim in CrossPoolPolicy(rules.strikes, rules.order).steps(view, now):
        if victim is not None:
            first.append(victim)
        yield victim
    yield from SamePoolPolicy(rules.order).steps(_without(view, first), now)


def remember(memory: Memory, rules: Rules, taken: Iterable[Victim], now: float) -> Memory:
    """Return what the next check must know of the victims that were taken."""
    if rules.per_minute is None:
        return replace(memory, allowances={})
    counts = Counter[str]()
    for victim in taken:
        counts[victim.pool] += len(victim.runs)
    allowances = {
        path: _allowance(memory, rules.per_minute, path).after(counts[path], now)
        for path in {*memory.allowances, *counts}
    }
    return replace(memory, allowances={path: each for path, each in allowances.items() if each.taken})


def _allowance(memory: Memory, limit: int, path: str) -> Allowance:
    known = memory.allowances.get(path)
    return Allowance(limit, known.taken if known is not None else ())


def _without(view: View, victims: Iterable[Victim]) -> View:
    """Return the view without the victims, for the gangs that wait within their pools."""
    of_pool: dict[tuple[str, str], list[Victim]] = {}
    taken = Counter[str]()
    for victim in victims:
        of_pool.setdefault((victim.pool, victim.hosts), []).append(victim)
        taken[victim.pool] += len(victim.runs)
    return View(
        tuple(
            _pool_without(_with_less_budget(pool, taken[pool.path]), of_pool.get((pool.path, pool.hosts), ()))
            for pool in view.pools
        )
    )


def _with_less_budget(pool: PoolView, taken: int) -> PoolView:
    return pool if pool.budget is None or not taken else replace(pool, budget=pool.budget - taken)


def _pool_without(pool: PoolView, victims: Sequence[Victim]) -> PoolView:
    if not victims or not pool.queues:
        return pool
    taken = [row for victim in victims for row in victim.rows]
    eligible = pool.candidates.eligible.copy()
    eligible[taken] = False
    freed = total(victim.frees for victim in victims)
    freed_slack = total(victim.frees_slack for victim in victims)
    freed_firm = freed - replace(freed_slack, cpu=0)
    return replace(
        pool,
        candidates=replace(pool.candidates, eligible=eligible),
        room=plus(pool.room, freed.values()),
        slack_room=plus(pool.slack_room, freed_slack.values()),
        firm_room=None if pool.firm_room is None else plus(pool.firm_room, freed_firm.values()),
    )
