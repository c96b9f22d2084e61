"""The checks of admission (docs/behaviour/pools.md), restated over plain lists of tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.states import TaskState
from resmgr.core.admission.checks import Check, FailedCheck, refusal
from resmgr.core.state.amounts import Vector
from resmgr.core.state.entities import Gang, JobTasks, Task
from resmgr.core.state.needs import Needs
from resmgr.core.state.pool import Pool
from resmgr.core.state.pools import PoolTree

thorough = settings(max_examples=int(os.environ.get("PELOTON_EXAMPLES", "300")), deadline=None)
AMOUNTS = st.tuples(*[st.integers(0, 3)] * 4)
NEEDS = st.builds(
    lambda amount, preemptible, controller, revocable: Needs(
        Resources(*amount), preemptible=preemptible, controller=controller, revocable=revocable
    ),
    AMOUNTS,
    *[st.booleans()] * 3,
)
Held = list[Needs]


@st.composite
def entitled(draw: st.DrawFn) -> tuple[Vector, Vector]:
    """All, and the part of it that is slack; the cpu of the slack is on top."""
    slack, rest = draw(AMOUNTS), draw(st.tuples(*[st.integers(0, 9)] * 4))
    return (rest[0], rest[1] + slack[1], rest[2] + slack[2], rest[3] + slack[3]), slack


@thorough
@given(
    st.lists(NEEDS, max_size=4),
    st.lists(NEEDS, max_size=2),
    st.lists(NEEDS, min_size=1, max_size=3),
    st.tuples(entitled(), entitled()),
    st.integers(0, 8),
    st.sampled_from((None, 50.0, 100.0)),
    st.booleans(),
)
def test_a_gang_is_refused_by_the_first_check_that_it_does_not_pass_and_by_no_other(
    ours: Held,
    siblings: Held,
    requested: Held,
    entitlements: tuple[tuple[Vector, Vector], tuple[Vector, Vector]],
    reservation: int,
    controllers: float | None,
    preemption: bool,
) -> None:
    leaf, sibling = _tree(reservation, controllers)
    for needs in ours:
        leaf.charge(needs.charge)
    for needs in siblings:
        sibling.charge(needs.charge)
    assert leaf.parent is not None
    for pool, amounts in ((leaf, entitlements[0]), (leaf.parent, entitlements[1])):
        pool.entitle(*amounts)
    gang = Gang(leaf, tuple(_task(leaf, i, needs) for i, needs in enumerate(requested)))
    found = refusal(gang.charge, gang.pool, preemption)

    wrong: dict[tuple[Check, str], set[str]] = {}
    held_above = [*ours, *siblings]
    for path, held, (whole, slack) in (
        (leaf.path, ours, entitlements[0]),
        ("/p", held_above, entitlements[1]),
    ):
        firm = (whole[0], *(a - b for a, b in zip(whole[1:], slack[1:], strict=True)))
        wrong[Check.ENTITLEMENT, path] = _over(_entitled(held), _entitled(requested), whole)
        wrong[Check.NON_SLACK_ENTITLEMENT, path] = _over(_firm(held), _firm(requested), firm)
        wrong[Check.SLACK_ENTITLEMENT, path] = _over(_slack(held), _slack(requested), slack)
    limit = leaf.controller_limit
    if limit is not None:
        theirs = [[each for each in some if each.controller] for some in (ours, requested)]
        wrong[Check.CONTROLLER, leaf.path] = _over(_all(theirs[0]), _all(theirs[1]), limit)
    if preemption:
        theirs = [[each for each in some if not each.preemptible] for some in (ours, requested)]
        wrong[Check.RESERVATION, leaf.path] = _over(_all(theirs[0]), _all(theirs[1]), (reservation,) * 4)
    if found is None:
        assert not any(wrong.values())
    else:
        assert found.kind in wrong[found.check, found.path]
        _numbers_are_right(found)


def _numbers_are_right(found: FailedCheck) -> None:
    assert found.gang > 0
    assert found.allocation + found.gang > found.bound
    assert str(found).startswith(f"{found.kind}: ")
    assert str(found).endswith(found.path)


def _tree(reservation: int, controllers: float | None) -> tuple[Pool, Pool]:
    tree = PoolTree()
    tree.set_capacity(Resources(10**6, 10**6, 10**6, 10**6), Resources(10**6))
    tree.root.entitle((10**6,) * 4, (10**6,) * 4)
    tree.root.firm_entitlement = None
    kinds = {kind: KindConfig(reservation, 1000) for kind in KINDS}
    tree.insert(PoolConfig("p", "p", "root", kinds))
    leaf = tree.insert(PoolConfig("a", "a", "p", kinds, controller_limit_percent=controllers))
    return leaf, tree.insert(PoolConfig("b", "b", "p", kinds))


def _task(pool: Pool, instance: int, needs: Needs) -> Task:
    return Task(JobTasks("job"), instance, 1, needs, pool, TaskState.PENDING, 0.0)


def _all(tasks: Iterable[Needs]) -> list[int]:
    return [
        sum(amounts) for amounts in zip((0,) * 4, *(each.resources.values() for each in tasks), strict=True)
    ]


def _firm(tasks: Iterable[Needs]) -> list[int]:
    return _all(each for each in tasks if not each.revocable)


def _slack(tasks: Iterable[Needs]) -> list[int]:
    return _all(each for each in tasks if each.revocable)


def _entitled(tasks: Sequence[Needs]) -> list[int]:
    """But the cpu of revocable tasks, which is none of the pool's."""
    slack = _slack(tasks)
    return [a + b for a, b in zip(_firm(tasks), (0, *slack[1:]), strict=True)]


def _over(held: Sequence[int], requested: Sequence[int], bound: Sequence[int]) -> set[str]:
    """Kinds of which there is not enough, among those that are requested for."""
    return {
        kind
        for kind, has, more, most in zip(KINDS, held, requested, bound, strict=True)
        if more and has + more > most
    }
