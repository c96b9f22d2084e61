"""Gangs that are alike, which are placed as one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from peloton.model.states import PlacementStrategy
from placement.core.model import Gang, Needs, Task
from placement.core.policy import Desired, Policy
from placement.core.table import HostTable, Want


class Group:
    """Gangs that take the same and may use the same hosts, in the order of their arrival."""

    __slots__ = ("depends_on_tasks", "desired_host", "gangs", "parts", "size", "volume_of")

    def __init__(self, gang: Gang, wants: Wants, policy: Policy) -> None:
        self.gangs = [gang]
        self.parts = wants.parts(gang)
        """What the tasks of each gang take, each with the positions of the tasks."""
        self.size = sum(wants.size(want.needs) * len(at) for want, at in self.parts)
        self.depends_on_tasks = any(want.tree is not None for want, _ in self.parts)
        desired = policy.desired is not Desired.ANY
        self.desired_host = gang.desired_host if desired else None
        """The only host that will do; None: any."""
        self.volume_of = gang.tasks[0].id if policy.desired is Desired.VOLUME else None
        """The task whose volume the host must offer."""


class Wants:
    """What tasks take, one object for all that are alike."""

    def __init__(self, table: HostTable, policy: Policy) -> None:
        self._table = table
        self._policy = policy
        self._numbers: dict[Needs, int] = {}
        self._number_of_id: dict[int, int] = {}
        self._wants: dict[Hashable, Want] = {}
        self._sizes: dict[Needs, int] = {}

    def of(self, gang: Gang, task: Task) -> Want:
        """Return what a task of a gang takes."""
        alone, job = len(gang.tasks) == 1, self._job(gang)
        key = (self._number(task.needs), self._table.labels.counted(task.labels), job, alone)
        want = self._wants.get(key)
        if want is None:
            want = self._wants[key] = Want(task.needs, self._table.labels, task, job, alone)
        return want

    def parts(self, gang: Gang) -> list[tuple[Want, list[int]]]:
        """Return what the tasks of a gang take, the largest first, each with the positions of the tasks."""
        parts: dict[Want, list[int]] = {}
        for at, task in enumerate(gang.tasks):
            parts.setdefault(self.of(gang, task), []).append(at)
        order = {needs: at for at, (needs, _) in enumerate(gang.shape)}
        return sorted(parts.items(), key=lambda part: order[part[0].needs])

    def key(self, gang: Gang) -> Hashable:
        """Return the same for all gangs of a group."""
        policy, labels = self._policy, self._table.labels
        if policy.desired is not Desired.ANY:
            task = gang.tasks[0]
            volume_of = task.id if policy.desired is Desired.VOLUME else ""
            return gang.desired_host, volume_of, self._number(task.needs), labels.counted(task.labels)
        if len(gang.tasks) == 1:
            task = gang.tasks[0]
            return self._number(task.needs), labels.counted(task.labels), self._job(gang)
        each = tuple((self._number(task.needs), labels.counted(task.labels)) for task in gang.tasks)
        return each, self._job(gang)

    def size(self, needs: Needs) -> int:
        """Return the size of a task among the others."""
        size = self._sizes.get(needs)
        if size is None:
            size = self._sizes[needs] = self._table.size(needs)
        return size

    def _job(self, gang: Gang) -> str:
        """Return the job, where it is spread."""
        return gang.job_id if self._policy.spreads and gang.strategy is PlacementStrategy.SPREAD_JOB else ""

    def _number(self, needs: Needs) -> int:
        """Return the same number for equal needs. Gangs keep their needs, so ids are not used again."""
        number = self._number_of_id.get(id(needs))
        if number is None:
            number = self._numbers.setdefault(needs, len(self._numbers))
            self._number_of_id[id(needs)] = number
        return number


def in_order(gangs: Sequence[Gang], wants: Wants, policy: Policy) -> list[Group]:
    """Return the groups in the order in which they are placed.

    With `largest_first` the first gang comes before all others, so that none waits for ever, and the others
    by size. Otherwise all come in their order, and only neighbours form a group.
    """
    if not policy.largest_first:
        return _neighbours(gangs, wants, policy)
    groups: dict[Hashable, Group] = {}
    for gang in gangs[1:]:
        key = wants.key(gang)
        group = groups.get(key)
        if group is None:
            groups[key] = Group(gang, wants, policy)
        else:
            group.gangs.append(gang)
    first = [Group(gang, wants, policy) for gang in gangs[:1]]
    return first + sorted(groups.values(), key=lambda group: -group.size)


def _neighbours(gangs: Sequence[Gang], wants: Wants, policy: Policy) -> list[Group]:
    groups: list[Group] = []
    last: Hashable = None
    for gang in gangs:
        key = wants.key(gang)
        if groups and key == last:
            groups[-1].gangs.append(gang)
        else:
            groups.append(Group(gang, wants, policy))
        last = key
    return groups
