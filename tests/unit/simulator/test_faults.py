"""All daemons together under faults: invariants hold, planted bugs are found, a failure is repeatable."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from jobmgr.core.workflow import planner
from peloton.model.ids import parse_mesos_task_id
from peloton.model.states import JobState, TaskState
from resmgr.core.placing import engine
from simulator.daemons.resmgr import Resmgr
from simulator.faults import __main__ as faults_main
from simulator.faults import mutations
from simulator.faults.__main__ import ALL, NONE, main
from simulator.faults.asks import CHAIN, CRASH, ELASTIC, SCHEDULE
from simulator.faults.fault import ROUGH_SECONDS
from simulator.faults.plan import Plan, draw
from simulator.faults.search import Failure, attempt, first_failure, shrink
from simulator.faults.violation import Violation
from simulator.faults.world import SETTLING_SECONDS, FaultWorld
from simulator.world.kernel import Life

SEEDS = range(40)
SEEDS_WITH_ASKS = range(12)
MORE_SEEDS = range(12, 212)
MOST_SEEDS = range(212, 2000)
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
FOUND_BY_ASKS = {
    "any-end-will-do": 4,
    "creates-runs-early": 0,
    "forgets-dependencies": 4,
    "forgets-missed-times": 0,
    "forgets-rounds": 10,
    "forgets-sla": 0,
    "forgets-updates": 10,
    "runs-with-other-ids": 0,
    "updates-all-at-once": 0,
}
"""The same for bugs that only plans with asks find."""
MENDED_WITH_ASKS = (
    (17, (0,), (3,), (5,)),
    (108, (5,), (0, 1, 3, 4, 5, 6), (0, 1, 2)),
    (364, (0, 2, 3, 5, 7), (2,), (0, 1)),
    (1218, (), (2, 3), (6,)),
    (1700, (0, 1, 3, 6), (0, 2, 3, 4, 5, 6, 7), (0, 1, 2, 3)),
    (1780, (0, 1, 2, 3, 4, 5), (0, 1, 2, 4, 5), (0, 1, 2, 3, 5, 7, 8)),
    (1935, (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4), (0, 1, 2)),
    (2522, (0, 3, 5, 6), (0, 1, 2, 3, 5, 6, 7), (0, 1)),
    (2768, (), (), (1,)),
    (2814, (0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4)),
    (4630, (), (0, 1), (0,)),
    (4764, (1,), (1, 2, 3, 4), (0, 1, 2, 3, 4, 5)),
    (6307, (0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 3, 4), (0, 1, 2, 3)),
    (7622, (0, 3, 8, 10), (0, 1, 2, 3, 4, 5), (0, 1, 2, 3, 4, 5)),
)
"""Seeds with faults, jobs and asks that failed. 17: an elastic gang started with a placement that held a run
of another job, which changed while the changes of the cycle were gone through: the leader ended. 108: times
of a schedule's pause got runs that were decided about while the pause was being stored. 364: an enqueue was
answered by the former resmgr, after its successor had read the store. 1218: an elastic gang ended a round
for an extra each few seconds, the task that was evicted for the extra took the room back, and neither got
on. 1700: the check took an instance that an update added for one that was down when another one was
preempted, earlier in the same cycle. 1780: a rollback waited for the room of an instance that the update had
added. 1935, 2522: a run was taken back, it or another one with its number was enqueued, and taken out by the
repetition of its withdrawal. 2768: an update made a service smaller, and the instance that was to be removed
had the room for which another one waited. 2814: a gang was leased to an engine that did not get the answer,
and stayed so until the time for placing it was over. 4630: the case was over when a service had stopped, a
cycle before the end of its update was stored. 4764: an instance was throttled by a job manager whose clock
was an hour ahead, and rounding left its successor, after the delay, less of it than the clock can tell, for
ever at the same time. 6307: the check came 1 ms after resmgr had heard of the end of a run, and before
jobmgr had stored it. 7622: the check took an instance for forgotten whose desired host was full: engines
look for no other host for 100 s."""
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


@pytest.mark.extended
@pytest.mark.parametrize("part", range(4))
def test_more_seeds_hold(part: int) -> None:
    failure = first_failure(MORE_SEEDS[part::4])
    assert failure is None, f"{failure.error}\nrepeat it with: {failure.line}"


@pytest.mark.long
@pytest.mark.parametrize("part", range(12))
def test_two_thousand_seeds_hold(part: int) -> None:
    failure = first_failure(MOST_SEEDS[part::12])
    assert failure is None, f"{failure.error}\nrepeat it with: {failure.line}"


@pytest.mark.parametrize(("seed", "faults", "jobs", "asks"), MENDED_WITH_ASKS)
def test_what_was_mended_with_asks_holds(
    seed: int, faults: tuple[int, ...], jobs: tuple[int, ...], asks: tuple[int, ...]
) -> None:
    failure = attempt(draw(seed).only(faults, jobs, asks))
    assert failure is None, failure.error


def test_an_update_that_waits_for_what_it_is_to_remove_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the stop of its service ends it."""
    monkeypatch.setattr(planner, "_until_room", lambda *_: 0)
    failure = attempt(draw(2768).only((), (), (1,)))
    assert failure is not None and "instances [3] are to be removed" in failure.error


