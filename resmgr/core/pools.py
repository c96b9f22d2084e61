"""Resource pools as a tree: what is configured, what is allocated, which changes are let in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.resources import total as total_of
from resmgr.core.histograms import Times
from resmgr.core.pool_checks import check_against_tree, check_alone
from resmgr.core.queues import GangQueue
from resmgr.core.tasks import Charge, Gang, Vector

NOTHING: Vector = (0, 0, 0, 0)
DEFAULT_SLACK_PERCENT = 20.0
QUEUES = ("non-preemptible", "controller", "revocable", "pending")
"""In the order in which they are tried."""


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
    """A node of the tree. Amounts are thousandths by kind; they change through `charge` and `free` only."""

    __slots__ = (
        "children",
        "config",
        "controller",
        "controller_limit",
        "demand",
        "entitlement",
        "firm_entitlement",
        "limit",
        "lineage",
        "non_preemptible",
        "parent",
        "path",
        "queues",
        "reservation",
        "slack",
        "slack_demand",
        "slack_entitlement",
        "slack_limit",
        "tasks",
        "to_ready",
        "to_running",
        "unexplained",
        "used",
    )

    def __init__(self, config: PoolConfig, parent: Pool | None) -> None:
        self.parent = parent
        self.children: dict[str, Pool] = {}
        self.path: str = "/" if parent is None else f"{parent.path.rstrip('/')}/{config.name}"
        self.lineage: tuple[Pool, ...] = (self,) if parent is None else (self, *parent.lineage)
        """This pool, its parent, and so on up to the root."""
        self.entitlement: Vector = NOTHING
        self.slack_entitlement: Vector = NOTHING
        """For revocable tasks: a part of the entitlement, but the cpu, which is slack cpu, on top of it."""
        self.firm_entitlement: Vector | None = None
        """What of the entitlement is for tasks that are not revocable; None: all of it."""
        self.used = [0, 0, 0, 0]
        """Allocated from what the pool is entitled to: all of it but the slack cpu."""
        self.slack = [0, 0, 0, 0]
        """Allocated to revocable tasks; its cpu is slack cpu."""
        self.non_preemptible = [0, 0, 0, 0]
        """Like `controller`, `demand` and `slack_demand` kept by leaves only; a parent's is the sum."""
        self.controller = [0, 0, 0, 0]
        self.demand = [0, 0, 0, 0]
        """Asked for by tasks that are queued here and not revocable."""
        self.slack_demand = [0, 0, 0, 0]
        self.queues = tuple(GangQueue(name) for name in QUEUES)
        self.tasks = 0
        """Tasks that belong to this leaf, in whatever state, orphans included."""
        self.to_ready = Times()
        """Of gangs, from coming into the pool's queues to admission."""
        self.to_running = Times()
        """Of runs, from being enqueued to running."""
        self.unexplained: deque[Gang] = deque()
        """Gangs that were queued here and have not been told why they wait."""
        self.configure(config)

    def __repr__(self) -> str:
        return f"<pool {self.path}>"

    @property
    def id(self) -> PoolId:
        return self.config.id

    @property
    def leaf(self) -> bool:
        """Whether it takes jobs."""
        return not self.children and self.parent is not None

    @property
    def waiting(self) -> int:
        """Number of gangs in its queues."""
        return sum(map(len, self.queues))

    @property
    def pending(self) -> GangQueue:
        return self.queues[3]

    def configure(self, config: PoolConfig) -> None:
        self.config = config
        kinds = [config.kind(name) for name in KINDS]
        self.reservation: Vector = _vector(kind.reservation for kind in kinds)
        self.limit: Vector = _vector(kind.limit for kind in kinds)
        self.controller_limit: Vector | None = None
        if config.controller_limit_percent is not None:
            self.controller_limit = _percent(self.reservation, config.controller_limit_percent)
        percent = config.slack_limit_percent
        share = _percent(self.reservation, DEFAULT_SLACK_PERCENT if percent is None else percent)
        self.slack_limit: Vector = (0, *share[1:])

    def entitle(self, whole: Vector, slack: Vector) -> None:
        """Both its entitlement and the part of it that is for revocable tasks."""
        self.entitlement, self.slack_entitlement, self.firm_entitlement = whole, slack, None
        if any(slack[1:]):
            self.firm_entitlement = (whole[0], whole[1] - slack[1], whole[2] - slack[2], whole[3] - slack[3])

    def firm(self) -> Vector:
        """Allocated to tasks that are not revocable."""
        used, slack = self.used, self.slack
        return used[0], used[1] - slack[1], used[2] - slack[2], used[3] - slack[3]

    def charge(self, charge: Charge) -> None:
        """Allocate: here, and as far as others share it all the way up."""
        cpu, memory, disk, gpu = charge.entitled
        for pool in self.lineage:
            used = pool.used
            used[0] += cpu
            used[1] += memory
            used[2] += disk
            used[3] += gpu
            if charge.slack is not None:
                _add(pool.slack, charge.slack)
        if charge.non_preemptible is not None:
            _add(self.non_preemptible, charge.non_preemptible)
        if charge.controller is not None:
            _add(self.controller, charge.controller)

    def free(self, charge: Charge) -> None:
        """Give back what `charge` allocated."""
        cpu, memory, disk, gpu = charge.entitled
        for pool in self.lineage:
            used = pool.used
            used[0] -= cpu
            used[1] -= memory
            used[2] -= disk
            used[3] -= gpu
            if charge.slack is not None:
                _subtract(pool.slack, charge.slack)
        if charge.non_preemptible is not None:
            _subtract(self.non_preemptible, charge.non_preemptible)
        if charge.controller is not None:
            _subtract(self.controller, charge.controller)

    def want(self, charge: Charge) -> None:
        """Queued here."""
        if charge.firm is not None:
            _add(self.demand, charge.firm)
        if charge.slack is not None:
            _add(self.slack_demand, charge.slack)

    def unwant(self, charge: Charge) -> None:
        """No longer queued here."""
        if charge.firm is not None:
            _subtract(self.demand, charge.firm)
        if charge.slack is not None:
            _subtract(self.slack_demand, charge.slack)

    # What is told of a pool.

    def allocation(self) -> dict[str, Resources]:
        """As counted: total, non-preemptible, preemptible, controller, slack, non-slack (behaviour 7.3)."""
        slack = Resources(*self.slack)
        total = Resources(*self.used) + Resources(cpu=slack.cpu)
        fixed = self._below_together("non_preemptible")
        return {
            "total": total,
            "non-preemptible": fixed,
            "preemptible": total - fixed,
            "controller": self._below_together("controller"),
            "slack": slack,
            "non-slack": total - slack,
        }

    def total_demand(self) -> Resources:
        """What is queued in this pool and below it, slack included."""
        return self._below_together("demand") + self._below_together("slack_demand")

    def _below_together(self, name: str) -> Resources:
        """Sum of what only leaves keep."""
        return total_of(Resources(*getattr(pool, name)) for pool in self.below())

    def below(self) -> Iterator[Pool]:
        """This pool and all below it, parents first."""
        yield self
        for child in self.children.values():
            yield from child.below()


