"""Calls of a cluster whose leaders are lost, those that must not be made twice, and what is checked then."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2

CALLERS, CALLS_PER_CALLER = 10, 20
BEGUN, HELD = CALLS_PER_CALLER // 4, CALLS_PER_CALLER * 3 // 4
"""Calls of each caller that are answered before the leaders are lost, and after which it waits for that."""
PASSING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


class Once:
    """Jobs that are created without an id: each call is made once, answered or not."""

    def __init__(self) -> None:
        self._prefix = f"once-{uuid.uuid4()}-"
        self._answered: dict[str, bool] = {}

    @contextmanager
    def request(self, config: job_pb2.JobConfig) -> Iterator[job_pb2.CreateRequest]:
        """Give a request; note whether the body, which makes the call, gets an answer."""
        config.name = f"{self._prefix}{len(self._answered)}-{uuid.uuid4()}"
        self._answered[config.name] = False
        try:
            yield job_pb2.CreateRequest(config=config)
        except grpc.RpcError as error:
            assert error.code() in PASSING, error
        else:
            self._answered[config.name] = True

    def query(self) -> job_pb2.QueryRequest:
        """Return a query for all of them."""
        spec = job_pb2.QuerySpec(name=f"{self._prefix}*", pagination=query_pb2.PaginationSpec(limit=100))
        return job_pb2.QueryRequest(spec=spec, summaryOnly=True)

    def check(self, found: job_pb2.QueryResponse) -> None:
        """Check that what was answered is there, and nothing twice."""
        names = [each.name for each in found.results]
        assert len(self._answered) == CALLERS // 2 * CALLS_PER_CALLER // 2
        assert names and len(names) == len(set(names))
        assert {name for name, answered in self._answered.items() if answered} <= set(names)
