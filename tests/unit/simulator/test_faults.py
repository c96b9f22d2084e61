"""All daemons together under faults: invariants hold, planted bugs are found, a failure is repeatable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from simulator.faults import mutations
from simulator.faults.__main__ import main
from simulator.faults.plan import draw
from simulator.faults.search import Failure, attempt, first_failure, shrink
from simulator.faults.world import FaultWorld

SEEDS = range(40)
SEEDS_WITH_ASKS = range(12)
FOUND_BY = {
    "acknowledges-on-arrival": 0,
    "acts-before-it-stores": 0,
    "early-answer": 0,
    "forgets-runs-on-hosts": 7,
    "gang-in-part": 2,
    "loses-kills": 5,
    "missed-runs-stay-unknown": 1101,
    "new-leader-unnoticed": 10,
    "no-fence": 10,
    "no-reconciliation": 275,
    "purges-before-it-stores": 1,
    "unknown-is-refused": 71,
    "unknown-runs-live": 17,
}
"""The first seed that finds each planted bug, as `make simulate-faults ARGS=--mutations` looks for it."""
FOUND_BY_ASKS = {"forgets-sla": 0, "forgets-updates": 10, "updates-all-at-once": 0}
"""The same for bugs that only plans with updates, drains and exchanged reservations find."""
MENDED_WITH_ASKS = (364,)
"""Seeds that failed: an enqueue was answered by the former resmgr, after its successor had read the store."""
MENDED = ((5110, (1, 2, 3, 5), (0, 2, 3)),)
"""Seeds with faults and jobs that failed: resmgr kept the run as an orphan to which jobmgr had gone back."""


@pytest.mark.parametrize("part", range(4))
def test_the_invariants_hold_whatever_fails(part: int) -> None:
    failure = first_failure(SEEDS[part::4], asks=False)
    assert failure is None, f"{failure.error}\nrepeat it with: {failure.line}"


@pytest.mark.parametrize("part", range(2))
def test_services_keep_what_they_promise_whatever_fails(part: int) -> None:
    failure = first_failure(SEEDS_WITH_ASKS[part::2])
    assert failure is None, f"{failure.error}\nrepeat it with: {failure.line}"


@pytest.mark.parametrize("seed", MENDED_WITH_ASKS)
def test_what_was_mended_of_services_holds(seed: int) -> None:
    failure = attempt(draw(seed))
    assert failure is None, failure.error


@pytest.mark.parametrize("name", sorted(FOUND_BY_ASKS))
def test_a_planted_bug_of_services_is_found(name: str) -> None:
    plan = draw(FOUND_BY_ASKS[name])
    assert attempt(plan) is None
    assert attempt(plan, mutations.MUTATIONS[name], name) is not None


def test_each_planted_bug_has_its_seed() -> None:
    assert FOUND_BY.keys() | FOUND_BY_ASKS.keys() == mutations.MUTATIONS.keys()
    assert FOUND_BY_ASKS.keys() == mutations.OF_ASKS


def test_asks_are_chosen_as_faults_and_jobs_are() -> None:
    whole = draw(0)
    assert len(whole.asks) > 1 and whole.services
    part = whole.only(whole.kept, whole.numbers, whole.asked[1:])
    assert part.asks == whole.asks[1:]
    assert Failure(part, "").line.endswith(f"--asks {','.join(map(str, whole.asked[1:]))}")
    bare = whole.without_asks()
    assert (bare.jobs, bare.faults, bare.services) == (whole.jobs, whole.faults, {})
    assert Failure(bare, "").line.endswith("--asks none")


@pytest.mark.parametrize(("seed", "faults", "jobs"), MENDED)
def test_what_was_mended_holds(seed: int, faults: tuple[int, ...], jobs: tuple[int, ...]) -> None:
    failure = attempt(draw(seed).only(faults, jobs, ()))
    assert failure is None, failure.error


@pytest.mark.parametrize("name", sorted(FOUND_BY))
def test_a_planted_bug_is_found(name: str) -> None:
    plan = draw(FOUND_BY[name]).without_asks()
    assert attempt(plan) is None
    assert attempt(plan, mutations.MUTATIONS[name], name) is not None


def test_periodic_work_is_set_once_however_long_a_case_lasts() -> None:
    """It was set twice each time, so that long cases took more time with each minute."""
    plan = draw(1)
    world = FaultWorld(plan.only([], [], []))
    for role in ("hostmgr", "resmgr", "jobmgr"):
        world.elections.elect(role)
    world.kernel.run(300.0)
    first = world.kernel.events
    world.kernel.run(600.0)
    assert world.kernel.events - first < 1.2 * first


def test_a_failure_is_shrunk_and_repeated_by_its_line() -> None:
    name = "early-answer"
    mutate = mutations.MUTATIONS[name]
    failure = first_failure(range(100), mutate, name, asks=False)
    assert failure is not None
    small = shrink(failure, mutate, tries=40)
    assert len(small.plan.faults) <= len(failure.plan.faults)
    assert len(small.plan.jobs) <= len(failure.plan.jobs)
    again = attempt(small.plan, mutate, name)
    assert again is not None and again.error == small.error
    words = small.line.split()
    assert words[:4] == ["python", "-m", "simulator.faults", "--seed"] and words[-2:] == ["--mutation", name]


_TRACE = """
from simulator.faults.plan import draw
from simulator.faults.world import FaultWorld
world = FaultWorld(draw(7))
world.run()
print(world.kernel.events, world.kernel.now, world.network.calls, sorted(world.cluster.launched))
"""


@pytest.mark.parametrize(
    ("arguments", "tried"),
    [
        (["--seed", "7", "--asks", "none"], "seed 7,"),
        (["--seed", "7", "--asks", "0"], "seed 7,"),
        (["--first", "3", "--seeds", "2", "--asks", "none"], "seeds 3 to 4,"),
    ],
)
def test_the_seeds_that_were_tried_are_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], tried: str
) -> None:
    assert main(arguments) == 0
    assert tried in capsys.readouterr().out


def test_a_case_is_the_same_in_each_process() -> None:
    """Also where texts have other hashes."""

    def trace(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        ran = subprocess.run(
            [sys.executable, "-c", _TRACE], env=environment, capture_output=True, text=True, check=True
        )
        return ran.stdout

    assert trace("1") == trace("2") != ""


def test_a_case_without_faults_ends_as_planned() -> None:
    plan = draw(3)
    quiet = plan.only([], plan.numbers)
    world = FaultWorld(quiet)
    world.run()
    assert world.checks.acknowledged == world.jobs.keys()
