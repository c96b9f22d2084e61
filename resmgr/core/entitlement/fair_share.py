"""What each pool is entitled to, shared elastically: a pure function of a snapshot.

See docs/behaviour/pools.md, Entitlement.

Demand is summed from the leaves up, entitlement is divided from the root down, each kind by itself, with
`waterfill.divide` at every pool that has children. Amounts are integers in thousandths.

How the rule is read where its text leaves room, and what then holds for every input:

- A reservation above its own limit counts up to the limit. A STATIC reservation counts as demand of the
  pool and so of its ancestors. A pool's demand is its children's demands together, clipped to its limit.
- Share 0 comes last, not never: once nobody who has a share wants more (step 2) or has room below its limit
  (step 3), those without are dealt the rest alike. Were it never, a claimant's last satisfied unit would
  let what is left pass from step 2 to step 3, and its siblings gain by its demand.
- The entitlement is of the cluster's own resources. The slack entitlement to memory, disk and gpu is a part
  of it; that to cpu is revocable cpu and comes on top, not bounded by the cpu limit, and so the non-slack
  entitlement to cpu is all of the cpu entitlement. Where a pool has less revocable cpu than its children
  have allocated, they are cut in proportion, as first assignments are.
- min(entitlement - non-slack need, slack need) is taken at the leaves; a pool above has the sum of its
  leaves' slack (its non-slack need would count what one leaf lacks against another's slack, and leave it less
  than its children have).

Together the children never have more than their parent, in entitlement, slack and non-slack alike. All is
rounded down at each level: siblings alike get alike, and where there is not enough, fewer thousandths than
there are children stay undealt at a pool. A result for amounts multiplied by k is k times the result to
within k thousandths for each level of depth, where the slack limits are whole thousandths.

Where a pool's entitlement stays, more demand in one child never gives another one more: whoever's demand
grows takes it from what was unmet, left or its own room below the limit, and the level at which the others
are served sinks or stays. (In the literature of dividing claims: *resource monotonicity* and *others-oriented
claims monotonicity*; W. Thomson, *Axiomatic and game-theoretic analysis of bankruptcy and taxation problems:
a survey*, Mathematical Social Sciences 45, 2003.) The root's entitlement does stay. Further down, a pool may
be entitled to more because one child requests more, and then all its children share in that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from peloton.errors import InvalidArgument
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import KINDS, ZERO, Resources
from resmgr.core.entitlement.water_fill import cut, deal, decimal_ratio, divide, weights_of
from resmgr.core.state.amounts import Vector
from resmgr.core.state.pools import DEFAULT_SLACK_PERCENT

_CPU = KINDS.index("cpu")
_NOTHING = ZERO.values()


@dataclass(frozen=True, slots=True)
class Load:
    """What a leaf has and what waits in its queues. The cpu of its slack is revocable cpu."""

    allocation: Resources = ZERO
    """Of tasks that are not revocable."""
    demand: Resources = ZERO
    """Queued, of tasks that are not revocable."""
    slack_allocation: Resources = ZERO
    slack_demand: Resources = ZERO


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that entitlement depends on."""

    pools: Sequence[PoolConfig]
    """In any order. The root may be left out; its own amounts are the cluster's."""
    capacity: Resources
    """Of the cluster, without revocable cpu."""
    revocable_cpu: int = 0
    """What the cluster has of it, allocated or not, in thousandths."""
    loads: Mapping[PoolId, Load] = field(default_factory=dict)
    """Of leaves; one left out has none."""


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What one pool may have."""

    total: Resources
    """Of the cluster's own resources."""
    slack: Resources
    """For revocable tasks: memory, disk and gpu as part of `total`; cpu is revocable cpu, on top of it."""


def entitlements(snapshot: Snapshot) -> dict[PoolId, Entitlement]:
    """The entitlement of every pool, the root's included.

    Raises InvalidArgument for pools that are no tree, loads of what is no leaf, and amounts below 0.
    """
    _check_capacity("capacity", snapshot.capacity)
    _check_capacity("revocable_cpu", Resources(snapshot.revocable_cpu))
    for config in snapshot.pools:
        _check_config(config)
    tree = _Tree(snapshot)
    total, slack = [], []
    for kind, capacity in enumerate(snapshot.capacity.values()):
        of_kind = _Kind(tree, kind)
        amounts = of_kind.entitlement(capacity)
        total.append(amounts)
        if kind == _CPU:
            slack.append(of_kind.revocable(snapshot.revocable_cpu))
        else:
            slack.append(of_kind.slack(amounts))
    of_pools = zip(zip(*total, strict=True), zip(*slack, strict=True), strict=True)
    return {
        pool_id: Entitlement(Resources(*whole), Resources(*part))
        for pool_id, (whole, part) in zip(tree.ids, of_pools, strict=True)
    }


class _Tree:
    """Pools numbered parents first, the root 0."""

    __slots__ = ("children", "configs", "ids", "loads", "slack_ratios")

    def __init__(self, snapshot: Snapshot) -> None:
        below: dict[PoolId, list[PoolConfig]] = {}
        count = 1
        for config in snapshot.pools:
            if config.id != ROOT_POOL:
                below.setdefault(config.parent, []).append(config)
                count += 1
        self.ids: list[PoolId] = [ROOT_POOL]
        self.configs: list[PoolConfig] = [PoolConfig(ROOT_POOL, "root", "")]
        self.children: list[range] = []
        for pool_id in self.ids:  # which grows by the children of each, level by level
            ours = below.pop(pool_id, ())
            self.children.append(range(len(self.ids), len(self.ids) + len(ours)))
            self.ids += [config.id for config in ours]
            self.configs += ours
        _check_tree(self.ids, count, below)
        self.loads = _leaf_loads(self, snapshot.loads)
        self.slack_ratios = [_slack_ratio(config) for config in self.configs]


