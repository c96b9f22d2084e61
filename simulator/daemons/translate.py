"""Values of one core as those of another: what the wire carries between the real daemons.

The same fields as the wire has, without messages. Tasks that request the same share one object on each side.
`tests/unit/simulator/test_translate.py` compares with the translation by the wire.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from hostmgr.core.state.feasibility import GangShape, Members
from hostmgr.core.state.host_filter import HostFilter, Ranking
from peloton.model.constraint import AndConstraint, Condition, Constraint, Kind, LabelConstraint, OrConstraint
from peloton.model.ids import JobId, Run, mesos_task_id, parse_mesos_task_id, task_id
from peloton.model.job import JobSpec
from peloton.model.states import PlacementStrategy
from peloton.model.task import TaskRuntime
from peloton.wire.resmgr import resmgr_task
from placement.core import model as placed
from placement.core.instructions import ANY_HOST, TasksByHost
from resmgr.core.scheduler import Scheduler
from resmgr.core.state import entities
from resmgr.core.state.needs import Fit, Needs, NewTask, Shape
from resmgr.core.state.placements import Proposal
from resmgr.wire.tasks import Translator
from simulator.daemons.hostmgr_answers import FreeHost

_KEPT = 100_000


class NeedsOfTasks:
    """What tasks request of resmgr, by their specs, translated as by the wire once for each kind of task."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Needs] = {}
        self._translator = Translator()

    def new_task(self, job_id: JobId, spec: JobSpec, instance: int, runtime: TaskRuntime) -> NewTask:
        """Return a run as resmgr takes it."""
        return NewTask(
            job_id,
            instance,
            runtime.run,
            self._needs(job_id, spec, instance, runtime),
            runtime.desired_host,
            spec.gang_size_of(instance),
            runtime.host,
        )

    def _needs(self, job_id: JobId, spec: JobSpec, instance: int, runtime: TaskRuntime) -> Needs:
        task = spec.task(instance)
        key = (
            task.resources,
            task.ports,
            task.constraint,
            runtime.avoided_hosts,
            task.labels,
            task.controller,
            task.volume,
            spec.sla.priority,
            spec.preemptible(instance),
            spec.revocable(instance),
            spec.type,
            spec.placement_strategy,
            spec.sla.maximum_unavailable_instances,
            spec.is_extra(instance),
        )
        held = self._known.get(key)
        if held is None:
            held = self._known[key] = self._translator.needs(resmgr_task(job_id, spec, instance, runtime))
        return held


class NeedsOfPlacement:
    """What tasks request of placement, by what they request of resmgr."""

    def __init__(self) -> None:
        self._known: dict[Needs, placed.Needs] = {}
        self._alike: dict[placed.Needs, placed.Needs] = {}

    def of(self, needs: Needs) -> placed.Needs:
        """Return the needs of a task; equal ones are one object."""
        held = self._known.get(needs)
        if held is None:
            made = _placement_needs(needs)
            held = self._known[needs] = self._alike.setdefault(made, made)
        return held

    def gang(self, gang: entities.Gang, scheduler: Scheduler) -> placed.Gang:
        """Return a gang of resmgr as placement takes it."""
        first = gang.tasks[0].needs
        spread = PlacementStrategy.SPREAD_JOB if first.spread else PlacementStrategy.PACK_HOST
        tasks = []
        for task in gang.tasks:
            job_id, instance = task.job.id, task.instance
            run = mesos_task_id(job_id, instance, task.run)
            tasks.append(
                placed.Task(
                    task_id(job_id, instance), run, self.of(task.needs), task.desired_host, task.needs.labels
                )
            )
        return placed.Gang(
            tasks=tuple(tasks),
            job_id=gang.tasks[0].job.id,
            strategy=spread,
            wants_reservation=scheduler.wants_reserved_host(gang),
            time_out=scheduler.placing_timeout(gang),
        )


def _placement_needs(needs: Needs) -> placed.Needs:
    tree = constraint_of(needs.constraint)
    own = needs.own_labels if tree is not None else ()
    host_class = placed.HostClass(needs.constraint, needs.resources.gpu > 0, tree)
    return placed.Needs(needs.resources, needs.ports, needs.revocable, host_class, own)


@lru_cache(_KEPT)
def constraint_of(encoded: bytes) -> Constraint | None:
    """Return the tree of a constraint, which resmgr keeps encoded; None: there is none."""
    from peloton.api.v0.task import task_pb2
    from peloton.wire.constraint import constraint_from

    return constraint_from(task_pb2.Constraint.FromString(encoded), levels=None) if encoded else None


def host_filter(
    needs: placed.Needs, most: int = 0, names: TasksByHost = ANY_HOST, fullest: bool = False
) -> HostFilter:
    """Return which hosts are claimed for tasks of placement."""
    tree = needs.host_class.tree
    if names:
        named = OrConstraint(
            tuple(LabelConstraint(Kind.HOST, Condition.EQUAL, ("hostname", name), 1) for name in names)
        )
        tree = named if tree is None else AndConstraint((named, tree))
    return HostFilter(
        minimum=needs.resources,
        ports=needs.ports,
        revocable=needs.revocable,
        constraint=tree,
        max_hosts=most,
        preferred=tuple(names),
        held_for=frozenset(task for tasks in names.values() for task in tasks),
        ranking=Ranking.DEFRAG if fullest else None,
    )


def gang_shape(shape: placed.Shape) -> GangShape:
    """Return the shape of a gang for hostmgr."""
    members = tuple(Members(host_filter(needs), count, needs.own_labels) for needs, count in shape.members)
    return GangShape(members, shape.spread)


def resmgr_shape(shape: Shape) -> GangShape:
    """Return the shape of a gang that resmgr has set aside."""
    return GangShape(tuple(_members(fit, count) for fit, count in shape.members), shape.spread)


def _members(fit: Fit, count: int) -> Members:
    want = HostFilter(
        minimum=fit.resources,
        ports=fit.ports,
        revocable=fit.revocable,
        constraint=constraint_of(fit.constraint),
    )
    return Members(want, count, fit.own_labels)


def host_of(found: FreeHost, host_class: placed.HostClass) -> placed.Host:
    """Return a claimed host as placement takes it."""
    claim = found.claim
    return placed.Host(
        claim.hostname,
        claim.agent_id,
        claim.id,
        host_class,
        found.free,
        launches=found.launches,
        labels=found.labels,
    )


def proposal_of(placement: placed.HostPlacement, kind: Any) -> Proposal:
    """Return the placement of tasks on one host as resmgr takes it."""
    host = placement.host
    runs = tuple(parse_mesos_task_id(task.run_id) for task in placement.tasks)
    return Proposal(host.hostname, host.agent_id, host.offer_id, kind, runs, tuple(placement.ports))


def runs_of(gang: placed.Gang) -> tuple[Run, ...]:
    """Return the runs of a gang."""
    return tuple(parse_mesos_task_id(task.run_id) for task in gang.tasks)
