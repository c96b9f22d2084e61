"""Reserve and unreserve resources, create and destroy persistent volumes.

An operation replaces resources of an agent by the same amounts of another kind, and the agent checkpoints
the result. Source: recordings ``14-resources*``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.agent_link import ApplyResources
from minicluster.mesos.master.core import events, validation
from minicluster.mesos.master.core.state import Agent, Framework, Master

Operation = mesos.Offer.Operation


class Exchange(NamedTuple):
    """What an operation takes out of an agent's resources, and what it puts there instead."""

    taken: res.Bundle
    given: res.Bundle


Rule = Callable[[Agent, res.Bundle, str], "Exchange | str"]
"""Agent, resources of the operation and the caller's principal → the exchange, or why it is refused."""


def resources_of(operation: Operation) -> Sequence[mesos.Resource] | None:
    """Return the resources that an operation is about; None for one of another type."""
    if operation.type == Operation.RESERVE:
        return operation.reserve.resources
    if operation.type == Operation.UNRESERVE:
        return operation.unreserve.resources
    if operation.type == Operation.CREATE:
        return operation.create.volumes
    return operation.destroy.volumes if operation.type == Operation.DESTROY else None


def carry_out(
    cluster: Master,
    framework: Framework,
    agent: Agent,
    role: str,
    operation: Operation,
    left: res.Bundle,
) -> None:
    """Carry out an operation on ``left``, the rest of accepted offers; report it where it has an id."""
    exchange = planned(agent, operation, framework.info.principal)
    if isinstance(exchange, str):
        report_error(cluster, framework, operation, f"{exchange}; on agent {described(agent)}")
        return
    wanted = res.aligned(exchange.taken, left)
    if not res.contains(left, wanted):
        missing = f"{res.text(left, role)} does not contain {res.text(exchange.taken, role)}"
        report_error(cluster, framework, operation, missing)
        return
    res.subtract(left, wanted)
    res.add(left, exchange.given)
    apply(cluster, agent, Exchange(wanted, exchange.given), _report_to(framework, operation))


def planned(agent: Agent, operation: Operation, principal: str) -> Exchange | str:
    """Return what an operation would exchange, or why it is refused, in Mesos' words."""
    resources = list(resources_of(operation) or ())
    if not resources:
        return "No resources specified"
    error = validation.resources_error(resources)
    if error is not None:
        return error
    return _RULES[operation.type](agent, res.from_messages(resources), principal)


def apply(cluster: Master, agent: Agent, exchange: Exchange, report: tuple[str, str] = ("", "")) -> None:
    """Exchange resources of an agent that are free, and have the agent checkpoint the result.

    ``report`` is the framework id and the operation id to report, if any.
    """
    for bundle in (agent.free, agent.total):
        assert res.contains(bundle, exchange.taken), f"{agent.id} has less than is exchanged"
        res.subtract(bundle, exchange.taken)
        res.add(bundle, exchange.given)
    send_resources(cluster, agent, *report)


def send_resources(cluster: Master, agent: Agent, framework_id: str = "", operation_id: str = "") -> None:
    """Send an agent the dynamic reservations and volumes that it has."""
    kept = tuple(res.to_messages(res.checkpointed(agent.total)))
    cluster.send_to_agent(agent, ApplyResources(kept, framework_id, operation_id))


def applied(cluster: Master, agent: Agent, framework_id: str, operation_id: str, uuid: bytes) -> None:
    """Report an operation that an agent has carried out. It is reported once: Mesos would repeat it."""
    framework = cluster.frameworks.get(framework_id)
    if framework is not None:
        status = _status(operation_id, mesos.OPERATION_FINISHED)
        status.uuid.value = uuid
        status.agent_id.value = agent.id
        _send(cluster, framework, status)


def report_error(cluster: Master, framework: Framework, operation: Operation, message: str) -> None:
    """Report a refused operation, if it has an id."""
    if operation.HasField("id"):
        status = _status(operation.id.value, mesos.OPERATION_ERROR)
        status.message = message
        _send(cluster, framework, status)


def reconcile(cluster: Master, framework: Framework, call: scheduler.Call.ReconcileOperations) -> None:
    """Report requested operations as unknown: none is kept beyond its report."""
    for item in call.operations:
        known = item.HasField("agent_id")
        status = _status(item.operation_id.value, mesos.OPERATION_UNKNOWN)
        why = "Operation is unknown" + ("" if known else " and no 'agent_id' was provided")
        status.message = f"Reconciliation: {why}"
        if known:
            status.agent_id.CopyFrom(item.agent_id)
        _send(cluster, framework, status)


