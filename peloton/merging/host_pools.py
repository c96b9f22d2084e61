"""Host pools of several Mesos clusters: a name stands for one pool, with hosts in any of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from peloton.api.v0.host.svc import host_svc_pb2 as v0
from peloton.api.v1alpha.host.svc import host_svc_pb2 as v1alpha

A = TypeVar("A", v0.ListHostPoolsResponse, v1alpha.ListHostPoolsResponse)


def merged_pools(answers: Iterable[A]) -> A:
    """Return the pools of all answers, of which there must be one, each name once with the hosts of all.

    Pools are in use where one cluster uses them.
    """
    found = iter(answers)
    whole = next(found)
    pools: dict[str, Any] = {pool.name: pool for pool in whole.pools}
    for answer in found:
        if isinstance(whole, v0.ListHostPoolsResponse) and isinstance(answer, v0.ListHostPoolsResponse):
            whole.not_in_use &= answer.not_in_use
        for pool in answer.pools:
            if pool.name not in pools:
                pools[pool.name] = whole.pools.add(name=pool.name)
            pools[pool.name].hosts.extend(pool.hosts)
    return whole
