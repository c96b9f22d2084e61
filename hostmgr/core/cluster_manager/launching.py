"""Launches and operations on claimed hosts: what is refused, what becomes of the claim, what is known after.

A refusal ends the claim, because its placement is void. A call that could not be sent changes nothing, and
its runs are left out of reconciliations until it is repeated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from hostmgr.core.claims.claim import Claim, InvalidOffers, LaunchPlan
from hostmgr.core.cluster_manager.connection import Connection
from hostmgr.core.cluster_manager.reconciliation import Reconciler
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.runs.launches import Launches
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.runs.run_info import RunInfo, vector
from hostmgr.core.state.offers import Need, need_of
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.amounts import elapsed
from peloton.model.ids import MesosTaskId
from peloton.model.task import Launch

CLAIM_GRACE_SECONDS = 30.0


class Launching:
    """Decide about launches and operations, whose calls the driver makes in between."""

    def __init__(
        self,
        hosts: Hosts,
        runs: Runs,
        launches: Launches,
        reconciler: Reconciler,
        connection: Connection,
        claim_grace: float = CLAIM_GRACE_SECONDS,
    ) -> None:
        """Let a launch wait for new offers of its host until `claim_grace` seconds after a connection."""
        self._hosts = hosts
        self._runs = runs
        self._launches = launches
        self._reconciler = reconciler
        self._connection = connection
        self._claim_grace = claim_grace

    # Launches.

    def plan(self, claim_id: str, hostname: str, agent_id: str, needs: Sequence[Need]) -> LaunchPlan | None:
        """Return the launch to send; None where it has happened already. Answered by `launched`.

        Raises InvalidOffers and InvalidArgument. An empty agent id is not compared.
        """
        _check_distinct(needs)
        plan = self._hosts.uses.plan_launch(claim_id, hostname, agent_id, needs)
        if plan is not None:
            self._check_not_given_up(need.task_id for need in needs)
        return plan

    def launched(self, plan: LaunchPlan, needs: Sequence[Need]) -> None:
        """Take over that a launch was sent."""
        self._hosts.uses.commit_launch(plan)
        self._follow([need.task_id for need in needs], plan.claim.agent_id)
        if plan.claim.ends_by is not None:
            for need in needs:
                self._runs.learn(need.task_id, _info(need, plan.claim.ends_by))

    # Operations.

    def claim_for(
        self, claim_id: str, hostname: str, launched: Iterable[Launch], content: Hashable
    ) -> Claim | None:
        """Return the claim for operations which launch these runs, among others; None where they were sent.

        Answered by `operated`. Raises InvalidOffers and InvalidArgument.
        """
        needs = [need_of(each) for each in launched]
        _check_distinct(needs)
        claim = self._hosts.uses.claim_to_use(claim_id, hostname, "", content)
        if claim is not None:
            self._check_not_given_up(need.task_id for need in needs)
        return claim

    def operated(self, claim: Claim, content: Hashable, launched: Iterable[Launch]) -> None:
        """Take over that operations on a claimed host were sent."""
        runs = [each.mesos_task_id for each in launched]
        self._hosts.uses.use(claim, content, runs)
        self._follow(runs, claim.agent_id)

    # Calls that were not sent.

    def refused(self, claim_id: str, hostname: str, now: float) -> None:
        """End the claim after a refusal; raise Unavailable while its offers may still come again."""
        claim = self._hosts.claims.get(claim_id)
        if claim is None or claim.hostname != hostname:
            return
        since = now - self._connection.since
        if since < self._claim_grace and not self._hosts.offers.of(claim.agent_id):
            raise Unavailable(
                f"{hostname} has not been offered again since the subscription with Mesos "
                f"{elapsed(since)} ago"
            )
        self._hosts.claims.release(claim_id)

    def postponed(self, runs: Iterable[MesosTaskId], now: float) -> None:
        """Note that a launch could not be sent, and is repeated by whoever asked for it."""
        self._reconciler.postpone(runs, now)

    def _follow(self, runs: Sequence[MesosTaskId], agent_id: str) -> None:
        for run in runs:
            self._runs.launched(run, agent_id)
            self._launches.begin(run, agent_id)

    def _check_not_given_up(self, runs: Iterable[MesosTaskId]) -> None:
        """Raise InvalidOffers for runs that were reported as lost before their launch."""
        late = [run for run in runs if self._runs.given_up(run)]
        if late:
            raise InvalidOffers(f"reported as lost before the launch: {', '.join(late)}")


def _check_distinct(needs: Sequence[Need]) -> None:
    """Raise InvalidArgument for two tasks with one id.

    Mesos would report the refusal of the second as a status of the first.
    """
    seen: set[str] = set()
    for each in needs:
        if each.task_id in seen:
            raise InvalidArgument("tasks", each.task_id, "a run that is given once")
        seen.add(each.task_id)


def _info(need: Need, end: float) -> RunInfo:
    return RunInfo(vector(need.resources, need.revocable, len(need.ports)), end)
