"""FeasibilityService: comparison of gangs with empty hosts."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.state.feasibility import GangShape, Members, gains, shortage
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.table import HostTable
from hostmgr.services.internal import filter_from
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.host_pool import with_implicit_pool
from peloton.model.plural import plural
from peloton.private.hostmgr.feasibility import feasibility_pb2 as pb
from peloton.private.hostmgr.feasibility import feasibility_pb2_grpc
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.constraint import labels_from
from peloton.wire.feasibility import gains_to, shortage_to

MAX_GANGS = 1000
MAX_HOSTS = 10_000
"""Hosts in one answer."""
_AT_ONCE = 10
"""Gangs that are compared before other work runs."""


Find = Callable[[HostFilter, int, int], tuple[Sequence[hostsvc_pb2.HostOffer], Mapping[str, int]]]
"""Returns hosts from an offset on, up to a number of them, and the number of all hosts by result."""


class Feasibility(feasibility_pb2_grpc.FeasibilityServiceServicer):
    """Serve comparisons of gangs with the hosts."""

    def __init__(self, table: HostTable, cluster: ClusterSight, find: Find) -> None:
        """Serve comparisons with a table. `find` returns hosts that may be claimed."""
        self._table = table
        self._cluster = cluster
        self._find = find
        self._term = uuid.uuid4().hex
        """Prefix of versions: they are of the hosts as this process knows them."""

    async def CheckGangs(self, request: pb.CheckGangsRequest, context: Any) -> pb.CheckGangsResponse:
        """Return the shortage of each gang. Raises Unavailable, InvalidArgument."""
        self._check_known()
        if len(request.gangs) > MAX_GANGS:
            raise InvalidArgument("gangs", plural(len(request.gangs), "gang"), f"at most {MAX_GANGS} gangs")
        version, pooled = self._version(), self._table.pooled
        shapes = [shape_from(wire, f"gangs[{i}]", pooled) for i, wire in enumerate(request.gangs)]
        answer = pb.CheckGangsResponse(hosts_version=version)
        for number, shape in enumerate(shapes, 1):
            lacking = shortage(self._table, shape)
            answer.verdicts.add(shortage=shortage_to(lacking) if lacking is not None else None)
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
        return answer

    async def GetHostGains(self, request: pb.GetHostGainsRequest, context: Any) -> pb.GetHostGainsResponse:
        """Return what hosts offer that changed after a version. Raises Unavailable."""
        self._check_known()
        term, _, number = request.hosts_version.rpartition("-")
        if term != self._term or not number.isdecimal():
            return pb.GetHostGainsResponse(hosts_version=self._version(), unknown_version=True)
        return gains_to(gains(self._table, int(number)), self._version())

    async def FindHosts(self, request: pb.FindHostsRequest, context: Any) -> pb.FindHostsResponse:
        """Return hosts that could be claimed. Raises Unavailable, and InvalidArgument as `filter_from`."""
        self._check_known()
        hosts, counts = self._find(filter_from(request.filter), request.offset, MAX_HOSTS)
        return pb.FindHostsResponse(hosts=hosts, counts=counts)

    def _version(self) -> str:
        return f"{self._term}-{self._table.version}"

    def _check_known(self) -> None:
        if not self._cluster.known:
            raise Unavailable(self._cluster.unhealthy)


def shape_from(wire: pb.GangShape, path: str, pooled: bool = False) -> GangShape:
    """Translate a gang; with host pools, each task needs a host of its pool.

    Raises InvalidArgument for a gang without tasks, and as `filter_from` does.
    """
    if not wire.members or not all(members.count for members in wire.members):
        raise InvalidArgument(f"{path}.members", "[]", "at least one, each with a count of 1 or more")
    return GangShape(tuple(_members(members, pooled) for members in wire.members), wire.spread)


def _members(wire: pb.Members, pooled: bool) -> Members:
    want = filter_from(wire.filter)
    if pooled:
        want = replace(want, constraint=with_implicit_pool(want.constraint, wire.host_pool))
    return Members(want, wire.count, labels_from(wire.labels))
