"""Hosts by what tasks ask of them, and the agents of Mesos, over gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobmgr.clients.answers import CALL_SECONDS
from jobmgr.ports.hostmgr import AgentAddress, HostNeeds, PooledNeeds
from peloton.calls.jobmgr import GET_MESOS_AGENT_INFO, GET_MESOS_MASTER, MATCH_HOSTS
from peloton.calls.rpc import Caller
from peloton.errors import NotFound
from peloton.model.host import HostMatch
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.matching import matching_pb2
from peloton.wire.constraint import constraint_to
from peloton.wire.feasibility import host_filter
from peloton.wire.hosts import Agent
from peloton.wire.task import resources_to

FILTERS_PER_CALL = 1000
AGENT_SECONDS = 5.0
"""Longest time of a call for an agent or a master: a user waits for it."""


class MatchingClient:
    """Hosts that match: `HostMatches` and `LeavingHosts`."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def matches(
        self, needs: Sequence[HostNeeds], known: str, wait: float
    ) -> tuple[str, Sequence[HostMatch]] | None:
        """Return the version of the hosts, and the hosts for each need; None where it is `known`."""
        version, found = known, list[HostMatch]()
        for at in range(0, len(needs), FILTERS_PER_CALL):
            request = matching_pb2.MatchHostsRequest(
                filters=map(_filter_to, needs[at : at + FILTERS_PER_CALL]),
                hosts_version="" if at else known,
                wait_milliseconds=round(wait * 1000),
            )
            answer = await self._client.call(MATCH_HOSTS, request, timeout=CALL_SECONDS, waits=wait)
            if answer.unchanged:
                return None
            version = version if at else answer.hosts_version
            found += _matches_from(answer)
        return version, found

    async def last_hosts(
        self, needs: Sequence[PooledNeeds], leaving: Sequence[str]
    ) -> Mapping[PooledNeeds, frozenset[str]]:
        """Return those of the leaving hosts that have the size for a need, where no other host has it."""
        last = {}
        for at in range(0, len(needs), FILTERS_PER_CALL):
            some = needs[at : at + FILTERS_PER_CALL]
            request = matching_pb2.MatchHostsRequest(
                filters=[_filter_to(each.needs) for each in some],
                by_size=True,
                host_pools=[each.pool for each in some],
                among=leaving,
            )
            answer = await self._client.call(MATCH_HOSTS, request, timeout=CALL_SECONDS)
            for want, match in zip(some, answer.matches, strict=True):
                # A host manager of an earlier version names all hosts.
                if not match.elsewhere and set(match.hostnames) <= set(leaving):
                    last[want] = frozenset(match.hostnames)
        return last


class AgentsClient:
    """The agents of Mesos, and its master: `Agents`."""

    def __init__(self, client: Caller) -> None:
        self._client = client

    async def agents(self, hostname: str) -> Sequence[AgentAddress]:
        """Return the agents of a host. Raises NotFound."""
        request = hostsvc_pb2.GetMesosAgentInfoRequest(hostname=hostname)
        answer = await self._client.call(GET_MESOS_AGENT_INFO, request, timeout=AGENT_SECONDS)
        if answer.HasField("error"):
            why = answer.error.hostNotFound.message or "unknown to Mesos"
            raise NotFound(why if hostname in why else f"host {hostname}: {why}")
        return [agent_from(each) for each in answer.agents]

    async def master(self) -> tuple[str, str]:
        """Return host and port of the leading master."""
        request = hostsvc_pb2.MesosMasterHostPortRequest()
        answer = await self._client.call(GET_MESOS_MASTER, request, timeout=AGENT_SECONDS)
        return answer.hostname, answer.port


def agent_from(wire: Agent) -> AgentAddress:
    """Translate an agent."""
    info = wire.agent_info
    return AgentAddress(info.id.value, wire.pid, info.hostname, info.port)


def _filter_to(needs: HostNeeds) -> hostsvc_pb2.HostFilter:
    constraint = None if needs.constraint is None else constraint_to(needs.constraint)
    return host_filter(resources_to(needs.resources), needs.ports, needs.revocable, constraint)


def _matches_from(answer: matching_pb2.MatchHostsResponse) -> list[HostMatch]:
    disconnected = frozenset(answer.disconnected)
    return [HostMatch(frozenset(each.hostnames), disconnected, answer.complete) for each in answer.matches]
