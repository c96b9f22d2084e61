"""Alibaba's openb with the GPUs of a host apart: which rankings of hosts allocate how many of its GPUs.

A task with a part of a GPU gets it on one device, one with several GPUs whole devices. Tasks are drawn from
the trace at random, with replacement, arrive one by one, never leave, and are lost where no host takes them,
until a share of the cluster's GPUs has been asked for: as in "Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent" (Weng et al., USENIX ATC 2023), whose figures compare.

Peloton gives a GPU to one task, as Mesos does, and its placement knows how many GPUs a host has free, not how
much of each device. So the hosts here are a model of their own, in which a ranking is a function. The one of
Peloton's placement, by the fragments of each host's GPUs as one amount (placement/core/fragmentation.py), is
among them; here it is applied to the hosts whose devices take the task.
"""

from __future__ import annotations

import csv
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from peloton.errors import InvalidArgument

HOSTS, TASKS = "openb_node_list_all_node.csv", "openb_pod_list_default.csv"
WHOLE = 1000
"""Thousandths of a device."""
DEVICES = 8
ABSENT = -1
"""What is free of a device that a host does not have."""
POPULAR = 0.95
"""Share of the tasks with GPUs whose kinds are the workload that fragments are measured by."""
Column = NDArray[np.int64]
Scores = NDArray[np.float64]


class Kind(NamedTuple):
    """What a task asks for: thousandths of a core, MB, devices, and thousandths of each of them."""

    cpu: int
    memory: int
    devices: int
    milli: int

    @property
    def gpu(self) -> int:
        """Thousandths of GPUs in all."""
        return self.devices * self.milli


@dataclass(slots=True)
class Cluster:
    """What is free on each host."""

    cpu: Column
    memory: Column
    gpus: Column
    """A row for each host, a column for each device; ABSENT where there is none."""

    @property
    def total_gpu(self) -> int:
        """Thousandths of GPUs that are free."""
        return int(np.maximum(self.gpus, 0).sum())

    def copy(self) -> Cluster:
        """Return the same hosts, to be filled apart."""
        return Cluster(self.cpu.copy(), self.memory.copy(), self.gpus.copy())

    def fits(self, kind: Kind) -> NDArray[np.bool_]:
        """Return which hosts take a task."""
        room = (self.cpu >= kind.cpu) & (self.memory >= kind.memory)
        if kind.devices:
            room &= (self.gpus >= kind.milli).sum(axis=1) >= kind.devices
        return room

    def take(self, host: int, kind: Kind, devices: Sequence[int]) -> None:
        """Give a task its resources."""
        assert len(devices) == kind.devices and all(self.gpus[host, each] >= kind.milli for each in devices)
        self.cpu[host] -= kind.cpu
        self.memory[host] -= kind.memory
        for each in devices:
            self.gpus[host, each] -= kind.milli


Ranking = Callable[[Cluster, Kind, Column], tuple[int, Sequence[int]]]
"""Chooses among hosts that take a task: returns the host, and its devices for the task."""


def tightest(free: Column, kind: Kind) -> list[int]:
    """Return the devices of a host that take a task and have least free."""
    order = [each for each in np.argsort(free, kind="stable").tolist() if free[each] >= kind.milli]
    return order[: kind.devices]


def at_random(seed: int) -> Ranking:
    """Return the choice of any host and device that take the task."""
    chance = random.Random(seed)

    def rank(cluster: Cluster, kind: Kind, rows: Column) -> tuple[int, Sequence[int]]:
        host = int(chance.choice(rows.tolist()))
        able = np.flatnonzero(cluster.gpus[host] >= kind.milli).tolist()
        return host, chance.sample(able, kind.devices)

    return rank


def best_fit(whole: Cluster) -> Ranking:
    """Return the choice of the host with least left, each resource as a share of the largest host's."""
    cpu, memory = max(1, whole.cpu.max()), max(1, whole.memory.max())
    gpu = max(1, np.maximum(whole.gpus, 0).sum(axis=1).max())

    def rank(cluster: Cluster, kind: Kind, rows: Column) -> tuple[int, Sequence[int]]:
        left = (cluster.cpu[rows] - kind.cpu) / cpu + (cluster.memory[rows] - kind.memory) / memory
        left += (np.maximum(cluster.gpus[rows], 0).sum(axis=1) - kind.gpu) / gpu
        host = int(rows[left.argmin()])
        return host, tightest(cluster.gpus[host], kind)

    return rank


