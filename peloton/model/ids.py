"""Ids of jobs, tasks and runs.

A job id is a UUID as text. A task id is `<job id>-<instance>`; one run of that task, which is what
Mesos sees, is `<job id>-<instance>-<run>`, the run counted from 1 and growing with every launch.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from peloton.errors import InvalidArgument

JobId = str
PoolId = str
TaskId = str
MesosTaskId = str

ROOT_POOL: PoolId = "root"

CUSTOM_EXECUTOR_PREFIX = "thermos-"
"""Before the run's id, the executor id of a task that brings its own executor."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\Z")
_RUN = re.compile(r"([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})-([0-9]{1,10})-([0-9]{1,19})\Z")
_UUID_LENGTH = 36
SHORTEST_ID_START_CHARACTERS = 4
"""Characters at the beginning of an id that may stand for the job; fewer would be those of many."""
_ID_START = re.compile(rf"[0-9a-fA-F][0-9a-fA-F-]{{{SHORTEST_ID_START_CHARACTERS - 1},{_UUID_LENGTH - 1}}}")


class Run(NamedTuple):
    """One run of one instance of a job."""

    job_id: JobId
    instance: int
    run: int


def is_uuid(text: str) -> bool:
    """Return whether `text` is a UUID in its canonical form of 36 characters."""
    return _UUID.match(text) is not None


def may_begin_id(text: str) -> bool:
    """Return whether a text may be the beginning of a job's id, or the whole of it."""
    return _ID_START.fullmatch(text) is not None


def task_id(job_id: JobId, instance: int) -> TaskId:
    """Return the id of a task."""
    return f"{job_id}-{instance}"


def mesos_task_id(job_id: JobId, instance: int, run: int) -> MesosTaskId:
    """Return the id of a run."""
    return f"{job_id}-{instance}-{run}"


def parse_task_id(text: TaskId) -> tuple[JobId, int]:
    """Split a task id. Raises InvalidArgument unless it is `<UUID>-<instance>`."""
    job_id, rest = text[:_UUID_LENGTH], text[_UUID_LENGTH:]
    if rest[:1] == "-" and rest[1:].isascii() and rest[1:].isdigit() and is_uuid(job_id):
        return job_id, int(rest[1:])
    raise InvalidArgument("task id", text, "<job UUID>-<instance>")


def parse_mesos_task_id(text: MesosTaskId) -> Run:
    """Split the id of a run. Raises InvalidArgument unless it is `<UUID>-<instance>-<run>`."""
    parts = _RUN.match(text) if isinstance(text, str) else None  # Mesos' texts that are no UTF-8 are bytes
    if parts is None:
        raise InvalidArgument("Mesos task id", text, "<job UUID>-<instance>-<run>")
    job_id, instance, run = parts.groups()
    return Run(job_id, int(instance), int(run))