class _Kind:
    """One kind in all pools, by their numbers."""

    __slots__ = (
        "configs",
        "demands",
        "firsts",
        "held",
        "limits",
        "need",
        "requested",
        "slack_need",
        "tree",
        "weights",
    )

    def __init__(self, tree: _Tree, kind: int) -> None:
        self.tree = tree
        self.configs: list[KindConfig] = [config.kind(KINDS[kind]) for config in tree.configs]
        self.limits = [config.limit for config in self.configs]
        shares = [config.share for config in self.configs]
        self.weights = [
            weights_of(shares[below.start : below.stop]) if below else [] for below in tree.children
        ]
        self.need = [firm[kind] for firm, _, _ in tree.loads]
        self.held = [held[kind] for _, held, _ in tree.loads]
        self.requested = [requested[kind] for _, _, requested in tree.loads]
        self.slack_need = [0] * len(self.need) if kind == _CPU else self._slack_needs()
        self.firsts = [0] * len(self.need)
        self.demands = [0] * len(self.need)
        self._sum_demand()

    def entitlement(self, capacity: int) -> list[int]:
        """Of each pool, the root having `capacity`."""
        amounts = [0] * len(self.limits)
        amounts[0] = capacity
        for pool, below in enumerate(self.tree.children):
            if below:
                ours = slice(below.start, below.stop)
                amounts[ours] = divide(
                    amounts[pool],
                    self.demands[ours],
                    self.firsts[ours],
                    self.limits[ours],
                    self.weights[pool],
                )
        return amounts

    def slack(self, entitlement: Sequence[int]) -> list[int]:
        """The part of each pool's entitlement that is for revocable tasks."""
        return self._summed(
            [
                max(0, min(whole - need, slack))
                for whole, need, slack in zip(entitlement, self.need, self.slack_need, strict=True)
            ]
        )

    def revocable(self, capacity: int) -> list[int]:
        """Each pool's revocable cpu: what it has allocated, then by share what it requests, then the rest."""
        held, requested = self._summed(self.held), self._summed(self.requested)
        amounts = [0] * len(held)
        amounts[0] = capacity
        for pool, below in enumerate(self.tree.children):
            if below:
                ours = slice(below.start, below.stop)
                amounts[ours] = _divide_revocable(
                    amounts[pool], held[ours], requested[ours], self.weights[pool]
                )
        return amounts

    def _sum_demand(self) -> None:
        """Demand and first assignment of each pool but the root, from the leaves up."""
        demands, children = self.demands, self.tree.children
        for pool in range(len(demands) - 1, 0, -1):
            config, below = self.configs[pool], children[pool]
            wanted = self.need[pool] + self.slack_need[pool]
            if below:
                wanted = sum(demands[below.start : below.stop])
            limit = config.limit
            reservation = min(config.reservation, limit)
            if wanted < reservation and config.type is ReservationType.STATIC:
                wanted = reservation
            demands[pool] = wanted if wanted < limit else limit
            self.firsts[pool] = wanted if wanted < reservation else reservation

    def _slack_needs(self) -> list[int]:
        return [
            min(held + requested, config.reservation * part // whole) if held or requested else 0
            for held, requested, config, (part, whole) in zip(
                self.held, self.requested, self.configs, self.tree.slack_ratios, strict=True
            )
        ]

    def _summed(self, leaves: Sequence[int]) -> list[int]:
        """The leaves' amounts, and the sums of their children's for the pools above."""
        amounts = list(leaves)
        for pool in range(len(amounts) - 1, -1, -1):
            below = self.tree.children[pool]
            if below:
                amounts[pool] = sum(amounts[below.start : below.stop])
        return amounts


def _divide_revocable(
    amount: int, held: Sequence[int], requested: Sequence[int], weights: Sequence[int]
) -> list[int]:
    rest = amount - sum(held)
    if rest < 0:
        return cut(amount, held)
    granted = deal(rest, requested, weights)
    rest = max(0, rest - sum(requested))
    spare = deal(rest, [rest] * len(held), weights)
    return [sum(parts) for parts in zip(held, granted, spare, strict=True)]


def _leaf_loads(tree: _Tree, loads: Mapping[PoolId, Load]) -> list[tuple[Vector, Vector, Vector]]:
    """Per pool what it has and wants but slack, its allocated slack, and the slack that it wants."""
    leaves = {pool_id for pool_id, below in zip(tree.ids[1:], tree.children[1:], strict=True) if not below}
    for pool_id, load in loads.items():
        if pool_id not in leaves:
            raise InvalidArgument("loads", pool_id, "the id of a leaf of the pools given")
        _check_load(pool_id, load)
    return [
        (_NOTHING, _NOTHING, _NOTHING)
        if load is None
        else (
            (load.allocation + load.demand).values(),
            load.slack_allocation.values(),
            load.slack_demand.values(),
        )
        for load in map(loads.get, tree.ids)
    ]


def _slack_ratio(config: PoolConfig) -> tuple[int, int]:
    """The slack limit's part of a reservation, as a fraction."""
    percent = config.slack_limit_percent
    part, whole = decimal_ratio(DEFAULT_SLACK_PERCENT if percent is None else percent)
    return part, 100 * whole


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


def _check_load(pool_id: PoolId, load: Load) -> None:
    for amounts in (load.allocation, load.demand, load.slack_allocation, load.slack_demand):
        if min(amounts.values()) < 0:
            raise InvalidArgument(f"loads[{pool_id}]", str(amounts), "amounts of 0 or more")


def _check_capacity(path: str, amounts: Resources) -> None:
    if min(amounts.values()) < 0:
        raise InvalidArgument(path, str(amounts), "amounts of 0 or more")
