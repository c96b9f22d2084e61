"""Hosts that the simulated host manager reserves for gangs that find no place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from hostmgr.core.claims.claim import Claim
from hostmgr.core.reservations.queue import Progress
from hostmgr.core.reservations.replanning import Replanning
from hostmgr.core.runs.ends import info_of, to_read
from hostmgr.core.state.feasibility import GangShape
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.term import Term
from peloton.errors import NotFound
from peloton.model.ids import MesosTaskId, Run, parse_mesos_task_id
from simulator.daemons.hostmgr_answers import Found, FreeHost, Reserved
from simulator.world.kernel import Life
from simulator.world.network import Caller
from simulator.world.universe import Universe

PLANS = 2
"""Plans of unchanged hosts: the second may give hosts to gangs that lost theirs in the first one."""
PLAN_SECONDS = 5.0
"""Least time between two plans for the same gangs where nothing fails."""
SAME_SECONDS = 60.0
"""After so long, hosts that have not changed are planned again: the ends of runs are nearer."""
_MOMENT = 1e-6


class Reservations:
    """Makes and renews reservations, and opens reserved hosts to runs that end in time."""

    def __init__(
        self,
        universe: Universe,
        life: Life,
        core: Term,
        ids: Iterator[str],
        show: Callable[[Claim], FreeHost],
    ) -> None:
        """`ids` are those of new claims; `show` returns a claimed host as placement gets it."""
        self._universe = universe
        self._kernel = universe.kernel
        self._life = life
        self._core = core
        self._ids = ids
        self._show = show
        self._replanning = Replanning()
        self._plans = 0
        """Plans since the hosts have changed."""
        self._planned_at = -math.inf

    def changed(self) -> None:
        """Note that hosts, or what is reserved, have changed."""
        self._plans = 0

    @property
    def unsettled(self) -> bool:
        """Whether another plan may differ from the last one, though no time passes."""
        return self._plans < PLANS and len(self._core.reservations) > 0

    def expire(self) -> bool:
        """End those whose engines are silent, and plan anew; return whether there are new plans."""
        reservations = self._core.reservations
        if not self._universe.quiet:
            reservations.expire(self._kernel.now)
        return len(reservations) > 0 and self._plan()

    def _plan(self) -> bool:
        """Plan anew, and return True; where nothing fails not at once again, and later of unchanged hosts."""
        now = self._kernel.now
        least = PLAN_SECONDS if self._plans < PLANS else SAME_SECONDS
        if self._universe.quiet and now - self._planned_at < least - _MOMENT:
            return False
        self._plans, self._planned_at = self._plans + 1, now
        self._learn()
        self._replan()
        return True

    def reserve(self, caller: Caller, wishes: Sequence[tuple[str, GangShape]]) -> list[Reserved]:
        """Make or renew reservations."""
        now = self._kernel.now
        reservations = self._core.reservations
        new = [id for id, shape in wishes if reservations.renew(id, shape, now, caller.instance)]
        if new:
            self.changed()
            self._planned_at = -math.inf
        if self._replanning.is_due(bool(new), now):
            self._plan()
        return [self._reserved(id, caller.instance) for id, _ in wishes]

    def _reserved(self, id: str, owner: str) -> Reserved:
        now = self._kernel.now
        try:
            found = self._core.reservations.progress(id, self._ids, now, owner)
        except NotFound:
            found = Progress()
        later = [part.free_from for part in found.parts if part.free_from is None or part.free_from > now]
        known = [each for each in later if each is not None]
        return Reserved(
            found,
            tuple(map(self._show, found.claims)),
            tuple(self._core.hosts.hostname(part.agent_id) for part in found.parts),
            None if found.start is None else max(0.0, found.start - now),
            min(known) - now if known else None,
            len(found.parts) - len(later),
        )

    def cancel(self, ids: Sequence[str]) -> None:
        """End reservations."""
        self._core.reservations.cancel(ids)

    def backfill(self, caller: Caller, run_id: MesosTaskId, want: HostFilter) -> Found:
        """Claim hosts, reserved ones among them, for a run that ends in time."""
        reservations, now = self._core.reservations, self._kernel.now
        if not reservations.open_for(0, now):
            return Found((), {})
        longest = self._longest(parse_mesos_task_id(run_id))
        opened = reservations.open_for(longest, now) if longest else frozenset()
        if not opened:
            return Found((), {}, True)
        acquired = self._core.acquire(
            replace(want, opened=opened), self._ids, now, caller.instance, float(longest)
        )
        return Found(tuple(map(self._show, acquired.claims)), {}, True)

    def _longest(self, run: Run) -> int:
        job = self._universe.store.jobs.get(run.job_id)
        if job is None or run.instance not in job.tasks:
            return 0
        return job.specs[job.tasks[run.instance].config_version].sla.max_running_time

    def _learn(self) -> None:
        runs, kernel = self._core.runs, self._kernel
        for text in to_read(self._core.reservations.candidates(), runs):
            run = parse_mesos_task_id(text)
            job = self._universe.store.jobs.get(run.job_id)
            runtime = job.tasks.get(run.instance) if job is not None else None
            if job is None or runtime is None:
                continue
            spec = job.specs[runtime.config_version]
            info = info_of(run, runtime, spec, kernel.now, kernel.wall(self._life))
            if info is not None:
                runs.learn(text, info)

    def _replan(self) -> None:
        if self._replanning.begin(self._kernel.now):
            self._core.reservations.replan(self._kernel.now)
            self._replanning.end()
