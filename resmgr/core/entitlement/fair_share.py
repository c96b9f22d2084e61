"""The elastic entitlement of each pool: a pure function of a snapshot (docs/behaviour/pools.md, Entitlement).

Demand is summed from the leaves to the root. Entitlement is divided from the root to the leaves, each kind by
itself, by `water_fill.divide` at every pool with children. Amounts are integers in thousandths.

Details of the rule:

- A reservation above its own limit counts up to the limit. A STATIC reservation counts as demand of the
  pool and so of its ancestors. The demand of a pool is the sum of its children's, at most its limit.
- Pools with share 0 come last: once the demands of the others are met (step 2), or the others are at their
  limits (step 3), the rest is divided equally among them. If they got nothing instead, a claimant's last
  satisfied unit would let the rest pass from step 2 to step 3, and its siblings would gain by its demand.
- The entitlement is of the cluster's own resources; what of it, and on top of it, is slack: `slack`.

The children never have more than their parent together, in entitlement, slack and non-slack alike. Amounts
are rounded down at each level: equal siblings get equal amounts, and where there is not enough, fewer
thousandths than there are children remain undivided at a pool. The result for amounts multiplied by k is k
times the result, within k thousandths for each level of depth, where the slack limits are whole thousandths.

While the entitlement of a pool is the same, more demand in one child never gives another child more.
(*Resource monotonicity* and *others-oriented claims monotonicity* in the literature; W. Thomson, *Axiomatic
and game-theoretic analysis of bankruptcy and taxation problems: a survey*, Mathematical Social Sciences 45,
2003.) The entitlement of the root is always the same. That of another pool may grow with the demand of one
child, and all its children share in that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import NamedTuple

from peloton.errors import InvalidArgument
from peloton.fast_init import fast_init
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import KINDS, ZERO, Resources
from resmgr.core.entitlement.slack import divide_slack_cpu, slack_needs, slack_of, slack_ratio
from resmgr.core.entitlement.water_fill import divide, weights_of
from resmgr.core.state.amounts import Vector
from resmgr.core.state.entitlement_policy import EntitlementPolicy, shared, sharing_pools

_CPU = KINDS.index("cpu")
_STATIC = ReservationType.STATIC
_NO_LOAD = ZERO.values(), ZERO.values(), ZERO.values()
LeafLoads = list[tuple[Vector, Vector, Vector]]
"""By pool: need without slack, allocated slack and requested slack."""
Column = tuple[int, ...]
"""Amounts of one kind by pool."""
KindLoads = tuple[Column, Column, Column]
"""`LeafLoads` of one kind."""


@dataclass(frozen=True, slots=True)
class Load:
    """Allocation and queued demand of a leaf. The cpu of its slack is revocable cpu."""

    allocation: Resources = ZERO
    """Of tasks that are not revocable."""
    demand: Resources = ZERO
    """Queued, of tasks that are not revocable."""
    slack_allocation: Resources = ZERO
    slack_demand: Resources = ZERO


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The input of entitlement."""

    pools: Sequence[PoolConfig]
    """In any order, with or without the root, whose amounts are those of the cluster."""
    capacity: Resources
    """Of the cluster, without revocable cpu."""
    revocable_cpu: int = 0
    """Of the cluster, allocated or not, in thousandths."""
    loads: Mapping[PoolId, Load] = field(default_factory=dict)
    """By leaf; a leaf without a load has allocated and requested nothing."""


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The entitlement of one pool."""

    total: Resources
    """Of the cluster's own resources."""
    slack: Resources
    """For revocable tasks: memory, disk and gpu as part of `total`; cpu is revocable cpu, on top of it."""


fast_init(Entitlement)


def entitlements(snapshot: Snapshot) -> dict[PoolId, Entitlement]:
    """Return the entitlement of every pool, including the root.

    Raises InvalidArgument for pools that are not a tree, loads of pools that are not leaves, and negative
    amounts.
    """
    check_capacity("capacity", snapshot.capacity)
    check_capacity("revocable_cpu", Resources(snapshot.revocable_cpu))
    division = Division(snapshot.pools)
    loads = leaf_loads(division.tree, snapshot.loads)
    of_pools = division.of(snapshot.capacity.values(), snapshot.revocable_cpu, loads)
    return {
        pool_id: Entitlement(Resources(*whole), Resources(*part))
        for pool_id, (whole, part) in zip(division.tree.ids, of_pools, strict=True)
    }


