"""Fragmentation: what is free on hosts and of no use to the tasks of a workload.

As the fragmentation of Weng et al., *Beware of Fragmentation* (USENIX ATC 2023), it is the expected part of
what is free that a task, drawn from the workload, cannot use since its host has too little of something. Only
tasks count that need the kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from peloton.model.resources import KINDS, Resources
from simulator.jobs import SimJob

MOST_SHAPES = 20
"""The most frequent shapes of tasks count; others are rare."""
Shapes = Sequence[tuple[Resources, float]]
"""What a task needs, and how often that is among all tasks."""


def scarce_kind(capacity: Resources) -> int:
    """Return the position in KINDS of the kind that is looked at: GPUs where there are some, else cores."""
    return KINDS.index("gpu" if capacity.gpu else "cpu")


def shapes_of(jobs: Iterable[SimJob], kind: int) -> Shapes:
    """Return the shapes of the tasks that need a kind, with their shares."""
    counts = Counter[Resources]()
    for job in jobs:
        if job.resources.values()[kind]:
            counts[job.resources] += job.instances
    common = counts.most_common(MOST_SHAPES)
    whole = sum(count for _, count in common)
    return [(shape, count / whole) for shape, count in common]


def fragmentation(free: Sequence[Resources], shapes: Shapes, kind: int) -> float:
    """Return the part, 0 to 1, of what is free of a kind that a task cannot use; 0 where nothing is free."""
    table = np.array([each.values() for each in free], dtype=np.int64).reshape(-1, len(KINDS))
    whole = int(table[:, kind].sum())
    if not whole or not shapes:
        return 0.0
    usable = 0.0
    for shape, share in shapes:
        fits = (table >= np.array(shape.values(), dtype=np.int64)).all(axis=1)
        usable += share * int(table[fits, kind].sum()) / whole
    return max(0.0, 1.0 - usable)
