"""Translate gangs, hosts and placements between messages of private services and values of the core."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.constraint import Condition, Kind, Label, LabelConstraint, OrConstraint
from peloton.model.hostcounts import refusals
from peloton.model.resources import Resources, milli
from peloton.model.shortage import Shortage
from peloton.model.states import PlacementStrategy, TaskType
from peloton.model.volume import owner_of
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.reservations import reservations_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.placing import placing_pb2
from peloton.private.resmgr.planning import planning_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.wire.constraint import constraint_from, constraint_to, labels_to, own_labels
from peloton.wire.feasibility import LAUNCHES, host_filter, shortage_from, shortage_to
from peloton.wire.hosts import claim_to, labels_from
from peloton.wire.ids import agent_id, run_id
from peloton.wire.task import resources_from, resources_to
from placement.core.events import Rejection, ReservationAnswer
from placement.core.found_hosts import Find
from placement.core.instructions import Claim, ClaimReserved, ReservationReport
from placement.core.model import (
    UNBOUNDED,
    Gang,
    Host,
    HostClass,
    HostPlacement,
    Needs,
    Shape,
    Task,
    TasksOnHosts,
    Unplaced,
)
from placement.core.plans import GroupPlan, PlannedGroup, PlanRequest
from placement.core.reservation_reasons import Reserved

_KINDS = ("cpus", "mem", "disk", "gpus")
_FULLEST = hostsvc_pb2.FilterHint.FILTER_HINT_RANKING_LEAST_AVAILABLE_FIRST


@dataclass(frozen=True, slots=True)
class _Known:
    """Values that are decoded already, to be shared by tasks that are alike."""

    needs: dict[tuple[bytes, bytes, int, bool, bytes], Needs] = field(default_factory=dict)
    classes: dict[tuple[bytes, bool], HostClass] = field(default_factory=dict)
    labels: dict[tuple[Label, ...], tuple[Label, ...]] = field(default_factory=dict)
    distinct: dict[Needs, Needs] = field(default_factory=dict)

    def alike(self, needs: Needs) -> Needs:
        """Return the one object for needs that are equal: their labels may differ apart from their own."""
        return self.distinct.setdefault(needs, needs)


def gangs_from(wire: Iterable[resmgrsvc_pb2.Gang]) -> list[Gang]:
    """Decode gangs; tasks with equal needs share one object. Leave out gangs without tasks."""
    known = _Known()
    return [_gang(gang, known) for gang in wire if gang.tasks]


def _gang(wire: resmgrsvc_pb2.Gang, known: _Known) -> Gang:
    first = wire.tasks[0]
    return Gang(
        first.jobId.value,
        tuple(
            Task(
                task.id.value,
                task.taskId.value,
                _needs(task, known),
                task.desiredHost,
                _labels(task, known),
            )
            for task in wire.tasks
        ),
        PlacementStrategy(first.placementStrategy),
        any(task.readyForHostReservation for task in wire.tasks),
        min(task.placementTimeoutSeconds for task in wire.tasks),
        wire.owner,
    )


def _needs(wire: resmgr_pb2.Task, known: _Known) -> Needs:
    constraint = wire.constraint.SerializeToString(deterministic=True) if wire.HasField("constraint") else b""
    labels = wire.labels.SerializeToString() if constraint else b""
    key = (wire.resource.SerializeToString(), constraint, wire.numPorts, wire.revocable, labels)
    needs = known.needs.get(key)
    if needs is None:
        resources = resources_from(wire.resource)
        gpu = resources.gpu > 0
        host_class = known.classes.get((constraint, gpu))
        if host_class is None:
            tree = constraint_from(wire.constraint, levels=None) if constraint else None
            host_class = known.classes[constraint, gpu] = HostClass(constraint, gpu, tree)
        own = own_labels(wire.constraint, _labels(wire, known)) if constraint else ()
        needs = known.needs[key] = known.alike(
            Needs(resources, wire.numPorts, wire.revocable, host_class, own)
        )
    return needs


def _labels(wire: resmgr_pb2.Task, known: _Known) -> tuple[Label, ...]:
    labels = tuple((label.key, label.value) for label in wire.labels.labels)
    return known.labels.setdefault(labels, labels)


def labels_on_hosts_from(answer: placing_pb2.GetLabelsOnHostsResponse) -> TasksOnHosts:
    """Decode the labels of the tasks on hosts."""
    return {
        host.hostname: {(label.key, label.value): label.count for label in host.labels}
        for host in answer.hosts
    }


def acquire_request(claim: Claim) -> hostsvc_pb2.AcquireHostOffersRequest:
    """Build the request for hosts; of those with names, if given, with the tasks for each."""
    request = hostsvc_pb2.AcquireHostOffersRequest(filter=_filter(claim.needs, claim.names))
    for hostname, tasks in claim.names.items():
        for task in tasks:
            hint = request.filter.hint.hostHint.add(hostname=hostname)
            hint.taskID.value = task
    request.filter.quantity.maxHosts = claim.most
    if claim.fullest:
        request.filter.hint.rankHint = _FULLEST
    return request


def backfill_request(claim: ClaimReserved) -> reservations_pb2.AcquireForBackfillRequest:
    """Build the request for hosts that may be reserved."""
    request = reservations_pb2.AcquireForBackfillRequest(
        filter=_filter(claim.needs), run=run_id(claim.run_id)
    )
    request.filter.quantity.maxHosts = claim.most
    if claim.fullest:
        request.filter.hint.rankHint = _FULLEST
    return request


def find_request(find: Find) -> feasibility_pb2.FindHostsRequest:
    """Build the request for hosts that could be claimed."""
    request = feasibility_pb2.FindHostsRequest(filter=_filter(find.needs), offset=find.offset)
    request.filter.quantity.maxHosts = find.most
    return request


def _filter(needs: Needs, names: Collection[str] = ()) -> hostsvc_pb2.HostFilter:
    given = needs.host_class.constraint
    constraint = task_pb2.Constraint.FromString(given) if given else None
    if names:
        constraint = _on_hosts(names, constraint)
    return host_filter(resources_to(needs.resources), needs.ports, needs.revocable, constraint)


def _on_hosts(names: Iterable[str], also: task_pb2.Constraint | None) -> task_pb2.Constraint:
    """Build the constraint that a host has one of the names, and also meets another constraint."""
    leaves = (LabelConstraint(Kind.HOST, Condition.EQUAL, ("hostname", name), 1) for name in names)
    named = constraint_to(OrConstraint(tuple(leaves)))
    if also is None:
        return named
    both = task_pb2.Constraint(type=task_pb2.Constraint.AND_CONSTRAINT)
    both.andConstraint.constraints.extend((named, also))
    return both


def compare_request(shapes: Iterable[Shape]) -> feasibility_pb2.CheckGangsRequest:
    """Build the request that compares gangs with empty hosts."""
    return feasibility_pb2.CheckGangsRequest(gangs=map(_shape_to, shapes))


def _shape_to(shape: Shape) -> feasibility_pb2.GangShape:
    wire = feasibility_pb2.GangShape(spread=shape.spread)
    for needs, count in shape.members:
        wire.members.add(filter=_filter(needs), count=count, labels=labels_to(needs.own_labels))
    return wire


def wish_to(id: str, shape: Shape) -> reservations_pb2.Wish:
    """Encode a gang that needs hosts reserved."""
    return reservations_pb2.Wish(id=id, gang=_shape_to(shape))


def progress_from(wire: reservations_pb2.Progress, shape: Shape) -> ReservationAnswer:
    """Decode how far the reservation for a gang is."""
    classes = [needs.host_class for needs, _ in shape.members]
    reserved = Reserved(
        wire.reserved,
        wire.free,
        tuple(wire.hostnames),
        wire.start_seconds if wire.HasField("start_seconds") else None,
        wire.next_seconds if wire.HasField("next_seconds") else None,
        wire.ahead,
    )
    claims = zip(wire.claims, wire.members, strict=True)
    return ReservationAnswer(reserved, [host_from(offer, classes[at]) for offer, at in claims])


def reserved_to(report: ReservationReport) -> placing_pb2.ReservedGang:
    """Encode a gang that waits for reserved hosts."""
    runs = [run_id(task.run_id) for task in report.gang.tasks]
    return placing_pb2.ReservedGang(runs=runs, reason=report.reason, start_seconds=report.start)


def shortages_from(answer: feasibility_pb2.CheckGangsResponse) -> list[Shortage | None]:
    """Decode the shortage of each gang, None where it has none."""
    return [
        shortage_from(verdict.shortage) if verdict.HasField("shortage") else None
        for verdict in answer.verdicts
    ]


def host_from(wire: hostsvc_pb2.HostOffer, host_class: HostClass) -> Host:
    """Decode a host that was claimed for `host_class`."""
    amounts = dict.fromkeys(_KINDS, 0)
    slack_cpu = 0
    ports: list[tuple[int, int]] = []
    launches = UNBOUNDED
    volumes_of = set()
    for resource in wire.resources:
        if resource.name == "ports":
            ports += [(part.begin, part.end) for part in resource.ranges.range]
        elif resource.name == LAUNCHES:
            launches = int(resource.scalar.value)
        elif resource.HasField("disk"):
            volumes_of.add(owner_of(resource.disk.persistence.id))
        elif resource.name not in amounts or resource.HasField("shared"):
            continue
        elif not resource.HasField("revocable"):
            amounts[resource.name] += milli(resource.scalar.value)
        elif resource.name == "cpus":
            slack_cpu += milli(resource.scalar.value)
    return Host(
        wire.hostname,
        wire.agentId.value,
        wire.id.value,
        host_class,
        Resources(*amounts.values()),
        slack_cpu,
        tuple(sorted(ports)),
        frozenset(volumes_of - {""}),
        launches,
        labels_from(wire.attributes),
    )


def host_to(host: Host) -> hostsvc_pb2.HostOffer:
    """Encode what a release needs of the host."""
    return claim_to(host.hostname, host.agent_id, host.offer_id)


def placement_to(placement: HostPlacement, type_: TaskType) -> resmgr_pb2.Placement:
    """Encode the placement of tasks on one host."""
    return resmgr_pb2.Placement(
        hostname=placement.host.hostname,
        agentId=agent_id(placement.host.agent_id),
        ports=placement.ports,
        type=resmgr_pb2.TaskType.ValueType(type_),
        hostOfferID=peloton_pb2.HostOfferID(value=placement.host.offer_id),
        taskIDs=[
            resmgr_pb2.Placement.Task(
                pelotonTaskID=peloton_pb2.TaskID(value=task.id),
                mesosTaskID=run_id(task.run_id),
            )
            for task in placement.tasks
        ],
    )


def plan_request_from(wire: planning_pb2.TakePlanResponse) -> PlanRequest:
    """Decode a request for a plan. Its tasks have ids of their own; the job is none that exists."""
    made = []
    for number, group in enumerate(wire.groups):
        gang = resmgrsvc_pb2.Gang()
        for members in group.members:
            for _ in range(members.count):
                task = gang.tasks.add()
                task.CopyFrom(members.task)
                task.jobId.value = "plan"
                task.id.value = task.taskId.value = f"plan-{number}-{len(gang.tasks)}"
        made.append(gang)
    groups = zip(gangs_from(made), wire.groups, strict=True)
    return PlanRequest(
        wire.plan_id, tuple(PlannedGroup(gang, group.count) for gang, group in groups), wire.seconds
    )


def group_plan_to(plan: GroupPlan) -> planning_pb2.GangsPlan:
    """Encode where the gangs of a group go."""
    return planning_pb2.GangsPlan(
        placed=plan.placed,
        unplaced=plan.unplaced,
        hosts=[
            planning_pb2.PlannedHosts(hosts=each.hosts, tasks=each.tasks, names=each.names)
            for each in plan.hosts
        ],
        unplaced_reason=plan.reason,
    )


def unplaced_to(unplaced: Unplaced) -> placing_pb2.UnplacedGang:
    """Encode a gang that is given back."""
    return placing_pb2.UnplacedGang(
        runs=[run_id(task.run_id) for task in unplaced.gang.tasks],
        reason=unplaced.reason,
        hosts=refusals(unplaced.counts),
        shortage=shortage_to(unplaced.shortage) if unplaced.shortage is not None else None,
    )


def rejections_from(failure: resmgrsvc_pb2.SetPlacementsFailure) -> list[Rejection]:
    """Decode the runs whose placement was rejected."""
    return [
        Rejection(each.placement.hostOfferID.value, task.mesosTaskID.value, each.message)
        for each in failure.failed
        for task in each.placement.taskIDs
    ]
