"""ACCEPT, DECLINE, and the answers to inverse offers."""

from __future__ import annotations

from collections.abc import Iterable

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.agent_link import Launch
from minicluster.mesos.common.secrets import without_secrets
from minicluster.mesos.master.core import events, operations, operator_events, validation
from minicluster.mesos.master.core.allocator import add_filter, refuse_seconds
from minicluster.mesos.master.core.state import Agent, Framework, Master, Task

Operation = mesos.Offer.Operation
_REASON = mesos.TaskStatus


def decline(cluster: Master, framework: Framework, call: scheduler.Call.Decline, now: float) -> None:
    """Give offers back; those that are unknown, used up or another's are passed over."""
    seconds = refuse_seconds(call.filters if call.HasField("filters") else None)
    for offer_id in call.offer_ids:
        offer = framework.offers.get(offer_id.value)
        if offer is not None:
            cluster.drop_offer(offer)
            add_filter(framework, offer, offer.resources, seconds, now)


def accept(cluster: Master, framework: Framework, call: scheduler.Call.Accept, now: float) -> None:
    """Launch tasks on offers; what is left of them is free again, and filtered.

    LAUNCH, RESERVE, UNRESERVE, CREATE and DESTROY are carried out in their order; the tasks of a LAUNCH_GROUP
    get TASK_ERROR; operations of any other type, or without a type, are dropped in silence, as Mesos drops
    those it does not know.
    """
    offer_ids = [item.value for item in call.offer_ids]
    if not offer_ids and not call.operations:
        return
    error = validation.offers_error(cluster, framework, offer_ids)
    if error is not None:
        _refuse_offers(cluster, framework, call, offer_ids, error, now)
        return
    offers = [cluster.offers[item] for item in offer_ids]
    agent = cluster.agents[offers[0].agent_id]
    left: res.Bundle = {}
    for offer in offers:
        res.add(left, offer.resources)
        cluster.drop_offer(offer)
    for operation in call.operations:
        _carry_out(cluster, framework, agent, offers[0].role, operation, left, now)
    seconds = refuse_seconds(call.filters if call.HasField("filters") else None)
    add_filter(framework, offers[0], left, seconds, now)


def _tasks_of(operations: Iterable[Operation]) -> Iterable[mesos.TaskInfo]:
    for operation in operations:
        if operation.type == Operation.LAUNCH:
            yield from operation.launch.task_infos
        elif operation.type == Operation.LAUNCH_GROUP:
            yield from operation.launch_group.task_group.tasks


def _refuse_offers(
    cluster: Master,
    framework: Framework,
    call: scheduler.Call.Accept,
    offer_ids: list[str],
    error: str,
    now: float,
) -> None:
    for offer_id in offer_ids:
        offer = framework.offers.get(offer_id)
        if offer is not None:
            cluster.drop_offer(offer)
    state = events.lost_state(framework, mesos.TASK_DROPPED)
    for task in _tasks_of(call.operations):
        message = f"Task launched with invalid offers: {error}"
        _answer(cluster, framework, task, state, message, _REASON.REASON_INVALID_OFFERS, now)
    for operation in call.operations:
        if operations.resources_of(operation) is not None:
            message = f"Operation attempted with invalid offers: {error}"
            operations.report_error(cluster, framework, operation, message)


def _answer(
    cluster: Master,
    framework: Framework,
    task: mesos.TaskInfo,
    state: int,
    message: str,
    reason: int,
    now: float,
) -> None:
    agent_id = task.agent_id.value
    status = events.master_status(task.task_id.value, state, message, reason, now, agent_id)
    cluster.count_end(state)
    cluster.send(framework, events.update(status))


def _carry_out(
    cluster: Master,
    framework: Framework,
    agent: Agent,
    role: str,
    operation: Operation,
    left: res.Bundle,
    now: float,
) -> None:
    if operation.type == Operation.LAUNCH:
        for task in operation.launch.task_infos:
            _launch(cluster, framework, agent, role, task, left, now)
    elif operation.type == Operation.LAUNCH_GROUP:
        for task in operation.launch_group.task_group.tasks:
            message = "Task groups are not run by this cluster"
            reason = _REASON.REASON_TASK_GROUP_INVALID
            _answer(cluster, framework, task, mesos.TASK_ERROR, message, reason, now)
    elif operations.resources_of(operation) is not None:
        operations.carry_out(cluster, framework, agent, role, operation, left)


def _launch(
    cluster: Master,
    framework: Framework,
    agent: Agent,
    role: str,
    task: mesos.TaskInfo,
    left: res.Bundle,
    now: float,
) -> None:
    error = validation.task_error(framework, task, agent.id)
    wanted: res.Bundle = {}
    if error is None:
        wanted = res.from_messages(task.resources)
        roles = validation.roles_of(list(task.resources), role)
        if task.HasField("executor"):
            res.add(wanted, res.from_messages(task.executor.resources))
        wanted = res.aligned(wanted, left)
        error = validation.size_error(wanted, roles, left, role)
    if error is not None:
        reason = _REASON.REASON_TASK_INVALID
        _answer(cluster, framework, task, mesos.TASK_ERROR, error, reason, now)
        return
    if not agent.connected:
        state = events.lost_state(framework, mesos.TASK_DROPPED)
        reason = _REASON.REASON_AGENT_DISCONNECTED
        _answer(cluster, framework, task, state, f"Agent {agent.id} is disconnected", reason, now)
        return
    assert res.contains(agent.free, wanted), f"{agent.id} has less free than was offered"
    res.subtract(left, wanted)
    res.subtract(agent.free, wanted)
    framework.allocated.update(res.scalars(wanted))
    record = Task(without_secrets(task), framework.id, agent.id, role, wanted)
    assert record.id not in framework.tasks, f"{record.id} is launched twice"
    framework.tasks[record.id] = record
    agent.tasks[(framework.id, record.id)] = record
    cluster.send_to_agent(agent, Launch(framework.info, task))
    operator_events.task_added(cluster, record)


def answer_inverse(
    cluster: Master,
    framework: Framework,
    offer_ids: Iterable[mesos.OfferID],
    filters: mesos.Filters | None,
    accepted: bool,
    now: float,
) -> None:
    """Note a framework's answer to inverse offers; it gets others when its filter ends."""
    for offer_id in offer_ids:
        offer = framework.inverse_offers.pop(offer_id.value, None)
        if offer is None:
            continue
        del cluster.inverse_offers[offer.id]
        framework.inverse_filters[offer.agent_id] = now + refuse_seconds(filters)
        agent = cluster.agents.get(offer.agent_id)
        if agent is not None:
            machine = cluster.machines.get((agent.hostname, agent.ip))
            if machine is not None:
                machine.answers[framework.id] = (accepted, now)
