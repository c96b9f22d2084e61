"""An entitlement: fixed parts of the cluster, as departments that have paid for them may want them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from resmgr.core.state.entitlement_policy import SharingPools


def fixed_shares(pools: SharingPools, capacity: NDArray[np.int64]) -> NDArray[np.float64]:
    """Divide what each pool has among its children by their shares, whether they have a use for it or not."""
    found = np.zeros(pools.limit.shape)
    found[0] = capacity
    for row in range(len(pools.path)):
        children = np.flatnonzero(pools.parent == row)
        shares = pools.share[children]
        found[children] = found[row] * shares / np.maximum(shares.sum(axis=0), 1e-9)
    return found
