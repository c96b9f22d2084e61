"""`peloton pod`: single instances of jobs."""

from __future__ import annotations

import click

from peloton.cli.commands.pod_service import POD_COMMANDS
from peloton.cli.commands.task import INSTANCE, JOB, RUNS, show_events
from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session


@click.group(cls=Group)
def pod() -> None:
    """Look at and control single instances, each a pod named JOB-INSTANCE."""


for _command in POD_COMMANDS:
    pod.add_command(_command)


@pod.command()
@JOB
@INSTANCE
@click.option("-r", "--run", default="", help="Only this run: its number or Mesos task id.")
@click.option(
    "-l", "--limit", type=RUNS, default=0, help="Number of runs to show, the last ones.  [default: 10]"
)
@pass_session
def events(session: Session, job_id: str, instance: int, run: str, limit: int) -> None:
    """Show the events of an instance's runs."""
    show_events(session, job_id, instance, run, limit)
