"""`peloton task exec`: run a command beside a task."""

from __future__ import annotations

import sys

import click

from peloton.cli import references
from peloton.cli.groups import Command
from peloton.cli.live_names import live_jobs
from peloton.cli.params import INDEX
from peloton.cli.session import Session, pass_session


@click.command("exec", cls=Command, context_settings={"allow_interspersed_args": False})
@click.option("-i", "--stdin", is_flag=True, help="Pass standard input on.")
@click.option("-t", "--tty", is_flag=True, help="Give the command a terminal, as -i -t for a shell.")
@click.argument("job_id", metavar="JOB", type=references.JOB, shell_complete=live_jobs)
@click.argument("instance", type=INDEX)
@click.argument("command", metavar="COMMAND...", nargs=-1, required=True, type=click.UNPROCESSED)
@pass_session
def exec_(
    session: Session, stdin: bool, tty: bool, job_id: str, instance: int, command: tuple[str, ...]
) -> int:
    """Run COMMAND beside an instance that is RUNNING: with its user and environment, in its sandbox.

    One word is a line for the shell, such as 'ls -l | wc'; several words are run as they are. Flags stand
    before JOB. The exit code is that of COMMAND, 128 and the number for a signal. COMMAND ends when this
    command is interrupted, and with the task. Its Mesos agent must be reachable from here.
    Who may call ExecService.StartSession may do this.
    """
    from peloton.cli.exec import execute, place_of

    if not session.plain:
        raise click.UsageError("the output of a command is its own: it has no form as JSON, YAML or names")
    if command[0] == "--":
        command = command[1:]
    if not command:
        raise click.UsageError("the command is missing: `peloton task exec JOB INSTANCE COMMAND...`")
    with place_of(session, job_id, instance) as place:
        return execute(place, command, stdin=stdin, terminal=tty, out=sys.stdout.buffer)
