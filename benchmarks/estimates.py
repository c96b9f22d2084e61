"""How far estimates of the start of jobs are off: simulated workloads are looked at at random moments.

At each moment one of the jobs that wait is estimated by what is known then; what becomes of it is compared.
The figures are those of docs/simulator.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

from benchmarks import public_traces
from benchmarks.public_traces import Workload
from peloton.model.resources import Resources
from simulator.forecast.estimates import Bounds
from simulator.forecast.replay import Case, Errors, Replay, errors_of
from simulator.jobs import SimJob
from simulator.workloads.cluster import (
    ClusterSettings,
    HostsSettings,
    KindSettings,
    PoolSettings,
    hosts_of,
    pools_of,
)

TRACES = Path("../shared/traces")
HOSTS, CORES = 32, 16
KINDS, JOBS = 24, 1500
LOAD = 0.95
"""The work of the generated workload, as a part of what the cluster could do meanwhile."""


GAVEL_GPUS, PHILLY_GPUS = 192, 256
"""So few that jobs wait in these parts of the traces."""


def recurring(seed: int, count: int = JOBS) -> Workload:
    """Return jobs of kinds that come again and again, in two pools, as pipelines make them.

    The durations of a kind are lognormal: two of three are within 30 % of its median. Jobs of every other
    kind have a limit of three times the median, some are gangs.
    """
    random = Random(seed)
    kinds = [
        (
            random.choice("ab"),
            random.lognormvariate(6.5, 1.0),
            random.choice((1, 2, 4, 8)),
            random.choice((1, 1, 1, 4)),
        )
        for _ in range(KINDS)
    ]
    work = sum(middle * cores * instances for _, middle, cores, instances in kinds) / KINDS
    interval = work / (LOAD * HOSTS * CORES)
    jobs, now = list[SimJob](), 0.0
    for number in range(count):
        kind = random.randrange(KINDS)
        pool, middle, cores, instances = kinds[kind]
        jobs.append(
            SimJob(
                f"kind{chr(97 + kind)}-{number}",
                now,
                f"/{pool}",
                Resources.of(cores),
                random.lognormvariate(0, 0.3) * middle,
                instances,
                priority=0,
                longest=round(3 * middle) if kind % 2 else 0,
            )
        )
        now += random.expovariate(1 / interval)
    half = {"cpu": KindSettings(reservation=HOSTS * CORES / 2)}
    cluster = ClusterSettings(
        hosts=(HostsSettings(count=HOSTS, cpu=CORES),),
        pools=tuple(PoolSettings(path=f"/{pool}", resources=half) for pool in "ab"),
    )
    return Workload("recurring jobs", jobs, cluster, HOSTS * CORES, "cpu")


def limited(workload: Workload, seed: int) -> Workload:
    """Return a workload whose jobs have limits: from their run time up to five times as much."""
    random = Random(seed)
    jobs = [replace(job, longest=max(1, round(job.seconds * random.uniform(1, 5)))) for job in workload.jobs]
    return replace(workload, name=f"{workload.name}, with limits", jobs=jobs)


def workloads(folder: Path, seed: int) -> dict[str, Callable[[], Workload]]:
    """Return the workloads by name."""
    lublin = folder / public_traces.LUBLIN
    philly = folder / public_traces.PHILLY
    return {
        "recurring": lambda: recurring(seed),
        "lublin": lambda: public_traces.lublin(lublin, seed),
        "limits": lambda: limited(public_traces.lublin(lublin, seed), seed),
        "gavel": lambda: public_traces.gavel(folder / public_traces.GAVEL, philly, GAVEL_GPUS, 600),
        "philly": lambda: public_traces.philly(philly, PHILLY_GPUS, 20_000 + 2000 * seed, 2000),
    }


def cases_of(workload: Workload, moments: int, seed: int, bounds: Bounds) -> Iterator[Case]:
    """Yield the cases of a workload."""
    hosts = hosts_of(workload.cluster)
    pools = pools_of(workload.cluster, hosts, [job.pool for job in workload.jobs])

    def note(done: int) -> None:
        print(f"\r{workload.name}: {done} of {moments}", end="", file=sys.stderr, flush=True)

    yield from Replay(hosts, pools, workload.jobs, seed).run(moments, time.process_time, bounds, note)
    print(file=sys.stderr)


def show(name: str, errors: Errors, cases: list[Case]) -> None:
    """Print the figures."""
    print(f"{name}: estimates: {errors.cases}, without a middle: {errors.without}")
    print(f"{name}: factor off in the median: {errors.factor:.2f}")
    print(f"{name}: factor off in nine of ten at most: {errors.factor_p90:.1f}")
    print(f"{name}: within the range: {100 * errors.covered:.0f} %")
    early = sum(case.seconds > (case.estimate.first.middle or 0.0) for case in cases)
    print(f"{name}: later than the middle: {100 * early / len(cases):.0f} %")
    runs = sorted(case.estimate.runs for case in cases)
    print(f"{name}: runs of the simulator in the median: {runs[len(runs) // 2]}", flush=True)


def main() -> int:
    """Run the workloads that are wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = tuple(workloads(TRACES, 0))
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the public traces")
    parser.add_argument("--only", choices=known, help="one of the workloads")
    parser.add_argument("--moments", type=int, default=100, help="of each workload and seed")
    parser.add_argument("--seeds", type=int, default=2, help="parts of the traces")
    parser.add_argument("--seconds", type=float, default=5.0, help="CPU time of an estimate")
    options = parser.parse_args()
    every: list[Case] = []
    print(
        f"moments: {options.moments}, seeds: {options.seeds}, CPU seconds of an estimate: {options.seconds:g}"
    )
    for name in [options.only] if options.only else known:
        cases = [
            case
            for seed in range(options.seeds)
            for case in cases_of(
                workloads(options.traces, seed)[name](),
                options.moments,
                seed,
                Bounds(seconds=options.seconds),
            )
        ]
        if not cases:
            print(f"{name}: no job waits at these moments")
            continue
        show(name, errors_of(cases), cases)
        every += cases
    if every:
        show("all", errors_of(every), every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