Workload = Mapping[Kind, float]
"""Kinds of tasks with their frequencies."""


def workload_of(tasks: Iterable[Kind]) -> Workload:
    """Return the kinds of tasks with GPUs that most of these are of, with their frequencies."""
    counts = Counter(task for task in tasks if task.devices)
    wanted, found = POPULAR * counts.total(), Counter[Kind]()
    for kind, count in counts.most_common():
        if found.total() >= wanted:
            break
        found[kind] = count
    return {kind: count / found.total() for kind, count in found.items()}


def fragments(cpu: Column, gpus: Column, workload: Workload) -> Scores:
    """Return the fragment of each state of a host: the GPUs it has free that the workload cannot use.

    For a kind of task that the host does not take it is all that is free, else what is free on devices that
    have too little for it: the sum over the kinds, weighed by their frequencies (section 3 of the paper).
    """
    free = np.maximum(gpus, 0)
    whole = free.sum(axis=1)
    found = np.zeros(len(cpu))
    for kind, frequency in workload.items():
        able = gpus >= kind.milli
        takes = (cpu >= kind.cpu) & (able.sum(axis=1) >= kind.devices)
        found += frequency * np.where(takes, np.where(able, 0, free).sum(axis=1), whole)
    return found


def pooled_fragments(cpu: Column, gpus: Column, workload: Workload) -> Scores:
    """Return the fragment of each state of a host where its GPUs are one amount."""
    whole = np.maximum(gpus, 0).sum(axis=1)
    found = np.zeros(len(cpu))
    for kind, frequency in workload.items():
        found += frequency * np.where((cpu >= kind.cpu) & (whole >= kind.gpu), 0, whole)
    return found


Measure = Callable[[Column, Column, Workload], Scores]
POINTS = 100
"""The highest score of a host for the scheduler of Kubernetes."""


def whole_points(growth: Scores) -> Scores:
    """Return the growth of fragments as the published scheduler compares it, by whole numbers.

    The score of a host for Kubernetes is an integer of 0 to 100, and the logistic function, which takes the
    growth to it, makes a point of 40 thousandths of a GPU or more. So hosts are often equal.
    """
    points: Scores = -np.floor(POINTS / (1 + np.exp(growth / WHOLE)))
    return points


class _Growth:
    """By how much a kind of task makes the fragments grow, by host, with the state for which that holds."""

    def __init__(self, cluster: Cluster) -> None:
        self.cpu, self.gpus = np.full_like(cluster.cpu, ABSENT), np.full_like(cluster.gpus, ABSENT - 1)
        self.values = np.zeros(len(cluster.cpu))
        self.device = np.zeros(len(cluster.cpu), np.int64)

    def changed(self, cluster: Cluster, rows: Column) -> Column:
        """Return which of some hosts are in another state."""
        same = (self.cpu[rows] == cluster.cpu[rows]) & (self.gpus[rows] == cluster.gpus[rows]).all(axis=1)
        found: Column = rows[~same]
        return found


class FragmentationGradient:
    """The choice of the host, and of the device for a part of a GPU, where the fragments grow least.

    What is known of a host is kept until its state changes.
    """

    def __init__(
        self,
        workload: Workload,
        measure: Measure = fragments,
        compared: Callable[[Scores], Scores] = lambda growth: growth,
    ) -> None:
        """`compared`: what is compared in place of the growth; the host with the least of it is taken."""
        self._workload = workload
        self._compared = compared
        self._measure = measure
        self._known: dict[Kind, _Growth] = {}

    def __call__(self, cluster: Cluster, kind: Kind, rows: Column) -> tuple[int, Sequence[int]]:
        """Choose among the hosts that take the task; of equal ones the first."""
        known = self._known.get(kind)
        if known is None:
            known = self._known[kind] = _Growth(cluster)
        changed = known.changed(cluster, rows)
        if len(changed):
            known.cpu[changed], known.gpus[changed] = cluster.cpu[changed], cluster.gpus[changed]
            known.values[changed], known.device[changed] = self._measured(cluster, kind, changed)
        host = int(rows[self._compared(known.values[rows]).argmin()])
        if kind.devices == 1 and kind.milli < WHOLE:
            return host, [int(known.device[host])]
        return host, tightest(cluster.gpus[host], kind)

    def _measured(self, cluster: Cluster, kind: Kind, rows: Column) -> tuple[Scores, Column]:
        """Return by how much the fragments of hosts grow with a task, and on which device they do least."""
        cpu, gpus = cluster.cpu[rows], cluster.gpus[rows]
        before = self._measure(cpu, gpus, self._workload)
        # Devices with less free first, so that of equal ones the tightest is taken.
        order = np.argsort(gpus, axis=1, kind="stable")
        part = kind.devices == 1 and kind.milli < WHOLE
        best, device = np.full(len(rows), np.inf), np.zeros(len(rows), np.int64)
        for place in range(DEVICES if part else 1):
            at = order[:, place]
            able = np.take_along_axis(gpus, at[:, None], 1)[:, 0] >= kind.milli if part else np.True_
            after = _with(gpus, kind, at) if part else _with_whole(gpus, kind)
            growth = np.where(able, self._measure(cpu - kind.cpu, after, self._workload) - before, np.inf)
            better = growth < best
            best[better], device[better] = growth[better], at[better]
        return best, device


