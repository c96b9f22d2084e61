"""The log of each job: a line when it is created, starts, ends, and for what users ask of it.

A line has the job's id, and that of the request which caused it. None is about a single task.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from jobmgr.core.state.change import Change
from jobmgr.core.state.decisions import Cycle
from peloton.identity.principal import author
from peloton.identity.request import request_id
from peloton.model.amounts import duration
from peloton.model.ids import JobId
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.plural import plural
from peloton.model.states import JobState

NANOSECONDS = 1_000_000_000
log = logging.getLogger(__name__)


def created(job_id: JobId, spec: JobSpec) -> None:
    """Tell that a job is stored."""
    what = f"{spec.type.name}, {_instances(spec.instance_count)}, pool {spec.pool_id}"
    log.info("job %s %r is created%s: %s%s", job_id, spec.name[:100], _by(), what, _request())


def asked(job_id: JobId, what: str, instances: Sequence[int] | None = None) -> None:
    """Tell what the present call has asked of a job, and of how many instances where not of all."""
    of = "" if instances is None else f" {_instances(len(instances))}"
    log.info("job %s: %s%s%s%s", job_id, what, of, _by(), _request())


def tell(cycle: Cycle) -> None:
    """Tell which jobs start and end with a cycle that is stored and not committed yet."""
    if not log.isEnabledFor(logging.INFO):
        return
    for change in cycle.changes.values():
        if change.runtime is not None:
            _tell(change, change.job.runtime, change.runtime)


def _tell(change: Change, before: JobRuntime, after: JobRuntime) -> None:
    if after.state is before.state:
        return
    if after.state.terminal:
        counts = ", ".join(f"{count} {state.name}" for state, count in sorted(after.task_counts.items()))
        seconds = max(after.completion_time - after.creation_time, 0) / NANOSECONDS
        whose = f", stopped by {after.goal_by}" if after.goal_by and after.state is JobState.KILLED else ""
        told = f"{after.state.name}{whose} after {duration(seconds)}: {counts or 'no instances'}"
        log.info("job %s has ended: %s", change.job_id, told)
    elif before.state.terminal:
        log.info("job %s runs again: it is %s", change.job_id, after.state.name)
    elif after.state is JobState.RUNNING and not before.start_time:
        waited = max(after.start_time - after.creation_time, 0) / NANOSECONDS
        log.info("job %s has started, %.1f s after its creation", change.job_id, waited)


def _instances(count: int) -> str:
    return plural(count, "instance")


def _by() -> str:
    who = author()
    return f" by {who}" if who else ""


def _request() -> str:
    given = request_id()
    return f" (request {given})" if given else ""
