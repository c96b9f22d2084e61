"""Hosts and claimed hosts as the messages of InternalHostService."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hostmgr.core.hosts import Claim
from hostmgr.core.table import Agent
from hostmgr.drivers.manager import HostManager
from peloton.api.v0 import peloton_pb2
from peloton.model.host_pool import HOST_POOL
from peloton.model.resources import MILLI
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.wire.feasibility import LAUNCHES
from peloton.wire.hosts import Attribute, agents_to, offers_to, resources_to, scalar, with_attribute
from peloton.wire.ids import agent_id


def host_offer(manager: HostManager, claim: Claim, revocable: bool) -> pb.HostOffer:
    """Return a claimed host with what its offers have; revocable resources only with `revocable`."""
    offers = offers_to(each.wire for each in manager.hosts.offers_of(claim.agent_id))
    return pb.HostOffer(
        hostname=claim.hostname,
        agentId=agent_id(claim.agent_id),
        resources=[
            *(
                each
                for offer in offers
                for each in offer.resources
                if revocable or not each.HasField("revocable")
            ),
            scalar(LAUNCHES, manager.launches.room(claim.agent_id) * MILLI),
        ],
        attributes=_attributes(manager, claim.hostname, offers[0].attributes if offers else ()),
        id=peloton_pb2.HostOfferID(value=claim.id),
    )


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
