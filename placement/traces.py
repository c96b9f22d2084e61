"""Traces of runs in a placement engine: from the gang's arrival to its placement or return."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from peloton.daemon.tracing import TRACES
from peloton.model.ids import Run
from placement.core.events import Rejection
from placement.core.model import Gang, HostPlacement, Unplaced

MOST = 20_000
"""Runs that are followed at a time; the oldest are forgotten."""


class TracedRuns:
    """The traced runs of an engine. Call its methods only while TRACES.on."""

    def __init__(self, attributes: Mapping[str, str]) -> None:
        self._attributes = dict(attributes)
        self._taken: OrderedDict[Run, int] = OrderedDict()

    def taken(self, gangs: Iterable[Gang]) -> None:
        """Note that the engine takes gangs."""
        now = TRACES.now()
        for run in _runs(gangs):
            self._taken[run] = now
        while len(self._taken) > MOST:
            self._taken.popitem(last=False)

    def reported(
        self,
        placements: Sequence[HostPlacement],
        unplaced: Sequence[Unplaced],
        rejections: Sequence[Rejection],
        end: int,
    ) -> None:
        """Note what the engine has reported to resmgr, and when it began to."""
        refused = {each.run_id: each.message for each in rejections}
        for placement in placements:
            host = {"peloton.host": placement.host.hostname}
            for task in placement.tasks:
                for run in TRACES.traced([task.run_id]):
                    self._end(run, host, refused.get(task.run_id, ""), end)
        for each in unplaced:
            for run in _runs([each.gang]):
                self._end(run, {}, each.reason, end)

    def _end(self, run: Run, attributes: Mapping[str, str], error: str, end: int) -> None:
        since = self._taken.pop(run, 0)
        if since:
            TRACES.part(run, "place", since, end, {**self._attributes, **attributes}, error)


def _runs(gangs: Iterable[Gang]) -> list[Run]:
    return TRACES.traced(task.run_id for gang in gangs for task in gang.tasks)
