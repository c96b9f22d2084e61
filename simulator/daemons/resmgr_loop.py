"""The loop of the simulated resource manager: cycles of admission, and periodic work while there is some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from peloton.errors import PelotonError
from peloton.model.ids import Run
from peloton.model.states import TaskState
from resmgr.core.placing.expiry import AT_ONCE
from resmgr.core.preemption.policy import Victim
from resmgr.core.scheduler import Scheduler
from simulator.daemons.resmgr_polls import Polls
from simulator.daemons.resmgr_term import Term
from simulator.daemons.translate import resmgr_shape
from simulator.world.kernel import Timer

LEASE_SECONDS = 1.0
SPARE_SECONDS = 2.0
FEASIBILITY_SECONDS = 1.0
_MOMENT = 1e-6
"""Less than this is no time."""


class Loop:
    """Lets time pass for the scheduler."""

    def __init__(self, term: Term, polls: Polls) -> None:
        self._term = term
        self._kernel = term.kernel
        self._scheduler = term.scheduler
        self._polls = polls
        self.is_open = False
        """Whether the stored tasks on hosts are known: nothing is admitted before."""
        self.on_admission: Callable[[Scheduler, bool], None] | None = None
        """Called before each cycle of admission with False, after it with True."""
        self.victims: list[tuple[float, Victim]] = []
        """Gangs that were preempted, and when."""
        self.preempted: set[Run] = set()
        """Their runs."""
        self._turn: Timer | None = None
        self._turn_at = 0.0
        self._last_turn = -1.0
        self._sharing = self._preempting = False
        self._sparing = self._leasing = self._comparing = False
        self._moved = False
        """Whether something has changed since a cycle was last set for the demand."""

    def wake(self) -> None:
        """Have a cycle run soon where the scheduler has something to do; answer who waits."""
        self.share_later()
        scheduler = self._scheduler
        if scheduler.changed:
            self._moved = True
            if scheduler.pending.active or not self._term.universe.quiet:
                self._cycle_at(max(self._kernel.now, self._last_turn + self._term.options.admission_pause))
            else:
                self.watch_deadlines()  # no gang waits for admission
        self._polls.answer()

    def _cycle_at(self, when: float) -> None:
        if not self.is_open:
            return
        if self._turn is not None:
            if self._turn_at <= when:
                return
            self._turn.cancel()
        self._turn_at = when
        self._turn = self._kernel.after(max(0.0, when - self._kernel.now), self._term.life, self._cycle)

    def _cycle(self) -> None:
        self._turn = None
        self._kernel.point(self._term.life, "before a cycle of admission")
        scheduler, now = self._scheduler, self._kernel.now
        self._last_turn = now
        late = scheduler.expire(now) >= AT_ONCE
        if self.on_admission is not None:
            self.on_admission(scheduler, False)
        more = scheduler.admit(now) or late
        if self.on_admission is not None:
            self.on_admission(scheduler, True)
        scheduler.reasons.flush(now)
        self._polls.answer()
        if more:
            # The rest follows at once; entitlement that is due because of demand has a time of its own.
            self._cycle_at(now + self._term.options.admission_pause)
        elif (due := scheduler.deadlines.next()) is not None:
            self._cycle_at(max(due, now + self._term.options.admission_pause))
        self._watch_demand()
        self.look_after()

    def _watch_demand(self) -> None:
        """Run the next cycle in time where queues wait for entitlement to follow demand."""
        if not self._scheduler.pending.active or self._scheduler.tree.capacity is None:
            return
        if not self._term.universe.quiet:
            self._cycle_at(self._kernel.now + self._term.options.admission_interval)
        elif self._moved:
            # Where nothing has changed since, a cycle decides what the one before it did.
            self._moved = False
            self._cycle_at(self._kernel.now + self._term.options.limits.sharing_interval)

    def watch_deadlines(self) -> None:
        """Run a cycle when the next deadline has come."""
        due = self._scheduler.deadlines.next()
        if due is not None:
            self._cycle_at(max(due, self._kernel.now))

    def look_after(self) -> None:
        """Begin the periodic work that there is something for."""
        if self._scheduler.pending.active:
            self.preempt_later()
        # Where nothing fails no lease ends.
        if not self._leasing and (
            self._scheduler.placements.abandoned if self._term.universe.quiet else len(self._scheduler.leases)
        ):
            self._leasing = True
            self._term.after(LEASE_SECONDS, self._expire_leases)
        if not self._comparing and self._scheduler.infeasible.shapes():
            self._comparing = True
            self._term.after(FEASIBILITY_SECONDS, self._compare)

    def share_later(self) -> None:
        """Share the capacity at the next turn of the interval, once something has changed."""
        if not self._sharing:
            self._sharing = True
            self._at_turn(self._term.options.entitlement_interval, self._share)

    def _share(self) -> None:
        self._sharing = False
        self._scheduler.entitle()
        if not self._term.universe.quiet:
            self.wake()  # has the next one set, too
            return
        # What follows from it alone changes nothing that entitlement depends on, unless gangs are admitted.
        self._sharing = True
        self.wake()
        self._sharing = False

    def _expire_leases(self) -> None:
        self._leasing = False
        self._polls.renew_leases()
        present = {*self._term.universe.present("placement"), *self._term.universe.present("jobmgr")}
        self._scheduler.expire_leases(self._kernel.now, present)
        self._release_abandoned()
        self.wake()
        self.look_after()

    def _release_abandoned(self) -> None:
        given = self._scheduler.take_abandoned()
        if given:
            self._term.call("hostmgr", "on_release", ([each.offer_id for each in given],), _ignore)

    def preempt_later(self) -> None:
        """Check for preemption at the next turn of the period, while gangs wait."""
        if not self._preempting and self._term.options.limits.preemption:
            self._preempting = True
            self._at_turn(self._term.options.preemption_period, self._preempt)

    def _preempt(self) -> None:
        self._preempting = False
        if self._scheduler.pending.active or not self._term.universe.quiet:
            self.preempt_later()
        if not self._term.recovered:
            return
        victims: list[Victim] = []
        steps = self._scheduler.preemptor.steps(self._kernel.now)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                victims = end.value
                break
        self.victims += ((self._kernel.now, each) for each in victims)
        self.preempted.update(run for each in victims for run in each.runs)
        if victims and not self._sparing:
            self._sparing = True
            self._term.after(SPARE_SECONDS, self._spare)
        self.wake()

    def _spare(self) -> None:
        self._sparing = False
        if self._scheduler.preemptor.spare(self._kernel.now):
            self.wake()
        if any(task.state is TaskState.PREEMPTING for task in self._scheduler.registry):
            self._sparing = True
            self._term.after(SPARE_SECONDS, self._spare)

    def _compare(self) -> None:
        """Compare the gangs that fit on no host with the hosts there are now."""
        infeasible = self._scheduler.infeasible
        self._comparing = False
        shapes = infeasible.shapes()
        if not shapes:
            return

        def done(answer: Any) -> None:
            if not isinstance(answer, PelotonError):
                for shape, shortage in zip(shapes, answer[1], strict=True):
                    if not infeasible.gangs(shape):
                        continue
                    if shortage is None:
                        self._scheduler.bring_back(shape)
                    else:
                        self._scheduler.keep_aside(shape, shortage)
                self.wake()
            if not self._term.universe.quiet:
                self.look_after()

        self._term.call("hostmgr", "on_shortages", (list(map(resmgr_shape, shapes)),), done)

    def _at_turn(self, period: float, work: Callable[[], None]) -> None:
        left = period - (self._kernel.now - self._term.began) % period
        # The sums of seconds are not exact: what is left of a turn that is just over may be nearly nothing.
        self._term.after(left if left > _MOMENT else left + period, work)


def _ignore(answer: Any) -> None:
    """Take the answer of a call whose failure changes nothing: the claims expire."""
