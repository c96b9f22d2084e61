"""Resource pools as a tree: configuration, allocation, and the checks of changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import KindConfig, PoolConfig, child_path
from peloton.model.resources import KINDS, Resources
from peloton.model.resources import total as total_of
from resmgr.core.state.amounts import NOTHING, Charge, Vector, add_to, percent_of, subtract_from, vector
from resmgr.core.state.histograms import Histogram
from resmgr.core.state.pool_checks import check_against_tree, check_alone

DEFAULT_SLACK_PERCENT = 20.0


class PoolExists(AlreadyExists):
    """A sibling has the same name."""

    def __init__(self, pool_id: PoolId, path: str) -> None:
        self.pool_id = pool_id
        super().__init__(f"name: there is a pool {path} already, with id {pool_id}")


class PoolBusy(Refused):
    """The pool has tasks, waiting or with allocation."""


class PoolNotLeaf(Refused):
    """The pool has children."""


class Pool:
    """A node of the tree. Amounts are thousandths by kind; only the methods here change them."""

    __slots__ = (
        "ancestors",
        "children",
        "config",
        "controller",
        "controller_limit",
        "demand",
        "entitlement",
        "firm_entitlement",
        "limit",
        "non_preemptible",
        "parent",
        "path",
        "reservation",
        "slack",
        "slack_demand",
        "slack_entitlement",
        "slack_limit",
        "tasks",
        "to_ready",
        "to_running",
        "used",
    )

    def __init__(self, config: PoolConfig, parent: Pool | None) -> None:
        self.parent = parent
        self.children: dict[str, Pool] = {}
        self.path: str = "/" if parent is None else child_path(parent.path, config.name)
        self.ancestors: tuple[Pool, ...] = (self,) if parent is None else (self, *parent.ancestors)
        """The pool itself, its parent, and so on up to the root."""
        self.entitlement: Vector = NOTHING
        self.slack_entitlement: Vector = NOTHING
        """For revocable tasks: a part of the entitlement, except the cpu, which is slack cpu on top of it."""
        self.firm_entitlement: Vector | None = None
        """The part of the entitlement for tasks that are not revocable; None: all of it."""
        self.used = [0, 0, 0, 0]
        """Allocated from the entitlement: everything except the slack cpu."""
        self.slack = [0, 0, 0, 0]
        """Allocated to revocable tasks; its cpu is slack cpu."""
        self.non_preemptible = [0, 0, 0, 0]
        """Kept by leaves only, like `controller`, `demand` and `slack_demand`."""
        self.controller = [0, 0, 0, 0]
        self.demand = [0, 0, 0, 0]
        """Requested by queued tasks that are not revocable."""
        self.slack_demand = [0, 0, 0, 0]
        self.tasks = 0
        """Tasks of this leaf in any state, orphans included."""
        self.to_ready = Histogram()
        """Seconds from queueing to admission, of gangs."""
        self.to_running = Histogram()
        """Seconds from enqueueing to running, of runs."""
        self.configure(config)

    def __repr__(self) -> str:
        return f"<pool {self.path}>"

    @property
    def id(self) -> PoolId:
        """Return the id of the config."""
        return self.config.id

    @property
    def leaf(self) -> bool:
        """Return whether it takes jobs."""
        return not self.children and self.parent is not None

    def configure(self, config: PoolConfig) -> None:
        """Take over a config."""
        self.config = config
        kinds = [config.kind(name) for name in KINDS]
        self.reservation: Vector = vector(kind.reservation for kind in kinds)
        self.limit: Vector = vector(kind.limit for kind in kinds)
        self.controller_limit: Vector | None = None
        if config.controller_limit_percent is not None:
            self.controller_limit = percent_of(self.reservation, config.controller_limit_percent)
        percent = config.slack_limit_percent
        share = percent_of(self.reservation, DEFAULT_SLACK_PERCENT if percent is None else percent)
        self.slack_limit: Vector = (0, *share[1:])

    def entitle(self, whole: Vector, slack: Vector) -> None:
        """Set the entitlement and the part of it for revocable tasks."""
        self.entitlement, self.slack_entitlement, self.firm_entitlement = whole, slack, None
        if any(slack[1:]):
            self.firm_entitlement = (whole[0], whole[1] - slack[1], whole[2] - slack[2], whole[3] - slack[3])

    def firm(self) -> Vector:
        """Return what is allocated to tasks that are not revocable."""
        used, slack = self.used, self.slack
        return used[0], used[1] - slack[1], used[2] - slack[2], used[3] - slack[3]

    def charge(self, charge: Charge) -> None:
        """Allocate here, and in all ancestors what they share."""
        cpu, memory, disk, gpu = charge.entitled
        for pool in self.ancestors:
            used = pool.used
            used[0] += cpu
            used[1] += memory
            used[2] += disk
            used[3] += gpu
            if charge.slack is not None:
                add_to(pool.slack, charge.slack)
        if charge.non_preemptible is not None:
            add_to(self.non_preemptible, charge.non_preemptible)
        if charge.controller is not None:
            add_to(self.controller, charge.controller)

    def free(self, charge: Charge) -> None:
        """Free what `charge` allocated."""
        cpu, memory, disk, gpu = charge.entitled
        for pool in self.ancestors:
            used = pool.used
            used[0] -= cpu
            used[1] -= memory
            used[2] -= disk
            used[3] -= gpu
            if charge.slack is not None:
                subtract_from(pool.slack, charge.slack)
        if charge.non_preemptible is not None:
            subtract_from(self.non_preemptible, charge.non_preemptible)
        if charge.controller is not None:
            subtract_from(self.controller, charge.controller)

    def add_demand(self, charge: Charge) -> None:
        """Count a gang that is queued here."""
        if charge.firm is not None:
            add_to(self.demand, charge.firm)
        if charge.slack is not None:
            add_to(self.slack_demand, charge.slack)

    def remove_demand(self, charge: Charge) -> None:
        """Stop counting a gang that is no longer queued here."""
        if charge.firm is not None:
            subtract_from(self.demand, charge.firm)
        if charge.slack is not None:
            subtract_from(self.slack_demand, charge.slack)

    # Figures of a pool.

    def allocation(self) -> dict[str, Resources]:
        """Return the sums by name (docs/behaviour/pools.md, Admission)."""
        slack = Resources(*self.slack)
        total = Resources(*self.used) + Resources(cpu=slack.cpu)
        fixed = self._subtree_total("non_preemptible")
        return {
            "total": total,
            "non-preemptible": fixed,
            "preemptible": total - fixed,
            "controller": self._subtree_total("controller"),
            "slack": slack,
            "non-slack": total - slack,
        }

    def total_demand(self) -> Resources:
        """Return what is queued in this pool and below it, slack included."""
        return self._subtree_total("demand") + self._subtree_total("slack_demand")

    def _subtree_total(self, name: str) -> Resources:
        """Return the sum of an amount that only leaves keep."""
        return total_of(Resources(*getattr(pool, name)) for pool in self.subtree())

    def subtree(self) -> Iterator[Pool]:
        """Iterate over this pool and all pools below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.subtree()