class Division:
    """The entitlement of the same pools for loads that change: what is known is not calculated again."""

    __slots__ = ("_known", "policy", "pools", "tree")

    def __init__(self, pools: Sequence[PoolConfig], policy: EntitlementPolicy | None = None) -> None:
        """Take over pools. `policy`: the rule, in place of the one above.

        Raises InvalidArgument where the pools are no tree, and for negative amounts.
        """
        self.pools = pools
        self.policy = policy
        self.tree = Tree(pools)
        self._known: list[_Known | None] = [None] * len(KINDS)

    def of(
        self, capacity: Vector, revocable_cpu: int, loads: LeafLoads, held: Sequence[Sequence[int]] = ()
    ) -> list[tuple[Vector, Vector]]:
        """Return entitlement and slack entitlement of each pool, by its number in the tree.

        `capacity`: of the cluster, by kind; `held`: what all pools have, for a policy. No amount is negative.
        """
        if self.policy is not None:
            return self._by_policy(self.policy, capacity, revocable_cpu, loads, held)
        total, slack = [], []
        for kind, given in enumerate(by_kind(loads)):
            revocable = revocable_cpu if kind == _CPU else 0
            amounts, for_slack = self._of_kind(kind, capacity[kind], revocable, given)
            total.append(amounts)
            slack.append(for_slack)
        return list(zip(zip(*total, strict=True), zip(*slack, strict=True), strict=True))

    def _by_policy(
        self,
        policy: EntitlementPolicy,
        capacity: Vector,
        revocable_cpu: int,
        loads: LeafLoads,
        held: Sequence[Sequence[int]],
    ) -> list[tuple[Vector, Vector]]:
        kinds = [Kind(self.tree, given, kind) for kind, given in enumerate(by_kind(loads))]
        needs = [[of.need[at] + of.slack_need[at] for of in kinds] for at in range(len(self.tree.ids))]
        pools = sharing_pools(self.tree.configs, self.tree.children, capacity, held, needs)
        total = shared(policy, pools, capacity)
        slack = [of.slack(amounts) for of, amounts in zip(kinds, total, strict=True)]
        slack[_CPU] = kinds[_CPU].revocable(revocable_cpu)
        return list(zip(zip(*total, strict=True), zip(*slack, strict=True), strict=True))

    def wanted(self, loads: LeafLoads) -> list[Vector]:
        """Return the demand of each pool, by its number: what is allocated and queued there and below."""
        kinds = [Kind(self.tree, given, kind).demand() for kind, given in enumerate(by_kind(loads))]
        return list(zip(*kinds, strict=True))

    def _of_kind(
        self, kind: int, capacity: int, revocable: int, given: KindLoads
    ) -> tuple[list[int], list[int]]:
        """Return entitlement and slack entitlement of each pool to a kind."""
        known = self._known[kind]
        if known is not None and known.given == given and known.amounts == (capacity, revocable):
            return known.found
        of_kind = Kind(self.tree, given, kind, None if known is None else known.of_kind)
        whole = of_kind.entitlement(capacity)
        found = whole, of_kind.revocable(revocable) if kind == _CPU else of_kind.slack(whole)
        self._known[kind] = _Known((capacity, revocable), given, of_kind, found)
        return found


Family = tuple[int, int, int]
"""A pool, its first child, and the one after its last child."""


