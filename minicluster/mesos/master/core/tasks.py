"""KILL, ACKNOWLEDGE, RECONCILE, SHUTDOWN, and the status updates of agents."""

from __future__ import annotations

from collections.abc import Sequence

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common.agent_link import Acknowledge, Kill, ShutdownExecutor, Update
from minicluster.mesos.master.core import events, operator_events
from minicluster.mesos.master.core.state import Agent, Framework, Master, Task, is_terminal

_REASON = mesos.TaskStatus


def kill(cluster: Master, framework: Framework, call: scheduler.Call.Kill, now: float) -> None:
    """Have a task killed; a task that is not known is answered like a reconciliation."""
    task = framework.tasks.get(call.task_id.value)
    if task is None:
        agent_id = call.agent_id.value if call.HasField("agent_id") else None
        reconcile_one(cluster, framework, call.task_id.value, agent_id, now)
        return
    grace = -1.0
    if call.HasField("kill_policy") and call.kill_policy.HasField("grace_period"):
        grace = max(call.kill_policy.grace_period.nanoseconds / 1e9, 0.0)
    task.kill = (grace, False)
    agent = cluster.agents.get(task.agent_id)
    if agent is not None:
        cluster.send_to_agent(agent, Kill(framework.id, task.id, grace))


def shutdown(cluster: Master, framework: Framework, call: scheduler.Call.Shutdown) -> None:
    """Have an executor shut down; an unknown one is ignored."""
    agent = cluster.agents.get(call.agent_id.value)
    if agent is not None:
        cluster.send_to_agent(agent, ShutdownExecutor(framework.id, call.executor_id.value))


def acknowledge(cluster: Master, framework: Framework, call: scheduler.Call.Acknowledge) -> None:
    """Pass an acknowledgement on; the acknowledged end of a task removes it."""
    agent = cluster.agents.get(call.agent_id.value)
    if agent is None:
        return
    task_id = call.task_id.value
    cluster.counts["valid_status_update_acknowledgements"] += 1
    cluster.send_to_agent(agent, Acknowledge(framework.id, task_id, call.uuid))
    task = framework.tasks.get(task_id)
    if task is None or task.reported is None or task.reported_uuid != call.uuid:
        return
    if task.agent_id == agent.id and is_terminal(task.reported):
        cluster.forget_task(task)


def status_update(cluster: Master, agent: Agent, message: Update) -> None:
    """Take an agent's update in and pass it on to the framework."""
    cluster.counts["messages_status_update"] += 1
    framework = cluster.frameworks.get(message.framework_id)
    if framework is None:
        return
    cluster.counts["valid_status_updates"] += 1
    status = message.status
    task = framework.tasks.get(status.task_id.value)
    if task is not None and task.agent_id == agent.id:
        _apply(cluster, task, status, message.latest_state, framework.stream is not None)
    cluster.send(framework, events.update(status))


def _apply(cluster: Master, task: Task, status: mesos.TaskStatus, latest_state: int, delivered: bool) -> None:
    """Apply an update to a task; one that was not delivered was not reported (08-disconnected-updates)."""
    if not is_terminal(task.state):
        changed, task.state = task.state != status.state, latest_state
        if is_terminal(task.state):
            cluster.count_end(task.state)
        if changed:
            operator_events.task_updated(cluster, task, status)
    if is_terminal(task.state):
        cluster.release(task)
    task.statuses.append(status)
    if delivered:
        task.reported = status.state
        task.reported_uuid = status.uuid


def reconcile(
    cluster: Master,
    framework: Framework,
    requested: Sequence[scheduler.Call.Reconcile.Task],
    now: float,
) -> None:
    """Report the newest state of the requested tasks, or of all that have not ended."""
    if not requested:
        for task in list(framework.tasks.values()):
            if not is_terminal(task.state):
                _report_known(cluster, framework, task, now)
        return
    for item in requested:
        agent_id = item.agent_id.value if item.HasField("agent_id") else None
        reconcile_one(cluster, framework, item.task_id.value, agent_id, now)


def _report_known(cluster: Master, framework: Framework, task: Task, now: float) -> None:
    state = task.state if task.reported is None else task.reported
    message = "Reconciliation: Latest task state"
    reason = _REASON.REASON_RECONCILIATION
    status = events.master_status(task.id, state, message, reason, now, task.agent_id)
    cluster.send(framework, events.update(events.with_details(status, task)))


def reconcile_one(
    cluster: Master,
    framework: Framework,
    task_id: str,
    agent_id: str | None,
    now: float,
) -> None:
    """Report the state of one task, but not while its agent may come back after a failover of the master."""
    task = framework.tasks.get(task_id)
    if task is not None:
        _report_known(cluster, framework, task, now)
        return
    answer = _unknown_task(cluster, agent_id)
    if answer is None:
        return
    state, message = answer
    seen = events.lost_state(framework, state)
    reason = _REASON.REASON_RECONCILIATION
    status = events.master_status(task_id, seen, f"Reconciliation: {message}", reason, now, agent_id)
    if state == mesos.TASK_UNREACHABLE and agent_id is not None:
        status.unreachable_time.nanoseconds = int(cluster.unreachable[agent_id] * 1e9)
    cluster.send(framework, events.update(status))


def _unknown_task(cluster: Master, agent_id: str | None) -> tuple[int, str] | None:
    if agent_id is None:
        return None if cluster.recovered else (mesos.TASK_UNKNOWN, "Task is unknown")
    if agent_id in cluster.recovered:
        return None
    if agent_id in cluster.agents:
        return mesos.TASK_GONE, "Task is unknown to the agent"
    if agent_id in cluster.unreachable:
        return mesos.TASK_UNREACHABLE, "Task is unreachable"
    if agent_id in cluster.gone:
        return mesos.TASK_GONE_BY_OPERATOR, "Task is gone"
    return mesos.TASK_UNKNOWN, "Task is unknown"
