"""The order in which hosts that pass all filters are used, and how many equal tasks each gets."""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace

import numpy as np

from peloton.model.columns import column
from placement.core.labels import Column, Mask, Rows
from placement.core.policy import FreeHosts, HostScore, Scorer, TaskAmounts
from placement.core.table import CPU, DISK, GPU, MEMORY, SLACK, HostTable, Want

_EMPTIEST = (DISK, MEMORY, CPU, GPU)
_OUT = 62
"""The bit of a score that is set for hosts that do not pass; above all bits of `HostTable.fullness`."""


def best(table: HostTable, scorer: Scorer, mask: Mask, first: int) -> int | None:
    """Return the best host of a mask, whose rows begin at `first`; of equal ones the first; None: no host."""
    if not len(mask):
        return None
    if scorer is Scorer.BEST_FIT:
        # Three passes over a kept buffer take a tenth of the time of copying the scores of the mask.
        scores = table.buffer[: len(mask)]
        np.copyto(scores, mask)
        np.left_shift(np.bitwise_xor(scores, 1, out=scores), _OUT, out=scores)
        np.bitwise_or(scores, table.fullness[first : first + len(mask)], out=scores)
        row = int(scores.argmin())
    elif scorer is Scorer.FIRST_FIT:
        row = int(mask.argmax())
    else:
        row = _emptiest(table, mask, first)
    return first + row if mask[row] else None


def _emptiest(table: HostTable, mask: Mask, first: int) -> int:
    rows = np.flatnonzero(mask) + first
    for kind in _EMPTIEST:
        if len(rows) <= 1:
            break
        amounts = table.free[kind][rows]
        rows = rows[amounts == amounts.max()]
    return int(rows[0]) - first if len(rows) else 0


def highest(table: HostTable, score: HostScore, want: Want, rows: Rows) -> int:
    """Return the host with the highest score among some; of equal ones the first. Raises ValueError."""
    revocable, free = want.needs.revocable, table.free
    hosts = FreeHosts(
        cpu=free[SLACK if revocable else CPU][rows],
        memory=free[MEMORY][rows],
        disk=free[DISK][rows],
        gpu=free[GPU][rows],
        hosts=table.hosts,
        rows=rows,
    )
    wanted = want.needs.resources
    task = TaskAmounts(wanted.cpu, wanted.memory, wanted.disk, wanted.gpu, revocable)
    scores = column(score(hosts, task), len(rows), "scores of hosts")
    return int(rows[scores.argmax()])


def ordered(table: HostTable, scorer: Scorer, rows: Rows, most: int) -> Rows:
    """Return the best `most` of some hosts, the best first; equal ones in their order."""
    if scorer is Scorer.BEST_FIT:
        return _least(rows, table.fullness[rows], most)
    if scorer is Scorer.EMPTIEST:
        keys = tuple(-table.free[kind][rows] for kind in reversed(_EMPTIEST))
        rows = rows[np.lexsort(keys)]
    return rows[:most]


def _least(rows: Rows, scores: Column, most: int) -> Rows:
    if len(rows) > 2 * most:
        bound = np.partition(scores, most - 1)[most - 1]
        near = scores <= bound
        rows, scores = rows[near], scores[near]
    return rows[np.argsort(scores, kind="stable")[:most]]


def shares(scorer: Scorer, table: HostTable, want: Want, rows: Rows, room: Column, count: int) -> Column:
    """Return how many of `count` tasks each host gets; `room` bounds it, and `rows` are in order."""
    if scorer is Scorer.EMPTIEST:
        return _even(table, want, rows, room, count)
    before = np.cumsum(room) - room
    given: Column = np.minimum(np.maximum(count - before, 0), room)
    return given


def _even(table: HostTable, want: Want, rows: Rows, room: Column, count: int) -> Column:
    """Give each task to the emptiest host at that time."""
    amounts = dict(want.amounts)
    steps = tuple(amounts.get(kind, 0) for kind in _EMPTIEST)
    columns = [table.free[kind][rows].tolist() for kind in _EMPTIEST]
    heap = [(*(-free for free in key), at) for at, key in enumerate(zip(*columns, strict=True))]
    heapify(heap)
    left, given = room.tolist(), [0] * len(heap)
    for _ in range(count):
        if not heap:
            break
        disk, memory, cpu, gpu, at = heap[0]
        given[at] += 1
        if given[at] == left[at]:
            heappop(heap)
        else:
            heapreplace(heap, (disk + steps[0], memory + steps[1], cpu + steps[2], gpu + steps[3], at))
    return np.array(given, dtype=np.int64)
