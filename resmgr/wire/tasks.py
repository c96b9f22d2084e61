"""Translation between the private wire and the core."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakValueDictionary

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.constraint import Kind
from peloton.model.host_class import EXCLUSIVE, HostClass, hosts_asked_for
from peloton.model.host_pool import HOST_POOL, implicit_pool, in_pool
from peloton.model.ids import mesos_task_id, parse_mesos_task_id, task_id
from peloton.model.states import TaskType
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgr.placing import placing_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.wire.constraint import constraint_from, constraint_to, labels_to, mentions, own_labels
from peloton.wire.feasibility import host_filter, shortage_from
from peloton.wire.ids import agent_id, run_id
from peloton.wire.task import resources_from, resources_to
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.entities import Gang, Task
from resmgr.core.state.needs import Needs, NewTask, Shape
from resmgr.core.state.placements import Handover, PlacementFailure, Proposal, ReservedGang

_OF_ONE_RUN = (
    "id",
    "jobId",
    "taskId",
    "hostname",
    "desiredHost",
    "minInstances",
    "placementTimeoutSeconds",
    "placementRetryCount",
    "placementAttemptCount",
    "readyForHostReservation",
)
"""Fields of a Task that are not among its needs."""
PLACED_TYPES = frozenset(int(kind) for kind in TaskType if kind is not TaskType.UNKNOWN)
"""Numbers of the task types that have placement engines."""


class Translator:
    """Keep one `Needs` for all tasks that request the same."""

    def __init__(self) -> None:
        self._needs: WeakValueDictionary[bytes, Needs] = WeakValueDictionary()

    def new_task(self, wire: resmgr_pb2.Task) -> NewTask:
        """Return the run of a message. Raises InvalidArgument with the field's path."""
        run = parse_mesos_task_id(wire.taskId.value)
        together = max(wire.minInstances, 1)
        needs = self.needs(wire)
        return NewTask(run.job_id, run.instance, run.run, needs, wire.desiredHost, together, wire.hostname)

    def needs(self, wire: resmgr_pb2.Task) -> Needs:
        """Return the shared needs. Raises InvalidArgument for bad amounts and unknown types."""
        shared = resmgr_pb2.Task()
        shared.CopyFrom(wire)
        for field in _OF_ONE_RUN:
            shared.ClearField(field)  # type: ignore[arg-type]
        payload = shared.SerializeToString(deterministic=True)
        held = self._needs.get(payload)
        if held is None:
            held = self._needs[payload] = _needs(shared, payload)
        return held


def _needs(wire: resmgr_pb2.Task, payload: bytes) -> Needs:
    if wire.type not in PLACED_TYPES:
        raise InvalidArgument("type", wire.type, "BATCH (1), STATELESS (2), STATEFUL (3) or DAEMON (4)")
    labels = tuple((label.key, label.value) for label in wire.labels.labels)
    return Needs(
        resources=resources_from(wire.resource),
        priority=wire.priority,
        preemptible=wire.preemptible,
        controller=wire.controller,
        revocable=wire.revocable,
        type=TaskType(wire.type),
        ports=wire.numPorts,
        payload=payload,
        constraint=wire.constraint.SerializeToString(deterministic=True)
        if wire.HasField("constraint")
        else b"",
        labels=labels,
        own_labels=own_labels(wire.constraint, labels),
        host_pool=_host_pool(wire),
        spread=wire.placementStrategy == job_pb2.PLACEMENT_STRATEGY_SPREAD_JOB,
        asked=_hosts_asked_for(wire),
        max_unavailable=wire.maxUnavailable,
        extra=wire.extra,
    )


def _hosts_asked_for(wire: resmgr_pb2.Task) -> HostClass:
    """Return the class of hosts that a task asks for, as if host pools were on."""
    constraint = None
    if any(mentions(wire.constraint, Kind.HOST, key) for key in (EXCLUSIVE, HOST_POOL)):
        try:
            constraint = constraint_from(wire.constraint, levels=None)
        except InvalidArgument:  # an incomplete tree, which no host meets
            constraint = None
    return hosts_asked_for(constraint, wire.resource.gpuLimit > 0, _host_pool(wire))