def test_an_update_that_waits_for_a_lost_gang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "take_back_gangs", lambda *_: 0)
    failure = attempt(draw(2814).only((0, 1, 2, 3), (0, 1, 2, 3, 4, 5, 6), (0, 1, 2, 3, 4)))
    assert failure is not None and "instances [1] have room, and are not placed" in failure.error


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


def _of_kind(seed: int, kind: str) -> Plan:
    """The plan of a seed with its asks of a kind alone, and without faults."""
    plan = draw(seed)
    return plan.only([], [], [at for at, ask in enumerate(plan.asks) if ask.kind == kind])


_AGE = {CHAIN: 1, SCHEDULE: 1, ELASTIC: 2}
"""Of what is drawn apart, the later the higher; 0: of all else."""


def test_chains_schedules_and_elastic_gangs_are_numbered_behind_the_other_asks() -> None:
    """So that the lines of failures that were found before still name the same asks."""
    for seed in range(40):
        kinds = [_AGE.get(ask.kind, 0) for ask in draw(seed).asks if ask.kind != CRASH]
        assert kinds == sorted(kinds)


def test_a_schedule_has_its_runs_and_deletes_the_old_ones() -> None:
    created = kept = 0
    for seed in range(20):
        world = FaultWorld(_of_kind(seed, SCHEDULE))
        world.run()
        runs = world.checks.schedules.schedule_of
        created, kept = created + len(runs), kept + sum(run in world.store.jobs for run in runs)
    assert 0 < kept < created


def test_jobs_of_chains_wait_and_those_that_wait_in_vain_are_stopped() -> None:
    ends = set()
    for seed in range(20):
        world = FaultWorld(_of_kind(seed, CHAIN))
        world.run()
        for job in world.store.jobs.values():
            if job.specs[1].depends_on:
                ends.add((job.runtime.state, world.checks.dependents.in_vain(job)))
    assert {(JobState.SUCCEEDED, False), (JobState.KILLED, True)} <= ends


@pytest.mark.parametrize(
    ("asks", "tried"), [(None, {"one": False, "of asks": True}), (ALL, {"one": True, "of asks": True}),
                        (NONE, {"one": False})],
)  # fmt: skip
def test_planted_bugs_are_looked_for_with_or_without_asks(
    monkeypatch: pytest.MonkeyPatch, asks: str | None, tried: dict[str, bool]
) -> None:
    had: dict[str, bool] = {}

    def found(seeds: range, mutate: object, name: str, with_asks: bool) -> Failure:
        assert seeds == range(3, 5)
        had[name] = with_asks
        return Failure(draw(3), "Violation: it is found", mutation=name)

    monkeypatch.setattr(faults_main, "first_failure", found)
    monkeypatch.setattr(faults_main, "MUTATIONS", {"one": None, "of asks": None})
    monkeypatch.setattr(faults_main, "OF_ASKS", {"of asks"})
    arguments = ["--mutations", "--first", "3", "--seeds", "2", *(["--asks", asks] if asks else [])]
    assert main(arguments) == 0
    assert had == tried


def test_the_asks_of_all_seeds_are_not_chosen_by_number(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--seeds", "2", "--asks", "1"])
    assert "--asks 1: none or all" in capsys.readouterr().err


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


def _with_runs_that_resmgr_loses(they_end: bool) -> FaultWorld:
    """A service without faults whose runs resmgr forgets just before it is checked what it holds."""
    plan = draw(3)
    world = FaultWorld(plan.only([], [], [0]))

    def lose() -> None:
        resmgr = world.elections.leaders["resmgr"]
        assert isinstance(resmgr, Resmgr)
        live = [run for run in world.cluster.runs.values() if run.live]
        assert live
        if they_end:
            world.cluster.kill([(run.id, run.agent.id) for run in live])
        for run in live:
            assert resmgr.scheduler.observe(parse_mesos_task_id(run.id), TaskState.KILLED, world.kernel.now)

    world.kernel.after(ROUGH_SECONDS + SETTLING_SECONDS - 0.0001, Life("test/one"), lose)
    return world


def test_a_run_that_resmgr_does_not_hold_is_found() -> None:
    with pytest.raises(Violation, match="is RUNNING, and resmgr does not hold it"):
        _with_runs_that_resmgr_loses(they_end=False).run()


def test_a_run_whose_end_jobmgr_is_about_to_store_is_not_asked_of_resmgr() -> None:
    _with_runs_that_resmgr_loses(they_end=True).run()


def test_a_case_without_faults_ends_as_planned() -> None:
    plan = draw(3)
    quiet = plan.only([], plan.numbers)
    world = FaultWorld(quiet)
    world.run()
    assert world.checks.acknowledged == world.jobs.keys()
