"""`peloton logs`: the output of one, several or all instances."""

from __future__ import annotations

import sys

import click

from peloton.cli import references
from peloton.cli.exit_codes import DONE, REFUSED
from peloton.cli.groups import Command
from peloton.cli.live_names import live_pods
from peloton.cli.params import InstanceRange, Labels
from peloton.cli.session import Session, pass_session


@click.command(cls=Command)
@click.argument(
    "targets", metavar="[JOB|JOB-INSTANCE]...", type=references.JOB_OR_POD, nargs=-1, shell_complete=live_pods
)
@click.option("-f", "--follow", is_flag=True, help="Go on until the runs have ended.")
@click.option("-l", "--labels", type=Labels(), help="The instances of all active jobs with these labels too.")
@click.option("-r", "--range", "span", type=InstanceRange(), help="from:to of each job.  [default: all]")
@click.option(
    "--filename",
    default="",
    help="The file of the sandbox to show.  [default: stdout, and stderr on standard error]",
)
@pass_session
def logs(
    session: Session,
    targets: tuple[str, ...],
    follow: bool,
    labels: list[tuple[str, str]] | None,
    span: tuple[int, int] | None,
    filename: str,
) -> int:
    """Print the output of the current runs of instances: of whole jobs, or of single ones.

    What they write to standard error is printed on standard error.

    The lines of several instances are merged, each behind its instance, and its job's name where there are
    several jobs; 100 instances at most. `task logs` prints earlier runs.
    """
    from peloton.cli.colours import has_colours
    from peloton.cli.merged_logs import MergedLogs, sources_of
    from peloton.cli.output import say

    if not targets and not labels:
        raise click.UsageError("give jobs, or instances as JOB-INSTANCE, or --labels")
    if not session.plain:
        raise click.UsageError("logs are text: `task logs -j` prints one as JSON")
    sources = sources_of(session, targets, labels, span)
    out, err = sys.stdout.buffer, sys.stderr.buffer
    merged = MergedLogs(session, sources, filename, out, err, say, has_colours(sys.stdout))
    failed = merged.follow() if follow else merged.copy()
    return REFUSED if failed else DONE
