"""The state of the cluster in the messages of the operator API.

Source: recording ``12-operator``. Resources are in the new form; those of agents have ``role`` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.master import master_pb2 as master
from minicluster.mesos.common import resources as res
from minicluster.mesos.master.core.allocator import inverse_offer_message, offer_message
from minicluster.mesos.master.core.events import master_info
from minicluster.mesos.master.core.state import Agent, Framework, Master, Task

Response = master.Response
_CAPABILITY = mesos.AgentInfo.Capability
AGENT_CAPABILITIES = (
    _CAPABILITY.MULTI_ROLE,
    _CAPABILITY.HIERARCHICAL_ROLE,
    _CAPABILITY.RESERVATION_REFINEMENT,
    _CAPABILITY.AGENT_DRAINING,
)


def nanoseconds(when: float) -> mesos.TimeInfo:
    """Return a TimeInfo of seconds since the epoch."""
    return mesos.TimeInfo(nanoseconds=int(when * 1e9))


def both_forms(bundle: res.Bundle, role: str = "") -> Sequence[mesos.Resource]:
    """Return resources in the new form, with ``role`` and ``reservation`` of the old one as well.

    Agents with equal resources share the messages, which must not be changed.
    """
    return _both_forms(tuple(bundle.items()), role)


@lru_cache(10_000)
def _both_forms(bundle: tuple[tuple[Any, Any], ...], role: str) -> Sequence[mesos.Resource]:
    resources: res.Bundle = dict(bundle)
    messages = res.to_messages(resources, role=role)
    for message, kind in zip(messages, resources, strict=True):
        res.write_old_form(message, kind)
    return messages


def by_role(entries: Iterable[tuple[str, res.Bundle]]) -> list[mesos.Resource]:
    """Return the sums of what roles hold, each with the role that it is allocated to."""
    sums: dict[str, res.Bundle] = {}
    for role, bundle in entries:
        res.add(sums.setdefault(role, {}), bundle)
    return [message for role, bundle in sums.items() for message in both_forms(bundle, role)]


def agent(item: Agent) -> Response.GetAgents.Agent:
    """Return an agent as GET_AGENTS shows it."""
    out = Response.GetAgents.Agent(
        agent_info=item.info,
        active=item.offerable,
        deactivated=item.deactivated,
        version=item.version,
        pid=item.pid,
        registered_time=nanoseconds(item.registered),
    )
    if item.reregistered is not None:
        out.reregistered_time.CopyFrom(nanoseconds(item.reregistered))
    out.total_resources.extend(both_forms(item.total))
    live = [task for task in item.tasks.values() if not task.released]
    out.allocated_resources.extend(by_role((task.role, task.resources) for task in live))
    out.offered_resources.extend(by_role((offer.role, offer.resources) for offer in item.offers.values()))
    for capability in AGENT_CAPABILITIES:
        out.capabilities.add(type=capability)
    drain = drain_info(item)
    if drain is not None:
        out.drain_info.CopyFrom(drain)
        out.estimated_drain_start_time.CopyFrom(nanoseconds(int(item.drain_started)))
    return out


def drain_info(item: Agent) -> mesos.DrainInfo | None:
    """Return how far an agent's draining has come, None where it is not drained."""
    if item.drain is None:
        return None
    info = mesos.DrainInfo()
    info.CopyFrom(item.drain)
    info.state = mesos.DRAINING if item.tasks else mesos.DRAINED
    return info


def get_agents(cluster: Master) -> Response.GetAgents:
    """Answer GET_AGENTS."""
    out = Response.GetAgents()
    out.agents.extend(agent(item) for item in cluster.agents.values())
    out.recovered_agents.extend(cluster.recovered.values())
    return out


