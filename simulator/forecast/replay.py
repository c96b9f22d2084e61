"""How far estimates are off: at moments of a simulated workload, compared with what then comes.

At each moment an estimate sees what the daemons would see: which jobs wait and run, since when, their limits,
and how long those took that have ended. It does not see how long the others will take, nor which jobs will
come.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random

from jobmgr.core.state.cache import CachedJob
from peloton.model.estimate import StartEstimate
from peloton.model.ids import JobId, parse_mesos_task_id
from peloton.model.live_state import LiveHost, LiveJob, LiveState, Ran, seconds_of_runs
from peloton.model.pool import PoolConfig
from simulator.forecast.estimates import DEFAULT, Bounds, estimate
from simulator.garbage import rare_collections
from simulator.jobs import SimJob
from simulator.simulation import Simulation
from simulator.world.agents import HostSpec, SimRun
from simulator.world.kernel import NANOSECONDS

ENDED_KEPT = 300
"""Ended jobs that an estimate knows of, as those of a real cluster do."""
SHORTEST_SECONDS = 10.0
"""Shorter waits, and estimates, count as this: nobody minds the difference between one second and two."""
NEAR_SECONDS = 1.0
"""What is so near to a range is within it."""


@dataclass(frozen=True, slots=True)
class Case:
    """An estimate, and what came."""

    estimate: StartEstimate
    seconds: float
    """From the moment of the estimate until the job started."""

    @property
    def factor(self) -> float:
        """By what factor the estimate was off; infinite where it has no middle."""
        middle = self.estimate.first.middle
        if middle is None:
            return math.inf
        return math.exp(abs(math.log(max(middle, SHORTEST_SECONDS) / max(self.seconds, SHORTEST_SECONDS))))

    @property
    def within(self) -> bool:
        """Whether the job started within the range."""
        first = self.estimate.first
        low, high = first.low, math.inf if first.high is None else first.high
        return low is not None and low - NEAR_SECONDS <= self.seconds <= high + NEAR_SECONDS


class Replay:
    """A workload of which some moments are looked at."""

    def __init__(
        self, hosts: Sequence[HostSpec], pools: Sequence[PoolConfig], jobs: Sequence[SimJob], seed: int = 0
    ) -> None:
        self._pools = tuple(pools)
        self._hosts = tuple(LiveHost(host.hostname, host.resources, host.labels) for host in hosts)
        self._jobs = jobs
        self._random = Random(seed)
        self._ended: list[Ran] = []
        self._starts: dict[JobId, float] = {}
        self._simulation = Simulation(hosts, pools, jobs)
        self._simulation.on_end = self._note_end
        self._simulation.cluster.on_start = self._note_start

    def _note_start(self, run: SimRun) -> None:
        self._starts.setdefault(parse_mesos_task_id(run.id)[0], self._simulation.kernel.now)

    def _note_end(self, job: CachedJob) -> None:
        for seconds in islice(seconds_of_runs(job.tasks), 1):
            spec = job.spec
            size = LiveJob(job.job_id, spec, 0, {}).size
            began = min(task.start_time for task in job.tasks if task.start_time) / NANOSECONDS
            self._ended.append(Ran(spec.pool_id, spec.owner, spec.name, seconds, size, began))

    def state(self) -> LiveState:
        """Return what an estimate may know now."""
        simulation = self._simulation
        now = simulation.kernel.wall(simulation.hostmgr.life)
        return LiveState(now, self._hosts, self._pools, tuple(self._live()), tuple(self._ended[-ENDED_KEPT:]))

    def _live(self) -> Iterator[LiveJob]:
        for job_id, stored in self._simulation.store.active_jobs().items():
            tasks = dict(stored.tasks)
            if not tasks or not all(task.state.terminal for task in tasks.values()):
                spec = stored.specs[stored.runtime.config_version]
                seconds = tuple(seconds_of_runs(tasks.values()))
                yield LiveJob(job_id, spec, stored.runtime.creation_time, tasks, seconds)

    def run(
        self,
        moments: int,
        clock: Callable[[], float],
        bounds: Bounds = DEFAULT,
        note: Callable[[int], None] = lambda done: None,
    ) -> list[Case]:
        """Return the cases of some moments, spread at random from the first job to the last.

        A moment at which no job waits has none. `note` is called with the number of moments that are done.
        """
        span = self._jobs[-1].submit
        times = sorted(self._random.uniform(0, span) for _ in range(moments))
        made: list[tuple[JobId, float, StartEstimate]] = []
        kernel = self._simulation.kernel
        self._simulation.start()
        with rare_collections():
            for done, time in enumerate(times, 1):
                kernel.run(time)
                state = self.state()
                waiting = [job for job in state.jobs if job.job_id not in self._starts and job.waiting()]
                if waiting:
                    job_id = self._random.choice(waiting).job_id
                    made.append((job_id, kernel.now, estimate(state, job_id, clock, bounds)))
                note(done)
            kernel.run(math.inf, lambda: all(job_id in self._starts for job_id, _, _ in made[-1:]))
            while any(job_id not in self._starts for job_id, _, _ in made):
                before = kernel.events
                kernel.run(kernel.now + 3600)
                if kernel.events == before:
                    break
        starts = self._starts
        return [Case(found, starts[job_id] - at) for job_id, at, found in made if job_id in starts]


@dataclass(frozen=True, slots=True)
class Errors:
    """How far estimates were off."""

    cases: int
    without: int
    """Cases without a middle: not expected within the time that was simulated."""
    factor: float
    """By what factor the middle was off, in the median."""
    factor_p90: float
    """The same in nine of ten cases at most."""
    covered: float
    """Part of the cases in which the job started within the range."""


def errors_of(cases: Sequence[Case]) -> Errors:
    """Return the errors of some cases, at least one."""
    factors = sorted(case.factor for case in cases)
    return Errors(
        len(cases),
        sum(math.isinf(each) for each in factors),
        factors[(len(factors) - 1) // 2],
        factors[min(len(factors) - 1, len(factors) * 9 // 10)],
        sum(case.within for case in cases) / len(cases),
    )
