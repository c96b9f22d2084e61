"""When the tasks on hosts end at the latest, as far as the store tells, for the plans of reservations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.runs.run_info import RunInfo, vector
from peloton.model.ids import MesosTaskId, Run
from peloton.model.job import JobSpec
from peloton.model.task import TaskRuntime

NANOSECONDS = 1_000_000_000
READS_AT_ONCE = 1000
"""Most runs that one cycle reads from the store."""


def to_read(agent_ids: Iterable[str], runs: Runs) -> Iterator[MesosTaskId]:
    """Iterate over the runs on agents of which nothing is known, as many as are read at once."""
    unknown = (run for agent_id in agent_ids for run in runs.on(agent_id) if runs.info(run) is None)
    return islice(unknown, READS_AT_ONCE)


def info_of(run: Run, runtime: TaskRuntime, spec: JobSpec, now: float, wall: int) -> RunInfo | None:
    """Return what is stored of a run; None where the instance has another one, or it has not begun to run.

    `now` is seconds on the monotonic clock, `wall` nanoseconds since 1970 at the same time.
    """
    longest = spec.sla.max_running_time
    if runtime.run != run.run or (longest and not runtime.start_time):
        return None
    began = now - max(wall - runtime.start_time, 0) / NANOSECONDS
    amounts = vector(spec.task(run.instance).resources, spec.revocable(run.instance))
    return RunInfo(amounts, began + longest if longest else None)
