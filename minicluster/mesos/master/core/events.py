"""Build the events that originate in the master."""

from __future__ import annotations

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.master.core.state import Framework, MasterConfig, Task

Event = scheduler.Event
_CAPABILITY = mesos.MasterInfo.Capability
_MASTER_CAPABILITIES = (_CAPABILITY.AGENT_UPDATE, _CAPABILITY.AGENT_DRAINING, _CAPABILITY.QUOTA_V2)


def master_info(config: MasterConfig) -> mesos.MasterInfo:
    """Return the MasterInfo; ``ip`` is the address as a little-endian integer, as Mesos writes it."""
    parts = [int(part) for part in config.ip.split(".")]
    number = int.from_bytes(bytes(parts), "little")
    info = mesos.MasterInfo(
        id=config.master_id,
        ip=number,
        port=config.port,
        pid=f"master@{config.ip}:{config.port}",
        hostname=config.hostname,
        version=config.version,
    )
    info.address.hostname = config.hostname
    info.address.ip = config.ip
    info.address.port = config.port
    for capability in _MASTER_CAPABILITIES:
        info.capabilities.add(type=capability)
    return info


def subscribed(config: MasterConfig, framework_id: str) -> Event:
    """Return the first event of a stream."""
    event = Event(type=Event.SUBSCRIBED)
    event.subscribed.framework_id.value = framework_id
    event.subscribed.heartbeat_interval_seconds = config.heartbeat_interval
    event.subscribed.master_info.CopyFrom(master_info(config))
    return event


HEARTBEAT = Event(type=Event.HEARTBEAT)


def error(message: str) -> Event:
    """Return an ERROR event."""
    event = Event(type=Event.ERROR)
    event.error.message = message
    return event


def failure(agent_id: str) -> Event:
    """Return the FAILURE event of an agent."""
    event = Event(type=Event.FAILURE)
    event.failure.agent_id.value = agent_id
    return event


def update(status: mesos.TaskStatus) -> Event:
    """Return the UPDATE event of a status."""
    event = Event(type=Event.UPDATE)
    event.update.status.CopyFrom(status)
    return event


def operation(status: mesos.OperationStatus) -> Event:
    """Return the event of an operation's status."""
    event = Event(type=Event.UPDATE_OPERATION_STATUS)
    event.update_operation_status.status.CopyFrom(status)
    return event


def master_status(
    task_id: str,
    state: int,
    message: str,
    reason: int,
    now: float,
    agent_id: str | None = None,
) -> mesos.TaskStatus:
    """Return a status that originates in the master: no uuid, not to be acknowledged."""
    status = mesos.TaskStatus(
        state=state,  # type: ignore[arg-type]
        message=message,
        source=mesos.TaskStatus.SOURCE_MASTER,
        reason=reason,  # type: ignore[arg-type]
        timestamp=now,
    )
    status.task_id.value = task_id
    if agent_id is not None:
        status.agent_id.value = agent_id
    return status


def with_details(status: mesos.TaskStatus, task: Task) -> mesos.TaskStatus:
    """Add container and health from the task's newest updates."""
    if not task.statuses:
        return status
    latest = task.statuses.last
    if latest.HasField("healthy"):
        status.healthy = latest.healthy
    if latest.HasField("check_status"):
        status.check_status.CopyFrom(latest.check_status)
    for earlier in reversed(task.statuses):
        if earlier.HasField("container_status"):
            status.container_status.CopyFrom(earlier.container_status)
            break
    return status


def lost_state(framework: Framework, partition_aware_state: int) -> int:
    """Return the state for a PARTITION_AWARE framework, TASK_LOST for any other."""
    return partition_aware_state if framework.partition_aware else mesos.TASK_LOST