class Tree:
    """Pools by number: the root is 0, and parents come before their children."""

    __slots__ = ("children", "configs", "families", "ids", "slack_ratios")

    def __init__(self, pools: Iterable[PoolConfig]) -> None:
        """Take over pools. Raises InvalidArgument where they are no tree, and for negative amounts."""
        below: dict[PoolId, list[PoolConfig]] = {}
        count = 1
        for config in pools:
            _check_config(config)
            if config.id != ROOT_POOL:
                below.setdefault(config.parent, []).append(config)
                count += 1
        self.ids: list[PoolId] = [ROOT_POOL]
        self.configs: list[PoolConfig] = [PoolConfig(ROOT_POOL, "root", "")]
        self.children: list[range] = []
        for pool_id in self.ids:  # grows by the children of each pool, level by level
            ours = below.pop(pool_id, ())
            self.children.append(range(len(self.ids), len(self.ids) + len(ours)))
            self.ids += [config.id for config in ours]
            self.configs += ours
        _check_tree(self.ids, count, below)
        self.families: list[Family] = [
            (pool, ours.start, ours.stop) for pool, ours in enumerate(self.children) if ours
        ]
        self.slack_ratios = [slack_ratio(config) for config in self.configs]


class Kind:
    """One kind in all pools, by their numbers."""

    __slots__ = (
        "configs",
        "demands",
        "firsts",
        "floors",
        "held",
        "limits",
        "need",
        "requested",
        "reserved",
        "slack_need",
        "tree",
        "weights",
    )

    def __init__(self, tree: Tree, loads: KindLoads, kind: int, like: Kind | None = None) -> None:
        """Take over the loads. `like`: the same kind of the same pools with other loads."""
        self.tree = tree
        if like is None:
            name = KINDS[kind]
            self.configs: list[KindConfig] = [config.kind(name) for config in tree.configs]
            self.limits: list[int] = [config.limit for config in self.configs]
            self.reserved: list[int] = [
                config.reservation if config.reservation < config.limit else config.limit
                for config in self.configs
            ]
            self.floors: list[int] = [
                reserved if config.type is _STATIC else 0
                for config, reserved in zip(self.configs, self.reserved, strict=True)
            ]
            shares = tuple([config.share for config in self.configs])
            self.weights = [weights_of(shares[start:stop]) for _, start, stop in tree.families]
        else:
            self.configs, self.weights = like.configs, like.weights
            self.limits, self.reserved, self.floors = like.limits, like.reserved, like.floors
        self.need, self.held, self.requested = loads
        self.slack_need = (
            [0] * len(self.need)
            if kind == _CPU
            else slack_needs(self.held, self.requested, self.configs, tree.slack_ratios)
        )
        self.firsts: list[int] = []
        self.demands: list[int] = []

    def demand(self) -> list[int]:
        """Return the demand of each pool."""
        self._sum_demand()
        return self.demands

    def entitlement(self, capacity: int) -> list[int]:
        """Return the entitlement of each pool to `capacity`."""
        self._sum_demand()
        demands, firsts, limits, weights = self.demands, self.firsts, self.limits, self.weights
        amounts = [0] * len(limits)
        amounts[0] = capacity
        for at, (pool, start, stop) in enumerate(self.tree.families):
            amounts[start:stop] = divide(
                amounts[pool], demands[start:stop], firsts[start:stop], limits[start:stop], weights[at]
            )
        return amounts

    def slack(self, entitlement: Sequence[int]) -> list[int]:
        """Return the part of each pool's entitlement for revocable tasks."""
        if not any(self.slack_need):
            return [0] * len(self.slack_need)
        return self._summed(slack_of(entitlement, self.need, self.slack_need))

    def revocable(self, capacity: int) -> list[int]:
        """Return the revocable cpu of each pool: its allocation, then its demand and the rest by share."""
        if not (capacity or any(self.held) or any(self.requested)):
            return [0] * len(self.held)
        held, requested = self._summed(self.held), self._summed(self.requested)
        amounts = [0] * len(held)
        amounts[0] = capacity
        for at, (pool, start, stop) in enumerate(self.tree.families):
            amounts[start:stop] = divide_slack_cpu(
                amounts[pool], held[start:stop], requested[start:stop], self.weights[at]
            )
        return amounts

    def _sum_demand(self) -> None:
        """Calculate demand and first assignment of each pool except the root, from the leaves up."""
        limits, reserved, floors = self.limits, self.reserved, self.floors
        demands = list(map(add, self.need, self.slack_need))
        firsts = [0] * len(demands)
        for pool, start, stop in reversed(self.tree.families):
            whole = 0
            for child in range(start, stop):
                demand, most = demands[child], reserved[child]
                if demand < most:
                    floor = floors[child]
                    if demand < floor:
                        demand = floor
                    firsts[child] = demand
                else:
                    firsts[child] = most
                    limit = limits[child]
                    if demand > limit:
                        demand = limit
                demands[child] = demand
                whole += demand
            demands[pool] = whole
        demands[0] = 0
        self.demands, self.firsts = demands, firsts

    def _summed(self, leaves: Sequence[int]) -> list[int]:
        """Return the amounts of leaves, and for other pools the sums of their children's."""
        amounts = list(leaves)
        for pool, start, stop in reversed(self.tree.families):
            amounts[pool] = sum(amounts[start:stop])
        return amounts


