"""GPUs that the waiting tasks could not use, as a score for hosts.

The fragment of a host is the sum over the kinds of tasks of their frequency times the free GPUs of the host,
where it has not enough of some resource for such a task. A task goes where the fragments grow least ("Beware
of Fragmentation", Weng et al., USENIX ATC 2023). The GPUs of a host are one amount here, as in Mesos' offers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from placement.core.labels import Column, Rows
from placement.core.model import Gang
from placement.core.table import CPU, GPU, MEMORY, HostTable, Want

MOST_KINDS = 64
"""Kinds of tasks that are considered, the most frequent ones."""
_KINDS = (CPU, MEMORY, GPU)


class Fragmentation:
    """The fragments of the hosts of a table."""

    def __init__(self, table: HostTable, gangs: Sequence[Gang]) -> None:
        self._table = table
        shapes = (part for gang in gangs for part in gang.shape)
        kinds: Counter[tuple[int, ...]] = Counter()
        for needs, count in shapes:
            if needs.resources.gpu:
                cpu, memory, _, gpu = needs.resources.values()
                kinds[0 if needs.revocable else cpu, memory, gpu] += count
        most = kinds.most_common(MOST_KINDS)
        self._least = np.array([kind for kind, _ in most], dtype=np.int64).reshape(-1, len(_KINDS)).T
        """What each kind of task takes, by resource."""
        self._weights = np.array([count for _, count in most], dtype=np.float64)

    def growth(self, want: Want, rows: Rows) -> NDArray[np.float64]:
        """Return by how much the fragments of hosts grow with one such task."""
        taken = dict(want.amounts)
        free = [self._table.free[kind][rows] for kind in _KINDS]
        after = [column - taken.get(kind, 0) for kind, column in zip(_KINDS, free, strict=True)]
        return self._fragments(after) - self._fragments(free)

    def _fragments(self, free: Sequence[Column]) -> NDArray[np.float64]:
        unusable = np.zeros((self._least.shape[1], len(free[0])), dtype=bool)
        for column, least in zip(free, self._least, strict=True):
            unusable |= column[None, :] < least[:, None]
        fragments: NDArray[np.float64] = (self._weights @ unusable) * free[-1]
        return fragments
