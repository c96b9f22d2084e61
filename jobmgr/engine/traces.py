"""Traces of jobs in the job manager: their creation, and each run until it is RUNNING."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from peloton.daemon.spans import Attributes
from peloton.daemon.tracing import TRACES
from peloton.model.ids import JobId, Run
from peloton.model.job import JobSpec
from peloton.model.states import TaskState
from peloton.model.task import PodEvent

MOST = 20_000
"""Runs that are followed at a time in a lane; the oldest are forgotten."""
_ON_THE_WAY = frozenset(
    {
        TaskState.INITIALIZED,
        TaskState.PENDING,
        TaskState.READY,
        TaskState.PLACING,
        TaskState.PLACED,
        TaskState.LAUNCHING,
        TaskState.LAUNCHED,
        TaskState.STARTING,
        TaskState.RESERVED,
    }
)
_FINE = frozenset({TaskState.RUNNING, TaskState.SUCCEEDED})


@dataclass(slots=True)
class _Started:
    since: int
    steps: list[tuple[int, str]] = field(default_factory=list)


class TracedRuns:
    """The traced runs of a lane that are not RUNNING yet."""

    def __init__(self) -> None:
        self._started: OrderedDict[Run, _Started] = OrderedDict()

    def observe(self, cycle: Cycle) -> None:
        """Follow the steps of a cycle that is stored, and not committed yet."""
        for job_id, change in cycle.changes.items():
            if change.events and TRACES.follows_job(job_id):
                self._observe(change)

    def _observe(self, change: Change) -> None:
        self._take_over(change)
        for event in change.events:
            if event.instance >= TRACES.instances:
                continue
            run = Run(event.job_id, event.instance, event.run)
            if event.state in _ON_THE_WAY:
                self._begin(run, event.timestamp)
            started = self._started.get(run)
            if started is not None:
                started.steps.append((event.timestamp, event.state.name))
                if event.state is TaskState.RUNNING or event.state.terminal:
                    self._end(run, started, event)

    def _take_over(self, change: Change) -> None:
        """Go on with runs that began under an earlier leader, from their last step there."""
        for instance, old in enumerate(change.job.tasks[: TRACES.instances]):
            if old.state in _ON_THE_WAY:
                self._begin(Run(change.job_id, instance, old.run), old.updated_at)

    def _begin(self, run: Run, since: int) -> None:
        if run in self._started:
            return
        if len(self._started) >= MOST:
            self._started.popitem(last=False)
        self._started[run] = _Started(since)

    def _end(self, run: Run, started: _Started, event: PodEvent) -> None:
        del self._started[run]
        error = "" if event.state in _FINE else f"{event.state.name}: {event.message or event.reason}"
        host = {"peloton.host": event.hostname} if event.hostname else {}
        TRACES.run(run, started.since, event.timestamp, host, started.steps, error)


def trace_creation(job_id: JobId, spec: JobSpec, begun: int) -> None:
    """Note that a job is stored."""
    if TRACES.follows_job(job_id):
        attributes: Attributes = {
            "peloton.job.name": spec.name,
            "peloton.job.type": spec.type.name,
            "peloton.job.instances": spec.instance_count,
            "peloton.pool_id": spec.pool_id,
        }
        TRACES.job(job_id, begun, attributes)
