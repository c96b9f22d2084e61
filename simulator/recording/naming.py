"""The objects of each core by name, for its journal and for its replay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.term import Term
from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import NOT_CREATED
from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from peloton.model.ids import Run
from peloton.model.workload import NO_JOB_WORKLOAD
from placement.core.instructions import Begin
from placement.core.rounds import Rounds
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang, Holder, Task
from resmgr.core.state.pool import Pool

_DECIDED = ("tasks", "runtime", "workflows", "volumes", "events", "kills", "held")
"""What a change of a job decides."""
_COMPARED = {("not created",): NOT_CREATED, ("no job workload",): NO_JOB_WORKLOAD}
"""Values of which jobmgr's core asks whether they are the same object."""


class Steps:
    """A generator of the core, which others may interrupt with calls between two steps."""

    def __init__(self, steps: Iterator[Any]) -> None:
        self.steps = steps

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        """Take a step."""
        return next(self.steps)


class Named:
    """Objects with names, by identity. They are kept, so that no other object gets their identity."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[Any, ...]] = {}
        self._objects: dict[tuple[Any, ...], Any] = {}

    def add(self, value: Any, *name: Any) -> None:
        """Give an object a name, unless it has one."""
        if id(value) not in self._names:
            self._names[id(value)] = name
            self._objects[name] = value

    def add_next(self, value: Any, kind: str) -> None:
        """Give an object the next number of its kind."""
        self.add(value, kind, len(self._objects))

    def name(self, value: Any) -> tuple[Any, ...] | None:
        """Return the name of an object; None: it has none."""
        return self._names.get(id(value))

    def find(self, name: tuple[Any, ...]) -> Any:
        """Return the object with a name."""
        return self._objects[name]


class OfHostmgr:
    """A term with its parts, the sight of the cluster, and the pools of hosts where they are in use."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._named = Named()
        hosts = term.hosts
        parts = {
            "term": term, "hosts": hosts, "table": hosts.table, "offers": hosts.offers,
            "claims": hosts.claims, "holds": hosts.holds, "runs": term.runs, "reconciler": term.reconciler,
            "reservations": term.reservations, "statuses": term.statuses, "launching": term.launching,
            "kills": term.kills, "volumes": term.volumes,
        }  # fmt: skip
        for name, part in parts.items():
            self._named.add(part, name)
        if hosts.table._pool_of is not None:
            self._named.add(getattr(hosts.table._pool_of, "__self__", None), "pools")

    def name(self, value: Any) -> tuple[Any, ...] | None:
        """Return the name of the term, of a part, of steps, or of what sees the term's hosts."""
        found = self._named.name(value)
        if found is None and isinstance(value, ClusterSight) and value._hosts is self._term.hosts:
            self._named.add(value, "sight")
            return ("sight",)
        return found

    def find(self, name: tuple[Any, ...]) -> Any:
        """Return what has a name. What sees the hosts is made when it is first asked."""
        if name == ("sight",):
            self._named.add(ClusterSight(self._term.hosts, self._term.reconciler), "sight")
        return self._named.find(name)

    def note(self, answer: Any) -> None:
        """Take notice of steps."""
        if isinstance(answer, Steps):
            self._named.add_next(answer, "steps")

    def changed_outside(self) -> Any:
        """Return nothing: all that drivers and services do to it are calls."""
        return None

    def change(self, value: Any) -> None:
        """Change nothing."""

    def state(self) -> Any:
        """Return what hosts have free, their claims and holds, the runs, and the hosts that are reserved."""
        term, table = self._term, self._term.hosts.table
        hosts = [
            (table.agent_ids[row], table.claim(row), table.life(row), table.free(row)) for row in table.rows()
        ]
        claims = [term.hosts.claims.on(agent_id) for agent_id, *_ in hosts]
        runs = [sorted(term.runs.on(agent_id)) for agent_id, *_ in hosts]
        reserved = [term.hosts.reserved.holder(agent_id) for agent_id, *_ in hosts]
        return hosts, claims, list(term.hosts.holds), runs, reserved


