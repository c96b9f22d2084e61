"""Why an instance of an active job is in its state, or what is known of its work."""

from __future__ import annotations

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.task.gang import extra_reason
from peloton.clock import rfc3339
from peloton.model.states import TaskState


def reason_of(job: CachedJob, instance: int) -> str:
    """Return why an instance is in its state; of a live run that has saved its work, when it did last."""
    reason = job.reason(instance)
    task = job.task(instance)
    if reason or task is None:
        return reason
    if task.state is TaskState.INITIALIZED:
        return extra_reason(job, instance)
    saved = task.saved_at and not task.state.terminal
    return f"last checkpoint {rfc3339(task.saved_at)[:19]}Z" if saved else ""
