"""Which host each task goes to: filters, then scorers, over all hosts at once.

Tasks that are alike are placed as a group. A constraint on tasks counts those that are on the host before its
own task, also those that the same plan puts there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from peloton.model.hostcounts import MATCH
from placement.core.groups import Group, Wants, in_order
from placement.core.labels import about_tasks
from placement.core.model import NO_TASKS, Gang, Host, HostPlacement, Missing, Task, TasksOnHosts
from placement.core.placer import Placer
from placement.core.policy import DEFAULT, Desired, Policy, Scorer
from placement.core.refusals import HostRefusals, refusal
from placement.core.table import HostTable, capacity


@dataclass(frozen=True, slots=True)
class UnplacedGang:
    """A gang without a place, and why."""

    gang: Gang
    missing: Missing
    """The needs that found no room."""
    refusal: HostRefusals


_NO_HOSTS = HostRefusals({MATCH: 0}, ())


class Plan:
    """Where gangs go, and why the others do not."""

    def __init__(
        self,
        gangs: Sequence[Gang],
        placements: Sequence[HostPlacement],
        missing: dict[Gang, Missing],
        why: Callable[[Gang, Task], HostRefusals],
    ) -> None:
        """`missing` has the gangs without a place; `why` tells why the hosts refuse a task of one."""
        self._missing = missing
        self._why = why
        self.placements = tuple(placements)
        self.placed = tuple(gang for gang in gangs if gang not in missing) if missing else tuple(gangs)
        self.unplaced = tuple(gang for gang in gangs if gang in missing) if missing else ()
        """In the order of their arrival."""

    @property
    def missing(self) -> Missing:
        """The needs of the first unplaced gang that found no room."""
        return self._missing[self.unplaced[0]] if self.unplaced else ()

    def failure(self, gang: Gang) -> UnplacedGang:
        """Return why a gang has no place. Raises KeyError for a gang that has one."""
        missing = self._missing[gang]
        needs, _ = missing[0]
        task = next(task for task in gang.tasks if task.needs == needs)
        return UnplacedGang(gang, missing, self._why(gang, task))

    @property
    def failures(self) -> tuple[UnplacedGang, ...]:
        """The gangs without a place, each with the reason."""
        return tuple(map(self.failure, self.unplaced))


def plan(
    gangs: Sequence[Gang],
    hosts: Sequence[Host],
    tasks_on_hosts: TasksOnHosts = NO_TASKS,
    policy: Policy = DEFAULT,
) -> Plan:
    """Place gangs on hosts, each whole or not at all.

    `tasks_on_hosts` is needed where constraints are about tasks. A task that is a gang by itself and gets no
    place fits on none of the hosts beside the tasks that the plan puts there.
    """
    if not hosts:
        return Plan(gangs, (), {gang: gang.shape for gang in gangs}, lambda gang, task: _NO_HOSTS)
    if len(hosts) == 1 and (placement := _alone(gangs, hosts[0], policy)) is not None:
        return Plan(gangs, (placement,), {}, lambda gang, task: _NO_HOSTS)
    table = HostTable(hosts, tasks_on_hosts, policy.scorer is Scorer.BEST_FIT)
    for tree in {needs.host_class.tree for gang in gangs for needs, _ in gang.shape}:
        table.labels.count(about_tasks(tree))
    wants = Wants(table, policy)
    placer = Placer(table, policy, gangs)
    missing: dict[Gang, Missing] = {}
    groups = [group for group in in_order(gangs, wants, policy) if not _place(group, placer, missing)]
    while groups := [group for group in groups if group.depends_on_tasks]:
        before = len(missing)
        groups = [group for group in groups if not _place(group, placer, missing)]
        if len(missing) == before:
            break

    def why(gang: Gang, task: Task) -> HostRefusals:
        return refusal(placer.filters, wants.of(gang, task), gang)

    return Plan(gangs, tuple(table.placements()), missing, why)


def _alone(gangs: Sequence[Gang], host: Host, policy: Policy) -> HostPlacement | None:
    """Return the placement of the only task on the only host, which was claimed for it; None: see further.

    Most often there is nothing to choose. Where anything but amounts counts, the tables decide.
    """
    if len(gangs) != 1 or len(gangs[0].tasks) > 1:
        return None
    task = gangs[0].tasks[0]
    needs = task.needs
    if (
        task.labels
        or needs.ports
        or needs.host_class.tree is not None
        or host.host_class != needs.host_class
        or policy.desired is not Desired.ANY
        or policy.scorer is Scorer.PLUGGED_IN
    ):
        return None
    return HostPlacement(host, (task,), ()) if capacity(host, needs) > 0 else None


def _place(group: Group, placer: Placer, missing: dict[Gang, Missing]) -> bool:
    """Place the gangs of a group; return whether all have a place. The others remain in the group."""
    count, short = placer.place(group)
    for gang in group.gangs[:count]:
        missing.pop(gang, None)
    del group.gangs[:count]
    missing.update((gang, short) for gang in group.gangs)
    return not group.gangs
