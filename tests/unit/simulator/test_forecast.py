"""Estimates of when jobs start: the state they go on from, what they draw, their bounds, and their errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from random import Random
from statistics import correlation

import pytest

from peloton.model.estimate import Expected, UnknownRuns
from peloton.model.ids import JobId
from peloton.model.live_state import LiveHost, LiveJob, LiveState, Ran
from peloton.model.pool import KindConfig, PoolConfig
from peloton.model.resources import KINDS, Resources
from peloton.model.states import JobType, TaskState
from peloton.model.task import TaskRuntime
from simulator.forecast.durations import Draws, Known, Lives, alike, drawn
from simulator.forecast.estimates import Bounds, estimate, expected
from simulator.forecast.likeness import Shares
from simulator.forecast.replay import Case, Replay, errors_of
from simulator.jobs import SimJob, job_id_of
from simulator.world.agents import HostSpec

SECOND = 10**9
NOW = 1_800_000_000 * SECOND
POOL = PoolConfig("p", "a", "root", {kind: KindConfig(10**9, 10**9) for kind in KINDS})
RUNNING, WAITING = job_id_of(0), job_id_of(1)


def live(job_id: JobId, name: str = "j", limit: int = 0, service: bool = False, **task: int) -> LiveJob:
    """Return a job of one instance that takes a whole host; `began`: seconds for which it has run."""
    spec = SimJob(
        name, 0.0, "/a", Resources.of(4.0), 0.0, longest=limit, service=service, preemptible=False
    ).spec("p")
    began = task.get("began")
    tasks = {}
    if began is not None:
        at = NOW - began * SECOND
        goal = TaskState.RUNNING if service else TaskState.SUCCEEDED
        tasks[0] = TaskRuntime(
            TaskState.RUNNING, goal, 1, 1, 1, 1, host="h", start_time=at, created_at=at, updated_at=at
        )
    return LiveJob(job_id, spec, NOW - SECOND, tasks)


def state(*jobs: LiveJob, ended: tuple[Ran, ...] = ()) -> LiveState:
    return LiveState(NOW, (LiveHost("h", Resources.of(4.0)),), (POOL,), jobs, ended)


def still() -> float:
    return 0.0


def clock(step: float) -> Callable[[], float]:
    """Return a clock on which each look takes some seconds."""
    now = 0.0

    def look() -> float:
        nonlocal now
        now += step
        return now

    return look


def test_a_job_starts_when_what_runs_has_taken_as_long_as_its_kind_before() -> None:
    took = tuple(Ran("p", "", f"j{n}", 1000.0) for n in range(3))
    found = estimate(state(live(RUNNING, began=400), live(WAITING), ended=took), WAITING, still)
    assert found.waiting == 1 and found.runs == 20 and not found.unknown
    assert found.first == found.all
    assert found.first.low is not None and found.first.low >= 600
    assert found.first.high is not None and found.first.high < 700, "the daemons take a minute at the most"


def test_without_runs_before_any_time_up_to_the_limit_is_likely() -> None:
    found = estimate(state(live(RUNNING, limit=3600, began=600), live(WAITING)), WAITING, still)
    first = found.first
    assert first.low is not None and first.middle is not None and first.high is not None
    assert first.low < 1000 < first.middle < 2200 < first.high < 3100


def test_a_run_that_is_older_than_its_kind_ends_at_its_limit_at_the_latest() -> None:
    took = tuple(Ran("p", "", "j", 10.0) for _ in range(9))
    running = live(RUNNING, limit=3600, began=3000)
    found = estimate(state(running, live(WAITING), ended=took), WAITING, still)
    assert found.first.high is not None and found.first.high < 700


def test_nothing_is_said_where_nothing_is_known() -> None:
    found = estimate(state(live(RUNNING, began=400), live(WAITING)), WAITING, still, Bounds(runs=2))
    assert found.first == Expected(None, None, None)
    assert found.unknown == (UnknownRuns("/a", 1),)
    assert found.within == Bounds().horizon


def test_a_service_never_ends_and_is_not_unknown() -> None:
    running = live(RUNNING, began=400, service=True)
    found = estimate(state(running, live(WAITING)), WAITING, still, Bounds(runs=2))
    assert found.first.middle is None and not found.unknown


def test_a_daemon_job_stays_where_it_is() -> None:
    job = live(RUNNING, began=400, service=True)
    waits = replace(job.tasks[0], state=TaskState.PENDING, host="", start_time=0)
    spec = replace(job.spec, type=JobType.DAEMON, instance_count=4)
    small = replace(spec.default, resources=Resources.of(1.0))
    daemon = replace(job, spec=replace(spec, default=small), tasks={3: job.tasks[0], 1: waits})
    other = live(WAITING)
    fits = replace(other.spec, default=replace(other.spec.default, resources=Resources.of(3.0)))
    found = estimate(state(daemon, replace(other, spec=fits)), WAITING, still, Bounds(runs=1))
    assert found.first.middle is not None and found.first.middle < 60, "beside the daemon"
    found = estimate(state(daemon, other), WAITING, still, Bounds(runs=1))
    assert found.first.middle is None, "the daemon never ends"


def test_what_runs_on_a_host_that_is_gone_runs_again() -> None:
    running = live(RUNNING, limit=100, began=50)
    there = LiveState(NOW, (LiveHost("other", Resources.of(4.0)),), (POOL,), (running,))
    assert not running.waiting()
    found = estimate(there, RUNNING, still, Bounds(runs=1))
    assert found.first.middle is not None and found.first.middle < 60


def test_an_estimate_is_a_function_of_its_input() -> None:
    given = state(live(RUNNING, limit=3600, began=600), live(WAITING))
    assert estimate(given, WAITING, still) == estimate(given, WAITING, still)


def test_the_first_run_may_use_all_the_time_and_tells_how_far_it_came() -> None:
    took = tuple(Ran("p", "", "j", 1e6) for _ in range(3))
    crowd = [live(job_id_of(n), limit=60) for n in range(2, 400)]
    given = state(live(RUNNING, limit=60, began=1), *crowd, live(job_id_of(400)), ended=took)
    found = estimate(given, job_id_of(400), clock(1.0), Bounds(seconds=3.0))
    assert found.runs == 1
    assert found.first.middle is None
    assert found.within < Bounds().horizon


def test_runs_end_where_another_one_would_take_too_long() -> None:
    given = state(live(RUNNING, limit=60, began=1), live(WAITING))
    assert estimate(given, WAITING, clock(1.0), Bounds(seconds=5.0)).runs < 5


def test_draws() -> None:
    four = Known([10.0, 20.0, 30.0, 40.0])
    assert drawn([four], 0, 15.0, 0.0) == 20.0
    assert drawn([four], 0, 15.0, 0.99) == 40.0
    assert drawn([Known([30.0]), Known([20.0, 25.0, 40.0])], 0, 15.0, 0.0) == 20.0, "one run is not enough"
    assert drawn([Known([30.0])], 0, 15.0, 0.5) == 30.0, "but better than none"
    assert drawn([Known([30.0])], 0, 40.0, 0.5) == 80.0, "older than its kind: twice its age in the median"
    assert drawn([], 100, 40.0, 0.5) == 70.0
    assert drawn([], 0, 40.0, 0.5) == math.inf


def test_tasks_that_run_still_make_their_kind_longer() -> None:
    assert Known([10.0, 20.0]).draw(0.0, 0.6) == 20.0
    known = Known([10.0, 20.0], [15.0, 15.0])
    assert [known.draw(0.0, at) for at in (0.2, 0.3, 0.9)] == [10.0, 20.0, 20.0]
    older = Known([10.0], [40.0])
    assert older.draw(0.0, 0.4) == 10.0
    assert older.draw(0.0, 0.75) == 80.0, "of those that are left, half end within twice the longest time"


def test_kinds_from_the_narrowest_to_the_widest() -> None:
    job = live(RUNNING, "train-7")
    ended = [
        Ran("p", "", "train-1", 1.0, size=4.1),
        Ran("p", "ann", "other", 2.0, size=4.0),
        Ran("p", "", "train-2", 3.0, size=8.0),
        Ran("p", "", "other", 4.0, size=8.0),
        Ran("q", "", "train-1", 5.0, size=4.0),
    ]
    found = [kind.seconds for kind in Lives(NOW, [job], ended).of(job)]
    name_and_size, owner_and_size, size = [1.0], [1.0], [1.0, 2.0]
    assert found == [name_and_size, owner_and_size, size, [1.0, 3.0], [1.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]


def test_a_gang_has_one_draw() -> None:
    spec = SimJob("g", 0.0, "/a", Resources.of(1.0), 0.0, instances=3, longest=100).spec("p")
    draws = Draws(Lives(NOW, [], []), [LiveJob(RUNNING, spec, NOW, {})], Random(1))
    assert len({draws.seconds(RUNNING, instance) for instance in range(3)}) == 1


def history(*seconds: float, name: str = "j") -> list[Ran]:
    return [Ran("p", "", f"{name}{at}", each, began=float(at)) for at, each in enumerate(seconds, 1)]


def test_jobs_that_follow_each_other_are_as_alike_as_their_durations_are() -> None:
    random = Random(2)
    each = [random.lognormvariate(5.0, 1.0) for _ in range(400)]
    assert alike(history(*each)) < 0.1, "each by itself"
    batches = [each[at // 20] * random.uniform(0.9, 1.1) for at in range(400)]
    assert alike(history(*batches)) > 0.8, "twenty of a batch take as long"
    assert alike(reversed(history(*batches))) == alike(history(*batches)), "the order is that of their begins"
    assert alike(history(*[60.0] * 40)) == 0.0, "durations that are all the same tell nothing"
    assert alike(history(1.0, 1.0, 9.0)) == 0.0, "nor do three jobs"
    mixed = [*history(*each[:50]), *history(*(1000 * seconds for seconds in each[50:100]), name="k")]
    assert alike(mixed) < 0.2, "jobs of different kinds are compared with their own kind"


def test_what_is_drawn_is_equally_likely_and_shared_within_a_kind() -> None:
    def drawn_shares(likeness: float) -> list[list[float]]:
        return [
            [shares.next("one"), shares.next("one"), shares.next("other")]
            for shares in (Shares(Random(seed), likeness) for seed in range(2000))
        ]

    for likeness in (0.0, 0.5):
        firsts = sorted(first for first, _, _ in drawn_shares(likeness))
        assert [round(firsts[at], 1) for at in (200, 1000, 1800)] == [0.1, 0.5, 0.9]
    assert correlation(*list(zip(*drawn_shares(0.0), strict=True))[:2]) == pytest.approx(0.0, abs=0.1)
    one, same, other = zip(*drawn_shares(0.9), strict=True)
    assert correlation(one, same) > 0.8
    assert correlation(one, other) == pytest.approx(0.0, abs=0.1)


def queue_behind(ended: list[Ran]) -> Expected:
    """Return when the last of forty jobs starts that wait for one host, each of which takes all of it."""
    jobs = [live(job_id_of(number), f"j{number}") for number in range(40)]
    return estimate(state(*jobs, ended=tuple(ended)), job_id_of(39), still).first


def test_the_range_is_wide_where_jobs_come_in_batches() -> None:
    random = Random(3)
    each = [random.lognormvariate(5.0, 1.0) for _ in range(300)]
    batches = [each[at // 30] for at in range(300)]
    apart, together = (queue_behind(history(*seconds)) for seconds in (each, batches))

    def width(found: Expected) -> float:
        assert found.low is not None and found.high is not None
        return found.high / found.low

    assert width(together) > 1.5 * width(apart)


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([3.0, 1.0, 2.0], Expected(2.0, 1.0, 3.0)),
        ([1.0, None, None], Expected(None, 1.0, None)),
        ([float(n) for n in range(20)], Expected(9.0, 1.0, 18.0)),
    ],
)
def test_the_range_leaves_out_one_of_twenty_at_each_end(times: list[float | None], found: Expected) -> None:
    assert expected(times) == found


def test_replay_compares_estimates_with_what_came() -> None:
    jobs = [SimJob(f"j{n}", 10.0 * n, "/a", Resources.of(4.0), 100.0, preemptible=False) for n in range(40)]
    cases = Replay([HostSpec("h", Resources.of(4.0))], [POOL], jobs).run(12, still, Bounds(runs=3))
    assert len(cases) > 8, "at nearly each moment a job waits"
    errors = errors_of(cases)
    assert errors.factor < 1.5, "all runs take as long as those before"
    assert errors.covered > 0.8


def test_errors() -> None:
    given = state(live(RUNNING, limit=3600, began=600), live(WAITING))
    found = estimate(given, WAITING, still)
    assert found.first.middle is not None
    assert Case(found, found.first.middle * 3).factor == pytest.approx(3)
    assert Case(found, found.first.middle).within
    assert not Case(found, 1e6).within
