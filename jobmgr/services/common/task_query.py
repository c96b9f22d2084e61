"""Task queries: filter, sort, page (docs/behaviour/tasks.md, Operations on tasks). Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from jobmgr.services.common.job_query import Page, page_of
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime


class Row(NamedTuple):
    """The parts of a task that queries use."""

    instance: int
    name: str
    runtime: TaskRuntime
    reason: str
    """Why it is in its state; for one that waits, the resource manager's reason."""


class TaskQuery(NamedTuple):
    """A query for tasks; an empty set matches all."""

    states: frozenset[int]
    names: frozenset[str]
    hosts: frozenset[str]
    page: Page


_KEYS: dict[str, Callable[[Row], float | str]] = {
    "creation_time": lambda row: row.runtime.start_time or math.inf,  # the run's; last what has not started
    "host": lambda row: row.runtime.host,
    "instance_id": lambda row: row.instance,
    "message": lambda row: row.runtime.message,
    "name": lambda row: row.name,
    "reason": lambda row: row.reason,
    "state": lambda row: int(row.runtime.state),
}


def task_query(spec: task_pb2.QuerySpec) -> TaskQuery:
    """Translate a query. Raises InvalidArgument for an unknown state or sort key."""
    known = frozenset(map(int, TaskState))
    for i, state in enumerate(spec.taskStates):
        if state not in known:
            raise InvalidArgument(f"spec.taskStates[{i}]", state, f"a number from 0 to {max(known)}")
    return TaskQuery(
        states=frozenset(spec.taskStates),
        names=frozenset(spec.names),
        hosts=frozenset(spec.hosts),
        page=page_of(spec.pagination, tuple(_KEYS), "spec.pagination"),
    )


def matches(query: TaskQuery, row: Row) -> bool:
    """Return whether a task matches."""
    return (
        (not query.states or int(row.runtime.state) in query.states)
        and (not query.names or row.name in query.names)
        and (not query.hosts or row.runtime.host in query.hosts)
    )


def cut(query: TaskQuery, found: Iterable[Row]) -> tuple[Sequence[Row], int]:
    """Return the page of a query, and the number of matches. Equal tasks are in order of instances."""
    rows = sorted(found, key=lambda row: row.instance)
    page = query.page
    for name, descending in reversed(page.order):
        rows.sort(key=_KEYS[name], reverse=descending)
    if page.max_limit:
        rows = rows[: page.max_limit]
    return rows[page.offset : page.offset + page.limit], len(rows)


def names(config: job_pb2.JobConfig) -> Callable[[int], str]:
    """Return a function from instances to merged task names, without merging whole configs."""
    default = config.defaultConfig.name
    own = {instance: task.name for instance, task in config.instanceConfig.items() if task.name}
    return lambda instance: own.get(instance, default)
