"""Events of hostmgr's stream in their v1alpha form: of pods in place of statuses of Mesos."""

from __future__ import annotations

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.clock import rfc3339
from peloton.model.states import HealthState
from peloton.private.eventstream import eventstream_pb2
from peloton.private.eventstream.v1alpha.event import event_pb2
from peloton.wire.mesos import task_status
from peloton.wire.v1alpha.pod_status import health_name
from peloton.wire.v1alpha.states import pod_state_name

_HEALTH = {None: HealthState.UNKNOWN, True: HealthState.HEALTHY, False: HealthState.UNHEALTHY}


def pod_event_of(event: eventstream_pb2.Event, stream_id: str, hostname: str) -> event_pb2.Event:
    """Return the event of a status.

    It has what the cluster manager reports: no goal, and no versions. Its id is that of the status, or of
    its place in the stream where the status has none, because it answers a reconciliation.
    """
    status = task_status(event.mesosTaskStatus)
    return event_pb2.Event(
        offset=event.offset,
        event_id=status.uuid.hex() or f"{stream_id}-{event.offset}",
        pod_event=pod_pb2.PodEvent(
            pod_id=peloton_pb2.PodID(value=status.mesos_task_id),
            actual_state=pod_state_name(status.state),
            timestamp=rfc3339(status.timestamp),
            agent_id=status.agent_id,
            hostname=hostname,
            message=status.message,
            reason=status.reason,
            healthy=health_name(_HEALTH[status.healthy]),
        ),
    )
