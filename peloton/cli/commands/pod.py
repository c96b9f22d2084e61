"""`peloton pod`: the history of an instance."""

from __future__ import annotations

import click

from peloton.cli.commands.task import INSTANCE, JOB, RUNS, show_events
from peloton.cli.groups import Group
from peloton.cli.session import Session, pass_session


@click.group(cls=Group)
def pod() -> None:
    """Show the history of an instance, run by run."""


@pod.command()
@JOB
@INSTANCE
@click.option("-r", "--run", default="", help="Only this run: its number or Mesos task id.")
@click.option("-l", "--limit", type=RUNS, default=0, help="The last so many runs.  [default: 10]")
@pass_session
def events(session: Session, job_id: str, instance: int, run: str, limit: int) -> None:
    """Show the events of an instance's runs."""
    show_events(session, job_id, instance, run, limit)