def _host_pool(wire: resmgr_pb2.Task) -> str:
    """Return the implicit host pool of a task; empty where its constraint names a pool."""
    if mentions(wire.constraint, Kind.HOST, HOST_POOL):
        return ""
    return implicit_pool(TaskType(wire.type), wire.preemptible)


def shape_to(shape: Shape, open_pools: frozenset[str] = frozenset()) -> feasibility_pb2.GangShape:
    """Return a shape for hostmgr to compare with its hosts; nothing is confined to `open_pools`."""
    wire = feasibility_pb2.GangShape(spread=shape.spread)
    for fit, count in shape.members:
        constraint = task_pb2.Constraint.FromString(fit.constraint) if fit.constraint else None
        required = host_filter(resources_to(fit.resources), fit.ports, fit.revocable, constraint)
        labels = labels_to(fit.own_labels)
        pool = "" if fit.host_pool in open_pools else fit.host_pool
        wire.members.add(filter=required, count=count, host_pool=pool, labels=labels)
    return wire


def task_to(task: Task) -> resmgr_pb2.Task:
    """Return what was enqueued, with the host where there is one."""
    wire = resmgr_pb2.Task.FromString(task.needs.payload)
    job_id = task.job.id
    wire.id.value = task_id(job_id, task.instance)
    wire.jobId.value = job_id
    wire.taskId.value = mesos_task_id(job_id, task.instance, task.run)
    wire.hostname = task.host
    wire.desiredHost = task.desired_host
    return wire


def gang_to(gang: Gang, scheduler: Scheduler) -> resmgrsvc_pb2.Gang:
    """Return a gang for a placement engine, with its tries so far and, with host pools, their constraint."""
    tasks = []
    for task in gang.tasks:
        wire = task_to(task)
        if scheduler.confines(task.needs.type) and (pool := _pool_for(task)):
            _require_pool(wire, pool)
        wire.minInstances = len(gang.tasks)
        wire.placementTimeoutSeconds = scheduler.placing_timeout(gang)
        wire.placementRetryCount = gang.attempts.tries
        wire.placementAttemptCount = gang.attempts.returns
        wire.readyForHostReservation = scheduler.wants_reserved_host(gang)
        tasks.append(wire)
    return resmgrsvc_pb2.Gang(tasks=tasks, owner=scheduler.owner_of(gang))


def planned_task(wire: resmgr_pb2.Task, needs: Needs, scheduler: Scheduler) -> resmgr_pb2.Task:
    """Return a task that is not enqueued, for a plan of a placement engine."""
    planned = resmgr_pb2.Task()
    planned.CopyFrom(wire)
    if scheduler.confines(needs.type) and needs.host_pool:
        _require_pool(planned, needs.host_pool)
    return planned


def _pool_for(task: Task) -> str:
    """Return the implicit host pool of a run. One whose volume exists goes where the volume is."""
    if task.needs.type is TaskType.STATEFUL and task.desired_host:
        return ""
    return task.needs.host_pool


def _require_pool(wire: resmgr_pb2.Task, pool: str) -> None:
    """Add to the constraint of a task that its host is in the pool."""
    required = constraint_to(in_pool(pool))
    if wire.HasField("constraint"):
        both = task_pb2.Constraint(type=task_pb2.Constraint.AND_CONSTRAINT)
        both.andConstraint.constraints.extend((required, wire.constraint))
        required = both
    wire.constraint.CopyFrom(required)


def proposal_from(wire: resmgr_pb2.Placement) -> Proposal:
    """Return a proposed placement. Raises InvalidArgument for a bad run id."""
    return Proposal(
        host=wire.hostname,
        agent_id=wire.agentId.value,
        offer_id=wire.hostOfferID.value,
        type=TaskType(wire.type) if wire.type in PLACED_TYPES else TaskType.UNKNOWN,
        runs=tuple(parse_mesos_task_id(task.mesosTaskID.value) for task in wire.taskIDs),
        ports=tuple(wire.ports),
    )


