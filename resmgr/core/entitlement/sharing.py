"""Sharing the cluster's capacity among the pools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from types import MappingProxyType

from peloton.model.pool import PoolConfig
from peloton.model.resources import ZERO, Resources
from peloton.model.shortage import Shortage
from peloton.model.states import TaskState
from resmgr.core.entitlement.by_class import ClassedSnapshot, entitlements_by_class
from resmgr.core.entitlement.fair_share import Division, LeafLoads, Load
from resmgr.core.entitlement.usable import Admits, Counted, leave_out_unusable, place
from resmgr.core.state.amounts import NOTHING, Charge, Vector
from resmgr.core.state.classes import ClassCapacities, Classes
from resmgr.core.state.entitlement_policy import EntitlementPolicy
from resmgr.core.state.infeasible import Infeasible, beyond_capacity
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.needs import Needs
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolTree

Loads = tuple[tuple[object, ...], ...]
_NO_LOAD = NOTHING, NOTHING, NOTHING
_ALL: Counted = MappingProxyType({})


class Sharing:
    """The tree of pools and the entitlement of each."""

    def __init__(self, lifecycle: Lifecycle, admits: Admits, policy: EntitlementPolicy | None = None) -> None:
        """Begin without pools; `admits` tells whether a gang may be admitted as entitlement is.

        `policy`: the rule by which capacity is shared; None: Peloton's own.
        """
        self.tree = PoolTree(policy)
        self._admits = admits
        self._lifecycle = lifecycle
        self._refused = False
        """Whether a gang was refused because of its pool's entitlement since the last calculation."""
        self._loads: Loads = ()
        """The loads that the present entitlement was calculated from."""
        self._next = 0.0
        """When entitlement may next follow demand."""
        self._division: Division | None = None

    def load_pools(self, configs: Iterable[PoolConfig]) -> list[Pool]:
        """Insert stored pools. Return and raise as `PoolTree.load`."""
        renamed = self.tree.load(configs)
        self.entitle()
        return renamed

    def set_capacity(
        self, capacity: Resources, slack: Resources, classes: ClassCapacities = MappingProxyType({})
    ) -> bool:
        """Set what the cluster has, and each class of its hosts; return whether that was unknown before."""
        first = self.tree.capacity is None
        self.tree.set_capacity(capacity, slack)
        if self.tree.set_classes(classes):
            self._count_anew()
        self.entitle()
        self._bring_back(capacity)
        return first

    def _count_anew(self) -> None:
        """Count all tasks and sort all queues by the classes of hosts, which have changed."""
        lifecycle = self._lifecycle
        registry = lifecycle.registry
        held: Counter[tuple[Pool, Needs]] = Counter()
        waiting: Counter[tuple[Pool, Needs]] = Counter()
        for task in (*registry, *registry.orphans.values()):
            if task.state is not TaskState.PENDING:
                held[task.pool, task.needs] += 1
            elif task.gang is None or not isinstance(task.gang.queue, Infeasible):
                waiting[task.pool, task.needs] += 1
        for (pool, needs), count in held.items():
            pool.count_part(needs.charge.times(count), queued=False)
        for (pool, needs), count in waiting.items():
            pool.count_part(needs.charge.times(count), queued=True)
        lifecycle.pending.sort_anew()

    def beyond_cluster(self, charge: Charge) -> Shortage | None:
        """Return why a gang can never be admitted: it needs more than the hosts that it may use have."""
        tree = self.tree
        if tree.capacity is None:
            return None
        if tree.classes is not None:
            for part in charge.parts():
                of = tree.classes.of(part.asked)
                capacity = tree.classes.capacity(of).normal.values()
                shortage = beyond_capacity(part.entitled, capacity, tree.classes.name(of))
                if shortage is not None:
                    return shortage
        return beyond_capacity(charge.entitled, tree.capacity.values())

    def _bring_back(self, capacity: Resources) -> None:
        """Return the gangs that were larger than the cluster and are not any more."""
        lifecycle = self._lifecycle
        for shape in lifecycle.infeasible.too_large() if any(capacity.values()) else ():
            shortage = self.beyond_cluster(lifecycle.infeasible.gangs(shape)[0].charge)
            if shortage is None:
                lifecycle.bring_back(shape)
            else:
                lifecycle.keep_aside(shape, shortage)

    def entitle(self) -> None:
        """Share the capacity, where it is known, among all pools (docs/behaviour/pools.md, Entitlement)."""
        if self.tree.capacity is not None:
            self._order_classes()
            self._loads = loads(self.tree)
            self._division = division = division_of(self.tree, self._division)
            entitle(self.tree, division=division)
            leave_out_unusable(
                self._lifecycle.pending.active,
                lambda counted: entitle(self.tree, counted, division),
                self._admits,
                self._lifecycle.limits.preemption,
            )
            self._refused = False
            self._lifecycle.changed = True

    def _order_classes(self) -> None:
        """Note for each leaf with gangs in several classes which of them waits first."""
        if self.tree.classes is None:
            return
        active = self._lifecycle.pending.active
        for leaf in self.tree.leaves():
            heads = [
                (min(place(gang) for queue in active[part].all if (gang := queue.head()) is not None), of)
                for of, part in leaf.parts.items()
                if part in active and len(active[part])
            ]
            leaf.class_order = tuple([of for _, of in sorted(heads)])

    def note_refusal(self) -> None:
        """Note that a gang was refused because of its pool's entitlement."""
        self._refused = True

    def demand_moved(self, now: float) -> bool:
        """Return whether entitlement is due because of demand.

        It is where a gang was refused and some pool's load differs from what entitlement was calculated
        from, but at most once in `Limits.sharing_interval` seconds.
        """
        return self._refused and now >= self._next and loads(self.tree) != self._loads

    def follow_demand(self, now: float) -> None:
        """Share the capacity anew if that is due because of demand."""
        if self.tree.capacity is not None and self.demand_moved(now):
            self._next = now + self._lifecycle.limits.sharing_interval
            self.entitle()


