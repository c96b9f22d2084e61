"""The use of claims by launches and operations: a claim is used once, for one content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence

from hostmgr.core.claims.claim import Claim, InvalidOffers, LaunchPlan
from hostmgr.core.claims.holds import Holds
from hostmgr.core.claims.lifecycle import Claims
from hostmgr.core.state.offer_book import OfferBook
from hostmgr.core.state.offers import InsufficientOffers, Need, take
from hostmgr.core.state.states import ClaimCause
from peloton.model.ids import MesosTaskId

MAX_REMEMBERED = 50_000
"""Number of launches whose repetition is recognised."""


class ClaimUse:
    """How claims are used. Those that were used are remembered with their content: a repetition is known."""

    def __init__(self, claims: Claims, offers: OfferBook, holds: Holds) -> None:
        self._claims = claims
        self._offers = offers
        self._holds = holds
        self._used: OrderedDict[str, int] = OrderedDict()
        """Claims that were used, with the hash of the content: all ids of tasks would be too many."""

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
        offers = self._offers.of(claim.agent_id)
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
        if claim_id in self._used:
            if self._used[claim_id] == hash(content):
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
        assert claim.id not in self._used, f"claim {claim.id} is used twice"
        self._claims.end(claim.id, ClaimCause.LAUNCH)
        self._offers.use(claim.agent_id)
        self._holds.release(run.rpartition("-")[0] for run in runs)
        self._used[claim.id] = hash(content)
        while len(self._used) > MAX_REMEMBERED:
            self._used.popitem(last=False)