class PoolTree:
    """All pools by id and by path. A change is checked whole before anything changes."""

    def __init__(self) -> None:
        self.root = Pool(PoolConfig(ROOT_POOL, "root", ""), None)
        self._pools: dict[PoolId, Pool] = {ROOT_POOL: self.root}
        self.capacity: Resources | None = None
        self.slack_capacity = Resources()

    def __iter__(self) -> Iterator[Pool]:
        """Parents before their children."""
        return self.root.below()

    def __len__(self) -> int:
        return len(self._pools)

    def leaves(self) -> Iterator[Pool]:
        return (pool for pool in self if pool.leaf)

    def find(self, pool_id: PoolId) -> Pool | None:
        return self._pools.get(pool_id)

    def get(self, pool_id: PoolId) -> Pool:
        """Raises NotFound."""
        pool = self.find(pool_id)
        if pool is None:
            raise NotFound(f"no resource pool has the id {pool_id!r}")
        return pool

    def lookup(self, path: str) -> Pool:
        """Raises InvalidArgument for what is no path, NotFound for one that is not there."""
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
        """What the store holds, in any order, without checks. Of siblings with one name the oldest keeps it;
        the others, which are returned, have their id beside it. Raises NotFound where a parent is missing."""
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
        """Raises InvalidArgument or PoolExists."""
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

    def add(self, config: PoolConfig) -> Pool:
        """Raises as `check_new`."""
        self.check_new(config)
        return self.insert(config)

    def insert(self, config: PoolConfig) -> Pool:
        """Without checks: what was checked, or was there before. Its parent must be there."""
        parent = self._pools[config.parent]
        pool = Pool(config, parent)
        parent.children[config.name] = pool
        self._pools[config.id] = pool
        return pool

    def check_update(self, config: PoolConfig, force: bool = False) -> None:
        """Raises NotFound or InvalidArgument. `force` leaves out what relates the pool to others."""
        pool = self.get(config.id)
        if pool is self.root:
            raise InvalidArgument("id", config.id, "a pool that may change: the root is fixed")
        check_alone(config)
        assert pool.parent is not None
        if config.parent != pool.parent.id:
            raise InvalidArgument("parent", config.parent, f"{pool.parent.id!r}: a pool keeps its parent")
        same = pool.parent.children.get(config.name)
        if same is not None and same is not pool:
            raise InvalidArgument("name", config.name, f"free: {same.path} has it already")
        if not force:
            self._check_against(config, pool.parent, [child.config for child in pool.children.values()])

    def update(self, config: PoolConfig, force: bool = False) -> Pool:
        """Raises as `check_update`."""
        self.check_update(config, force)
        return self.replace(config)

    def replace(self, config: PoolConfig) -> Pool:
        """Without checks: what was checked."""
        pool = self.get(config.id)
        assert pool.parent is not None
        if config.name != pool.config.name:
            del pool.parent.children[pool.config.name]
            pool.parent.children[config.name] = pool
        pool.configure(config)
        for each in pool.below():
            assert each.parent is not None
            each.path = f"{each.parent.path.rstrip('/')}/{each.config.name}"
        return pool

    def check_delete(self, pool_id: PoolId) -> Pool:
        """Raises NotFound, PoolNotLeaf, PoolBusy, or Refused for the root."""
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
        """Raises as `check_delete`."""
        pool = self.check_delete(pool_id)
        assert pool.parent is not None
        del pool.parent.children[pool.config.name]
        del self._pools[pool_id]

    def set_capacity(self, capacity: Resources, slack: Resources) -> None:
        """What the cluster has: the root's reservation, limit and entitlement."""
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
            limit_held=parent is not self.root,
        )


def _vector(amounts: Iterable[int]) -> Vector:
    cpu, memory, disk, gpu = amounts
    return cpu, memory, disk, gpu


def _percent(amounts: Vector, percent: float) -> Vector:
    return _vector(int(amount * percent / 100) for amount in amounts)


def _add(sums: list[int], amounts: Vector) -> None:
    sums[0] += amounts[0]
    sums[1] += amounts[1]
    sums[2] += amounts[2]
    sums[3] += amounts[3]


def _subtract(sums: list[int], amounts: Vector) -> None:
    sums[0] -= amounts[0]
    sums[1] -= amounts[1]
    sums[2] -= amounts[2]
    sums[3] -= amounts[3]
