"""All hosts as columns: which of them match, and in which order they are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from hostmgr.core.state.columns import CONCURRENT_LAUNCHES, HostColumns, Mask, Rows, columns_of
from hostmgr.core.state.host_filter import HostFilter, Ranking, Result
from hostmgr.core.state.host_pools import PoolOf
from hostmgr.core.state.states import ClaimState
from peloton.model.constraint import Constraint, Label
from peloton.model.host_class import HostClass, class_of_host
from peloton.model.host_pool import HOST_POOL
from peloton.model.resources import ZERO, Resources
from peloton.model.states import HostState

_GPU = 3
_READY, _HELD, _RESERVED = int(ClaimState.READY), int(ClaimState.HELD), int(ClaimState.RESERVED)
_UP = int(HostState.UP)
"""Plain numbers: numpy takes five times as long to compare a column with a member of an enum."""
_MATCHES = 256
"""Filters of which is kept which hosts match, at most."""
_DEFRAG_KEYS = (2, 1, 0, 3)
"""Columns for numpy.lexsort, whose last key counts most: GPU, CPU, memory, disk."""


class HostTable(HostColumns):
    """The columns of all hosts, with the decisions over them."""

    def __init__(
        self,
        scarce_gpu: bool = True,
        room: int = 64,
        concurrent_launches: int = CONCURRENT_LAUNCHES,
        pool_of: PoolOf | None = None,
    ) -> None:
        """Make an empty table; arguments as of `HostColumns`."""
        super().__init__(scarce_gpu, room, concurrent_launches, pool_of)
        self._matches: dict[
            tuple[Resources, bool, Constraint | None], tuple[Mask, dict[Result, int], int]
        ] = {}
        """Which hosts match by lasting reasons, in the version that is kept."""
        self._kept_version = -1

    def match(self, want: HostFilter, offers_needed: bool = True) -> tuple[Mask, dict[Result, int]]:
        """Return which rows match, and the number of the others by reason.

        Lasting reasons come first, then temporary ones. Without `offers_needed` only the lasting ones are
        examined: a host matches if its total resources are enough.
        """
        mask, counts, left = self._lasting(want)
        if not offers_needed:
            return mask, counts
        for reason, passed in self._temporary_filters(want):
            mask &= passed
            passing = int(np.count_nonzero(mask))
            if passing < left:
                counts[reason] = left - passing
                left = passing
        return mask, counts

    def _lasting(self, want: HostFilter) -> tuple[Mask, dict[Result, int], int]:
        """Return which rows match but for temporary reasons, the others by reason, and the former's number.

        It is the same until a host is changed in more than its free resources, so it is kept.
        """
        if want.ports or self._beyond:
            return self._lasting_anew(want)
        if self._kept_version != self.version or len(self._matches) >= _MATCHES:
            self._matches.clear()
            self._kept_version = self.version
        key = want.minimum, want.revocable, want.constraint
        known = self._matches.get(key)
        if known is None:
            known = self._matches[key] = self._lasting_anew(want)
        mask, counts, left = known
        return mask.copy(), dict(counts), left

    def _lasting_anew(self, want: HostFilter) -> tuple[Mask, dict[Result, int], int]:
        mask = self._alive[: self._used].copy()
        counts: dict[Result, int] = {}
        left = int(np.count_nonzero(mask))
        for reason, passed in self.lasting_filters(want):
            mask &= passed
            passing = int(np.count_nonzero(mask))
            if passing < left:
                counts[reason] = left - passing
                left = passing
        return mask, counts, left

    def _temporary_filters(self, want: HostFilter) -> Iterator[tuple[Result, Mask]]:
        """Iterate over the reasons that pass, each with the rows to which it does not apply."""
        n = self._used
        yield Result.FAILED_LAUNCHES, ~self._failing[:n]
        yield Result.TOO_MANY_STARTING, self._starting[:n] < self._concurrent_launches
        yield Result.MISMATCH_STATUS, (self._life[:n] == _UP) & self._open(want)
        yield Result.NO_OFFER, self._offers[:n] > 0
        enough = self._holds(want, whole=False)
        if want.ports:
            enough &= self._ports[:n] >= want.ports
        yield Result.INSUFFICIENT_OFFER_RESOURCES, enough
        if self._kept_rows:
            yield Result.HELD, self._beside_holds(want)

    def _open(self, want: HostFilter) -> Mask:
        """Return which rows are neither claimed, nor reserved or held for others."""
        claim = self._claim[: self._used]
        mask: Mask = (claim == _READY) | (claim == _HELD)
        for agent_id in want.opened:
            row = self._row.get(agent_id)
            if row is not None:
                mask[row] |= claim[row] == _RESERVED
        if want.closed:
            mask[[row for name in want.closed for row in self._rows_of.get(name, ())]] = False
        return mask

    def lasting_filters(self, want: HostFilter) -> Iterator[tuple[Result, Mask]]:
        """Iterate over the reasons that do not depend on free resources, each with the rows that pass."""
        n = self._used
        gpus = np.maximum(self._total[:n, _GPU], self._free[:n, _GPU])
        if self._scarce_gpu and not want.minimum.gpu:
            yield Result.SCARCE_RESOURCES, gpus == 0
        yield Result.MISMATCH_GPU, gpus >= want.minimum.gpu
        eligible = self._labels.eligible(want.constraint, self._class[:n], self._rows_of)
        yield Result.MISMATCH_CONSTRAINTS, eligible
        enough = self._holds(want, whole=True)
        if want.ports:
            enough &= self.whole_ports() >= want.ports
        yield Result.INSUFFICIENT_RESOURCES, enough

    def _holds(self, want: HostFilter, whole: bool) -> Mask:
        """Return which rows have the minimum free, or with `whole` in total, as `whole` counts it."""
        n, need = self._used, want.minimum.values()
        passed = np.ones(n, dtype=bool)
        for kind, amount in enumerate(need):
            if not amount:
                continue
            revocable = want.revocable and not kind
            free = self._slack[:n] if revocable else self._free[:n, kind]
            total = self._total_slack[:n] if revocable else self._total[:n, kind]
            passed &= (np.maximum(free, total) if whole else free) >= amount
        return passed

    def _beside_holds(self, want: HostFilter) -> Mask:
        """Return which rows have the minimum free beside what is held for others."""
        passed = np.ones(self._used, dtype=bool)
        rows = np.fromiter(self._kept_rows, dtype=np.intp)
        left = np.column_stack((self._free[rows], self._slack[rows], self._ports[rows])) - self._kept[rows]
        place = dict(zip(rows.tolist(), range(len(rows)), strict=True)) if want.own else {}
        for name, room in want.own.items():
            for row in self._rows_of.get(name, ()):
                if row in place:
                    left[place[row]] += columns_of(room)
        cpu, memory, disk, gpu = want.minimum.values()
        slack = want.revocable
        need = np.array((0 if slack else cpu, memory, disk, gpu, cpu if slack else 0, want.ports))
        passed[rows] = ((left >= need) | (need == 0)).all(axis=1)
        return passed

    def eligible(self, want: HostFilter, by_size: bool = False) -> Mask:
        """Return which hosts are in service and may take such tasks, free or not.

        With `by_size` hosts that are too small even when empty are left out.
        """
        n = self._used
        mask: Mask = self._alive[:n] & (self._life[:n] == _UP)
        for reason, passed in self.lasting_filters(want):
            if by_size or reason is not Result.INSUFFICIENT_RESOURCES:
                mask &= passed
        return mask

    def changed_since(self, version: int) -> tuple[Mask, Mask]:
        """Return which hosts are new or changed since a version, and which of those have other labels."""
        n = self._used
        alive = self._alive[:n]
        return alive & (self._changed_at[:n] > version), alive & (self._labelled_at[:n] > version)

    def satisfies(self, constraint: Constraint) -> Mask:
        """Return which rows meet a constraint, exclusive hosts like others. TASK labels count as met."""
        return self._labels.satisfying(constraint, self._class[: self._used], self._rows_of)

    def most_beside(self, constraint: Constraint | None, own: Iterable[Label]) -> NDArray[np.int64]:
        """Return how many tasks with a constraint, and labels that it counts, each row takes at most."""
        return self._labels.most_beside(constraint, Counter(own), self._class[: self._used], self._rows_of)

    def classes(self, mask: Mask) -> Counter[int]:
        """Return the classes of labels of the rows of the mask, each with its number of rows."""
        numbers, counts = np.unique(self._class[: self._used][mask], return_counts=True)
        return Counter(dict(zip(map(int, numbers), map(int, counts), strict=True)))

    def labels_of_class(self, number: int) -> Iterable[Label]:
        """Return the labels of a class, without hostnames."""
        return self._labels.of(number)

    def capacity_by_class(self) -> dict[HostClass, tuple[Resources, int]]:
        """Return what the hosts of each class have, with their revocable CPU (`peloton.model.host_class`)."""
        rows = np.flatnonzero(self._alive[: self._used])
        has_gpu = self._total[rows, _GPU] > 0 if self._scarce_gpu else np.zeros(len(rows), dtype=bool)
        keys, which = np.unique(self._class[rows] * 2 + has_gpu, return_inverse=True)
        sums = np.zeros((len(keys), 5), dtype=np.int64)
        np.add.at(sums, which.ravel(), np.column_stack((self._total[rows], self._total_slack[rows])))
        found: dict[HostClass, tuple[Resources, int]] = {}
        for key, (*amounts, slack_cpu) in zip(keys.tolist(), sums.tolist(), strict=True):
            labels = self._labels.of(key // 2)
            kept = labels if self.pooled else (label for label in labels if label[0] != HOST_POOL)
            of = class_of_host(kept, bool(key % 2))
            whole, slack = found.get(of, (ZERO, 0))
            found[of] = whole + Resources(*amounts), slack + slack_cpu
        return found

    def rows_in(self, state: HostState) -> Rows:
        """Return the rows of hosts whose life is in a state."""
        n = self._used
        return np.flatnonzero(self._alive[:n] & (self._life[:n] == int(state)))

    def alive(self) -> Mask:
        """Return which rows are hosts."""
        return self._alive[: self._used].copy()

    def whole_ports(self) -> NDArray[np.int64]:
        """Return the number of ports of each row, free or not."""
        n = self._used
        ports: NDArray[np.int64] = np.maximum(self._ports[:n], self._total_ports[:n])
        return ports

    def offered_ports(self, ports: Iterable[int]) -> NDArray[np.int64]:
        """Return how many of these ports are among those of each row, free or not."""
        of_ranges = [
            sum(any(first <= port <= last for first, last in ranges) for port in ports)
            for ranges in self._range_numbers
        ]
        found: NDArray[np.int64] = np.array(of_ranges, dtype=np.int64)[self._ranges[: self._used]]
        return found

    def whole(self, revocable: bool) -> NDArray[np.int64]:
        """Return the total resources of each row, (n, 4); with `revocable`, the CPU is the revocable one.

        Offers may show more than the map of agents.
        """
        n = self._used
        amounts = np.maximum(self._free[:n], self._total[:n])
        if revocable:
            amounts[:, 0] = np.maximum(self._slack[:n], self._total_slack[:n])
        return amounts

    def ranked(self, mask: Mask, want: HostFilter, ranking: Ranking, cursor: int = 0) -> Rows:
        """Return the rows of the mask in the order of the ranking; equal ones start at `cursor`."""
        rows: Rows = np.flatnonzero(mask)
        if ranking is Ranking.DEFRAG:
            rows = rows[np.lexsort(tuple(self._free[rows, kind] for kind in _DEFRAG_KEYS))]
        elif len(rows):
            first = int(np.searchsorted(rows, cursor % (int(rows[-1]) + 1)))
            rows = np.concatenate((rows[first:], rows[:first]))
            if ranking is Ranking.LOAD_AWARE:
                rows = rows[np.argsort(self._load[rows], kind="stable")]
        if not want.preferred:
            return rows
        wanted = {row for name in want.preferred for row in self._rows_of.get(name, ())}
        if wanted:
            preferred = np.isin(rows, list(wanted))
            rows = np.concatenate((rows[preferred], rows[~preferred]))
        return rows
