"""One check: which tasks give way now, by the policies that each pool has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from peloton.model.resources import Resources, total
from resmgr.core.preemption.cross_pool import Between
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.protection import Allowance, protect
from resmgr.core.preemption.same_pool import Within
from resmgr.core.preemption.strikes import Strikes
from resmgr.core.preemption.view import BETWEEN, WITHIN, PoolView, View
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
    """The victims of a prepared view, all steps at once, and the memory if all of them are taken."""
    found = [victim for victim in steps(view, rules, now) if victim is not None]
    return found, settled(memory, rules, found, now)


def steps(view: View, rules: Rules, now: float) -> Iterator[Victim | None]:
    """The victims of a prepared view, cheapest first within each pool and policy; None between two steps.
    What serves pools comes first; what is freed by that is there for the gangs that wait within a pool."""
    guarded = tuple(
        replace(pool, candidates=protect(pool.candidates, rules.minimum_run, now)) for pool in view.pools
    )
    view, first = View(guarded), list[Victim]()
    for victim in Between(rules.strikes).steps(view, now):
        if victim is not None:
            first.append(victim)
        yield victim
    yield from Within().steps(_without(view, first), now)


def settled(memory: Memory, rules: Rules, taken: Iterable[Victim], now: float) -> Memory:
    """What the next check has to know of those that were taken."""
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
    """As it is once they are gone, for the gangs that wait within their pools."""
    of_pool: dict[str, list[Victim]] = {}
    for victim in victims:
        of_pool.setdefault(victim.pool, []).append(victim)
    return View(tuple(_pool_without(pool, of_pool.get(pool.path, ())) for pool in view.pools))


def _pool_without(pool: PoolView, victims: Sequence[Victim]) -> PoolView:
    if not victims or not pool.queues:
        return pool
    gone = [row for victim in victims for row in victim.rows]
    eligible = pool.candidates.eligible.copy()
    eligible[gone] = False
    freed = total(victim.frees for victim in victims)
    freed_slack = total(victim.frees_slack for victim in victims)
    freed_firm = freed - replace(freed_slack, cpu=0)
    return replace(
        pool,
        candidates=replace(pool.candidates, eligible=eligible),
        budget=None if pool.budget is None else pool.budget - len(gone),
        room=_plus(pool.room, freed),
        slack_room=_plus(pool.slack_room, freed_slack),
        firm_room=None if pool.firm_room is None else _plus(pool.firm_room, freed_firm),
    )


def _plus(room: Vector, freed: Resources) -> Vector:
    cpu, memory, disk, gpu = freed.values()
    return room[0] + cpu, room[1] + memory, room[2] + disk, room[3] + gpu
