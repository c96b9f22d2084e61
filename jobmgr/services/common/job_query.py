"""Translates job queries of the v0 API (docs/behaviour/jobs.md, Operations of the v0 API). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from google.protobuf.timestamp_pb2 import Timestamp

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.clock import NANOSECONDS
from peloton.errors import InvalidArgument
from peloton.model.ids import ROOT_POOL, PoolId
from peloton.model.job import JobQuery, TimeRange
from peloton.model.pool import PoolConfig, pool_path
from peloton.model.states import TERMINAL_JOB_STATES, JobState
from peloton.wire.constraint import labels_from

DEFAULT_LIMIT, MAX_LIMIT = 10, 100
ENDED_REACH_NANOSECONDS = 7 * 24 * 3600 * NANOSECONDS
"""How far back a query for terminal states without a range goes."""
LATEST_NANOSECONDS = 2**63 - 1
"""The last time: times are 64-bit nanoseconds since 1970, and later ones count as this."""
SORTED_BY = ("creation_time", "completion_time", "name", "owner", "state")

Order = tuple[tuple[str, bool], ...]


class InvalidPool(InvalidArgument):
    """The pool of a query does not exist."""


class Page(NamedTuple):
    """The order and bounds of a page; without a limit it has the default size."""

    order: Order
    max_limit: int
    offset: int
    limit: int


def job_query(request: job_pb2.QueryRequest, pools: Sequence[PoolConfig], now: int) -> JobQuery:
    """Translate a query; `now` is in nanoseconds since 1970.

    Raises InvalidPool, and InvalidArgument with the path of the field.
    """
    spec = request.spec
    states = _states(spec.jobStates)
    created = _range(spec.creationTimeRange, "spec.creationTimeRange")
    completed = (
        _range(spec.completionTimeRange, "spec.completionTimeRange")
        if spec.HasField("completionTimeRange")
        else None
    )
    if created == TimeRange() and completed is None and states & TERMINAL_JOB_STATES:
        created = TimeRange(start=now - ENDED_REACH_NANOSECONDS)
    page = page_of(spec.pagination, SORTED_BY, "spec.pagination")
    return JobQuery(
        labels=labels_from(spec.labels),
        keywords=tuple(keyword for keyword in spec.keywords if keyword),
        states=states,
        pool_id=_pool(request, pools),
        owner=spec.owner,
        name=spec.name,
        reference=spec.reference,
        created=created,
        completed=completed,
        order=page.order or (("creation_time", True),),
        max_limit=page.max_limit,
        offset=page.offset,
        limit=min(page.limit, MAX_LIMIT),
    )


def page_of(wire: query_pb2.PaginationSpec, known: Sequence[str], path: str) -> Page:
    """Translate order and bounds. Raises InvalidArgument for an order by an unknown property."""
    order: list[tuple[str, bool]] = []
    for i, by in enumerate(wire.orderBy):
        name = by.property.value
        if name not in known:
            raise InvalidArgument(f"{path}.orderBy[{i}].property", name, f"one of {', '.join(known)}")
        if by.order not in query_pb2.OrderBy.Order.values():
            raise InvalidArgument(f"{path}.orderBy[{i}].order", by.order, "ASC (1) or DESC (2)")
        order.append((name, by.order == query_pb2.OrderBy.DESC))
    return Page(tuple(order), wire.maxLimit, wire.offset, wire.limit or DEFAULT_LIMIT)


def _pool(request: job_pb2.QueryRequest, pools: Sequence[PoolConfig]) -> PoolId:
    """Return the pool that is given by id or path; empty for all."""
    pool_id, path = request.respoolID.value, request.spec.respool.value
    if pool_id and not pool_path(pool_id, pools):
        raise InvalidPool("respoolID", pool_id, "the id of a resource pool that exists")
    if not path:
        return pool_id
    absolute = "/" + path.strip("/")
    found = next((pool.id for pool in pools if pool_path(pool.id, pools) == absolute), "")
    if absolute == "/":
        found = ROOT_POOL
    if not found:
        raise InvalidPool("spec.respool", path, "the path of a resource pool that exists")
    if pool_id and pool_id != found:
        raise InvalidPool("spec.respool", path, f"the path of the pool {pool_id}, which respoolID names")
    return found


def _states(wire: Iterable[int]) -> frozenset[JobState]:
    known = frozenset(map(int, JobState))
    for i, state in enumerate(wire):
        if state not in known:
            raise InvalidArgument(f"spec.jobStates[{i}]", state, f"a number from 0 to {max(known)}")
    return frozenset(map(JobState, wire))


def _range(wire: peloton_pb2.TimeRange, path: str) -> TimeRange:
    start = _nanoseconds(wire.min, f"{path}.min") if wire.HasField("min") else None
    end = _nanoseconds(wire.max, f"{path}.max") if wire.HasField("max") else None
    if start is not None and end is not None and start > end:
        raise InvalidArgument(
            f"{path}.min", wire.min.ToJsonString(), "at most max, " + wire.max.ToJsonString()
        )
    return TimeRange(start, end)


def _nanoseconds(wire: Timestamp, path: str) -> int:
    try:
        wire.ToJsonString()  # checks that it is a time
    except ValueError:
        raise InvalidArgument(
            path, f"seconds: {wire.seconds} nanos: {wire.nanos}", "a time from the year 1 to 9999"
        ) from None
    return max(-LATEST_NANOSECONDS, min(wire.seconds * NANOSECONDS + wire.nanos, LATEST_NANOSECONDS))