def loads(tree: PoolTree) -> Loads:
    """Return what entitlement depends on beside the tree and the capacity."""
    whole = tuple([(*pool.used, *pool.slack, *pool.demand, *pool.slack_demand) for pool in tree.leaves()])
    if tree.classes is None:
        return whole
    of_parts = [
        (
            *pool.class_order,
            *(
                (of, *part.used, *part.slack, *part.demand, *part.slack_demand)
                for of, part in pool.parts.items()
            ),
        )
        for pool in tree.leaves()
    ]
    return (*whole, *of_parts)


def division_of(tree: PoolTree, known: Division | None = None) -> Division:
    """Return the division of capacity among the pools of a tree: `known` where the pools are the same."""
    pools = [pool.config for pool in tree]
    return known if known is not None and known.pools == pools else Division(pools, tree.policy)


def entitle(tree: PoolTree, counted: Counted = _ALL, division: Division | None = None) -> None:
    """Set the entitlement of all pools. The capacity must be known.

    `counted`: the demand that counts for some leaves, or their parts, in place of all that they have.
    `division`: that of the tree's pools, where the caller keeps it.
    """
    if tree.classes is not None and tree.policy is None:
        entitle_by_class(tree, tree.classes, counted)
        return
    if tree.classes is not None:
        _entitle_each_class(tree, tree.classes, counted, division or division_of(tree))
        return
    assert tree.capacity is not None, "capacity is not known"
    division = division or division_of(tree)
    pools = [tree.get(pool_id) for pool_id in division.tree.ids]
    needs: LeafLoads = [_needs_of(pool, counted) if pool.leaf else _NO_LOAD for pool in pools]
    held = [pool.used for pool in pools]
    found = division.of(tree.capacity.values(), tree.slack_capacity.cpu, needs, held)
    for pool, (whole, slack) in zip(pools, found, strict=True):
        pool.entitle(whole, slack)


def _entitle_each_class(tree: PoolTree, classes: Classes, counted: Counted, division: Division) -> None:
    """Set the entitlement of all pools and of their parts by a policy, which shares each class by itself."""
    pools = [tree.get(pool_id) for pool_id in division.tree.ids]
    whole, slack = [ZERO] * len(pools), [ZERO] * len(pools)
    for of in classes:
        parts = [pool.in_class(of) for pool in pools]
        capacity = classes.capacity(of)
        pairs = zip(pools, parts, strict=True)
        needs: LeafLoads = [_needs_of(part, counted) if pool.leaf else _NO_LOAD for pool, part in pairs]
        held = [part.used for part in parts]
        found = division.of(capacity.normal.values(), capacity.slack_cpu, needs, held)
        for at, (part, amounts, wanted) in enumerate(zip(parts, found, division.wanted(needs), strict=True)):
            part.entitle(*amounts)
            part.demanded = wanted
            whole[at] += Resources(*amounts[0])
            slack[at] += Resources(*amounts[1])
    for pool, amount, for_slack in zip(pools, whole, slack, strict=True):
        pool.entitle(amount.values(), for_slack.values())


def _needs_of(pool: Pool, counted: Counted) -> tuple[Vector, Vector, Vector]:
    """Return a leaf's need without slack, its allocated slack, and its requested slack."""
    cpu, memory, disk, gpu = pool.firm()
    more = counted.get(pool, pool.demand)
    need = cpu + more[0], memory + more[1], disk + more[2], gpu + more[3]
    return need, _vector(pool.slack), _vector(pool.slack_demand)


def _vector(amounts: Sequence[int]) -> Vector:
    cpu, memory, disk, gpu = amounts
    return cpu, memory, disk, gpu


def entitle_by_class(tree: PoolTree, classes: Classes, counted: Counted = _ALL) -> None:
    """Set the entitlement of all pools and of their parts."""
    order = list(classes)
    number = {of: at for at, of in enumerate(order)}
    leaves = list(tree.leaves())
    found = entitlements_by_class(
        ClassedSnapshot(
            pools=[pool.config for pool in tree],
            capacity=[classes.capacity(of).normal for of in order],
            revocable_cpu=[classes.capacity(of).slack_cpu for of in order],
            loads={
                pool.id: {number[of]: load_of(part, counted.get(part)) for of, part in pool.parts.items()}
                for pool in leaves
                if pool.parts
            },
            class_orders={
                pool.id: [number[of] for of in pool.class_order] for pool in leaves if pool.class_order
            },
        )
    )
    for pool in tree:
        whole, slack = ZERO, ZERO
        for of, at in number.items():
            entitled, part = found.of_class[at][pool.id], pool.in_class(of)
            part.entitle(entitled.total.values(), entitled.slack.values())
            part.demanded = found.demanded[at][pool.id]
            whole, slack = whole + entitled.total, slack + entitled.slack
        pool.entitle(whole.values(), slack.values())


def load_of(pool: Pool, demand: Vector | None = None) -> Load:
    """Return the load of a leaf, or of a part of one; `demand` counts in place of its own."""
    return Load(
        allocation=Resources(*pool.firm()),
        demand=Resources(*(pool.demand if demand is None else demand)),
        slack_allocation=Resources(*pool.slack),
        slack_demand=Resources(*pool.slack_demand),
    )
