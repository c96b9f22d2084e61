"""The round of one family of gangs: claim hosts, fill them, report, until each gang is placed or given back.

A round takes passes, with pauses between them. A pass tries each gang once: hosts are claimed until the first
gang is placed or no more hosts come, then all that fits on them is reported. What no host came for waits for
another pass while hosts that fit are busy, and is given back when its patience is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from peloton.errors import IllegalTransition
from peloton.model.backoff import exponential
from peloton.model.constraint import Label
from peloton.model.hostcounts import MATCH
from peloton.model.shortage import Shortage
from placement.core.events import (
    CallFailed,
    Event,
    GivenBack,
    HostsClaimed,
    LabelsKnown,
    Rejection,
    Reported,
    ReservedTried,
    ShortagesKnown,
    Tick,
)
from placement.core.giving_up import NoMatch, Rules, given_up
from placement.core.host_estimates import HostEstimates, hosts_to_request
from placement.core.instructions import (
    ANY_HOST,
    AskLabels,
    Claim,
    Compare,
    FreeSlot,
    GiveBack,
    GiveBackLater,
    Instructions,
    LeaveDesiredHost,
    Release,
    Report,
    TakeSlot,
    TasksByHost,
    TryReserved,
    Wait,
)
from placement.core.model import Gang, Host, HostPlacement, Needs, Shape, Unplaced
from placement.core.plan import Plan, plan
from placement.core.reasons import may_be_infeasible, of_named, with_refusals
from placement.core.strategy import Family

PAUSE = 0.1, 0.5
"""The first and the longest pause between passes, in seconds."""
PAUSE_AFTER_FAILURE = 0.5, 10.0
"""The same after hosts could not be claimed."""
JITTER = 0.5


class Phase(Enum):
    """What a round waits for."""

    READY = "to be begun"
    WAITING_FOR_SLOT = "a slot"
    CLAIMING = "hosts"
    ASKING = "labels of tasks on hosts"
    REPORTING = "resmgr to take placements"
    COMPARING = "shortages"
    TRYING_RESERVED = "what reserved hosts are good for"
    GIVING_BACK = "resmgr to take gangs back"
    GIVING_ALL_BACK = "the same, after hosts could not be claimed"
    PAUSING = "the next pass"
    ENDED = "nothing"


@dataclass(slots=True)
class _Held:
    """Claimed hosts, and the tasks on them as far as constraints are about tasks."""

    hosts: list[Host] = field(default_factory=list)
    tasks: dict[str, Mapping[Label, int]] = field(default_factory=dict)


class Round:
    """Places the gangs of one family. More gangs may join until it has ended."""

    def __init__(self, family: Family, rules: Rules, estimates: HostEstimates) -> None:
        self._family = family
        self._rules = rules
        self._policy = rules.strategy.policy(family)
        self._estimates = estimates
        self._phase = Phase.READY
        self._waiting: dict[Gang, float] = {}
        """Each gang with its time of arrival."""
        self._used_hosts: set[str] = set()
        """Hosts that already got a task of the job, for jobs that are spread."""
        self._no_match = NoMatch()
        self._held = _Held()
        self._first: Gang | None = None
        """The gang for which hosts are claimed."""
        self._planned: Plan | None = None
        self._reporting: tuple[HostPlacement, ...] = ()
        self._unplaced: tuple[Unplaced, ...] = ()
        """Gangs to be given back, until that is done."""
        self._passes = 0
        self._failures = 0
        """Failures in a row to claim hosts."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def ended(self) -> bool:
        """Return whether every gang is placed or given back."""
        return self._phase is Phase.ENDED

    @property
    def waiting(self) -> tuple[Gang, ...]:
        """Return the gangs that are neither placed nor given back, in the order of their arrival."""
        return tuple(self._waiting)

    def add(self, gangs: Iterable[Gang], now: float) -> None:
        """Add gangs of the family."""
        assert not self.ended, "gangs join a round that has ended"
        self._waiting.update((gang, now) for gang in gangs)

    def handle(self, event: Event, now: float) -> Instructions:
        """Return what follows from an event. Raises IllegalTransition for one that is not waited for."""
        match self._phase, event:
            case Phase.READY, Tick():
                return self._await_slot()
            case Phase.WAITING_FOR_SLOT, Tick():
                return self._begin_pass(now)
            case Phase.CLAIMING, HostsClaimed() as claimed:
                return self._add_hosts(claimed, now)
            case Phase.ASKING, LabelsKnown(tasks):
                self._held.tasks.update(tasks)
                return self._plan(now)
            case ((Phase.CLAIMING | Phase.ASKING), CallFailed(error)):
                return self._give_all_back(error)
            case Phase.REPORTING, Reported(rejections):
                return (*self._release_rejected(rejections), *self._next_gang(now))
            case Phase.REPORTING, CallFailed(error):
                return (*self._report_later(error), *self._next_gang(now))
            case Phase.COMPARING, ShortagesKnown(shortages):
                self._add_shortages(shortages)
                return self._try_reserved()
            case Phase.COMPARING, CallFailed():
                return self._try_reserved()
            case Phase.TRYING_RESERVED, ReservedTried(left):
                return self._keep_taken_over(left)
            case Phase.GIVING_BACK, GivenBack():
                return self._end_pass()
            case Phase.GIVING_ALL_BACK, GivenBack():
                return self._pause_after_failure()
            case Phase.PAUSING, Tick():
                return self._await_slot() if self._waiting else self._end()
            case _:
                waits = f"a round that waits for {self._phase.value}"
                raise IllegalTransition(f"{waits} takes no {type(event).__name__}")

    def stop(self) -> Instructions:
        """End, whatever the round waits for; return the release of the hosts that it holds."""
        hosts = (*self._held.hosts, *(placement.host for placement in self._reporting))
        self._held, self._reporting = _Held(), ()
        self._phase = Phase.ENDED
        return _release(hosts)

    # A pass.

    def _await_slot(self) -> Instructions:
        self._phase = Phase.WAITING_FOR_SLOT
        return (TakeSlot(),)

    def _begin_pass(self, now: float) -> Instructions:
        self._no_match = NoMatch()
        return self._next_gang(now)

    def _next_gang(self, now: float) -> Instructions:
        """Begin to claim hosts for the next gang that was not tried in this pass."""
        self._planned, self._reporting = None, ()
        self._first = next(iter(self._candidates()), None)
        return self._plan(now) if self._first is not None else self._judge(now)

    def _candidates(self) -> Sequence[Gang]:
        if not self._no_match.counts:
            return tuple(self._waiting)
        return tuple(gang for gang in self._waiting if self._no_match.needs_of(gang) is None)

    def _plan(self, now: float) -> Instructions:
        """Plan on the hosts that are held; claim more where the first gang has no place on them."""
        gangs = self._candidates()
        self._planned = planned = plan(gangs, self._held.hosts, self._held.tasks, self._policy)
        if self._first not in planned.unplaced:
            return self._use_hosts(planned, now)
        self._phase = Phase.CLAIMING
        return (self._claim(planned),)

    def _claim(self, planned: Plan) -> Claim:
        """Return which hosts to claim for the gangs without a place, and how many."""
        rules, family, needs = self._rules, self._family, planned.missing[0][0]
        if family.to_desired_host:
            names = _desired_hosts(planned.unplaced, rules.max_hosts)
            most = len(names)
        else:
            behind = planned.unplaced[1:]
            most = hosts_to_request(
                self._estimates, needs, planned.missing, behind, rules.max_hosts, family.even
            )
            if self._policy.score is not None:
                most = rules.max_hosts  # hostmgr does not know the score: choose among many
            most, names = most + len(self._used_hosts), ANY_HOST
        if needs.host_class.depends_on_tasks:
            # Which hosts will do is not known before: examine twice as many with each claim.
            most = max(most, min(rules.max_hosts, 2 * len(self._held.hosts)))
        return Claim(needs, most, names, not names and self._policy.fullest_first(needs))

    def _add_hosts(self, claimed: HostsClaimed, now: float) -> Instructions:
        """Add claimed hosts to those held, without those that got a task of the same spread job before."""
        assert self._planned is not None
        needs = self._planned.missing[0][0]
        self._estimates.learn(claimed.hosts)
        usable = [host for host in claimed.hosts if host.hostname not in self._used_hosts]
        again = [host for host in claimed.hosts if host.hostname in self._used_hosts]
        if again:
            self._no_match.on_used_hosts = len(again)
        if not usable:
            self._note_no_match(claimed, needs, self._planned)
            return (*_release(again), *self._use_hosts(self._planned, now))
        self._held.hosts += usable
        if needs.host_class.depends_on_tasks:
            # Asked after the claim, so that tasks are seen that other engines placed before they gave the
            # hosts free.
            self._phase = Phase.ASKING
            return (*_release(again), AskLabels(tuple(host.hostname for host in usable)))
        return (*_release(again), *self._plan(now))

    def _note_no_match(self, claimed: HostsClaimed, needs: Needs, planned: Plan) -> None:
        """Note why no host came for the first gang: it is not tried again in this pass."""
        assert self._first is not None
        no_match, held = self._no_match, len(self._held.hosts)
        counts = of_named(claimed.counts) if self._family.nowhere_else else claimed.counts
        refusal = planned.failure(self._first).refusal if held else None
        refused = refusal.counts if refusal is not None else {}
        # A host that fits, but whose volume is still in use, is one to wait for.
        in_use = refused.get(MATCH, 0) if self._family.to_volume else 0
        no_match.counts[needs] = with_refusals(counts, held - in_use, refused)
        no_match.details[needs] = (*(refusal.details if refusal is not None else ()), *claimed.held)
        no_match.missing[self._first.shape] = planned.missing

    def _use_hosts(self, planned: Plan, now: float) -> Instructions:
        """Report what is placed, and release the hosts that are not used."""
        for gang in planned.placed:
            del self._waiting[gang]
        placements = planned.placements
        used = {placement.host.offer_id for placement in placements}
        unused = _release([host for host in self._held.hosts if host.offer_id not in used])
        self._held = _Held()
        if not placements:
            return (*unused, *self._next_gang(now))
        if self._family.spread:
            self._used_hosts.update(placement.host.hostname for placement in placements)
        self._phase, self._reporting = Phase.REPORTING, placements
        return (*unused, Report(placements))

    def _release_rejected(self, rejections: Sequence[Rejection]) -> Instructions:
        """Release the hosts of placements that resmgr rejects."""
        rejected: dict[str, set[str]] = {}
        for each in rejections:
            rejected.setdefault(each.offer_id, set()).add(each.run_id)
        return _release([each.host for each in self._reporting if _all_rejected(each, rejected)])

    def _report_later(self, error: str) -> Instructions:
        """Release the hosts of placements that could not be reported; their gangs go back."""
        assert self._planned is not None
        unplaced = tuple(Unplaced(gang, f"placement not reported: {error}") for gang in self._planned.placed)
        return (*_release([each.host for each in self._reporting]), GiveBackLater(unplaced))

    # The end of a pass.

    def _judge(self, now: float) -> Instructions:
        """Decide which gangs have waited long enough."""
        family, rules = self._family, self._rules
        if family.to_desired_host and not family.nowhere_else and not family.to_volume:
            return (*self._leave_desired_hosts(now), *self._end_pass())
        self._unplaced = given_up(self._waiting, self._no_match, family, rules, now)
        if family.to_volume:
            return self._give_back()
        shapes = self._unclear_shapes()
        if not shapes:
            return self._try_reserved()
        self._phase = Phase.COMPARING
        return (Compare(tuple(Shape(members, family.spread) for members in shapes)),)

    def _leave_desired_hosts(self, now: float) -> Instructions:
        """Let gangs leave the family that waited long enough for their desired host."""
        patience = self._rules.desired_host_patience
        over = [gang for gang, since in self._waiting.items() if now - since >= patience]
        for gang in over:
            del self._waiting[gang]
        return (LeaveDesiredHost(tuple(gang.without_desired_host() for gang in over)),) if over else ()

    def _unclear_shapes(self) -> list[tuple[tuple[Needs, int], ...]]:
        """Return the shapes of gangs that might not fit on empty hosts either, each once."""
        unclear = (each for each in self._unplaced if each.counts)
        return list({each.gang.shape: None for each in unclear if may_be_infeasible(each.gang, each.counts)})

    def _add_shortages(self, shortages: Sequence[Shortage | None]) -> None:
        found = dict(zip(self._unclear_shapes(), shortages, strict=True))
        self._unplaced = tuple(replace(each, shortage=found.get(each.gang.shape)) for each in self._unplaced)

    def _try_reserved(self) -> Instructions:
        """Have reserved hosts tried before gangs go back."""
        if not self._unplaced:
            return self._end_pass()
        self._phase = Phase.TRYING_RESERVED
        return (TryReserved(self._family, self._unplaced),)

    def _keep_taken_over(self, left: Sequence[Unplaced]) -> Instructions:
        """Give back the gangs that are not placed on reserved hosts and wait for none."""
        kept = {each.gang for each in left}
        for each in self._unplaced:
            if each.gang not in kept:
                self._waiting.pop(each.gang, None)
        self._unplaced = tuple(left)
        return self._give_back()

    def _give_back(self) -> Instructions:
        unplaced, self._unplaced = self._unplaced, ()
        if not unplaced:
            return self._end_pass()
        for each in unplaced:
            self._waiting.pop(each.gang, None)
        self._phase = Phase.GIVING_BACK
        return (GiveBack(unplaced),)

    def _end_pass(self) -> Instructions:
        self._failures = 0
        if not self._waiting:
            return (FreeSlot(), *self._end())
        self._passes += 1
        self._phase = Phase.PAUSING
        return FreeSlot(), Wait(exponential(self._passes, *PAUSE), JITTER)

    def _give_all_back(self, error: str) -> Instructions:
        """Give all gangs back: hosts cannot be claimed."""
        held, self._held = _release(self._held.hosts), _Held()
        unplaced = tuple(Unplaced(gang, f"hosts cannot be claimed: {error}") for gang in self._waiting)
        self._waiting.clear()
        self._phase = Phase.GIVING_ALL_BACK
        return (*held, FreeSlot(), GiveBack(unplaced))

    def _pause_after_failure(self) -> Instructions:
        self._failures += 1
        self._phase = Phase.PAUSING
        return (Wait(exponential(self._failures, *PAUSE_AFTER_FAILURE), JITTER),)

    def _end(self) -> Instructions:
        self._phase = Phase.ENDED
        return ()


def _desired_hosts(gangs: Iterable[Gang], most: int) -> TasksByHost:
    """Return the desired hosts of gangs of one task, up to `most`, each with the tasks for it."""
    desired: dict[str, list[str]] = {}
    for gang in gangs:
        if gang.desired_host in desired or len(desired) < most:
            desired.setdefault(gang.desired_host, []).append(gang.tasks[0].id)
    return desired


def _release(hosts: Sequence[Host]) -> Instructions:
    return (Release(tuple(hosts)),) if hosts else ()


def _all_rejected(placement: HostPlacement, rejected: Mapping[str, set[str]]) -> bool:
    return all(task.run_id in rejected.get(placement.host.offer_id, ()) for task in placement.tasks)
