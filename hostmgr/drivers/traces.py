"""Traces of runs in the host manager: from the launch until the agent reports that they run."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from hostmgr.core.cluster_manager.events import StatusEvent, StatusUpdate
from peloton.daemon.tracing import TRACES
from peloton.model.ids import Run
from peloton.model.states import TaskState

MOST = 20_000
"""Launched runs that are followed at a time; the oldest are forgotten."""
_FINE = frozenset({TaskState.RUNNING, TaskState.SUCCEEDED})


class TracedRuns:
    """The traced runs of a term that an agent is to start. Call its methods only while TRACES.on."""

    def __init__(self) -> None:
        self._launched: OrderedDict[Run, tuple[int, str]] = OrderedDict()

    def launched(self, runs: Sequence[str], host: str) -> None:
        """Note that runs are sent to a host."""
        now = TRACES.now()
        for run in TRACES.traced(runs):
            self._launched.setdefault(run, (now, host))
        while len(self._launched) > MOST:
            self._launched.popitem(last=False)

    def reported(self, statuses: Iterable[StatusEvent]) -> None:
        """Note which runs have started, or ended before."""
        for update in statuses:
            if not isinstance(update, StatusUpdate):
                continue
            status = update.status
            if status.state is not TaskState.RUNNING and not status.state.terminal:
                continue
            for run in TRACES.traced([status.mesos_task_id]):
                since, host = self._launched.pop(run, (0, ""))
                if since:
                    error = "" if status.state in _FINE else f"{status.state.name}: {status.message}"
                    TRACES.part(run, "start", since, TRACES.now(), {"peloton.host": host}, error)
