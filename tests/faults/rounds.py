"""One round: a workload, a fault during it, settling, and the check."""

from __future__ import annotations

import random
import time
import urllib.error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import grpc

from peloton.client.discovery import DiscoveryError
from peloton.errors import Unavailable
from tests.faults.checker import check
from tests.faults.fault import Fault, FaultContext
from tests.faults.history import TERMINAL, End, History, Run, of_jobs
from tests.faults.large_workload import LargeWorkload
from tests.faults.owner_faults import percentile
from tests.faults.testbed import Testbed, until
from tests.faults.workload import Api, Workload
from tests.leftovers import left_after

SETTLE_SECONDS = 120.0
ANSWER_SECONDS = 60.0
LEFT_SECONDS = 30.0
"""In which everything follows the last job: claims of processes that died end after 15 s."""
WORK_SECONDS, WORK_SECONDS_QUICK = 12.0, 4.0


@dataclass(frozen=True, slots=True)
class Result:
    fault: str
    seed: int
    violations: Sequence[str]
    unavoidable: Sequence[str]
    without_service: Mapping[str, float]
    """Longest time between two answers by role, seconds, of a question every 100 ms."""
    leaders: Mapping[str, int]
    """Changes of leaders by role."""
    seconds: float
    deaths: Sequence[str]
    """Daemons that ended by themselves and were started again."""
    slowest: float
    """Seconds until the slowest call of the workload was answered."""
    phases: Sequence[float]
    """Seconds: up to the fault's end, the workload's, rest, and rest after the last stop."""
    takeovers: Mapping[str, float] = field(default_factory=dict)
    """Seconds from the end of a role's leader, where the fault ended it, until another answered."""
    others: float = 0.0
    """Seconds that 99 of 100 calls took at most about jobs of owners that the fault did not concern."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """How many of these failed, by what they were told."""


def play(
    testbed: Testbed, name: str, fault: Fault, seed: int, quick: bool, seconds: float = WORK_SECONDS
) -> Result:
    """`seconds`: of the workload. Never raises for what the cluster does wrong: that is a violation."""
    draw = random.Random(f"{name}-{seed}")
    marks = testbed.folder / f"marks-{name}-{seed}-{time.time_ns()}"
    marks.mkdir()
    api = Api(testbed.client, testbed.pool)
    kind = LargeWorkload if testbed.setup.simulated else Workload
    workload = kind(api, draw, marks, seconds)
    began = time.time()
    wrong: list[str] = []
    deaths: list[str] = []
    unavoidable: Sequence[str] = ()
    phases: list[float] = []
    strike = FaultContext(testbed, draw, quick, workload)

    def lap() -> None:
        phases.append(round(time.time() - began - sum(phases), 1))

    try:
        workload.begin()
        time.sleep(draw.uniform(0.2, min(seconds, WORK_SECONDS) / 2))
        fault.strike(strike)
        lap()
        workload.finish()
        lap()
        deaths = _settle(testbed, workload)
        lap()
        wrong += _proof(testbed, workload, began)[0]
        for job in workload.staying:
            api.stop(job)
        workload.ending += workload.staying
        workload.staying = []
        deaths += _settle(testbed, workload)
        lap()
        final, unavoidable = _proof(testbed, workload, began, alone=True)
        wrong += final
    except (TimeoutError, Unavailable) as error:  # Unavailable: a component that was started again
        wrong.append(f"no rest: {error}")
    until_ = time.time()
    gaps = {role: round(probe.longest_gap(began, until_), 2) for role, probe in testbed.probes.items()}
    changes = {
        role: sum(began <= at for at, _ in probe.leaders[1:]) for role, probe in testbed.probes.items()
    }
    took = round(until_ - began, 1)
    slowest = round(api.slowest, 1)
    wrong = sorted(set(wrong))
    takeovers = {role: round(after, 2) for role, after in strike.takeovers.items()}
    others = round(percentile(strike.others, 99), 3)
    return Result(
        name,
        seed,
        wrong,
        unavoidable,
        gaps,
        changes,
        took,
        deaths,
        slowest,
        phases,
        takeovers,
        others,
        dict(strike.failed),
    )


def _settle(testbed: Testbed, workload: Workload) -> list[str]:
    """Waits until the jobs rest and Mesos has just what is to be there. Returns the daemons that had ended.

    Raise TimeoutError when the jobs do not settle; the checker finds leftover runs."""
    deaths = testbed.start_dead()
    try:
        until(workload.rests, SETTLE_SECONDS, "jobs at rest", 0.3)
    except TimeoutError as error:
        raise TimeoutError(f"{error}: {workload.story()}") from None
    try:
        until(lambda: _expected(testbed, workload), 30, "no leftovers", 0.3)
    except TimeoutError:
        return deaths
    return deaths


def _expected(testbed: Testbed, workload: Workload) -> bool:
    try:
        live = {str(run) for run, _ in testbed.live()}
    except (urllib.error.URLError, OSError):
        return False
    wanted = set()
    for job_id in workload.staying:
        job = workload.api.job(job_id)
        if job is not None:
            living = {n: each for n, each in job.instances.items() if each.state not in TERMINAL}
            wanted |= {f"{job_id}-{n}-{each.run}" for n, each in living.items()}
    return live == wanted


def _live(testbed: Testbed) -> list[tuple[Run, str]]:
    """Return the runs that agents have. A machine that stands still for a while is no violation: ask again.

    Raises TimeoutError.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return testbed.live()
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no Mesos master answers: {error}") from error
        time.sleep(0.3)


def _left(testbed: Testbed) -> list[str]:
    """Return what is left behind. Raise TimeoutError where nobody answers."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return left_after(testbed.client, LEFT_SECONDS)
        except (grpc.RpcError, DiscoveryError) as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"nobody says what is left: {error}") from error
        time.sleep(0.3)


def _proof(
    testbed: Testbed, workload: Workload, since: float, alone: bool = False
) -> tuple[list[str], Sequence[str]]:
    """With `alone`, no job runs any more: then nothing is to be left behind."""
    jobs = {job_id: job for job_id in workload.jobs if (job := workload.api.job(job_id)) is not None}
    events = of_jobs(testbed.events(since), [*workload.jobs, *workload.deleted])
    still = [job_id for job_id in workload.deleted if workload.api.job(job_id) is not None]
    end = End(jobs, _live(testbed), still, workload.answers, _left(testbed) if alone else [])
    actions = testbed.actions.since(since)
    verdict = check(History(events, workload.api.calls, end, actions, workload.workflows, workload.daemons))
    return [str(violation) for violation in verdict.violations], verdict.unavoidable