def by_operator(cluster: Master, agent: Agent, operation: Operation) -> tuple[int, str]:
    """Carry out an operator's operation, which rescinds offers; return the HTTP status and the text."""
    resources = list(resources_of(operation) or ())
    owners = {item.reservations[-1].principal for item in resources if item.reservations}
    exchange = planned(agent, operation, owners.pop() if len(owners) == 1 else "")
    if isinstance(exchange, str):
        return 400, exchange
    wanted = res.aligned(exchange.taken, agent.total)
    if not res.contains(agent.total, wanted):
        return 409, f"{res.text(agent.total)} does not contain {res.text(exchange.taken)}"
    for offer in list(agent.offers.values()):
        cluster.rescind(offer)
    if not res.contains(agent.free, wanted):
        return 409, f"{res.text(agent.free)} does not contain {res.text(exchange.taken)}"
    apply(cluster, agent, Exchange(wanted, exchange.given))
    return 202, ""


def described(agent: Agent) -> str:
    """Return an agent's id, address and hostname as Mesos prints them."""
    return f"{agent.id} at {agent.pid} ({agent.hostname})"


def _report_to(framework: Framework, operation: Operation) -> tuple[str, str]:
    return (framework.id, operation.id.value) if operation.HasField("id") else ("", "")


def _status(operation_id: str, state: int) -> mesos.OperationStatus:
    status = mesos.OperationStatus(state=state)  # type: ignore[arg-type]
    status.operation_id.value = operation_id
    return status


def _send(cluster: Master, framework: Framework, status: mesos.OperationStatus) -> None:
    cluster.send(framework, events.operation(status))


# --- the rules of each operation -------------------------------------------------------------------


def _reserve(agent: Agent, wanted: res.Bundle, principal: str) -> Exchange | str:
    for kind in wanted:
        if not kind.reservations or kind.reservations[-1].type != res.DYNAMIC:
            return f"Resource {res.kind_text(kind)} is not dynamically reserved"
        if kind.volume_id:
            return f"A persistent volume {res.kind_text(kind)} must already be reserved"
        owner = kind.reservations[-1].principal
        if owner != principal:
            return (
                f"A reserve operation was attempted by authenticated principal '{principal}', which does "
                f"not match a reserved resource in the request with principal '{owner}'"
            )
    return Exchange(res.unreserved(wanted), wanted)


def _unreserve(agent: Agent, wanted: res.Bundle, principal: str) -> Exchange | str:
    for kind in wanted:
        if not kind.reservations or kind.reservations[-1].type != res.DYNAMIC:
            return f"Resource {res.kind_text(kind)} is not dynamically reserved"
        if kind.volume_id:
            return (
                f"A dynamically reserved persistent volume {res.kind_text(kind)} cannot be unreserved "
                "directly. Please destroy the persistent volume first then unreserve the resource"
            )
    return Exchange(wanted, res.unreserved(wanted))


def _create(agent: Agent, wanted: res.Bundle, principal: str) -> Exchange | str:
    there = {kind.volume_id for kind in agent.total}
    for kind in wanted:
        if kind.name != "disk" or not kind.volume_id:
            return f"Resource {res.kind_text(kind)} is not a persistent volume"
        error = validation.id_error(kind.volume_id)
        if error is not None:
            return f"Invalid persistence ID: {error}"
        if not kind.reservations:
            return "Persistent volumes cannot be created from unreserved resources"
        if kind.volume_id in there:
            return f"Persistence ID '{kind.volume_id}' is not unique"
        there.add(kind.volume_id)
    return Exchange(res.without_volumes(wanted), wanted)


def _destroy(agent: Agent, wanted: res.Bundle, principal: str) -> Exchange | str:
    if not all(kind.volume_id for kind in wanted):
        return "Resources other than persistent volumes cannot be destroyed"
    volumes = res.aligned(wanted, agent.total)
    if not res.contains(agent.total, volumes):
        return "Persistent volumes not found"
    for task in agent.tasks.values():
        if not task.released and any(kind in task.resources for kind in volumes):
            return "Persistent volumes in use"
    return Exchange(volumes, res.without_volumes(volumes))


_RULES: dict[int, Rule] = {
    Operation.RESERVE: _reserve,
    Operation.UNRESERVE: _unreserve,
    Operation.CREATE: _create,
    Operation.DESTROY: _destroy,
}
