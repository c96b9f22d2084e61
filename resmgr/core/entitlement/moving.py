"""Moving claims between classes of hosts, so that each class can give what is claimed from it.

A claim is an amount that is split among classes, each part up to a bound. The splits are a flow from claims
to classes; where a class is claimed beyond what it has, part of that is moved along the shortest chain of
classes to one that has some left (L. R. Ford and D. R. Fulkerson, *Flows in Networks*, 1962; shortest chains
first: J. Edmonds and R. M. Karp, *Theoretical improvements in algorithmic efficiency for network flow
problems*, J. ACM 19(2), 1972). When no chain is left, as little as possible is claimed beyond what the
classes have: the classes from which no chain leads on are a cut that all claims on them must pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

Claim = tuple[list[int], list[int]]
"""The parts of an amount by class, and their bounds."""


def move_claims(capacities: Sequence[int], totals: list[int], claims: Mapping[int, Claim]) -> bool:
    """Move parts of claims to other classes, in place, while that helps; return whether any was moved.

    `totals`: what is claimed of each class, the claims included; it follows them. The amounts of claims stay.
    Each move is a whole number of units that no class has to refuse any more, so it ends.
    """
    movable = [claim for claim in claims.values() if sum(map(bool, claim[1])) > 1]
    moved = False
    while path := _path(capacities, totals, movable):
        steps = list(pairwise(path))
        amount = min(totals[path[0]] - capacities[path[0]], capacities[path[-1]] - totals[path[-1]])
        amount = min(amount, *(sum(_room(claim, *step) for claim in movable) for step in steps))
        for step in reversed(steps):
            _move(movable, *step, amount)
        totals[path[0]] -= amount
        totals[path[-1]] += amount
        moved = True
    return moved


def _path(capacities: Sequence[int], totals: Sequence[int], claims: Collection[Claim]) -> list[int]:
    """Return a shortest chain from a class claimed too much to one that has some left; empty: none."""
    classes = range(len(capacities))
    before: dict[int, int | None] = {at: None for at in classes if totals[at] > capacities[at]}
    queue = list(before)
    for at in queue:  # grows by the classes that are reached
        if totals[at] < capacities[at]:
            path = [at]
            while (back := before[path[-1]]) is not None:
                path.append(back)
            return path[::-1]
        for to in classes:
            if to not in before and any(_room(claim, at, to) for claim in claims):
                before[to] = at
                queue.append(to)
    return []


def _room(claim: Claim, at: int, to: int) -> int:
    """Return how much of a claim can move."""
    split, bounds = claim
    return max(0, min(split[at], bounds[to] - split[to]))


def _move(claims: Collection[Claim], at: int, to: int, amount: int) -> None:
    for claim in claims:
        part = min(amount, _room(claim, at, to))
        if part:
            claim[0][at] -= part
            claim[0][to] += part
            amount -= part
            if not amount:
                return
