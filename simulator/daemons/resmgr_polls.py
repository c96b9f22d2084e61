"""Callers of the simulated resource manager that wait until there is something for them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peloton.errors import PelotonError
from resmgr.core.state.entities import Holder
from simulator.daemons.resmgr_term import Term
from simulator.world.kernel import Timer
from simulator.world.network import LATER, Reply


@dataclass(slots=True, eq=False)
class _Poll:
    """A caller that waits."""

    ready: Callable[[], bool]
    answer: Callable[[], Any]
    reply: Reply
    holder: Holder | None
    timer: Timer | None = None


class Polls:
    """All callers that wait, by name."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._kernel = term.kernel
        self._waiting: dict[str, list[_Poll]] = {}

    def renew_leases(self) -> None:
        """Count those who still wait as seen now."""
        for polls in self._waiting.values():
            for poll in polls:
                if poll.holder is not None and poll.reply.wanted:
                    poll.holder.last_seen = self._kernel.now

    def wait(
        self, name: str, holder: Holder | None, ready: Callable[[], bool], answer: Callable[[], Any],
        reply: Reply, wait: float,
    ) -> Any:  # fmt: skip
        """Answer now where it is `ready`, else when it is, or after `wait` seconds."""
        if ready():
            return answer()
        poll = _Poll(ready, answer, reply, holder)
        self._waiting.setdefault(name, []).append(poll)
        if wait < math.inf:
            poll.timer = self._kernel.after(wait, self._term.life, self._end, name, poll)
        return LATER

    def _end(self, name: str, poll: _Poll) -> None:
        polls = self._waiting.get(name, [])
        if poll in polls:
            polls.remove(poll)
            poll.reply(answered(poll.answer))

    def answer(self) -> None:
        """Answer all for whom there is something now."""
        # Most often there is nothing for anybody.
        ready = [(polls, poll) for polls in self._waiting.values() for poll in polls if poll.ready()]
        for polls, poll in ready:
            if poll not in polls or not poll.ready():
                continue  # an answer before it has taken what was there
            polls.remove(poll)
            if poll.timer is not None:
                poll.timer.cancel()
            if poll.reply.wanted:
                poll.reply(answered(poll.answer))


def answered(answer: Callable[[], Any]) -> Any:
    """Return an answer, or the error that it raises."""
    try:
        return answer()
    except PelotonError as error:
        return error
