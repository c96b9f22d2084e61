"""Traces of runs in the resource manager: in queues, and until jobmgr takes their placements."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from peloton.daemon.spans import Attributes
from peloton.daemon.tracing import TRACES
from peloton.model.ids import Run
from resmgr.core.state.entities import Gang
from resmgr.core.state.placements import Handover, Proposal, Rejection
from resmgr.drivers.loop import Driver

MOST = 20_000
"""Placed runs that are remembered; the oldest are forgotten."""


class TracedRuns:
    """The traced runs of a term. Call its methods only while TRACES.on."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._placed: OrderedDict[Run, tuple[int, str]] = OrderedDict()
        """Runs whose placement jobmgr has not taken, each with the time and its host."""

    def dequeued(self, gangs: Iterable[Gang]) -> None:
        """Note that an engine takes gangs; a gang that was given back waits from the beginning on."""
        now = TRACES.now()
        for gang in gangs:
            attributes: Attributes = {
                "peloton.pool": gang.pool.path,
                "peloton.queue": gang.admitted_from,
                "peloton.gang.tasks": len(gang.tasks),
                "peloton.gang.tries": gang.attempts.tries,
                "peloton.gang.returns": gang.attempts.returns,
                "peloton.gang.failure": gang.attempts.failure,
            }
            for task in gang.tasks:
                if TRACES.follows(task.key):
                    since = self._driver.wall(task.enqueued) if task.enqueued else now
                    TRACES.part(task.key, "queue", since, now, attributes)

    def placed(self, proposals: Sequence[Proposal], rejections: Sequence[Rejection]) -> None:
        """Note that an engine has placed runs."""
        now, rejected = TRACES.now(), {each.run for each in rejections}
        for proposal in proposals:
            for run in proposal.runs:
                if run not in rejected and TRACES.follows(run):
                    self._placed[run] = now, proposal.host
        while len(self._placed) > MOST:
            self._placed.popitem(last=False)

    def handed_over(self, given: Iterable[Handover]) -> None:
        """Note that jobmgr takes placements."""
        for each in given:
            for run in each.runs:
                since, host = self._placed.pop(run, (0, ""))
                if since:
                    TRACES.part(run, "hand over", since, TRACES.now(), {"peloton.host": host})
