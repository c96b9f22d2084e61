"""Workflows as the services see them: what is asked is stored when a call returns.

Every call that changes a job takes `expected`, the entity version that the caller has seen last (None: the
caller does not care), and answers with the job's new one. All raise NotFound for an unknown job or workflow,
Unavailable while the store cannot answer, Fenced where this process no longer leads,
Conflict("unexpected entity version") for a stale version, and InvalidArgument where another workflow or the
job's type is in the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.workflow import (
    ConfigDiff,
    EntityVersion,
    Ranges,
    WorkflowEvent,
    WorkflowId,
    WorkflowOptions,
    WorkflowStatus,
)


class Begun(NamedTuple):
    """A workflow that is stored, and the version of its job with it."""

    workflow_id: WorkflowId
    version: EntityVersion


class Workflows(Protocol):
    """The workflows of services; `Engine.workflows`."""

    async def create_job(
        self, job_id: JobId, spec: JobSpec, options: WorkflowOptions, opaque_data: str = ""
    ) -> Begun:
        """Store a new service (`spec.version` 1) whose instances are added by an UPDATE from nothing.

        Raises AlreadyExists. `Engine.create_job` creates one without a workflow, all instances at once.
        """
        ...

    async def replace(
        self,
        job_id: JobId,
        spec: JobSpec,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start an UPDATE to a spec, whose version is given by the engine. It aborts an UPDATE that runs.

        Repeating the UPDATE that runs only takes the new opaque data and a new workflow version.
        """
        ...

    async def restart(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start a RESTART of the instances in half-open ranges; no range: of all. Stopped ones stay so."""
        ...

    async def start(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start a START of stopped instances, by batches."""
        ...

    async def stop(
        self,
        job_id: JobId,
        ranges: Ranges,
        options: WorkflowOptions,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
    ) -> Begun:
        """Start a STOP of instances, by batches. One of all makes the job's goal KILLED at its end."""
        ...

    async def pause(
        self, job_id: JobId, opaque_data: str = "", expected: EntityVersion | None = None
    ) -> EntityVersion:
        """Halt the job's workflow after what is in flight; nothing where it is PAUSED.

        Raises InvalidArgument where no workflow runs, as the following calls do.
        """
        ...

    async def resume(
        self, job_id: JobId, opaque_data: str = "", expected: EntityVersion | None = None
    ) -> EntityVersion:
        """Let the job's paused workflow go on; nothing where it goes on."""
        ...

    async def abort(
        self,
        job_id: JobId,
        opaque_data: str = "",
        expected: EntityVersion | None = None,
        soft: bool = False,
    ) -> EntityVersion:
        """End the job's workflow, instances stay as they are. `soft`: after what is in flight."""
        ...

    async def roll_back(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        """Bring the instances back to the config before the job's UPDATE that runs."""
        ...

    async def start_job(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        """Make the job's goal RUNNING and start all stopped instances at once."""
        ...

    async def stop_job(self, job_id: JobId, expected: EntityVersion | None = None) -> EntityVersion:
        """Make the job's goal KILLED.

        Raises Conflict while an update that starts stopped instances runs.
        """
        ...

    async def delete_job(
        self, job_id: JobId, expected: EntityVersion | None = None, force: bool = False
    ) -> None:
        """Remove a service that is KILLED; with `force` any one: it is stopped first, and removed afterwards.

        Raises Conflict for one that is not KILLED.
        """
        ...

    async def find(self, workflow_id: WorkflowId) -> WorkflowStatus:
        """Return a workflow by its id."""
        ...

    async def current(self, job_id: JobId) -> WorkflowStatus | None:
        """Return the job's workflow that runs, or ran last; None where there was none."""
        ...

    async def list(self, job_id: JobId, limit: int = 10) -> Sequence[WorkflowStatus]:
        """Return the job's last workflows, newest first. Also for a job without any."""
        ...

    async def events(
        self, workflow_id: WorkflowId, instance: int | None = None, limit: int = 0
    ) -> Sequence[WorkflowEvent]:
        """Return events of a workflow (None) or of one of its instances, newest first; limit 0: all."""
        ...

    async def all_events(self, workflow_id: WorkflowId, limit: int = 0) -> dict[int, Sequence[WorkflowEvent]]:
        """Return the last `limit` events of each instance of a workflow, newest first."""
        ...

    async def diff(self, job_id: JobId, spec: JobSpec, expected: EntityVersion | None = None) -> ConfigDiff:
        """Return what an UPDATE to a spec would do to each instance."""
        ...

    async def version(self, job_id: JobId) -> EntityVersion:
        """Return the job's entity version."""
        ...