class OfResmgr:
    """A scheduler with its parts."""

    parts = ("leases", "preemptor", "reasons", "strangers", "tree")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._named = Named()
        self._named.add(scheduler, "scheduler")
        for part in self.parts:
            self._named.add(getattr(scheduler, part), part)
        self._holders: dict[tuple[Any, ...], Holder] = {}

    def name(self, value: Any) -> tuple[Any, ...] | None:
        """Return the name of a part, a pool, a task, a gang, a holder, or of steps."""
        if isinstance(value, Pool):
            return "pool", value.id
        if isinstance(value, Task):
            return ("task", *value.key)
        if isinstance(value, Gang):
            return ("gang", *value.tasks[0].key, len(value.tasks))
        if isinstance(value, Holder):
            return "holder", value.name, value.term
        if getattr(value, "__name__", "") == "iterate_in_steps":
            return ("all tasks",)
        return self._named.name(value)

    def find(self, name: tuple[Any, ...]) -> Any:
        """Return what has a name."""
        match name:
            case ("pool", id):
                return self._scheduler.tree.get(id)
            case ("task", *key):
                return self._scheduler.registry.find(Run(*key))
            case ("gang", *key, _):
                task = self._scheduler.registry.find(Run(*key))
                return None if task is None else task.gang
            case ("holder", *_):
                return self._holders[name]
            case ("all tasks",):
                return self._scheduler.registry.iterate_in_steps()
            case _:
                return self._named.find(name)

    def note(self, answer: Any) -> None:
        """Take notice of holders, and of steps."""
        if isinstance(answer, Holder):
            self._holders["holder", answer.name, answer.term] = answer
        elif isinstance(answer, Steps):
            self._named.add_next(answer, "steps")

    def changed_outside(self) -> Any:
        """Return when the callers that wait were seen last, and whether there are host pools."""
        seen = {name: holder.last_seen for name, holder in self._holders.items()}
        return self._scheduler.host_pools, seen

    def change(self, value: Any) -> None:
        """Set the same."""
        self._scheduler.host_pools, seen = value
        for name, moment in seen.items():
            self._holders[name].last_seen = moment

    def state(self) -> Any:
        """Return all tasks, and what pools use, ask for and are entitled to."""
        scheduler = self._scheduler
        tasks = [(each, each.state, each.host, each.since) for each in scheduler.registry]
        pools = [(each, each.used, each.demand, each.entitlement) for each in scheduler.tree]
        return tasks, pools


class OfPlacement:
    """The rounds of an engine, and its activities in the order in which they begin."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._named = Named()
        self._named.add(rounds, "rounds")

    def name(self, value: Any) -> tuple[Any, ...] | None:
        """Return the name of the rounds or of an activity."""
        return self._named.name(value)

    def find(self, name: tuple[Any, ...]) -> Any:
        """Return what has a name."""
        return self._named.find(name)

    def note(self, answer: Any) -> None:
        """Take notice of activities that begin."""
        for each in answer if isinstance(answer, tuple) else ():
            if isinstance(each, Begin):
                self._named.add_next(each.activity, "activity")
            elif hasattr(each, "handle"):
                self._named.add_next(each, "activity")

    def changed_outside(self) -> Any:
        """Return the gangs that are to be given back with the next sign of life."""
        return tuple(self._rounds.undelivered)

    def change(self, value: Any) -> None:
        """Set the same."""
        self._rounds.undelivered.clear()
        self._rounds.undelivered.extend(value)

    def state(self) -> Any:
        """Return how many gangs wait."""
        return self._rounds.waiting


class OfJobmgr:
    """The core of a lane, and the cycle that is being stored."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cycle: Cycle | None = None

    def name(self, value: Any) -> tuple[Any, ...] | None:
        """Return the name of the core, of its cycle, or of a value that is compared by identity."""
        if value is self._core:
            return ("core",)
        for name, compared in _COMPARED.items():
            if value is compared:
                return name
        return ("cycle",) if value is not None and value is self._cycle else None

    def find(self, name: tuple[Any, ...]) -> Any:
        """Return what has a name."""
        if name in _COMPARED:
            return _COMPARED[name]
        return self._core if name == ("core",) else self._cycle

    def note(self, answer: Any) -> None:
        """Take notice of a cycle."""
        if isinstance(answer, Cycle):
            self._cycle = answer

    def changed_outside(self) -> Any:
        """Return nothing: all that its lane does to it are calls."""
        return None

    def change(self, value: Any) -> None:
        """Change nothing."""

    def state(self) -> Any:
        """Return the active jobs with their counts of tasks."""
        return {job_id: work.job.counts for job_id, work in self._core.active.jobs.items()}


def decided(cycle: Cycle) -> Any:
    """Return what a cycle of jobmgr stores and does."""
    changes = {job_id: _of_change(change) for job_id, change in cycle.changes.items()}
    return changes, cycle.instructions, cycle.replies, cycle.more


def _of_change(change: Change) -> Any:
    return {name: getattr(change, name) for name in _DECIDED}
