"""The estimate of several runs of the simulator, within a bound of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random
from time import process_time

from peloton.model.estimate import Expected, StartEstimate, UnknownRuns
from peloton.model.ids import JobId
from peloton.model.live_state import LiveJob, LiveState
from peloton.model.pool import pool_paths
from peloton.model.states import ON_HOST_TASK_STATES, JobType
from simulator.forecast.durations import Draws, Lives, alike
from simulator.forecast.forward import Forward
from simulator.simulation import Options

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an estimate may cost."""

    runs: int = 20
    """Most runs of the simulator."""
    seconds: float = 5.0
    """Time for all runs, by the clock that is given."""
    horizon: float = 7 * DAY_SECONDS
    """Simulated time of each run."""


DEFAULT = Bounds()


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What one run has come to. Times are seconds from the state on, None where it has not come."""

    first: float | None
    all: float | None
    reached: float
    """How far it was simulated."""


def estimate(
    state: LiveState,
    job_id: JobId,
    clock: Callable[[], float],
    bounds: Bounds = DEFAULT,
    options: Callable[[], Options] | None = None,
) -> StartEstimate:
    """Return when the waiting instances of a job will start.

    `clock` counts the seconds that the runs take. The first run may use all of the time: where that ends it,
    it tells how long the job still waits at the least.
    """
    state = _with_daemons_at_rest(state)
    job = state.job(job_id)
    waiting = 0 if job is None else len(job.waiting())
    lives, likeness = Lives(state.now, state.jobs, state.ended), alike(state.ended)
    begin, outcomes = clock(), list[_Outcome]()
    for seed in range(bounds.runs):
        spent = clock() - begin
        if seed and spent * (seed + 1) / seed > bounds.seconds:
            break
        random = Random(seed)
        drawn = Draws(_resampled(state, random) if seed else lives, state.jobs, random, likeness)
        forward = Forward(state, drawn, job_id, options() if options else None)
        complete = forward.go(bounds.horizon, lambda: clock() - begin > bounds.seconds)
        if seed and not complete:
            break
        outcomes.append(_outcome(forward, waiting, bounds.horizon if complete else forward.kernel.now))
    return StartEstimate(
        waiting=waiting,
        runs=len(outcomes),
        first=expected([each.first for each in outcomes]),
        all=expected([each.all for each in outcomes]),
        within=min(each.reached for each in outcomes),
        unknown=tuple(_unknown(state, lives)),
    )


def _with_daemons_at_rest(state: LiveState) -> LiveState:
    """Return a state whose daemon jobs stay on the hosts where they are: no host comes or goes in a run."""
    jobs = [_at_rest(job) if job.spec.type is JobType.DAEMON else job for job in state.jobs]
    return replace(state, jobs=tuple(job for job in jobs if job.spec.instance_count))


def _at_rest(job: LiveJob) -> LiveJob:
    """Return a service with the instances of a daemon job that are on hosts."""
    there = [task for task in job.tasks.values() if task.state in ON_HOST_TASK_STATES]
    spec = replace(job.spec, type=JobType.SERVICE, instance_count=len(there))
    return replace(job, spec=spec, tasks=dict(enumerate(there)))


def _resampled(state: LiveState, random: Random) -> Lives:
    """Return what would be known had others of the ended jobs come (Efron's bootstrap).

    So the range has in it that few jobs are known, and not only that tasks differ.
    """
    return Lives(state.now, state.jobs, random.choices(state.ended, k=len(state.ended)))


def _outcome(forward: Forward, waiting: int, reached: float) -> _Outcome:
    starts = forward.starts.values()
    return _Outcome(
        min(starts) if starts else None, max(starts) if len(starts) >= waiting and starts else None, reached
    )


def expected(times: Sequence[float | None]) -> Expected:
    """Return the median of some times with its range: of twenty, all but the first and the last."""
    known = sorted(time for time in times if time is not None)
    cut = len(times) // 20

    def at(position: int) -> float | None:
        return known[position] if position < len(known) else None

    return Expected(at((len(times) - 1) // 2), at(cut), at(len(times) - 1 - cut))


def _unknown(state: LiveState, lives: Lives) -> list[UnknownRuns]:
    """Return how many running tasks of each pool have neither a limit nor runs of their kind before."""
    found: Counter[str] = Counter()
    for job in state.jobs:
        if job.spec.type is JobType.BATCH and not job.spec.sla.max_running_time and not lives.of(job):
            found[job.spec.pool_id] += sum(task.state in ON_HOST_TASK_STATES for task in job.tasks.values())
    paths = pool_paths(state.pools)
    return sorted(
        (UnknownRuns(paths.get(pool, pool), count) for pool, count in found.items() if count),
        key=lambda each: (-each.tasks, each.pool),
    )


def start_of(state: LiveState, job_id: JobId) -> StartEstimate:
    """Return when the waiting instances of a job will start: what the command line asks for."""
    return estimate(state, job_id, process_time)
