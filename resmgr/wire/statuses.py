"""States of runs out of hostmgr's event stream (docs/behaviour/hosts.md, Event stream)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.ids import Run, parse_mesos_task_id
from peloton.model.states import TaskState
from peloton.private.eventstream import eventstream_pb2 as pb
from peloton.wire.mesos import saved_ago, task_state

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
        wire = event.mesosTaskStatus
        try:
            run = parse_mesos_task_id(wire.task_id.value)
            found.append((run, task_state(wire)))
            if (ago := saved_ago(wire)) is not None:
                saved.append((run, ago / NANOSECONDS))
        except InvalidArgument as error:
            log.debug("status of %s ignored: %s", wire.task_id.value, error)
    return found, saved
