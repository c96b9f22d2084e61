"""Agents: registration and re-registration, loss of the link, unreachable, removed, gone.

Source: recordings ``09-master-failover-single``, ``10-agent-*``.
"""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.agent_link import (
    AgentTask,
    Kill,
    Ping,
    Refused,
    Register,
    Registered,
    ResendUpdates,
    ShutdownFramework,
)
from minicluster.mesos.master.core import events, operations, operator_events
from minicluster.mesos.master.core.allocator import allocate
from minicluster.mesos.master.core.frameworks import recover
from minicluster.mesos.master.core.state import Agent, Framework, Master, Task, is_terminal
from minicluster.mesos.master.core.status_log import StatusLog

_REASON = mesos.TaskStatus


def register(cluster: Master, message: Register, now: float, *, simulated: int = 0) -> Agent | str:
    """Take an agent in; return it, or why it is refused. `simulated`: its number among these, from 1 on."""
    info = message.info
    if (info.hostname, message.ip) in {key for key, item in cluster.machines.items() if item.down}:
        return f"machine {info.hostname} is down for maintenance"
    if info.HasField("id") and info.id.value in cluster.gone:
        return f"agent {info.id.value} has been marked gone"
    # Simulated agents share an address. To look for others there is quadratic in their number.
    for other in () if simulated else _at_same_address(cluster, info, message.ip):
        _remove(cluster, other, mesos.TASK_LOST, f"Agent {other.hostname} removed: {_NEW_AGENT}", now)
    known = cluster.agents.get(info.id.value) if info.HasField("id") else None
    agent = known or _admit(cluster, message, now, simulated)
    if agent is None:
        return f"the resources of agent {info.hostname} do not contain what it has checkpointed"
    if known is not None:
        _reconnect(known, message, now)
    cluster.send_to_agent(agent, Registered(agent.id, cluster.config.agent_ping_timeout))
    if known is not None:  # an operation may not have reached it
        operations.send_resources(cluster, agent)
    if info.HasField("id"):
        _reregistered(cluster, agent, message, known is not None, now)
    _unavailability(cluster, agent)
    if known is None:
        operator_events.agent_added(cluster, agent)
    cluster.counts["slave_reregistrations" if message.info.HasField("id") else "slave_registrations"] += 1
    if not simulated:
        _arm_ping(cluster, agent, now)
        allocate(cluster, now, [agent])
    cluster.registry_changed = True
    return agent


_NEW_AGENT = "a new agent registered at the same address"


def _at_same_address(cluster: Master, info: mesos.AgentInfo, ip: str) -> list[Agent]:
    return [
        agent
        for agent in cluster.agents.values()
        if not agent.simulated
        and (agent.ip, agent.info.port) == (ip, info.port)
        and not (info.HasField("id") and info.id.value == agent.id)
    ]


def _admit(cluster: Master, message: Register, now: float, simulated: int) -> Agent | None:
    total = res.restored(res.from_messages(message.info.resources), res.from_messages(message.checkpointed))
    if total is None:
        return None
    info = _without_revocable(message.info)
    before = info.HasField("id")
    if not before:
        info.id.value = cluster.new_agent_id()
    agent = Agent(info.id.value, info, message.ip, message.version, total, dict(total), now)
    agent.reregistered = now if before else None
    agent.simulated, agent.number = bool(simulated), simulated or 1
    agent.has_gpus = any(kind.name == "gpus" for kind in total)
    cluster.agents[agent.id] = agent
    return agent


def _without_revocable(given: mesos.AgentInfo) -> mesos.AgentInfo:
    """Return an AgentInfo with what the agent has of its own; what may be revoked is only in its total."""
    info = mesos.AgentInfo()
    info.CopyFrom(given)
    del info.resources[:]
    info.resources.extend(item for item in given.resources if not item.HasField("revocable"))
    return info


def _reconnect(agent: Agent, message: Register, now: float) -> None:
    agent.connected = True
    agent.reregistered = now
    agent.pings_missed = 0
    agent.info = _without_revocable(message.info)
    agent.offer_template = b""


def _reregistered(cluster: Master, agent: Agent, message: Register, known: bool, now: float) -> None:
    unreachable = cluster.unreachable.pop(agent.id, None) is not None
    recovered = cluster.recovered.pop(agent.id, None) is not None
    for info in message.frameworks:
        if info.id.value in cluster.removed_frameworks:
            cluster.send_to_agent(agent, ShutdownFramework(info.id.value))
        elif info.id.value not in cluster.frameworks:
            recover(cluster, info, now)
    news = None
    if unreachable:
        news = "Unreachable agent re-reregistered"
    elif not (known or recovered):
        news = "Unknown agent reregistered"
    for task in message.tasks:
        _restore(cluster, agent, task, news, now)
    _drop_missing(cluster, agent, message, now)
    for framework_id in sorted({item.framework_id for item in message.tasks} & set(cluster.frameworks)):
        _resume(cluster, agent, framework_id)


