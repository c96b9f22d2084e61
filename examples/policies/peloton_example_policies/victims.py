"""An order of victims: what is lost with a gang, in core-seconds since its last checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from resmgr.core.preemption.order import Takeable

GPU_IN_CORES = 16
"""How many cores a GPU counts as."""


def least_work(gangs: Takeable, now: float) -> Sequence[NDArray[np.float64]]:
    """Return the work that is lost with each gang: the one that loses least is taken first."""
    cores = gangs.frees[:, 0] + gangs.frees[:, 4]
    gpus = gangs.frees[:, 3] + gangs.frees[:, 7]
    running = np.where(gangs.state == 2, np.maximum(0.0, now - gangs.work_from), 0.0)
    return [running * (cores + GPU_IN_CORES * gpus)]