def framework(cluster: Master, item: Framework) -> Response.GetFrameworks.Framework:
    """Return a framework as GET_FRAMEWORKS shows it."""
    out = Response.GetFrameworks.Framework(
        framework_info=item.info,
        active=item.active,
        connected=item.stream is not None,
        recovered=item.recovered,
    )
    if not item.recovered:
        out.registered_time.CopyFrom(nanoseconds(item.registered))
        out.reregistered_time.CopyFrom(nanoseconds(item.reregistered or item.registered))
    out.offer_constraints.SetInParent()
    if item.unregistered is not None:
        out.unregistered_time.CopyFrom(nanoseconds(item.unregistered))
    for offer in item.offers.values():
        message = offer_message(cluster.agents[offer.agent_id], item, offer)
        del message.resources[:]
        message.resources.extend(res.to_messages(offer.resources, role=offer.role))
        out.offers.append(message)
    for inverse in item.inverse_offers.values():
        out.inverse_offers.append(inverse_offer_message(cluster.agents[inverse.agent_id], inverse))
    live = [task for task in item.tasks.values() if not task.released]
    out.allocated_resources.extend(by_role((task.role, task.resources) for task in live))
    out.offered_resources.extend(by_role((offer.role, offer.resources) for offer in item.offers.values()))
    return out


def get_frameworks(cluster: Master) -> Response.GetFrameworks:
    """Answer GET_FRAMEWORKS."""
    out = Response.GetFrameworks()
    out.frameworks.extend(framework(cluster, item) for item in cluster.frameworks.values())
    removed = cluster.removed_frameworks.values()
    out.completed_frameworks.extend(framework(cluster, item) for item in removed)
    return out


def task(item: Task) -> mesos.Task:
    """Return a task as GET_TASKS shows it."""
    info = item.info
    out = mesos.Task(name=info.name, task_id=info.task_id, agent_id=info.agent_id)
    out.framework_id.value = item.framework_id
    out.state = item.state  # type: ignore[assignment]
    out.resources.extend(res.to_messages(item.resources, role=item.role))
    out.statuses.extend(item.statuses)
    if item.reported is not None:
        out.status_update_state = item.reported  # type: ignore[assignment]
        out.status_update_uuid = item.reported_uuid
    if info.HasField("executor"):
        out.executor_id.value = item.executor_id
    for name in ("labels", "discovery", "container", "health_check", "kill_policy"):
        if info.HasField(name):
            getattr(out, name).CopyFrom(getattr(info, name))
    if info.command.HasField("user"):
        out.user = info.command.user
    return out


def get_tasks(cluster: Master) -> Response.GetTasks:
    """Answer GET_TASKS."""
    out = Response.GetTasks()
    for item in (*cluster.frameworks.values(), *cluster.removed_frameworks.values()):
        out.tasks.extend(map(task, item.tasks.values()))
        out.unreachable_tasks.extend(map(task, item.unreachable.values()))
        out.completed_tasks.extend(map(task, item.completed))
    return out


def get_state(cluster: Master) -> Response.GetState:
    """Answer GET_STATE."""
    return Response.GetState(
        get_tasks=get_tasks(cluster),
        get_executors=Response.GetExecutors(),
        get_frameworks=get_frameworks(cluster),
        get_agents=get_agents(cluster),
    )


def get_roles(cluster: Master) -> Response.GetRoles:
    """Answer GET_ROLES: every role that a framework has, with what it holds and is offered."""
    holdings: dict[str, res.Bundle] = {}
    owners: dict[str, list[str]] = {}
    for item in cluster.frameworks.values():
        for role in item.roles:
            owners.setdefault(role, []).append(item.id)
        for offer in item.offers.values():
            res.add(holdings.setdefault(offer.role, {}), offer.resources)
        for held in item.tasks.values():
            if not held.released:
                res.add(holdings.setdefault(held.role, {}), held.resources)
    out = Response.GetRoles()
    for role in sorted({*owners, *holdings}):
        message = out.roles.add(name=role, weight=1.0)
        for framework_id in owners.get(role, ()):
            message.frameworks.add(value=framework_id)
        sums = sorted(res.scalars(holdings.get(role, {})).items())
        message.resources.extend(res.to_messages({res.plain(name): amount for name, amount in sums}))
    return out


def get_master(cluster: Master, started: float) -> Response.GetMaster:
    """Answer GET_MASTER."""
    info = master_info(cluster.config)
    return Response.GetMaster(master_info=info, start_time=started, elected_time=started)
