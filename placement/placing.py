"""Place one family of gangs: claim hosts, fill them, and report until every gang is placed or given back."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from peloton.backoff import Backoff
from peloton.clock import Clock
from peloton.errors import PelotonError
from peloton.model.constraint import Label
from peloton.model.hostcounts import MATCH
from placement.core.host_estimates import HostEstimates, hosts_to_request
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape
from placement.core.plan import Plan, plan
from placement.core.reasons import (
    busy,
    host_of_volume,
    may_be_infeasible,
    no_host_fits,
    of_named,
    own_host_refuses,
    with_refusals,
)
from placement.core.strategy import Family, Strategy
from placement.metrics import CLAIMED, FAILED, PLACED, REJECTED, UNUSED
from placement.ports import NO_HOSTS, Acquired, Claims, Desired, Failure, GangQueue

Members = tuple[tuple[Needs, int], ...]
MAX_UNREPORTED = 100_000
RELEASE_SECONDS = 3.0
"""Longest time to release hosts while the engine stops."""
log = logging.getLogger(__name__)


LastResort = Callable[[Family, Sequence[Failure]], Awaitable[Sequence[Failure]]]


@dataclass(frozen=True, slots=True)
class Context:
    """What all families of an engine share."""

    strategy: Strategy
    queue: GangQueue
    claims: Claims
    clock: Clock
    slots: asyncio.Semaphore
    """Bounds the families that are placed at a time."""
    max_hosts: int = 1000
    patience: float = 2.0
    """Seconds that a gang waits for hosts which fit but are in use."""
    desired_host_patience: float = 100.0
    """Seconds that a gang waits for its desired host."""
    estimates: HostEstimates = field(default_factory=HostEstimates)
    last_resort: LastResort | None = None
    """Takes over gangs that found no place; returns the failures of those that go back."""
    unreported: deque[Failure] = field(default_factory=lambda: deque(maxlen=MAX_UNREPORTED))
    """Failures that could not be reported to resmgr yet. The leases of their gangs last while this engine
    shows signs of life."""


@dataclass(slots=True)
class _NoMatch:
    """Results of one pass: the needs for which no host came, and what whole gangs missed."""

    counts: dict[Needs, Mapping[str, int]] = field(default_factory=dict)
    details: dict[Needs, Sequence[str]] = field(default_factory=dict)
    """Why claimed hosts were refused."""
    missing: dict[Members, Members] = field(default_factory=dict)
    on_used_hosts: int = 0

    def needs_of(self, gang: Gang) -> Needs | None:
        return next((needs for needs, _ in gang.shape if needs in self.counts), None)


@dataclass(slots=True)
class _Held:
    """Claimed hosts, and the tasks on them as far as constraints are about tasks."""

    hosts: list[Host] = field(default_factory=list)
    tasks: dict[str, Mapping[Label, int]] = field(default_factory=dict)


class Placing:
    """Places the gangs of one family. More gangs may join while it runs."""

    def __init__(
        self,
        family: Family,
        context: Context,
        on_progress: Callable[[], None] = lambda: None,
        on_undesired: Callable[[Sequence[Gang]], None] = lambda gangs: None,
    ) -> None:
        """Call `on_progress` whenever gangs have been placed or given back.

        Call `on_undesired` with gangs that waited long enough for their desired host; they leave the family.
        """
        self._family = family
        self._context = context
        self._on_progress = on_progress
        self._on_undesired = on_undesired
        self._waiting: dict[Gang, float] = {}
        """Each gang with its monotonic time of arrival."""
        self._used_hosts: set[str] = set()
        """Hosts that already got a task of the job, for jobs that are spread."""
        self._between_passes = Backoff(0.1, 0.5, jitter=0.5)
        self._after_failure = Backoff(0.5, 10.0, jitter=0.5)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, gangs: Iterable[Gang]) -> None:
        """Add gangs of the family."""
        now = self._context.clock.monotonic()
        self._waiting.update((gang, now) for gang in gangs)

    async def run(self) -> None:
        """Place gangs until none waits."""
        while self._waiting:
            try:
                async with self._context.slots:
                    await self._pass()
                self._on_progress()
            except PelotonError as error:
                log.warning("hosts cannot be claimed: %s", error)
                await self._fail(
                    [Failure(gang, f"hosts cannot be claimed: {error}") for gang in self._waiting]
                )
                await self._after_failure.wait()
                continue
            self._after_failure.reset()
            if self._waiting:
                await self._between_passes.wait()
            else:
                self._between_passes.reset()

    async def _pass(self) -> None:
        """Try each gang once. Gangs without a match are given back, or stay for another pass."""
        no_match = _NoMatch()
        while gangs := self._candidates(no_match):
            await self._place_first(gangs[0], no_match)
        if self._family.to_volume:
            await self._fail(self._given_up(no_match))
            return
        if self._family.to_desired_host and not self._family.nowhere_else:
            self._undesire()
            return
        await self._fail(await self._last_resort(await self._with_shortages(self._given_up(no_match))))

    def _undesire(self) -> None:
        """Let gangs leave the family that waited long enough for their desired host."""
        now, patience = self._context.clock.monotonic(), self._context.desired_host_patience
        over = [gang for gang, since in self._waiting.items() if now - since >= patience]
        for gang in over:
            del self._waiting[gang]
        if over:
            self._on_undesired([gang.without_desired_host() for gang in over])

    def _candidates(self, no_match: _NoMatch) -> Sequence[Gang]:
        if not no_match.counts:
            return tuple(self._waiting)
        return tuple(gang for gang in self._waiting if no_match.needs_of(gang) is None)

    async def _place_first(self, first: Gang, no_match: _NoMatch) -> None:
        """Claim hosts until the first gang is placed or no more hosts come; report all that fits on them."""
        held, policy = _Held(), self._context.strategy.policy(self._family)
        try:
            while True:
                gangs = self._candidates(no_match)
                planned = plan(gangs, held.hosts, held.tasks, policy)
                if first not in planned.unplaced:
                    break
                if not await self._claim(planned, gangs, held, no_match):
                    no_match.missing[first.shape] = planned.missing
                    break
            for gang in planned.placed:
                del self._waiting[gang]
            await self._release(_unused(held.hosts, planned.placements))
            held.hosts = []
            await self._report(planned)
        finally:
            await self._release(held.hosts)

    async def _claim(self, planned: Plan, gangs: Sequence[Gang], held: _Held, no_match: _NoMatch) -> bool:
        """Add hosts for what the first gang misses to those held; return whether any came."""
        context = self._context
        needs = planned.missing[0][0]
        most, names = self._request(needs, planned, gangs)
        if needs.host_class.depends_on_tasks:
            # Which hosts will do is not known before: examine twice as many with each claim.
            most = max(most, min(context.max_hosts, 2 * len(held.hosts)))
        answer = await self._acquire(needs, most, names)
        context.estimates.learn(answer.hosts)
        CLAIMED.inc(len(answer.hosts))
        usable = [host for host in answer.hosts if host.hostname not in self._used_hosts]
        held_before = len(held.hosts)
        held.hosts += usable
        if usable and needs.host_class.depends_on_tasks:
            # Asked after the claim, so that tasks are seen that other engines placed before they gave the
            # hosts free.
            held.tasks.update(await context.queue.tasks_on([host.hostname for host in usable]))
        if len(usable) < len(answer.hosts):
            again = [host for host in answer.hosts if host.hostname in self._used_hosts]
            no_match.on_used_hosts = len(again)
            await self._release(again)
        if not usable:
            counts = of_named(answer.counts) if self._family.nowhere_else else answer.counts
            refusal = planned.failure(gangs[0]).refusal if held_before else None
            refused = refusal.counts if refusal is not None else {}
            # A host that fits, but whose volume is still in use, is one to wait for.
            in_use = refused.get(MATCH, 0) if self._family.to_volume else 0
            no_match.counts[needs] = with_refusals(counts, held_before - in_use, refused)
            no_match.details[needs] = refusal.details if refusal is not None else ()
        return bool(usable)

    def _request(self, needs: Needs, planned: Plan, gangs: Sequence[Gang]) -> tuple[int, Desired]:
        """Return how many hosts to claim for the gangs without a place, and which; none: any hosts."""
        context, family = self._context, self._family
        if family.to_desired_host:
            desired: dict[str, list[str]] = {}
            for gang in planned.unplaced:
                if gang.desired_host in desired or len(desired) < context.max_hosts:
                    desired.setdefault(gang.desired_host, []).append(gang.tasks[0].id)
            return len(desired), desired
        behind = [gang for gang in planned.unplaced if gang is not gangs[0]]
        most = hosts_to_request(
            context.estimates, needs, planned.missing, behind, context.max_hosts, family.even
        )
        return most + len(self._used_hosts), NO_HOSTS

    async def _acquire(self, needs: Needs, most: int, names: Desired) -> Acquired:
        """Claim hosts. When cancelled, wait for the answer so that its hosts can be released."""
        call = asyncio.ensure_future(self._context.claims.acquire(needs, most, names))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait({call}, timeout=RELEASE_SECONDS)
            if call.done() and not call.cancelled() and call.exception() is None:
                await self._release(call.result().hosts)
            raise

    async def _report(self, planned: Plan) -> None:
        """Report placements to resmgr, and release the hosts of those that it rejects."""
        placements = planned.placements
        if not placements:
            return
        if self._family.spread:
            self._used_hosts.update(placement.host.hostname for placement in placements)
        try:
            rejections = await self._context.queue.report(placements, ())
        except BaseException as error:
            await self._release([placement.host for placement in placements])
            if not isinstance(error, PelotonError):
                raise
            log.warning("placements cannot be reported: %s", error)
            self._context.unreported.extend(
                Failure(gang, f"placement not reported: {error}") for gang in planned.placed
            )
            return
        rejected: dict[str, set[str]] = {}
        for each in rejections:
            rejected.setdefault(each.offer_id, set()).add(each.run_id)
            log.info("placement of %s was rejected: %s", each.run_id, each.message)
        REJECTED.inc(len(rejections))
        PLACED.inc(sum(len(placement.tasks) for placement in placements) - len(rejections))
        await self._release([each.host for each in placements if _all_rejected(each, rejected)])

    def _given_up(self, no_match: _NoMatch) -> list[Failure]:
        """Return the gangs to give back, each with its reason."""
        now, failed = self._context.clock.monotonic(), []
        for gang, since in self._waiting.items():
            longest = min(self._context.strategy.longest, gang.time_out or self._context.strategy.longest)
            needs = no_match.needs_of(gang)
            if needs is not None:
                counts = no_match.counts[needs]
                patience = self._context.patience if busy(counts) else 0.0
                if now - since >= min(patience, longest):
                    failed.append(Failure(gang, self._reason(gang, needs, no_match), counts))
            elif now - since >= longest:
                failed.append(Failure(gang, f"not placed within {longest:g} s"))
        return failed

    def _reason(self, gang: Gang, needs: Needs, no_match: _NoMatch) -> str:
        counts, details = no_match.counts[needs], no_match.details[needs]
        if self._family.to_volume:
            return host_of_volume(gang, counts)
        if self._family.nowhere_else:
            return own_host_refuses(gang, counts, details)
        missing = no_match.missing.get(gang.shape, gang.shape)
        return no_host_fits(gang, missing, counts, no_match.on_used_hosts, details)

    async def _with_shortages(self, failed: Sequence[Failure]) -> list[Failure]:
        """Add why gangs would not fit on empty hosts either, as far as hostmgr knows."""
        unclear = [each for each in failed if each.counts and may_be_infeasible(each.gang, each.counts)]
        shapes = {each.gang.shape: Shape(each.gang.shape, self._family.spread) for each in unclear}
        try:
            shortages = await self._context.claims.compare(list(shapes.values())) if shapes else ()
        except PelotonError as error:
            log.warning("gangs cannot be compared with empty hosts: %s", error)
            return list(failed)
        found = dict(zip(shapes, shortages, strict=True))
        return [replace(each, shortage=found.get(each.gang.shape)) for each in failed]

    async def _last_resort(self, failed: Sequence[Failure]) -> Sequence[Failure]:
        """Let the engine take gangs over before they go back; return the failures of the others."""
        last_resort = self._context.last_resort
        if not failed or last_resort is None:
            return failed
        left = await last_resort(self._family, failed)
        kept = {failure.gang for failure in left}
        for failure in failed:
            if failure.gang not in kept:
                self._waiting.pop(failure.gang, None)
        return left

    async def _fail(self, failed: Sequence[Failure]) -> None:
        if not failed:
            return
        for failure in failed:
            self._waiting.pop(failure.gang, None)
        FAILED.inc(len(failed))
        try:
            await self._context.queue.report((), failed)
        except PelotonError as error:
            log.warning("%d gangs cannot be given back yet: %s", len(failed), error)
            self._context.unreported.extend(failed)

    async def _release(self, hosts: Sequence[Host]) -> None:
        """Release hosts. One that cannot be released is freed when its claim expires."""
        if not hosts:
            return
        UNUSED.inc(len(hosts))
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._context.claims.release(hosts)
        except (PelotonError, TimeoutError) as error:
            log.warning("%d claims cannot be released: %s", len(hosts), error)


def _unused(hosts: Iterable[Host], placements: Iterable[HostPlacement]) -> list[Host]:
    used = {placement.host.offer_id for placement in placements}
    return [host for host in hosts if host.offer_id not in used]


def _all_rejected(placement: HostPlacement, rejected: Mapping[str, set[str]]) -> bool:
    return all(task.run_id in rejected.get(placement.host.offer_id, ()) for task in placement.tasks)
