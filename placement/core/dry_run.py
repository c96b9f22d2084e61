"""A plan for gangs that are not enqueued: what is placed where, and why the others are not placed."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice

from peloton.model.amounts import duration
from peloton.model.constraint import Label
from placement.core.events import Event, GivenBack, LabelsKnown, Reported, ReservedTried, Tick
from placement.core.found_hosts import FoundHosts
from placement.core.giving_up import Rules
from placement.core.host_estimates import HostEstimates
from placement.core.instructions import (
    AskLabels,
    Claim,
    Compare,
    FreeSlot,
    GiveBack,
    Instruction,
    LeaveDesiredHost,
    Release,
    Report,
    TakeSlot,
    TryReserved,
    Wait,
)
from placement.core.model import Gang, HostPlacement, TasksOnHosts, Unplaced
from placement.core.plans import GroupPlan, PlannedGroup, PlannedHosts
from placement.core.round import Round
from placement.core.strategy import Family, families

GANGS_AT_ONCE = 1000
"""Gangs that are planned before other work runs."""
NAMES = 5
"""Hosts of a group that are named."""
ROWS = 50
"""Groups of hosts that an answer lists."""

Question = Claim | AskLabels | Compare | Wait
"""What only the daemons can answer, or time."""


class DryRun:
    """A whole plan: the hosts, and the tasks that are placed on them."""

    def __init__(self, rules: Rules) -> None:
        """Plan by the strategy of `rules`, without any patience."""
        self.rules = replace(rules, patience=0.0, desired_host_patience=0.0)
        self.hosts = FoundHosts()
        self.labels: dict[str, Counter[Label]] = {}
        """Labels of the tasks that the plan has placed, by host."""

    def group(self, group: PlannedGroup) -> GroupDryRun:
        """Begin with the gangs of a group."""
        return GroupDryRun(self, group)

    def place(self, placement: HostPlacement) -> None:
        """Note what is placed on a host."""
        self.labels.setdefault(placement.host.hostname, Counter()).update(
            label for task in placement.tasks for label in task.labels
        )
        self.hosts.use(placement)

    def labels_known(self, asked: AskLabels, known: TasksOnHosts) -> LabelsKnown:
        """Return the labels of the tasks on hosts, with those that the plan has put there."""
        planned = ((name, self.labels.get(name, Counter())) for name in asked.hostnames)
        return LabelsKnown({name: Counter(known.get(name, {})) + more for name, more in planned})


class GroupDryRun:
    """The gangs of one group: rounds that report nothing, one after the other."""

    def __init__(self, plan: DryRun, group: PlannedGroup) -> None:
        self._plan = plan
        self._group = group
        self._estimates = HostEstimates()
        self._tasks: Counter[str] = Counter()
        """Placed tasks by host."""
        self._unplaced: list[Unplaced] = []
        self._waiting: list[tuple[Family, list[Gang]]] = []

    def rounds(self, now: float) -> Iterator[Round]:
        """Return the rounds, the next after the one before has ended.

        Gangs behind one without a place are alike and get none either.
        """
        gangs, strategy = self._group.gangs(), self._plan.rules.strategy
        while not self._unplaced and (some := list(islice(gangs, GANGS_AT_ONCE))):
            self._waiting = families(strategy, some)
            while self._waiting:
                family, members = self._waiting.pop()
                round = Round(family, self._plan.rules, self._estimates)
                round.add(members, now)
                yield round

    def step(self, round: Round, event: Event, now: float) -> Question | None:
        """Have a round handle an event; return the question whose answer it waits for. None: it has ended."""
        question: Question | None = None
        left = deque(round.handle(event, now))
        while left:
            match left.popleft():
                case (Claim() | AskLabels() | Compare() | Wait()) as question:
                    pass
                case instruction:
                    answer = self._answer(instruction)
                    left.extend(round.handle(answer, now) if answer is not None else ())
        return question

    def _answer(self, instruction: Instruction) -> Event | None:
        """Note what a round decides, in place of telling the daemons."""
        match instruction:
            case TakeSlot():
                return Tick()
            case Report(placements):
                self._place(placements)
                return Reported()
            case GiveBack(unplaced):
                self._unplaced += unplaced
                return GivenBack()
            case TryReserved(unplaced=unplaced):
                return ReservedTried(unplaced)
            case Release(hosts):
                self._plan.hosts.release(hosts)
            case LeaveDesiredHost(gangs):
                self._waiting += families(self._plan.rules.strategy, gangs)
            case FreeSlot():
                pass
            case _:
                raise AssertionError(f"a plan has no use for {instruction}")
        return None

    def _place(self, placements: tuple[HostPlacement, ...]) -> None:
        for placement in placements:
            self._tasks[placement.host.hostname] += len(placement.tasks)
            self._plan.place(placement)

    def plan(self, seconds: float) -> GroupPlan:
        """Return what was found in `seconds`."""
        group = self._group
        placed = sum(self._tasks.values()) // len(group.gang.tasks)
        reason = self._unplaced[0].reason if self._unplaced else ""
        if placed < group.count and not reason:
            reason = f"the plan was not complete after {duration(seconds)}"
        return GroupPlan(placed, group.count - placed, summary(self._tasks), reason)


def summary(tasks: Mapping[str, int]) -> tuple[PlannedHosts, ...]:
    """Group hosts by their number of tasks, those with the most tasks first; ROWS groups at most."""
    hosts: dict[int, list[str]] = {}
    for name, count in tasks.items():
        hosts.setdefault(count, []).append(name)
    rows = [PlannedHosts(len(names), count, tuple(sorted(names)[:NAMES])) for count, names in hosts.items()]
    return tuple(sorted(rows, key=lambda row: -row.tasks)[:ROWS])
