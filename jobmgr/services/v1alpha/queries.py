"""Translate queries of the v1alpha API to those of the v0 API, which jobmgr answers. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.services.common.job_query import job_query
from jobmgr.services.common.task_query import TaskQuery, task_query
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2 as v0_query
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.query import query_pb2
from peloton.errors import InvalidArgument
from peloton.model.job import JobQuery
from peloton.model.pool import PoolConfig
from peloton.wire.v1alpha.constraint import v0_labels
from peloton.wire.v1alpha.paths import v1alpha_error
from peloton.wire.v1alpha.states import TASK_STATES


def v1alpha_job_query(spec: stateless_pb2.QuerySpec, pools: Sequence[PoolConfig], now: int) -> JobQuery:
    """Translate a query; `now` in nanoseconds since 1970. Raises InvalidArgument with the field's path."""
    wanted = job_pb2.QuerySpec(
        pagination=_pagination(spec.pagination),
        labels=v0_labels(spec.labels),
        keywords=spec.keywords,
        jobStates=[job_pb2.JobState.ValueType(state) for state in spec.job_states],
        owner=spec.owner,
        name=spec.name,
    )
    wanted.respool.value = spec.respool.value
    for new, old in (
        ("creation_time_range", "creationTimeRange"),
        ("completion_time_range", "completionTimeRange"),
    ):
        if spec.HasField(new):  # type: ignore[arg-type]
            getattr(wanted, old).ParseFromString(getattr(spec, new).SerializeToString())
    try:
        return job_query(job_pb2.QueryRequest(spec=wanted), pools, now)
    except InvalidArgument as error:
        raise v1alpha_error(error) from None


def pod_query(request_page: query_pb2.PaginationSpec | None, spec: pod_pb2.QuerySpec) -> TaskQuery:
    """Translate a query for pods; the request's own page goes before that of its spec.

    Names are those of pods. Raises InvalidArgument with the path of the field.
    """
    for i, state in enumerate(spec.pod_states):
        if state not in TASK_STATES:
            known = max(TASK_STATES)
            raise InvalidArgument(f"spec.pod_states[{i}]", state, f"a number from 0 to {known}")
    wanted = task_pb2.QuerySpec(
        pagination=_pagination(spec.pagination if request_page is None else request_page),
        taskStates=[task_pb2.TaskState.ValueType(TASK_STATES[state]) for state in spec.pod_states],
        names=[name.value for name in spec.names],
        hosts=spec.hosts,
    )
    try:
        return task_query(wanted)
    except InvalidArgument as error:
        raise v1alpha_error(error) from None


def applied(spec: stateless_pb2.QuerySpec, query: JobQuery) -> stateless_pb2.QuerySpec:
    """Return the spec of a query with what the server added."""
    result = stateless_pb2.QuerySpec()
    result.CopyFrom(spec)
    result.pagination.limit = query.limit
    if query.created.start is not None and not spec.creation_time_range.HasField("min"):
        result.creation_time_range.min.FromNanoseconds(query.created.start)
    if not spec.pagination.order_by:
        for name, descending in query.order:
            order = query_pb2.OrderBy.ORDER_BY_DESC if descending else query_pb2.OrderBy.ORDER_BY_ASC
            result.pagination.order_by.add(order=order).property.value = name
    return result


def _pagination(page: query_pb2.PaginationSpec) -> v0_query.PaginationSpec:
    """Translate a page: orders have the same numbers in both APIs."""
    result = v0_query.PaginationSpec(offset=page.offset, limit=page.limit, maxLimit=page.max_limit)
    for by in page.order_by:
        order = v0_query.OrderBy.Order.ValueType(by.order)
        result.orderBy.add(order=order).property.value = by.property.value
    return result
