"""MatchingService: the hosts that daemon jobs run on, as they come and go."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.state.columns import Mask
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.table import HostTable
from hostmgr.services.internal import filter_from
from peloton.clock import Clock
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.host_pool import with_implicit_pool
from peloton.model.plural import plural
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

    def __init__(self, table: HostTable, cluster: ClusterSight, clock: Clock) -> None:
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
            raise InvalidArgument(
                "host_pools", plural(len(request.host_pools), "pool"), "one for each filter"
            )
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
        among = set(request.among)
        for number, want in enumerate(wanted, 1):
            mask = self._table.eligible(want, by_size=request.by_size)
            answer.matches.append(self._among(mask, among) if among else self._all(mask))
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return answer

    def _all(self, mask: Mask) -> pb.Matches:
        return pb.Matches(hostnames={self._table.hostnames[row] for row in np.flatnonzero(mask)})

    def _among(self, mask: Mask, among: Iterable[str]) -> pb.Matches:
        """Name those of some hosts that match, and tell whether there are others."""
        found = {host: [row for row in self._table.rows_of(host) if mask[row]] for host in among}
        inside = sum(map(len, found.values()))
        named = [host for host, rows in found.items() if rows]
        return pb.Matches(hostnames=named, elsewhere=int(np.count_nonzero(mask)) > inside)

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