def _with(gpus: Column, kind: Kind, at: Column) -> Column:
    """Return the devices of hosts with a task on the one at `at` of each."""
    after = gpus.copy()
    after[np.arange(len(gpus)), at] -= kind.milli
    return after


def _with_whole(gpus: Column, kind: Kind) -> Column:
    """Return the devices of hosts with a task on as many whole ones as it asks for."""
    able = gpus >= max(kind.milli, 1)
    taken = able & (np.cumsum(able, axis=1) <= kind.devices)
    return np.where(taken, gpus - kind.milli, gpus)


# The trace.


def read_hosts(path: Path) -> Cluster:
    """Return the hosts of openb's list. Raises InvalidArgument, OSError."""
    rows = [[int(row[name]) for name in ("cpu_milli", "memory_mib", "gpu")] for row in _rows(path)]
    if any(gpus > DEVICES for *_, gpus in rows):
        raise InvalidArgument(str(path), max(gpus for *_, gpus in rows), f"at most {DEVICES} GPUs of a host")
    cpu, memory, count = np.array(rows, np.int64).T.copy()
    return Cluster(cpu, memory, np.where(np.arange(DEVICES) < count[:, None], WHOLE, ABSENT).astype(np.int64))


def read_tasks(path: Path) -> list[Kind]:
    """Return what the pods of openb's list ask for. Raises InvalidArgument, OSError."""
    found = []
    for row in _rows(path):
        devices = int(row["num_gpu"])
        milli = int(row["gpu_milli"]) if devices == 1 else WHOLE if devices else 0
        found.append(Kind(int(row["cpu_milli"]), int(row["memory_mib"]), devices, milli))
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)


# The run.


@dataclass(frozen=True, slots=True)
class Allocated:
    """Parts of the cluster's GPUs."""

    asked: float
    allocated: float


def allocate(
    cluster: Cluster, tasks: Iterable[Kind], ranking: Ranking, shares: Sequence[float]
) -> list[Allocated]:
    """Place tasks in their order; return what is allocated whenever a share of the GPUs has been asked for.

    The cluster is filled. It ends with the last share.
    """
    total, asked, allocated = cluster.total_gpu, 0, 0
    found: list[Allocated] = []
    for kind in tasks:
        asked += kind.gpu
        rows = np.flatnonzero(cluster.fits(kind))
        if len(rows):
            host, devices = ranking(cluster, kind, rows)
            cluster.take(host, kind, devices)
            allocated += kind.gpu
        while len(found) < len(shares) and asked >= shares[len(found)] * total:
            found.append(Allocated(asked / total, allocated / total))
        if len(found) == len(shares):
            break
    return found


def drawn(tasks: Sequence[Kind], seed: int) -> Iterator[Kind]:
    """Yield tasks of the trace at random, with replacement, without an end."""
    chance = random.Random(seed)
    while True:
        yield chance.choice(tasks)


def rankings(cluster: Cluster, tasks: Sequence[Kind], seed: int) -> dict[str, Ranking]:
    """Return the rankings that are compared, by their names."""
    workload = workload_of(tasks)
    return {
        "random": at_random(seed),
        "best fit": best_fit(cluster),
        "fragments of each host's GPUs as one amount (Peloton's placement)": FragmentationGradient(
            workload, pooled_fragments
        ),
        "fragments of devices (FGD)": FragmentationGradient(workload),
        "fragments of devices, by whole points (FGD as published)": FragmentationGradient(
            workload, compared=whole_points
        ),
    }
