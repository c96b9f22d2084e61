"""What the simulated resource manager reads of hosts, and has done there."""

from __future__ import annotations

from typing import Any

from peloton.errors import PelotonError
from peloton.model.resources import ZERO
from resmgr.core.state.classes import ClassCapacity, without_pools
from simulator.daemons.hostmgr_answers import Capacity
from simulator.daemons.resmgr_loop import Loop
from simulator.daemons.resmgr_term import Term


class Hosts:
    """The capacity of the hosts, and claims that nobody will use."""

    def __init__(self, term: Term, loop: Loop) -> None:
        self._term = term
        self._kernel = term.kernel
        self._scheduler = term.scheduler
        self._loop = loop

    def read(self) -> None:
        """Read what the hosts have, again and again while that may change."""
        options = self._term.options

        def done(answer: Any) -> None:
            stable = isinstance(answer, Capacity) and not self._set_capacity(answer)
            pause = options.capacity_interval if stable else options.capacity_first
            if not stable or not self._term.universe.quiet:
                self._term.after(pause, self.read)

        self._term.call("hostmgr", "on_capacity", (), done)

    def _set_capacity(self, answer: Capacity) -> bool:
        """Take over what hosts have; return whether that is another amount than before."""
        tree = self._scheduler.tree
        classes = without_pools({of: ClassCapacity(*has) for of, has in answer.classes.items()})
        several = dict(classes) if len(classes) > 1 else {}
        known = tree.classes.capacities if tree.classes is not None else {}
        if (answer.total, several) == (tree.capacity, known):
            return False
        self._scheduler.set_capacity(answer.total, ZERO, several)
        self._loop.wake()
        return True

    def shorten_claims(self) -> None:
        """Have the claims of the leader before this one end soon."""

        def done(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                self._term.after(1.0, self.shorten_claims)

        if self._term.number > 1:
            self._term.call("hostmgr", "on_shorten_claims", (self._kernel.now - self._term.began,), done)
