"""Whatever resmgr and hostmgr answer: each host and each gang has one fate, and nothing waits for ever."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from placement.core.batch import Batch
from placement.core.daemon import OnePerHost
from placement.core.giving_up import Rules
from placement.core.instructions import Activity
from placement.core.model import Gang, Host
from placement.core.rounds import FamilyRound, Rounds
from placement.core.service import Service
from placement.core.strategy import Strategy
from tests.placement_world import PlacementWorld
from tests.unit.placement.samples import SPREAD, gang, host, needs, returning

JOBS = [f"00000000-0000-4000-8000-{number:012}" for number in range(3)]
LONGEST = 20.0
DESIRED_HOST_PATIENCE = 7.0
LONGEST_PAUSE = 0.5
"""Between two passes, in seconds."""
STRATEGIES: list[Strategy] = [Batch(longest=LONGEST), Service(longest=LONGEST), OnePerHost(longest=LONGEST)]
share = st.sampled_from([0.0, 0.1, 0.5])


def drawn_gang(draw: Random) -> Gang:
    where = draw.choice(["", "", "rack=r1"])
    if draw.random() < 0.2:
        return returning(f"host-{draw.randint(0, 6)}", needs(where=where))
    of = [needs(draw.choice([1, 2, 3]), where=where) for _ in range(draw.choice([1, 1, 1, 2, 4]))]
    made = gang(*of, job=draw.choice(JOBS))
    if draw.random() < 0.3:
        made = replace(made, strategy=SPREAD)
    return replace(made, wants_reservation=draw.random() < 0.3, time_out=draw.choice([0.0, 0.0, 3.0]))


def drawn_world(draw: Random, strategy: Strategy, patience: float, slow: float) -> PlacementWorld:
    rules = Rules(strategy, patience=patience, desired_host_patience=DESIRED_HOST_PATIENCE)
    gangs = [drawn_gang(draw) for _ in range(draw.randint(1, 12))]
    hosts: list[Host] = [host(number, cpu=draw.choice([1, 4])) for number in range(draw.randint(0, 8))]
    rounds = Rounds(rules, dequeue_limit=5, max_waiting=8)
    return PlacementWorld(rounds, gangs, hosts, draw, slow=slow)


@settings(deadline=None)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from(STRATEGIES),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from([0.0, 0.3]),
    share,
    share,
    share,
)
def test_each_host_and_each_gang_has_one_fate(
    draw: Random,
    strategy: Strategy,
    patience: float,
    slow: float,
    failing: float,
    busy: float,
    rejecting: float,
) -> None:
    world = drawn_world(draw, strategy, patience, slow)
    world.failing, world.busy, world.rejecting = failing, busy, rejecting
    taken = [task.run_id for each in world.queue for task in each.tasks]
    world.run()
    assert set(world.fates) == set(taken), "each gang is placed, given back, or gone"
    assert not world.claimed, "each host is used, or released"
    assert world.slots == 2


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from(STRATEGIES), share, st.integers(0, 60))
def test_an_engine_that_is_stopped_releases_what_it_holds(
    draw: Random, strategy: Strategy, failing: float, steps: int
) -> None:
    world = drawn_world(draw, strategy, 2.0, 0.0)
    world.failing, world.busy = failing, 0.5
    world.run(steps)
    on_their_way = world.unanswered_hosts()
    world.stop()
    assert set(world.claimed) == on_their_way


@settings(deadline=None)
@given(
    st.randoms(use_true_random=False), st.sampled_from(STRATEGIES), st.sampled_from([0.0, 2.0, 60.0]), share
)
def test_no_wait_is_longer_than_its_patience(
    draw: Random, strategy: Strategy, patience: float, failing: float
) -> None:
    """Calls take no time here, so that only the patience counts."""
    world = drawn_world(draw, strategy, patience, 0.0)
    world.failing, world.busy = failing, 1.0
    world.on_pause = lambda activity: check_pause(world, activity)
    world.run()
    assert not world.rounds.waiting


def check_pause(world: PlacementWorld, activity: Activity) -> None:
    """No gang that has lost its patience waits for another pass."""
    if not isinstance(activity, FamilyRound):
        return
    rules = world.rounds.rules
    for each in activity.waiting:
        waited = world.now - world.arrived[each.tasks[0].run_id]
        if not waited:
            continue  # it joined at the end of the pass
        family = rules.strategy.family(each)
        if family.to_desired_host and not family.nowhere_else:
            assert waited < DESIRED_HOST_PATIENCE
        else:
            assert waited < min(rules.patience, each.time_out or LONGEST, LONGEST)
