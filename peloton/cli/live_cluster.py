"""The hosts and pools of the cluster, as simulations take them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peloton.cli.session import Session
from peloton.client.rpcs import RPCS

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostInfo
    from peloton.api.v0.respool.respool_pb2 import ResourcePoolInfo
    from peloton.model.live_state import LiveHost
    from peloton.model.pool import PoolConfig
    from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2 import GetHostCacheResponse

PATIENCE_SECONDS = 5.0


def read_hosts(session: Session) -> tuple[LiveHost, ...]:
    """Return the hosts that are UP, of all clusters below. Raises CallFailed, Refused."""
    from peloton.wire.live_state import live_hosts

    return live_hosts(*host_answers(session))


def read_pools(session: Session) -> tuple[PoolConfig, ...]:
    """Return the pools below the root. Raises CallFailed, Refused."""
    from peloton.wire.live_state import live_pools

    return live_pools(pool_answers(session))


def host_answers(session: Session) -> tuple[list[HostInfo], list[GetHostCacheResponse.Summary]]:
    """Return what the host managers tell: the hosts that are UP, and the amounts of all."""
    from peloton.api.v0.host import host_pb2
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2

    up = host_svc_pb2.QueryHostsRequest(host_states=[host_pb2.HOST_STATE_UP])
    hosts = session.call_clusters(RPCS.host_svc.QueryHosts, up)
    amounts = session.call_clusters(
        RPCS.hostmgr_v1alpha_svc.GetHostCache, hostmgr_svc_pb2.GetHostCacheRequest()
    )
    return (
        [host for answer in hosts for host in answer.host_infos],
        [each for answer in amounts for each in answer.summaries],
    )


def pool_answers(session: Session) -> list[ResourcePoolInfo]:
    """Return what the resource manager tells of all pools."""
    from peloton.api.v0.respool import respool_pb2

    answer = session.call(RPCS.respool_svc.Query, respool_pb2.QueryRequest(), timeout=PATIENCE_SECONDS)
    return list(answer.resourcePools)
