"""The hosts that are being moved between pools: which may be drained now, and what each needs next."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from hostmgr.core.agents.maintained_hosts import MaintainedHosts
from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.pools.moves import HostFacts, MoveRequest, Step, next_step, plan_move
from hostmgr.core.state.host_pools import HostPools
from peloton.errors import Refused
from peloton.model.host_pool import PooledHost
from peloton.model.ids import MesosTaskId
from peloton.model.states import HostState

SCORE_SECONDS = 10.0
"""Between two questions for scores, which are answered by a look at all tasks."""
NOT_PREEMPTIBLE = "a task there is not preemptible, or has just been launched"
Scored = Mapping[str, Sequence[MesosTaskId]]
"""Hosts without tasks that are not preemptible, the cheapest to move first, with their runs at that time."""


class MovingHosts:
    """Which hosts go where. A host is drained only as long as nothing has been launched since its score."""

    def __init__(
        self, maintained: MaintainedHosts, sight: ClusterSight, score_seconds: float = SCORE_SECONDS
    ) -> None:
        """Ask for scores every `score_seconds` while hosts that have been chosen cannot be drained."""
        self._maintained = maintained
        self._sight = sight
        self._score_seconds = score_seconds
        self._score_at = -math.inf
        """When to ask for scores again."""
        self._scored: Scored = {}
        """The chosen hosts that could be drained when scores were asked for."""
        self._refusal = NOT_PREEMPTIBLE
        """Why the other chosen hosts could not."""
        self._to_drain: Collection[str] = ()
        """The hosts with an agent that are to be drained."""

    # Scores.

    def runs_on(self, names: Iterable[str]) -> Scored:
        """Return the runs on hosts, before scores are asked for. Answered by `score`."""
        return {name: self._maintained.runs_on(name) for name in names}

    def score(self, before: Scored, by_cost: Iterable[str]) -> Scored:
        """Return those of the hosts that have a score, with the runs that were there before."""
        return {name: before[name] for name in by_cost if name in before}

    def begin(self, moving: Iterable[PooledHost], now: float) -> Collection[str]:
        """Begin a step of the hosts that are being moved; return those whose scores are needed first.

        A task that is not preemptible may have come since they were chosen, as by the leader before this one.
        Answered by `scored` or `not_scored`.
        """
        names = {each.hostname for each in moving if self._step(each) is Step.DRAIN}
        self._to_drain = names and names & self._sight.hostnames
        if not self._to_drain or now < self._score_at:
            return ()
        self._score_at = now + self._score_seconds
        return self._to_drain

    def scored(self, scored: Scored) -> None:
        """Take over the scores of chosen hosts."""
        self._scored, self._refusal = scored, NOT_PREEMPTIBLE

    def not_scored(self, reason: str) -> None:
        """Note that scores cannot be had: no host may be drained."""
        self._scored, self._refusal = {}, f"its tasks are not known: {reason}"

    # Decisions.

    def choose(
        self, request: MoveRequest, pools: HostPools, known: Iterable[str], scored: Scored
    ) -> list[str]:
        """Return the hosts to move. Raises as `plan_move` does."""
        return plan_move(request, pools, self._facts(known), self._movable(scored))

    def next(self, host: PooledHost) -> Step:
        """Return what a host needs next. Raises Refused for one that may not be drained now."""
        if host.hostname in self._to_drain and host.hostname not in self._movable(self._scored):
            raise Refused(self._refusal)
        return self._step(host)

    def _step(self, host: PooledHost) -> Step:
        return next_step(host, *self._state(host.hostname))

    def _movable(self, scored: Scored) -> list[str]:
        """Return the hosts where nothing was launched since: what began to run has not been counted."""
        return [name for name, runs in scored.items() if runs == self._maintained.runs_on(name)]

    def _facts(self, known: Iterable[str]) -> dict[str, HostFacts]:
        registered = self._sight.hostnames
        return {
            name: HostFacts(self._state(name)[0], name in registered, bool(self._maintained.runs_on(name)))
            for name in known
        }

    def _state(self, hostname: str) -> tuple[HostState, HostState]:
        """Return state and goal of a host in maintenance."""
        record = self._maintained.records.get(hostname)
        return (HostState.UP, HostState.UP) if record is None else (record.state, record.goal)
