"""Hosts and claimed hosts as the messages of InternalHostService."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from hostmgr.core.claims.claim import Claim
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.drivers.manager import HostManager
from peloton.model.host_pool import HOST_POOL
from peloton.model.ids import TaskId
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.wire.holds import without
from peloton.wire.hosts import Attribute, Encoded, agents_to, host_offer_to, resources_to, with_attribute
from peloton.wire.ids import agent_id


def host_offer(manager: HostManager, claim: Claim, revocable: bool) -> pb.HostOffer:
    """Return a claimed host with what its offers have; revocable resources only with `revocable`."""
    return pb.HostOffer.FromString(encoded_host_offer(manager, claim, revocable))


def encoded_host_offer(
    manager: HostManager, claim: Claim, revocable: bool, held_for: Collection[TaskId] = ()
) -> bytes:
    """Return the same, encoded, without what is held for other instances than those named."""
    offers, holds = manager.hosts.offers.of(claim.agent_id), manager.hosts.holds
    resources: Sequence[Encoded] = [each.resources for each in offers]
    if holds.is_held(claim.hostname):
        kept = holds.kept(claim.hostname, held_for)
        resources = without(resources, kept.normal, kept.slack_cpu, kept.ports)
    pool = manager.hosts.table.pool_of(claim.hostname)
    return host_offer_to(
        claim.hostname,
        claim.agent_id,
        claim.id,
        resources,
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
    rows, counts = hosts.claims.find(want, manager.clock.monotonic())
    found = {reason.value: count for reason, count in counts.items()}
    if len(rows):
        found[Result.MATCH.value] = len(rows)
    ids, names = hosts.table.agent_ids, hosts.table.hostnames
    chosen = rows[offset : offset + min(want.max_hosts or most, most)]
    unclaimed = (Claim(ids[row], ids[row], names[row], 0.0, 0.0) for row in chosen)
    encoded = (encoded_host_offer(manager, each, want.revocable, want.held_for) for each in unclaimed)
    return [pb.HostOffer.FromString(each) for each in encoded], found


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
