"""The runs of an instance, by its stored history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from peloton.errors import InvalidArgument
from peloton.model.ids import JobId, mesos_task_id, parse_mesos_task_id
from peloton.model.states import TaskState
from peloton.model.task import PodEvent, TaskRuntime

DEFAULT_RUNS = 10
"""Last runs whose history a request without a limit reads."""
MAX_RUNS = 10_000
"""Runs that one request may read."""


def run_number(job_id: JobId, instance: int, text: str) -> int:
    """Return the run that a request names by its Mesos task id or its number.

    Raises InvalidArgument for a text that is no run of this instance.
    """
    if text.isascii() and text.isdigit():
        return min(int(text), 2**63 - 1)
    expected = mesos_task_id(job_id, instance, 1)
    try:
        run = parse_mesos_task_id(text)
    except InvalidArgument:
        run = None
    if run is None or (run.job_id, run.instance) != (job_id, instance):
        raise InvalidArgument("run", text, f"a run of this instance, such as {expected}")
    return run.run


def past_runtimes(events: Sequence[PodEvent], before: int) -> list[TaskRuntime]:
    """Return the runtimes of the runs below `before`, newest first.

    `events` are in the order of the store: newest run first, within a run newest event first.
    """
    earlier = (event for event in events if event.run < before)
    return [_runtime(list(of_run)) for _, of_run in groupby(earlier, key=lambda event: event.run)]


def place_of(events: Iterable[PodEvent], run: int) -> tuple[str, str]:
    """Return host and agent id of a run; empty where it was not launched."""
    for event in events:
        if event.run == run and event.agent_id:
            return event.hostname, event.agent_id
    return "", ""


def _runtime(events: Sequence[PodEvent]) -> TaskRuntime:
    """Return the runtime of a run by its events, newest first."""
    last = events[0]
    host, agent_id = place_of(events, last.run)
    return TaskRuntime(
        state=last.state,
        goal=last.goal,
        run=last.run,
        config_version=last.config_version,
        desired_config_version=last.desired_config_version,
        desired_run=last.desired_run,
        previous_run=last.previous_run,
        host=host,
        agent_id=agent_id,
        start_time=min((e.timestamp for e in events if e.state is TaskState.RUNNING), default=0),
        completion_time=min((e.timestamp for e in events if e.state.terminal), default=0),
        message=last.message,
        reason=last.reason,
        health=last.health,
        termination=next((e.termination for e in events if e.state.terminal and e.termination), None),
        created_at=events[-1].timestamp,
        updated_at=last.timestamp,
    )
