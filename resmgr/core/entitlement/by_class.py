"""Entitlement where there are several classes of hosts (docs/behaviour/pools.md, Classes of hosts).

A task may run on the hosts of one class only. So each class is divided among the pools like a cluster of its
own, by the rule for one class (`fair_share`): it never gives more than it has, and the rest is max-min by
share in each. What spans the classes is the pool's: its reservation and its limit. Before the classes are
divided, these are split among the classes in which the pool has demand:

- First assignments go to what is allocated, then to the class whose gang waits first. Where a class has less
  than all first assignments in it, those that have demand in other classes move there, over chains of pools
  if need be (a maximum flow; `moving`). So each pool gets its reservation where any split of all reservations
  keeps it. What still exceeds a class is cut there in proportion, as with one class.
- Demand beyond that counts, within the limit, in the same order. Where a class does not give it, the limit is
  free for the pool's demand in other classes: that is one more pass.
- What a limit leaves beyond demand is split in proportion to what the classes have left.

The parts of a limit are never more than the limit together, so limits hold over all classes. A pool that
demands in one class only has its whole reservation and limit there. A kind that only one class has (such as
GPU) is divided by the rule for one class, unchanged; so is everything where there is one class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peloton.model.ids import PoolId
from peloton.model.pool import PoolConfig, ReservationType
from peloton.model.resources import KINDS, Resources
from resmgr.core.entitlement.fair_share import (
    Entitlement,
    Kind,
    KindLoads,
    Load,
    Tree,
    by_kind,
    check_capacity,
    leaf_loads,
)
from resmgr.core.entitlement.moving import move_claims
from resmgr.core.entitlement.water_fill import cut, divide
from resmgr.core.state.amounts import Vector, vector

_CPU = KINDS.index("cpu")
Amounts = list[int]
"""By class."""
ByClass = list[list[int]]
"""By class, then by pool."""


@dataclass(frozen=True, slots=True)
class ClassedSnapshot:
    """The input. Classes are numbers from 0."""

    pools: Sequence[PoolConfig]
    """As in `Snapshot`."""
    capacity: Sequence[Resources]
    """By class, without revocable CPU."""
    revocable_cpu: Sequence[int]
    """By class, in thousandths."""
    loads: Mapping[PoolId, Mapping[int, Load]] = field(default_factory=dict)
    """By leaf, then by class."""
    class_orders: Mapping[PoolId, Sequence[int]] = field(default_factory=dict)
    """By leaf: the classes of the gangs that wait first, in order."""


@dataclass(frozen=True, slots=True)
class ClassedEntitlements:
    """The entitlement of all pools, the root included."""

    of_class: Sequence[Mapping[PoolId, Entitlement]]
    demanded: Sequence[Mapping[PoolId, Vector]]
    """By class: the demand, allocation included, that counted for each pool."""


def entitlements_by_class(snapshot: ClassedSnapshot) -> ClassedEntitlements:
    """Return the entitlement of every pool in every class. Raises as `entitlements` does."""
    for number, capacity in enumerate(snapshot.capacity):
        check_capacity(f"capacity[{number}]", capacity)
        check_capacity(f"revocable_cpu[{number}]", Resources(snapshot.revocable_cpu[number]))
    tree = Tree(snapshot.pools)
    classes = range(len(snapshot.capacity))
    of_class = [
        {pool_id: each[number] for pool_id, each in snapshot.loads.items() if number in each}
        for number in classes
    ]
    loads = [by_kind(leaf_loads(tree, each)) for each in of_class]
    held = [
        {at: load.allocation.values() for at, pool_id in enumerate(tree.ids) if (load := each.get(pool_id))}
        for each in of_class
    ]
    class_orders = (
        [snapshot.class_orders.get(pool_id, ()) for pool_id in tree.ids] if snapshot.class_orders else None
    )
    total: list[ByClass] = []
    slack: list[ByClass] = []
    demanded: list[ByClass] = []
    for kind in range(len(KINDS)):
        capacities = [each.values()[kind] for each in snapshot.capacity]
        firm = [{at: amounts[kind] for at, amounts in each.items()} for each in held]
        division = _Division(tree, [each[kind] for each in loads], kind, capacities, firm, class_orders)
        amounts = division.entitlement()
        total.append(amounts)
        if kind == _CPU:
            parts = [
                of.revocable(has) for of, has in zip(division.kinds, snapshot.revocable_cpu, strict=True)
            ]
        else:
            parts = [of.slack(whole) for of, whole in zip(division.kinds, amounts, strict=True)]
        slack.append(parts)
        demanded.append(division.demanded())
    return ClassedEntitlements(
        [_joined(tree, [each[at] for each in total], [each[at] for each in slack]) for at in classes],
        [
            dict(zip(tree.ids, map(vector, zip(*(each[at] for each in demanded), strict=True)), strict=True))
            for at in classes
        ],
    )


def _joined(
    tree: Tree, total: Sequence[Sequence[int]], slack: Sequence[Sequence[int]]
) -> dict[PoolId, Entitlement]:
    of_pools = zip(zip(*total, strict=True), zip(*slack, strict=True), strict=True)
    return {
        pool_id: Entitlement(Resources(*whole), Resources(*part))
        for pool_id, (whole, part) in zip(tree.ids, of_pools, strict=True)
    }


class _Division:
    """The division of one kind."""

    def __init__(
        self,
        tree: Tree,
        loads: Sequence[KindLoads],
        kind: int,
        capacities: Sequence[int],
        held: Sequence[Mapping[int, int]],
        class_orders: Sequence[Sequence[int]] | None,
    ) -> None:
        self.tree = tree
        one = Kind(tree, loads[0], kind)
        self.kinds = [one, *(Kind(tree, each, kind, one) for each in loads[1:])]
        """By class: needs, and demand as it would be if the class were the cluster."""
        self._capacities = capacities
        self._held = held
        self._class_orders = class_orders
        self._limits, self._weights, self._configs = one.limits, one.weights, one.configs
        self._first = one.reserved
        self._relevant = [
            at
            for at, each in enumerate(self.kinds)
            if capacities[at] or any(each.need) or any(each.held) or any(each.requested)
        ]
        self._has = [capacities[at] for at in self._relevant]
        self._firsts: ByClass = []
        self._demands: ByClass = []
        self._wants: ByClass = []
        """By pool, then by relevant class: what its own tasks request."""
        self._only: list[int] = []
        """By pool: the place of the one class where they request something, -1 for none or several."""
        if kind != _CPU:
            self._bound_slack()

    def entitlement(self) -> ByClass:
        """Return the entitlement of each pool in each class."""
        if len(self._relevant) <= 1:
            return self._undivided()
        claims = self._sum(None)
        if move_claims(self._has, self._of_top(self._firsts), claims):
            self._sum(claims)
        amounts = self._divided()
        bounds: dict[int, Amounts] = {}
        for _ in self._relevant:
            short = self._not_given(amounts, bounds)
            if not short:
                break
            bounds.update(short)
            self._sum(claims, bounds)
            amounts = self._divided()
        return amounts

    def demanded(self) -> ByClass:
        """Return the demand that counted in each class."""
        if len(self._relevant) > 1:
            return self._demands
        return [each.demands or [0] * len(self._limits) for each in self.kinds]

    # Demand and first assignments, from the leaves up.

    def _undivided(self) -> ByClass:
        amounts = [[0] * len(self._limits) for _ in self.kinds]
        for at in self._relevant:
            amounts[at] = self.kinds[at].entitlement(self._capacities[at])
        return amounts

    def _bound_slack(self) -> None:
        """Hold the slack limit over all classes: what is allocated first."""
        relevant = [self.kinds[at] for at in self._relevant]
        if len(relevant) <= 1:
            return
        for pool, config in enumerate(self._configs):
            needs = [each.slack_need[pool] for each in relevant]
            part, whole = self.tree.slack_ratios[pool]
            bound = config.reservation * part // whole
            if sum(needs) > bound:
                held = [min(each.held[pool], need) for each, need in zip(relevant, needs, strict=True)]
                for each, amount in zip(relevant, _in_order(bound, held, needs, ()), strict=True):
                    each.slack_need[pool] = amount

    def _sum(
        self, fixed: dict[int, tuple[Amounts, Amounts]] | None, bounds: Mapping[int, Amounts] | None = None
    ) -> dict[int, tuple[Amounts, Amounts]]:
        """Calculate first assignments and demand of each pool in each class.

        Return by pool how its own first assignment, beyond its children's, is split, and the bounds of that.
        `fixed`: the splits as they have to be. `bounds`: by pool, the demand that counts in each class.
        """
        count, classes = len(self._limits), self._relevant
        firsts = self._firsts = [[0] * count for _ in self.kinds]
        demands = self._demands = [[0] * count for _ in self.kinds]
        claims: dict[int, tuple[Amounts, Amounts]] = {}
        children, limits, nothing = self.tree.children, self._limits, [0] * len(classes)
        of_leaves = self._of_leaves()
        for pool in range(count - 1, 0, -1):
            below = children[pool]
            if below:
                wants = [sum(demands[at][below.start : below.stop]) for at in classes]
                given = [sum(firsts[at][below.start : below.stop]) for at in classes]
            else:
                wants, given = of_leaves[pool], nothing
                only = self._only[pool]
                if only >= 0:
                    want, limit, reserved = wants[only], limits[pool], self._first[pool]
                    at = classes[only]
                    firsts[at][pool] = want if want < reserved else reserved
                    demands[at][pool] = want if want < limit else limit
                    continue
            whole, limit, reserved = sum(wants), limits[pool], self._first[pool]
            if whole < reserved and self._configs[pool].type is ReservationType.STATIC:
                wants = self._padded(wants, reserved - whole)
                whole = reserved
            if not whole:
                continue
            first = min(whole, reserved)
            own, split = first - sum(given), given
            if own < 0:
                split = cut(first, given)
            elif own:
                rest = [want - has for want, has in zip(wants, given, strict=True)]
                if fixed is None or pool not in fixed:
                    part = self._split(pool, own, rest)
                else:
                    part = self._within(fixed[pool][0], rest, own)
                claims[pool] = part, rest
                split = [has + amount for has, amount in zip(given, part, strict=True)]
            if whole > limit:
                wants = self._limited(pool, limit, split, wants, bounds)
            for at, amount, want in zip(classes, split, wants, strict=True):
                firsts[at][pool], demands[at][pool] = amount, want
        return claims

    def _of_leaves(self) -> list[Amounts]:
        """Return what each pool's own tasks request in each class; note where that is one class only."""
        if not self._wants:
            kinds = [self.kinds[at] for at in self._relevant]
            columns = [list(map(int.__add__, each.need, each.slack_need)) for each in kinds]
            self._wants = list(map(list, zip(*columns, strict=True)))
            self._only = [
                next(at for at, want in enumerate(wants) if want)
                if sum(map(bool, wants)) == 1 and self._demands_all(pool, sum(wants))
                else -1
                for pool, wants in enumerate(self._wants)
            ]
        return self._wants

    def _demands_all(self, pool: int, requested: int) -> bool:
        """Return whether a pool demands what its tasks request, and no more."""
        config = self._configs[pool]
        return config.type is not ReservationType.STATIC or requested >= self._first[pool]

    def _split(self, pool: int, amount: int, wants: Amounts, given: Sequence[int] = ()) -> Amounts:
        """Split an amount, at most the sum of what is wanted beyond what is `given`, among the classes."""
        if self.tree.children[pool]:
            return _proportional(amount, wants)
        given = given or [0] * len(wants)
        held = [
            max(0, min(want, self._allocated(at, pool) - has))
            for at, want, has in zip(self._relevant, wants, given, strict=True)
        ]
        order = self._class_orders[pool] if self._class_orders is not None else ()
        return _in_order(
            amount, held, wants, [self._relevant.index(at) for at in order if at in self._relevant]
        )

    def _allocated(self, at: int, pool: int) -> int:
        """Return what of a leaf's needs in a class is allocated."""
        of = self.kinds[at]
        return self._held[at].get(pool, 0) + min(of.held[pool], of.slack_need[pool])

    @staticmethod
    def _within(split: Amounts, bounds: Amounts, amount: int) -> Amounts:
        """Return a split within bounds which others have changed since."""
        part = [min(each, bound) for each, bound in zip(split, bounds, strict=True)]
        return _in_order(amount, part, bounds, ())

    def _limited(
        self,
        pool: int,
        limit: int,
        firsts: Amounts,
        wants: Amounts,
        bounds: Mapping[int, Amounts] | None,
    ) -> Amounts:
        """Return the demand that counts within a limit: the first assignments, then the rest."""
        if bounds is not None and pool in bounds:
            wants = [min(want, bound) for want, bound in zip(wants, bounds[pool], strict=True)]
        rest = [max(0, want - first) for want, first in zip(wants, firsts, strict=True)]
        left = limit - sum(firsts)
        part = rest if sum(rest) <= left else self._split(pool, left, rest, firsts)
        return [first + amount for first, amount in zip(firsts, part, strict=True)]

    def _padded(self, wants: Amounts, idle: int) -> Amounts:
        """Add the idle part of a STATIC reservation: where the classes have most beyond the needs in them."""
        needs = (sum(self.kinds[at].need) for at in self._relevant)
        spare = [max(0, has - need) for has, need in zip(self._has, needs, strict=True)]
        if not any(spare):
            spare = self._has
        parts = _shared(idle, spare if any(spare) else [1] * len(spare))
        return [want + part for want, part in zip(wants, parts, strict=True)]

    def _of_top(self, amounts: ByClass) -> Amounts:
        """Return the sums over the pools below the root."""
        top = self.tree.children[0]
        return [sum(amounts[at][top.start : top.stop]) for at in self._relevant]

    # Division, from the root down.

    def _divided(self) -> ByClass:
        spare = [
            max(0, has - wanted) for has, wanted in zip(self._has, self._of_top(self._demands), strict=True)
        ]
        rooms = [
            max(0, limit - sum(each))
            for limit, each in zip(
                self._limits, zip(*(self._demands[at] for at in self._relevant), strict=True), strict=True
            )
        ]
        beyond = sum(spare)
        amounts = [[0] * len(self._limits) for _ in self.kinds]
        for at, left in zip(self._relevant, spare, strict=True):
            demands = self._demands[at]
            limits = (
                [want + room * left // beyond for want, room in zip(demands, rooms, strict=True)]
                if left
                else demands
            )
            amounts[at] = self._divide_class(at, demands, limits)
        return amounts

    def _divide_class(self, at: int, demands: list[int], limits: list[int]) -> list[int]:
        amounts = [0] * len(demands)
        amounts[0], firsts = self._capacities[at], self._firsts[at]
        for family, (pool, start, stop) in enumerate(self.tree.families):
            if amounts[pool]:
                amounts[start:stop] = divide(
                    amounts[pool],
                    demands[start:stop],
                    firsts[start:stop],
                    limits[start:stop],
                    self._weights[family],
                )
        return amounts

    def _not_given(self, amounts: ByClass, bounds: Mapping[int, Amounts]) -> dict[int, Amounts]:
        """Return bounds for pools that demand more than their limit, and get less than counted in a class."""
        found: dict[int, Amounts] = {}
        for pool in range(1, len(self._limits)):
            given = [amounts[at][pool] for at in self._relevant]
            counted = [self._demands[at][pool] for at in self._relevant]
            if sum(counted) < self._limits[pool] or not any(map(int.__lt__, given, counted)):
                continue
            below = self.tree.children[pool]
            wants = [
                sum(self._demands[at][below.start : below.stop])
                if below
                else self.kinds[at].need[pool] + self.kinds[at].slack_need[pool]
                for at in self._relevant
            ]
            each = zip(given, counted, wants, strict=True)
            if any(want > count <= got for got, count, want in each):
                known = bounds.get(pool, [self._limits[pool]] * len(counted))
                found[pool] = [
                    got if got < count else bound
                    for got, count, bound in zip(given, counted, known, strict=True)
                ]
        return found


def _in_order(amount: int, held: Amounts, wants: Amounts, turn: Sequence[int]) -> Amounts:
    """Split an amount: to what is held, then class by class, `turn` first; each up to what it wants."""
    split = [0] * len(wants)
    order = dict.fromkeys((*turn, *range(len(wants))))
    for bounds in (held, wants):
        for at in order:
            part = min(amount, bounds[at] - split[at])
            if part > 0:
                split[at] += part
                amount -= part
    return split


def _proportional(amount: int, wants: Amounts) -> Amounts:
    """Split an amount, at most all that is wanted, in proportion, and what rounding leaves in order."""
    split = cut(amount, wants)
    return _in_order(amount, split, wants, ())


def _shared(amount: int, weights: Amounts) -> Amounts:
    """Split an amount in proportion to weights; what rounding leaves goes to the heaviest."""
    whole = sum(weights)
    split = [amount * weight // whole for weight in weights]
    split[weights.index(max(weights))] += amount - sum(split)
    return split