def _resume(cluster: Master, agent: Agent, framework_id: str) -> None:
    """Have pending updates sent; Mesos does so twice after a re-registration (10-agent-lost)."""
    cluster.send_to_agent(agent, ResendUpdates(framework_id))
    cluster.send_to_agent(agent, ResendUpdates(framework_id))
    for (owner, task_id), task in agent.tasks.items():
        if owner == framework_id and task.kill is not None:
            cluster.send_to_agent(agent, Kill(owner, task_id, task.kill[0], task.kill[1]))


def _restore(cluster: Master, agent: Agent, known: AgentTask, news: str | None, now: float) -> None:
    framework = cluster.frameworks.get(known.framework_id)
    if framework is None:
        return
    task = framework.tasks.get(known.task.task_id.value)
    if task is None:
        task = _adopt(cluster, agent, framework, known)
    if known.statuses:  # else it is STAGING: its container is still being prepared
        newest = known.statuses[-1]
        task.state = newest.state
        reported = known.unacknowledged or newest
        task.reported, task.reported_uuid = reported.state, reported.uuid
        task.statuses = StatusLog(known.statuses)
    if is_terminal(task.state):
        cluster.release(task)
    if news is not None:
        reason = _REASON.REASON_AGENT_REREGISTERED
        status = events.master_status(task.id, task.state, news, reason, now, agent.id)
        cluster.send(framework, events.update(events.with_details(status, task)))


def _adopt(cluster: Master, agent: Agent, framework: Framework, known: AgentTask) -> Task:
    framework.unreachable.pop(known.task.task_id.value, None)
    roles = [item.allocation_info.role for item in known.task.resources if item.allocation_info.role]
    role = roles[0] if roles else (framework.roles[0] if framework.roles else "*")
    bundle = res.aligned(res.from_messages(known.task.resources), agent.total)
    task = Task(known.task, framework.id, agent.id, role, bundle)
    framework.tasks[task.id] = task
    agent.tasks[(framework.id, task.id)] = task
    res.subtract(agent.free, bundle)
    framework.allocated.update(res.scalars(bundle))
    return task


def _drop_missing(cluster: Master, agent: Agent, message: Register, now: float) -> None:
    """Report tasks as lost that the master sent and the agent never received."""
    there = {(item.framework_id, item.task.task_id.value) for item in message.tasks}
    for key, task in list(agent.tasks.items()):
        if key in there:
            continue
        framework = cluster.frameworks.get(task.framework_id)
        cluster.forget_task(task)
        if framework is not None and not is_terminal(task.state):
            state = events.lost_state(framework, mesos.TASK_DROPPED)
            text = "Task is unknown to the agent"
            reason = _REASON.REASON_RECONCILIATION
            status = events.master_status(task.id, state, text, reason, now, agent.id)
            cluster.send(framework, events.update(status))


def _unavailability(cluster: Master, agent: Agent) -> None:
    machine = cluster.machines.get((agent.hostname, agent.ip))
    agent.unavailability = machine.unavailability if machine is not None else None


# --- pings -----------------------------------------------------------------------------------------


def _arm_ping(cluster: Master, agent: Agent, now: float) -> None:
    agent.ping_round += 1
    mine = agent.ping_round

    def ping(when: float) -> None:
        if cluster.agents.get(agent.id) is not agent or agent.ping_round != mine:
            return
        if agent.pings_missed >= cluster.config.max_agent_ping_timeouts:
            mark_unreachable(cluster, agent, "health check timed out", when)
            return
        agent.pings_missed += 1
        cluster.send_to_agent(agent, Ping())
        cluster.deadlines.at(when + cluster.config.agent_ping_timeout, ping)

    ping(now)


def pong(agent: Agent) -> None:
    """Record that an agent answered a ping."""
    agent.pings_missed = 0


# --- loss ------------------------------------------------------------------------------------------


def disconnected(cluster: Master, agent: Agent, now: float) -> None:
    """Handle the loss of the link to an agent; tasks of frameworks without checkpoint are lost at once."""
    agent.connected = False
    for offer in list(agent.offers.values()):
        cluster.rescind(offer)
    for task in list(agent.tasks.values()):
        framework = cluster.frameworks.get(task.framework_id)
        if framework is not None and not framework.info.checkpoint:
            text = f"Agent {agent.hostname} disconnected"
            _lose(cluster, framework, task, mesos.TASK_LOST, text, _REASON.REASON_AGENT_DISCONNECTED, now)


def _lose(
    cluster: Master,
    framework: Framework,
    task: Task,
    state: int,
    text: str,
    reason: int,
    now: float,
    *,
    unreachable: bool = False,
) -> None:
    ended = is_terminal(task.state)
    if not ended:
        task.state = state
    cluster.forget_task(task)
    if ended:
        return
    status = events.master_status(task.id, state, text, reason, now, task.agent_id)
    if unreachable:
        status.unreachable_time.nanoseconds = int(now * 1e9)
    task.statuses.append(status)
    if is_terminal(state):
        cluster.count_end(state)
    operator_events.task_updated(cluster, task, status)
    cluster.send(framework, events.update(status))


