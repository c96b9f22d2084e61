"""Packing quality: the hosts that a plan uses, against first fit decreasing and an exact solver."""

from __future__ import annotations

import random
from collections.abc import Sequence

from peloton.model.resources import Resources
from placement.core.model import Gang, Host, Needs, Task
from placement.core.plan import plan

HOST = Resources.of(32, 128_000)
SMALL_TASKS = 12
SMALL_BATCHES = 20


def report() -> None:
    """Print how many more hosts the plan uses than the others, in per cent."""
    chance = random.Random(11)
    over = []
    for _ in range(5):
        tasks = [_mixed(chance) for _ in range(2_000)]
        over.append(_over(used(tasks), first_fit_decreasing(tasks)))
    print(f"mixed batch, hosts over FFD, %: {max(over):.1f}", flush=True)
    small = []
    for _ in range(SMALL_BATCHES):
        tasks = [_mixed(chance) for _ in range(SMALL_TASKS)]
        small.append(_over(used(tasks), exact(tasks)))
    print(f"small batches, hosts over the exact solver, %: {max(small):.1f}", flush=True)


def used(tasks: Sequence[Resources]) -> int:
    """Return how many hosts the plan uses."""
    hosts = [Host(f"h{i}", f"a{i}", f"o{i}", None, HOST) for i in range(len(tasks))]
    gangs = [Gang(f"j{i}", (Task(f"j{i}-0", f"j{i}-0-1", Needs(each)),)) for i, each in enumerate(tasks)]
    planned = plan(gangs, hosts)
    assert not planned.unplaced
    return len(planned.placements)


def first_fit_decreasing(tasks: Sequence[Resources]) -> int:
    """Return how many hosts first fit decreasing uses."""
    bins: list[Resources] = []
    for task in sorted(tasks, key=_share, reverse=True):
        at = next((i for i, free in enumerate(bins) if task.fits(free)), None)
        if at is None:
            bins.append(HOST - task)
        else:
            bins[at] -= task
    return len(bins)


def exact(tasks: Sequence[Resources]) -> int:
    """Return the least number of hosts, by branch and bound."""
    ordered = sorted(tasks, key=_share, reverse=True)
    best = first_fit_decreasing(tasks)

    def search(at: int, bins: list[Resources]) -> None:
        nonlocal best
        if len(bins) >= best:
            return
        if at == len(ordered):
            best = len(bins)
            return
        task, tried = ordered[at], set()
        for i, free in enumerate(bins):
            if task.fits(free) and free not in tried:
                tried.add(free)
                bins[i] = free - task
                search(at + 1, bins)
                bins[i] = free
        search(at + 1, [*bins, HOST - task])

    search(0, [])
    return best


def _mixed(chance: random.Random) -> Resources:
    """Make a small, a middle-sized or a large task, some of them large in one kind only."""
    cpu = chance.choice((0.5, 1, 2, 4, 8, 12, 18)) * chance.uniform(0.7, 1.3)
    memory = chance.choice((500, 2_000, 8_000, 24_000, 60_000)) * chance.uniform(0.7, 1.3)
    return Resources.of(cpu, memory)


def _share(task: Resources) -> float:
    return max(task.cpu / HOST.cpu, task.memory / HOST.memory)


def _over(hosts: int, best: int) -> float:
    return 100 * (hosts - best) / best
