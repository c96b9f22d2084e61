"""The order and the pages of task queries, against a sort by one key after the other."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jobmgr.services.common.job_query import Page
from jobmgr.services.common.task_query import Found, Row, TaskQuery, cut, selected
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

KEYS: dict[str, Any] = {
    "creation_time": lambda row: row.runtime.start_time or math.inf,
    "host": lambda row: row.runtime.host,
    "instance_id": lambda row: row.instance,
    "message": lambda row: row.runtime.message,
    "name": lambda row: row.name,
    "reason": lambda row: row.reason,
    "state": lambda row: int(row.runtime.state),
}
TEXTS = st.sampled_from(["", "a", "b", "c"])
STATES = st.sampled_from([TaskState.PENDING, TaskState.RUNNING, TaskState.FAILED])


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    made = []
    for instance in sorted(draw(st.sets(st.integers(0, 50), max_size=25))):
        runtime = TaskRuntime(
            state=draw(STATES),
            goal=TaskState.RUNNING,
            run=1,
            config_version=1,
            desired_config_version=1,
            desired_run=1,
            host=draw(TEXTS),
            message=draw(TEXTS),
            start_time=draw(st.integers(0, 3)),
        )
        made.append(Row(instance, draw(TEXTS), runtime, draw(TEXTS)))
    return made


@given(
    rows(),
    st.lists(st.tuples(st.sampled_from(sorted(KEYS)), st.booleans()), max_size=3),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 10),
)
def test_a_page_is_a_part_of_the_sorted_tasks(
    tasks: list[Row], order: list[tuple[str, bool]], most: int, offset: int, limit: int
) -> None:
    query = TaskQuery(frozenset(), frozenset(), frozenset(), Page(tuple(order), most, offset, limit))
    found = Found(
        [row.instance for row in tasks],
        [row.runtime for row in tasks],
        [row.name for row in tasks],
        [row.reason for row in tasks],
    )
    expected = list(tasks)
    for name, descending in reversed(order):
        expected.sort(key=KEYS[name], reverse=descending)
    expected = expected[:most] if most else expected
    assert cut(query, found) == (expected[offset : offset + limit], len(expected))


@given(rows(), st.frozensets(STATES.map(int)), st.frozensets(TEXTS))
def test_a_query_selects_states_and_hosts(
    tasks: list[Row], states: frozenset[int], hosts: frozenset[str]
) -> None:
    query = TaskQuery(states, frozenset(), hosts, Page((), 0, 0, 10))
    batch = [(row.instance, row.runtime) for row in tasks]
    assert list(selected(query, batch)) == [
        (instance, task)
        for instance, task in batch
        if (not states or int(task.state) in states) and (not hosts or task.host in hosts)
    ]
