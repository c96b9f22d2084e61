"""Warnings about instances that no host of the cluster could take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from peloton.cli.failures import CallFailed
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.model.spans import spans
from peloton.present.texts import clean

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig
    from peloton.model.job import JobSpec
    from peloton.private.hostmgr.feasibility.feasibility_pb2 import GangShape, Members

TIMEOUT_SECONDS = 3.0
MAX_GANGS = 1000
"""Different gangs of a job that are compared with the hosts."""


def warnings(session: Session, config: JobConfig) -> list[str]:
    """Return a line for each reason why instances of an accepted job fit on no empty host.

    Return none where hostmgr cannot answer now.
    """
    from peloton.model.states import JobType
    from peloton.private.hostmgr.feasibility import feasibility_pb2
    from peloton.wire.job import job_spec

    spec = job_spec(config, 0)
    gangs = list(_gangs(spec).values())[:MAX_GANGS]
    request = feasibility_pb2.CheckGangsRequest(gangs=[shape for shape, _ in gangs])
    try:
        verdicts = session.call(RPCS.feasibility_svc.CheckGangs, request, timeout=TIMEOUT_SECONDS).verdicts
    except CallFailed:
        return []
    found: dict[str, list[int]] = {}
    for (_, instances), verdict in zip(gangs, verdicts, strict=False):
        if verdict.HasField("shortage"):
            found.setdefault(verdict.shortage.text, []).extend(instances)
    if spec.type is JobType.DAEMON:
        return [_daemon_warning(text) for text in found]
    return [_warning(instances, text) for text, instances in found.items()]


def told(response: Any) -> list[str]:
    """Return a line for each warning of the job manager about a spec that it took."""
    return [f"warning: {clean(text)}" for text in response.warnings]


def _daemon_warning(text: str) -> str:
    return f"warning: no host takes an instance now: {clean(text)}; each host that does gets one as it comes"


def _warning(instances: list[int], text: str) -> str:
    who = "instance" if len(instances) == 1 else "instances"
    return f"warning: {who} {spans(instances)} cannot be placed, not even on empty hosts: {clean(text)}"


def _gangs(spec: JobSpec) -> dict[bytes, tuple[GangShape, list[int]]]:
    """Return the different gangs of a job, each with its instances."""
    from peloton.model.states import JobType, PlacementStrategy
    from peloton.private.hostmgr.feasibility import feasibility_pb2

    spread = spec.placement_strategy is PlacementStrategy.SPREAD_JOB
    known: dict[int, tuple[bytes, Members]] = {}
    found: dict[bytes, tuple[GangShape, list[int]]] = {}
    together = feasibility_pb2.GangShape(spread=spread)
    # A daemon job has no number of instances; each asks for the same.
    for instance in range(1 if spec.type is JobType.DAEMON else spec.instance_count):
        task = spec.task(instance)
        if id(task) not in known:
            needed = _members(spec, instance)
            known[id(task)] = needed.SerializeToString(deterministic=True), needed
        key, members = known[id(task)]
        if spec.in_gang(instance):
            _add_members(together, members)
            continue
        if key not in found:
            found[key] = feasibility_pb2.GangShape(members=[members], spread=spread), []
        found[key][1].append(instance)
    if together.members:
        found[b"gang"] = together, list(range(sum(each.count for each in together.members)))
    return found


def _add_members(gang: GangShape, members: Members) -> None:
    for each in gang.members:
        if (each.filter, each.host_pool, list(each.labels)) == (
            members.filter, members.host_pool, list(members.labels)
        ):  # fmt: skip
            each.count += 1
            return
    gang.members.append(members)


def _members(spec: JobSpec, instance: int) -> Members:
    from peloton.model.fixed_ports import port_labels, with_ports
    from peloton.model.host_pool import implicit_pool
    from peloton.model.states import TaskType
    from peloton.private.hostmgr.feasibility import feasibility_pb2
    from peloton.wire.constraint import constraint_to, labels_to, own_labels
    from peloton.wire.feasibility import host_filter
    from peloton.wire.task import resources_to

    task = spec.task(instance)
    fixed = [port.value for port in task.ports if port.value]
    required = with_ports(task.constraint, fixed)
    constraint = constraint_to(required) if required is not None else None
    labels = own_labels(constraint, (*task.labels, *port_labels(fixed))) if constraint is not None else ()
    wanted = host_filter(
        resources_to(task.resources), task.dynamic_ports, spec.revocable(instance), constraint
    )
    pool = implicit_pool(TaskType(spec.task_type(instance)), spec.preemptible(instance))
    return feasibility_pb2.Members(filter=wanted, count=1, host_pool=pool, labels=labels_to(labels))
