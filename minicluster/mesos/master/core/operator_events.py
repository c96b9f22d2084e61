"""Events for operators who subscribe (recordings ``12-operator``, ``12-operator-protobuf``).

No event is built without a subscriber.
"""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.master import master_pb2 as master
from minicluster.mesos.master.core import operator_views
from minicluster.mesos.master.core.state import Agent, Framework, Master, Task

Event = master.Event
HEARTBEAT = Event(type=Event.HEARTBEAT)


def subscribed(cluster: Master) -> master.Event:
    """Return the first event of a stream: the whole state."""
    event = Event(type=Event.SUBSCRIBED)
    event.subscribed.get_state.CopyFrom(operator_views.get_state(cluster))
    event.subscribed.heartbeat_interval_seconds = cluster.config.heartbeat_interval
    return event


def task_added(cluster: Master, task: Task) -> None:
    """Queue TASK_ADDED for a task that is being launched."""
    if cluster.subscribers:
        event = Event(type=Event.TASK_ADDED)
        event.task_added.task.CopyFrom(operator_views.task(task))
        cluster.outbox.operator_events.append(event)


def task_updated(cluster: Master, task: Task, status: mesos.TaskStatus) -> None:
    """Queue TASK_UPDATED for a task whose state has changed."""
    if cluster.subscribers:
        event = Event(type=Event.TASK_UPDATED)
        event.task_updated.framework_id.value = task.framework_id
        event.task_updated.status.CopyFrom(status)
        event.task_updated.state = task.state  # type: ignore[assignment]
        cluster.outbox.operator_events.append(event)


def _described(framework: Framework) -> master.Response.GetFrameworks.Framework:
    out = master.Response.GetFrameworks.Framework(
        framework_info=framework.info,
        active=framework.active,
        connected=framework.stream is not None,
        recovered=framework.recovered,
    )
    out.registered_time.CopyFrom(operator_views.nanoseconds(framework.registered))
    out.reregistered_time.CopyFrom(operator_views.nanoseconds(framework.reregistered or framework.registered))
    out.unregistered_time.CopyFrom(operator_views.nanoseconds(framework.unregistered or 0.0))
    return out


def framework_added(cluster: Master, framework: Framework) -> None:
    """Queue FRAMEWORK_ADDED for a framework that has subscribed for the first time."""
    if cluster.subscribers:
        event = Event(type=Event.FRAMEWORK_ADDED)
        event.framework_added.framework.CopyFrom(_described(framework))
        cluster.outbox.operator_events.append(event)


def framework_updated(cluster: Master, framework: Framework) -> None:
    """Queue FRAMEWORK_UPDATED for a framework that has subscribed again, or has changed its info."""
    if cluster.subscribers:
        event = Event(type=Event.FRAMEWORK_UPDATED)
        event.framework_updated.framework.CopyFrom(_described(framework))
        cluster.outbox.operator_events.append(event)


def framework_removed(cluster: Master, framework: Framework) -> None:
    """Queue FRAMEWORK_REMOVED for a framework that was torn down, or has not come back in time."""
    if cluster.subscribers:
        event = Event(type=Event.FRAMEWORK_REMOVED)
        event.framework_removed.framework_info.CopyFrom(framework.info)
        cluster.outbox.operator_events.append(event)


def agent_added(cluster: Master, agent: Agent) -> None:
    """Queue AGENT_ADDED for an agent that has registered, or came back after it was unreachable."""
    if cluster.subscribers:
        event = Event(type=Event.AGENT_ADDED)
        event.agent_added.agent.CopyFrom(operator_views.agent(agent))
        cluster.outbox.operator_events.append(event)


def agent_removed(cluster: Master, agent: Agent) -> None:
    """Queue AGENT_REMOVED for an agent that has left or is unreachable."""
    if cluster.subscribers:
        event = Event(type=Event.AGENT_REMOVED)
        event.agent_removed.agent_id.value = agent.id
        cluster.outbox.operator_events.append(event)
