"""Hosts and claimed hosts as the messages of InternalHostService."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostmgr.core.claims import Claim
from hostmgr.core.columns import Agent
from hostmgr.core.filter import HostFilter, Result
from hostmgr.drivers.manager import HostManager
from peloton.model.host_pool import HOST_POOL
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.wire.hosts import Attribute, agents_to, host_offer_to, resources_to, with_attribute
from peloton.wire.ids import agent_id


def host_offer(manager: HostManager, claim: Claim, revocable: bool) -> pb.HostOffer:
    """Return a claimed host with what its offers have; revocable resources only with `revocable`."""
    return pb.HostOffer.FromString(encoded_host_offer(manager, claim, revocable))


def encoded_host_offer(manager: HostManager, claim: Claim, revocable: bool) -> bytes:
    """Return the same, encoded."""
    offers = manager.hosts.offers_of(claim.agent_id)
    pool = manager.hosts.table.pool_of(claim.hostname)
    return host_offer_to(
        claim.hostname,
        claim.agent_id,
        claim.id,
        [each.resources for each in offers],
        offers[0].attributes if offers else (),
        () if pool is None else (HOST_POOL, pool),
        manager.launches.room(claim.agent_id),
        revocable,
    )


def find_hosts(
    manager: HostManager, want: HostFilter, offset: int, most: int
) -> tuple[list[pb.HostOffer], dict[str, int]]:
    """Return hosts that a claim could take, `most` at most from `offset` on, and all hosts by result.

    Their ids are those of the agents: nothing is claimed.
    """
    hosts = manager.hosts
    rows, counts = hosts.find(want, manager.clock.monotonic())
    found = {reason.value: count for reason, count in counts.items()}
    if len(rows):
        found[Result.MATCH.value] = len(rows)
    ids, names = hosts.table.agent_ids, hosts.table.hostnames
    chosen = rows[offset : offset + min(want.max_hosts or most, most)]
    unclaimed = (Claim(ids[row], ids[row], names[row], 0.0, 0.0) for row in chosen)
    return [host_offer(manager, each, want.revocable) for each in unclaimed], found


def host_info(manager: HostManager, agents: Mapping[str, Agent], agent: str) -> pb.HostInfo:
    """Return a host of the table; `agents` is the map of agents, which may lack it."""
    table = manager.hosts.table
    row = table.row(agent)
    if row is None:
        return pb.HostInfo(agentId=agent_id(agent))
    listed = agents.get(agent)
    wires = agents_to([listed.wire]) if listed is not None else []
    total, slack_cpu = table.total(row)
    return pb.HostInfo(
        hostname=table.hostnames[row],
        agentId=agent_id(agent),
        resources=wires[0].total_resources if wires else resources_to(total, slack_cpu),
        attributes=_attributes(
            manager, table.hostnames[row], wires[0].agent_info.attributes if wires else ()
        ),
    )


def _attributes(manager: HostManager, hostname: str, own: Iterable[Attribute]) -> Iterable[Attribute]:
    """Return the attributes of a host, of which the host pool is one where host pools are on."""
    pool = manager.hosts.table.pool_of(hostname)
    return own if pool is None else with_attribute(own, HOST_POOL, pool)