def by_kind(loads: LeafLoads) -> list[KindLoads]:
    """Return the loads of each kind."""
    firm, held, requested = zip(*loads, strict=True)
    columns = [zip(*vectors, strict=True) for vectors in (firm, held, requested)]
    return list(zip(*columns, strict=True))


def leaf_loads(tree: Tree, loads: Mapping[PoolId, Load]) -> LeafLoads:
    """Return for each pool its need without slack, its allocated slack, and its requested slack.

    Raises InvalidArgument for loads of pools that are not leaves, and negative amounts.
    """
    leaves = {pool_id for pool_id, below in zip(tree.ids[1:], tree.children[1:], strict=True) if not below}
    known: dict[PoolId, tuple[Vector, Vector, Vector]] = {}
    for pool_id, load in loads.items():
        if pool_id not in leaves:
            raise InvalidArgument("loads", pool_id, "the id of a leaf of the pools given")
        known[pool_id] = _checked_load(pool_id, load)
    return [known.get(pool_id, _NO_LOAD) for pool_id in tree.ids]


def _check_tree(ids: Sequence[PoolId], count: int, unreached: Mapping[PoolId, Sequence[PoolConfig]]) -> None:
    if len(ids) < count:
        lost = next(iter(unreached.values()))[0]
        raise InvalidArgument(f"pools[{lost.id}].parent", lost.parent, "the root or a pool below it")
    if len(set(ids)) < count:
        twice = next(pool_id for pool_id, times in Counter(ids).items() if times > 1)
        raise InvalidArgument("pools", twice, "an id of its own")


def _check_config(config: PoolConfig) -> None:
    for name, kind in config.kinds.items():
        if not (kind.reservation >= 0 and kind.limit >= 0 and 0 <= kind.share < math.inf):
            raise InvalidArgument(f"pools[{config.id}].{name}", kind, "amounts and a share, 0 or more")
    percent = config.slack_limit_percent
    if percent is not None and not 0 <= percent < math.inf:
        raise InvalidArgument(f"pools[{config.id}].slack_limit_percent", percent, "a percentage, 0 or more")


def _checked_load(pool_id: PoolId, load: Load) -> tuple[Vector, Vector, Vector]:
    held, queued = load.allocation.values(), load.demand.values()
    slack_held, slack_queued = load.slack_allocation.values(), load.slack_demand.values()
    if min(held + queued + slack_held + slack_queued) < 0:
        for amounts in (load.allocation, load.demand, load.slack_allocation, load.slack_demand):
            if min(amounts.values()) < 0:
                raise InvalidArgument(f"loads[{pool_id}]", str(amounts), "amounts of 0 or more")
    firm = held[0] + queued[0], held[1] + queued[1], held[2] + queued[2], held[3] + queued[3]
    return firm, slack_held, slack_queued


def check_capacity(path: str, amounts: Resources) -> None:
    """Raise InvalidArgument for a negative amount."""
    if min(amounts.values()) < 0:
        raise InvalidArgument(path, str(amounts), "amounts of 0 or more")


class _Known(NamedTuple):
    """What was calculated last for a kind, and from what."""

    amounts: tuple[int, int]
    given: KindLoads
    of_kind: Kind
    found: tuple[list[int], list[int]]
