"""An order of a queue: small gangs first, which shortens the mean wait."""

from __future__ import annotations

from resmgr.core.state.queue_order import QueuedGang

GPU_IN_CORES = 16
"""How many cores a GPU counts as."""


def smallest_first(gang: QueuedGang) -> float:
    """Return what a gang asks for in all, in thousandths of a core."""
    return gang.cpu + GPU_IN_CORES * gang.gpu
