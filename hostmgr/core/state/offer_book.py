"""The offers that stand, by their ids and by agent."""

from __future__ import annotations

from collections.abc import Container, Iterator

from hostmgr.core.state.changed_hosts import ChangedHosts
from hostmgr.core.state.offers import Offer, OfferedVolume, free
from hostmgr.core.state.table import HostTable

OFFER_SECONDS = 10 * 86400.0
"""How long an offer of an unclaimed host is kept."""


class OfferBook:
    """All offers. What the table shows as free of a host is the sum of its offers here."""

    def __init__(self, table: HostTable, changed: ChangedHosts) -> None:
        self._table = table
        self._changed = changed
        self._offers: dict[str, tuple[Offer, float]] = {}
        """By offer id, with the time when each came."""
        self._of_agent: dict[str, dict[str, Offer]] = {}

    def __len__(self) -> int:
        return len(self._offers)

    def __iter__(self) -> Iterator[Offer]:
        """Iterate over all offers."""
        return (offer for offer, _ in self._offers.values())

    def of(self, agent_id: str) -> tuple[Offer, ...]:
        """Return the offers of an agent."""
        return tuple(self._of_agent.get(agent_id, {}).values())

    def agents(self) -> list[str]:
        """Return the ids of the agents that have offers."""
        return [agent_id for agent_id, offers in self._of_agent.items() if offers]

    def add(self, offer: Offer, now: float) -> None:
        """Add an offer of an agent that the table has."""
        self._offers[offer.id] = (offer, now)
        self._of_agent.setdefault(offer.agent_id, {})[offer.id] = offer
        self._recount(offer.agent_id)

    def remove(self, offer_id: str) -> bool:
        """Remove an offer that was rescinded or declined; return whether it was known."""
        held = self._offers.pop(offer_id, None)
        if held is None:
            return False
        agent_id = held[0].agent_id
        del self._of_agent[agent_id][offer_id]
        self._recount(agent_id)
        return True

    def use(self, agent_id: str) -> None:
        """Remove the offers of an agent: a call has accepted them."""
        for offer in self.of(agent_id):
            self.remove(offer.id)

    def drop(self) -> None:
        """Drop all offers: the connection has ended, and the hosts are offered again."""
        self._offers.clear()
        agents, self._of_agent = list(self._of_agent), {}
        for agent_id in agents:
            self._recount(agent_id)

    def drop_agent(self, agent_id: str) -> None:
        """Drop the offers of an agent that the table is about to lose."""
        for offer_id in self._of_agent.pop(agent_id, {}):
            self._offers.pop(offer_id, None)

    def old(self, now: float, claimed: Container[str]) -> list[str]:
        """Return offers that were kept for too long, but for those of `claimed` agents."""
        return [
            offer.id
            for offer, since in self._offers.values()
            if now - since >= OFFER_SECONDS and offer.agent_id not in claimed
        ]

    def volume(self, volume_id: str) -> OfferedVolume | None:
        """Return a persistent volume that is offered, and so in no task's use."""
        for offer in self:
            for entry in offer.entries:
                if entry.volume == volume_id:
                    return OfferedVolume(offer, entry)
        return None

    def _recount(self, agent_id: str) -> None:
        offers = self._of_agent.get(agent_id, {})
        row = self._table.row(agent_id)
        if row is not None:
            self._table.set_free(row, free(offers.values()), len(offers))
            if self._changed.watched:
                self._changed.note(agent_id, self._table.hostnames[row])
