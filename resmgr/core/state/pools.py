"""Resource pools as a tree, and the checks of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.plural import plural
from peloton.model.pool import KindConfig, PoolConfig, child_path
from peloton.model.resources import KINDS, Resources
from resmgr.core.state.classes import ClassCapacities, Classes
from resmgr.core.state.entitlement_policy import EntitlementPolicy
from resmgr.core.state.pool import Pool, PoolPart
from resmgr.core.state.pool_checks import check_against_tree, check_alone


class PoolExists(AlreadyExists):
    """A sibling has the same name."""

    def __init__(self, pool_id: PoolId, path: str) -> None:
        self.pool_id = pool_id
        super().__init__(f"name: there is a pool {path} already, with id {pool_id}")


class PoolBusy(Refused):
    """The pool has tasks, waiting or with allocation."""


class PoolNotLeaf(Refused):
    """The pool has children."""


class PoolTree:
    """All pools by id and by path. A change is checked completely before anything changes."""

    def __init__(self, policy: EntitlementPolicy | None = None) -> None:
        """Begin with the root alone. `policy`: the rule by which capacity is shared; None: Peloton's own."""
        self.policy = policy
        self.root = Pool(PoolConfig(ROOT_POOL, "root", ""), None)
        self._pools: dict[PoolId, Pool] = {ROOT_POOL: self.root}
        self.capacity: Resources | None = None
        self.slack_capacity = Resources()
        self.classes: Classes | None = None
        """The classes of hosts, where there are several."""
        self._order: list[Pool] = []
        """All pools, parents before their children; empty where it is to be found anew."""
        self._leaves: list[Pool] = []

    def __iter__(self) -> Iterator[Pool]:
        """Iterate over all pools, parents before their children."""
        self._find_order()
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._pools)

    def leaves(self) -> Iterator[Pool]:
        """Iterate over the pools that take jobs."""
        self._find_order()
        return iter(self._leaves)

    def _find_order(self) -> None:
        """Find the order of the pools, where it has changed: entitlement asks for it all the time."""
        if not self._order:
            self._order = list(self.root.subtree())
            self._leaves = [pool for pool in self._order if pool.leaf]

    def find(self, pool_id: PoolId) -> Pool | None:
        """Return the pool of that id, if there is one."""
        return self._pools.get(pool_id)

    def get(self, pool_id: PoolId) -> Pool:
        """Return the pool of that id. Raises NotFound."""
        pool = self.find(pool_id)
        if pool is None:
            raise NotFound(f"no resource pool has the id {pool_id!r}")
        return pool

    def copy(self) -> PoolTree:
        """Return a copy, for plans, without histograms: a change of one leaves the other as it is."""
        made = PoolTree(self.policy)
        made.capacity, made.slack_capacity = self.capacity, self.slack_capacity
        made.classes = None if self.classes is None else self.classes.copy()
        made.root.configure(self.root.config)
        made.root.divide(made.classes)
        for pool in self:
            new = made.root if pool is self.root else made.insert(pool.config)
            new.take_over(pool)
            for of, part in pool.parts.items():
                new.in_class(of).take_over(part)
        return made

    def counterpart(self, pool: Pool) -> Pool:
        """Return the same pool, or part of one, in this tree, which is a copy of its own. Raises NotFound."""
        found = self.get(pool.id)
        return found.in_class(pool.host_class) if isinstance(pool, PoolPart) else found

    def lookup(self, path: str) -> Pool:
        """Return the pool of that path. Raises InvalidArgument and NotFound."""
        if not path.startswith("/") or "//" in path:
            raise InvalidArgument("path", path, "a path such as /a/b")
        pool = self.root
        for name in path.strip("/").split("/") if path != "/" else ():
            child = pool.children.get(name)
            if child is None:
                raise NotFound(f"no resource pool {path!r}: {pool.path} has no child {name!r}")
            pool = child
        return pool

    def load(self, configs: Iterable[PoolConfig]) -> list[Pool]:
        """Insert what the store holds, in any order, without checks; return the pools that were renamed.

        Of siblings with the same name the oldest keeps it, and the others get their id appended. Raises
        NotFound where a parent is missing.
        """
        waiting = {
            config.id: config
            for config in sorted(configs, key=lambda config: (config.created_at, config.id))
            if config.id != ROOT_POOL
        }
        renamed: list[Pool] = []
        while waiting:
            ready = [config for config in waiting.values() if config.parent in self._pools]
            if not ready:
                lost = next(iter(waiting.values()))
                raise NotFound(f"pool {lost.id} ({lost.name}) is stored, its parent {lost.parent!r} is not")
            for config in ready:
                del waiting[config.id]
                if config.name in self._pools[config.parent].children:
                    renamed.append(self.insert(replace(config, name=f"{config.name}~{config.id}")))
                else:
                    self.insert(config)
        return renamed

    def check_new(self, config: PoolConfig) -> None:
        """Check a new pool. Raises InvalidArgument or PoolExists."""
        check_alone(config)
        parent = self._pools.get(config.parent)
        if parent is None:
            raise InvalidArgument("parent", config.parent, "the id of a resource pool")
        if config.name in parent.children:
            same = parent.children[config.name]
            raise PoolExists(same.id, same.path)
        if parent.tasks:
            raise InvalidArgument("parent", config.parent, f"a pool without tasks ({parent.path} has some)")
        self._check_against(config, parent, ())

    def insert(self, config: PoolConfig) -> Pool:
        """Insert a pool without checks. Its parent must be in the tree."""
        parent = self._pools[config.parent]
        pool = Pool(config, parent)
        pool.divide(self.classes)
        parent.children[config.name] = pool
        self._pools[config.id] = pool
        self._order = []
        return pool

    def check_update(self, config: PoolConfig, force: bool = False) -> None:
        """Check a changed config. `force` skips what relates amounts to each other and to those of relatives.

        Raises NotFound or InvalidArgument.
        """
        pool = self.get(config.id)
        if pool is self.root:
            raise InvalidArgument("id", config.id, "a pool that may change: the root is fixed")
        check_alone(config, force)
        assert pool.parent is not None
        if config.parent != pool.parent.id:
            raise InvalidArgument("parent", config.parent, f"{pool.parent.id!r}: a pool keeps its parent")
        same = pool.parent.children.get(config.name)
        if same is not None and same is not pool:
            raise InvalidArgument("name", config.name, f"free: {same.path} has it already")
        if not force:
            self._check_against(config, pool.parent, [child.config for child in pool.children.values()])

    def replace(self, config: PoolConfig) -> Pool:
        """Apply a changed config without checks."""
        pool = self.get(config.id)
        assert pool.parent is not None
        if config.name != pool.config.name:
            del pool.parent.children[pool.config.name]
            pool.parent.children[config.name] = pool
            self._order = []
        pool.configure(config)
        for each in pool.subtree():
            assert each.parent is not None
            each.path = child_path(each.parent.path, each.config.name)
            for part in each.parts.values():
                part.path = each.path
        for part in pool.parts.values():
            part.configure(config)
        return pool

    def check_delete(self, pool_id: PoolId) -> Pool:
        """Return the pool if it may be deleted.

        Raises NotFound, PoolNotLeaf, PoolBusy, or Refused for the root.
        """
        pool = self.get(pool_id)
        if pool is self.root:
            raise Refused("the root pool is fixed")
        if pool.children:
            names = ", ".join(pool.children)
            raise PoolNotLeaf(f"{pool.path} has pools below it: {names}; delete those first")
        if pool.tasks:
            total, demand = pool.allocation()["total"], pool.total_demand()
            raise PoolBusy(
                f"{pool.path} has {plural(pool.tasks, 'task')}: allocation {total}; demand {demand}"
            )
        return pool

    def delete(self, pool_id: PoolId) -> None:
        """Delete a pool. Raises as `check_delete`."""
        pool = self.check_delete(pool_id)
        assert pool.parent is not None
        del pool.parent.children[pool.config.name]
        del self._pools[pool_id]
        self._order = []

    def set_capacity(self, capacity: Resources, slack: Resources) -> None:
        """Set the cluster's capacity, which is the root's reservation and limit."""
        self.capacity, self.slack_capacity = capacity, slack
        kinds = {
            name: KindConfig(amount, amount) for name, amount in zip(KINDS, capacity.values(), strict=True)
        }
        self.root.configure(PoolConfig(ROOT_POOL, "root", "", kinds))

    def set_classes(self, capacities: ClassCapacities) -> bool:
        """Set what the classes of hosts have; return whether the tasks must be counted anew.

        They must where there are several now and were not before, or the other way round, or where tasks are
        in another class now: then the parts of pools are empty.
        """
        if len(capacities) < 2:
            if self.classes is None:
                return False
            self.classes = None
        elif self.classes is not None and self.classes.take_over(capacities):
            for pool in self:
                pool.forget_parts(capacities)
            return False
        else:
            self.classes = Classes(capacities)
        for pool in self:
            pool.divide(self.classes)
        return True

    def _check_against(self, config: PoolConfig, parent: Pool, children: Iterable[PoolConfig]) -> None:
        others = [child.config for child in parent.children.values() if child.id != config.id]
        known = parent is not self.root or self.capacity is not None
        check_against_tree(
            config,
            parent.config if known else None,
            parent.path,
            others,
            children,
            limit_bounded=parent is not self.root,
        )
