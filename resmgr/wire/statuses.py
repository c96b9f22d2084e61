"""States of runs out of hostmgr's event stream (docs/behaviour/hosts.md, Event stream)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.ids import Run, parse_mesos_task_id
from peloton.model.states import TaskState
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.wire.mesos import task_status

log = logging.getLogger(__name__)


def states_from(
    events: Iterable[pb.Event],
) -> tuple[list[tuple[Run, TaskState]], list[tuple[Run, float]]]:
    """Return the states of runs, without those of ids of other frameworks.

    With them come the runs that have saved their work, with the seconds since.
    """
    found: list[tuple[Run, TaskState]] = []
    saved: list[tuple[Run, float]] = []
    for event in events:
        if event.type != pb.Event.MESOS_TASK_STATUS:
            continue
        try:
            status = task_status(event.mesosTaskStatus)
            run = parse_mesos_task_id(status.mesos_task_id)
            found.append((run, status.state))
            if status.saved_at:
                saved.append((run, max(status.timestamp - status.saved_at, 0) / NANOSECONDS))
        except InvalidArgument as error:
            log.debug("status of %s ignored: %s", event.mesosTaskStatus.task_id.value, error)
    return found, saved
