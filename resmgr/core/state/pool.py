"""A resource pool: configuration, allocation, and its parts in the classes of hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from peloton.model.host_class import HostClass
from peloton.model.ids import PoolId
from peloton.model.pool import PoolConfig, child_path
from peloton.model.resources import KINDS, Resources
from peloton.model.resources import total as total_of
from resmgr.core.state.amounts import NOTHING, Charge, Vector, add_to, percent_of, subtract_from, vector
from resmgr.core.state.classes import Classes
from resmgr.core.state.histograms import Histogram

DEFAULT_SLACK_PERCENT = 20.0


class Pool:
    """A node of the tree. Amounts are thousandths by kind; only the methods here change them."""

    __slots__ = (
        "ancestors",
        "children",
        "class_order",
        "classes",
        "config",
        "controller",
        "controller_limit",
        "demand",
        "entitlement",
        "firm_entitlement",
        "limit",
        "non_preemptible",
        "parent",
        "parts",
        "path",
        "reservation",
        "slack",
        "slack_demand",
        "slack_entitlement",
        "slack_limit",
        "tasks",
        "to_ready",
        "to_running",
        "unusable",
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
        self.unusable = False
        """Whether its queued demand cannot be used, so that others may be entitled to its part."""
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
        self.classes: Classes | None = None
        """The classes of hosts, where there are several: then the pool has a part for each."""
        self.parts: dict[HostClass, PoolPart] = {}
        """What it has in each class, as far as it was needed yet."""
        self.class_order: tuple[HostClass, ...] = ()
        """The classes of the gangs that are first in its queues, in the order in which they wait."""
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

    def take_over(self, other: Pool) -> None:
        """Take over the sums and the entitlement of the same pool in another tree."""
        self.entitlement, self.slack_entitlement = other.entitlement, other.slack_entitlement
        self.firm_entitlement, self.unusable = other.firm_entitlement, other.unusable
        self.used, self.slack = list(other.used), list(other.slack)
        self.non_preemptible, self.controller = list(other.non_preemptible), list(other.controller)
        self.demand, self.slack_demand = list(other.demand), list(other.slack_demand)
        self.tasks = other.tasks
        self.class_order = other.class_order

    def entitle(self, whole: Vector, slack: Vector) -> None:
        """Set the entitlement and the part of it for revocable tasks."""
        assert min(whole) >= 0 and min(slack) >= 0, f"{self}: entitled to {whole}, for revocable {slack}"
        self.entitlement, self.slack_entitlement, self.firm_entitlement = whole, slack, None
        self.unusable = False
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
        if self.classes is not None:
            for part in charge.parts():
                self.part(part).charge(part)

    def free(self, charge: Charge) -> None:
        """Free what `charge` allocated, here first: no sum gets negative."""
        cpu, memory, disk, gpu = charge.entitled
        for pool in self.ancestors:
            used = pool.used
            used[0] -= cpu
            used[1] -= memory
            used[2] -= disk
            used[3] -= gpu
            if charge.slack is not None:
                subtract_from(pool.slack, charge.slack)
        # The sums above have at least what this one has. Not min(): this is called for each task.
        used = self.used
        assert used[0] >= 0 <= used[1] and used[2] >= 0 <= used[3], (
            f"{self}: {used} without {charge.entitled}"
        )
        if charge.non_preemptible is not None:
            subtract_from(self.non_preemptible, charge.non_preemptible)
        if charge.controller is not None:
            subtract_from(self.controller, charge.controller)
        if self.classes is not None:
            for part in charge.parts():
                self.part(part).free(part)

    def add_demand(self, charge: Charge) -> None:
        """Count a gang that is queued here."""
        if charge.firm is not None:
            add_to(self.demand, charge.firm)
        if charge.slack is not None:
            add_to(self.slack_demand, charge.slack)
        if self.classes is not None:
            for part in charge.parts():
                self.part(part).add_demand(part)

    def remove_demand(self, charge: Charge) -> None:
        """Stop counting a gang that is no longer queued here."""
        if charge.firm is not None:
            subtract_from(self.demand, charge.firm)
        if charge.slack is not None:
            subtract_from(self.slack_demand, charge.slack)
        if self.classes is not None:
            for part in charge.parts():
                self.part(part).remove_demand(part)

    # Parts.

    def part(self, charge: Charge) -> Pool:
        """Return the part in the class where a charge counts; the pool itself where there is one class."""
        return self if self.classes is None else self.in_class(self.classes.of(charge.asked))

    def in_class(self, of: HostClass) -> PoolPart:
        """Return the part in a class, a new one where there is none yet."""
        part = self.parts.get(of)
        if part is None:
            part = self.parts[of] = PoolPart(self, of)
        return part

    def forget_parts(self, kept: Collection[HostClass]) -> None:
        """Forget the parts in other classes, which are gone. No task counts there."""
        for of in [of for of in self.parts if of not in kept]:
            del self.parts[of]

    def divided(self) -> list[Pool]:
        """Return its parts; the pool itself where there is one class of hosts."""
        return [self] if self.classes is None else list(self.parts.values())

    def count_part(self, charge: Charge, queued: bool) -> None:
        """Count in its part what the pool itself has counted already: as queued, or else as allocated."""
        if self.classes is not None:
            part = self.part(charge)
            if queued:
                part.add_demand(charge)
            else:
                part.charge(charge)

    def divide(self, classes: Classes | None) -> None:
        """Set the classes of hosts; None: one. The parts are empty: all is to be counted anew."""
        self.classes, self.parts, self.class_order = classes, {}, ()

    @property
    def whole(self) -> Pool:
        """Return the pool that this is a part of; itself where it is no part."""
        return self

    @property
    def hosts(self) -> str:
        """Return words for the hosts that it is about; empty: all."""
        return ""

    # Figures of a pool.

    def usable(self) -> Vector:
        """Return what of the entitlement its tasks can use: in the classes of hosts in which it has some.

        A kind that it has in none counts over all classes.
        """
        if self.classes is None or self.parent is None:
            return self.entitlement
        parts = [(part.entitlement, part.wanted()) for part in self.parts.values()]
        return vector(
            sum(found) if (found := [entitled[kind] for entitled, wanted in parts if wanted[kind]]) else whole
            for kind, whole in enumerate(self.entitlement)
        )

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


class PoolPart(Pool):
    """What a pool has in one class of hosts. Its parent is the parent's part; it has no parts of its own.

    Reservation, limits, and what is allocated to controllers and to tasks that are not preemptible, count for
    the whole pool.
    """

    __slots__ = ("_of", "_whole", "demanded")

    def __init__(self, whole: Pool, of: HostClass) -> None:
        self._whole = whole
        self._of = of
        self.demanded: Vector = NOTHING
        """The demand here and below, allocation included, that counted when entitlement was calculated."""
        super().__init__(whole.config, None if whole.parent is None else whole.parent.in_class(of))

    def __repr__(self) -> str:
        return f"<pool {self.path} on {self.hosts}>"

    def take_over(self, other: Pool) -> None:
        """Take over the sums and the entitlement of the same part in another tree."""
        super().take_over(other)
        assert isinstance(other, PoolPart)
        self.demanded = other.demanded

    @property
    def whole(self) -> Pool:
        """Return the pool that this is a part of."""
        return self._whole

    @property
    def host_class(self) -> HostClass:
        """Return the class."""
        return self._of

    @property
    def hosts(self) -> str:
        """Return words for the hosts that it is about."""
        return self._whole.classes.name(self._of) if self._whole.classes is not None else ""

    def wanted(self) -> tuple[bool, ...]:
        """Return for each kind whether the pool has tasks here, running or waiting."""
        sums = zip(self.used, self.slack, self.demand, self.slack_demand, self.demanded, strict=True)
        return tuple(map(any, sums))

    def subtree(self) -> Iterator[Pool]:
        """Iterate over this part and those of all pools below, parents first."""
        return (each.parts[self._of] for each in self._whole.subtree() if self._of in each.parts)
