"""Placing one family of gangs: claim hosts, fill them, hand in, until every gang is settled."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from peloton.backoff import Backoff
from peloton.clock import Clock
from peloton.errors import PelotonError
from placement.core.host_estimates import Sizes, wanted
from placement.core.model import Filling, Gang, Host, Needs, Shape, Use
from placement.core.reasons import busy, doubtful, no_host_fits
from placement.core.strategy import Family, Strategy
from placement.metrics import CLAIMED, FAILED, PLACED, REJECTED, UNUSED
from placement.ports import Acquired, Claims, Failure, GangQueue

Members = tuple[tuple[Needs, int], ...]
MOST_OWED = 100_000
RELEASE_SECONDS = 3.0
"""For giving hosts back while the engine stops."""
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Parts:
    """What all rounds of an engine share."""

    strategy: Strategy
    queue: GangQueue
    claims: Claims
    clock: Clock
    slots: asyncio.Semaphore
    """How many families are worked on at once."""
    max_hosts: int = 1000
    patience: float = 2.0
    sizes: Sizes = field(default_factory=Sizes)
    owed: deque[Failure] = field(default_factory=lambda: deque(maxlen=MOST_OWED))
    """Gangs that go back, of which resmgr could not be told yet: while this engine is heard of, their lease
    lasts."""


@dataclass(slots=True)
class _Barren:
    """A pass over the family: the needs for which no host came, and what was missing of whole gangs."""

    counts: dict[Needs, Mapping[str, int]] = field(default_factory=dict)
    missing: dict[Members, Members] = field(default_factory=dict)
    on_used_hosts: int = 0

    def needs_of(self, gang: Gang) -> Needs | None:
        return next((needs for needs, _ in gang.shape if needs in self.counts), None)


class Round:
    """Gangs of one family. More may join while it lasts."""

    def __init__(self, family: Family, parts: Parts, settled: Callable[[], None] = lambda: None) -> None:
        """`settled` is called when gangs have gone."""
        self._family = family
        self._parts = parts
        self._settled = settled
        self._waiting: dict[Gang, float] = {}
        """Each with the time, monotonic, when it came."""
        self._used_hosts: set[str] = set()
        """Where the job that is to be spread has got a task."""
        self._soon = Backoff(0.1, 0.5, jitter=0.5)
        self._after_failure = Backoff(0.5, 10.0, jitter=0.5)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, gangs: Iterable[Gang]) -> None:
        now = self._parts.clock.monotonic()
        self._waiting.update((gang, now) for gang in gangs)

    async def run(self) -> None:
        """Returns when no gang waits any more."""
        while self._waiting:
            try:
                async with self._parts.slots:
                    await self._pass()
                self._settled()
            except PelotonError as error:
                log.warning("hosts cannot be claimed: %s", error)
                await self._fail(
                    [Failure(gang, f"hosts cannot be claimed: {error}") for gang in self._waiting]
                )
                await self._after_failure.wait()
                continue
            self._after_failure.reset()
            if self._waiting:
                await self._soon.wait()
            else:
                self._soon.reset()

    async def _pass(self) -> None:
        """Give each gang one chance. Those that found nothing go back, or stay for another pass."""
        barren = _Barren()
        while gangs := self._hopeful(barren):
            await self._turn(gangs[0], barren)
        await self._fail(await self._compared(self._given_up(barren)))

    def _hopeful(self, barren: _Barren) -> Sequence[Gang]:
        if not barren.counts:
            return tuple(self._waiting)
        return tuple(gang for gang in self._waiting if barren.needs_of(gang) is None)

    async def _turn(self, first: Gang, barren: _Barren) -> None:
        """Claim hosts until the first gang has its places or no more come; hand in what fits on them."""
        hosts: list[Host] = []
        try:
            while True:
                gangs = self._hopeful(barren)
                filling = self._parts.strategy.fill(self._family, hosts, gangs)
                if first not in filling.left:
                    break
                if not await self._claim(filling, gangs, hosts, barren):
                    barren.missing[first.shape] = filling.missing
                    break
            for gang in filling.placed:
                del self._waiting[gang]
            await self._release(_unused(hosts, filling.uses))
            hosts = []
            await self._hand_in(filling)
        finally:
            await self._release(hosts)

    async def _claim(
        self, filling: Filling, gangs: Sequence[Gang], hosts: list[Host], barren: _Barren
    ) -> bool:
        """Add to `hosts` what the first gang misses; whether any came."""
        needs = filling.missing[0][0]
        behind = [gang for gang in filling.left if gang is not gangs[0]]
        most = wanted(self._parts.sizes, needs, filling.missing, behind, self._parts.max_hosts)
        answer = await self._acquire(needs, most + len(self._used_hosts))
        self._parts.sizes.learn(answer.hosts)
        CLAIMED.inc(len(answer.hosts))
        usable = [host for host in answer.hosts if host.hostname not in self._used_hosts]
        hosts += usable
        if len(usable) < len(answer.hosts):
            again = [host for host in answer.hosts if host.hostname in self._used_hosts]
            barren.on_used_hosts = len(again)
            await self._release(again)
        if not usable:
            barren.counts[needs] = answer.counts
        return bool(usable)

    async def _acquire(self, needs: Needs, most: int) -> Acquired:
        """Told to stop meanwhile, it waits for the answer, so that the hosts can be released."""
        call = asyncio.ensure_future(self._parts.claims.acquire(needs, most))
        try:
            return await asyncio.shield(call)
        except asyncio.CancelledError:
            await asyncio.wait({call}, timeout=RELEASE_SECONDS)
            if call.done() and not call.cancelled() and call.exception() is None:
                await self._release(call.result().hosts)
            raise

    async def _hand_in(self, filling: Filling) -> None:
        uses = filling.uses
        if not uses:
            return
        if self._family.spread:
            self._used_hosts.update(use.host.hostname for use in uses)
        try:
            rejections = await self._parts.queue.settle(uses, ())
        except BaseException as error:
            await self._release([use.host for use in uses])
            if not isinstance(error, PelotonError):
                raise
            log.warning("placements cannot be handed in: %s", error)
            self._parts.owed.extend(Failure(gang, f"not handed in: {error}") for gang in filling.placed)
            return
        rejected: dict[str, set[str]] = {}
        for each in rejections:
            rejected.setdefault(each.offer_id, set()).add(each.run_id)
            log.info("placement of %s was not taken: %s", each.run_id, each.message)
        REJECTED.inc(len(rejections))
        PLACED.inc(sum(len(use.tasks) for use in uses) - len(rejections))
        await self._release([use.host for use in uses if _refused(use, rejected)])

    def _given_up(self, barren: _Barren) -> list[Failure]:
        """The gangs for which it is over, each with its reason."""
        now, failed = self._parts.clock.monotonic(), []
        for gang, since in self._waiting.items():
            longest = min(self._parts.strategy.longest, gang.time_out or self._parts.strategy.longest)
            needs = barren.needs_of(gang)
            if needs is not None:
                counts = barren.counts[needs]
                patience = self._parts.patience if busy(counts) else 0.0
                if now - since >= min(patience, longest):
                    missing = barren.missing.get(gang.shape, gang.shape)
                    reason = no_host_fits(gang, missing, counts, barren.on_used_hosts)
                    failed.append(Failure(gang, reason, counts))
            elif now - since >= longest:
                failed.append(Failure(gang, f"not placed within {longest:g} s"))
        return failed

    async def _compared(self, failed: Sequence[Failure]) -> list[Failure]:
        """With what keeps gangs from empty hosts too, as far as hostmgr can tell now."""
        asked = [failure for failure in failed if failure.counts and doubtful(failure.gang, failure.counts)]
        shapes = {each.gang.shape: Shape(each.gang.shape, self._family.spread) for each in asked}
        try:
            shortages = await self._parts.claims.compare(list(shapes.values())) if shapes else ()
        except PelotonError as error:
            log.warning("gangs cannot be compared with empty hosts: %s", error)
            return list(failed)
        found = dict(zip(shapes, shortages, strict=True))
        return [replace(each, shortage=found.get(each.gang.shape)) for each in failed]

    async def _fail(self, failed: Sequence[Failure]) -> None:
        if not failed:
            return
        for failure in failed:
            self._waiting.pop(failure.gang, None)
        FAILED.inc(len(failed))
        try:
            await self._parts.queue.settle((), failed)
        except PelotonError as error:
            log.warning("%d gangs cannot be given back yet: %s", len(failed), error)
            self._parts.owed.extend(failed)

    async def _release(self, hosts: Sequence[Host]) -> None:
        """A host that cannot be released comes back when the claim ends."""
        if not hosts:
            return
        UNUSED.inc(len(hosts))
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self._parts.claims.release(hosts)
        except (PelotonError, TimeoutError) as error:
            log.warning("%d claims cannot be released: %s", len(hosts), error)


def _unused(hosts: Iterable[Host], uses: Iterable[Use]) -> list[Host]:
    used = {use.host.offer_id for use in uses}
    return [host for host in hosts if host.offer_id not in used]


def _refused(use: Use, rejected: Mapping[str, set[str]]) -> bool:
    """Whether no task of it was taken."""
    return all(task.run_id in rejected.get(use.host.offer_id, ()) for task in use.tasks)
