"""Calls of clients about services: updates, what is asked of them, and restarts.

What is asked is stored when a call is answered. A call that is made again, or whose message is repeated,
has no second effect: an update has the id that its client gives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import (
    Event,
    RestartRequested,
    WorkflowAction,
    WorkflowRequested,
    WorkflowSteered,
)
from peloton.errors import NotFound, PelotonError, Unavailable
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.workflow import Workflow, WorkflowId
from simulator.world.network import LATER, Reply
from simulator.world.store import Store

Done = Callable[[Any], None]


class ServiceLane(Protocol):
    """The job manager whose services these are."""

    def post(self, event: Event, done: Done | None = None) -> None:
        """Hand over an event."""
        ...

    def submit_write(self, write: Callable[[], Any], done: Done) -> None:
        """Have something written in this term."""
        ...

    def active_job(self, job_id: JobId) -> CachedJob | None:
        """Return an active job; None for one that has ended. Raises NotFound, and Unavailable."""
        ...


class Services:
    """Answers the calls about services."""

    def __init__(self, lane: ServiceLane, store: Store) -> None:
        self._lane = lane
        self._store = store
        self._beginning: set[WorkflowId] = set()
        """Updates that are being stored: of two requests of one id, one begins it."""

    def update(self, reply: Reply, spec: JobSpec, workflow: Workflow) -> Any:
        """Begin an update to a config, whose version is given by the store."""
        job = self._lane.active_job(workflow.job_id)
        if workflow.id in self._store.jobs[workflow.job_id].workflows:
            return None  # by an earlier call, whose answer was lost
        if job is None:
            raise NotFound(f"job {workflow.job_id} has ended")
        if workflow.id in self._beginning:
            raise Unavailable(f"update {workflow.id} is being stored")
        self._beginning.add(workflow.id)
        base = job.spec.version

        def begun(answer: Any) -> None:
            self._beginning.discard(workflow.id)
            reply(answer)

        def stored(answer: Any) -> None:
            if isinstance(answer, PelotonError):
                begun(answer)
            else:
                self._lane.post(WorkflowRequested(workflow.job_id, workflow, answer, base), begun)

        self._lane.submit_write(lambda: self._store.add_version(workflow.job_id, spec), stored)
        return LATER

    def steer(self, reply: Reply, job_id: JobId, workflow_id: WorkflowId, action: WorkflowAction) -> Any:
        """Pause an update, or have it go on or end."""
        if self._lane.active_job(job_id) is None:
            raise NotFound(f"job {job_id} has ended")
        self._lane.post(WorkflowSteered(job_id, action, workflow_id=workflow_id), reply)
        return LATER

    def restart(self, reply: Reply, job_id: JobId, instance: int) -> Any:
        """Restart an instance as far as the SLA allows."""
        if self._lane.active_job(job_id) is None:
            raise NotFound(f"job {job_id} has ended")
        self._lane.post(RestartRequested(job_id, [instance], check_sla=True), reply)
        return LATER
