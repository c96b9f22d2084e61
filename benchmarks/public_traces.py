"""Public traces of jobs through the simulator, and through policies of others.

The simulator runs Peloton's cores; the references are those of `reference_policies`, on one queue over as
many processors as the cluster has. In lublin_256 a processor is a core of one host, in the traces of GPUs
a GPU of a host of eight; a job of more is a gang over several hosts.

The trace of Gavel tells steps of models in place of run times. Its jobs are of the Philly trace: where
both have a job, its steps by its run time are the speed of its model, equal for all jobs of that model.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from random import Random
from statistics import median

from benchmarks.reference_hosts import Pieces, waits_on_hosts
from benchmarks.reference_policies import POLICIES, Figures, Job, figures, waits
from peloton.errors import InvalidArgument
from peloton.model.resources import MILLI, Resources
from resmgr.core.preemption.decide import Rules
from simulator.daemons.resmgr_term import ResmgrOptions
from simulator.jobs import SimJob
from simulator.results.recorder import Recorder
from simulator.simulation import Options, Simulation
from simulator.workloads.cluster import ClusterSettings, HostsSettings, hosts_of, pools_of
from simulator.workloads.jobs import read_jobs
from simulator.workloads.public import CPU_OF_A_GPU, GPUS_OF_A_HOST, MEMORY_OF_A_GPU

LUBLIN, PHILLY, GAVEL = "lublin_256.swf", "philly.csv", "gavel_msr_seed0_ee9e8c.trace"
LUBLIN_PROCESSORS = 256
SEQUENCE = 1024
"""Jobs of a sequence of lublin_256, as in "RLScheduler" (Zhang et al., SC 2020)."""
GAVEL_GPUS, PHILLY_GPUS = 288, 640
"""So that jobs wait: their work is 98 and 59 % of what these have from the first arrival to the last."""
PREEMPTION_SECONDS = 600.0
"""From one look for tasks to preempt to the next, in traces of months: the default is a minute."""
GAVEL_CLUSTER = "ee9e8c"
GAVEL_BEGIN = datetime(2017, 9, 14, 9, 31, 40, tzinfo=UTC).timestamp()
"""The time in the Philly trace at which Gavel's begins."""
LONGEST_LOG2 = 32
"""Of the run time, in seconds, from which on all jobs have the priority 0."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Jobs, and a cluster with as many processors as they are counted in."""

    name: str
    jobs: Sequence[SimJob]
    cluster: ClusterSettings
    processors: int
    of: str
    """The kind of resource of which a processor is one."""

    @property
    def hosts(self) -> int:
        """How many hosts there are, which are all alike."""
        return sum(kind.count for kind in self.cluster.hosts)

    def on_one_host(self) -> Workload:
        """Return the same jobs on one host that has all: no host is too small for a job."""
        one, hosts = self.cluster.hosts[0], self.hosts
        large = HostsSettings(cpu=one.cpu * hosts, memory=one.memory * hosts, gpu=one.gpu * hosts)
        return replace(self, cluster=ClusterSettings(hosts=(large,)))

    def references(self) -> list[Job]:
        """Return the jobs as the references take them."""
        return [
            Job(job.submit, job.seconds, getattr(job.resources, self.of) * job.instances // MILLI)
            for job in self.jobs
        ]


def lublin(path: Path, seed: int, count: int = SEQUENCE) -> Workload:
    """Return some consecutive jobs of lublin_256, from a place by a seed on. Raises InvalidArgument, OSError.

    A job is one instance with as many cores as processors: the model knows no nodes.
    """
    jobs = read_jobs(path)
    begin = Random(seed).randrange(max(1, len(jobs) - count))
    part = [
        replace(job, resources=Resources.of(cpu=job.instances), instances=1, gang=False)
        for job in jobs[begin : begin + count]
    ]
    hosts = HostsSettings(count=1, cpu=LUBLIN_PROCESSORS)
    name = f"lublin_256, {len(part)} jobs from job {begin + 1} on"
    return Workload(name, _from_zero(part), ClusterSettings(hosts=(hosts,)), LUBLIN_PROCESSORS, "cpu")


def philly(path: Path, gpus: int = PHILLY_GPUS, begin: int = 0, count: int = 0) -> Workload:
    """Return jobs of the Philly trace, those from `begin` on, `count` (0: all). Raises as `read_jobs`."""
    jobs = read_jobs(path)[begin:]
    part = _from_zero([job for job in (jobs[:count] if count else jobs) if _gpus(job) <= gpus])
    return Workload(f"Philly, {len(part)} jobs on {gpus} GPUs", part, _gpu_cluster(gpus), gpus, "gpu")


def gavel(path: Path, philly_path: Path, gpus: int = GAVEL_GPUS, count: int = 0) -> Workload:
    """Return the first jobs of Gavel's trace, `count` (0: all), with the run times that Philly's tells.

    Raises as `read_jobs`.
    """
    rows = [_gavel_row(path, number, line) for number, line in enumerate(path.read_text().splitlines(), 1)]
    speeds = gavel_speeds(rows, read_begun(philly_path))
    missing = {model for model, *_ in rows} - speeds.keys()
    if missing:
        expected = "a job of each model in both traces"
        raise InvalidArgument(str(philly_path), ", ".join(sorted(missing)), expected)
    jobs = [
        _gpu_job(f"job-{number}", arrival, max(1.0, steps / speeds[model]), asked)
        for number, (model, steps, arrival, asked) in enumerate(sorted(rows, key=lambda row: row[2]), 1)
    ]
    jobs = jobs[:count] if count else jobs
    name = f"Gavel's MSR trace, {len(jobs)} jobs on {gpus} GPUs"
    return Workload(name, jobs, _gpu_cluster(gpus), gpus, "gpu")


GavelRow = tuple[str, int, float, int]
"""Model, steps, arrival in seconds, GPUs."""
Begun = dict[tuple[int, int], list[float]]
"""By the second of a job's begin and its GPUs: how long jobs took, in seconds."""


def _gavel_row(path: Path, number: int, line: str) -> GavelRow:
    fields = line.split("\t")
    try:
        model, _, _, _, steps, arrival, gpus = fields
        return model, int(steps), float(arrival), int(gpus)
    except ValueError:
        expected = "a model, a command, its argument, 0 or 1, steps, an arrival, GPUs; with tabs between"
        raise InvalidArgument(f"{path}:{number}", line, expected) from None


def read_begun(path: Path) -> Begun:
    """Return the jobs of the Philly trace that are in Gavel's cluster."""
    found: Begun = defaultdict(list)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["cluster"].startswith(GAVEL_CLUSTER):
                begun = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()
                found[int(begun), int(float(row["num_gpus"]))].append(float(row["duration"]))
    return found


def gavel_speeds(rows: Sequence[GavelRow], begun: Begun) -> dict[str, float]:
    """Return the steps a second of each model of which both traces have jobs: the median over these."""
    found: dict[str, list[float]] = defaultdict(list)
    for model, steps, arrival, gpus in rows:
        for seconds in begun.get((int(arrival + GAVEL_BEGIN), gpus), ()):
            if seconds > 0:
                found[model].append(steps / seconds)
    return {model: median(speeds) for model, speeds in found.items()}


def _gpu_job(name: str, submit: float, seconds: float, gpus: int) -> SimJob:
    each = next(n for n in range(min(gpus, GPUS_OF_A_HOST), 0, -1) if gpus % n == 0)
    needs = Resources.of(CPU_OF_A_GPU * each, MEMORY_OF_A_GPU * each, 0.0, each)
    return SimJob(name, submit, "/default", needs, seconds, gpus // each, preemptible=True)


def _gpus(job: SimJob) -> int:
    return job.resources.gpu * job.instances // MILLI


def _gpu_cluster(gpus: int) -> ClusterSettings:
    cpu, memory = CPU_OF_A_GPU * GPUS_OF_A_HOST, MEMORY_OF_A_GPU * GPUS_OF_A_HOST
    hosts = HostsSettings(count=gpus // GPUS_OF_A_HOST, cpu=cpu, memory=memory, gpu=GPUS_OF_A_HOST)
    return ClusterSettings(hosts=(hosts,))


def _from_zero(jobs: Sequence[SimJob]) -> list[SimJob]:
    first = jobs[0].submit if jobs else 0.0
    return [replace(job, submit=job.submit - first) for job in jobs]


# The runs.


def by_references(workload: Workload) -> dict[str, Figures]:
    """Return the figures of each reference policy; over hosts, too, where there are several."""
    jobs = workload.references()
    seconds = [job.seconds for job in jobs]
    found = {
        name: figures(waits(jobs, workload.processors, order, backfill), seconds)
        for name, (order, backfill) in POLICIES.items()
    }
    hosts = workload.hosts
    if hosts == 1:
        return found
    pieces = [Pieces(job, of.instances) for job, of in zip(jobs, workload.jobs, strict=True)]
    for name, (order, backfill) in POLICIES.items():
        if not backfill:
            for passing in (False, True):
                waited = waits_on_hosts(pieces, hosts, workload.processors // hosts, order, passing)
                what = "on hosts, passing what does not fit" if passing else "on hosts"
                found[f"{name}, {what}"] = figures(waited, seconds)
    return found


class Told(Enum):
    """What Peloton is told of a job beside what it needs."""

    NOTHING = "Peloton, by pools"
    """Each pool of the trace has an equal part reserved, and borrows what others leave."""
    PRIORITIES = "Peloton, one pool, shorter jobs with higher priorities"
    """All is reserved for the pool, and the jobs are not preemptible: priorities change the order only."""


def by_peloton(workload: Workload, told: Told = Told.NOTHING) -> Figures:
    """Return the figures of Peloton's cores. Raises InvalidArgument where a job has not succeeded."""
    jobs = [_told(job, told) for job in workload.jobs]
    hosts = hosts_of(workload.cluster)
    pools = pools_of(workload.cluster, hosts, [job.pool for job in jobs])
    simulation = Simulation(hosts, pools, jobs, _options())
    recorder = Recorder(simulation)
    simulation.run()
    ended = [each for each in recorder.record.jobs if each.state == "SUCCEEDED"]
    if len(ended) != len(jobs):
        raise InvalidArgument(workload.name, f"{len(ended)} of {len(jobs)} jobs", "jobs that all succeed")
    return figures([each.wait for each in ended], [each.completion - each.wait for each in ended])


def _options() -> Options:
    rules = Rules(period=PREEMPTION_SECONDS)
    return Options(resmgr=ResmgrOptions(rules=rules, preemption_period=PREEMPTION_SECONDS))


def _told(job: SimJob, told: Told) -> SimJob:
    if told is Told.PRIORITIES:
        return replace(job, pool="/default", preemptible=False, priority=shorter_higher(job.seconds))
    return job


def shorter_higher(seconds: float) -> int:
    """Return the priority of a job by its run time: one more for each 0.7 % that it is shorter."""
    return max(0, round(100 * (LONGEST_LOG2 - math.log2(max(seconds, 1.0)))))
