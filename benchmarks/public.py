"""Peloton against others on public ground: docs/benchmarks.md tells what is compared, and the results.

python -m benchmarks.public kueue [--test baseline] [--cohorts 0] [--part 1]
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from benchmarks import gpu_sharing, kueue, public_traces
from benchmarks.reference_policies import Figures
from benchmarks.throughput import client_of, report_usage, tell, usage
from minicluster.components import DAEMONS
from minicluster.temporary import run_program, temporary_cluster

TRACES = Path("../shared/traces")
SHARES = (1.0, 1.3)


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: options.run(options))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(required=True, metavar="TEST")
    one = kinds.add_parser("kueue", help="Kueue's performance test through the real daemons")
    one.add_argument("--test", choices=tuple(kueue.TESTS), default="baseline")
    one.add_argument("--cohorts", type=int, default=0, help="in place of the test's own number")
    one.add_argument("--part", type=float, default=1.0, help="of the workloads of each stream")
    one.add_argument("--hosts", type=int, default=kueue.HOSTS, help=f"of {kueue.HOST_CPUS} cores")
    one.add_argument("--timeout", type=float, default=1200.0, help="seconds until the run is given up")
    one.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    one.set_defaults(run=run_kueue)
    two = kinds.add_parser("openb", help="GPUs of Alibaba's cluster that rankings of hosts allocate")
    two.add_argument("--traces", type=Path, default=TRACES, help="folder of the public traces")
    two.add_argument("--seeds", type=int, default=3, help="drawn workloads")
    two.set_defaults(run=run_openb)
    three = kinds.add_parser("jobs", help="traces of jobs through the simulator, and by other policies")
    three.add_argument("--traces", type=Path, default=TRACES, help="folder of the public traces")
    three.add_argument("--only", choices=("lublin", "gavel", "philly"), help="one of them")
    three.add_argument("--seeds", type=int, default=10, help="sequences of lublin_256")
    three.add_argument("--jobs", type=int, default=0, help="the first jobs of Gavel and Philly only; 0: all")
    three.set_defaults(run=run_jobs)
    return parser.parse_args()


def run_kueue(options: argparse.Namespace) -> int:
    test = kueue.TESTS[options.test]
    given = kueue.generator_of(test, options.cohorts, options.part)
    with temporary_cluster(kueue.cluster_settings(options.hosts), tell, options.keep_logs) as cluster:
        with client_of(cluster) as client:
            before = usage(cluster)
            result = kueue.run(cluster, client, given, options.timeout)
        after = usage(cluster)
        daemons = [part.name for part in cluster.components() if part.kind in DAEMONS]
    print(f"workloads: {result.workloads}")
    print(f"seconds until all were created: {result.creation:.1f}")
    print(f"seconds in all: {result.seconds:.1f} (published {test.seconds:.0f}, asked {test.asked:.0f})")
    print(f"use of the quotas: {100 * result.use:.1f} %")
    for kind, found in result.classes.items():
        published = test.admission[kind]
        print(f"{kind}: mean seconds to admission: {found.to_admission:.2f} (published {published:.1f})")
        print(f"{kind}: of these after jobmgr had it: {found.after_acceptance:.2f}")
    report_usage(before, after, daemons, result.workloads)
    print(f"load average: {os.getloadavg()[0]:.1f}")
    return 0


def run_openb(options: argparse.Namespace) -> int:
    hosts = gpu_sharing.read_hosts(options.traces / gpu_sharing.HOSTS)
    tasks = gpu_sharing.read_tasks(options.traces / gpu_sharing.TASKS)
    found: dict[str, list[list[gpu_sharing.Allocated]]] = defaultdict(list)
    for seed in range(options.seeds):
        for name, ranking in gpu_sharing.rankings(hosts, tasks, seed).items():
            drawn = gpu_sharing.drawn(tasks, seed)
            found[name].append(gpu_sharing.allocate(hosts.copy(), drawn, ranking, SHARES))
            tell(f"seed {seed}: {name}")
    for name, runs in found.items():
        for share, at in zip(SHARES, zip(*runs, strict=True), strict=True):
            values = [100 * each.allocated for each in at]
            spread = f"{min(values):.1f} to {max(values):.1f}"
            print(f"{name}: GPUs allocated at {share:.0%}: {mean(values):.1f} % ({spread})")
    return 0


def run_jobs(options: argparse.Namespace) -> int:
    folder, only = options.traces, options.only
    if only in (None, "lublin"):
        path = folder / public_traces.LUBLIN
        compare("lublin_256", [public_traces.lublin(path, seed) for seed in range(options.seeds)])
    philly = folder / public_traces.PHILLY
    if only in (None, "gavel"):
        one = public_traces.gavel(folder / public_traces.GAVEL, philly, count=options.jobs)
        compare(one.name, [one])
    if only in (None, "philly"):
        one = public_traces.philly(philly, count=options.jobs)
        compare(one.name, [one])
    return 0


def compare(name: str, workloads: Sequence[public_traces.Workload]) -> None:
    """Print the means over some workloads, by policy."""
    found: dict[str, list[Figures]] = defaultdict(list)
    for one in workloads:
        for policy, figures in public_traces.by_references(one).items():
            found[policy].append(figures)
        for told in public_traces.Told:
            found[told.value].append(public_traces.by_peloton(one, told))
            tell(f"{one.name}: {told.value}")
        if one.hosts > 1:
            found["Peloton, on one host"].append(public_traces.by_peloton(one.on_one_host()))
    for policy, of in found.items():
        print(f"{name}: {policy}: mean wait s: {mean(each.wait for each in of):.0f}")
        print(f"{name}: {policy}: mean completion s: {mean(each.completion for each in of):.0f}")
        print(f"{name}: {policy}: bounded slowdown: {mean(each.slowdown for each in of):.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
