"""The ordered filters of a plan: each refuses hosts for tasks that are alike, under the name of a rule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from peloton.model.constraint import Kind, mentions
from peloton.model.host_class import EXCLUSIVE
from placement.core.labels import Mask
from placement.core.model import HostClass, Needs
from placement.core.policy import Policy
from placement.core.table import CPU, DISK, GPU, LAUNCHES, MEMORY, PORTS, SLACK, HostTable, Want

CLAIM = "claimed_for_others"
SCARCE = "scarce_resources"
CONSTRAINT = "mismatch_constraints"
TASKS = "mismatch_task_constraints"
SPREAD = "task_of_the_same_job"
STARTING = "too_many_starting"
RESOURCES = "insufficient_offer_resources"
NO_PORTS = "insufficient_ports"

_KINDS = (CPU, MEMORY, DISK, GPU, SLACK)
Filter = tuple[str, Callable[["Filters", Want], Mask | None]]
"""The name of a rule, and a function that returns the hosts that pass, None where all do."""


class Filters:
    """Filters of one plan. Masks that do not change while tasks are placed are kept."""

    def __init__(self, table: HostTable, policy: Policy) -> None:
        self.table = table
        self._policy = policy
        hosts = table.hosts
        self._classes = {host.host_class for host in hosts}
        self._unclaimed = np.array([host.host_class is None for host in hosts], dtype=bool)
        self._has_gpu = np.array([host.has_gpu or host.free.gpu > 0 for host in hosts], dtype=bool)
        self._of_class: dict[HostClass, Mask] = {}
        self._lasting: dict[HostClass, Mask] = {}
        self._bounded = bool((table.free[LAUNCHES] < len(hosts) + (1 << 40)).any())
        self._buffer = np.empty(len(hosts), dtype=bool)

    def passing(self, want: Want, rows: slice) -> Mask:
        """Return which of some rows take one such task."""
        mask = self._lasting_mask(want.needs)[rows].copy()
        if want.tree is not None:
            mask &= self.table.labels.holds(want.tree, rows)
        if want.job:
            mask &= ~self.table.with_job(want.job)[rows]
        buffer, free = self._buffer[: len(mask)], self.table.free
        for kind, amount in want.limits:
            if kind != LAUNCHES or self._bounded:
                np.greater_equal(free[kind][rows], amount, out=buffer)
                mask &= buffer
        ports = self._ports(want) if want.fixed else None
        return mask if ports is None else mask & ports[rows]

    def refusals(self, want: Want) -> dict[str, int]:
        """Return how many hosts each rule refuses, and how many pass under the name `match`.

        A host that several rules refuse counts for the first.
        """
        left = np.ones(len(self.table), dtype=bool)
        counts: dict[str, int] = {}
        for rule, passing in FILTERS:
            passed = passing(self, want)
            if passed is None:
                continue
            refused = int(np.count_nonzero(left & ~passed))
            if refused:
                counts[rule] = refused
            left &= passed
        counts["match"] = int(np.count_nonzero(left))
        return counts

    def without_resources(self, want: Want) -> Mask:
        """Return the hosts that pass all filters but those of amounts."""
        mask = np.ones(len(self.table), dtype=bool)
        for rule, passing in FILTERS:
            passed = passing(self, want) if rule not in (STARTING, RESOURCES, NO_PORTS) else None
            if passed is not None:
                mask &= passed
        return mask

    def _lasting_mask(self, needs: Needs) -> Mask:
        """Return the hosts that pass the filters that do not change while tasks are placed."""
        mask = self._lasting.get(needs.host_class)
        if mask is None:
            mask = np.ones(len(self.table), dtype=bool)
            for passed in (self._claimed(needs), self._scarce(needs), self._constraint(needs)):
                if passed is not None:
                    mask &= passed
            self._lasting[needs.host_class] = mask
        return mask

    def _claimed(self, needs: Needs) -> Mask | None:
        if self._classes <= {needs.host_class, None}:
            return None
        fitting = (
            host.host_class is None or host.host_class == needs.host_class for host in self.table.hosts
        )
        return np.fromiter(fitting, dtype=bool, count=len(self.table))

    def _scarce(self, needs: Needs) -> Mask | None:
        if needs.host_class.gpu or not self._policy.scarce_gpu:
            return None
        passed: Mask = ~(self._has_gpu & self._unclaimed)
        return passed

    def _constraint(self, needs: Needs) -> Mask | None:
        """Return the hosts that the constraint does not exclude whatever tasks are there."""
        if not self._unclaimed.any():
            return None
        tree = needs.host_class.tree
        mask = np.ones(len(self.table), dtype=bool)
        if tree is not None:
            mask &= self.table.labels.may_hold(tree)
        if not mentions(tree, Kind.HOST, EXCLUSIVE):
            mask &= ~self.table.labels.exclusive()
        passed: Mask = mask | ~self._unclaimed
        return passed

    def _tasks(self, want: Want) -> Mask | None:
        return None if want.tree is None else self.table.labels.holds(want.tree)

    def _spread(self, want: Want) -> Mask | None:
        return ~self.table.with_job(want.job) if want.job else None

    def _amounts(self, want: Want, kinds: tuple[int, ...]) -> Mask | None:
        mask: Mask | None = None
        for kind, amount in want.limits:
            if kind in kinds:
                enough = self.table.free[kind] >= amount
                mask = enough if mask is None else mask & enough
        return mask

    def _ports(self, want: Want) -> Mask | None:
        if not want.fixed:
            return self._amounts(want, (PORTS,))
        own = sum((self.table.offers_port(port) for port in want.fixed), start=np.int64(want.needs.ports))
        return np.asarray(self.table.free[PORTS] >= own, dtype=bool)


FILTERS: tuple[Filter, ...] = (
    (CLAIM, lambda filters, want: filters._claimed(want.needs)),
    (SCARCE, lambda filters, want: filters._scarce(want.needs)),
    (CONSTRAINT, lambda filters, want: filters._constraint(want.needs)),
    (TASKS, Filters._tasks),
    (SPREAD, Filters._spread),
    (STARTING, lambda filters, want: filters._amounts(want, (LAUNCHES,))),
    (RESOURCES, lambda filters, want: filters._amounts(want, _KINDS)),
    (NO_PORTS, Filters._ports),
)
"""In the order in which they are applied and in which a refused host is counted."""
