"""Hosts with their offers and claims: the decisions of AcquireHostOffers, LaunchTasks and ReleaseHostOffers.

A claim takes a whole host under an id of its own until it is released, used by a launch, or expired. It
covers all offers of the host at that time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hostmgr.core.capacity import Capacity, sum_of
from hostmgr.core.claims import Acquired, Claim, InvalidOffers, LaunchPlan, OfferedVolume
from hostmgr.core.columns import Agent, Rows
from hostmgr.core.filter import HostFilter, Ranking, Result
from hostmgr.core.holds import HELD_SECONDS, Holds
from hostmgr.core.offers import InsufficientOffers, Need, Offer, free, take
from hostmgr.core.pools import HostPools
from hostmgr.core.states import ClaimCause, ClaimState
from hostmgr.core.table import HostTable
from peloton.errors import Refused
from peloton.model.constraint import Label
from peloton.model.ids import MesosTaskId
from peloton.model.states import HostState

PLACING_SECONDS = 300.0
CLIENT_SECONDS = 30.0
ORPHANED_SECONDS = 15.0
"""Rest of a claim whose owner, or whose placement in resmgr, is gone. It does not end at once: a launch that
uses it may be under way."""
OFFER_SECONDS = 10 * 86400.0
MAX_REMEMBERED = 50_000
"""Number of launches whose repetition is recognised."""


class Hosts:
    """All hosts with their offers and claims."""

    def __init__(
        self,
        table: HostTable,
        ranking: Ranking = Ranking.FIRST_FIT,
        placing_seconds: float = PLACING_SECONDS,
        client_seconds: float = CLIENT_SECONDS,
        held_seconds: float = HELD_SECONDS,
    ) -> None:
        """Start without hosts.

        Claims last `placing_seconds`, those of callers that are no daemon `client_seconds` at most: it is not
        known when such a caller is gone. Hosts are held for `held_seconds`.
        """
        self.table = table
        self.holds = Holds(held_seconds, self._settle_host)
        self._reserved: dict[str, str] = {}
        """Agent → reservation."""
        self._ranking = ranking
        self._placing_seconds = placing_seconds
        self._client_seconds = min(client_seconds, placing_seconds)
        self._offers: dict[str, tuple[Offer, float]] = {}
        """By offer id, with the time when each came."""
        self._of_agent: dict[str, dict[str, Offer]] = {}
        self._claims: dict[str, Claim] = {}
        self._claim_of: dict[str, str] = {}
        """Agent → claim."""
        self._launched: OrderedDict[str, int] = OrderedDict()
        """Claims that were used, with the hash of their tasks' ids: all ids would be too many."""
        self._agents: dict[str, Agent] = {}
        self._capacity = sum_of(())
        self.unlisted = False
        """Whether an offer has come from an agent that the map of agents did not have."""
        self._cursor = 0
        self.changed: dict[str, str] | None = None
        """Hostnames, by agent id, of hosts whose offers or labels have changed. None: nobody watches them."""

    # Offers and agents.

    def add_offer(self, offer: Offer, now: float) -> None:
        """Add an offer. Its labels count until the map of agents has the host."""
        if offer.agent_id not in self._agents:
            self.unlisted = True
            if self.table.row(offer.agent_id) is None:
                self._put(Agent(offer.agent_id, offer.hostname, offer.labels))
        self._offers[offer.id] = (offer, now)
        self._of_agent.setdefault(offer.agent_id, {})[offer.id] = offer
        self._recount(offer.agent_id)

    def remove_offer(self, offer_id: str) -> bool:
        """Remove an offer that was rescinded or declined; return whether it was known."""
        held = self._offers.pop(offer_id, None)
        if held is None:
            return False
        agent_id = held[0].agent_id
        del self._of_agent[agent_id][offer_id]
        self._recount(agent_id)
        return True

    def drop_offers(self) -> None:
        """Drop all offers after the connection ended. Claims stay: their hosts are offered again."""
        self._offers.clear()
        agents, self._of_agent = list(self._of_agent), {}
        for agent_id in agents:
            self._recount(agent_id)

    def old_offers(self, now: float) -> list[str]:
        """Return offers of unclaimed hosts that were kept for too long and must be declined."""
        return [
            offer.id
            for offer, since in self._offers.values()
            if now - since >= OFFER_SECONDS and offer.agent_id not in self._claim_of
        ]

    def set_agents(self, agents: Iterable[Agent], complete: bool = True) -> None:
        """Replace the map of agents.

        Agents that it no longer lists are removed, unless they have offers. They stay while the map is not
        `complete`, because agents still register with a new master.
        """
        listed = {agent.id: agent for agent in agents}
        for agent in listed.values():
            before = self._agents.get(agent.id)
            if before is None or not agent.same_host(before):
                self._put(agent)
                self._note(agent.id, agent.hostname)
        missing = [id for id in self.table.agent_ids if id and id not in listed]
        for agent_id in missing if complete else ():
            if not self._of_agent.get(agent_id):
                self.remove_agent(agent_id)
        self._agents = listed if complete else {**self._agents, **listed}
        self.unlisted = any(
            agent_id not in self._agents for agent_id, offers in self._of_agent.items() if offers
        )
        self._capacity = sum_of(self._agents.values())

    def remove_agent(self, agent_id: str) -> None:
        """Remove a lost agent with its offers and its claim."""
        for offer_id in self._of_agent.pop(agent_id, {}):
            self._offers.pop(offer_id, None)
        claim_id = self._claim_of.pop(agent_id, None)
        if claim_id is not None:
            del self._claims[claim_id]
        if self._agents.pop(agent_id, None) is not None:
            self._capacity = sum_of(self._agents.values())
        row = self.table.row(agent_id)
        if row is not None:
            self._note(agent_id, self.table.hostnames[row])
            self.table.remove(agent_id)

    # Claims and launches.

    def acquire(
        self,
        want: HostFilter,
        ids: Iterator[str],
        now: float,
        owner: str = "",
        ends_by: float | None = None,
    ) -> Acquired:
        """Claim up to `max_hosts` matching hosts, each under the next of `ids`.

        A host that is held matches only where it is for an instance that is to be placed. `ends_by`: when the
        tasks that are to be placed end at the latest.
        """
        rows, counts = self.find(want, now)
        chosen = rows[: want.max_hosts] if want.max_hosts else rows
        claims = self._claim(chosen, ids, now, owner, ends_by)
        if len(chosen):
            self._cursor = int(chosen[-1]) + 1
            counts[Result.MATCH] = len(chosen)
        if len(rows) > len(chosen):
            counts[Result.MISMATCH_MAX_HOST_LIMIT] = len(rows) - len(chosen)
        return Acquired(claims, counts)

    def find(self, want: HostFilter, now: float) -> tuple[Rows, dict[Result, int]]:
        """Return the rows of all hosts that may be claimed, in order, and the others by reason."""
        self.holds.expire(now)
        if len(self.holds):
            want = replace(want, closed=self.holds.closed(want.held_for))
        mask, counts = self.table.match(want)
        return self.table.ranked(mask, want, want.ranking or self._ranking, self._cursor), counts

    def release(self, claim_id: str) -> bool:
        """End a claim; return whether there was one."""
        return self._end(claim_id, ClaimCause.RELEASE) is not None

    def change_pools(self, hostnames: Collection[str]) -> None:
        """Take over that hosts are in other pools; claims for placements by their former pools end."""
        for hostname in hostnames:
            self.table.relabel(hostname)
            for row in self.table.rows_of(hostname):
                self._note(self.table.agent_ids[row], hostname)
        changed = set(hostnames)
        for claim in [claim for claim in self._claims.values() if claim.hostname in changed]:
            self._end(claim.id, ClaimCause.RELEASE)

    def shorten_orphaned(self, alive: Container[str], now: float) -> None:
        """Shorten the claims of processes that are gone."""
        self._shorten((claim for claim in self._claims.values() if claim.owner not in alive), now)

    def shorten_older(self, since: float, now: float) -> int:
        """Shorten the claims of daemons that were acquired before `since`; return how many."""
        return self._shorten((claim for claim in self._claims.values() if claim.since < since), now)

    def _shorten(self, claims: Iterable[Claim], now: float) -> int:
        until = now + ORPHANED_SECONDS
        found = [claim for claim in claims if claim.owner and claim.until > until]
        for claim in found:
            self._claims[claim.id] = replace(claim, until=until)
        return len(found)

    def end_claims_on(self, hostname: str) -> list[Claim]:
        """End and return the claims on a host: launches that were to use them are refused."""
        found = [claim for claim in self._claims.values() if claim.hostname == hostname]
        for claim in found:
            self._end(claim.id, ClaimCause.RELEASE)
        return found

    def expire(self, now: float) -> list[Claim]:
        """End and return the claims whose time is over."""
        over = [claim for claim in self._claims.values() if claim.until <= now]
        for claim in over:
            self._end(claim.id, ClaimCause.EXPIRE)
        return over

    def plan_launch(
        self, claim_id: str, hostname: str, agent_id: str, needs: Sequence[Need]
    ) -> LaunchPlan | None:
        """Plan a launch without changing anything; None where this launch has happened already.

        Raises InvalidOffers. An empty agent id is not compared.
        """
        task_ids = frozenset(need.task_id for need in needs)
        claim = self.claim_to_use(claim_id, hostname, agent_id, task_ids)
        if claim is None:
            return None
        offers = self.offers_of(claim.agent_id)
        try:
            taken = tuple(take(offers, needs))
        except InsufficientOffers as error:
            raise InvalidOffers(f"invalid offers: {error}") from None
        return LaunchPlan(claim, offers, taken, task_ids)

    def commit_launch(self, plan: LaunchPlan) -> None:
        """Remove the offers of a plan that was sent, end its claim, and what was held for its instances."""
        self.use(plan.claim, plan.task_ids, plan.task_ids)

    def claim_to_use(self, claim_id: str, hostname: str, agent_id: str, content: Hashable) -> Claim | None:
        """Return the claim for a launch or operations; None where the same content has used it already.

        Raises InvalidOffers. An empty agent id is not compared.
        """
        if claim_id in self._launched:
            if self._launched[claim_id] == hash(content):
                return None
            raise InvalidOffers(f"invalid offers: host offer {claim_id} was used for other tasks")
        claim = self._claims.get(claim_id)
        if claim is None:
            raise InvalidOffers(f"invalid offers: no claim {claim_id or '(empty)'} on {hostname}")
        if claim.hostname != hostname or agent_id not in ("", claim.agent_id):
            raise InvalidOffers(
                f"invalid offers: host offer {claim_id} is of {claim.hostname} (agent {claim.agent_id}), "
                f"not of {hostname} (agent {agent_id})"
            )
        return claim

    def use(self, claim: Claim, content: Hashable, runs: Iterable[MesosTaskId]) -> None:
        """End a claim that was used, with the offers of its host and the holds for the launched runs."""
        self._end(claim.id, ClaimCause.LAUNCH)
        self.use_offers(claim.agent_id)
        self.holds.release(run.rpartition("-")[0] for run in runs)
        self._launched[claim.id] = hash(content)
        while len(self._launched) > MAX_REMEMBERED:
            self._launched.popitem(last=False)

    def use_offers(self, agent_id: str) -> None:
        """Remove the offers of an agent: a call has accepted them."""
        for offer in self.offers_of(agent_id):
            self.remove_offer(offer.id)

    def unclaimed(self) -> Iterator[str]:
        """Iterate over the agents in service that have offers and are not claimed, reserved or held."""
        for agent_id, offers in list(self._of_agent.items()):
            row = self.table.row(agent_id)
            if not offers or row is None or self.table.life(row) is not HostState.UP:
                continue
            if self.table.claim(row) is ClaimState.READY:
                yield agent_id

    # Reservations.

    def reserve(self, reservation: str, agent_ids: Iterable[str]) -> None:
        """Reserve exactly these hosts under that id; a claim that a host has now ends first.

        Raises Refused where one is reserved under another id, and changes nothing then.
        """
        wanted = dict.fromkeys(agent_ids, reservation)
        for agent_id in wanted:
            other = self._reserved.get(agent_id, reservation)
            if other != reservation:
                raise Refused(f"agent {agent_id} is reserved for {other}")
        before = [agent_id for agent_id, holder in self._reserved.items() if holder == reservation]
        for agent_id in before:
            if agent_id not in wanted:
                del self._reserved[agent_id]
                self._settle(agent_id)
        self._reserved.update(wanted)
        for agent_id in wanted:
            self._settle(agent_id)

    def reserved_for(self, agent_id: str) -> str:
        """Return the id of the reservation that a host is reserved under; empty: none."""
        return self._reserved.get(agent_id, "")

    def claim_reserved(
        self, agent_ids: Sequence[str], ids: Iterator[str], now: float, owner: str = ""
    ) -> tuple[Claim, ...]:
        """Claim unclaimed hosts by their ids, reserved or not. Raises IllegalTransition for a claimed one."""
        rows = [row for agent_id in agent_ids if (row := self.table.row(agent_id)) is not None]
        return self._claim(np.array(rows, dtype=np.intp), ids, now, owner)

    # Queries.

    def claim(self, claim_id: str) -> Claim | None:
        """Return a claim that has not ended."""
        return self._claims.get(claim_id)

    def offers_of(self, agent_id: str) -> tuple[Offer, ...]:
        """Return the offers of an agent."""
        return tuple(self._of_agent.get(agent_id, {}).values())

    def labels_of(self, agent_id: str) -> tuple[Label, ...]:
        """Return the labels of an agent, by the map of agents or by its offers, with its host pool."""
        agent = self._agents.get(agent_id)
        if agent is not None:
            return self.table.with_pool(agent.hostname, agent.labels)
        offers = self.offers_of(agent_id)
        return self.table.with_pool(offers[0].hostname, offers[0].labels) if offers else ()

    def agent(self, agent_id: str) -> Agent | None:
        """Return an agent of the map of agents."""
        return self._agents.get(agent_id)

    def offers(self) -> list[Offer]:
        """Return all offers."""
        return [offer for offer, _ in self._offers.values()]

    def offered_volume(self, volume_id: str) -> OfferedVolume | None:
        """Return a persistent volume that is offered, and so in no task's use."""
        for offer, _ in self._offers.values():
            for entry in offer.entries:
                if entry.volume == volume_id:
                    return OfferedVolume(offer, entry)
        return None

    def has_volume(self, volume_id: str) -> bool:
        """Return whether an agent has a persistent volume, by the map of agents."""
        return any(volume_id in agent.volumes for agent in self._agents.values())

    def hostname(self, agent_id: str) -> str:
        """Return the name of an agent's host; empty for one that is not known."""
        row = self.table.row(agent_id)
        return "" if row is None else self.table.hostnames[row]

    def claim_on(self, agent_id: str) -> Claim | None:
        """Return the claim on a host."""
        return self._claims.get(self._claim_of.get(agent_id, ""))

    def claimed(self, agent_id: str) -> bool:
        """Return whether a host is claimed."""
        return agent_id in self._claim_of

    def life(self, agent_id: str) -> HostState:
        """Return the state of a host of the agent map. UP where its loss is known and the map is older."""
        row = self.table.row(agent_id)
        return HostState.UP if row is None else self.table.life(row)

    def capacity(self) -> Capacity:
        """Return the sums over all agents."""
        return self._capacity

    def capacities(self, pools: HostPools) -> Mapping[str, tuple[int, Capacity]]:
        """Return for each host pool the number of its agents, and the sums over them."""
        agents: dict[str, list[Agent]] = {name: [] for name in pools.names()}
        for agent in self._agents.values():
            agents[pools.pool_of(agent.hostname)].append(agent)
        return {name: (len(each), sum_of(each)) for name, each in agents.items()}

    def _claim(
        self, rows: Rows, ids: Iterator[str], now: float, owner: str, ends_by: float | None = None
    ) -> tuple[Claim, ...]:
        table = self.table
        table.acquire_claims(rows)
        until = now + (self._placing_seconds if owner else self._client_seconds)
        agent_ids, hostnames = table.agent_ids, table.hostnames
        claims = tuple(
            [
                Claim(next(ids), agent_ids[row], hostnames[row], now, until, owner, ends_by)
                for row in rows.tolist()
            ]
        )
        for claim in claims:
            self._claims[claim.id] = claim
            self._claim_of[claim.agent_id] = claim.id
        return claims

    def _end(self, claim_id: str, cause: ClaimCause) -> Claim | None:
        claim = self._claims.pop(claim_id, None)
        if claim is None:
            return None
        del self._claim_of[claim.agent_id]
        row = self.table.row(claim.agent_id)
        if row is not None:
            self.table.change_claim(row, cause)
            self._settle(claim.agent_id)
        return claim

    def _settle(self, agent_id: str) -> None:
        """Show the reservation and the holds of a host that is not claimed."""
        row = self.table.row(agent_id)
        if row is not None:
            held = self.holds.is_held(self.table.hostnames[row])
            self.table.settle_claim(row, agent_id in self._reserved, held)

    def _settle_host(self, hostname: str) -> None:
        for row in self.table.rows_of(hostname):
            self._settle(self.table.agent_ids[row])

    def _put(self, agent: Agent) -> None:
        self.table.put(agent)
        if self._reserved or len(self.holds):
            self._settle(agent.id)

    def _recount(self, agent_id: str) -> None:
        offers = self._of_agent.get(agent_id, {})
        row = self.table.row(agent_id)
        if row is not None:
            self.table.set_free(row, free(offers.values()), len(offers))
            if self.changed is not None:
                self._note(agent_id, self.table.hostnames[row])

    def _note(self, agent_id: str, hostname: str) -> None:
        if self.changed is not None:
            self.changed[agent_id] = hostname