def failure_from(wire: resmgrsvc_pb2.SetPlacementsRequest.FailedPlacement) -> PlacementFailure:
    """Return a failed placement. Raises InvalidArgument for a bad run id."""
    return PlacementFailure(
        tuple(parse_mesos_task_id(task.taskId.value) for task in wire.gang.tasks), wire.reason
    )


def unplaced_from(wire: placing_pb2.UnplacedGang) -> PlacementFailure:
    """Return a failed placement. Raises InvalidArgument for a bad run id."""
    runs = tuple(parse_mesos_task_id(run.value) for run in wire.runs)
    shortage = shortage_from(wire.shortage) if wire.HasField("shortage") else None
    return PlacementFailure(runs, wire.reason, dict(wire.hosts), shortage)


def reserved_from(wire: placing_pb2.ReservedGang) -> ReservedGang:
    """Return a gang that waits for reserved hosts. Raises InvalidArgument for a bad run id."""
    runs = tuple(parse_mesos_task_id(run.value) for run in wire.runs)
    return ReservedGang(runs, wire.reason, wire.start_seconds if wire.HasField("start_seconds") else None)


def placement_to(given: Proposal | Handover) -> resmgr_pb2.Placement:
    """Return a placement's message."""
    return resmgr_pb2.Placement(
        hostname=given.host,
        agentId=agent_id(given.agent_id),
        ports=given.ports,
        type=resmgr_pb2.TaskType.ValueType(given.type),
        hostOfferID=peloton_pb2.HostOfferID(value=given.offer_id),
        taskIDs=[
            resmgr_pb2.Placement.Task(
                pelotonTaskID=peloton_pb2.TaskID(value=task_id(run.job_id, run.instance)),
                mesosTaskID=run_id(mesos_task_id(*run)),
            )
            for run in given.runs
        ],
    )


def preemption_candidate(task: Task) -> resmgr_pb2.PreemptionCandidate:
    """Return the message of a task to be evicted."""
    return resmgr_pb2.PreemptionCandidate(
        id=peloton_pb2.TaskID(value=task_id(task.job.id, task.instance)),
        reason=resmgr_pb2.PREEMPTION_REASON_REVOKE_RESOURCES,
        task_id=run_id(mesos_task_id(*task.key)),
    )


def failed_task(
    wire: resmgr_pb2.Task, message: str, code: int
) -> resmgrsvc_pb2.EnqueueGangsFailure.FailedTask:
    """Return the message of a task that could not be queued."""
    return resmgrsvc_pb2.EnqueueGangsFailure.FailedTask(
        task=wire,
        message=message,
        errorcode=resmgrsvc_pb2.EnqueueGangsFailure.ErrorCode.ValueType(code),
    )


def gangs_from(
    wires: Iterable[resmgrsvc_pb2.Gang], translator: Translator
) -> tuple[list[list[NewTask]], list[resmgrsvc_pb2.EnqueueGangsFailure.FailedTask]]:
    """Return the well-formed gangs, and the tasks of the others, each with its error."""
    gangs: list[list[NewTask]] = []
    failed: list[resmgrsvc_pb2.EnqueueGangsFailure.FailedTask] = []
    codes = resmgrsvc_pb2.EnqueueGangsFailure
    for wire in wires:
        wrong: dict[int, str] = {}
        gang: list[NewTask] = []
        for i, task in enumerate(wire.tasks):
            try:
                gang.append(translator.new_task(task))
            except InvalidArgument as error:
                wrong[i] = str(error)
        if not wrong:
            gangs.append(gang)
            continue
        for i, task in enumerate(wire.tasks):
            if i in wrong:
                code = codes.ENQUEUE_GANGS_FAILURE_ERROR_CODE_INTERNAL
            else:
                code = codes.ENQUEUE_GANGS_FAILURE_ERROR_CODE_FAILED_DUE_TO_GANG_FAILED
            failed.append(failed_task(task, wrong.get(i, "another task of its gang is wrong"), code))
    return gangs, failed