class PoolTree:
    """All pools by id and by path. A change is checked completely before anything changes."""

    def __init__(self) -> None:
        self.root = Pool(PoolConfig(ROOT_POOL, "root", ""), None)
        self._pools: dict[PoolId, Pool] = {ROOT_POOL: self.root}
        self.capacity: Resources | None = None
        self.slack_capacity = Resources()

    def __iter__(self) -> Iterator[Pool]:
        """Iterate over all pools, parents before their children."""
        return self.root.subtree()

    def __len__(self) -> int:
        return len(self._pools)

    def leaves(self) -> Iterator[Pool]:
        """Iterate over the pools that take jobs."""
        return (pool for pool in self if pool.leaf)

    def find(self, pool_id: PoolId) -> Pool | None:
        """Return the pool of that id, if there is one."""
        return self._pools.get(pool_id)

    def get(self, pool_id: PoolId) -> Pool:
        """Return the pool of that id. Raises NotFound."""
        pool = self.find(pool_id)
        if pool is None:
            raise NotFound(f"no resource pool has the id {pool_id!r}")
        return pool

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
        parent.children[config.name] = pool
        self._pools[config.id] = pool
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
        pool.configure(config)
        for each in pool.subtree():
            assert each.parent is not None
            each.path = child_path(each.parent.path, each.config.name)
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
            raise PoolBusy(f"{pool.path} has {pool.tasks} tasks: allocation {total}; demand {demand}")
        return pool

    def delete(self, pool_id: PoolId) -> None:
        """Delete a pool. Raises as `check_delete`."""
        pool = self.check_delete(pool_id)
        assert pool.parent is not None
        del pool.parent.children[pool.config.name]
        del self._pools[pool_id]

    def set_capacity(self, capacity: Resources, slack: Resources) -> None:
        """Set the cluster's capacity, which is the root's reservation and limit."""
        self.capacity, self.slack_capacity = capacity, slack
        kinds = {
            name: KindConfig(amount, amount) for name, amount in zip(KINDS, capacity.values(), strict=True)
        }
        self.root.configure(PoolConfig(ROOT_POOL, "root", "", kinds))

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
