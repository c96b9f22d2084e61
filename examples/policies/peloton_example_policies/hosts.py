"""A score of hosts: the alignment of what is free with what a task asks for.

The dot product of both, each kind as a share of the most that is free of it on a host ("Multi-Resource
Packing for Cluster Schedulers", Grandl et al., SIGCOMM 2014): a task that needs much memory goes where memory
is free.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from placement.core.policy import FreeHosts, TaskAmounts


def alignment(hosts: FreeHosts, task: TaskAmounts) -> NDArray[np.float64]:
    """Return for each host how well what is free on it fits what the task asks for."""
    score = np.zeros(len(hosts))
    amounts = (
        (hosts.cpu, task.cpu),
        (hosts.memory, task.memory),
        (hosts.disk, task.disk),
        (hosts.gpu, task.gpu),
    )
    for free, wanted in amounts:
        most = max(1, int(free.max()))
        score += (free / most) * (wanted / most)
    return score
