"""Jobs that are found by owner or labels, shown before anything is done to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary


def one_or_found(job_id: str | None, owner: str | None, labels: object) -> None:
    """Raise UsageError unless a job is given, or something to find jobs by."""
    if bool(job_id) == bool(owner or labels):
        raise click.UsageError("give either a job's id, or --owner or --labels")


def preview(jobs: Sequence[JobSummary]) -> str:
    """Return a table of jobs, short enough to be read before a question is answered."""
    from peloton.api.v0.job import job_pb2
    from peloton.cli.listing import listing

    rows = [
        (
            job.id.value,
            job.name,
            job_pb2.JobType.Name(job.type),
            job_pb2.JobState.Name(job.runtime.state),
            job.instanceCount,
        )
        for job in jobs
    ]
    return str(listing(("ID", "Name", "Type", "State", "Instances"), rows))


def confirm(verb: str, jobs: Sequence[JobSummary], sure: bool) -> None:
    """Show jobs on standard error and ask whether to go on; `verb` says what is done. Raises Abort."""
    if jobs and not sure:
        which = "this job" if len(jobs) == 1 else f"these {plural(len(jobs), 'job')}"
        click.echo(preview(jobs), err=True)
        click.confirm(f"{verb} {which}?", abort=True, err=True)


def unended() -> list[int]:
    """Return the states of jobs that have not ended."""
    from peloton.api.v0.job import job_pb2

    return [job_pb2.UNINITIALIZED, job_pb2.INITIALIZED, job_pb2.PENDING, job_pb2.RUNNING]
