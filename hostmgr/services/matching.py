"""MatchingService: the hosts that daemon jobs run on, as they come and go."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import Any

import numpy as np

from hostmgr.core.filter import HostFilter
from hostmgr.core.table import HostTable
from hostmgr.drivers.agents import Cluster
from hostmgr.services.internal import filter_from
from peloton.clock import Clock
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.host_pool import with_implicit_pool
from peloton.private.hostmgr.matching import matching_pb2 as pb
from peloton.private.hostmgr.matching import matching_pb2_grpc

MAX_FILTERS = 1000
MAX_WAIT_MILLISECONDS = 60_000
LOOK_SECONDS = 0.2
"""How often a waiting call compares versions, which are two numbers."""
_AT_ONCE = 10
"""Filters that are evaluated before other work runs."""


class Matching(matching_pb2_grpc.MatchingServiceServicer):
    """Serve the hosts that match constraints."""

    def __init__(self, table: HostTable, cluster: Cluster, clock: Clock) -> None:
        self._table = table
        self._cluster = cluster
        self._clock = clock
        self._term = uuid.uuid4().hex
        """Prefix of versions: they are of the hosts as this process knows them."""

    async def MatchHosts(self, request: pb.MatchHostsRequest, context: Any) -> pb.MatchHostsResponse:
        """Return the hosts that match each filter. Raises Unavailable, InvalidArgument."""
        if not self._cluster.known:
            raise Unavailable(self._cluster.unhealthy)
        if len(request.filters) > MAX_FILTERS:
            raise InvalidArgument("filters", f"{len(request.filters)} filters", f"at most {MAX_FILTERS}")
        if request.host_pools and len(request.host_pools) != len(request.filters):
            raise InvalidArgument("host_pools", f"{len(request.host_pools)} pools", "one for each filter")
        wanted = self._wanted(request)
        await self._wait(request)
        version = self._version()
        if request.hosts_version == version:
            return pb.MatchHostsResponse(hosts_version=version, unchanged=True)
        answer = pb.MatchHostsResponse(
            hosts_version=version,
            disconnected=self._cluster.disconnected,
            complete=self._cluster.complete,
        )
        for number, want in enumerate(wanted, 1):
            rows = np.flatnonzero(self._table.eligible(want, by_size=request.by_size))
            answer.matches.add(hostnames={self._table.hostnames[row] for row in rows})
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return answer

    def _wanted(self, request: pb.MatchHostsRequest) -> list[HostFilter]:
        """Return the filters, with host pools each with its pool. Raises InvalidArgument."""
        filters = [filter_from(each, f"filters[{i}]") for i, each in enumerate(request.filters)]
        if not self._table.pooled or not request.host_pools:
            return filters
        return [
            replace(want, constraint=with_implicit_pool(want.constraint, pool))
            for want, pool in zip(filters, request.host_pools, strict=True)
        ]

    async def _wait(self, request: pb.MatchHostsRequest) -> None:
        """Wait until the version is another one than that of the request, or its time is over."""
        if request.wait_milliseconds > MAX_WAIT_MILLISECONDS:
            raise InvalidArgument(
                "wait_milliseconds", request.wait_milliseconds, f"at most {MAX_WAIT_MILLISECONDS}"
            )
        end = self._clock.monotonic() + request.wait_milliseconds / 1000
        while request.hosts_version == self._version():
            left = end - self._clock.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(min(LOOK_SECONDS, left))

    def _version(self) -> str:
        return f"{self._term}-{self._table.version}-{self._cluster.version}"
