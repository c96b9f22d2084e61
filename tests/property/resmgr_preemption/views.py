"""Random pools over their entitlement, and random gangs that wait."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st

from peloton.model.ids import Run
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from resmgr.core.preemption.view import ORDER, Candidate, Candidates, PoolView, Waiting
from resmgr.core.state.amounts import Vector
from resmgr.core.state.needs import Needs

thorough = settings(max_examples=int(os.environ.get("PELOTON_EXAMPLES", "100")), deadline=None)
"""100 examples, or as many as PELOTON_EXAMPLES says."""
_STATES = (*ORDER, TaskState.RUNNING, TaskState.LAUNCHED, TaskState.PLACED)
_AMOUNTS = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 1), st.integers(0, 1))


@st.composite
def tasks(draw: st.DrawFn) -> list[Candidate]:
    """Some of them in gangs, some not to be taken."""
    count = draw(st.integers(0, 12))
    extras = draw(st.sets(st.integers(0, 11), max_size=4))
    return [
        Candidate(
            Run("job", number, 1),
            100 + number if number in extras else draw(st.integers(0, 8)),
            draw(_AMOUNTS),
            draw(st.sampled_from(_STATES)),
            draw(st.integers(0, 3)),
            float(draw(st.integers(0, 200))),
            draw(st.sampled_from((True, True, True, False))),
            draw(st.sampled_from((False, False, True))),
            extra=number in extras,
        )
        for number in range(count)
    ]


@st.composite
def pools(draw: st.DrawFn, path: str = "/a") -> tuple[PoolView, list[Candidate]]:
    """A leaf that holds some tasks and is entitled to some of what they hold, or to more."""
    rows = draw(tasks())
    firm, slack = held(row for row in rows if not row.revocable), held(row for row in rows if row.revocable)
    pool = PoolView(
        path,
        allocation=firm,
        entitlement=draw(_part(firm)),
        slack_allocation=slack,
        slack_entitlement=draw(_part(slack)),
        room=draw(_vector(-3, 3)),
        slack_room=draw(_vector(-3, 3)),
        queues=(tuple(draw(gangs())), tuple(draw(gangs()))),
        strikes=5,
        candidates=Candidates.of(rows),
    )
    return pool, rows


@st.composite
def gangs(draw: st.DrawFn) -> list[Waiting]:
    """In the order of a queue."""
    waiting = [
        Waiting(
            Run("waiting", number, 1),
            draw(st.integers(0, 5)),
            Needs(
                Resources(*draw(_AMOUNTS)), preemptible=True, revocable=draw(st.sampled_from((False, True)))
            ).charge,
        )
        for number in range(draw(st.integers(0, 3)))
    ]
    return sorted(waiting, key=lambda gang: -gang.priority)


def held(rows: Iterable[Candidate]) -> Vector:
    cpu, memory, disk, gpu = (
        sum(amounts) for amounts in zip((0, 0, 0, 0), *(row.amount for row in rows), strict=True)
    )
    return cpu, memory, disk, gpu


def eligible(rows: Iterable[Candidate]) -> list[list[Candidate]]:
    """Gangs all of whose members may be taken."""
    by_gang: dict[int, list[Candidate]] = defaultdict(list)
    for row in rows:
        by_gang[row.gang].append(row)
    return [gang for gang in by_gang.values() if all(row.preemptible and row.state in ORDER for row in gang)]


def cost(gang: Iterable[Candidate]) -> tuple[int, int, bool, float]:
    """Its dearest member's; a larger one is dearer to take."""
    rows = list(gang)
    return (
        max(ORDER.index(row.state) for row in rows),
        max(row.priority for row in rows),
        not all(row.extra for row in rows),
        -min(row.started for row in rows),
    )


def sides(gang: Iterable[Candidate]) -> list[int]:
    """What it frees, not slack then slack."""
    rows = list(gang)
    firm, slack = held(row for row in rows if not row.revocable), held(row for row in rows if row.revocable)
    return [*firm, *slack]


def _vector(least: int, most: int) -> st.SearchStrategy[Vector]:
    one = st.integers(least, most)
    return st.tuples(one, one, one, one)


def _part(amounts: Vector) -> st.SearchStrategy[Vector]:
    cpu, memory, disk, gpu = (st.integers(0, amount + 1) for amount in amounts)
    return st.tuples(cpu, memory, disk, gpu)
