"""Replay a public trace of GPU tasks: how many GPUs of a cluster each ranking allocates.

Tasks arrive in order, never leave, and ask for the fraction of a GPU that is given, until the share of the
cluster's GPUs has been asked for; a trace that is too short begins again. A task without a place is lost.

The GPUs of a host are one amount, as in Mesos' offers, and tasks without GPUs stay off hosts with GPUs.
Published figures (random 86.3, best fit 92.9, fragmentation-aware 95.2 %) keep the GPUs of a host apart,
which is harder: compare the rankings here with each other.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from peloton.model.resources import MILLI, Resources
from placement.core.model import Gang, Host, HostClass, Needs, Task
from placement.core.plan import plan
from placement.core.policy import Policy, Scorer

HOSTS = "openb_node_list_all_node.csv"
TASKS = "openb_pod_list_default.csv"
SHARES = (1.0, 1.3)


def report(folder: Path, compare: bool) -> None:
    """Print the share of GPUs that are allocated in the end, in per cent."""
    if not (folder / HOSTS).exists():
        print(f"openb: no trace in {folder}; give its folder with --traces", file=sys.stderr)
        return
    hosts, tasks = list(_hosts(folder)), list(_tasks(folder))
    rankings = list(Scorer) if compare else [Policy().scorer]
    for scorer in rankings:
        title = f" {scorer.value}," if compare else ""
        for share in SHARES:
            figure = allocated(hosts, tasks, share, scorer)
            print(f"openb{title} GPUs allocated at {share:.0%}: {figure:.1%}".replace("%", " %"), flush=True)


def allocated(hosts: list[Host], tasks: list[Resources], share: float, scorer: Scorer) -> float:
    """Return the share of GPUs that are allocated once `share` of them has been asked for."""
    gpus = sum(host.free.gpu for host in hosts)
    gangs: list[Gang] = []
    asked = 0
    for number, resources in enumerate(cycle(tasks)):
        if asked >= share * gpus:
            break
        asked += resources.gpu
        needs = Needs(resources, host_class=HostClass(gpu=resources.gpu > 0))
        gangs.append(Gang(f"job{number}", (Task(f"job{number}-0", f"job{number}-0-1", needs),)))
    planned = plan(gangs, hosts, policy=Policy(scorer, largest_first=False))
    return sum(gang.tasks[0].needs.resources.gpu for gang in planned.placed) / gpus


def _hosts(folder: Path) -> Iterator[Host]:
    for number, row in enumerate(_rows(folder / HOSTS)):
        free = Resources(int(row["cpu_milli"]), int(row["memory_mib"]) * MILLI, 0, int(row["gpu"]) * MILLI)
        yield Host(row["sn"], f"a{number}", f"o{number}", None, free, has_gpu=free.gpu > 0)


def _tasks(folder: Path) -> Iterator[Resources]:
    for row in _rows(folder / TASKS):
        count = int(row["num_gpu"])
        gpu = int(row["gpu_milli"]) if count == 1 else count * MILLI
        yield Resources(int(row["cpu_milli"]), int(row["memory_mib"]) * MILLI, 0, gpu)


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
