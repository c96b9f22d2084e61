"""What each daemon needs as hosts and tasks grow: memory, CPU to start a task, CPU while all run.

    python -m benchmarks.scaling [--hosts 1000,10000] [--tasks 10000,100000] [--pending 0] [--csv F] [--svg F]
        [--clusters 4] [--jobmgrs 2] [--placements 4] [--mixed]

For each number of hosts (of all clusters together) simulated agents are started, and for each number of
tasks, in ascending order, jobs of up to 100,000 instances are created until that number runs; then jobs in a
pool with room for one task, until --pending instances wait. Tasks last longer than the run. Prints a table
with a row for each process and step, and one for the processes of a kind together where there are several.
Memory is the proportional set size (PSS); what a task needs of it is the growth since there was no task, by
all tasks there are. `% of a core` is what it takes while nothing changes, over --watch seconds; jobmgr,
resmgr and hostmgr compare what they know with each other then.

With --mixed half of the tasks run on any host. The others run on hosts of some racks (20 %), a few of a job
on each host (15 %), with a GPU, which the hosts of the last cluster have (10 %), and on the tenth of the
hosts that is exclusive (5 %).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from typing import Any

import pygal

from benchmarks.idle import memory, pid_of, spent
from benchmarks.scaling_jobs import ATTRIBUTES, Creator, parts
from benchmarks.sharing import settle
from benchmarks.throughput import client_of, make_pool, tell
from minicluster.components import Component
from minicluster.settings import (
    MOST_CLUSTERS,
    ClusterSettings,
    DaemonSettings,
    Instances,
    NamedCluster,
    Simulated,
    read_cluster,
)
from minicluster.temporary import run_program, temporary_cluster
from peloton.api.v0.job import job_pb2
from peloton.client import PelotonClient
from peloton.errors import PelotonError
from peloton.model.usage import BYTES_PER_MB

LASTING_SECONDS = 86_400.0
POLL_SECONDS = 1.0
HOST = "cpus:64;mem:262144;disk:1000000;ports:[31000-31999]"
GPUS_EACH = 16
GPUS = f";gpus:{GPUS_EACH}"
SMALL = 1500.0
"""The limit of each kind of the pool in which tasks wait: one of them has room."""
ADDED = ("memory_mb", "bytes_a_task", "cpu_us_a_task", "core_percent")
"""What is added for the processes of a kind."""


@dataclass(frozen=True, slots=True)
class Row:
    """What one process, or all of a kind, need at one step. Memory in MB, CPU in microseconds."""

    hosts: int
    tasks: int
    """That run."""
    pending: int
    daemon: str
    memory_mb: float
    bytes_a_task: float
    """Growth of the memory since there was no task."""
    cpu_us_a_task: float
    """To start a task, or to enqueue one that waits; of those of this step."""
    core_percent: float
    """While nothing changes."""
    tasks_per_second: float
    """That were started, or enqueued, in this step."""


def main() -> int:
    options = arguments()
    return run_program("benchmark", lambda: measure(options))


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--hosts", type=numbers, default=[1_000, 10_000], metavar="N,…")
    parser.add_argument("--tasks", type=numbers, default=[10_000, 100_000], metavar="N,…")
    parser.add_argument("--pending", type=int, default=0, help="instances that wait beside the last step")
    parser.add_argument("--clusters", type=int, default=1, help=f"of Mesos, 1 to {MOST_CLUSTERS}")
    parser.add_argument("--jobmgrs", type=int, default=1, help="job managers; several share the work")
    parser.add_argument("--placements", type=int, default=0, help="placement engines, all for batch jobs")
    parser.add_argument("--mixed", action="store_true", help="half of the tasks have constraints")
    parser.add_argument("--storage", default="sqlite", metavar="sqlite|cassandra[=HOST:PORT,…]")
    parser.add_argument("--watch", type=float, default=15.0, help="seconds for which nothing changes")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds until a step is given up")
    parser.add_argument("--csv", type=Path, help="write the rows to this file, too")
    parser.add_argument("--svg", type=Path, help="draw memory by tasks into this file")
    parser.add_argument("--keep-logs", type=Path, help="copy the daemons' logs to this folder")
    options = parser.parse_args(given)
    if options.mixed and options.clusters == 1:
        parser.error("--mixed: needs --clusters 2 or more, of which the last one has the GPUs")
    return options


def numbers(text: str) -> list[int]:
    """Read ascending numbers. Raises ValueError, which argparse tells."""
    found = sorted({int(each) for each in text.split(",")})
    if found[0] < 1:
        raise ValueError(text)
    return found


def measure(options: argparse.Namespace) -> int:
    rows: list[Row] = []
    print(" ".join(f"{field.name:>16}" for field in fields(Row)))
    for hosts in options.hosts:
        for row in of_hosts(hosts, options):
            rows.append(row)
            print(" ".join(f"{shown(value):>16}" for value in astuple(row)), flush=True)
    print(f"load average: {os.getloadavg()[0]:.1f}")
    if options.csv:
        with options.csv.open("w", newline="") as file:
            csv.writer(file).writerows([[field.name for field in fields(Row)], *map(astuple, rows)])
    if options.svg:
        options.svg.write_text(drawn(rows))
    return 0


def shown(value: Any) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def of_hosts(hosts: int, options: argparse.Namespace) -> Iterator[Row]:
    """Yield the rows of a cluster with this number of hosts."""
    settings, logs = settings_of(hosts, options), options.keep_logs
    with temporary_cluster(settings, tell, logs) as cluster, client_of(cluster) as client:
        if options.jobmgrs > 1:
            settle(client, options.jobmgrs)
        pool, full = make_pool(client), make_pool(client, "full", SMALL)
        parts_of = cluster.components()
        pids = {part.name: pid_of(cluster, part.name) for part in parts_of}
        time.sleep(options.watch)
        step = Step(pids, kinds(parts_of), hosts, options.watch)
        step.empty = step.memories()
        yield from step.rows(0, 0, 0, 0.0, step.cpu())
        creator, running = Creator(client, hosts), 0
        for tasks in options.tasks:
            before, begun = step.cpu(), time.monotonic()
            for part in parts(tasks - running, options.mixed):
                creator.create(pool, part)
            await_tasks(client, "RUNNING", tasks, options.timeout)
            seconds, added, running = time.monotonic() - begun, tasks - running, tasks
            yield from step.rows(tasks, 0, added, seconds, before)
        if options.pending:
            before, begun = step.cpu(), time.monotonic()
            for part in parts(options.pending + 1, options.mixed):
                creator.create(full, part)
            await_tasks(client, "PENDING", options.pending, options.timeout)
            yield from step.rows(running, options.pending, options.pending, time.monotonic() - begun, before)


def settings_of(hosts: int, options: argparse.Namespace) -> ClusterSettings:
    """Return the settings of clusters that have this number of hosts together."""
    tree = {"ports": "free", "storage": options.storage}
    each = [hosts // options.clusters] * options.clusters
    each[0] += hosts - sum(each)
    agents = [
        Simulated(
            agents=count,
            task_seconds=LASTING_SECONDS,
            resources=HOST + (GPUS if options.mixed and number == options.clusters else ""),
            attributes=ATTRIBUTES if options.mixed else "",
        )
        for number, count in enumerate(each, 1)
    ]
    further = [NamedCluster(name=f"cluster{i}", simulated=each) for i, each in enumerate(agents[1:], 2)]
    placements = {"placement": (("batch",),) * options.placements} if options.placements else {}
    changes = {
        "simulated": agents[0],
        "clusters": tuple(further),
        "instances": Instances(jobmgr=options.jobmgrs, **placements),
        "settings": DaemonSettings(jobmgr={"shared": options.jobmgrs > 1}),
    }
    return read_cluster(None, tree).model_copy(update=changes)


def kinds(parts: Sequence[Component]) -> dict[str, Sequence[str]]:
    """Return the names of the processes of each kind of which there are several."""
    found: dict[str, list[str]] = {}
    for part in parts:
        found.setdefault(part.kind, []).append(part.name)
    return {kind: names for kind, names in found.items() if len(names) > 1}


def await_tasks(client: PelotonClient, state: str, wanted: int, seconds: float) -> None:
    """Wait until this number of tasks of active jobs is in a state. Raises PelotonError."""
    deadline, found = time.monotonic() + seconds, 0
    while found < wanted:
        if time.monotonic() > deadline:
            raise PelotonError(f"after {seconds:.0f} s {found} of {wanted} tasks are {state}")
        time.sleep(POLL_SECONDS)
        found = sum(stats.get(state, 0) for stats in task_stats(client))


def task_stats(client: PelotonClient) -> Iterator[Mapping[str, int]]:
    """Yield the counts by state of all jobs."""
    request = job_pb2.QueryRequest(summaryOnly=True)
    request.spec.pagination.limit = 1000
    answer = client.job_svc.Query(request, metadata=client.jobmgr_metadata, timeout=60)
    for job in answer.results:
        yield job.runtime.taskStats


class Step:
    """The processes of a cluster, and what they have used."""

    def __init__(
        self, pids: Mapping[str, int], kinds: Mapping[str, Sequence[str]], hosts: int, watch: float
    ) -> None:
        self.empty: Mapping[str, float] = {}
        """Memory of each in MB where there was no task."""
        self._pids = pids
        self._kinds = kinds
        self._hosts = hosts
        self._watch = watch

    def cpu(self) -> dict[str, float]:
        """Return the CPU seconds of each process since its start."""
        return {name: spent(pid).cpu for name, pid in self._pids.items()}

    def memories(self) -> dict[str, float]:
        """Return the memory of each process in MB."""
        return {name: memory(pid).pss for name, pid in self._pids.items()}

    def rows(
        self, tasks: int, pending: int, added: int, seconds: float, before: Mapping[str, float]
    ) -> list[Row]:
        """Return a row for each process and kind, where `added` tasks took `seconds`, from `before` on."""
        reached = self.cpu()
        time.sleep(self._watch)
        later, held, known = self.cpu(), self.memories(), tasks + pending
        rows = {
            name: Row(
                self._hosts,
                tasks,
                pending,
                name,
                held[name],
                (held[name] - self.empty[name]) * BYTES_PER_MB / known if known else 0.0,
                (reached[name] - before[name]) * 1e6 / max(added, 1) if added else 0.0,
                100 * (later[name] - reached[name]) / self._watch,
                added / seconds if seconds else 0.0,
            )
            for name in self._pids
        }
        return [
            *rows.values(),
            *(total(kind, [rows[n] for n in names]) for kind, names in self._kinds.items()),
        ]


def total(kind: str, rows: Sequence[Row]) -> Row:
    """Return what all processes of a kind need together."""
    return replace(
        rows[0],
        daemon=f"{len(rows)} {kind}",
        **{name: sum(getattr(row, name) for row in rows) for name in ADDED},
    )


def shown_names(rows: Sequence[Row]) -> list[str]:
    """Return whose rows are drawn: processes, but kinds where there are several of one."""
    names = list(dict.fromkeys(row.daemon for row in rows))
    several = tuple(name.split()[1] for name in names if " " in name)
    return [name for name in names if not name.startswith(several)]


def drawn(rows: Sequence[Row]) -> str:
    """Return a picture: the memory of each daemon by the number of tasks, both axes logarithmic."""
    plot = pygal.XY(
        title="memory in MB by tasks",
        x_title="tasks",
        logarithmic=True,
        xrange=(1, max(row.tasks + row.pending for row in rows) or 1),
        js=(),
        disable_xml_declaration=True,
    )
    for hosts in sorted({row.hosts for row in rows}):
        for name in shown_names(rows):
            points = [
                (row.tasks + row.pending, row.memory_mb)
                for row in rows
                if row.daemon == name and row.hosts == hosts and row.tasks
            ]
            plot.add(f"{name}, {hosts} hosts", points)
    return str(plot.render(is_unicode=True))


if __name__ == "__main__":
    sys.exit(main())
