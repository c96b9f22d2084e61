"""All hosts: their offers, agents, claims, holds and reservations, each with an invariant of its own.

What concerns one of these is asked of it; what concerns several at once is here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from hostmgr.core.claims.holds import HELD_SECONDS, NOTHING, Holds
from hostmgr.core.claims.lifecycle import ClaimLimits, Claims
from hostmgr.core.claims.reserved_hosts import ReservedHosts
from hostmgr.core.claims.use import ClaimUse
from hostmgr.core.hosts.listed_agents import ListedAgents
from hostmgr.core.state.changed_hosts import ChangedHosts
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offer_book import OfferBook
from hostmgr.core.state.offers import Free, Offer
from hostmgr.core.state.states import ClaimState
from hostmgr.core.state.table import HostTable
from peloton.model.constraint import Label
from peloton.model.ids import MesosTaskId, TaskId
from peloton.model.states import HostState

HELD_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class HostLimits:
    """How hosts are claimed and held."""

    claims: ClaimLimits = field(default_factory=ClaimLimits)
    held_seconds: float = HELD_SECONDS
    """How long room of a host is held."""
    held_share: float = HELD_SHARE
    """Part of all hosts that may be held at a time; one host may be in any case."""


class Hosts:
    """All hosts. A host that is not claimed is RESERVED, HELD or READY in the table, in this order."""

    def __init__(self, table: HostTable, limits: HostLimits | None = None) -> None:
        """Start without hosts."""
        self._limits = limits or HostLimits()
        self.table = table
        self.changed = ChangedHosts()
        self.agents = ListedAgents()
        self.offers = OfferBook(table, self.changed)
        self.holds = Holds(self._limits.held_seconds, self._settle_host)
        self.reserved = ReservedHosts(self._settle)
        self.claims = Claims(table, self.holds, self._limits.claims, self._settle)
        self.uses = ClaimUse(self.claims, self.offers, self.holds)
        self.unlisted = False
        """Whether an offer has come from an agent that the map of agents did not have."""

    # What the cluster manager reports.

    def add_offer(self, offer: Offer, now: float) -> None:
        """Add an offer. Its labels count until the map of agents has the host."""
        if offer.agent_id not in self.agents:
            self.unlisted = True
            if self.table.row(offer.agent_id) is None:
                self._put(Agent(offer.agent_id, offer.hostname, offer.labels))
        self.offers.add(offer, now)

    def set_agents(self, agents: Iterable[Agent], complete: bool = True) -> None:
        """Replace the map of agents.

        Agents that it no longer lists are removed, unless they have offers. They stay while the map is not
        `complete`, because agents still register with a new master.
        """
        listed = {agent.id: agent for agent in agents}
        for agent in listed.values():
            before = self.agents.get(agent.id)
            if before is None or not agent.same_host(before):
                self._put(agent)
                self.changed.note(agent.id, agent.hostname)
        missing = [id for id in self.table.agent_ids if id and id not in listed]
        for agent_id in missing if complete else ():
            if not self.offers.of(agent_id):
                self.remove_agent(agent_id)
        self.agents.replace(listed, complete)
        self.unlisted = self.agents.lacks(self.offers.agents())

    def remove_agent(self, agent_id: str) -> None:
        """Remove a lost agent with its offers and its claim."""
        self.offers.drop_agent(agent_id)
        self.claims.drop_agent(agent_id)
        self.agents.remove(agent_id)
        row = self.table.row(agent_id)
        if row is not None:
            self.changed.note(agent_id, self.table.hostnames[row])
            self.table.remove(agent_id)

    def change_pools(self, hostnames: Collection[str]) -> None:
        """Take over that hosts are in other pools; claims for placements by their former pools end."""
        for hostname in hostnames:
            self.table.relabel(hostname)
            for row in self.table.rows_of(hostname):
                self.changed.note(self.table.agent_ids[row], hostname)
        self.claims.end_on(frozenset(hostnames))

    # Holds, whose number is bounded.

    @property
    def most_held(self) -> int:
        """Return how many hosts may be held at a time."""
        return max(1, int(self._limits.held_share * len(self.table)))

    def hold(
        self,
        hostname: str,
        task_id: TaskId,
        now: float,
        room: Free | None = None,
        run: MesosTaskId = "",
        freed: Free = NOTHING,
    ) -> bool:
        """Hold room of a host for an instance, as `Holds.add` does; False where too many hosts are held."""
        self.holds.expire(now)
        self.holds.release((task_id,))
        if not self.holds.is_held(hostname) and len(self.holds.hosts) >= self.most_held:
            return False
        self.holds.add(hostname, task_id, now, room, run, freed)
        return True

    # Queries.

    def unclaimed(self) -> Iterator[str]:
        """Iterate over the agents in service that have offers and are not claimed, reserved or held."""
        for agent_id in self.offers.agents():
            row = self.table.row(agent_id)
            if row is None or not self.offers.of(agent_id) or self.table.life(row) is not HostState.UP:
                continue
            if self.table.claim(row) is ClaimState.READY:
                yield agent_id

    def labels_of(self, agent_id: str) -> tuple[Label, ...]:
        """Return the labels of an agent, by the map of agents or by its offers, with its host pool."""
        source = self.agents.get(agent_id) or next(iter(self.offers.of(agent_id)), None)
        return () if source is None else self.table.with_pool(source.hostname, source.labels)

    def hostname(self, agent_id: str) -> str:
        """Return the name of an agent's host; empty for one that is not known."""
        row = self.table.row(agent_id)
        return "" if row is None else self.table.hostnames[row]

    # The state of unclaimed hosts.

    def _settle(self, agent_id: str) -> None:
        """Show the reservation and the holds of a host that is not claimed."""
        row = self.table.row(agent_id)
        if row is not None:
            held = self.holds.is_held(self.table.hostnames[row])
            self.table.settle_claim(row, agent_id in self.reserved, held)

    def _settle_host(self, hostname: str) -> None:
        kept = self.holds.kept(hostname)
        for row in self.table.rows_of(hostname):
            self.table.set_kept(row, kept)
            self._settle(self.table.agent_ids[row])

    def _put(self, agent: Agent) -> None:
        row = self.table.put(agent)
        if len(self.holds):
            self.table.set_kept(row, self.holds.kept(agent.hostname))
        if len(self.reserved) or len(self.holds):
            self._settle(agent.id)
