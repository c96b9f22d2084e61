"""`peloton hostpool`: host pools, and which hosts are in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from peloton.cli.groups import Group
from peloton.cli.live_names import live_host_pools, live_hosts
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS
from peloton.errors import Refused

if TYPE_CHECKING:
    from peloton.api.v0.host.svc.host_svc_pb2 import ListHostPoolsResponse

MOST_HOSTS = 2**31 - 1


@click.group(cls=Group)
def hostpool() -> None:
    """Host pools: which hosts take which kind of jobs."""


@hostpool.command("list")
@pass_session
def list_pools(session: Session) -> None:
    """List the host pools with the number of their hosts, and say which jobs would have no place.

    Pools can be filled before tasks are confined to them, which `enable_host_pool` of hostmgr and
    `use_host_pools` of placement do.
    """
    from peloton.cli.listing import listing
    from peloton.cli.output import say

    response = _pools(session)
    for note in _notes(response) if session.plain else ():
        say(note)
    rows = [(pool.name, len(pool.hosts)) for pool in response.pools]
    session.show(response, lambda: listing(("Pool", "Hosts"), rows))


def _notes(response: ListHostPoolsResponse) -> Iterator[str]:
    """Iterate over what is to be known about the use of the pools."""
    from peloton.model.host_pool import KINDS_OF_JOBS

    unused = response.not_in_use
    if unused:
        yield "Host pools are not in use: tasks run on any host"
    hosts = {pool.name: len(pool.hosts) for pool in response.pools}
    for pool, jobs in KINDS_OF_JOBS.items():
        if not hosts.get(pool) and (not unused or len(hosts) > 1):
            yield f"No host is in {pool}: {jobs} {'would have' if unused else 'have'} no place"


@hostpool.command("list-hosts")
@click.argument("pool", required=False, default="", shell_complete=live_host_pools)
@pass_session
def list_hosts(session: Session, pool: str) -> None:
    """List the hosts of POOL, or of all host pools.

    In `default` they are those that are registered; the other pools also have hosts whose agents are away.
    """
    from peloton.cli.listing import listing

    response = _pools(session)
    found = [each for each in response.pools if pool in ("", each.name)]
    if not found:
        names = ", ".join(each.name for each in response.pools)
        raise Refused(f"host pool {pool} does not exist; there are {names}")
    del response.pools[:]
    response.pools.extend(found)
    rows = [(host, each.name) for each in found for host in each.hosts]
    session.show(response, lambda: listing(("Hostname", "Pool"), rows))


@hostpool.command()
@click.argument("pool", shell_complete=live_host_pools)
@pass_session
def create(session: Session, pool: str) -> None:
    """Add the empty host pool POOL.

    Jobs use `shared` (preemptible batch), `batch_reserved` (other batch) and `stateless` (services), and any
    pool that their constraint names by the host label `host_pool`.
    """
    from peloton.api.v0.host.svc import host_svc_pb2

    request = host_svc_pb2.CreateHostPoolRequest(name=pool)
    response, *_ = session.call_clusters(RPCS.host_svc.CreateHostPool, request)
    session.show(response, lambda: f"Host pool {pool} created")


@hostpool.command()
@click.argument("pool", shell_complete=live_host_pools)
@pass_session
def delete(session: Session, pool: str) -> None:
    """Delete the host pool POOL; its hosts go to `default`."""
    from peloton.api.v0.host.svc import host_svc_pb2

    request = host_svc_pb2.DeleteHostPoolRequest(name=pool)
    response, *_ = session.call_clusters(RPCS.host_svc.DeleteHostPool, request)
    session.show(response, lambda: f"Host pool {pool} deleted; its hosts are in default")


@hostpool.command()
@click.argument("host", shell_complete=live_hosts)
@click.argument("destination", shell_complete=live_host_pools)
@click.option("-s", "--source", default="", help="Only if the host is in this pool.")
@pass_session
def change(session: Session, host: str, destination: str, source: str) -> None:
    """Put HOST in the host pool DESTINATION at once. Its tasks go on."""
    from peloton.api.v0.host.svc import host_svc_pb2

    request = host_svc_pb2.ChangeHostPoolRequest(
        hostname=host, sourcePool=source, destinationPool=destination
    )
    response = session.call(RPCS.host_svc.ChangeHostPool, request)
    session.show(response, lambda: f"Host {host} is in host pool {destination}")


@hostpool.command()
@click.argument("source", shell_complete=live_host_pools)
@click.argument("source_hosts", type=click.IntRange(0, MOST_HOSTS))
@click.argument("destination", shell_complete=live_host_pools)
@click.argument("destination_hosts", type=click.IntRange(0, MOST_HOSTS))
@pass_session
def move(session: Session, source: str, source_hosts: int, destination: str, destination_hosts: int) -> None:
    """Move hosts from SOURCE to DESTINATION until they have the given numbers of hosts.

    The hosts that cost least to move are drained, moved and brought up again: hosts without tasks first, and
    never one with tasks that are not preemptible. `peloton host query` shows them on their way. Of several
    Mesos clusters only the hosts of one are counted and moved: that without a name, or `--mesosCluster`.
    """
    from peloton.api.v0.host.svc import host_svc_pb2

    request = host_svc_pb2.MoveHostsRequest(
        sourcePool=source,
        srcPoolDesiredHosts=source_hosts,
        destinationPool=destination,
        destPoolDesiredHosts=destination_hosts,
    )
    response = session.call(RPCS.host_svc.MoveHosts, request)
    session.show(
        response,
        lambda: (
            f"Hosts go from {source} to {destination} until these have {source_hosts} and "
            f"{destination_hosts}; see `peloton host query`"
        ),
    )


def _pools(session: Session) -> ListHostPoolsResponse:
    from peloton.api.v0.host.svc import host_svc_pb2
    from peloton.merging.host_pools import merged_pools

    request = host_svc_pb2.ListHostPoolsRequest()
    return merged_pools(session.call_clusters(RPCS.host_svc.ListHostPools, request))