def mark_unreachable(cluster: Master, agent: Agent, text: str, now: float) -> None:
    """Mark an agent unreachable that does not answer; it may come back."""
    del cluster.agents[agent.id]
    cluster.unreachable[agent.id] = now
    cluster.counts["slave_removals"] += 1
    cluster.counts["slave_removals/reason_unhealthy"] += 1
    cluster.registry_changed = True
    for task in list(agent.tasks.values()):
        framework = cluster.frameworks.get(task.framework_id)
        if framework is None:
            continue
        state = events.lost_state(framework, mesos.TASK_UNREACHABLE)
        reason = _REASON.REASON_AGENT_REMOVED
        _lose(cluster, framework, task, state, text, reason, now, unreachable=True)
        if task.state == state:
            framework.completed.pop()
            framework.unreachable[task.id] = task
    agent.tasks.clear()
    _withdraw_offers(cluster, agent)


def _withdraw_offers(cluster: Master, agent: Agent) -> None:
    for offer in list(agent.offers.values()):
        cluster.rescind(offer)
    for inverse in [item for item in cluster.inverse_offers.values() if item.agent_id == agent.id]:
        cluster.rescind_inverse(inverse)
    operator_events.agent_removed(cluster, agent)
    for framework in cluster.frameworks.values():
        framework.filters = {key: item for key, item in framework.filters.items() if key[1] != agent.id}
        cluster.send(framework, events.failure(agent.id))


def _remove(
    cluster: Master,
    agent: Agent,
    state: int,
    text: str,
    now: float,
    reason: int = _REASON.REASON_AGENT_REMOVED,
) -> None:
    for task in list(agent.tasks.values()):
        framework = cluster.frameworks.get(task.framework_id)
        if framework is not None:
            seen = state if framework.partition_aware else mesos.TASK_LOST
            _lose(cluster, framework, task, seen, text, reason, now)
    _withdraw_offers(cluster, agent)
    agent.connected = False
    cluster.counts["slave_removals"] += 1
    del cluster.agents[agent.id]
    cluster.registry_changed = True


def unregister(cluster: Master, agent: Agent, now: float) -> None:
    """Remove an agent that unregistered: its tasks are lost, its id is not used again."""
    text = f"Agent {agent.hostname} removed: the agent unregistered"
    cluster.counts["slave_removals/reason_unregistered"] += 1
    _remove(cluster, agent, mesos.TASK_LOST, text, now)


def take_down(cluster: Master, agent: Agent, now: float) -> None:
    """Remove an agent because its machine goes down for maintenance."""
    why = "Operator initiated 'Machine DOWN'"
    cluster.send_to_agent(agent, Refused(why, True))
    _remove(cluster, agent, mesos.TASK_LOST, f"Agent {agent.hostname} removed: {why}", now)


def mark_gone(cluster: Master, agent_id: str, now: float) -> bool:
    """Bar an agent for good; return False when the id is not known."""
    if agent_id in cluster.gone:
        return True
    agent = cluster.agents.get(agent_id)
    known = agent is not None or agent_id in cluster.unreachable or agent_id in cluster.recovered
    if not known:
        return False
    cluster.gone[agent_id] = now
    cluster.unreachable.pop(agent_id, None)
    cluster.recovered.pop(agent_id, None)
    cluster.registry_changed = True
    if agent is not None:
        text = "Agent has been marked gone"
        cluster.send_to_agent(agent, Refused(text, True))
        reason = _REASON.REASON_AGENT_REMOVED_BY_OPERATOR
        _remove(cluster, agent, mesos.TASK_GONE_BY_OPERATOR, text, now, reason)
    return True


def expect_recovered(cluster: Master, infos: list[mesos.AgentInfo], now: float) -> None:
    """Start with the agents of an earlier master; those that do not come back in time are unreachable."""
    for info in infos:
        cluster.recovered[info.id.value] = info

    def give_up(when: float) -> None:
        for agent_id in list(cluster.recovered):
            del cluster.recovered[agent_id]
            cluster.unreachable[agent_id] = when
            cluster.registry_changed = True

    if infos:
        cluster.deadlines.at(now + cluster.config.agent_reregister_timeout, give_up)


# --- by the operator -------------------------------------------------------------------------------


def deactivate(cluster: Master, agent: Agent) -> None:
    """Make no more offers of an agent; its tasks run on."""
    agent.deactivated = True
    for offer in list(agent.offers.values()):
        cluster.rescind(offer)


def reactivate(agent: Agent) -> None:
    """Undo ``deactivate`` and ``drain``."""
    agent.deactivated = False
    agent.drain = None


def drain(cluster: Master, agent: Agent, grace: float, now: float) -> None:
    """Deactivate an agent and have its tasks killed, with at most ``grace`` seconds (below 0: their own)."""
    deactivate(cluster, agent)
    agent.drain_started = now
    agent.drain = mesos.DrainInfo(state=mesos.DRAINING)
    agent.drain.config.SetInParent()
    if grace >= 0:
        agent.drain.config.max_grace_period.nanoseconds = int(grace * 1e9)
    for (framework_id, task_id), task in agent.tasks.items():
        if not is_terminal(task.state):
            task.kill = (grace, True)
            cluster.send_to_agent(agent, Kill(framework_id, task_id, grace, True))
