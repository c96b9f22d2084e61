"""A rule of an administrator's own for sharing the capacity among the pools (docs/policies.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peloton.model.columns import column
from peloton.model.pool import PoolConfig, ReservationType
from peloton.model.resources import KINDS


class SharingPools(NamedTuple):
    """The pools among which capacity is shared, one in each row, parents before their children.

    Row 0 is the root. Amounts are (n, 4) thousandths of cpu, memory, disk and gpu. Where there are several
    classes of hosts, they are those in one class.
    """

    path: Sequence[str]
    parent: NDArray[np.intp]
    """The row of the parent; -1 for the root."""
    reservation: NDArray[np.int64]
    """As configured; 0 for the root."""
    limit: NDArray[np.int64]
    """As configured; that of the root is the capacity."""
    share: NDArray[np.float64]
    """(n, 4) weights among siblings."""
    static: NDArray[np.bool_]
    """(n, 4): whether the reservation is kept for the pool though it has no use for it."""
    held: NDArray[np.int64]
    """What is allocated in the pool and below it."""
    wanted: NDArray[np.int64]
    """What is allocated and queued in the pool and below it, revocable cpu left out."""


EntitlementPolicy = Callable[[SharingPools, NDArray[np.int64]], NDArray[np.int64] | NDArray[np.float64]]
"""Returns the (n, 4) entitlement of the pools to the capacity, which is (4,), in thousandths.

Fractions are rounded down. No pool gets more than its limit or less than nothing, and the root has the
capacity, whatever is returned. An admitted gang is within the entitlement of its pool and of each one above.
"""


def sharing_pools(
    configs: Sequence[PoolConfig],
    children: Sequence[Sequence[int]],
    capacity: Sequence[int],
    held: Sequence[Sequence[int]],
    needs: Sequence[Sequence[int]],
) -> SharingPools:
    """Return pools as a policy gets them.

    `children` are the rows of each pool's; `held` of all pools, `needs` of the leaves: allocated and queued.
    """
    kinds = [[config.kind(name) for name in KINDS] for config in configs]
    parent = np.full(len(configs), -1, dtype=np.intp)
    wanted = np.array(needs, dtype=np.int64).reshape(len(configs), len(KINDS))
    path = ["/"] * len(configs)
    for row, below in enumerate(children):
        for child in below:
            parent[child] = row
            path[child] = f"{path[row].rstrip('/')}/{configs[child].name}"
    for row in range(len(configs) - 1, 0, -1):
        wanted[parent[row]] += wanted[row]
    limit = np.array([[each.limit for each in row] for row in kinds], dtype=np.int64)
    limit[0] = capacity
    return SharingPools(
        path,
        parent,
        np.array([[each.reservation for each in row] for row in kinds], dtype=np.int64),
        limit,
        np.array([[each.share for each in row] for row in kinds], dtype=np.float64),
        np.array([[each.type is ReservationType.STATIC for each in row] for row in kinds], dtype=np.bool_),
        np.array(held, dtype=np.int64).reshape(len(configs), len(KINDS)),
        wanted,
    )


def shared(policy: EntitlementPolicy, pools: SharingPools, capacity: Sequence[int]) -> list[list[int]]:
    """Return the entitlement of each pool by kind, within its bounds. Raises ValueError for no numbers."""
    whole = np.array(capacity, dtype=np.int64)
    found = np.asarray(policy(pools, whole.copy()))
    if found.shape != pools.limit.shape:
        raise ValueError(
            f"entitlements of pools: an array of shape {found.shape}: should be {pools.limit.shape}, "
            "a row for each pool, with cpu, memory, disk and gpu"
        )
    columns = []
    for kind, most in enumerate(pools.limit.T):
        amounts = column(found[:, kind], len(most), f"entitlements of pools to {KINDS[kind]}")
        bounded = np.floor(np.clip(amounts, 0, np.minimum(most, whole[kind]))).astype(np.int64)
        bounded[0] = whole[kind]
        columns.append(bounded.tolist())
    return columns
