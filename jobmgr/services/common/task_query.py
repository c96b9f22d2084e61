"""Task queries: filter, sort, page (docs/behaviour/tasks.md, Operations on tasks). Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from jobmgr.services.common.job_query import Page, page_of
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

Batch = Sequence[tuple[int, TaskRuntime]]
"""Instances with their runtimes, in order."""


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


@dataclass(slots=True)
class Found:
    """The tasks that a query found, as columns in order of instances: there may be a hundred thousand."""

    instances: list[int] = field(default_factory=list)
    runtimes: list[TaskRuntime] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Like `reasons`, empty unless the query needs it."""
    reasons: list[str] = field(default_factory=list)

    def of(self, attribute: str) -> list[Any]:
        """Return an attribute of all runtimes."""
        return list(map(attrgetter(attribute), self.runtimes))

    def row(self, place: int) -> Row:
        """Return a task."""
        name, reason = (column[place] if column else "" for column in (self.names, self.reasons))
        return Row(self.instances[place], name, self.runtimes[place], reason)


_KEYS: dict[str, Callable[[Found], list[Any]]] = {
    # The run's start; last what has not started.
    "creation_time": lambda found: [time or math.inf for time in found.of("start_time")],
    "host": lambda found: found.of("host"),
    "instance_id": lambda found: found.instances,
    "message": lambda found: found.of("message"),
    "name": lambda found: found.names,
    "reason": lambda found: found.reasons,
    "state": lambda found: found.of("state"),
}
"""The column that a query sorts by."""


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


def selected(query: TaskQuery, batch: Batch) -> Batch:
    """Return the tasks in the states and on the hosts of a query."""
    states, hosts = query.states, query.hosts
    if not states and not hosts:
        return batch
    return [
        (instance, task)
        for instance, task in batch
        if (not states or task.state in states) and (not hosts or task.host in hosts)
    ]


def cut(query: TaskQuery, found: Found) -> tuple[Sequence[Row], int]:
    """Return the page of a query, and the number of matches. Equal tasks are in order of instances."""
    page, places = query.page, list(range(len(found.instances)))
    for name, descending in reversed(page.order):
        places.sort(key=_KEYS[name](found).__getitem__, reverse=descending)
    if page.max_limit:
        places = places[: page.max_limit]
    return [found.row(place) for place in places[page.offset : page.offset + page.limit]], len(places)


def names(config: job_pb2.JobConfig) -> Callable[[int], str]:
    """Return a function from instances to merged task names, without merging whole configs."""
    default = config.defaultConfig.name
    own = {instance: task.name for instance, task in config.instanceConfig.items() if task.name}
    return lambda instance: own.get(instance, default)
