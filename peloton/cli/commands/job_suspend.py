"""`peloton job suspend` and `resume`: batch jobs that are to run later."""

from __future__ import annotations

import click

from peloton.cli import references
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.session import Session, pass_session
from peloton.client.rpcs import RPCS


@click.command(cls=Command)
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def suspend(session: Session, job_id: str) -> None:
    """Stop the instances of a batch job until it is resumed. What has succeeded stays so."""
    from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb

    request = pb.SuspendJobRequest()
    request.job_id.value = job_id
    answer = session.call(RPCS.scheduling_svc.SuspendJob, request)
    session.show(answer, lambda: f"Job {job_id} is suspended")


@click.command(cls=Command)
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@pass_session
def resume(session: Session, job_id: str) -> None:
    """Let a suspended job go on. All its stopped instances begin their next runs."""
    from peloton.private.jobmgr.scheduling import scheduling_pb2 as pb

    request = pb.ResumeJobRequest()
    request.job_id.value = job_id
    answer = session.call(RPCS.scheduling_svc.ResumeJob, request)
    session.show(answer, lambda: f"Job {job_id} goes on")


SUSPENSION = (suspend, resume)
