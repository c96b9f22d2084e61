"""What is noted while a simulation runs: the ends of jobs, and what pools hold at intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobmgr.core.state.cache import CachedJob
from peloton.model.ids import JobId, MesosTaskId, parse_mesos_task_id
from peloton.model.resources import Resources, total
from simulator.jobs import SimJob, job_id_of
from simulator.results.fragmentation import fragmentation, scarce_kind, shapes_of
from simulator.simulation import Simulation
from simulator.world.agents import SimRun
from simulator.world.cluster import both

NANOSECONDS = 1e9
SAMPLES = 300
SHORTEST_INTERVAL = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended. Times are in seconds."""

    job: SimJob
    wait: float
    """From its creation until its first instance ran; of a job of which none did, until its end."""
    completion: float
    """From its creation to its end."""
    state: str
    runs: int
    """Runs of its instances, the repeated ones included."""


@dataclass(frozen=True, slots=True)
class PoolSample:
    """What a pool has at a moment, as shares of the cluster's scarcest kind."""

    allocated: float
    entitled: float
    waiting: float


@dataclass(slots=True)
class Record:
    """All that is known after a run."""

    capacity: Resources
    jobs: list[Ended] = field(default_factory=list)
    samples: list[tuple[float, dict[str, PoolSample]]] = field(default_factory=list)
    """At each time, by the path of the pool."""
    fragmentation: list[float] = field(default_factory=list)
    """At each time of the samples: the part of what is free that tasks cannot use (`fragmentation`)."""
    used: list[float] = field(default_factory=lambda: [0.0] * 4)
    """Amounts × seconds that runs had, in thousandths, by kind."""
    seconds: float = 0.0
    """Until the last job has ended."""
    preempted: int = 0
    """Runs that were preempted."""
    lost_seconds: float = 0.0
    """Time that preempted runs had run."""


class Recorder:
    """Follows one simulation."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._started: dict[MesosTaskId, tuple[float, Resources]] = {}
        hosts = simulation.cluster.agents.values()
        self.record = Record(total(agent.spec.resources for agent in hosts))
        self._kind = scarce_kind(self.record.capacity)
        self._shapes = shapes_of(simulation.jobs, self._kind)
        self._numbers: dict[JobId, int] = {
            job_id_of(number): number for number in range(len(simulation.jobs))
        }
        simulation.on_end = self._on_end
        simulation.cluster.on_start = self._on_start
        simulation.cluster.on_end = both(simulation.cluster.on_end, self._on_run_end)
        self._sample_later(simulation.jobs)

    def _sample_later(self, jobs: Sequence[SimJob]) -> None:
        span = max((job.submit + job.seconds for job in jobs), default=0.0)
        interval = max(SHORTEST_INTERVAL, span / SAMPLES)
        kernel, life = self._simulation.kernel, self._simulation.hostmgr.life

        def sample() -> None:
            self._sample()
            kernel.after(interval, life, sample)

        kernel.after(interval, life, sample)

    def _sample(self) -> None:
        found = {}
        capacity = self.record.capacity.values()
        for pool in self._simulation.resmgr.scheduler.tree.leaves():
            shares = [
                (used / whole, entitled / whole, demand / whole)
                for used, entitled, demand, whole in zip(
                    pool.used, pool.entitlement, pool.demand, capacity, strict=True
                )
                if whole
            ]
            found[pool.path] = PoolSample(*(max(each) for each in zip(*shares, strict=True)))
        self.record.samples.append((self._simulation.kernel.now, found))
        free = [agent.spec.resources - agent.used for agent in self._simulation.cluster.agents.values()]
        self.record.fragmentation.append(fragmentation(free, self._shapes, self._kind))

    def _on_start(self, run: SimRun) -> None:
        self._started[run.id] = self._simulation.kernel.now, run.resources

    def _on_run_end(self, run: SimRun) -> None:
        begun = self._started.pop(run.id, None)
        if begun is None:
            return
        since, resources = begun
        seconds = self._simulation.kernel.now - since
        for kind, amount in enumerate(resources.values()):
            self.record.used[kind] += amount * seconds
        if parse_mesos_task_id(run.id) in self._simulation.resmgr.loop.preempted:
            self.record.preempted += 1
            self.record.lost_seconds += seconds

    def _on_end(self, job: CachedJob) -> None:
        runtime = job.runtime
        begun = runtime.start_time or runtime.completion_time
        self.record.jobs.append(
            Ended(
                self._simulation.jobs[self._numbers[job.job_id]],
                (begun - runtime.creation_time) / NANOSECONDS,
                (runtime.completion_time - runtime.creation_time) / NANOSECONDS,
                runtime.state.name,
                sum(task.run for task in job.tasks),
            )
        )
        self.record.seconds = self._simulation.kernel.now
