"""The free resources of many hosts as columns, and the tasks that a plan puts on them.

A row is a host. Amounts are thousandths, apart from ports and launches, which are numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from placement.core.labels import Column, Labels, Mask, Rows, about_tasks
from placement.core.model import UNBOUNDED, Host, HostPlacement, Needs, Task, TasksOnHosts
from placement.core.ports import first_free, fixed_ports, number_of

CPU, MEMORY, DISK, GPU, SLACK, PORTS, LAUNCHES = range(7)
_WEIGHED = (CPU, MEMORY, DISK, GPU)
_SCALE = 1 << 32
"""Score of the mean free amount of a kind."""


class Want:
    """What tasks that are alike take of a host."""

    __slots__ = ("amounts", "counted", "fixed", "job", "limits", "needs", "tree")

    def __init__(self, needs: Needs, labels: Labels, task: Task, job: str, alone: bool) -> None:
        """Describe `task`.

        `job` is set where the job is spread. `alone`: the task is a gang of its own, so that the number of
        launches of a host bounds it.
        """
        resources = needs.resources
        amounts = (
            (SLACK if needs.revocable else CPU, resources.cpu),
            (MEMORY, resources.memory),
            (DISK, resources.disk),
            (GPU, resources.gpu),
            (PORTS, needs.ports),
            (LAUNCHES, 1),
        )
        self.needs = needs
        self.fixed = fixed_ports((task,))
        self.job = job
        self.amounts = tuple((kind, amount) for kind, amount in amounts if amount > 0)
        """What a task takes, by column."""
        self.limits = self.amounts if alone else self.amounts[:-1]
        """What must be free for it."""
        self.counted = labels.counted(task.labels)
        """Its labels that constraints count."""
        tree = needs.host_class.tree
        self.tree = tree if about_tasks(tree) else None
        """Its constraint, where it depends on tasks."""


def capacity(host: Host, needs: Needs) -> int:
    """Return how many such tasks, each a gang of its own, the free resources of the host take."""
    if host.host_class is not None and host.host_class != needs.host_class:
        return 0
    free, want = host.free, needs.resources
    pairs = (
        (host.slack_cpu if needs.revocable else free.cpu, want.cpu),
        (free.memory, want.memory),
        (free.disk, want.disk),
        (free.gpu, want.gpu),
        (number_of(host.ports), needs.ports),
        (host.launches, 1),
    )
    return max(0, min(have // need if need > 0 else UNBOUNDED for have, need in pairs))


class HostTable:
    """Hosts as columns while tasks are put on them."""

    def __init__(
        self, hosts: Sequence[Host], tasks_on_hosts: TasksOnHosts, fullest_first: bool = False
    ) -> None:
        """Take hosts as rows in their order, or with `fullest_first` by their free resources."""
        free = _columns(hosts)
        weighed = free[: len(_WEIGHED)]
        sums = weighed.sum(axis=1).tolist()
        self._weights = [_SCALE // max(1, amount // len(hosts)) if hosts else 0 for amount in sums]
        self.fullness: Column = np.array(self._weights) @ weighed
        """Free resources as one number, each kind by its mean: the least is the fullest host."""
        if fullest_first and len(hosts) > 1:
            order = np.argsort(self.fullness, kind="stable")
            free = free[:, order]
            self.fullness = self.fullness[order]
            hosts = [hosts[row] for row in order.tolist()]
        self.free: list[Column] = list(free)
        self.hosts = hosts
        self.labels = Labels(hosts, tasks_on_hosts)
        self.buffer: Column = np.empty(len(hosts), dtype=np.int64)
        """For scores, which are computed anew for each task."""
        self._of_job: dict[str, Mask] = {}
        self._offering: dict[int, Column] = {}
        self._tasks: dict[int, list[Task]] = {}
        names: dict[str, list[int]] = {}
        for row, host in enumerate(hosts):
            names.setdefault(host.hostname, []).append(row)
        self.rows_of = names
        """Rows by hostname: several where agents share one."""
        self.has_twins = len(names) < len(hosts)

    def __len__(self) -> int:
        return len(self.hosts)

    def with_job(self, job: str) -> Mask:
        """Return the hosts that got a task of a job that is spread."""
        mask = self._of_job.get(job)
        if mask is None:
            mask = self._of_job[job] = np.zeros(len(self.hosts), dtype=bool)
        return mask

    def offers_port(self, port: int) -> Column:
        """Return 1 for each host that offers a port as a dynamic one, else 0."""
        column = self._offering.get(port)
        if column is None:
            offers = (any(first <= port <= last for first, last in host.ports) for host in self.hosts)
            column = self._offering[port] = np.fromiter(offers, dtype=np.int64, count=len(self.hosts))
        return column

    def size(self, needs: Needs) -> int:
        """Return the largest share that a task takes of the mean free amount of a kind."""
        amounts = needs.resources.values()
        return max(amount * self._weights[kind] for kind, amount in zip(_WEIGHED, amounts, strict=True))

    def take(self, want: Want, row: int, task: Task) -> None:
        """Put a task on a host."""
        self._change(want, row, 1)
        self._tasks.setdefault(row, []).append(task)

    def take_many(self, want: Want, rows: Rows, counts: Column, tasks: Sequence[Task]) -> None:
        """Put tasks on distinct hosts, the first of them on the first host, and so on."""
        self._change(want, rows, counts)
        at = 0
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            self._tasks.setdefault(row, []).extend(tasks[at : at + count])
            at += count

    def give_back(self, want: Want, rows: Rows, counts: Column) -> None:
        """Take back the last tasks that were put on hosts."""
        if self.has_twins and len(rows) == 1:
            self._change(want, int(rows[0]), -int(counts[0]))
        else:
            self._change(want, rows, -counts)
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            held = self._tasks[row]
            del held[-count:]
            if not held:
                del self._tasks[row]

    def _change(self, want: Want, rows: Rows | int, counts: Column | int) -> None:
        weight = 0
        for kind, amount in want.amounts:
            self.free[kind][rows] -= amount * counts
            if kind < SLACK:
                weight += amount * self._weights[kind]
        self.fullness[rows] -= weight * counts
        for port in want.fixed:
            self.free[PORTS][rows] -= self.offers_port(port)[rows] * counts
        if not want.counted and not want.job:
            return
        if self.has_twins and isinstance(rows, int):
            rows = np.array(self.rows_of[self.hosts[rows].hostname])
        self.labels.add(want.counted, rows, counts)
        if want.job:
            self.with_job(want.job)[rows] = np.greater(counts, 0)

    def tasks(self, row: int) -> Sequence[Task]:
        """Return the tasks that were put on a host."""
        return self._tasks.get(row, ())

    def placements(self) -> Iterator[HostPlacement]:
        """Return the placement of each host that got tasks, in the order of the hosts."""
        for row in sorted(self._tasks):
            host, tasks = self.hosts[row], tuple(self._tasks[row])
            wanted = sum(task.needs.ports for task in tasks)
            ports = first_free(host.ports, wanted, fixed_ports(tasks)) if wanted else ()
            yield HostPlacement(host, tasks, ports)


def _columns(hosts: Sequence[Host]) -> Column:
    """Return the amounts of the hosts, a row for each kind."""
    columns = (
        [host.free.cpu for host in hosts],
        [host.free.memory for host in hosts],
        [host.free.disk for host in hosts],
        [host.free.gpu for host in hosts],
        [host.slack_cpu for host in hosts],
        [number_of(host.ports) for host in hosts],
        [host.launches for host in hosts],
    )
    return np.array(columns, dtype=np.int64)
