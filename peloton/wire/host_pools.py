"""Host pools of several Mesos clusters: a name stands for one pool, with hosts in any of them."""

from __future__ import annotations

from collections.abc import Iterable

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2


def merged_pools(answers: Iterable[host_svc_pb2.ListHostPoolsResponse]) -> host_svc_pb2.ListHostPoolsResponse:
    """Return the pools of all answers, each name once with the hosts of all."""
    pools: dict[str, host_pb2.HostPoolInfo] = {}
    for answer in answers:
        for pool in answer.pools:
            pools.setdefault(pool.name, host_pb2.HostPoolInfo(name=pool.name)).hosts.extend(pool.hosts)
    return host_svc_pb2.ListHostPoolsResponse(pools=pools.values())
