"""Interpret dry runs: answer requests for plans, over hosts that are not claimed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import NoReturn

from peloton.backoff import Backoff, shortened
from peloton.clock import Clock
from peloton.errors import PelotonError
from placement.core.dry_run import DryRun, GroupDryRun, Question
from placement.core.events import CallFailed, Event, HostsClaimed, ShortagesKnown, Tick
from placement.core.giving_up import Rules
from placement.core.instructions import AskLabels, Claim, Compare, Wait
from placement.core.plans import GroupPlan, PlanRequest
from placement.core.round import Round
from placement.ports import Hostmgr, Resmgr

ANSWER_EARLIER = 2.0
"""Seconds of the time for an answer that are left for its way."""
log = logging.getLogger(__name__)


class Planner:
    """Answers requests one after the other, beside the engine."""

    def __init__(self, rules: Rules, resmgr: Resmgr, hostmgr: Hostmgr, clock: Clock, wait: float) -> None:
        """Wait `wait` seconds at most in one question for requests."""
        self._rules = rules
        self._resmgr = resmgr
        self._hostmgr = hostmgr
        self._clock = clock
        self._wait = wait
        self._backoff = Backoff(0.1, 5.0, jitter=0.5)

    async def run(self) -> NoReturn:
        """Answer requests. Resmgr and hostmgr may come and go."""
        while True:
            try:
                request = await self._resmgr.take_plan(self._wait)
                self._backoff.reset()
                if request is not None:
                    await self._resmgr.answer_plan(request.id, await self.plan(request))
            except PelotonError as error:
                log.debug("no plan is made: %s", error)
                await self._backoff.wait()

    async def plan(self, request: PlanRequest) -> list[GroupPlan]:
        """Return where the gangs of each group would go now."""
        plan = DryRun(self._rules)
        found: list[GroupPlan] = []
        end = asyncio.get_running_loop().time() + request.seconds - ANSWER_EARLIER
        for each in request.groups:
            group = plan.group(each)
            with suppress(TimeoutError):
                async with asyncio.timeout_at(end):
                    await self._place(plan, group)
            found.append(group.plan(request.seconds))
        return found

    async def _place(self, plan: DryRun, group: GroupDryRun) -> None:
        for round in group.rounds(self._clock.monotonic()):
            await self._finish(plan, group, round)
            await asyncio.sleep(0)

    async def _finish(self, plan: DryRun, group: GroupDryRun, round: Round) -> None:
        event: Event = Tick()
        while (question := group.step(round, event, self._clock.monotonic())) is not None:
            try:
                event = await self._answer(plan, question)
            except PelotonError as error:
                plan.hosts.fail()
                event = CallFailed(str(error))

    async def _answer(self, plan: DryRun, question: Question) -> Event:
        match question:
            case Claim():
                return await self._claim(plan, question)
            case AskLabels(hostnames):
                return plan.labels_known(question, await self._resmgr.labels_on(hostnames))
            case Compare(shapes):
                return ShortagesKnown(await self._hostmgr.compare(shapes))
            case Wait(seconds, jitter):
                await asyncio.sleep(shortened(seconds, jitter))
                return Tick()

    async def _claim(self, plan: DryRun, claim: Claim) -> HostsClaimed:
        while not isinstance(answer := plan.hosts.claim(claim), HostsClaimed):
            plan.hosts.add(claim.needs, await self._hostmgr.find(answer))
        return answer
