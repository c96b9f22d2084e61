"""Claims on hosts: the decisions of AcquireHostOffers and ReleaseHostOffers, and when claims expire.

A claim takes a whole host under an id of its own until it is released, used by a launch, or expired.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hostmgr.core.claims.claim import Acquired, Claim
from hostmgr.core.claims.holds import Holds
from hostmgr.core.state.columns import Rows
from hostmgr.core.state.host_filter import HostFilter, Ranking, Result
from hostmgr.core.state.states import ClaimCause, ClaimState
from hostmgr.core.state.table import HostTable

PLACING_SECONDS = 300.0
CLIENT_SECONDS = 30.0
ORPHANED_SECONDS = 15.0
"""Rest of a claim whose owner, or whose placement in resmgr, is gone. It does not end at once: a launch that
uses it may be under way."""


@dataclass(frozen=True, slots=True)
class ClaimLimits:
    """In which order hosts are claimed, and for how long."""

    ranking: Ranking = Ranking.FIRST_FIT
    """The order where the caller names none."""
    placing_seconds: float = PLACING_SECONDS
    """How long the claims of daemons last."""
    client_seconds: float = CLIENT_SECONDS
    """Those of other callers, at most as long as daemons': it is not known when such a caller is gone."""

    def __post_init__(self) -> None:
        assert self.placing_seconds > 0 and self.client_seconds > 0, self

    def seconds(self, owner: str) -> float:
        """Return how long a claim of a process lasts; empty: a caller that is no daemon."""
        return self.placing_seconds if owner else min(self.client_seconds, self.placing_seconds)


class Claims:
    """The claims. A host is PLACING in the table exactly while it has a claim here, one at most."""

    def __init__(
        self, table: HostTable, holds: Holds, limits: ClaimLimits, ended: Callable[[str], None]
    ) -> None:
        """Call `ended` with the id of an agent whose claim has ended."""
        self._table = table
        self._holds = holds
        self._limits = limits
        self._ended = ended
        self._claims: dict[str, Claim] = {}
        self._of_agent: dict[str, str] = {}
        """Agent → claim."""
        self._cursor = 0
        """The row after the one that was claimed last."""

    # Queries.

    def __contains__(self, agent_id: object) -> bool:
        """Return whether the host of an agent is claimed."""
        return agent_id in self._of_agent

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, claim_id: str) -> Claim | None:
        """Return a claim that has not ended."""
        return self._claims.get(claim_id)

    def on(self, agent_id: str) -> Claim | None:
        """Return the claim on a host."""
        return self._claims.get(self._of_agent.get(agent_id, ""))

    def acquired_before(self, since: float) -> list[Claim]:
        """Return the claims that were acquired before `since`, the oldest first."""
        found = (claim for claim in self._claims.values() if claim.since < since)
        return sorted(found, key=lambda claim: claim.since)

    def find(self, want: HostFilter, now: float) -> tuple[Rows, dict[Result, int]]:
        """Return the rows of all hosts that may be claimed, in order, and the others by reason."""
        self._holds.expire(now)
        if len(self._holds):
            closed, own = self._holds.closed(want.held_for), self._holds.own(want.held_for)
            want = replace(want, closed=closed, own=own)
        mask, counts = self._table.match(want)
        return self._table.ranked(mask, want, want.ranking or self._limits.ranking, self._cursor), counts

    # The begin of claims.

    def acquire(
        self,
        want: HostFilter,
        ids: Iterator[str],
        now: float,
        owner: str = "",
        ends_by: float | None = None,
    ) -> Acquired:
        """Claim up to `max_hosts` matching hosts, each under the next of `ids`.

        What is held of a host is free only for the instances that it is held for. `ends_by`: when the tasks
        that are to be placed end at the latest.
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

    def acquire_these(
        self, agent_ids: Sequence[str], ids: Iterator[str], now: float, owner: str = ""
    ) -> tuple[Claim, ...]:
        """Claim unclaimed hosts by their ids, reserved or not. Raises IllegalTransition for a claimed one."""
        rows = [row for agent_id in agent_ids if (row := self._table.row(agent_id)) is not None]
        return self._claim(np.array(rows, dtype=np.intp), ids, now, owner)

    def _claim(
        self, rows: Rows, ids: Iterator[str], now: float, owner: str, ends_by: float | None = None
    ) -> tuple[Claim, ...]:
        table = self._table
        table.acquire_claims(rows)
        until = now + self._limits.seconds(owner)
        agent_ids, hostnames = table.agent_ids, table.hostnames
        claims = tuple(
            [
                Claim(next(ids), agent_ids[row], hostnames[row], now, until, owner, ends_by)
                for row in rows.tolist()
            ]
        )
        for claim in claims:
            assert claim.id not in self._claims, f"claim id {claim.id} is used twice"
            self._claims[claim.id] = claim
            self._of_agent[claim.agent_id] = claim.id
        assert len(self._claims) == len(self._of_agent), "a host is claimed twice"
        return claims

    # The end of claims.

    def release(self, claim_id: str) -> bool:
        """End a claim; return whether there was one."""
        return self.end(claim_id, ClaimCause.RELEASE)

    def end_on(self, hostnames: Collection[str]) -> list[Claim]:
        """End and return the claims on hosts: launches that were to use them are refused."""
        found = [claim for claim in self._claims.values() if claim.hostname in hostnames]
        for claim in found:
            self.release(claim.id)
        return found

    def expire(self, now: float) -> list[Claim]:
        """End and return the claims whose time is over."""
        over = [claim for claim in self._claims.values() if claim.until <= now]
        for claim in over:
            self.end(claim.id, ClaimCause.EXPIRE)
        return over

    def end(self, claim_id: str, cause: ClaimCause) -> bool:
        """End a claim for this cause; return whether there was one."""
        claim = self._claims.pop(claim_id, None)
        if claim is None:
            return False
        del self._of_agent[claim.agent_id]
        row = self._table.row(claim.agent_id)
        assert row is not None and self._table.claim(row) is ClaimState.PLACING, claim
        self._table.change_claim(row, cause)
        self._ended(claim.agent_id)
        return True

    def drop_agent(self, agent_id: str) -> None:
        """Drop the claim on a host that the table is about to lose."""
        claim_id = self._of_agent.pop(agent_id, None)
        if claim_id is not None:
            del self._claims[claim_id]

    # Owners that are gone.

    def shorten_orphaned(self, alive: Container[str], now: float) -> None:
        """Shorten the claims of processes that are gone."""
        self._shorten((claim for claim in self._claims.values() if claim.owner not in alive), now)

    def shorten_older(self, since: float, now: float) -> int:
        """Shorten the claims of daemons that were acquired before `since`; return how many."""
        return self._shorten(self.acquired_before(since), now)

    def _shorten(self, claims: Iterable[Claim], now: float) -> int:
        until = now + ORPHANED_SECONDS
        found = [claim for claim in claims if claim.owner and claim.until > until]
        for claim in found:
            self._claims[claim.id] = replace(claim, until=until)
        return len(found)
